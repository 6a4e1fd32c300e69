"""The interface of the TorchScript exporter, over the same translations as everything else."""

from onnxport.torchscript.graph_context import GraphContext, SymbolicContext
from onnxport.torchscript.log import disable_log, enable_log, is_onnx_log_enabled, log, log_events, set_log_stream
from onnxport.torchscript.lookup import kept_for_symbolics, symbolic_lookup
from onnxport.torchscript.mode import select_model_mode_for_export
from onnxport.torchscript.opsets import MODULES as SYMBOLIC_OPSETS
from onnxport.torchscript.registration import register_custom_op_symbolic, unregister_custom_op_symbolic
from onnxport.torchscript.scalar_types import JitScalarType
from onnxport.torchscript.types import (
    PRODUCER_NAME,
    PRODUCER_VERSION,
    OperatorExportTypes,
    TensorProtoDataType,
    TrainingMode,
)

__all__ = [
    "PRODUCER_NAME",
    "PRODUCER_VERSION",
    "SYMBOLIC_OPSETS",
    "GraphContext",
    "JitScalarType",
    "OperatorExportTypes",
    "SymbolicContext",
    "TensorProtoDataType",
    "TrainingMode",
    "disable_log",
    "enable_log",
    "is_onnx_log_enabled",
    "kept_for_symbolics",
    "log",
    "log_events",
    "register_custom_op_symbolic",
    "select_model_mode_for_export",
    "set_log_stream",
    "symbolic_lookup",
    "unregister_custom_op_symbolic",
]
