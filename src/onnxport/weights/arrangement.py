"""Weights as the operators that take them want them: what only rearranges weights is done when a file is written.

``MatMul(x, Transpose(fc.weight))`` is written as ``MatMul(x, fc.weight)`` with the elements in the other order, and the
gates of an LSTM in the order of ONNX. The model in memory keeps the state dict's layout, in which weights are applied;
the elements stay where torch has them until they are written, and are counted: no weight is written twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import torch

from onnxport.provenance import ARRANGED
from onnxport.weights.converted import ConvertedTensor
from onnxport.weights.stored_form import StoredTensor
from onnxport.weights.torch_tensor import SLAB_BYTES, TorchTensor


@dataclass(frozen=True)
class Arranged:
    """Elements of weights in another order.

    Attributes:
        parts: Views of torch's storages; flattened one after the other they are the elements in C order.
        shape: The shape that they have.
        sources: How many elements are taken of each weight.
        text: What was done, as a formula.
        side_by_side: Whether the parts are matrices, of which each row of the result has one row after the other.
    """

    parts: tuple[torch.Tensor, ...]
    shape: tuple[int, ...]
    sources: Mapping[ir.Value, int]
    text: str
    side_by_side: bool = False

    def whole(self) -> torch.Tensor | None:
        """The elements as one view of a storage, if they are that."""
        if len(self.parts) != 1:
            return None
        try:
            return self.parts[0].view(self.shape)
        except RuntimeError:
            # Its strides don't allow for the shape: that would be a copy.
            return None

    def joined(self) -> torch.Tensor:
        """The elements as one tensor: a view where that can be, else a copy."""
        whole = self.whole()
        if whole is not None:
            return whole
        if self.side_by_side:
            return torch.cat(self.parts, 1)
        return torch.cat([part.reshape(-1) for part in self.parts]).reshape(self.shape)

    def run(self, start: int, stop: int) -> list[torch.Tensor] | None:
        """The elements from one position to another as views, if they lie one after the other in their storages."""
        found, position = [], 0
        if self.side_by_side:
            return None
        for part in self.parts:
            first, last = max(start - position, 0), min(stop - position, part.numel())
            if first < last:
                if not part.is_contiguous():
                    return None
                found.append(part.view(-1)[first:last])
            position += part.numel()
        return found


class JoinedTensor(ir.LazyTensor):
    """The elements of several views of torch's storages, one after the other; joined only if an array is asked for."""

    def __init__(self, parts: Sequence[TorchTensor], shape: tuple[int, ...], name: str) -> None:
        super().__init__(self._joined, dtype=parts[0].dtype, shape=ir.Shape(shape), name=name)
        self._parts = parts

    def _joined(self) -> ir.Tensor[npt.NDArray[Any]]:
        array = np.concatenate([part.numpy().reshape(-1) for part in self._parts])
        return ir.Tensor(array.reshape(self.shape.numpy()), dtype=self.dtype, name=self.name)

    def tobytes(self) -> bytes:
        """Return the elements as bytes in C order."""
        return b"".join(self.slabs())

    def slabs(self) -> Iterator[memoryview]:
        """Yield the elements as bytes, part by part."""
        for part in self._parts:
            yield from part.slabs()


