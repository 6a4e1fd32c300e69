"""A target: what one reader of ONNX files takes, so that a file is written for it or refused."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from onnxport.onnx_build.opsets import DEFAULT_OPSET, NEWEST_OPSET, OLDEST_OPSET


@dataclass(frozen=True)
class Target:
    """What a reader takes. A profile of your own is passed to ``export`` and ``save`` like the name of one.

    Attributes:
        name: How messages call it.
        opset: The opset that is written where none is asked for.
        oldest_opset: The oldest opset that it reads.
        newest_opset: The newest opset that it reads.
        ir_version: The version of the file format that is written where none is asked for; None for the opset's.
        inner_shapes: Whether the file states the shapes of values inside the graph.
        int32_inputs: Whether inputs of int64 are int32 in the file.
        fixed_sizes: Whether every size must be known when the file is written.
        rewritten: Operators that are written as others which compute the same, by their names, as ``"Gelu"``, or those
            of them that state an attribute, as ``"ScatterND.reduction"`` or ``"Resize.mode=cubic"``.
        refused: Operators that it has not, and that nothing else stands for.
        unread: Attributes that it does not read, as ``"RNN.activations"``: what states one is refused.
        refused_types: Element types that it has not.
        contributed: Whether it has the operators that onnxruntime adds to ONNX's, those of ``com.microsoft``.
        fusions: What is written in a form that it runs faster, by the names in ``onnxport.fusions.FUSIONS``.
        basis: What all this is known from.

    >>> import onnxport, torch
    >>> own = onnxport.Target("my reader", opset=17, newest_opset=17, rewritten=frozenset({"LayerNormalization"}))
    >>> program = onnxport.export(torch.nn.LayerNorm(4), (torch.ones(2, 4),), target=own)
    >>> "LayerNormalization" in {node.op_type for node in program.model.graph}
    False
    """

    name: str
    opset: int = DEFAULT_OPSET
    oldest_opset: int = OLDEST_OPSET
    newest_opset: int = NEWEST_OPSET
    ir_version: int | None = None
    inner_shapes: bool = True
    int32_inputs: bool = False
    fixed_sizes: bool = False
    rewritten: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()
    unread: frozenset[str] = frozenset()
    refused_types: frozenset[ir.DataType] = frozenset()
    contributed: bool = False
    fusions: tuple[str, ...] = ()
    basis: str = ""

    def opset_for(self, own: int) -> int:
        """The opset of a model that has one already: its own where the reader takes that, else the reader's.

        >>> from onnxport import Target
        >>> Target("reader", opset=17, newest_opset=17).opset_for(20)
        17
        """
        return own if self.oldest_opset <= own <= self.newest_opset else self.opset


def names_node(names: frozenset[str], node: ir.Node) -> bool:
    """Whether the names in a target mean a node: those of operators, or of attributes that the node states.

    >>> import onnx_ir as ir
    >>> from onnxport.targets.target import names_node
    >>> resize = ir.node("Resize", [None], {"mode": "cubic"})
    >>> [names_node(frozenset({name}), resize) for name in ("Resize", "Resize.mode=cubic", "Resize.mode=linear")]
    [True, True, False]
    """
    if node.op_type in names:
        return True
    return any(
        f"{node.op_type}.{name}" in names
        or (attribute.type == ir.AttributeType.STRING and f"{node.op_type}.{name}={attribute.value}" in names)
        for name, attribute in node.attributes.items()
    )
