"""onnxport: a standalone PyTorch to ONNX exporter with the public surface of ``torch.onnx``."""

import sys as _sys

from onnxport.versions import VERSION as _VERSION
from onnxport.versions import require as _require

_require(["torch", "onnx", "onnx_ir"])

from onnxport import errors, ops, verification
from onnxport.capture import enable_fake_mode, is_in_onnx_export
from onnxport.errors import OnnxExporterError
from onnxport.export import export
from onnxport.exportable import ExportableModule
from onnxport.observing import InputObserver
from onnxport.program import ONNXProgram
from onnxport.symbolic import (
    PRODUCER_NAME,
    PRODUCER_VERSION,
    SYMBOLIC_OPSETS,
    JitScalarType,
    OperatorExportTypes,
    SymbolicContext,
    TensorProtoDataType,
    TrainingMode,
    disable_log,
    enable_log,
    is_onnx_log_enabled,
    log,
    register_custom_op_symbolic,
    select_model_mode_for_export,
    set_log_stream,
    unregister_custom_op_symbolic,
)
from onnxport.symbolic.api import jit_utils, operators, symbolic_helper
from onnxport.targets import Target
from onnxport.torch_onnx import utils
from onnxport.torch_onnx.dynamo_export import ExportOptions, dynamo_export
from onnxport.torch_onnx.utils import export_to_pretty_string

# symbolic_opset7 to symbolic_opset20, as `from onnxport import symbolic_opset9` and `import onnxport.symbolic_opset9`.
globals().update(SYMBOLIC_OPSETS)
_sys.modules["onnxport.utils"] = utils
_sys.modules["onnxport.jit_utils"] = jit_utils
_sys.modules["onnxport.symbolic_helper"] = symbolic_helper
_sys.modules["onnxport.operators"] = operators

__version__ = _VERSION
producer_name = PRODUCER_NAME
producer_version = PRODUCER_VERSION

__all__ = [
    "ExportOptions",
    "ExportableModule",
    "InputObserver",
    "JitScalarType",
    "ONNXProgram",
    "OnnxExporterError",
    "OperatorExportTypes",
    "SymbolicContext",
    "Target",
    "TensorProtoDataType",
    "TrainingMode",
    "disable_log",
    "dynamo_export",
    "enable_fake_mode",
    "enable_log",
    "errors",
    "export",
    "export_to_pretty_string",
    "is_in_onnx_export",
    "is_onnx_log_enabled",
    "jit_utils",
    "log",
    "operators",
    "ops",
    "producer_name",
    "producer_version",
    "register_custom_op_symbolic",
    "select_model_mode_for_export",
    "set_log_stream",
    "symbolic_helper",
    "unregister_custom_op_symbolic",
    "utils",
    "verification",
]
