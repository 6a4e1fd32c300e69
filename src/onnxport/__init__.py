"""onnxport: a standalone PyTorch to ONNX exporter with the public surface of ``torch.onnx``."""

from onnxport import errors, ops, symbolic_helper, verification
from onnxport.capture import enable_fake_mode, is_in_onnx_export
from onnxport.errors import OnnxExporterError
from onnxport.export import export
from onnxport.exportable import ExportableModule
from onnxport.legacy import ExportOptions, dynamo_export
from onnxport.observing import InputObserver
from onnxport.program import ONNXProgram
from onnxport.torchscript import (
    SYMBOLIC_OPSETS,
    JitScalarType,
    OperatorExportTypes,
    SymbolicContext,
    TrainingMode,
    register_custom_op_symbolic,
    select_model_mode_for_export,
    unregister_custom_op_symbolic,
)

# symbolic_opset7 to symbolic_opset20, as `from onnxport import symbolic_opset9` and `import onnxport.symbolic_opset9`.
globals().update(SYMBOLIC_OPSETS)

__version__ = "0.1.0"

__all__ = [
    "ExportOptions",
    "ExportableModule",
    "InputObserver",
    "JitScalarType",
    "ONNXProgram",
    "OnnxExporterError",
    "OperatorExportTypes",
    "SymbolicContext",
    "TrainingMode",
    "dynamo_export",
    "enable_fake_mode",
    "errors",
    "export",
    "is_in_onnx_export",
    "ops",
    "register_custom_op_symbolic",
    "select_model_mode_for_export",
    "symbolic_helper",
    "unregister_custom_op_symbolic",
    "verification",
]
