"""The last step: every node against the schema of the target opset, with casts where only the type is missing."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

import onnx.defs
import onnx_ir as ir

from onnxport.errors import OpsetError, Problem, listing
from onnxport.events import EventLog
from onnxport.legalize.builder import Names
from onnxport.legalize.infer import names
from onnxport.legalize.versions import NEWEST

_D = ir.DataType

# For each element type, those that hold all its values, nearest first. A result is cast back, so what is left out
# are the types whose arithmetic would differ: nothing holds a 64-bit integer or a double.
_WIDER: dict[ir.DataType, tuple[ir.DataType, ...]] = {
    _D.FLOAT16: (_D.FLOAT, _D.DOUBLE),
    _D.BFLOAT16: (_D.FLOAT, _D.DOUBLE),
    _D.FLOAT: (_D.DOUBLE,),
    _D.BOOL: (_D.UINT8, _D.INT32, _D.INT64, _D.FLOAT),
    _D.INT8: (_D.INT16, _D.INT32, _D.INT64, _D.FLOAT),
    _D.UINT8: (_D.INT16, _D.INT32, _D.INT64, _D.FLOAT),
    _D.INT16: (_D.INT32, _D.INT64, _D.FLOAT),
    _D.UINT16: (_D.INT32, _D.INT64, _D.FLOAT),
    _D.INT32: (_D.INT64, _D.DOUBLE),
    _D.UINT32: (_D.INT64, _D.DOUBLE),
}

# Operators that only move elements: any type that can hold the values will do.
_MOVES = names(
    "Concat Expand Flatten Gather GatherElements GatherND Identity Pad Reshape Slice Split Squeeze Tile Transpose "
    "Unsqueeze Where Upsample Compress DepthToSpace SpaceToDepth ReverseSequence Scatter ScatterElements ScatterND "
    "Trilu OneHot Max Min ReduceMax ReduceMin Equal Less Greater LessOrEqual GreaterOrEqual TopK ArgMax ArgMin Clip "
    "MaxPool NonZero EyeLike"
)
# Integer arithmetic that stays exact modulo the narrow type's range, and real functions of a float.
_INTEGER_EXACT = names(
    "Abs Add Sub Mul Div Mod Neg Sign Relu Sum ReduceSum ReduceProd ReduceL1 ReduceSumSquare MatMul Gemm CumSum Pow "
    "Range BitwiseAnd BitwiseOr BitwiseXor BitwiseNot"
)
_KINDS = {getattr(onnx.defs.OpSchema.AttrType, kind.name): int(kind) for kind in ir.AttributeType if kind > 0}
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


@dataclass(frozen=True)
class Schema:
    """What validation asks of an operator at one opset, taken out of onnx's schema once."""

    since: int
    min_inputs: int
    max_inputs: int
    max_outputs: int
    attributes: dict[str, int]
    required: frozenset[str]
    inputs: tuple[tuple[str, frozenset[str]], ...]
    outputs: tuple[str, ...]

    def input(self, position: int) -> tuple[str, frozenset[str]]:
        """Type variable and allowed types of an input; the last one repeats when variadic."""
        return self.inputs[min(position, len(self.inputs) - 1)]


@functools.cache
def schema_of(op_type: str, opset: int) -> Schema | None:
    """The operator's schema at an opset, None if it does not exist there or is deprecated."""
    try:
        schema = onnx.defs.get_schema(op_type, opset, "")
    except onnx.defs.SchemaError:
        return None
    if schema.deprecated and op_type != "GroupNormalization":
        return None
    types = {one.type_param_str: frozenset(one.allowed_type_strs) for one in schema.type_constraints}
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
                types.get(one.type_str, frozenset({one.type_str})),
            )
            for one in schema.inputs
        ),
        outputs=tuple(one.type_str for one in schema.outputs),
    )


@functools.cache
def _type_name(dtype: ir.DataType) -> str:
    return f"tensor({dtype.name.lower()})"


