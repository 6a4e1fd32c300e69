"""How results lie in memory, told for all sizes instead of asked for the example's.

torch finds the layout of a convolution's result by asking which library would compute it, which depends on whether
the batch has one image. ``contiguous`` returns the tensor itself where the example's sizes make it so. A view of one
that is not contiguous asks which axes lie side by side, and where it can't tell, it takes the example's sizes for
granted, a batch of 1 as well. Of an example with an empty axis the order of axes can't be asked at all. Nothing of
this is seen in a file.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch

from onnxport.capture.patches.replacing import attributes_replaced, kernels_replaced
from onnxport.torch_internals.fake_tensors import (
    CHOICES_OF_CONVOLUTIONS,
    DisableTorchFunction,
    fake_impls,
    prims_common,
)
from onnxport.torch_internals.operators import DispatchKey
from onnxport.torch_internals.symbolic_sizes import free_unbacked_symbols, get_proxy_mode

_CONTIGUOUS = torch.ops.aten.contiguous.default
_ROWS = torch.contiguous_format
Order = tuple[list[int], bool]
Size = int | torch.SymInt


@contextlib.contextmanager
def orders_told_for_all_sizes() -> Iterator[None]:
    """While this is open, layouts, copies and views are told without guards on the example's sizes."""
    order = prims_common.compute_elementwise_output_logical_to_physical_perm
    replaced: list[tuple[object, str, object]] = [
        (fake_impls, "_compute_stride", _strides_of(fake_impls._compute_stride)),
        (torch.Tensor, "contiguous", _contiguous(torch.Tensor.contiguous)),
        (prims_common, order.__name__, _order_of(order)),
    ]
    replaced += [(owner, name, _unguarded(getattr(owner, name))) for owner, name in CHOICES_OF_CONVOLUTIONS]
    kernel = {DispatchKey.CompositeImplicitAutograd: _in_rows}
    with attributes_replaced(replaced), kernels_replaced({_CONTIGUOUS: kernel}):
        yield


def _order_of(original: Callable[..., Order]) -> Callable[..., Order]:
    def order_in_memory(*operands: object, **options: bool) -> Order:
        try:
            return original(*operands, **options)
        except ZeroDivisionError:
            # Reported nowhere: an empty tensor has no order, and the file knows none.
            return list(range(max(one.dim() for one in operands if isinstance(one, torch.Tensor)))), False

    return order_in_memory


def _contiguous(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """The method, which shows in the graph where the tensor itself is contiguous at the example's sizes alone."""

    def contiguous(self: torch.Tensor, *, memory_format: torch.memory_format = _ROWS) -> torch.Tensor:
        made = original(self, memory_format=memory_format)
        if made is not self or memory_format is not _ROWS or get_proxy_mode() is None or _is_in_rows(self):
            return made
        shown: torch.Tensor = _CONTIGUOUS(self)
        return shown

    return contiguous


def _in_rows(self: torch.Tensor, *, memory_format: torch.memory_format = _ROWS) -> torch.Tensor:
    in_rows = memory_format is _ROWS
    if in_rows and _is_in_rows(self):
        return self
    # Of sizes that only run time knows there is no example to ask.
    if free_unbacked_symbols(self) or not self.is_contiguous(memory_format=memory_format):
        return self.clone(memory_format=memory_format)
    return self.as_strided(self.shape, prims_common.make_contiguous_strides_for(self.shape)) if in_rows else self


def _is_in_rows(tensor: torch.Tensor) -> bool:
    """Whether a tensor is contiguous at all sizes; no size is computed with, as a capture would record that."""
    with DisableTorchFunction():
        sizes, strides = map(_expression, tensor.shape), map(_expression, tensor.stride())
    behind = sympy.S.One
    for size, stride in reversed([*zip(sizes, strides, strict=True)]):
        if size == 1:
            continue
        if not _equal(stride, behind):
            return False
        behind *= size
    return True


def _unguarded(choose: Callable[..., Any]) -> Callable[..., Any]:
    def chosen(input: torch.Tensor, *args: object, **kwargs: object) -> Any:
        sizes: Sequence[Size] = input.shape
        for size in sizes:
            if isinstance(size, torch.SymInt):
                with size.node.shape_env.suppress_guards():
                    return choose(input, *args, **kwargs)
        return choose(input, *args, **kwargs)

    return chosen


def _strides_of(original: Callable[..., list[Size] | None]) -> Callable[..., list[Size] | None]:
    def strides(
        old_shape: Sequence[Size],
        old_stride: Sequence[Size],
        new_shape: Sequence[Size],
        size_oblivious: bool = False,
    ) -> list[Size] | None:
        found = original(old_shape, old_stride, new_shape, size_oblivious)
        return _strides(old_shape, old_stride, new_shape) if found is None and size_oblivious else found

    return strides


def _strides(old_shape: Sequence[Size], old_stride: Sequence[Size], new_shape: Sequence[Size]) -> list[Size] | None:
    """The strides of a view in which each run of axes that lie side by side is divided by itself; None without one.

    One run may have a size that can't be told to be that of its parts: it is, where the numbers of elements are equal.
    """
    runs = _runs(old_shape, old_stride)
    behind = _taken(reversed(runs), list(reversed(new_shape)))
    ahead = _taken(runs[: len(runs) - len(behind)], list(new_shape[: len(new_shape) - sum(behind)]))
    if len(ahead) + len(behind) < len(runs) - 1:
        return None
    left = len(new_shape) - sum(ahead) - sum(behind)
    counts = [*ahead, *([left] if len(ahead) + len(behind) < len(runs) else []), *reversed(behind)]
    if sum(counts) < len(new_shape):
        # Axes of size 1 in front.
        counts[0] += left
    found: list[Size] = []
    for count, (_, stride) in zip(counts, runs, strict=True):
        sizes = new_shape[len(found) : len(found) + count]
        found += [stride * math.prod(sizes[place + 1 :]) for place in range(count)]
    return found


def _runs(shape: Sequence[Size], stride: Sequence[Size]) -> list[tuple[Size, Size]]:
    """Axes that lie side by side as one: how many elements there are, and how far they are apart."""
    runs: list[tuple[Size, Size]] = []
    for size, step in zip(shape, stride, strict=True):
        if _is_same(size, 1):
            continue
        if runs and _is_same(runs[-1][1], size * step):
            runs[-1] = (runs[-1][0] * size, step)
        else:
            runs.append((size, step))
    return runs or [(1, 1)]


def _taken(runs: Iterable[tuple[Size, Size]], sizes: Sequence[Size]) -> list[int]:
    """How many of the sizes each run has that is known to be their product, up to the first that is not."""
    counts: list[int] = []
    for number, _ in runs:
        start = sum(counts)
        products = (math.prod(sizes[start : start + count]) for count in range(1, len(sizes) - start + 1))
        found = next((count for count, product in enumerate(products, 1) if _is_same(product, number)), None)
        if found is None:
            break
        counts.append(found)
    return counts


def _is_same(one: Size, other: Size) -> bool:
    """Whether two numbers are the same at all sizes."""
    return _equal(_expression(one), _expression(other))


def _expression(number: Size) -> sympy.Expr:
    return number.node.expr if isinstance(number, torch.SymInt) else sympy.Integer(number)


def _equal(one: sympy.Expr, other: sympy.Expr) -> bool:
    return bool(one == other or sympy.expand(one - other) == 0)
