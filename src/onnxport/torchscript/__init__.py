"""The interface of the TorchScript exporter, over the same translations as everything else."""

from onnxport.torchscript.graph_context import GraphContext, SymbolicContext
from onnxport.torchscript.lookup import kept_for_symbolics, symbolic_lookup
from onnxport.torchscript.mode import select_model_mode_for_export
from onnxport.torchscript.opsets import MODULES as SYMBOLIC_OPSETS
from onnxport.torchscript.registration import register_custom_op_symbolic, unregister_custom_op_symbolic
from onnxport.torchscript.scalar_types import JitScalarType
from onnxport.torchscript.types import OperatorExportTypes, TrainingMode

__all__ = [
    "SYMBOLIC_OPSETS",
    "GraphContext",
    "JitScalarType",
    "OperatorExportTypes",
    "SymbolicContext",
    "TrainingMode",
    "kept_for_symbolics",
    "register_custom_op_symbolic",
    "select_model_mode_for_export",
    "symbolic_lookup",
    "unregister_custom_op_symbolic",
]
