"""Small constructions that symbolic functions are made of; each is written in the form of the file's opset.

Sizes and axes are Python numbers where they are known, or values. ``g.op`` takes care of what moved between opsets:
attributes that became inputs, and inputs that were attributes before.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnxport.errors import OnnxExporterWarning, TranslationError
from onnxport.export_types import TrainingMode
from onnxport.symbolic.api.mode import current_mode
from onnxport.symbolic.helper.parsing import get_const, maybe_get_const, parse_arg
from onnxport.symbolic.helper.questions import (
    get_tensor_rank,
    get_tensor_sizes,
    is_fp,
    is_none,
    is_packed_list,
    unpack_list,
)
from onnxport.symbolic.session.scalar_types import JitScalarType
from onnxport.torch_internals.torchscript import JitValue

Value = JitValue


def _vector(g: Any, numbers: Any) -> Any:
    """Numbers as a constant vector of integers; values pass."""
    if isinstance(numbers, Value):
        return numbers
    items = [numbers] if isinstance(numbers, int) else list(numbers)
    return g.op("Constant", value_t=torch.tensor(items, dtype=torch.int64))


def squeeze(g: Any, input: Any, axes_i: Any) -> Any:
    """Take out the axes, which are of size 1."""
    return g.op("Squeeze", input, _vector(g, axes_i))


def unsqueeze(g: Any, input: Any, axes_i: Any) -> Any:
    """Put in axes of size 1."""
    return g.op("Unsqueeze", input, _vector(g, axes_i))


def reducesum(g: Any, input: Any, axes_i: Any = None, keepdims_i: int = 1, noop_with_empty_axes_i: int = 0) -> Any:
    """Sum over the axes, or over all."""
    if axes_i is None or (not isinstance(axes_i, Value) and not axes_i and noop_with_empty_axes_i == 0):
        return g.op("ReduceSum", input, keepdims_i=keepdims_i)
    axes = _vector(g, axes_i)
    noop = noop_with_empty_axes_i if noop_with_empty_axes_i else None
    return g.op("ReduceSum", input, axes, keepdims_i=keepdims_i, noop_with_empty_axes_i=noop)


def reshape(g: Any, input: Any, shape: Any, allowzero: int = 0) -> Any:
    """Give a tensor another shape, of numbers or computed."""
    known = maybe_get_const(shape, "is")
    target = _vector(g, known)
    return g.op("Reshape", input, target, allowzero_i=allowzero if allowzero else None)


def slice_(g: Any, input: Any, axes: Any, starts: Any, ends: Any, steps: Any = None) -> Any:
    """A part of a tensor, from starts to ends along axes."""
    given = [_vector(g, starts), _vector(g, ends), _vector(g, axes)]
    if steps is not None:
        given.append(_vector(g, steps))
    return g.op("Slice", input, *given)


def select(g: Any, self: Any, dim: Any, index: Any, apply_reshape: bool = True) -> Any:
    """The elements of an axis at an index; a number takes the axis out."""
    known = maybe_get_const(index, "i") if not isinstance(index, Value) or not _is_long_vector(index) else index
    if not isinstance(known, Value):
        index = g.op("Constant", value_t=torch.tensor(int(known), dtype=torch.int64))
    elif apply_reshape and get_tensor_rank(index) == 0:
        index = g.op("Reshape", index, _vector(g, [1]))
    if isinstance(index, Value) and JitScalarType.from_value(index, JitScalarType.UNDEFINED) not in (
        JitScalarType.INT64,
        JitScalarType.INT,
    ):
        index = g.op("Cast", index, to_i=int(JitScalarType.INT64.onnx_type()))
    return g.op("Gather", self, index, axis_i=int(maybe_get_const(dim, "i")))


def _is_long_vector(value: Value) -> bool:
    return get_tensor_rank(value) not in (0, None)


def size(g: Any, self: Any, dim: Any) -> Any:
    """One size of a tensor, as a tensor."""
    shape = g.op("Shape", self)
    return select(g, shape, 0, dim)


def numel(g: Any, self: Any) -> Any:
    """The number of elements of a tensor."""
    return g.op("Size", self)


def flatten(g: Any, input: Any, start_dim: int, end_dim: int, dim: int) -> Any:
    """The axes from start to end as one; ``dim`` is the rank of the input."""
    start, end = start_dim % dim, end_dim % dim
    if start == end:
        return g.op("Identity", input)
    shape = g.op("Shape", input)
    parts = [g.op("Constant", value_t=torch.tensor([-1], dtype=torch.int64))]
    if start > 0:
        parts.insert(0, slice_(g, shape, [0], [0], [start]))
    if end < dim - 1:
        parts.append(slice_(g, shape, [0], [end + 1], [dim]))
    target = parts[0] if len(parts) == 1 else g.op("Concat", *parts, axis_i=0)
    return g.op("Reshape", input, target)


def topk(
    g: Any, input: Any, k: Any, dim: int, largest: bool = True, sorted: bool = False, out: Any = None
) -> tuple[Any, Any]:
    """The largest or smallest elements along an axis, and where they are."""
    if not is_none(out):
        raise TranslationError("A result can't be written into an `out` parameter in ONNX.")
    known = maybe_get_const(k, "i")
    count = g.op("Reshape", k, _vector(g, [1])) if isinstance(known, Value) else _vector(g, [int(known)])
    if isinstance(known, Value):
        count = g.op("Cast", count, to_i=int(JitScalarType.INT64.onnx_type()))
    values, indices = g.op("TopK", input, count, axis_i=dim, largest_i=int(largest), sorted_i=int(sorted), outputs=2)
    return values, indices


def sort(g: Any, input: Any, dim: int, descending: bool = True, out: Any = None) -> tuple[Any, Any]:
    """The elements along an axis in order, and where they were."""
    sizes = get_tensor_sizes(input)
    length = None if sizes is None else sizes[dim]
    whole = size(g, input, dim) if length is None else length
    return topk(g, input, whole, dim, largest=bool(descending), sorted=True, out=out)


def argmin_argmax(g: Any, input: Any, dim: Any, keepdim: Any, op_name: str) -> Any:
    """Where the least or greatest element is: along an axis, or in the whole tensor."""
    if is_none(dim):
        return g.op(op_name, reshape(g, input, [-1]), axis_i=0, keepdims_i=0)
    return g.op(op_name, input, axis_i=parse_arg(dim, "i"), keepdims_i=int(parse_arg(keepdim, "i")))


def less(g: Any, input: Any, other: Any) -> Any:
    """Where one tensor is less than another."""
    return g.op("Less", input, other)


def extreme(g: Any, self: Any, dim_or_y: Any, keepdim: Any, name: str) -> Any:
    """The least or greatest: of all elements, of two tensors, or along an axis with where it is."""
    if dim_or_y is None and keepdim is None:
        return g.op(f"Reduce{name}", self, keepdims_i=0)
    if keepdim is None:
        return g.op(name, self, dim_or_y)
    dim, keep = get_const(dim_or_y, "i", "dim"), int(get_const(keepdim, "i", "keepdim"))
    best = g.op(f"Reduce{name}", self, _vector(g, [dim]), keepdims_i=keep)
    return best, g.op(f"Arg{name}", self, axis_i=dim, keepdims_i=keep)


def max_(g: Any, self: Any, dim_or_y: Any = None, keepdim: Any = None) -> Any:
    """The greatest, in the three ways ``torch.max`` is called."""
    return extreme(g, self, dim_or_y, keepdim, "Max")


def min_(g: Any, self: Any, dim_or_y: Any = None, keepdim: Any = None) -> Any:
    """The least, in the three ways ``torch.min`` is called."""
    return extreme(g, self, dim_or_y, keepdim, "Min")


def index_fill_reshape(g: Any, self: Any, dim: Any, index: Any) -> tuple[Any, Any]:
    """An index along an axis spread over the whole tensor, and the shape it has then."""
    axis, rank = parse_arg(dim, "i"), get_tensor_rank(self)
    if rank is None:
        raise TranslationError("The rank of the tensor whose elements are filled must be known.")
    if get_tensor_rank(index) == 0:
        index = unsqueeze(g, index, [0])
    others = [at for at in range(rank) if at != axis % rank]
    spread = unsqueeze(g, index, others) if others else index
    whole = g.op("Shape", self)
    here = unsqueeze(g, size(g, index, 0), [0])
    parts = [slice_(g, whole, [0], [at], [at + 1]) if at in others else here for at in range(rank)]
    shape = parts[0] if len(parts) == 1 else g.op("Concat", *parts, axis_i=0)
    return shape, g.op("Expand", spread, shape)


def scatter(g: Any, self: Any, dim: Any, index: Any, src: Any) -> Any:
    """A tensor with elements replaced at indices along an axis."""
    value = maybe_get_const(src, "t") if isinstance(src, Value) else src
    if isinstance(value, int | float) or (isinstance(value, torch.Tensor) and value.dim() == 0):
        kind = JitScalarType.from_value(self)
        number = torch.as_tensor(value).to(kind.dtype())
        src = g.op("Expand", g.op("Constant", value_t=number), g.op("Shape", index))
    return g.op("ScatterElements", self, index, src, axis_i=parse_arg(dim, "i"))


def unbind(g: Any, self: Any, dim: Any, outputs: int | None) -> Any:
    """The slices of an axis, as many as it is long."""
    axis = parse_arg(dim, "i")
    sizes = get_tensor_sizes(self)
    count = outputs if outputs is not None else None if sizes is None else sizes[axis]
    if count is None:
        raise TranslationError("A tensor can be unbound only along an axis whose size is known.")
    parts = [g.op("Gather", self, g.op("Constant", value_t=torch.tensor(at)), axis_i=axis) for at in range(count)]
    return parts[0] if count == 1 else parts


def maybe_cast_to_type(g: Any, value: Any, jit_type: JitScalarType) -> Any:
    """A value in another scalar type, cast only if it has another one now."""
    if JitScalarType.from_value(value, JitScalarType.UNDEFINED) is jit_type:
        return value
    return g.op("Cast", value, to_i=int(jit_type.onnx_type()))


def maybe_cast_reduce_op_input(g: Any, self: Any) -> Any:
    """What is to be summed, integers in 64 bits as torch sums them."""
    if is_fp(self) or JitScalarType.from_value(self, JitScalarType.INT64) is JitScalarType.INT64:
        return self
    return g.op("Cast", self, to_i=int(JitScalarType.INT64.onnx_type()))


def op_with_optional_float_cast(g: Any, op_name: str, *args: Any, **kwargs: Any) -> Any:
    """An operator that some opsets have for floats only, computed in floats and cast back where it must be."""
    before = kwargs.pop("opset_before", None)
    wide = kwargs.pop("target_float_t", JitScalarType.FLOAT)
    kind = JitScalarType.from_value(args[0], JitScalarType.FLOAT)
    if is_fp(args[0]) or (before is not None and g.opset >= before):
        return g.op(op_name, *args, **kwargs)
    inputs = [maybe_cast_to_type(g, arg, wide) if isinstance(arg, Value) else arg for arg in args]
    return maybe_cast_to_type(g, g.op(op_name, *inputs, **kwargs), kind)


def optional_input_placeholder_tensor(g: Any) -> Any:
    """What stands for an optional input that is left out."""
    return g._input(None)


def generate_wrapped_number(g: Any, scalar: Any) -> Any:
    """A number as a constant; the tensors beside it decide its type."""
    if isinstance(scalar, Value):
        return scalar
    return g._input(scalar)


def handle_reduce_dim_none(g: Any, self: Any, op_name: str) -> Any:
    """A reduction of the whole tensor to a number."""
    return g.op(op_name, self, keepdims_i=0)


def is_split_static(split_size_or_sizes: Any, outputs: int | None) -> bool:
    """Whether it is known now into which parts a tensor is split."""
    if outputs is None:
        return False
    if isinstance(split_size_or_sizes, Value) and is_packed_list(split_size_or_sizes):
        return all(item.node().kind().endswith("::Constant") for item in unpack_list(split_size_or_sizes))
    return not isinstance(maybe_get_const(split_size_or_sizes, "is"), Value)


def avgpool(
    tuple_fn: Callable[[Any], Sequence[int]],
    padding: int | Sequence[int],
    kernel_size: Any,
    stride: Any,
    divisor_override: Any,
    name: str,
) -> tuple[int, ...]:
    """The padding of an average pooling, as a tuple."""
    if divisor_override:
        raise TranslationError(f"{name} with a divisor of its own has no ONNX form.")
    return tuple(tuple_fn(padding))


def overload_by_arg_count(function: Callable[..., Any]) -> Callable[..., Any]:
    """Call the one of the functions that are returned whose parse_args describes as many arguments as there are."""

    @functools.wraps(function)
    def chosen(g: Any, *args: Any) -> Any:
        overloads = function(g, *args)
        for overload in overloads:
            if len(getattr(overload, "_arg_descriptors", ())) == len(args):
                return overload(g, *args)
        return unsupported_overload(function.__name__, len(args))

    return chosen


def unsupported_overload(name: str, count: int) -> None:
    """Say that none of the overloads takes so many arguments."""
    warnings.warn(f"{name} has no form with {count} arguments.", OnnxExporterWarning, stacklevel=3)


def check_training_mode(op_train_mode: int, op_name: str) -> None:
    """Warn if an operator is exported in another mode than the model.

    >>> import onnxport
    >>> onnxport.symbolic_helper.check_training_mode(0, "dropout")
    """
    mode = current_mode()
    if mode is TrainingMode.PRESERVE:
        return
    own = TrainingMode.TRAINING if op_train_mode else TrainingMode.EVAL
    if own is not mode:
        warnings.warn(
            f"The model is exported in mode {mode.name}, but {op_name} is in mode {own.name}; it is exported as such.",
            OnnxExporterWarning,
            stacklevel=2,
        )
