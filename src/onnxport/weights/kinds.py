"""What tells the user's parameters and buffers from the constants of the graph: the metadata of an initializer."""

from __future__ import annotations

import onnx_ir as ir

from onnxport.provenance import INPUT_KIND

WEIGHT_KINDS = frozenset({"PARAMETER", "BUFFER"})


def is_weight(value: ir.Value) -> bool:
    """Whether an initializer belongs to the state dict, as opposed to the graph.

    >>> import onnx_ir as ir
    >>> from onnxport.provenance import INPUT_KIND
    >>> from onnxport.weights.kinds import is_weight
    >>> is_weight(ir.Value(name="conv.weight", metadata_props={INPUT_KIND: "PARAMETER"}))
    True
    """
    return value.metadata_props.get(INPUT_KIND) in WEIGHT_KINDS
