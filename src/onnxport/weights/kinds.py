"""What tells the user's parameters and buffers from the constants of the graph: the metadata of an initializer."""

from __future__ import annotations

import onnx_ir as ir

KIND = "pkg.torch.export.graph_signature.InputSpec.kind"
WEIGHT_KINDS = frozenset({"PARAMETER", "BUFFER"})


def is_weight(value: ir.Value) -> bool:
    """Whether an initializer belongs to the state dict, as opposed to the graph.

    >>> import onnx_ir as ir
    >>> from onnxport.weights.kinds import KIND, is_weight
    >>> is_weight(ir.Value(name="conv.weight", metadata_props={KIND: "PARAMETER"}))
    True
    """
    return value.metadata_props.get(KIND) in WEIGHT_KINDS
