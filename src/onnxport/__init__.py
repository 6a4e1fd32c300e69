"""onnxport: a standalone PyTorch to ONNX exporter with the public surface of ``torch.onnx``.

Importing it takes next to nothing: each name is loaded when it is first used, and torch, onnx and the stages of an
export with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxport.late_names import LateNames as _LateNames
from onnxport.versions import VERSION as _VERSION
from onnxport.versions import require as _require

_require(["torch", "onnx", "onnx_ir"])

__version__ = _VERSION

if TYPE_CHECKING:
    # What type checkers see; below is the same for Python, and a test compares the two.
    from onnxport import errors, generation, ops, verification
    from onnxport.capture import enable_fake_mode, is_in_onnx_export
    from onnxport.errors import OnnxExporterError
    from onnxport.export_call import export
    from onnxport.export_types import OperatorExportTypes, TrainingMode, producer_name, producer_version
    from onnxport.exportable import ExportableModule
    from onnxport.observing import InputObserver
    from onnxport.pretrained import export_pretrained
    from onnxport.program import ONNXProgram
    from onnxport.quantize import Quantization
    from onnxport.symbolic import (
        JitScalarType,
        SymbolicContext,
        TensorProtoDataType,
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
    from onnxport.symbolic.api.symbolic_opsets import (
        symbolic_opset7,
        symbolic_opset8,
        symbolic_opset9,
        symbolic_opset10,
        symbolic_opset11,
        symbolic_opset12,
        symbolic_opset13,
        symbolic_opset14,
        symbolic_opset15,
        symbolic_opset16,
        symbolic_opset17,
        symbolic_opset18,
        symbolic_opset19,
        symbolic_opset20,
    )
    from onnxport.targets import Target
    from onnxport.torch_onnx import utils
    from onnxport.torch_onnx.dynamo_export import ExportOptions, dynamo_export
    from onnxport.torch_onnx.utils import export_to_pretty_string
else:
    _late_names = _LateNames(
        __name__,
        {
            "onnxport": "errors generation ops verification",
            "onnxport.capture": "enable_fake_mode is_in_onnx_export",
            "onnxport.errors": "OnnxExporterError",
            "onnxport.export_call": "export",
            "onnxport.export_types": "OperatorExportTypes TrainingMode producer_name producer_version",
            "onnxport.exportable": "ExportableModule",
            "onnxport.observing": "InputObserver",
            "onnxport.pretrained": "export_pretrained",
            "onnxport.program": "ONNXProgram",
            "onnxport.quantize": "Quantization",
            "onnxport.symbolic": (
                "JitScalarType SymbolicContext TensorProtoDataType disable_log enable_log is_onnx_log_enabled log "
                "register_custom_op_symbolic select_model_mode_for_export set_log_stream unregister_custom_op_symbolic"
            ),
            "onnxport.symbolic.api": "jit_utils operators symbolic_helper",
            "onnxport.symbolic.api.symbolic_opsets": " ".join(f"symbolic_opset{opset}" for opset in range(7, 21)),
            "onnxport.targets": "Target",
            "onnxport.torch_onnx": "utils",
            "onnxport.torch_onnx.dynamo_export": "ExportOptions dynamo_export",
            "onnxport.torch_onnx.utils": "export_to_pretty_string",
        },
    )
    __getattr__, __dir__ = _late_names.get, _late_names.listed

__all__ = [
    "ExportOptions",
    "ExportableModule",
    "InputObserver",
    "JitScalarType",
    "ONNXProgram",
    "OnnxExporterError",
    "OperatorExportTypes",
    "Quantization",
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
    "export_pretrained",
    "export_to_pretty_string",
    "generation",
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
    "symbolic_opset7",
    "symbolic_opset8",
    "symbolic_opset9",
    "symbolic_opset10",
    "symbolic_opset11",
    "symbolic_opset12",
    "symbolic_opset13",
    "symbolic_opset14",
    "symbolic_opset15",
    "symbolic_opset16",
    "symbolic_opset17",
    "symbolic_opset18",
    "symbolic_opset19",
    "symbolic_opset20",
    "unregister_custom_op_symbolic",
    "utils",
    "verification",
]
