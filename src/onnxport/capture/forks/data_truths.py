"""Functions of torch that answer Python with a truth of data at once: their tensors are asked for it instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from onnxport.capture.diagnosis.user_lines import asker
from onnxport.torch_internals.symbolic_sizes import get_proxy_mode


def comparisons_of_data() -> Iterator[tuple[object, str, object]]:
    """The functions, with what the model's code calls in their place: owner, name, function."""
    for owner in (torch, torch.Tensor):
        yield owner, "equal", _asking(_equal, owner.equal)
        yield owner, "allclose", _asking(_close, owner.allclose)
    yield torch.Tensor, "__contains__", _asking(_holds, torch.Tensor.__contains__)


def unordered_numbers() -> Iterator[tuple[object, str, object]]:
    """Comparisons of a number of data with itself, which torch takes for settled; of NaN they come out otherwise."""
    for name in ("eq", "ne", "ge", "le"):
        method = f"__{name}__"
        yield torch.SymFloat, method, _comparing(name, getattr(torch.SymFloat, method))


def _comparing(name: str, original: Callable[..., object]) -> Callable[..., object]:
    def compare(one: torch.SymFloat, other: object) -> object:
        same = isinstance(other, torch.SymFloat) and one.node.expr == other.node.expr
        if not same or get_proxy_mode() is None or not free_unbacked_symbols(one) or asker() == "torch":
            return original(one, other)
        number = torch.scalar_tensor(one, dtype=torch.float64)  # type: ignore[arg-type]
        return getattr(torch, name)(number, number).item()

    return compare


def _asking(ours: Callable[..., bool], original: Callable[..., bool]) -> Callable[..., bool]:
    def compare(*args: object, **kwargs: object) -> bool:
        is_models = get_proxy_mode() is not None and asker() != "torch"
        return (ours if is_models else original)(*args, **kwargs)

    return compare


def _equal(input: torch.Tensor, other: torch.Tensor) -> bool:
    same = input.dim() == other.dim() and all(a == b for a, b in zip(input.shape, other.shape, strict=True))
    return same and bool(torch.eq(input, other).all())


def _close(
    input: torch.Tensor, other: torch.Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    return bool(torch.isclose(input, other, rtol, atol, equal_nan).all())


def _holds(tensor: torch.Tensor, element: object) -> bool:
    return bool(torch.eq(tensor, element).any())  # type: ignore[call-overload]


def conditions_compared() -> Iterator[tuple[object, str, object]]:
    """Comparisons of conditions with True and False, which stay conditions."""
    same: Callable[..., object] = torch.SymBool.__eq__

    def is_truth(one: torch.SymBool, other: object) -> object:
        return (one if other else torch.sym_not(one)) if isinstance(other, bool) else same(one, other)

    def is_no_truth(one: torch.SymBool, other: object) -> object:
        return is_truth(one, not other) if isinstance(other, bool) else object.__ne__(one, other)

    yield torch.SymBool, "__eq__", is_truth
    yield torch.SymBool, "__ne__", is_no_truth
