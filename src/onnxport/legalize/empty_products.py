"""Products of batches of matrices in a form that onnxruntime runs where the matrices have no rows."""

from __future__ import annotations

import onnx_ir as ir

from onnxport.legalize.rewriter import Replacement
from onnxport.legalize.rule_builder import RuleBuilder

_SCALING = frozenset({"Mul", "Div", "Cast"})


def between_other_axes(op: RuleBuilder, node: ir.Node) -> Replacement:
    """``MatMul(Transpose(x), y)`` where the first axis of ``x``, which may be empty, moves behind those of the batch.

    onnxruntime 1.31 makes one operator of the two, which divides by the length of that axis and so ends the process.
    With one more axis in front, the transposition is none that it knows.
    """
    if node.outputs[0].dtype is None or not node.outputs[0].dtype.is_floating_point():
        return None
    operands = [op.needed(0), op.needed(1)]
    moved = [_begins_with_open_rows(value) for value in operands]
    ranks = [value.shape.rank() for value in operands if value.shape is not None and value.shape.rank() > 2]
    if not any(moved) or len(ranks) < 2:
        return None
    rank = max(ranks)
    product = op.MatMul(
        *(
            op.unsqueeze(value, list(range(rank + 1 - of))) if is_moved else value
            for value, of, is_moved in zip(operands, ranks, moved, strict=True)
        )
    )
    return op.squeeze(product, [0])


def _begins_with_open_rows(value: ir.Value) -> bool:
    """Whether a transposition, maybe scaled, moves an axis that varies from the first place to one of the last two."""
    node = value.producer()
    while node is not None and node.op_type in _SCALING and node.domain == "":
        scales = [other for other in node.inputs[1:] if other is not None]
        if node.inputs[0] is None or any(other.shape is None or other.shape.rank() for other in scales):
            return False
        node = node.inputs[0].producer()
    if node is None or node.op_type != "Transpose" or node.domain != "":
        return False
    order, source = list(node.attributes.get_ints("perm", ())), node.inputs[0]
    if len(order) < 3 or 0 not in order[-2:] or source is None:
        return False
    return source.shape is None or not isinstance(source.shape[0], int)
