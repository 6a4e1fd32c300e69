"""What symbolic functions are written with, under the names that ``torch.onnx.symbolic_helper`` has for it.

>>> import onnxport
>>> from onnxport import symbolic_helper
>>> @symbolic_helper.parse_args("v", "i")
... def cumsum(g, x, dim):
...     return g.op("CumSum", x, g.op("Constant", value_t=torch.tensor(dim)))
>>> import torch
>>> symbolic_helper.cast_pytorch_to_onnx["Float"].name
'FLOAT'
"""

import onnx_ir as _ir
import torch as _torch

from onnxport.symbolic.helper.delegating import apply_params as _apply_params
from onnxport.symbolic.helper.delegating import arange as _arange_helper
from onnxport.symbolic.helper.delegating import arange_cast as _arange_cast_helper
from onnxport.symbolic.helper.delegating import batchnorm as _batchnorm_helper
from onnxport.symbolic.helper.delegating import block_list_in_opset as _block_list_in_opset
from onnxport.symbolic.helper.delegating import embedding_bag as _embedding_bag_helper
from onnxport.symbolic.helper.delegating import get_scales as _interpolate_get_scales
from onnxport.symbolic.helper.delegating import interpolate as _interpolate_helper
from onnxport.symbolic.helper.delegating import interpolate_attributes as _get_interpolate_attributes
from onnxport.symbolic.helper.delegating import interpolate_call as __interpolate_helper
from onnxport.symbolic.helper.delegating import interpolate_warning as _interpolate_warning
from onnxport.symbolic.helper.delegating import reduce_op as _reduce_op_symbolic_helper
from onnxport.symbolic.helper.delegating import reduce_with_dtype as _reduce_with_dtype_helper
from onnxport.symbolic.helper.delegating import repeat_interleave as _repeat_interleave_single_value_repeat_helper
from onnxport.symbolic.helper.delegating import repeat_interleave as _repeat_interleave_split_helper
from onnxport.symbolic.helper.delegating import scales_and_mode as _interpolate_get_scales_and_mode
from onnxport.symbolic.helper.delegating import scales_if_available as _interpolate_get_scales_if_available
from onnxport.symbolic.helper.delegating import size_to_scales as _interpolate_size_to_scales
from onnxport.symbolic.helper.delegating import var_mean as _var_mean_helper
from onnxport.symbolic.helper.delegating import vector_norm as _linalg_vector_norm_helper
from onnxport.symbolic.helper.parsing import get_const as _get_const
from onnxport.symbolic.helper.parsing import maybe_get_const as _maybe_get_const
from onnxport.symbolic.helper.parsing import maybe_get_scalar as _maybe_get_scalar
from onnxport.symbolic.helper.parsing import onnx_opset_unsupported as _onnx_opset_unsupported
from onnxport.symbolic.helper.parsing import onnx_opset_unsupported_detailed as _onnx_opset_unsupported_detailed
from onnxport.symbolic.helper.parsing import onnx_unsupported as _onnx_unsupported
from onnxport.symbolic.helper.parsing import parse_arg as _parse_arg
from onnxport.symbolic.helper.parsing import parse_args
from onnxport.symbolic.helper.parsing import unimplemented as _unimplemented
from onnxport.symbolic.helper.quantized import dequantize as dequantize_helper
from onnxport.symbolic.helper.quantized import quantize as quantize_helper
from onnxport.symbolic.helper.quantized import quantized_args
from onnxport.symbolic.helper.quantized import requantize_bias as requantize_bias_helper
from onnxport.symbolic.helper.questions import args_have_same_dtype, is_complex_value
from onnxport.symbolic.helper.questions import as_list_type as _as_list_type
from onnxport.symbolic.helper.questions import get_dim_for_cross as _get_dim_for_cross
from onnxport.symbolic.helper.questions import get_tensor_dim_size as _get_tensor_dim_size
from onnxport.symbolic.helper.questions import get_tensor_rank as _get_tensor_rank
from onnxport.symbolic.helper.questions import get_tensor_sizes as _get_tensor_sizes
from onnxport.symbolic.helper.questions import if_scalar_type_as as _if_scalar_type_as
from onnxport.symbolic.helper.questions import is_bool as _is_bool
from onnxport.symbolic.helper.questions import is_constant as _is_constant
from onnxport.symbolic.helper.questions import is_fp as _is_fp
from onnxport.symbolic.helper.questions import is_list as _is_list
from onnxport.symbolic.helper.questions import is_none as _is_none
from onnxport.symbolic.helper.questions import is_onnx_constant as _is_onnx_constant
from onnxport.symbolic.helper.questions import is_packed_list as _is_packed_list
from onnxport.symbolic.helper.questions import is_scalar_list as _is_scalar_list
from onnxport.symbolic.helper.questions import is_tensor as _is_tensor
from onnxport.symbolic.helper.questions import is_tensor_list as _is_tensor_list
from onnxport.symbolic.helper.questions import is_tuple_construct as _is_tuple_construct
from onnxport.symbolic.helper.questions import is_value as _is_value
from onnxport.symbolic.helper.questions import node_get as _node_get
from onnxport.symbolic.helper.questions import scalar as _scalar
from onnxport.symbolic.helper.questions import try_get_scalar_type as _try_get_scalar_type
from onnxport.symbolic.helper.questions import type_promote_from_values as _type_promote_from_values
from onnxport.symbolic.helper.questions import unpack_list as _unpack_list
from onnxport.symbolic.helper.questions import unpack_tuple as _unpack_quantized_tensor
from onnxport.symbolic.helper.questions import unpack_tuple as _unpack_tuple
from onnxport.symbolic.helper.writing import argmin_argmax as _argmin_argmax_helper
from onnxport.symbolic.helper.writing import avgpool as _avgpool_helper
from onnxport.symbolic.helper.writing import check_training_mode
from onnxport.symbolic.helper.writing import flatten as _flatten_helper
from onnxport.symbolic.helper.writing import generate_wrapped_number as _generate_wrapped_number
from onnxport.symbolic.helper.writing import handle_reduce_dim_none as _handle_reduce_dim_none
from onnxport.symbolic.helper.writing import index_fill_reshape as _index_fill_reshape_helper
from onnxport.symbolic.helper.writing import is_split_static as _is_split_static
from onnxport.symbolic.helper.writing import less as _lt_helper
from onnxport.symbolic.helper.writing import max_ as _max_helper
from onnxport.symbolic.helper.writing import maybe_cast_reduce_op_input as _maybe_cast_reduce_op_input
from onnxport.symbolic.helper.writing import maybe_cast_to_type as _maybe_cast_to_type
from onnxport.symbolic.helper.writing import min_ as _min_helper
from onnxport.symbolic.helper.writing import numel as _numel_helper
from onnxport.symbolic.helper.writing import op_with_optional_float_cast as _op_with_optional_float_cast
from onnxport.symbolic.helper.writing import optional_input_placeholder_tensor as _optional_input_placeholder_tensor
from onnxport.symbolic.helper.writing import overload_by_arg_count as _overload_by_arg_count
from onnxport.symbolic.helper.writing import reducesum as _reducesum_helper
from onnxport.symbolic.helper.writing import reshape as _reshape_helper
from onnxport.symbolic.helper.writing import scatter as _scatter_helper
from onnxport.symbolic.helper.writing import select as _select_helper
from onnxport.symbolic.helper.writing import size as _size_helper
from onnxport.symbolic.helper.writing import slice_ as _slice_helper
from onnxport.symbolic.helper.writing import sort as _sort_helper
from onnxport.symbolic.helper.writing import squeeze as _squeeze_helper
from onnxport.symbolic.helper.writing import topk as _topk_helper
from onnxport.symbolic.helper.writing import unbind as _unbind_helper
from onnxport.symbolic.helper.writing import unsqueeze as _unsqueeze_helper
from onnxport.symbolic.session.scalar_types import JitScalarType as _JitScalarType

