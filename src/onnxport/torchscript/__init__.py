"""The interface of the TorchScript exporter, over the same translations as everything else."""

from onnxport.torchscript.functions import keeps_whole
from onnxport.torchscript.graph_context import GraphContext, SymbolicContext
from onnxport.torchscript.lookup import symbolic_lookup
from onnxport.torchscript.registration import register_custom_op_symbolic, unregister_custom_op_symbolic
from onnxport.torchscript.scalar_types import JitScalarType
from onnxport.torchscript.types import OperatorExportTypes, TrainingMode

__all__ = [
    "GraphContext",
    "JitScalarType",
    "OperatorExportTypes",
    "SymbolicContext",
    "TrainingMode",
    "keeps_whole",
    "register_custom_op_symbolic",
    "symbolic_lookup",
    "unregister_custom_op_symbolic",
]
