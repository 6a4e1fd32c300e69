"""What ONNX says of an operator at one opset, taken out of onnx's schemas once."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass

import onnx.defs
import onnx_ir as ir

_KINDS = {getattr(onnx.defs.OpSchema.AttrType, kind.name): kind for kind in ir.AttributeType if kind > 0}
_TENSOR = re.compile(r"tensor\((\w+)\)")

Types = frozenset[ir.DataType]
ResultType = tuple[int, ...] | ir.DataType
"""Where the element type of an output comes from: the positions of inputs that have it too, or the one it always is."""


@dataclass(frozen=True)
class Schema:
    """What is asked of an operator: existence, arity, attributes, and the element types of its variables."""

    since: int
    min_inputs: int
    max_inputs: int
    max_outputs: int
    attributes: dict[str, ir.AttributeType]
    required: frozenset[str]
    inputs: tuple[tuple[str, Types], ...]
    outputs: tuple[str, ...]
    types: dict[str, Types]
    result_types: tuple[ResultType, ...]

    def input(self, position: int) -> tuple[str, Types]:
        """Type variable and allowed types of an input; the last one repeats when variadic."""
        return self.inputs[min(position, len(self.inputs) - 1)]

    def output(self, position: int) -> str:
        """Type variable of an output; the last one repeats when variadic."""
        return self.outputs[min(position, len(self.outputs) - 1)]

    def result_type(self, position: int, inputs: Sequence[ir.Value | None]) -> ir.DataType | None:
        """The element type of an output given the inputs, where the schema determines it."""
        rule = self.result_types[min(position, len(self.result_types) - 1)]
        if isinstance(rule, ir.DataType):
            return rule
        for shared in rule:
            if shared < len(inputs) and (found := inputs[shared]) is not None:
                return found.dtype
        return None


def similar_operators(op_type: str) -> str:
    """Operators that may be meant by a name that none has: ``; did you mean Mul?``"""
    names = sorted({schema.name for schema in onnx.defs.get_all_schemas() if not schema.domain})
    found = [name for name in names if op_type.lower().startswith(name.lower())]
    found += [name for name in difflib.get_close_matches(op_type, names, n=3) if name not in found]
    return f"; did you mean {' or '.join(found)}?" if found else "."


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
    heterogeneous = {formal.name for formal in schema.inputs if _is_heterogeneous(formal)}
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
        result_types=tuple(_result_type(schema, output, types) for output in schema.outputs),
    )


def _is_heterogeneous(formal: onnx.defs.OpSchema.FormalParameter) -> bool:
    return formal.option == onnx.defs.OpSchema.FormalParameterOption.Variadic and not formal.is_homogeneous


def _result_type(
    schema: onnx.defs.OpSchema, output: onnx.defs.OpSchema.FormalParameter, types: dict[str, Types]
) -> ResultType:
    if _is_heterogeneous(output):
        return ()
    shared = tuple(at for at, formal in enumerate(schema.inputs) if formal.type_str == output.type_str)
    allowed = types[output.type_str] if output.type_str in types else _element_types([output.type_str])
    if not shared and len(allowed) == 1:
        return next(iter(allowed))
    return shared


def _element_types(texts: Sequence[str]) -> Types:
    found = (_TENSOR.fullmatch(text) for text in texts)
    return frozenset(ir.DataType[match[1].upper()] for match in found if match is not None)
