"""Helpers that stand for whole operators: they call the translations of those."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from onnxport.errors import TranslationError
from onnxport.onnx_build.literals import INT64_MAX
from onnxport.symbolic.helper.parsing import maybe_get_const, parse_arg, unimplemented
from onnxport.symbolic.helper.questions import (
    get_tensor_rank,
    get_tensor_sizes,
    is_list,
    is_none,
    type_promote_from_values,
)
from onnxport.symbolic.helper.writing import maybe_cast_to_type, reducesum, slice_, unsqueeze
from onnxport.symbolic.session.delegation import delegate
from onnxport.symbolic.session.scalar_types import JitScalarType

Value = torch._C.Value
Symbolic = Callable[..., Any]


# Resizing


def interpolate(name: str, dim: int, interpolate_mode: str) -> Symbolic:
    """The symbolic function of ``aten::<name>``, which resizes a tensor of ``dim`` dimensions in a mode."""

    def symbolic(g: Any, input: Any, output_size: Any, *args: Any) -> Any:
        return delegate(g, name, (input, output_size, *args), {})

    return symbolic


def interpolate_warning(interpolate_mode: str) -> None:
    """Kept for its callers: there is nothing to warn of, since resizing is written to give what torch gives."""


def _scales(g: Any, *parts: Any) -> Any:
    """Scales of all dimensions: those of batch and channels are 1."""
    return g.op("Concat", g.op("Constant", value_t=torch.ones(2)), *parts, axis_i=0)


def size_to_scales(g: Any, input: Any, output_size: Any, dim: int) -> Any:
    """The scales by which a tensor of ``dim`` dimensions gets a size."""
    known, sizes = maybe_get_const(output_size, "is"), get_tensor_sizes(input)
    here = None if sizes is None else sizes[2:]
    if not isinstance(known, Value) and here is not None and all(size is not None for size in here):
        pairs = zip(known[-(dim - 2) :], here, strict=True)
        scales = [new / old for new, old in pairs if old is not None]
        return g.op("Constant", value_t=torch.tensor([1.0, 1.0, *scales]))
    float_type = int(JitScalarType.FLOAT.onnx_type())
    wanted = output_size if isinstance(output_size, Value) else g.op("Constant", value_t=torch.tensor(known))
    present = slice_(g, g.op("Shape", input), [0], [2], [INT64_MAX])
    return _scales(g, g.op("Div", g.op("Cast", wanted, to_i=float_type), g.op("Cast", present, to_i=float_type)))


def scales_if_available(g: Any, scales: Sequence[Any]) -> Any:
    """The scales that a resizing was called with, None if it was called with a size."""
    if not scales or is_none(scales[0]):
        return None
    known = maybe_get_const(scales[0], "fs")
    return _scales(g, known if isinstance(known, Value) else g.op("Constant", value_t=torch.tensor(known)))


def interpolate_attributes(g: Any, mode: str, args: Sequence[Any]) -> tuple[Any, Any]:
    """Scales and ``align_corners`` out of the arguments behind the size; that of the nearest element has no corners."""
    if mode == "nearest":
        return scales_if_available(g, args), None
    return scales_if_available(g, args[1:]), args[0]


def get_scales(g: Any, scale_factor: Any, dim: int) -> Any:
    """The scales of all dimensions from one for each dimension of an image, or one for all of them."""
    rank = get_tensor_rank(scale_factor)
    if is_list(scale_factor) or (rank is not None and rank > 0):
        return _scales(g, scale_factor)
    one = maybe_cast_to_type(g, unsqueeze(g, scale_factor, [0]), JitScalarType.FLOAT)
    return _scales(g, *[one] * (dim - 2))


def scales_and_mode(g: Any, input: Any, size: Any, scale_factor: Any, mode: Any, align_corners: Any) -> Any:
    """Scales, and the mode as ONNX names it, for a call of ``interpolate``; None, with a warning, if it has no form."""
    text = str(maybe_get_const(mode, "s"))
    named = next((known for known in ("linear", "cubic") if known in text), text)
    if maybe_get_const(align_corners, "b") is True:
        return unimplemented("interpolate", "corners are aligned")
    rank = get_tensor_rank(input)
    if rank is None:
        return unimplemented("interpolate", "the rank of its input is not known")
    if not is_none(scale_factor):
        return get_scales(g, scale_factor, rank), named
    if is_none(size):
        return unimplemented("interpolate", "it has neither a size nor scales")
    if isinstance(size, Value) and get_tensor_rank(size) == 0:
        size = g.op("Concat", *[unsqueeze(g, size, [0])] * (rank - 2), axis_i=0)
    return size_to_scales(g, input, size, rank), named


def interpolate_call(g: Any, input: Any, size: Any, scale_factor: Any, mode: Any, align_corners: Any, *_: Any) -> Any:
    """A call of ``interpolate`` as a ``Resize`` to a size or by scales."""
    text = str(maybe_get_const(mode, "s"))
    name = {3: "linear1d", 4: "bilinear2d", 5: "trilinear3d"}
    rank = get_tensor_rank(input)
    if rank not in name:
        raise TranslationError("a tensor of unknown rank, or of none that images have, can't be resized")
    kind = f"nearest{rank - 2}d" if text == "nearest" else name[rank] if "linear" in text else "bicubic2d"
    corners = [] if text == "nearest" else [bool(maybe_get_const(align_corners, "b"))]
    scales = None if is_none(scale_factor) else maybe_get_const(scale_factor, "fs")
    if isinstance(scales, float):
        scales = [scales] * (rank - 2)
    return delegate(g, f"upsample_{kind}", (input, None if is_none(size) else size, *corners, scales), {})


# Ranges


def arange(g: Any, *args: Any) -> Any:
    """A range, in the ways ``torch.arange`` is called."""
    return delegate(g, "arange", args, {})


def arange_cast(
    g: Any, end: Any, start: Any = None, step: Any = None, dtype: Any = None
) -> tuple[JitScalarType, Any, Any, Any]:
    """The type of a range, and its bounds and step cast to it."""
    given = [value for value in (start, end, step) if value is not None]
    if dtype is None:
        kind = type_promote_from_values(*given)
        if kind.dtype().is_floating_point:
            kind = JitScalarType.from_dtype(torch.get_default_dtype())
        else:
            kind = JitScalarType.INT64
    else:
        kind = JitScalarType(int(parse_arg(dtype, "i")))
    cast = [None if value is None else maybe_cast_to_type(g, value, kind) for value in (end, start, step)]
    return kind, cast[0], cast[1], cast[2]


# Reductions


def reduce_op(onnx_op_name: str, allow_multi_dim_support: bool = True) -> Symbolic:
    """A symbolic function that reduces with an ONNX operator: all, or along dimensions."""

    def symbolic(g: Any, self: Any, dim: Any = None, keepdim: Any = None) -> Any:
        if is_none(dim):
            return g.op(onnx_op_name, self, keepdims_i=0)
        axes = parse_arg(dim, "is" if allow_multi_dim_support else "i")
        axes = [axes] if isinstance(axes, int) else axes
        keep = 0 if keepdim is None else int(parse_arg(keepdim, "i"))
        if onnx_op_name == "ReduceSum":
            return reducesum(g, self, axes, keepdims_i=keep)
        return g.op(onnx_op_name, self, g.op("Constant", value_t=torch.tensor(axes)), keepdims_i=keep)

    return symbolic


def reduce_with_dtype(onnx_op: str, name: str, allow_multi_dim_support: bool = True) -> Symbolic:
    """The symbolic function of a reduction that can be told its dtype, ``aten::sum`` and its like."""

    def symbolic(g: Any, *args: Any) -> Any:
        return delegate(g, name, args, {})

    return symbolic


def var_mean(g: Any, input: Any, dim: Any, correction: Any, keepdim: Any) -> Any:
    """Variance and mean."""
    return delegate(g, "var_mean", (input, dim), {"correction": correction, "keepdim": keepdim})


def vector_norm(g: Any, self: Any, ord: float, dim: Sequence[int] | None, keepdim: bool, dtype: Any) -> Any:
    """The norm of vectors along dimensions."""
    return delegate(g, "linalg_vector_norm", (self, ord, dim, keepdim), {"dtype": dtype})


# Others


def embedding_bag(g: Any, *args: Any) -> Any:
    """Sums, means or maxima of rows of a table."""
    return delegate(g, "embedding_bag", args, {})


def repeat_interleave(g: Any, self: Any, repeats: Any, dim: Any) -> Any:
    """Each element of a dimension several times."""
    return delegate(g, "repeat_interleave", (self, repeats, dim), {})


def batchnorm(g: Any, input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any) -> tuple[Any, ...]:
    """Weight, bias, mean and variance of a batch normalization, with ones and zeros for what it has not."""
    sizes = get_tensor_sizes(input)
    channels = None if sizes is None else sizes[1]
    if channels is None and any(is_none(one) for one in (weight, bias, running_mean, running_var)):
        raise TranslationError("a batch normalization without weights needs to know the number of channels")
    dtype = JitScalarType.from_value(input, JitScalarType.FLOAT).dtype()
    defaults = (torch.ones, torch.zeros, torch.zeros, torch.ones)
    return tuple(
        g.op("Constant", value_t=default(int(channels if channels is not None else 0), dtype=dtype))
        if is_none(one)
        else one
        for one, default in zip((weight, bias, running_mean, running_var), defaults, strict=True)
    )


def block_list_in_opset(name: str) -> Symbolic:
    """A symbolic function that refuses an operator."""

    def symbolic(*args: Any, **kwargs: Any) -> Any:
        raise TranslationError(f"{name} can't be expressed in this opset")

    return symbolic


def apply_params(*args: Any, **kwargs: Any) -> Callable[[Callable[..., Any]], Any]:
    """Call a function that makes symbolic functions with these arguments.

    >>> apply_params("ReduceMax")(reduce_op).__name__
    'symbolic'
    """

    def apply(function: Callable[..., Any]) -> Any:
        return function(*args, **kwargs)

    return apply
