"""Programs with control flow in Python, as rows: what is exported, and inputs for every way through it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

Inputs = tuple[Any, ...]


@dataclass(frozen=True)
class Program:
    """A module, its example inputs, the axes that vary, and other inputs that lead every way through it."""

    name: str
    module: nn.Module
    example: Inputs
    others: Sequence[Inputs]
    axes: Any = None
    ifs: int | None = None


PROGRAMS: dict[str, Program] = {}
LOOPS: dict[str, Program] = {}


class Functional(nn.Module):
    """A function as a module, with a few layers that it may use."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.one, self.two = nn.Linear(3, 3), nn.Linear(3, 3)
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(4))
        self.cell = nn.LSTMCell(3, 3)
        self.register_buffer("table", torch.arange(300.0).reshape(100, 3))

    def forward(self, *args: Any) -> Any:
        return self.function(self, *args)


def rows(*sizes: int) -> list[Inputs]:
    """Tensors of three columns and so many rows."""
    return [(torch.linspace(-1, 1.5, 3 * size).reshape(size, 3),) for size in sizes]


def data(*lists: Sequence[float]) -> list[Inputs]:
    """Tensors of three columns with these numbers in the first row and the same shape."""
    return [(torch.tensor([list(numbers), [0.1, 0.2, 0.3]]),) for numbers in lists]


@dataclass
class program:
    """Makes a row of a function of ``self`` and tensors."""

    others: Sequence[Inputs]
    example: Inputs | None = None
    axes: Any = field(default_factory=lambda: ({0: "n"},))
    ifs: int | None = None
    into: dict[str, Program] = field(default_factory=lambda: PROGRAMS)

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        torch.manual_seed(0)
        example = self.others[0] if self.example is None else self.example
        axes = None if self.axes is None else (self.axes,)
        made = Program(function.__name__, Functional(function).eval(), example, self.others, axes, self.ifs)
        self.into[made.name] = made
        return function
