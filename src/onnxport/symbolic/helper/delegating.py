"""Helpers that stand for whole operators: they call the translations of those."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn, TypeVar

import torch

from onnxport.errors import TranslationError
from onnxport.onnx_build.literals import INT64_MAX
from onnxport.symbolic.helper.parsing import _maybe_get_const, _parse_arg, _unimplemented
from onnxport.symbolic.helper.questions import (
    _get_tensor_rank,
    _get_tensor_sizes,
    _is_list,
    _is_none,
    _type_promote_from_values,
)
from onnxport.symbolic.helper.writing import (
    Values,
    _maybe_cast_to_type,
    _reducesum_helper,
    _slice_helper,
    _unsqueeze_helper,
)
from onnxport.symbolic.session.delegation import delegate
from onnxport.symbolic.session.graph_context import GraphContext
from onnxport.symbolic.session.registration import Symbolic
from onnxport.symbolic.session.scalar_types import JitScalarType
from onnxport.torch_internals.torchscript import JitValue

__all__ = [
    "__interpolate_helper",
    "_apply_params",
    "_arange_cast_helper",
    "_arange_helper",
    "_batchnorm_helper",
    "_block_list_in_opset",
    "_embedding_bag_helper",
    "_get_interpolate_attributes",
    "_interpolate_get_scales",
    "_interpolate_get_scales_and_mode",
    "_interpolate_get_scales_if_available",
    "_interpolate_helper",
    "_interpolate_size_to_scales",
    "_interpolate_warning",
    "_linalg_vector_norm_helper",
    "_reduce_op_symbolic_helper",
    "_reduce_with_dtype_helper",
    "_repeat_interleave_single_value_repeat_helper",
    "_repeat_interleave_split_helper",
    "_var_mean_helper",
]
"""What ``torch.onnx.symbolic_helper`` has of this, under its names."""

Made = TypeVar("Made")


# Resizing


def _interpolate_helper(name: str, dim: int, interpolate_mode: str) -> Symbolic:
    """The symbolic function of ``aten::<name>``, which resizes a tensor of ``dim`` dimensions in a mode."""

    def symbolic(g: GraphContext, input: JitValue, output_size: object, *args: object) -> object:
        return delegate(g, name, (input, output_size, *args), {})

    return symbolic


def _interpolate_warning(interpolate_mode: str) -> None:
    """Kept for its callers: there is nothing to warn of, since resizing is written to give what torch gives."""


def _scales(g: GraphContext, *parts: object) -> JitValue:
    """Scales of all dimensions: those of batch and channels are 1."""
    return g.op("Concat", g.op("Constant", value_t=torch.ones(2)), *parts, axis_i=0)


def _interpolate_size_to_scales(g: GraphContext, input: JitValue, output_size: object, dim: int) -> JitValue:
    """The scales by which a tensor of ``dim`` dimensions gets a size."""
    known, sizes = _maybe_get_const(output_size, "is"), _get_tensor_sizes(input)
    here = None if sizes is None else sizes[2:]
    if not isinstance(known, JitValue) and here is not None and all(size is not None for size in here):
        pairs = zip(known[-(dim - 2) :], here, strict=True)
        scales = [new / old for new, old in pairs if old is not None]
        return g.op("Constant", value_t=torch.tensor([1.0, 1.0, *scales]))
    float_type = int(JitScalarType.FLOAT.onnx_type())
    wanted = output_size if isinstance(output_size, JitValue) else g.op("Constant", value_t=torch.tensor(known))
    present = _slice_helper(g, g.op("Shape", input), [0], [2], [INT64_MAX])
    return _scales(g, g.op("Div", g.op("Cast", wanted, to_i=float_type), g.op("Cast", present, to_i=float_type)))


def _interpolate_get_scales_if_available(g: GraphContext, scales: Sequence[object]) -> JitValue | None:
    """The scales that a resizing was called with, None if it was called with a size."""
    if not scales or _is_none(scales[0]):
        return None
    known = _maybe_get_const(scales[0], "fs")
    return _scales(g, known if isinstance(known, JitValue) else g.op("Constant", value_t=torch.tensor(known)))


def _get_interpolate_attributes(g: GraphContext, mode: str, args: Sequence[object]) -> tuple[JitValue | None, object]:
    """Scales and ``align_corners`` out of the arguments behind the size; that of the nearest element has no corners."""
    if mode == "nearest":
        return _interpolate_get_scales_if_available(g, args), None
    return _interpolate_get_scales_if_available(g, args[1:]), args[0]


def _interpolate_get_scales(g: GraphContext, scale_factor: JitValue, dim: int) -> JitValue:
    """The scales of all dimensions from one for each dimension of an image, or one for all of them."""
    rank = _get_tensor_rank(scale_factor)
    if _is_list(scale_factor) or (rank is not None and rank > 0):
        return _scales(g, scale_factor)
    one = _maybe_cast_to_type(g, _unsqueeze_helper(g, scale_factor, [0]), JitScalarType.FLOAT)
    return _scales(g, *[one] * (dim - 2))


def _interpolate_get_scales_and_mode(
    g: GraphContext, input: JitValue, size: object, scale_factor: JitValue | None, mode: object, align_corners: object
) -> tuple[JitValue, str] | None:
    """Scales, and the mode as ONNX names it, for a call of ``interpolate``; None, with a warning, if it has no form."""
    text = str(_maybe_get_const(mode, "s"))
    named = next((known for known in ("linear", "cubic") if known in text), text)
    if _maybe_get_const(align_corners, "b") is True:
        _unimplemented("interpolate", "corners are aligned")
        return None
    rank = _get_tensor_rank(input)
    if rank is None:
        _unimplemented("interpolate", "the rank of its input is not known")
        return None
    if scale_factor is not None and not _is_none(scale_factor):
        return _interpolate_get_scales(g, scale_factor, rank), named
    if _is_none(size):
        _unimplemented("interpolate", "it has neither a size nor scales")
        return None
    if isinstance(size, JitValue) and _get_tensor_rank(size) == 0:
        size = g.op("Concat", *[_unsqueeze_helper(g, size, [0])] * (rank - 2), axis_i=0)
    return _interpolate_size_to_scales(g, input, size, rank), named


def __interpolate_helper(
    g: GraphContext,
    input: JitValue,
    size: object,
    scale_factor: object,
    mode: object,
    align_corners: object,
    *_: object,
) -> Values:
    """A call of ``interpolate`` as a ``Resize`` to a size or by scales."""
    text = str(_maybe_get_const(mode, "s"))
    name = {3: "linear1d", 4: "bilinear2d", 5: "trilinear3d"}
    rank = _get_tensor_rank(input)
    if rank is None or rank not in name:
        raise TranslationError("a tensor of unknown rank, or of none that images have, can't be resized")
    kind = f"nearest{rank - 2}d" if text == "nearest" else name[rank] if "linear" in text else "bicubic2d"
    corners = [] if text == "nearest" else [bool(_maybe_get_const(align_corners, "b"))]
    scales = None if _is_none(scale_factor) else _maybe_get_const(scale_factor, "fs")
    if isinstance(scales, float):
        scales = [scales] * (rank - 2)
    return delegate(g, f"upsample_{kind}", (input, None if _is_none(size) else size, *corners, scales), {})


# Ranges


def _arange_helper(g: GraphContext, *args: object) -> Values:
    """A range, in the ways ``torch.arange`` is called."""
    return delegate(g, "arange", args, {})


def _arange_cast_helper(
    g: GraphContext, end: JitValue, start: JitValue | None = None, step: JitValue | None = None, dtype: object = None
) -> tuple[JitScalarType, JitValue | None, JitValue | None, JitValue | None]:
    """The type of a range, and its bounds and step cast to it."""
    given = [value for value in (start, end, step) if value is not None]
    if dtype is None:
        kind = _type_promote_from_values(*given)
        if kind.dtype().is_floating_point:
            kind = JitScalarType.from_dtype(torch.get_default_dtype())
        else:
            kind = JitScalarType.INT64
    else:
        kind = JitScalarType(int(_parse_arg(dtype, "i")))
    cast = [None if value is None else _maybe_cast_to_type(g, value, kind) for value in (end, start, step)]
    return kind, cast[0], cast[1], cast[2]


# Reductions


def _reduce_op_symbolic_helper(onnx_op_name: str, allow_multi_dim_support: bool = True) -> Symbolic:
    """A symbolic function that reduces with an ONNX operator: all, or along dimensions."""

    def symbolic(g: GraphContext, self: JitValue, dim: object = None, keepdim: object = None) -> JitValue:
        if _is_none(dim):
            return g.op(onnx_op_name, self, keepdims_i=0)
        given: int | list[int] = _parse_arg(dim, "is") if allow_multi_dim_support else _parse_arg(dim, "i")
        axes = [given] if isinstance(given, int) else given
        keep = 0 if keepdim is None else int(_parse_arg(keepdim, "i"))
        if onnx_op_name == "ReduceSum":
            return _reducesum_helper(g, self, axes, keepdims_i=keep)
        return g.op(onnx_op_name, self, g.op("Constant", value_t=torch.tensor(axes)), keepdims_i=keep)

    return symbolic


def _reduce_with_dtype_helper(onnx_op: str, name: str, allow_multi_dim_support: bool = True) -> Symbolic:
    """The symbolic function of a reduction that can be told its dtype, ``aten::sum`` and its like."""

    def symbolic(g: GraphContext, *args: object) -> Values:
        return delegate(g, name, args, {})

    return symbolic


def _var_mean_helper(g: GraphContext, input: JitValue, dim: object, correction: object, keepdim: object) -> Values:
    """Variance and mean."""
    return delegate(g, "var_mean", (input, dim), {"correction": correction, "keepdim": keepdim})


def _linalg_vector_norm_helper(
    g: GraphContext, self: JitValue, ord: float, dim: Sequence[int] | None, keepdim: bool, dtype: object
) -> Values:
    """The norm of vectors along dimensions."""
    return delegate(g, "linalg_vector_norm", (self, ord, dim, keepdim), {"dtype": dtype})


# Others


def _embedding_bag_helper(
    g: GraphContext,
    embedding_matrix: JitValue,
    indices: JitValue,
    offsets: JitValue,
    scale_grad_by_freq: object,
    mode: object,
    sparse: object,
    per_sample_weights: object,
    include_last_offset: object,
    padding_idx: object,
) -> Values:
    """Sums, means or maxima of rows of a table."""
    options = (scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset, padding_idx)
    return delegate(g, "embedding_bag", (embedding_matrix, indices, offsets, *options), {})


def _repeat_interleave_split_helper(g: GraphContext, self: JitValue, reps: object, dim: object) -> Values:
    """Each element of a dimension several times."""
    return delegate(g, "repeat_interleave", (self, reps, dim), {})


def _repeat_interleave_single_value_repeat_helper(
    g: GraphContext, self: JitValue, repeats: object, dim: object
) -> Values:
    """The same: what are two cases for torch's exporter is one for ours."""
    return _repeat_interleave_split_helper(g, self, repeats, dim)