def source_line(node: ir.Node) -> str:
    """The user's line a node comes from, as far as it is known."""
    trace = node.metadata_props.get("pkg.torch.onnx.stack_trace", "")
    frames = _FRAME.findall(trace)
    return f"{frames[-1][0]}:{frames[-1][1]}" if frames else ""


def _form_fault(node: ir.Node, schema: Schema | None, opset: int) -> str | None:
    """What is wrong with the node's shape as a call: existence, arity, attributes."""
    if schema is None:
        return f"{node.op_type} does not exist in opset {opset}"
    count = len(node.inputs)
    if not schema.min_inputs <= count <= schema.max_inputs:
        return f"{node.op_type} takes {schema.min_inputs} to {schema.max_inputs} inputs in opset {opset}, not {count}"
    if len(node.outputs) > schema.max_outputs:
        return f"{node.op_type} has {schema.max_outputs} outputs in opset {opset}, not {len(node.outputs)}"
    for name, attribute in node.attributes.items():
        kind = schema.attributes.get(name)
        if kind is None:
            return f"{node.op_type} has no attribute {name!r} in opset {opset}"
        if kind != int(attribute.type):
            return f"attribute {name!r} of {node.op_type} has another type in opset {opset}"
    for name in schema.required:
        if name not in node.attributes:
            return f"{node.op_type} needs the attribute {name!r} in opset {opset}"
    return None


def _illegal_types(node: ir.Node, schema: Schema) -> dict[str, ir.DataType]:
    """Type variables (or ``#position`` for an input of its own) bound to a type the schema does not allow."""
    illegal: dict[str, ir.DataType] = {}
    for position, value in enumerate(node.inputs):
        if value is None or not isinstance(value.type, ir.TensorType):
            continue
        variable, allowed = schema.input(position)
        if _type_name(value.type.dtype) not in allowed:
            illegal[variable or f"#{position}"] = value.type.dtype
    return illegal


def _substitute(node: ir.Node, schema: Schema, opset: int, variable: str, dtype: ir.DataType) -> ir.DataType | None:
    """The nearest legal type in which the operator gives the same result."""
    cast = schema_of("Cast", opset)
    if variable.startswith("#") or cast is None or _type_name(dtype) not in cast.inputs[0][1]:
        return None
    allowed = next(types for name, types in schema.inputs if name == variable)
    for wider in _WIDER.get(dtype, ()):
        if _type_name(wider) not in allowed:
            continue
        if node.op_type in _MOVES or (dtype.is_floating_point() and wider.is_floating_point()):
            return wider
        if node.op_type in _INTEGER_EXACT and dtype.is_integer() and wider.is_integer():
            return wider
    return None


