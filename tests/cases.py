"""One line per behaviour of an operator: what to compute, on which inputs.

``case("aten::layer_norm", fn, R("b", 4, 8))`` reads: these overloads are exercised by ``fn`` on one random
tensor whose first axis is called ``b``. Axes named by a letter are dynamic in the dynamic variant, which also runs at
other sizes; in the static variant they have their first size. The matrix is in ``test_cases.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

SIZES = {"b": (2, 3, 1), "n": (5, 4, 7), "m": (6, 8, 3), "k": (4, 5, 2)}
"""The traced size of each named axis, then the other sizes it is run at."""

Function = Callable[..., Any]


@dataclass(frozen=True)
class R:
    """A random tensor: its sizes (ints, or letters for axes that vary), dtype and range."""

    shape: tuple[int | str, ...]
    dtype: torch.dtype = torch.float32
    low: float = -2.0
    high: float = 2.0
    special: tuple[float, ...] = ()

    def __init__(
        self,
        *shape: int | str,
        dtype: torch.dtype = torch.float32,
        low: float | None = None,
        high: float | None = None,
        special: Sequence[float] = (),
    ) -> None:
        whole = not dtype.is_floating_point and not dtype.is_complex
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "dtype", dtype)
        object.__setattr__(
            self, "low", (-5 if whole and dtype.is_signed else 0 if whole else -2.0) if low is None else low
        )
        object.__setattr__(self, "high", (5 if whole else 2.0) if high is None else high)
        object.__setattr__(self, "special", tuple(special))

    def sizes(self, which: int) -> list[int]:
        return [size if isinstance(size, int) else SIZES[size][which] for size in self.shape]

    def make(self, which: int, generator: torch.Generator) -> torch.Tensor:
        shape = self.sizes(which)
        if self.dtype == torch.bool:
            return torch.rand(shape, generator=generator) > 0.5
        if self.dtype.is_complex:
            return torch.complex(*(torch.randn(shape, generator=generator) for _ in range(2))).to(self.dtype)
        if self.dtype.is_floating_point:
            values = torch.rand(shape, generator=generator) * (self.high - self.low) + self.low
            if self.special and values.numel():
                flat = values.view(-1)
                for position, item in enumerate(self.special[: flat.numel()]):
                    flat[position] = item
            return values.to(self.dtype)
        return torch.randint(int(self.low), int(self.high) + 1, shape, generator=generator).to(self.dtype)


def I(*shape: int | str, low: int = 0, high: int = 4) -> R:  # noqa: E743
    """Random int64 indices from ``low`` to ``high``, both included."""
    return R(*shape, dtype=torch.int64, low=low, high=high)


def B(*shape: int | str) -> R:
    """A random bool tensor."""
    return R(*shape, dtype=torch.bool)


@dataclass(frozen=True)
class Case:
    """A function, its inputs, and what it covers.

    ``refused`` is what the error says at the oldest opset of the matrix, where the case can't be written in it;
    ``warns`` is what the export says where axes vary.
    """

    covers: tuple[str, ...]
    function: Function
    inputs: tuple[R, ...]
    name: str = ""
    dtypes: tuple[torch.dtype, ...] = (torch.float32,)
    rtol: float = 1e-5
    atol: float = 1e-5
    dynamic: bool = True
    opsets: bool = True
    exact_values: bool = True
    xfail: str = ""
    refused: str = ""
    warns: str = ""

    def with_dtype(self, dtype: torch.dtype) -> Case:
        """The case with its float32 inputs in another dtype."""
        return replace(self, inputs=tuple(replace_dtype(spec, dtype) for spec in self.inputs))

    @property
    def is_dynamic(self) -> bool:
        return self.dynamic and any(isinstance(size, str) for spec in self.inputs for size in spec.shape)


def replace_dtype(spec: R, dtype: torch.dtype) -> R:
    if spec.dtype != torch.float32:
        return spec
    return R(*spec.shape, dtype=dtype, low=spec.low, high=spec.high, special=spec.special)


def case(covers: str, function: Function, *inputs: R, **options: Any) -> Case:
    """A row. ``covers`` names the overloads, separated by spaces; ``name`` tells rows of one overload apart."""
    names = tuple(covers.split())
    return Case(names, function, inputs, **options)


class Wrapped(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(*inputs)
