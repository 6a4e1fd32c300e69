"""Which opset a node is written for: symbolic functions write by the opset they know, and forms changed over time."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import onnx

from onnxport.onnx_build.opsets import CANONICAL_OPSET, NEWEST_OPSET, OLDEST_OPSET
from onnxport.onnx_build.schemas import schema_of


@dataclass(frozen=True)
class OpsetForm:
    """How a node of ONNX's own domain is read: at which opset, and which of its attributes are inputs there."""

    opset: int
    moved: Mapping[str, int]

    def version(self, op_type: str) -> int | None:
        """The version to mark the node with: none where it means at the canonical opset what it means here."""
        return None if _since(op_type, self.opset) == _since(op_type, CANONICAL_OPSET) else self.opset


def opset_form(op_type: str, inputs: int, outputs: int, attributes: Collection[str], opset: int) -> OpsetForm | None:
    """The form of a node, looked for at the opset of the file first; None if no opset has the operator.

    An attribute that has become an input since (the axes of ``Squeeze``) is moved there. A form that only another
    opset has is kept as that one's: legalisation takes it to the file's.

    >>> opset_form("Squeeze", 1, 1, ["axes"], 11), opset_form("Squeeze", 1, 1, ["axes"], 17)
    (OpsetForm(opset=11, moved={}), OpsetForm(opset=17, moved={'axes': 1}))
    >>> opset_form("Squeeze", 2, 1, [], 11).opset
    13
    """
    if _fits(op_type, inputs, outputs, attributes, opset):
        return OpsetForm(opset, {})
    moved = _moved(op_type, inputs, attributes, opset)
    if moved:
        left = [name for name in attributes if name not in moved]
        if _fits(op_type, max(inputs, *(at + 1 for at in moved.values())), outputs, left, opset):
            return OpsetForm(opset, moved)
    for other in (*range(opset + 1, NEWEST_OPSET + 1), *range(opset - 1, OLDEST_OPSET - 1, -1)):
        if _fits(op_type, inputs, outputs, attributes, other):
            return OpsetForm(other, {})
    return OpsetForm(opset, {}) if schema_of(op_type, opset) is not None else None


def _fits(op_type: str, inputs: int, outputs: int, attributes: Collection[str], opset: int) -> bool:
    schema = schema_of(op_type, opset)
    return (
        schema is not None
        and schema.min_inputs <= inputs <= schema.max_inputs
        and outputs <= schema.max_outputs
        and all(name in schema.attributes for name in attributes)
        and all(name in attributes for name in schema.required)
    )


def _moved(op_type: str, inputs: int, attributes: Collection[str], opset: int) -> dict[str, int]:
    names = input_names(op_type, opset)
    schema = schema_of(op_type, opset)
    if schema is None:
        return {}
    # The count of TopK is written `k` as an attribute and `K` as an input.
    positions = {name.lower(): position for position, name in enumerate(names)}
    return {
        name: positions[name.lower()]
        for name in attributes
        if name not in schema.attributes and positions.get(name.lower(), 0) >= inputs
    }


@functools.cache
def input_names(op_type: str, opset: int) -> Sequence[str]:
    """The names of an operator's inputs at an opset."""
    if schema_of(op_type, opset) is None:
        return ()
    return tuple(formal.name for formal in onnx.defs.get_schema(op_type, opset).inputs)


@functools.cache
def _since(op_type: str, opset: int) -> int | None:
    schema = schema_of(op_type, opset)
    return None if schema is None else schema.since
