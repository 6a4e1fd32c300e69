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

from onnxport.symbolic.helper import call_globals, delegating, parsing, quantized_values, questions, writing

# Each of these modules lists in `__all__` what it has of it.
from onnxport.symbolic.helper.call_globals import *  # noqa: F403
from onnxport.symbolic.helper.delegating import *  # noqa: F403
from onnxport.symbolic.helper.parsing import *  # noqa: F403
from onnxport.symbolic.helper.quantized_values import *  # noqa: F403
from onnxport.symbolic.helper.questions import *  # noqa: F403
from onnxport.symbolic.helper.writing import *  # noqa: F403
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
    "cast_pytorch_to_onnx",
    "pytorch_name_to_type",
    "scalar_name_to_pytorch",
    "scalar_type_to_onnx",
    "scalar_type_to_pytorch_type",
]
__all__ += call_globals.__all__
__all__ += delegating.__all__
__all__ += parsing.__all__
__all__ += quantized_values.__all__
__all__ += questions.__all__
__all__ += writing.__all__
