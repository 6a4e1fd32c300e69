"""Views: the same elements in another shape, order or dtype."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

import torch

from onnxport.aten.axes import axis_of
from onnxport.errors import TranslationError
from onnxport.onnx_build.literals import INT64_MAX
from onnxport.translate import Builder, Dim, Int, Tensor, translates
from onnxport.translate.dims import broadcast, product


@translates(
    "aten::alias",
    "aten::clone",
    "aten::contiguous",
    "aten::detach",
    "aten::lift_fresh_copy",
    "aten::positive",
    complex="same",
)
def identity(op: Builder, self: Tensor) -> Tensor:
    return self


@translates(
    "aten::to.dtype",
    "aten::to.dtype_layout",
    "aten::to.device",
    "aten::to.other",
    "aten::_to_copy",
    complex="same",
)
def to(op: Builder, self: Tensor, dtype: torch.dtype | None = None, other: Tensor | None = None) -> Tensor:
    if other is not None:
        dtype = other.dtype
    return self if dtype is None else op.cast(self, dtype)


@translates("aten::type_as", complex="same")
def type_as(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    return op.cast(self, other.dtype)


@translates("aten::copy", complex="same")
def copy(op: Builder, self: Tensor, src: Tensor) -> Tensor:
    return op.expand(op.cast(src, self.dtype), self.shape)


# Shapes


@translates("aten::_shape_as_tensor")
def shape_as_tensor(op: Builder, self: Tensor) -> Tensor:
    return op.Shape(self)


@translates("aten::_reshape_from_tensor")
def reshape_from_tensor(op: Builder, self: Tensor, shape: Tensor) -> Tensor:
    return op.Reshape(self, op.cast(shape, torch.int64))


@translates("aten::view", "aten::_unsafe_view", complex="same")
def view(op: Builder, self: Tensor, size: Sequence[Int]) -> Tensor:
    return op.reshape(self, _resolved(self, size))


@translates("aten::reshape", complex="same")
def reshape(op: Builder, self: Tensor, shape: Sequence[Int]) -> Tensor:
    return op.reshape(self, _resolved(self, shape))


def _resolved(self: Tensor, shape: Sequence[Int]) -> list[Int]:
    """The shape with a ``-1`` replaced by the size it stands for."""
    sizes = list(shape)
    if -1 in sizes:
        missing = sizes.index(-1)
        sizes[missing] = product(self.shape) // product(size for size in sizes if size != -1)
    return sizes


@translates("aten::view_as", "aten::reshape_as", complex="same")
def view_as(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    return op.reshape(self, other.shape)


@translates("aten::view.dtype")
def view_dtype(op: Builder, self: Tensor, dtype: torch.dtype) -> Tensor:
    one_byte = {torch.bool, torch.uint8, torch.int8}
    if self.dtype == dtype:
        return self
    # A bool is stored as 0 or 1, so its bits are its value; the other way round torch itself leaves the result open.
    if {self.dtype, dtype} <= one_byte:
        return op.cast(self, dtype)
    if self.dtype.itemsize != dtype.itemsize:
        raise TranslationError(
            f"reading the bits of {self.dtype} as {dtype} has no ONNX form, as their widths differ; convert the values "
            "with `.to()` instead"
        )
    return op.custom("", "BitCast", [self], {"to": dtype}, [(dtype, self.shape)], version=26)[0]


@translates("aten::ravel", complex="same")
def ravel(op: Builder, self: Tensor) -> Tensor:
    return op.reshape(self, [product(self.shape)])


@translates("aten::flatten.using_ints", complex="same")
def flatten(op: Builder, self: Tensor, start_dim: int, end_dim: int) -> Tensor:
    first, last = axis_of(start_dim, self.rank), axis_of(end_dim, self.rank)
    sizes = self.shape
    return op.reshape(self, [*sizes[:first], product(sizes[first : last + 1]), *sizes[last + 1 :]])


@translates("aten::unflatten.int", complex="same")
def unflatten(op: Builder, self: Tensor, dim: int, sizes: Sequence[Int]) -> Tensor:
    axis = axis_of(dim, self.rank)
    wanted = list(sizes)
    if -1 in wanted:
        wanted[wanted.index(-1)] = self.shape[axis] // product(size for size in wanted if size != -1)
    return op.reshape(self, [*self.shape[:axis], *wanted, *self.shape[axis + 1 :]])


@translates("aten::resize", complex="same")
def resize(op: Builder, self: Tensor, size: Sequence[Int]) -> Tensor:
    flat, held, wanted = ravel(op, self), product(self.shape), product(size)
    if held == wanted:
        return op.reshape(self, size)
    if isinstance(held, Dim) or isinstance(wanted, Dim) or held < wanted:
        # What torch leaves uninitialised is zero here.
        flat = op.Concat(flat, op.full(0, [wanted], self.dtype), axis=0)
    return op.reshape(op.slice(flat, 0, 0, wanted), size)


@translates("aten::unsqueeze", complex="same")
def unsqueeze(op: Builder, self: Tensor, dim: int) -> Tensor:
    return op.unsqueeze(self, [axis_of(dim, self.rank + 1)])


@translates("aten::squeeze", "aten::squeeze.dim", "aten::squeeze.dims", complex="same")
def squeeze(op: Builder, self: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    candidates = range(self.rank) if dim is None else [dim] if isinstance(dim, int) else dim
    axes = sorted(axis_of(axis, self.rank) for axis in candidates) if self.rank else []
    return op.squeeze(self, [axis for axis in axes if self.shape[axis] == 1])


@translates("aten::expand", complex="same")
def expand(op: Builder, self: Tensor, size: Sequence[Int], implicit: bool) -> Tensor:
    kept = [1] * (len(size) - self.rank) + list(self.shape)
    return op.expand(self, [old if new == -1 else new for old, new in zip(kept, size, strict=True)])


@translates("aten::broadcast_to", complex="same")
def broadcast_to(op: Builder, self: Tensor, size: Sequence[Int]) -> Tensor:
    return expand(op, self, size, implicit=False)


@translates("aten::expand_as", complex="same")
def expand_as(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    return op.expand(self, other.shape)


@translates("aten::broadcast_tensors", complex="same")
def broadcast_tensors(op: Builder, tensors: Sequence[Tensor]) -> Sequence[Tensor]:
    shapes = op.result_shapes()
    expanded = [op.expand(tensor, shape) for tensor, shape in zip(tensors, shapes, strict=True)]
    if broadcast([tensor.known_shape for tensor in tensors]) is not None and not _share_an_open_axis(tensors):
        return expanded
    # torch takes sizes that data decide for equal to each other and to those of axes, but one of them may be 1.
    for other in tensors:
        lengths = op.Shape(other)
        expanded = [op.Expand(x, lengths).with_shape(shape) for x, shape in zip(expanded, shapes, strict=True)]
    return expanded


def _share_an_open_axis(tensors: Sequence[Tensor]) -> bool:
    """Whether two tensors have one size on an axis that varies: a count of data that met it is called the same."""
    # The lengths of a complex tensor are one more.
    if any(tensor.is_complex for tensor in tensors):
        return False
    aligned = zip_longest(*(reversed(tensor.shape) for tensor in tensors), fillvalue=1)
    return any(len(open_sizes) > 1 for sizes in aligned if (open_sizes := [x for x in sizes if isinstance(x, Dim)]))


# Order of dimensions


@translates("aten::transpose.int", "aten::swapdims", "aten::swapaxes", complex="same")
def transpose(
    op: Builder, self: Tensor, dim0: int = 0, dim1: int = 0, axis0: int | None = None, axis1: int | None = None
) -> Tensor:
    order = list(range(self.rank))
    if order:
        first = axis_of(dim0 if axis0 is None else axis0, self.rank)
        second = axis_of(dim1 if axis1 is None else axis1, self.rank)
        order[first], order[second] = second, first
    return op.transpose(self, order)


@translates("aten::t", "aten::numpy_T", complex="same")
def reverse_dims(op: Builder, self: Tensor) -> Tensor:
    return op.transpose(self, list(reversed(range(self.rank))))


@translates("aten::mT", complex="same")
def matrix_transpose(op: Builder, self: Tensor) -> Tensor:
    return transpose(op, self, -2, -1)


@translates("aten::permute", complex="same")
def permute(op: Builder, self: Tensor, dims: Sequence[int]) -> Tensor:
    return op.transpose(self, [axis_of(dim, self.rank) for dim in dims])


@translates(
    "aten::movedim.int", "aten::movedim.intlist", "aten::moveaxis.int", "aten::moveaxis.intlist", complex="same"
)
def movedim(op: Builder, self: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    sources = [axis_of(dim, self.rank) for dim in ([source] if isinstance(source, int) else source)]
    targets = [axis_of(dim, self.rank) for dim in ([destination] if isinstance(destination, int) else destination)]
    placed = dict(zip(targets, sources, strict=True))
    others = iter(axis for axis in range(self.rank) if axis not in sources)
    return op.transpose(self, [placed[axis] if axis in placed else next(others) for axis in range(self.rank)])


# Parts


@translates("aten::slice.Tensor", complex="same")
def slice_(op: Builder, self: Tensor, dim: int, start: Int | None, end: Int | None, step: Int) -> Tensor:
    axis = axis_of(dim, self.rank)
    size = self.shape[axis]
    first: Int = 0 if start is None else start
    last: Int = INT64_MAX if end is None else end
    takes_all = first == 0 and step == 1 and (last == size or (isinstance(last, int) and last >= INT64_MAX))
    if takes_all or (first == 0 and step == 1 and isinstance(last, int) and isinstance(size, int) and last >= size):
        return self
    return op.Slice(self, [first], [last], [axis], None if step == 1 else [step])


@translates("aten::narrow", complex="same")
def narrow(op: Builder, self: Tensor, dim: int, start: Int, length: Int) -> Tensor:
    axis = axis_of(dim, self.rank)
    first = from_front(op, start, self.shape[axis])
    if isinstance(first, Tensor):
        return op.Slice(self, first, first + op.ints([length]), [axis])
    return op.Slice(self, [first], [first + length], [axis])


def from_front(op: Builder, position: Int, size: Int) -> Int | Tensor:
    """A position counted from either end, counted from the front; a vector of length 1 where only run time can tell."""
    if isinstance(position, int):
        return position + size if position < 0 else position
    if position.expr.is_nonnegative:
        return position
    vector = op.ints([position])
    return op.Where(vector < 0, vector + op.ints([size]), vector).with_shape([1])
