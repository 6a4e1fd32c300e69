"""Higher-order operators: nested, closing over parameters and sizes, at sizes not traced."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch._higher_order_ops.associative_scan import associative_scan_op
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

import onnxport
from comparison import exported_and_compared


class Nested(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def positive(x: torch.Tensor) -> torch.Tensor:
            return self.linear(x) + x.shape[0]

        def negative(x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.mean() < -1, lambda x: x * 2, lambda x: x * 3, (x,))

        return torch.cond(x.sum() > 0, positive, negative, (x,))


class SameBranch(torch.nn.Module):
    """A branch that gives back what came in, and one that gives a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))

    def forward(self, x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, lambda x: (x + 0, x * 1), lambda x: (x - 1, x + self.weight), (x,))


class Counted(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        start = torch.zeros((), dtype=torch.int64)
        return while_loop(lambda i, x: i < 5, lambda i, x: (i + 1, x * 2 + x.shape[0]), (start, x))


class CountedByInt(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return while_loop(lambda i, x: i < 5, lambda i, x: (i + 2, x * i), (1, x))


class UntilLarge(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return while_loop(lambda x: x.abs().sum() < 100, lambda x: (x * 2,), (x,))


class Scanned(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((3,), 0.5))

    def forward(self, x: torch.Tensor) -> Any:
        return scan(lambda carry, item: (carry + item * self.weight, carry * item), x[0], x)


class ScannedOverNumbers(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return scan(lambda carry, n: (carry + n, carry * n), x[0], torch.arange(x.shape[0]))


class Mapped(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return torch_map(lambda item, other: item * 2 + other.sum(), x, x + 1)


class AssociativelyScanned(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        # torch's own wrapper takes this operator on accelerators only.
        return associative_scan_op(lambda a, b: (a * b,), [x], ())


MODULES = [
    Nested,
    SameBranch,
    Counted,
    CountedByInt,
    UntilLarge,
    Scanned,
    ScannedOverNumbers,
    Mapped,
    AssociativelyScanned,
]


@pytest.mark.parametrize("opset", [18, 20, 23])
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_equals_eager(module: type[torch.nn.Module], dynamic: bool, opset: int) -> None:
    torch.manual_seed(0)
    model = module().eval()
    rows = (4, 2, 7) if dynamic else (4,)
    examples = [(torch.randn(count, 3) + offset,) for count in rows for offset in (-2.0, 0.0, 2.0)]
    exported_and_compared(model, *examples, axes=[{0: "n"}] if dynamic else None, opset_version=opset)


def test_branches_hold_their_own_work() -> None:
    program = onnxport.export(Nested(), (torch.randn(4, 3),))
    outer = [node.op_type for node in program.model.graph]
    assert "If" in outer
    assert "Gemm" not in outer
