"""What a rule writes with: operators in the form of one opset, named and attributed after the node they replace."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnxport.legalize.infer import infer_results
from onnxport.legalize.known import constant_array, known_rank
from onnxport.onnx_build.literals import Contents, Literals
from onnxport.onnx_build.names import UniqueNames
from onnxport.provenance import pass_on

Attribute = int | float | str | Sequence[int] | Sequence[float] | ir.TensorProtocol | ir.Attr | None


class Refusal(Exception):
    """A rule's way to say that the older opset cannot express this node; the message completes "because"."""


def _attribute(name: str, value: Attribute) -> ir.Attr:
    """What onnx_ir's own conversion gives, which asks protocols at a hundred times the cost."""
    if isinstance(value, ir.Attr):
        return value
    if isinstance(value, int):
        return ir.AttrInt64(name, int(value))
    if isinstance(value, float):
        return ir.AttrFloat32(name, value)
    if isinstance(value, list | tuple) and value and all(type(item) is int for item in value):
        return ir.AttrInt64s(name, value)
    return ir.convenience.convert_attribute(name, value)


@functools.lru_cache(maxsize=256)
def _filled(number: float | bool, dtype: ir.DataType, shape: tuple[int, ...]) -> Contents:
    return Contents(np.full(shape, number).astype(dtype.numpy()), dtype)


@functools.lru_cache(maxsize=256)
def _integers(items: int | tuple[int, ...]) -> Contents:
    return Contents(np.asarray(items, dtype=np.int64), ir.DataType.INT64)


class SharedValues:
    """Values that several replaced nodes have in common, found by what was asked for.

    Nodes for which ``apart`` differs share nothing.
    """

    def __init__(self, apart: Callable[[ir.Node], Hashable] | None = None) -> None:
        self.apart: Callable[[ir.Node], Hashable] = (lambda node: None) if apart is None else apart
        self._names: dict[tuple[object, ...], str] = {}
        self._values: dict[str, ir.Value] = {}

    def get(self, key: tuple[object, ...], make: Callable[[], ir.Value]) -> ir.Value:
        """The value known by this key, made if there is none yet."""
        if key not in self._names:
            value = make()
            assert value.name is not None
            self._names[key] = value.name
            self._values.setdefault(value.name, value)
        return self._values[self._names[key]]

    def replace(self, new: ir.Value) -> None:
        """Take note that another value now goes by the name of a shared one."""
        if new.name in self._values:
            self._values[new.name] = new