cast_pytorch_to_onnx: dict[str, _ir.DataType] = {
    kind.scalar_name(): kind.onnx_type()
    for kind in _JitScalarType
    if kind.onnx_compatible() and not kind.scalar_name().startswith("Q")
}
scalar_name_to_pytorch: dict[str, str] = {kind.torch_name(): kind.scalar_name() for kind in _JitScalarType}
scalar_type_to_pytorch_type: list[_torch.dtype] = [
    kind.dtype() for kind in _JitScalarType if kind is not _JitScalarType.UNDEFINED
]
scalar_type_to_onnx: list[_ir.DataType] = [
    kind.onnx_type() if kind.onnx_compatible() else _ir.DataType.UNDEFINED
    for kind in _JitScalarType
    if kind is not _JitScalarType.UNDEFINED
]
pytorch_name_to_type: dict[str, _torch.dtype] = {
    kind.scalar_name(): kind.dtype() for kind in _JitScalarType if kind is not _JitScalarType.UNDEFINED
}

__all__ = [
    "__interpolate_helper",
    "_apply_params",
    "_arange_cast_helper",
    "_arange_helper",
    "_argmin_argmax_helper",
    "_as_list_type",
    "_avgpool_helper",
    "_batchnorm_helper",
    "_block_list_in_opset",
    "_embedding_bag_helper",
    "_flatten_helper",
    "_generate_wrapped_number",
    "_get_const",
    "_get_dim_for_cross",
    "_get_interpolate_attributes",
    "_get_tensor_dim_size",
    "_get_tensor_rank",
    "_get_tensor_sizes",
    "_handle_reduce_dim_none",
    "_if_scalar_type_as",
    "_index_fill_reshape_helper",
    "_interpolate_get_scales",
    "_interpolate_get_scales_and_mode",
    "_interpolate_get_scales_if_available",
    "_interpolate_helper",
    "_interpolate_size_to_scales",
    "_interpolate_warning",
    "_is_bool",
    "_is_constant",
    "_is_fp",
    "_is_list",
    "_is_none",
    "_is_onnx_constant",
    "_is_packed_list",
    "_is_scalar_list",
    "_is_split_static",
    "_is_tensor",
    "_is_tensor_list",
    "_is_tuple_construct",
    "_is_value",
    "_linalg_vector_norm_helper",
    "_lt_helper",
    "_max_helper",
    "_maybe_cast_reduce_op_input",
    "_maybe_cast_to_type",
    "_maybe_get_const",
    "_maybe_get_scalar",
    "_min_helper",
    "_node_get",
    "_numel_helper",
    "_onnx_opset_unsupported",
    "_onnx_opset_unsupported_detailed",
    "_onnx_unsupported",
    "_op_with_optional_float_cast",
    "_optional_input_placeholder_tensor",
    "_overload_by_arg_count",
    "_parse_arg",
    "_reduce_op_symbolic_helper",
    "_reduce_with_dtype_helper",
    "_reducesum_helper",
    "_repeat_interleave_single_value_repeat_helper",
    "_repeat_interleave_split_helper",
    "_reshape_helper",
    "_scalar",
    "_scatter_helper",
    "_select_helper",
    "_size_helper",
    "_slice_helper",
    "_sort_helper",
    "_squeeze_helper",
    "_topk_helper",
    "_try_get_scalar_type",
    "_type_promote_from_values",
    "_unbind_helper",
    "_unimplemented",
    "_unpack_list",
    "_unpack_quantized_tensor",
    "_unpack_tuple",
    "_unsqueeze_helper",
    "_var_mean_helper",
    "args_have_same_dtype",
    "cast_pytorch_to_onnx",
    "check_training_mode",
    "dequantize_helper",
    "is_complex_value",
    "parse_args",
    "pytorch_name_to_type",
    "quantize_helper",
    "quantized_args",
    "requantize_bias_helper",
    "scalar_name_to_pytorch",
    "scalar_type_to_onnx",
    "scalar_type_to_pytorch_type",
]