def _batchnorm_helper(
    g: GraphContext,
    input: JitValue,
    weight: JitValue | None,
    bias: JitValue | None,
    running_mean: JitValue | None,
    running_var: JitValue | None,
) -> tuple[JitValue, ...]:
    """Weight, bias, mean and variance of a batch normalization, with ones and zeros for what it has not."""
    sizes = _get_tensor_sizes(input)
    channels = None if sizes is None else sizes[1]
    if channels is None and any(_is_none(one) for one in (weight, bias, running_mean, running_var)):
        raise TranslationError("a batch normalization without weights needs to know the number of channels")
    dtype = JitScalarType.from_value(input, JitScalarType.FLOAT).dtype()
    defaults = (torch.ones, torch.zeros, torch.zeros, torch.ones)
    return tuple(
        g.op("Constant", value_t=default(int(channels if channels is not None else 0), dtype=dtype))
        if one is None or _is_none(one)
        else one
        for one, default in zip((weight, bias, running_mean, running_var), defaults, strict=True)
    )


def _block_list_in_opset(name: str) -> Symbolic:
    """A symbolic function that refuses an operator."""

    def symbolic(*args: object, **kwargs: object) -> NoReturn:
        raise TranslationError(f"{name} can't be expressed in this opset")

    return symbolic


def _apply_params(*args: object, **kwargs: object) -> Callable[[Callable[..., Made]], Made]:
    """Call a function that makes symbolic functions with these arguments.

    >>> _apply_params("ReduceMax")(_reduce_op_symbolic_helper).__name__
    'symbolic'
    """

    def apply(function: Callable[..., Made]) -> Made:
        return function(*args, **kwargs)

    return apply
