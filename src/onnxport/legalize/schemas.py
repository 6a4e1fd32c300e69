"""What ONNX says of an operator at one opset, taken out of onnx's schemas once."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass

import onnx.defs
import onnx_ir as ir

_KINDS = {getattr(onnx.defs.OpSchema.AttrType, kind.name): int(kind) for kind in ir.AttributeType if kind > 0}
_TENSOR = re.compile(r"tensor\((\w+)\)")

Types = frozenset[ir.DataType]


@dataclass(frozen=True)
class Schema:
    """What validation asks of an operator: existence, arity, attributes, and the element types of its variables."""

    since: int
    min_inputs: int
    max_inputs: int
    max_outputs: int
    attributes: dict[str, int]
    required: frozenset[str]
    inputs: tuple[tuple[str, Types], ...]
    outputs: tuple[str, ...]
    types: dict[str, Types]

    def input(self, position: int) -> tuple[str, Types]:
        """Type variable and allowed types of an input; the last one repeats when variadic."""
        return self.inputs[min(position, len(self.inputs) - 1)]

    def output(self, position: int) -> str:
        """Type variable of an output; the last one repeats when variadic."""
        return self.outputs[min(position, len(self.outputs) - 1)]


@functools.cache
def schema_of(op_type: str, opset: int) -> Schema | None:
    """The operator's schema at an opset, None if it does not exist there or is deprecated."""
    try:
        schema = onnx.defs.get_schema(op_type, opset, "")
    except onnx.defs.SchemaError:
        return None
    if schema.deprecated and op_type != "GroupNormalization":
        return None
    types = {one.type_param_str: _element_types(one.allowed_type_strs) for one in schema.type_constraints}
    heterogeneous = {
        formal.name
        for formal in schema.inputs
        if formal.option == onnx.defs.OpSchema.FormalParameterOption.Variadic and not formal.is_homogeneous
    }
    return Schema(
        since=schema.since_version,
        min_inputs=schema.min_input,
        max_inputs=schema.max_input,
        max_outputs=schema.max_output,
        attributes={name: _KINDS[one.type] for name, one in schema.attributes.items()},
        required=frozenset(name for name, one in schema.attributes.items() if one.required),
        inputs=tuple(
            (
                "" if one.name in heterogeneous else one.type_str,
                types[one.type_str] if one.type_str in types else _element_types([one.type_str]),
            )
            for one in schema.inputs
        ),
        outputs=tuple(one.type_str for one in schema.outputs),
        types=types,
    )


def _element_types(texts: Sequence[str]) -> Types:
    found = (_TENSOR.fullmatch(text) for text in texts)
    return frozenset(ir.DataType[match[1].upper()] for match in found if match is not None)
