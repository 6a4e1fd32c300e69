"""Random programs: statements in Python over tensors of many kinds, kept only if eager runs them at every size."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F

from fuzz.statements import CHOICES

WIDTH = 6
SIZES: tuple[tuple[int, int], ...] = ((5, 4), (3, 1), (0, 7))
"""What the axes ``n`` and ``m`` are in the example, and in the runs after it."""

Environment = dict[str, object]


class Fuzzed(torch.nn.Module):
    """A module with parts that statements use; its forward is a program's text."""

    def __init__(self, forward: Callable[..., object]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = torch.nn.Linear(WIDTH, WIDTH)
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.block = torch.nn.Sequential(torch.nn.Linear(WIDTH, 3), torch.nn.GELU(), torch.nn.Linear(3, WIDTH))
        self.conv = torch.nn.Conv1d(1, 2, 3, padding=1)
        self.register_buffer("scale", torch.linspace(0.5, 2, WIDTH))
        self.register_buffer("counts", torch.arange(WIDTH))
        self.function = forward

    def forward(self, *inputs: torch.Tensor) -> object:
        return self.function(self, *inputs)


@dataclass(frozen=True)
class Program:
    """Statements, each with the name it defines, and the names that are returned."""

    statements: tuple[tuple[str, str], ...]
    returned: tuple[str, ...]

    def text(self) -> str:
        """The program as the Python function that it is."""
        lines = [f"    {statement}" for _, statement in self.statements]
        return "\n".join(["def forward(self, x, y, k, u, p):", *lines, f"    return ({', '.join(self.returned)},)", ""])

    def module(self) -> Fuzzed:
        """The module whose forward it is."""
        scope: dict[str, object] = {"torch": torch, "F": F}
        exec(compile(self.text(), "<fuzz>", "exec"), scope)
        return Fuzzed(scope["forward"]).eval()  # type: ignore[arg-type]

    def without(self, index: int) -> Program:
        """The program without one statement, and without its name among the results."""
        name = self.statements[index][0]
        rest = (*self.statements[:index], *self.statements[index + 1 :])
        return Program(rest, tuple(other for other in self.returned if other != name))

    def returning(self, names: Sequence[str]) -> Program:
        """The program with other results."""
        return replace(self, returned=tuple(names))


def inputs(sizes: tuple[int, int], seed: int = 0) -> tuple[torch.Tensor, ...]:
    """Inputs of all kinds: floats, floats of two dynamic axes, int64, uint8 and truth values."""
    n, m = sizes
    made = torch.Generator().manual_seed(seed)
    return (
        torch.randn(n, WIDTH, generator=made),
        torch.randn(n, m, generator=made),
        torch.randint(-4, 5, (n, WIDTH), generator=made),
        torch.randint(0, 256, (n, WIDTH), generator=made, dtype=torch.uint8),
        torch.rand(n, m, generator=made) > 0.5,
    )


def generate(seed: int, fewest: int = 20, most: int = 60) -> Program:
    """A program of some number of statements; those that eager refuses at one of the sizes are left out."""
    draw = random.Random(seed)
    module = Fuzzed(lambda *_: None).eval()
    names = ["x", "y", "k", "u", "p"]
    scopes: list[Environment] = [
        {"torch": torch, "F": F, "self": module, **dict(zip(names, inputs(size), strict=True))} for size in SIZES
    ]
    statements: list[tuple[str, str]] = []
    wanted, attempts = draw.randint(fewest, most), 0
    while len(statements) < wanted and attempts < 40 * wanted:
        attempts += 1
        name = f"v{len(statements)}"
        statement = f"{name} = {draw.choice(CHOICES)(draw, [*names, *names[-6:]], scopes[0])}"
        if _runs(statement, name, scopes):
            statements.append((name, statement))
            names.append(name)
    return Program(tuple(statements), tuple(name for name, _ in statements))


def _runs(statement: str, name: str, scopes: Sequence[Environment]) -> bool:
    """Run a statement at every size on copies first, so that one that fails leaves nothing half written."""
    for trial in (True, False):
        kinds = set()
        for scope in scopes:
            target = _copied(scope) if trial else scope
            try:
                with torch.no_grad():
                    exec(statement, target)
            except (RuntimeError, IndexError, ValueError, TypeError):
                return False
            result = target[name]
            if not isinstance(result, torch.Tensor) or result.numel() > 4000:
                return False
            kinds.add((result.dtype, result.dim()))
        if len(kinds) != 1:
            return False
    return True


def _copied(scope: Environment) -> Environment:
    """Other tensors with the same memory among each other."""
    tensors = {name: value for name, value in scope.items() if isinstance(value, torch.Tensor)}
    storages = {value.untyped_storage().data_ptr(): value.untyped_storage().clone() for value in tensors.values()}
    copies: Environment = dict(scope)
    for name, value in tensors.items():
        fresh = torch.empty(0, dtype=value.dtype)
        storage = storages[value.untyped_storage().data_ptr()]
        copies[name] = fresh.set_(storage, value.storage_offset(), value.shape, value.stride())
    return copies