class SideBySideTensor(ir.LazyTensor):
    """Matrices with as many rows each, side by side in one; ``written`` makes the tensor that is written of a view."""

    def __init__(
        self, parts: Sequence[torch.Tensor], written: Callable[[torch.Tensor], TorchTensor], name: str
    ) -> None:
        shape = ir.Shape([parts[0].shape[0], sum(part.shape[1] for part in parts)])
        super().__init__(self._joined, dtype=written(parts[0]).dtype, shape=shape, name=name)
        self._parts = parts
        self._written = written

    def _joined(self) -> ir.Tensor[npt.NDArray[Any]]:
        array = np.concatenate([self._written(part).numpy() for part in self._parts], axis=1)
        return ir.Tensor(array, dtype=self.dtype, name=self.name)

    def tobytes(self) -> bytes:
        """Return the elements as bytes in C order."""
        return b"".join(self.slabs())

    def slabs(self) -> Iterator[memoryview]:
        """Yield the elements as bytes, some rows of all matrices at a time."""
        height, width = self.shape.numpy()
        rows = max(1, 8 * SLAB_BYTES // max(1, width * self.dtype.bitwidth))
        for start in range(0, height, rows):
            pieces = [b"".join(self._written(part[start : start + rows]).slabs()) for part in self._parts]
            count = min(rows, height - start)
            yield np.concatenate([np.frombuffer(one, np.uint8).reshape(count, -1) for one in pieces], axis=1).data


@dataclass(frozen=True)
class JoinedLayer:
    """A layer that is written with what followed it: the name of what both give, and of the bias that it has for it."""

    result: str
    bias: str


@dataclass
class Arrangement:
    """What of a graph is written otherwise than it stands: nodes left out, initializers replaced, values renamed.

    ``joined`` has the layers that take up the node behind them, by the name of what they give in the graph.
    """

    initializers: dict[str, ir.Value]
    left_out: set[ir.Node] = field(default_factory=set)
    renamed: dict[str, str] = field(default_factory=dict)
    joined: dict[str, JoinedLayer] = field(default_factory=dict)


def arrange(
    graph: ir.Graph,
    outputs: Collection[ir.Value],
    stays: Callable[[ir.TensorProtocol], bool] = lambda tensor: False,
) -> Arrangement:
    """Find the nodes of a graph that only rearrange weights, and what is written in their place.

    A weight that something else reads as well stays as it is, with the nodes that rearrange it, so that tied weights
    are one, and so does one that ``stays`` says it of. A weight of which only the layout changes keeps its name.

    >>> import onnx_ir as ir, torch
    >>> from onnxport.weights.arrangement import arrange
    >>> from onnxport.weights.torch_tensor import TorchTensor
    >>> weight = ir.Value(name="fc.weight", const_value=TorchTensor(torch.ones(2, 3)))
    >>> x = ir.val("x", ir.DataType.FLOAT, [4, 3])
    >>> transposed = ir.node("Transpose", [weight], {"perm": [1, 0]})
    >>> product = ir.node("MatMul", [x, transposed.outputs[0]])
    >>> graph = ir.Graph([x], product.outputs, nodes=[transposed, product], initializers=[weight])
    >>> found = arrange(graph, graph.outputs)
    >>> found.initializers["fc.weight"].const_value.shape, [node.op_type for node in found.left_out]
    (Shape([3, 2]), ['Transpose'])
    """
    arranged = _arranged_values(graph, outputs)
    roots = _written_values(arranged, stays) if arranged else []
    if not roots:
        return Arrangement(dict(graph.initializers))
    kept_names = _sole_roots(roots, arranged)
    made: dict[str, ir.Value] = {}
    renamed: dict[str, str] = {}
    places: dict[str, list[ir.Value]] = {}
    for root in roots:
        source = next(iter(arranged[root].sources))
        value = _initializer(arranged[root], source, str(source.name if root in kept_names else root.name))
        made[str(value.name)] = value
        if root in kept_names:
            renamed[str(root.name)] = str(source.name)
        places.setdefault(str(source.name), []).append(value)
    gone = {source for root in roots for source in arranged[root].sources}
    initializers: dict[str, ir.Value] = {}
    for name, value in graph.initializers.items():
        if value not in gone:
            initializers[name] = value
        initializers.update((str(new.name), new) for new in places.get(name, ()))
    left_out = {node for value in arranged if (node := value.producer()) is not None and _taken(value, arranged, gone)}
    for node in left_out:
        for literal in node.inputs[1:]:
            if literal is not None and literal.is_initializer() and {user for user, _ in literal.uses()} <= left_out:
                initializers.pop(str(literal.name), None)
    return Arrangement(initializers, left_out, renamed)


def weights_behind(value: ir.Value, found: dict[ir.Value, Arranged | None] | None = None) -> Arranged | None:
    """What a value is of weights, if nothing but their order and shape was changed; ``found`` keeps what is known."""
    found = {} if found is None else found
    if value not in found:
        found[value] = _weight(value)
        node = value.producer()
        rule = None if node is None or node.domain != "" else _RULES.get(node.op_type)
        if node is not None and rule is not None:
            values = node.inputs if node.op_type == "Concat" else node.inputs[:1]
            items = [None if one is None else weights_behind(one, found) for one in values]
            known = [item for item in items if item is not None]
            results = rule(node, known) if len(known) == len(items) and items else None
            found.update(zip(node.outputs, results, strict=True) if results is not None else ())
    return found[value]


def _arranged_values(graph: ir.Graph, outputs: Collection[ir.Value]) -> dict[ir.Value, Arranged]:
    """The results of nodes that only rearrange weights, in the order of the graph."""
    found: dict[ir.Value, Arranged] = {}
    fixed = set(outputs)
    for node in graph:
        rule = _RULES.get(node.op_type)
        if rule is None or node.domain != "" or not node.inputs or any(value in fixed for value in node.outputs):
            continue
        first = _weights(node, found)
        results = None if first is None else rule(node, first)
        if results is not None:
            found.update(zip(node.outputs, results, strict=True))
    return found


def _weights(node: ir.Node, found: Mapping[ir.Value, Arranged]) -> list[Arranged] | None:
    """The inputs of a node that are to be rearranged, if all of them can be."""
    values = node.inputs if node.op_type == "Concat" else node.inputs[:1]
    items = [None if value is None else found[value] if value in found else _weight(value) for value in values]
    return None if any(item is None for item in items) else [item for item in items if item is not None]


def _weight(value: ir.Value) -> Arranged | None:
    tensor = value.const_value
    if not value.is_initializer() or value.is_graph_input() or value.is_graph_output():
        return None
    if not isinstance(tensor, TorchTensor) or isinstance(tensor, StoredTensor):
        return None
    if tensor.raw.is_complex() or not tensor.has_content:
        return None
    raw = tensor.raw.detach()
    return Arranged((raw,), tuple(raw.shape), {value: raw.numel()}, str(value.name))


def _written_values(arranged: dict[ir.Value, Arranged], stays: Callable[[ir.TensorProtocol], bool]) -> list[ir.Value]:
    """Those that something reads which is no rearrangement; what can't be written that way is taken out of the table.

    A weight is bound by a reader that needs it as it is, by being needed more than once, and where it is to stay; then
    so is whatever else it is arranged with.
    """
    while True:
        roots = [value for value in arranged if any(not _is_arranged(user, arranged) for user, _ in value.uses())]
        taken: dict[ir.Value, int] = {}
        for root in roots:
            for source, count in arranged[root].sources.items():
                taken[source] = taken.get(source, 0) + count
        bound = {
            source
            for value in arranged.values()
            for source in value.sources
            if taken.get(source, 0) > _weight_size(source)
            or any(not _is_arranged(user, arranged) for user, _ in source.uses())
            or (source.const_value is not None and stays(source.const_value))
        }
        lost = [value for value, item in arranged.items() if not bound.isdisjoint(item.sources)]
        if not lost:
            return roots
        for value in lost:
            del arranged[value]


def _is_arranged(node: ir.Node, arranged: Mapping[ir.Value, Arranged]) -> bool:
    return node.outputs[0] in arranged


def _weight_size(value: ir.Value) -> int:
    assert value.const_value is not None
    return value.const_value.size


def _sole_roots(roots: Sequence[ir.Value], arranged: Mapping[ir.Value, Arranged]) -> set[ir.Value]:
    """Those that are all of one weight."""
    found = set()
    for root in roots:
        item = arranged[root]
        if len(item.sources) == 1 and next(iter(item.sources.values())) == _weight_size(next(iter(item.sources))):
            found.add(root)
    return found


def _taken(value: ir.Value, arranged: Mapping[ir.Value, Arranged], gone: set[ir.Value]) -> bool:
    return gone.issuperset(arranged[value].sources)


def _initializer(item: Arranged, source: ir.Value, name: str) -> ir.Value:
    whole = item.whole()
    tensor: ir.TensorProtocol
    held = source.const_value
    written = held.like if isinstance(held, ConvertedTensor) else TorchTensor
    if whole is not None:
        tensor = written(whole)
        tensor.name = name
    elif item.side_by_side:
        tensor = SideBySideTensor(item.parts, written, name)
    else:
        tensor = JoinedTensor([written(part) for part in item.parts], item.shape, name)
    value = ir.Value(name=name, type=source.type, shape=ir.Shape(item.shape), const_value=tensor)
    value.metadata_props.update(source.metadata_props)
    value.metadata_props[ARRANGED] = item.text
    return value


# The operators, each as what it does to elements of weights.

_Results = list[Arranged] | None


def _transpose(node: ir.Node, inputs: list[Arranged]) -> _Results:
    whole = inputs[0].whole()
    if whole is None:
        return None
    order = node.attributes.get_ints("perm", list(range(whole.dim()))[::-1])
    view = whole.permute(*order)
    text = f"transpose({inputs[0].text}, {list(order)})"
    return [Arranged((view,), tuple(view.shape), inputs[0].sources, text)]


def _reshape(node: ir.Node, inputs: list[Arranged]) -> _Results:
    """Also Unsqueeze and Squeeze: the shape of the result is stated."""
    shape = _stated(node.outputs[0])
    if shape is None or inputs[0].side_by_side or int(np.prod(shape)) != int(np.prod(inputs[0].shape)):
        return None
    item = Arranged(inputs[0].parts, shape, inputs[0].sources, f"reshape({inputs[0].text}, {list(shape)})")
    return [item] if len(item.parts) > 1 or item.whole() is not None else None


def _concat(node: ir.Node, inputs: list[Arranged]) -> _Results:
    rank = len(inputs[0].shape)
    axis = node.attributes.get_int("axis", 0) % rank
    if any(len(item.shape) != rank or item.side_by_side for item in inputs):
        return None
    if len({part.dtype for item in inputs for part in item.parts}) > 1:
        return None
    matrices = [whole for item in inputs if (whole := item.whole()) is not None]
    side_by_side = any(size != 1 for item in inputs for size in item.shape[:axis])
    if side_by_side and (rank != 2 or len(matrices) != len(inputs)):
        return None
    shape = (*inputs[0].shape[:axis], sum(item.shape[axis] for item in inputs), *inputs[0].shape[axis + 1 :])
    sources: dict[ir.Value, int] = {}
    for item in inputs:
        for source, count in item.sources.items():
            sources[source] = sources.get(source, 0) + count
    parts = tuple(matrices) if side_by_side else tuple(part for item in inputs for part in item.parts)
    text = f"concat({', '.join(item.text for item in inputs)}, axis={axis})"
    return [Arranged(parts, shape, sources, text, side_by_side)]


def _gather(node: ir.Node, inputs: list[Arranged]) -> _Results:
    """The blocks behind an axis in another order, as the gates of recurrent layers."""
    indices = _literal(node, 1)
    item, axis = inputs[0], node.attributes.get_int("axis", 0)
    if indices is None or axis < 0 or sorted(indices) != list(range(item.shape[axis])):
        return None
    if _literal_rank(node, 1) != 1:
        return None
    block = int(np.prod(item.shape[axis + 1 :]))
    parts: list[torch.Tensor] = []
    for before in range(int(np.prod(item.shape[:axis]))):
        for index in indices:
            start = (before * item.shape[axis] + index) * block
            run = item.run(start, start + block)
            if run is None:
                return None
            parts += run
    text = f"gather({item.text}, {indices}, axis={axis})"
    return [Arranged(tuple(parts), item.shape, item.sources, text)]


def _split(node: ir.Node, inputs: list[Arranged]) -> _Results:
    item, axis = inputs[0], node.attributes.get_int("axis", 0)
    whole = item.whole()
    sizes = [None if (shape := _stated(output)) is None else shape[axis] for output in node.outputs]
    if whole is None or len(item.sources) != 1 or None in sizes:
        return None
    results, start = [], 0
    for size in sizes:
        assert size is not None
        results.append(_narrowed(item, whole, axis % whole.dim(), start, size))
        start += size
    return results if start == whole.shape[axis] else None


def _slice(node: ir.Node, inputs: list[Arranged]) -> _Results:
    item = inputs[0]
    whole, shape = item.whole(), _stated(node.outputs[0])
    starts, axes, steps = _literal(node, 1), _literal(node, 3), [1] if len(node.inputs) < 5 else _literal(node, 4)
    if whole is None or shape is None or len(item.sources) != 1 or starts is None or axes is None or steps is None:
        return None
    if len(starts) != 1 or steps != [1]:
        return None
    axis = axes[0] % whole.dim()
    size = whole.shape[axis]
    start = min(max(starts[0] + size if starts[0] < 0 else starts[0], 0), size)
    if start + shape[axis] > size:
        return None
    return [_narrowed(item, whole, axis, start, shape[axis])]


def _narrowed(item: Arranged, whole: torch.Tensor, axis: int, start: int, length: int) -> Arranged:
    view = whole.narrow(axis, start, length)
    (source,) = item.sources
    text = f"slice({item.text}, {start}, {start + length}, axis={axis})"
    return Arranged((view,), tuple(view.shape), {source: view.numel()}, text)


_RULES: dict[str, Callable[[ir.Node, list[Arranged]], _Results]] = {
    "Transpose": _transpose,
    "Reshape": _reshape,
    "Unsqueeze": _reshape,
    "Squeeze": _reshape,
    "Concat": _concat,
    "Gather": _gather,
    "Split": _split,
    "Slice": _slice,
}


def _stated(value: ir.Value) -> tuple[int, ...] | None:
    if value.shape is None or not value.shape.is_static():
        return None
    return tuple(value.shape.numpy())


def _literal(node: ir.Node, index: int) -> list[int] | None:
    value = node.inputs[index] if index < len(node.inputs) else None
    if value is None or value.const_value is None or value.is_graph_input():
        return None
    return [int(number) for number in value.const_value.numpy().reshape(-1)]


def _literal_rank(node: ir.Node, index: int) -> int | None:
    value = node.inputs[index]
    return None if value is None or value.const_value is None else value.const_value.shape.rank()
