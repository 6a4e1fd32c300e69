"""Functions that take a count as a plain integer, where a size that varies would be fixed to the example's.

Their bindings read the number before any operator is recorded, so a kernel of an operator comes too late. While
capturing, each is written with operators that take sizes of any kind whenever the count varies; a plain count goes to
torch as before.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import torch
import torch.backends.opt_einsum
import torch.nn.functional as F
from torch.fx.experimental.symbolic_shapes import optimization_hint

_Number = int | float | torch.Tensor

# A size that only running tells is taken for this when contractions are put in order.
_UNKNOWN_SIZE = 64


@contextlib.contextmanager
def counts_left_open() -> Iterator[None]:
    """While this is open, these functions take counts that vary."""
    replacements: list[tuple[ModuleType, str, Callable[[Any], Any]]] = [
        (torch, "linspace", _linspace),
        (torch, "triu_indices", _triu_indices),
        (torch, "tril_indices", _tril_indices),
        (F, "one_hot", _one_hot),
        (torch.backends.opt_einsum, "get_opt_einsum", _ordering_by_example),
    ]
    saved = [(place, name, name in vars(place), getattr(place, name)) for place, name, _ in replacements]
    try:
        for (place, name, _, original), (_, _, make) in zip(saved, replacements, strict=True):
            setattr(place, name, make(original))
        yield
    finally:
        for place, name, own, original in saved:
            if own:
                setattr(place, name, original)
            else:
                delattr(place, name)


def _linspace(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def linspace(
        start: _Number, end: _Number, steps: int, *, dtype: torch.dtype | None = None, **options: Any
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


def _one_hot(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def one_hot(tensor: torch.Tensor, num_classes: int = -1) -> torch.Tensor:
        if not isinstance(num_classes, torch.SymInt):
            return original(tensor, num_classes)
        return tensor.unsqueeze(-1).eq(torch.arange(num_classes, device=tensor.device)).to(torch.int64)

    return one_hot


def _triu_indices(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def triu_indices(row: int, col: int, offset: int = 0, **options: Any) -> torch.Tensor:
        if not any(isinstance(number, torch.SymInt) for number in (row, col, offset)):
            return original(row, col, offset, **options)
        return _places(row, col, lambda down, across: (across - down).ge(offset), options)

    return triu_indices


def _tril_indices(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def tril_indices(row: int, col: int, offset: int = 0, **options: Any) -> torch.Tensor:
        if not any(isinstance(number, torch.SymInt) for number in (row, col, offset)):
            return original(row, col, offset, **options)
        return _places(row, col, lambda down, across: (across - down).le(offset), options)

    return tril_indices


def _places(
    row: int,
    col: int,
    chosen: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    options: dict[str, Any],
) -> torch.Tensor:
    device = options.get("device")
    down = torch.arange(row, device=device).unsqueeze(1)
    places = chosen(down, torch.arange(col, device=device)).nonzero().t()
    return places.to(options.get("dtype", torch.int64))


def _ordering_by_example(original: Callable[[], Any]) -> Callable[[], Any]:
    """Put the contractions of an einsum in the order that suits the example; the package reads sizes as numbers."""

    class Ordering:
        @staticmethod
        def contract_path(equation: str, *operands: torch.Tensor, **options: Any) -> Any:
            shapes = [
                tuple(optimization_hint(size, fallback=_UNKNOWN_SIZE) for size in operand.shape) for operand in operands
            ]
            return original().contract_path(equation, *shapes, shapes=True, **options)

    return lambda: Ordering
