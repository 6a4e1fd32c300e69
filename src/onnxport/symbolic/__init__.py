"""The interface of the TorchScript exporter, over the same translations as everything else."""

from onnxport.symbolic.api.log import disable_log, enable_log, is_onnx_log_enabled, log, log_events, set_log_stream
from onnxport.symbolic.api.mode import select_model_mode_for_export
from onnxport.symbolic.session.graph_context import GraphContext, SymbolicContext
from onnxport.symbolic.session.lookup import kept_for_symbolics, symbolic_lookup
from onnxport.symbolic.session.registration import register_custom_op_symbolic, unregister_custom_op_symbolic
from onnxport.symbolic.session.scalar_types import JitScalarType, TensorProtoDataType

__all__ = [
    "GraphContext",
    "JitScalarType",
    "SymbolicContext",
    "TensorProtoDataType",
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