class RuleBuilder:
    """Emits the nodes that replace ``node``, in the form of opset ``opset``.

    ``op.Mul(x, y)`` emits one operator, positional arguments being inputs and keywords attributes (None leaves
    one out). Types and shapes of the results are inferred as far as rules need them.
    """

    def __init__(
        self,
        node: ir.Node,
        opset: int,
        target: int,
        names: UniqueNames,
        literals: Literals | None,
        shared: SharedValues,
    ) -> None:
        self.node = node
        self.opset = opset
        self.target = target
        self.nodes: list[ir.Node] = []
        self._shared = shared
        self._names = names
        self._literals = literals

    def __getattr__(self, op_type: str) -> Callable[..., ir.Value]:
        if not op_type[0].isupper():
            raise AttributeError(op_type)
        return functools.partial(self.emit, op_type)

    def emit(self, op_type: str, *inputs: ir.Value | None, **attributes: Attribute) -> ir.Value:
        """Emit an operator with one output."""
        return self.emit_many(op_type, 1, inputs, attributes)[0]

    def emit_many(
        self, op_type: str, outputs: int, inputs: Sequence[ir.Value | None], attributes: Mapping[str, Attribute]
    ) -> Sequence[ir.Value]:
        """Emit an operator with several outputs."""
        present = list(inputs)
        while present and present[-1] is None:
            present.pop()
        node = ir.Node(
            "",
            op_type,
            present,
            [_attribute(name, value) for name, value in attributes.items() if value is not None],
            num_outputs=outputs,
            name=self._names.unique(f"{self.node.name or self.node.op_type}_{op_type}"),
        )
        pass_on(self.node, node)
        base = self.node.outputs[0].name or self.node.op_type
        for output in node.outputs:
            output.name = self._names.unique(f"{base}_{op_type.lower()}")
        self.nodes.append(node)
        infer_results(node)
        return node.outputs

    def shared(self, key: tuple[object, ...], make: Callable[[], ir.Value]) -> ir.Value:
        """What ``make`` emits, once for all nodes of this graph that ask with the same key.

        Values in the key stand for what they are called: a value that a later rule replaces keeps its name.
        """
        named = [part.name if isinstance(part, ir.Value) else part for part in key]
        return self._shared.get((self.node.graph, self._shared.apart(self.node), self.opset, *named), make)

    def name(self, base: str) -> str:
        """A name of one's own, after the replaced node."""
        return self._names.unique(f"{self.node.name or self.node.op_type}_{base}")

    @contextlib.contextmanager
    def subgraph(self) -> Iterator[list[ir.Node]]:
        """Collect what is emitted in the block into the list it gives, for the body of a control-flow operator."""
        outer, self.nodes = self.nodes, []
        try:
            yield self.nodes
        finally:
            self.nodes = outer

    def again(self, *inputs: ir.Value | None, drop: Sequence[str] = (), **attributes: Attribute) -> ir.Value:
        """The replaced operator itself with other inputs, its attributes but for those dropped or given."""
        kept: dict[str, Attribute] = {
            name: value for name, value in self.node.attributes.items() if name not in drop and name not in attributes
        }
        return self.emit(self.node.op_type, *inputs, **kept, **attributes)

    def literal(self, array: npt.NDArray[np.generic], dtype: ir.DataType | None = None) -> ir.Value:
        """A constant tensor."""
        return self._literal(Contents(array, ir.DataType.from_numpy(array.dtype) if dtype is None else dtype))

    def _literal(self, contents: Contents) -> ir.Value:
        if self._literals is not None:
            return self._literals.value(contents)
        return self.emit("Constant", value=ir.Tensor(contents.array, contents.dtype))

    def i64(self, items: int | Sequence[int]) -> ir.Value:
        """A constant integer scalar, or list."""
        return self._literal(_integers(items if isinstance(items, int) else tuple(items)))

    def full(self, number: float | bool, dtype: ir.DataType | None, shape: Sequence[int] = ()) -> ir.Value:
        """A constant filled with one number, of the given element type."""
        if dtype is None:
            raise Refusal("the element type of its input is not known")
        return self._literal(_filled(number, dtype, tuple(shape)))

    def like(self, number: float | bool, value: ir.Value) -> ir.Value:
        """A constant scalar of the element type of ``value``."""
        if value.dtype is None and self.target >= 15:
            # In a function, types are known only where it is called.
            return self.emit("CastLike", self.full(number, ir.DataType.FLOAT), value)
        return self.full(number, value.dtype)

    def cast(self, value: ir.Value, dtype: ir.DataType | None) -> ir.Value:
        """``value`` in another element type; itself if it already has it."""
        if dtype is None or value.dtype == dtype:
            return value
        return self.emit("Cast", value, to=int(dtype))

    def input(self, position: int) -> ir.Value | None:
        """An input of the replaced node, None where it is absent."""
        return self.node.inputs[position] if position < len(self.node.inputs) else None

    def has_input(self, position: int) -> bool:
        """Whether the replaced node has this optional input."""
        return self.input(position) is not None

    def needed(self, position: int) -> ir.Value:
        """An input of the replaced node that is required."""
        value = self.input(position)
        if value is None:
            raise Refusal(f"its input {position} is absent")
        return value

    def wants(self, position: int) -> bool:
        """Whether anything uses this output of the replaced node."""
        if position >= len(self.node.outputs):
            return False
        output = self.node.outputs[position]
        return bool(output.uses()) or output.is_graph_output()

    def attr_int(self, name: str, default: int) -> int:
        """An integer attribute of the replaced node."""
        return self.node.attributes.get_int(name, default)

    def attr_float(self, name: str, default: float) -> float:
        """A float attribute of the replaced node."""
        return self.node.attributes.get_float(name, default)

    def attr_string(self, name: str, default: str) -> str:
        """A string attribute of the replaced node."""
        return self.node.attributes.get_string(name, default)

    def rank(self, value: ir.Value) -> int:
        """The rank of a value, which the rule cannot do without."""
        known = known_rank(value)
        if known is None:
            raise Refusal("the rank of its input is not known")
        return known

    def axis(self, value: ir.Value, axis: int) -> int:
        """A possibly negative axis of ``value``, counted from the front."""
        return axis % self.rank(value) if axis < 0 else axis

    def constant(self, position: int, what: str) -> npt.NDArray[np.generic] | None:
        """A constant input as an array, None where it is absent; refuses one computed at run time."""
        value = self.input(position)
        if value is None:
            return None
        array = constant_array(value)
        if array is None:
            raise Refusal(f"{what} is computed at run time and must be a constant there")
        return array

    def integers(self, position: int, what: str) -> list[int] | None:
        """A constant input as a list of integers, None where it is absent."""
        array = self.constant(position, what)
        return None if array is None else [int(item) for item in array.reshape(-1)]

    def sizes(self, value: ir.Value, kept: int = 1) -> ir.Value:
        """The shape of ``value`` to reshape to; a constant if all but one size are static.

        The first ``kept`` sizes are those the reshaped tensor has as well.
        """
        if value.shape is not None:
            static = [dim for dim in value.shape if isinstance(dim, int)]
            if len(static) == len(value.shape):
                return self.i64(static)
            dims = [0 if at < kept else dim if isinstance(dim, int) else -1 for at, dim in enumerate(value.shape)]
            if dims.count(-1) <= 1 and 0 not in value.shape:
                return self.i64(dims)
        return self.emit("Shape", value)

    def dim(self, value: ir.Value, axis: int) -> ir.Value:
        """One size of ``value`` as a list of one integer; a constant if static."""
        axis = self.axis(value, axis)
        known = value.shape[axis] if value.shape is not None else None
        if isinstance(known, int):
            return self.i64([known])
        if self.opset >= 15:
            return self.emit("Shape", value, start=axis, end=axis + 1)
        return self.emit("Gather", self.emit("Shape", value), self.i64([axis]), axis=0)

    def reduce(self, kind: str, value: ir.Value, axes: Sequence[int], keepdims: bool = True) -> ir.Value:
        """A reduction, with axes where this opset has them.

        They are counted from the front where the rank is known: of a tensor without elements onnxruntime 1.31 reduces
        nothing along a negative axis.
        """
        if value.shape is not None:
            axes = [axis + value.shape.rank() if axis < 0 else axis for axis in axes]
        if self.opset >= (13 if kind == "ReduceSum" else 18):
            return self.emit(kind, value, self.i64(list(axes)), keepdims=int(keepdims))
        return self.emit(kind, value, axes=list(axes), keepdims=int(keepdims))

    def unsqueeze(self, value: ir.Value, axes: Sequence[int]) -> ir.Value:
        """Unsqueeze in the form of this opset."""
        if self.opset >= 13:
            return self.emit("Unsqueeze", value, self.i64(list(axes)))
        return self.emit("Unsqueeze", value, axes=list(axes))

    def squeeze(self, value: ir.Value, axes: Sequence[int]) -> ir.Value:
        """Squeeze in the form of this opset."""
        if self.opset >= 13:
            return self.emit("Squeeze", value, self.i64(list(axes)))
        return self.emit("Squeeze", value, axes=list(axes))

    def slice(self, value: ir.Value, axis: int, start: int, end: int) -> ir.Value:
        """A static slice along one axis in the form of this opset."""
        if self.opset >= 10:
            return self.emit("Slice", value, self.i64([start]), self.i64([end]), self.i64([axis]))
        return self.emit("Slice", value, starts=[start], ends=[end], axes=[axis])

    def where(self, condition: ir.Value, chosen: ir.Value, other: ir.Value) -> ir.Value:
        """A choice by element."""
        return self.emit("Where", condition, chosen, other)
