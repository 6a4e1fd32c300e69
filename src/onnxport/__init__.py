"""onnxport: a standalone PyTorch to ONNX exporter with the public surface of ``torch.onnx``."""

from onnxport import errors, ops, verification
from onnxport.capture import enable_fake_mode, is_in_onnx_export
from onnxport.errors import OnnxExporterError
from onnxport.export import export
from onnxport.program import ONNXProgram
from onnxport.torchscript import OperatorExportTypes, TrainingMode

__version__ = "0.1.0"

__all__ = [
    "ONNXProgram",
    "OnnxExporterError",
    "OperatorExportTypes",
    "TrainingMode",
    "enable_fake_mode",
    "errors",
    "export",
    "is_in_onnx_export",
    "ops",
    "verification",
]
