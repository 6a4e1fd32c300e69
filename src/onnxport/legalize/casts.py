"""Computing a node in another element type: which one gives the same result, and the casts around the node."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import onnx_ir as ir

from onnxport.onnx_build.literals import Contents, Literals
from onnxport.onnx_build.names import UniqueNames
from onnxport.onnx_build.operators import operator_set
from onnxport.onnx_build.schemas import Schema
from onnxport.provenance import Provenance, pass_on, provenance_of
from onnxport.weights.kinds import is_weight

_D = ir.DataType

# For each element type, those that hold all its values, nearest first. A result is cast back, so what is left out
# are the types whose arithmetic would differ: nothing holds a 64-bit integer or a double.
_WIDER: dict[ir.DataType, tuple[ir.DataType, ...]] = {
    _D.FLOAT8E4M3FN: (_D.FLOAT16, _D.FLOAT),
    _D.FLOAT8E5M2: (_D.FLOAT16, _D.FLOAT),
    _D.FLOAT16: (_D.FLOAT, _D.DOUBLE),
    _D.BFLOAT16: (_D.FLOAT, _D.DOUBLE),
    _D.FLOAT: (_D.DOUBLE,),
    _D.BOOL: (_D.UINT8, _D.INT32, _D.INT64, _D.FLOAT),
    _D.INT8: (_D.INT16, _D.INT32, _D.INT64, _D.FLOAT),
    _D.UINT8: (_D.INT16, _D.INT32, _D.INT64, _D.UINT32, _D.FLOAT),
    _D.INT16: (_D.INT32, _D.INT64, _D.FLOAT),
    _D.UINT16: (_D.INT32, _D.INT64, _D.UINT32, _D.FLOAT),
    _D.INT32: (_D.INT64, _D.DOUBLE),
    _D.UINT32: (_D.INT64, _D.UINT64, _D.DOUBLE),
}
# What comes nearest where nothing holds all values.
_NARROWER: dict[ir.DataType, tuple[ir.DataType, ...]] = {
    _D.DOUBLE: (_D.FLOAT,),
    _D.INT64: (_D.DOUBLE, _D.FLOAT),
    _D.UINT64: (_D.INT64, _D.DOUBLE, _D.FLOAT),
    _D.INT32: (_D.FLOAT,),
    _D.UINT32: (_D.FLOAT,),
}

# Operators that do not look at the values of their input.
_IGNORES = operator_set("EyeLike Size Shape RandomNormalLike RandomUniformLike")
# Operators whose results are all among the values they are given.
_COPIES = operator_set(
    "Concat Expand Flatten Gather GatherElements GatherND Identity Pad Reshape Slice Split Squeeze Tile Transpose "
    "Unsqueeze Where Upsample Compress DepthToSpace SpaceToDepth ReverseSequence Scatter ScatterElements ScatterND "
    "Trilu OneHot CenterCropPad SplitToSequence"
)
_CHOOSES = operator_set("Max Min ReduceMax ReduceMin TopK Clip MaxPool Relu Unique MaxUnpool")
# Operators that compare values and give something else; any type that holds the values will do.
_COMPARES = operator_set("Equal Less Greater LessOrEqual GreaterOrEqual ArgMax ArgMin NonZero")
_MOVES = _IGNORES | _COPIES | _CHOOSES | _COMPARES
# Integer arithmetic that is the same modulo the range of any type, signed or not ...
_MODULAR = operator_set(
    "Add Sub Mul Neg Sum ReduceSum ReduceProd ReduceSumSquare MatMul Gemm CumSum CumProd Einsum "
    "BitwiseAnd BitwiseOr BitwiseXor BitwiseNot"
)
# ... and what is the same in every type that holds the values.
_INTEGER_EXACT = _MODULAR | operator_set("Abs Div Mod Sign ReduceL1 Pow Range BitShift PRelu")


def is_same(op_type: str, dtype: ir.DataType, other: ir.DataType) -> bool:
    """Whether an operator computed in ``other`` and cast back gives what it gives in ``dtype``."""
    if op_type == "NonZero" and other == _D.BOOL:
        return True
    if other in _WIDER.get(dtype, ()):
        if op_type in _MOVES or (dtype.is_floating_point() and other.is_floating_point()):
            return True
        return op_type in _INTEGER_EXACT and dtype.is_integer() and other.is_integer()
    return (dtype, other) == (_D.UINT64, _D.INT64) and (op_type in _COPIES or op_type in _MODULAR)


def nearest_exact(op_type: str, dtype: ir.DataType, allowed: Collection[ir.DataType]) -> ir.DataType | None:
    """The nearest of the allowed types in which the operator gives the same result."""
    return next(
        (other for other in _nearest(op_type, dtype) if other in allowed and is_same(op_type, dtype, other)), None
    )


def nearest(op_type: str, dtype: ir.DataType, allowed: Collection[ir.DataType]) -> ir.DataType | None:
    """The nearest of the allowed types, be it that some values are rounded in it."""
    return next((other for other in _nearest(op_type, dtype) if other in allowed), None)


def _nearest(op_type: str, dtype: ir.DataType) -> Iterator[ir.DataType]:
    if op_type == "NonZero":
        yield _D.BOOL
    yield from _WIDER.get(dtype, ())
    yield from _NARROWER.get(dtype, ())


class Casts:
    """Puts casts around nodes; a value that several nodes want in a type is cast once."""

    def __init__(self, names: UniqueNames, literals: Literals) -> None:
        self._names = names
        self._literals = literals
        self._known: dict[tuple[ir.Value, ir.DataType], ir.Value] = {}
        self._unrounded: dict[tuple[ir.Value, ir.DataType, Provenance | None], ir.Value] = {}

    def around(self, node: ir.Node, schema: Schema, variable: str, dtype: ir.DataType, other: ir.DataType) -> None:
        """Compute in ``other`` what the node's type variable says is computed in ``dtype``."""
        graph = node.graph
        assert graph is not None
        for position, value in enumerate(node.inputs):
            if value is not None and schema.input(position)[0] == variable:
                node.replace_input_with(position, self._before(graph, node, value, other))
                _forget(value)
        if all(name != variable for name, _ in schema.inputs):
            _state_output(node, schema, other)
        for position, output in enumerate(node.outputs):
            if schema.output(position) != variable:
                continue
            if output.uses() or output.is_graph_output():
                self._after(graph, node, output, dtype, other)
            else:
                output.type = ir.TensorType(other)

    def _before(self, graph: ir.Graph | ir.Function, node: ir.Node, value: ir.Value, other: ir.DataType) -> ir.Value:
        known = self._unrounded.get((value, other, provenance_of(node)))
        if known is None:
            known = _dequantized(value, other)
        if known is None:
            known = self._known.get((value, other))
        # A cast made in one subgraph cannot be seen from its siblings.
        if known is not None and (known.graph is graph or known.is_initializer()):
            return known
        literal = self._literal(graph, value, other)
        if literal is not None:
            self._known[(value, other)] = literal
            return literal
        name = self._names.unique(f"{value.name}_{other.name.lower()}")
        cast = ir.node("Cast", [value], {"to": int(other)}, name=self._names.unique(f"{name}_Cast"))
        pass_on(node, cast)
        output = cast.outputs[0]
        output.name, output.type, output.shape = name, ir.TensorType(other), value.shape
        graph.insert_before(node, cast)
        self._known[(value, other)] = output
        return output

    def _literal(self, graph: ir.Graph | ir.Function, value: ir.Value, other: ir.DataType) -> ir.Value | None:
        """A literal of the graph in another type, where that is a matter of writing it down differently."""
        tensor = value.const_value
        if tensor is None or not value.is_initializer() or is_weight(value) or isinstance(graph, ir.Function):
            return None
        if tensor.size > _LARGEST_LITERAL or value.is_graph_input():
            return None
        return self._literals.value(Contents(tensor.numpy().astype(other.numpy()), other))

    def _after(
        self, graph: ir.Graph | ir.Function, node: ir.Node, output: ir.Value, dtype: ir.DataType, other: ir.DataType
    ) -> None:
        cast = ir.Node(
            "",
            "Cast",
            [None],
            [ir.AttrInt64("to", int(dtype))],
            name=self._names.unique(f"{node.name or node.op_type}_Cast"),
        )
        pass_on(node, cast)
        back = cast.outputs[0]
        back.type, back.shape = ir.TensorType(dtype), output.shape
        back.metadata_props.update(output.metadata_props)
        output.replace_all_uses_with(back, replace_graph_outputs=True)
        cast.replace_input_with(0, output)
        back.name, output.name = output.name, self._names.unique(f"{output.name}_{other.name.lower()}")
        output.type = ir.TensorType(other)
        graph.insert_after(node, cast)
        if (node.op_type in _COPIES or node.op_type in _CHOOSES) and "reduction" not in node.attributes:
            # Nothing was rounded, so whoever wants this value in the wider type again can have it as it is.
            self._known[(back, other)] = output
        elif dtype.is_floating_point() and other.is_floating_point() and (call := provenance_of(node)) is not None:
            # torch rounds what a call results in, not the steps that lead to it.
            self._unrounded[(back, other, call)] = output


