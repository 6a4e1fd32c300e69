"""onnxport: a standalone PyTorch to ONNX exporter with the public surface of ``torch.onnx``."""

from onnxport import errors, ops, verification
from onnxport.capture import enable_fake_mode, is_in_onnx_export
from onnxport.errors import OnnxExporterError
from onnxport.export import export
from onnxport.exportable import ExportableModule
from onnxport.legacy import ExportOptions, dynamo_export
from onnxport.observing import InputObserver
from onnxport.program import ONNXProgram
from onnxport.torchscript import (
    JitScalarType,
    OperatorExportTypes,
    SymbolicContext,
    TrainingMode,
    register_custom_op_symbolic,
    unregister_custom_op_symbolic,
)

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
    "unregister_custom_op_symbolic",
    "verification",
]
