"""Small constructions that symbolic functions are made of; each is written in the form of the file's opset.

Sizes and axes are Python numbers where they are known, or values. ``g.op`` takes care of what moved between opsets:
attributes that became inputs, and inputs that were attributes before.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch

from onnxport.errors import OnnxExporterWarning, TranslationError
from onnxport.export_types import TrainingMode
from onnxport.symbolic.helper.parsing import _get_const, _maybe_get_const, _parse_arg
from onnxport.symbolic.helper.questions import (
    _get_tensor_rank,
    _get_tensor_sizes,
    _is_fp,
    _is_none,
    _is_packed_list,
    _unpack_list,
)
from onnxport.symbolic.session.call_options import current_options
from onnxport.symbolic.session.graph_context import GraphContext
from onnxport.symbolic.session.registration import Symbolic
from onnxport.symbolic.session.scalar_types import JitScalarType
from onnxport.torch_internals.torchscript import JitValue

__all__ = [
    "_argmin_argmax_helper",
    "_avgpool_helper",
    "_flatten_helper",
    "_generate_wrapped_number",
    "_handle_reduce_dim_none",
    "_index_fill_reshape_helper",
    "_is_split_static",
    "_lt_helper",
    "_max_helper",
    "_maybe_cast_reduce_op_input",
    "_maybe_cast_to_type",
    "_min_helper",
    "_numel_helper",
    "_op_with_optional_float_cast",
    "_optional_input_placeholder_tensor",
    "_overload_by_arg_count",
    "_reducesum_helper",
    "_reshape_helper",
    "_scatter_helper",
    "_select_helper",
    "_size_helper",
    "_slice_helper",
    "_sort_helper",
    "_squeeze_helper",
    "_topk_helper",
    "_unbind_helper",
    "_unsqueeze_helper",
    "check_training_mode",
]
"""What ``torch.onnx.symbolic_helper`` has of this, under its names."""

Integers: TypeAlias = "int | Sequence[int] | JitValue"
Values: TypeAlias = "JitValue | tuple[JitValue, ...]"


def _vector(g: GraphContext, numbers: Integers) -> JitValue:
    """Numbers as a constant vector of integers; values pass."""
    if isinstance(numbers, JitValue):
        return numbers
    items = [numbers] if isinstance(numbers, int) else list(numbers)
    return g.op("Constant", value_t=torch.tensor(items, dtype=torch.int64))


def _squeeze_helper(g: GraphContext, input: JitValue, axes_i: Integers) -> JitValue:
    """Take out the axes, which are of size 1."""
    return g.op("Squeeze", input, _vector(g, axes_i))


def _unsqueeze_helper(g: GraphContext, input: JitValue, axes_i: Integers) -> JitValue:
    """Put in axes of size 1."""
    return g.op("Unsqueeze", input, _vector(g, axes_i))


def _reducesum_helper(
    g: GraphContext,
    input: JitValue,
    axes_i: Integers | None = None,
    keepdims_i: int = 1,
    noop_with_empty_axes_i: int = 0,
) -> JitValue:
    """Sum over the axes, or over all."""
    if axes_i is None or (not isinstance(axes_i, JitValue) and not axes_i and noop_with_empty_axes_i == 0):
        return g.op("ReduceSum", input, keepdims_i=keepdims_i)
    axes = _vector(g, axes_i)
    noop = noop_with_empty_axes_i if noop_with_empty_axes_i else None
    return g.op("ReduceSum", input, axes, keepdims_i=keepdims_i, noop_with_empty_axes_i=noop)


def _reshape_helper(g: GraphContext, input: JitValue, shape: Integers, allowzero: int = 0) -> JitValue:
    """Give a tensor another shape, of numbers or computed."""
    known = _maybe_get_const(shape, "is")
    target = _vector(g, known)
    return g.op("Reshape", input, target, allowzero_i=allowzero if allowzero else None)


def _slice_helper(
    g: GraphContext, input: JitValue, axes: Integers, starts: Integers, ends: Integers, steps: Integers | None = None
) -> JitValue:
    """A part of a tensor, from starts to ends along axes."""
    given = [_vector(g, starts), _vector(g, ends), _vector(g, axes)]
    if steps is not None:
        given.append(_vector(g, steps))
    return g.op("Slice", input, *given)


def _select_helper(
    g: GraphContext, self: JitValue, dim: int | JitValue, index: int | JitValue, apply_reshape: bool = True
) -> JitValue:
    """The elements of an axis at an index; a number takes the axis out."""
    known = index if isinstance(index, JitValue) and _is_long_vector(index) else _maybe_get_const(index, "i")
    if not isinstance(known, JitValue):
        at = g.op("Constant", value_t=torch.tensor(int(known), dtype=torch.int64))
    elif apply_reshape and _get_tensor_rank(known) == 0:
        at = g.op("Reshape", known, _vector(g, [1]))
    else:
        at = known
    if JitScalarType.from_value(at, JitScalarType.UNDEFINED) not in (JitScalarType.INT64, JitScalarType.INT):
        at = g.op("Cast", at, to_i=int(JitScalarType.INT64.onnx_type()))
    return g.op("Gather", self, at, axis_i=_parse_arg(dim, "i"))


def _is_long_vector(value: JitValue) -> bool:
    return _get_tensor_rank(value) not in (0, None)


def _size_helper(g: GraphContext, self: JitValue, dim: int | JitValue) -> JitValue:
    """One size of a tensor, as a tensor."""
    shape = g.op("Shape", self)
    return _select_helper(g, shape, 0, dim)


def _numel_helper(g: GraphContext, self: JitValue) -> JitValue:
    """The number of elements of a tensor."""
    return g.op("Size", self)


def _flatten_helper(g: GraphContext, input: JitValue, start_dim: int, end_dim: int, dim: int) -> JitValue:
    """The axes from start to end as one; ``dim`` is the rank of the input."""
    start, end = start_dim % dim, end_dim % dim
    if start == end:
        return g.op("Identity", input)
    shape = g.op("Shape", input)
    parts = [g.op("Constant", value_t=torch.tensor([-1], dtype=torch.int64))]
    if start > 0:
        parts.insert(0, _slice_helper(g, shape, [0], [0], [start]))
    if end < dim - 1:
        parts.append(_slice_helper(g, shape, [0], [end + 1], [dim]))
    target = parts[0] if len(parts) == 1 else g.op("Concat", *parts, axis_i=0)
    return g.op("Reshape", input, target)


def _topk_helper(
    g: GraphContext,
    input: JitValue,
    k: int | JitValue,
    dim: int,
    largest: bool = True,
    sorted: bool = False,
    out: object = None,
) -> tuple[JitValue, JitValue]:
    """The largest or smallest elements along an axis, and where they are."""
    if not _is_none(out):
        raise TranslationError("A result can't be written into an `out` parameter in ONNX.")
    known = _maybe_get_const(k, "i")
    count = g.op("Reshape", k, _vector(g, [1])) if isinstance(known, JitValue) else _vector(g, [int(known)])
    if isinstance(known, JitValue):
        count = g.op("Cast", count, to_i=int(JitScalarType.INT64.onnx_type()))
    found = g.op("TopK", input, count, axis_i=dim, largest_i=int(largest), sorted_i=int(sorted), outputs=2)
    assert isinstance(found, tuple)
    values, indices = found
    return values, indices


def _sort_helper(
    g: GraphContext, input: JitValue, dim: int, descending: bool = True, out: object = None
) -> tuple[JitValue, JitValue]:
    """The elements along an axis in order, and where they were."""
    sizes = _get_tensor_sizes(input)
    length = None if sizes is None else sizes[dim]
    whole = _size_helper(g, input, dim) if length is None else length
    return _topk_helper(g, input, whole, dim, largest=bool(descending), sorted=True, out=out)


def _argmin_argmax_helper(g: GraphContext, input: JitValue, dim: object, keepdim: object, op_name: str) -> JitValue:
    """Where the least or greatest element is: along an axis, or in the whole tensor."""
    if _is_none(dim):
        return g.op(op_name, _reshape_helper(g, input, [-1]), axis_i=0, keepdims_i=0)
    return g.op(op_name, input, axis_i=_parse_arg(dim, "i"), keepdims_i=int(_parse_arg(keepdim, "i")))


def _lt_helper(g: GraphContext, input: JitValue, other: object) -> JitValue:
    """Where one tensor is less than another."""
    return g.op("Less", input, other)


def _extreme(g: GraphContext, self: JitValue, dim_or_y: object, keepdim: object, name: str) -> Values:
    """The least or greatest: of all elements, of two tensors, or along an axis with where it is."""
    if dim_or_y is None and keepdim is None:
        return g.op(f"Reduce{name}", self, keepdims_i=0)
    if keepdim is None:
        return g.op(name, self, dim_or_y)
    dim, keep = _get_const(dim_or_y, "i", "dim"), int(_get_const(keepdim, "i", "keepdim"))
    best = g.op(f"Reduce{name}", self, _vector(g, [dim]), keepdims_i=keep)
    return best, g.op(f"Arg{name}", self, axis_i=dim, keepdims_i=keep)


def _max_helper(g: GraphContext, self: JitValue, dim_or_y: object = None, keepdim: object = None) -> Values:
    """The greatest, in the three ways ``torch.max`` is called."""
    return _extreme(g, self, dim_or_y, keepdim, "Max")


def _min_helper(g: GraphContext, self: JitValue, dim_or_y: object = None, keepdim: object = None) -> Values:
    """The least, in the three ways ``torch.min`` is called."""
    return _extreme(g, self, dim_or_y, keepdim, "Min")


def _index_fill_reshape_helper(
    g: GraphContext, self: JitValue, dim: object, index: JitValue
) -> tuple[JitValue, JitValue]:
    """An index along an axis spread over the whole tensor, and the shape it has then."""
    axis, rank = _parse_arg(dim, "i"), _get_tensor_rank(self)
    if rank is None:
        raise TranslationError("The rank of the tensor whose elements are filled must be known.")
    if _get_tensor_rank(index) == 0:
        index = _unsqueeze_helper(g, index, [0])
    others = [at for at in range(rank) if at != axis % rank]
    spread = _unsqueeze_helper(g, index, others) if others else index
    whole = g.op("Shape", self)
    here = _unsqueeze_helper(g, _size_helper(g, index, 0), [0])
    parts = [_slice_helper(g, whole, [0], [at], [at + 1]) if at in others else here for at in range(rank)]
    shape = parts[0] if len(parts) == 1 else g.op("Concat", *parts, axis_i=0)
    return shape, g.op("Expand", spread, shape)


def _scatter_helper(g: GraphContext, self: JitValue, dim: object, index: JitValue, src: object) -> JitValue:
    """A tensor with elements replaced at indices along an axis."""
    value = _maybe_get_const(src, "t") if isinstance(src, JitValue) else src
    if isinstance(value, int | float) or (isinstance(value, torch.Tensor) and value.dim() == 0):
        kind = JitScalarType.from_value(self)
        number = torch.as_tensor(value).to(kind.dtype())
        src = g.op("Expand", g.op("Constant", value_t=number), g.op("Shape", index))
    return g.op("ScatterElements", self, index, src, axis_i=_parse_arg(dim, "i"))


def _unbind_helper(g: GraphContext, self: JitValue, dim: object, _outputs: int | None) -> JitValue | list[JitValue]:
    """The slices of an axis, as many as it is long."""
    axis = _parse_arg(dim, "i")
    sizes = _get_tensor_sizes(self)
    count = _outputs if _outputs is not None else None if sizes is None else sizes[axis]
    if count is None:
        raise TranslationError("A tensor can be unbound only along an axis whose size is known.")
    parts = [g.op("Gather", self, g.op("Constant", value_t=torch.tensor(at)), axis_i=axis) for at in range(count)]
    return parts[0] if count == 1 else parts


def _maybe_cast_to_type(g: GraphContext, value: JitValue, jit_type: JitScalarType) -> JitValue:
    """A value in another scalar type, cast only if it has another one now."""
    if JitScalarType.from_value(value, JitScalarType.UNDEFINED) is jit_type:
        return value
    return g.op("Cast", value, to_i=int(jit_type.onnx_type()))


def _maybe_cast_reduce_op_input(g: GraphContext, self: JitValue) -> JitValue:
    """What is to be summed, integers in 64 bits as torch sums them."""
    if _is_fp(self) or JitScalarType.from_value(self, JitScalarType.INT64) is JitScalarType.INT64:
        return self
    return g.op("Cast", self, to_i=int(JitScalarType.INT64.onnx_type()))


def _op_with_optional_float_cast(
    g: GraphContext,
    op_name: str,
    *args: object,
    opset_before: int | None = None,
    target_float_t: JitScalarType = JitScalarType.FLOAT,
    **kwargs: object,
) -> JitValue:
    """An operator that some opsets have for floats only, computed in floats and cast back where it must be."""
    kind = JitScalarType.from_value(args[0], JitScalarType.FLOAT)
    if _is_fp(args[0]) or (opset_before is not None and g.opset >= opset_before):
        return g.op(op_name, *args, outputs=1, **kwargs)
    inputs = [_maybe_cast_to_type(g, arg, target_float_t) if isinstance(arg, JitValue) else arg for arg in args]
    return _maybe_cast_to_type(g, g.op(op_name, *inputs, outputs=1, **kwargs), kind)


def _optional_input_placeholder_tensor(g: GraphContext) -> JitValue:
    """What stands for an optional input that is left out."""
    return g.as_value(None)


def _generate_wrapped_number(g: GraphContext, scalar: object) -> JitValue:
    """A number as a constant; the tensors beside it decide its type."""
    return g.as_value(scalar)


def _handle_reduce_dim_none(g: GraphContext, self: JitValue, op_name: str) -> JitValue:
    """A reduction of the whole tensor to a number."""
    return g.op(op_name, self, keepdims_i=0)


def _is_split_static(split_size_or_sizes: object, _outputs: int | None) -> bool:
    """Whether it is known now into which parts a tensor is split."""
    if _outputs is None:
        return False
    if isinstance(split_size_or_sizes, JitValue) and _is_packed_list(split_size_or_sizes):
        return all(item.node().kind().endswith("::Constant") for item in _unpack_list(split_size_or_sizes))
    return not isinstance(_maybe_get_const(split_size_or_sizes, "is"), JitValue)


def _avgpool_helper(
    tuple_fn: Callable[[int | Sequence[int]], Sequence[int]],
    padding: int | Sequence[int],
    kernel_size: object,
    stride: object,
    divisor_override: object,
    name: str,
) -> tuple[int, ...]:
    """The padding of an average pooling, as a tuple."""
    if divisor_override:
        raise TranslationError(f"{name} with a divisor of its own has no ONNX form.")
    return tuple(tuple_fn(padding))


def _overload_by_arg_count(fn: Callable[..., Sequence[Symbolic]]) -> Symbolic:
    """Call the one of the functions that are returned whose parse_args describes as many arguments as there are."""

    @functools.wraps(fn)
    def chosen(g: GraphContext, *args: object) -> object:
        for overload in fn(g, *args):
            if len(getattr(overload, "_arg_descriptors", ())) == len(args):
                return overload(g, *args)
        warnings.warn(f"{fn.__name__} has no form with {len(args)} arguments.", OnnxExporterWarning, stacklevel=2)
        return None

    return chosen


def check_training_mode(op_train_mode: int, op_name: str) -> None:
    """Warn if an operator is exported in another mode than the model.

    >>> import onnxport
    >>> onnxport.symbolic_helper.check_training_mode(0, "dropout")
    """
    mode = TrainingMode(current_options().training)
    if mode is TrainingMode.PRESERVE:
        return
    own = TrainingMode.TRAINING if op_train_mode else TrainingMode.EVAL
    if own is not mode:
        warnings.warn(
            f"The model is exported in mode {mode.name}, but {op_name} is in mode {own.name}; it is exported as such.",
            OnnxExporterWarning,
            stacklevel=2,
        )
