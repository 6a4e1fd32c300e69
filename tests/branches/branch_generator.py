"""Random programs with branches in Python: data and sizes, nested, with writes, early returns and layers."""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Iterator
from pathlib import Path

import torch

SIZES = (6, 1, 2, 3, 4, 7, 8, 12)
_CONDITIONS = (
    "x.sum() > {f}",
    "(x > {f}).any()",
    "(x < {f}).all()",
    "x[0, 0].item() > {f}",
    "x.abs().max() >= {f}",
    "x.shape[0] > {n}",
    "x.shape[0] % {m} == {r}",
    "x.shape[0] == {n}",
    "x.shape[0] >= {n} and x.mean() > {f}",
    "x.shape[0] < {n} or x.sum() < {f}",
    "not (x.sum() > {f})",
)
_STATEMENTS = (
    "x = x * {f} + 1",
    "x = self.one(x)",
    "x = self.two(x).tanh()",
    "x = x - x.mean(0)",
    "x = torch.cat([x, x[:1] + {f}])",
    "x = x.clone()\n{pad}x[0] = {f}",
    "x = x + 0\n{pad}x[:, 1] += {f}",
    "x = (x * 1).add_({f})",
    "x = torch.where(x > {f}, x, -x)",
    "x = x.flip(0)",
    "x = F.pad(x, (0, 0, 0, 1))",
    "y = x.sum(0) + {f}\n{pad}x = x + y",
    "x = x.sort(0).values",
    "x = x[: max(x.shape[0] // 2, 1)]",
)


def source(seed: int) -> str:
    """The text of a module with one class ``Model``."""
    draw = random.Random(seed)
    body = "\n".join(_block(draw, "        ", depth=0, decisions=[4]))
    return (
        "import torch\nimport torch.nn.functional as F\n\n\nclass Model(torch.nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        "        self.one, self.two = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)\n\n"
        f"    def forward(self, x):\n{body}\n        return x, x.abs().sum(0)\n"
    )


def _block(draw: random.Random, pad: str, depth: int, decisions: list[int]) -> Iterator[str]:
    for _ in range(draw.randint(2, 4)):
        if decisions[0] > 0 and depth < 3 and draw.random() < 0.45:
            decisions[0] -= 1
            yield f"{pad}if {_filled(draw, draw.choice(_CONDITIONS), pad)}:"
            yield from _block(draw, pad + "    ", depth + 1, decisions)
            if draw.random() < 0.2:
                yield f"{pad}    return x * 2, x.sum(0)"
            if draw.random() < 0.5:
                yield f"{pad}else:"
                yield from _block(draw, pad + "    ", depth + 1, decisions)
        else:
            yield pad + _filled(draw, draw.choice(_STATEMENTS), pad)


def _filled(draw: random.Random, text: str, pad: str) -> str:
    divisor = draw.choice((2, 3, 4))
    return text.format(
        f=draw.choice((-1.5, -0.25, 0.37, 0.81, 2.3)),
        n=draw.choice((1, 2, 3, 5, 7, 9)),
        m=divisor,
        r=draw.randrange(divisor),
        pad=pad,
    )


def model(seed: int, folder: Path) -> torch.nn.Module:
    """Build the program of a seed from a file, so that its lines have one."""
    file = folder / f"program_{seed}.py"
    file.write_text(source(seed), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(f"program_{seed}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.manual_seed(seed)
    built: torch.nn.Module = module.Model().eval()
    return built


def inputs(seed: int) -> Iterator[torch.Tensor]:
    """Tensors of several sizes and signs, the first of which is the example."""
    generator = torch.Generator().manual_seed(seed)
    for size in SIZES:
        for shift in (0.0, 1.3, -1.7):
            yield torch.randn(size, 3, generator=generator) + shift