_LARGEST_LITERAL = 1024


def _dequantized(value: ir.Value, other: ir.DataType) -> ir.Value | None:
    """What a weight of integers was in a wider type before it was rounded to 16 bits, as it is for most runtimes.

    Runtimes have one operator for a product that reads what DequantizeLinear gives; 16 bits in between add nothing.
    """
    cast = value.producer()
    source = cast.inputs[0] if cast is not None and cast.op_type == "Cast" and cast.domain == "" else None
    made = None if source is None else source.producer()
    if source is None or made is None or made.op_type != "DequantizeLinear" or made.domain != "":
        return None
    stored = made.inputs[0]
    if stored is None or stored.dtype is None or not stored.is_initializer() or not stored.dtype.is_integer():
        return None
    return source if source.dtype == other else None


def _state_output(node: ir.Node, schema: Schema, other: ir.DataType) -> None:
    """Let an attribute say the type of the output, as it does where no input tells."""
    if "dtype" in schema.attributes:
        node.attributes["dtype"] = ir.AttrInt64("dtype", int(other))


def _forget(value: ir.Value) -> None:
    """Remove a literal or a cast that nothing reads any more."""
    if value.uses() or value.is_graph_output() or value.is_graph_input():
        return
    producer = value.producer()
    if producer is not None and producer.op_type == "Cast" and producer.graph is not None:
        producer.graph.remove(producer, safe=True)
    elif value.is_initializer() and not is_weight(value) and value.graph is not None and value.name:
        value.graph.initializers.pop(value.name, None)