class Validator:
    """Checks all nodes, inserts casts, and gathers every problem before it speaks."""

    def __init__(
        self, names: Names, opset: int, source: int, refusals: dict[ir.Node, tuple[str, int]], events: EventLog | None
    ) -> None:
        self._names = names
        self._opset = opset
        self._source = source
        self._refusals = refusals
        self._events = events
        self._problems: dict[str, Problem] = {}
        self._casts: dict[tuple[ir.Value, ir.DataType], ir.Value] = {}

    def check(self, graph: ir.Graph | ir.Function) -> None:
        """Check a graph and its subgraphs."""
        for node in list(graph):
            if node.domain in ("", "ai.onnx"):
                self._check_node(node)
            for attribute in node.attributes.values():
                if attribute.type == ir.AttributeType.GRAPH:
                    self.check(attribute.as_graph())
                elif attribute.type == ir.AttributeType.GRAPHS:
                    for subgraph in attribute.as_graphs():
                        self.check(subgraph)

    def raise_problems(self) -> None:
        """Raise an error that lists all problems, if there are any."""
        if self._problems:
            headline = f"The model cannot be written in opset {self._opset}:"
            raise OpsetError(listing(headline, list(self._problems.values())))

    def _check_node(self, node: ir.Node) -> None:
        refusal = self._refusals.get(node)
        if refusal is not None:
            reason, works_from = refusal
            self._report(node, f"{node.op_type} cannot be expressed in opset {self._opset}: {reason}", works_from)
            return
        schema = schema_of(node.op_type, self._opset)
        fault = _form_fault(node, schema, self._opset)
        if fault is not None or schema is None:
            self._report(node, fault or "", self._first_valid(node))
            return
        for variable, dtype in _illegal_types(node, schema).items():
            legal = _substitute(node, schema, self._opset, variable, dtype)
            if legal is None:
                what = f"{node.op_type} does not take {dtype.name.lower()} in opset {self._opset}"
                self._report(node, what, self._first_valid(node))
                return
            self._cast_around(node, schema, variable, dtype, legal)

    def _first_valid(self, node: ir.Node) -> int | None:
        """The opset nearest to the target at which the node is valid as it stands."""
        if self._source > self._opset:
            candidates: Iterator[int] = iter(range(self._opset + 1, NEWEST + 1))
        else:
            candidates = iter(range(self._opset - 1, 0, -1))
        for opset in candidates:
            schema = schema_of(node.op_type, opset)
            if schema is None or _form_fault(node, schema, opset) is not None:
                continue
            illegal = _illegal_types(node, schema).items()
            if all(_substitute(node, schema, opset, *one) is not None for one in illegal):
                return opset
        return None

    def _report(self, node: ir.Node, what: str, works_from: int | None) -> None:
        if works_from is None:
            remedy = "No opset takes it in this form."
        elif works_from > self._opset:
            remedy = f"The lowest opset that works is {works_from}: pass opset_version={works_from}."
        else:
            remedy = f"The highest opset that works is {works_from}: pass opset_version={works_from}."
        known = self._problems.get(what)
        if known is None:
            self._problems[what] = Problem(what, where=source_line(node), remedy=remedy)
        else:
            self._problems[what] = Problem(what, known.where, known.remedy, known.count + 1)

    def _cast_around(
        self, node: ir.Node, schema: Schema, variable: str, dtype: ir.DataType, legal: ir.DataType
    ) -> None:
        """Compute in ``legal`` what the target opset does not compute in ``dtype``."""
        graph = node.graph
        assert graph is not None
        for position, value in enumerate(node.inputs):
            if value is not None and schema.input(position)[0] == variable:
                node.replace_input_with(position, self._cast_before(graph, node, value, legal))
        for position, output in enumerate(node.outputs):
            if schema.outputs[min(position, len(schema.outputs) - 1)] != variable:
                continue
            cast = ir.Node(
                "",
                "Cast",
                [None],
                [ir.AttrInt64("to", int(dtype))],
                name=self._names.fresh(f"{node.name or node.op_type}_Cast"),
                metadata_props=dict(node.metadata_props),
            )
            narrow = cast.outputs[0]
            narrow.type, narrow.shape = ir.TensorType(dtype), output.shape
            output.replace_all_uses_with(narrow, replace_graph_outputs=True)
            cast.replace_input_with(0, output)
            narrow.name, output.name = output.name, self._names.fresh(f"{output.name}_{legal.name.lower()}")
            output.type = ir.TensorType(legal)
            graph.insert_after(node, cast)
        if self._events is not None:
            message = (
                f"{node.op_type} takes no {dtype.name.lower()} in opset {self._opset} "
                f"and is computed in {legal.name.lower()}"
            )
            self._events.add("cast", "legalize", message, where=source_line(node))

    def _cast_before(
        self, graph: ir.Graph | ir.Function, node: ir.Node, value: ir.Value, legal: ir.DataType
    ) -> ir.Value:
        known = self._casts.get((value, legal))
        # A cast made in one subgraph cannot be seen from its siblings.
        if known is not None and known.graph is graph:
            return known
        name = self._names.fresh(f"{value.name}_{legal.name.lower()}")
        cast = ir.node("Cast", [value], {"to": int(legal)}, name=self._names.fresh(f"{name}_Cast"))
        cast.metadata_props.update(node.metadata_props)
        output = cast.outputs[0]
        output.name, output.type, output.shape = name, ir.TensorType(legal), value.shape
        graph.insert_before(node, cast)
        self._casts[(value, legal)] = output
        return output
