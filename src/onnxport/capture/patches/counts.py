"""Functions that take a count as a plain integer, where a size that varies would be fixed to the example's.

Their bindings read the number before any operator is recorded, so a kernel of an operator comes too late. While
capturing, each is written with operators that take sizes of any kind whenever the count varies; a plain count goes to
torch as before.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from typing import Any

import torch
import torch.backends.opt_einsum
import torch.nn.functional as F

from onnxport.capture.patches.replacing import attributes_replaced
from onnxport.torch_internals.layers import device_constructors
from onnxport.torch_internals.symbolic_sizes import optimization_hint

_Number = int | float | torch.Tensor

# A size that only running tells is taken for this when contractions are put in order.
_UNKNOWN_SIZE = 64


def counts_left_open() -> contextlib.AbstractContextManager[None]:
    """While this is open, these functions take counts that vary."""
    # torch makes this set once, when a default device is first used, and it must hold torch's own functions.
    device_constructors()
    ordering: Any = torch.backends.opt_einsum
    return attributes_replaced(
        [
            (torch, "arange", _arange(torch.arange)),
            (torch, "linspace", _linspace(torch.linspace)),
            (torch, "combinations", _combinations(torch.combinations)),
            (torch, "triu_indices", _triangle(torch.triu_indices, torch.ge)),
            (torch, "tril_indices", _triangle(torch.tril_indices, torch.le)),
            *((torch, name, _window(getattr(torch, name), *shape)) for name, shape in _WINDOWS.items()),
            (F, "one_hot", _one_hot(F.one_hot)),
            (ordering, "get_opt_einsum", _ordering_by_example(ordering.get_opt_einsum)),
        ]
    )


def _arange(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Numbers written to a tensor given for them, which takes their size whatever its own was."""

    def arange(*bounds: _Number, **options: Any) -> torch.Tensor:
        into: torch.Tensor | None = options.pop("out", None)
        if into is None:
            return original(*bounds, **options)
        numbers = original(*bounds, **{**options, "dtype": into.dtype})
        return into.set_(numbers)  # type: ignore[call-overload, no-any-return]

    return arange


def _linspace(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def linspace(
        start: _Number, end: _Number, steps: int, *, dtype: torch.dtype | None = None, **options: object
    ) -> torch.Tensor:
        if not isinstance(steps, torch.SymInt) or options.get("out") is not None:
            return original(start, end, steps, dtype=dtype, **options)
        wanted = torch.get_default_dtype() if dtype is None else dtype
        # The bounds of a sequence of whole numbers are whole first; the steps between them need not be.
        computed = wanted if wanted.is_floating_point or wanted.is_complex else torch.float32
        device = options.get("device")
        first, last = (
            (bound if isinstance(bound, torch.Tensor) else torch.full((), bound, dtype=wanted, device=device))
            .to(wanted)
            .to(computed)
            for bound in (start, end)
        )
        place = torch.arange(steps, device=first.device)
        stride = (last - first) / torch.sym_max(steps - 1, 1)
        # Counted from the nearer end, so that both ends come out exactly.
        near = first + stride * place
        far = last - stride * (steps - 1 - place)
        return torch.where(place < (steps + 1) // 2, near, far).to(wanted)

    return linspace


def _combinations(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """Elements by the places of all rows in order: torch masks each column, and loses counts that it made meanwhile."""

    def combinations(input: torch.Tensor, r: int = 2, with_replacement: bool = False) -> torch.Tensor:
        if r == 0 or input.dim() != 1:
            return original(input, r, with_replacement)
        grids = torch.meshgrid(*[torch.arange(input.shape[0], device=input.device)] * r, indexing="ij")
        in_order = torch.ones_like(grids[0], dtype=torch.bool)
        for one, next_one in itertools.pairwise(grids):
            in_order = in_order & (one <= next_one if with_replacement else one < next_one)
        return input[in_order.nonzero()]

    return combinations


# The weights of the cosines of no turn, one and two; a window without is a triangle.
_WINDOWS: dict[str, tuple[float, ...]] = {
    "hann_window": (0.5, 0.5),
    "hamming_window": (0.54, 0.46),
    "blackman_window": (0.42, 0.5, 0.08),
    "bartlett_window": (),
}


def _window(original: Callable[..., torch.Tensor], *weights: float) -> Callable[..., torch.Tensor]:
    def window(
        window_length: int,
        periodic: bool = True,
        *others: float,
        dtype: torch.dtype | None = None,
        **options: object,
    ) -> torch.Tensor:
        given = others if not others or len(others) == len(weights) else (*others, *weights[len(others) :])
        if not isinstance(window_length, torch.SymInt):
            return original(window_length, periodic, *given, dtype=dtype, **options)
        wanted = torch.get_default_dtype() if dtype is None else dtype
        places = torch.arange(window_length, dtype=wanted)
        turns = places / torch.sym_max(window_length - (0 if periodic else 1), 1)
        if weights:
            parts = enumerate(given if given else weights)
            found = sum((-1) ** k * weight * torch.cos(2 * torch.pi * k * turns) for k, weight in parts)
        else:
            found = 1 - (2 * turns - 1).abs()
        # A window of one is all of it.
        alone = torch.scalar_tensor(window_length) == 1
        return torch.where(alone, torch.ones_like(turns), found)

    return window


def _one_hot(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def one_hot(tensor: torch.Tensor, num_classes: int = -1) -> torch.Tensor:
        if not isinstance(num_classes, torch.SymInt):
            coded = original(tensor, num_classes)
            if all(isinstance(size, int) for size in tensor.shape):
                return coded
            # On the way to a fake result it is laid out like the classes, and eager's lies row by row.
            return coded.contiguous()
        return tensor.unsqueeze(-1).eq(torch.arange(num_classes, device=tensor.device)).to(torch.int64)

    return one_hot


def _triangle(
    original: Callable[..., torch.Tensor], compare: Callable[[torch.Tensor, int], torch.Tensor]
) -> Callable[..., torch.Tensor]:
    """The places whose column, less their row, compares so with the offset."""

    def indices(row: int, col: int, offset: int = 0, **options: Any) -> torch.Tensor:
        if not any(isinstance(number, torch.SymInt) for number in (row, col, offset)):
            return original(row, col, offset, **options)
        device = options.get("device")
        diagonals = torch.arange(col, device=device) - torch.arange(row, device=device).unsqueeze(1)
        return compare(diagonals, offset).nonzero().t().to(options.get("dtype", torch.int64))

    return indices


def _ordering_by_example(original: Callable[[], Any]) -> Callable[[], Any]:
    """Put the contractions of an einsum in the order that suits the example; the package reads sizes as numbers."""

    class Ordering:
        @staticmethod
        def contract_path(equation: str, *operands: torch.Tensor, **options: object) -> Any:
            shapes = [
                tuple(optimization_hint(size, fallback=_UNKNOWN_SIZE) for size in operand.shape) for operand in operands
            ]
            return original().contract_path(equation, *shapes, shapes=True, **options)

    return lambda: Ordering
