"""Products of one input with several quantized weights as one product: a step of decoding pays for each call."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import onnx_ir as ir
import torch

from onnxport.graphs import graphs
from onnxport.onnx_build.names import joined_name
from onnxport.quantize.graph_edits import GraphEdits
from onnxport.quantize.microsoft import DOMAIN
from onnxport.weights.lazy_integers import LazyIntegers, LazyParameters

# From here on Split has its sizes as an input.
SPLIT_SINCE = 13


def join_products(edits: GraphEdits) -> None:
    """Let one MatMulNBits of all rows, and a Split, stand for several that read the same input, in place.

    ``q, k, v = MatMulNBits(x, Q), MatMulNBits(x, K), MatMulNBits(x, V)`` becomes
    ``q, k, v = Split(MatMulNBits(x, Q+K+V))``.
    """
    if edits.opset < SPLIT_SINCE:
        return
    for graph in graphs(edits.model):
        alike: dict[object, list[ir.Node]] = {}
        for node in graph:
            if node.domain == DOMAIN and node.op_type == "MatMulNBits" and _is_alone(node):
                alike.setdefault((node.inputs[0], *_manner(node)), []).append(node)
        for nodes in alike.values():
            if len(nodes) > 1:
                _join(edits, nodes)
        for node in list(graph):
            _leave_whole(edits, node)


def _leave_whole(edits: GraphEdits, node: ir.Node) -> None:
    """Let readers have what was split and is joined again: ``Concat(Split(x))`` is ``x``."""
    if node.op_type != "Concat" or node.domain != "" or node.inputs[0] is None:
        return
    split = node.inputs[0].producer()
    if split is None or split.op_type != "Split" or split.domain != "" or split.inputs[0] is None:
        return
    rank = 0 if node.outputs[0].shape is None else len(node.outputs[0].shape)
    same = rank and split.attributes.get_int("axis", 0) % rank == node.attributes.get_int("axis", 0) % rank
    if same and list(node.inputs) == list(split.outputs) and not any(one.is_graph_output() for one in split.outputs):
        edits.replace(node, split.inputs[0])


def _manner(node: ir.Node) -> tuple[object, ...]:
    attributes = node.attributes
    level = attributes.get_int("accuracy_level", 0)
    kinds = [attributes.get_int(name, 0) for name in ("K", "bits", "block_size")]
    return (*kinds, level, len(node.inputs), node.inputs[2].dtype if node.inputs[2] is not None else None)


def _is_alone(node: ir.Node) -> bool:
    """Whether a product has no bias, and nothing else reads its weight."""
    weights = node.inputs[1:]
    made = all(
        value is not None and len(value.uses()) == 1 and isinstance(value.const_value, LazyIntegers | LazyParameters)
        for value in weights
    )
    return len(node.inputs) <= 4 and made and node.outputs[0].shape is not None


def _join(edits: GraphEdits, nodes: Sequence[ir.Node]) -> None:
    first = nodes[0]
    names = [str(node.inputs[1].name) for node in nodes if node.inputs[1] is not None]
    name = joined_name(names)
    inputs = [first.inputs[0]]
    for index, suffix in zip(range(1, len(first.inputs)), ("", "_scale", "_zero_point"), strict=False):
        inputs.append(_joined_weight(edits, [node.inputs[index] for node in nodes], name + suffix))
    sizes = [node.attributes.get_int("N", 0) for node in nodes]
    result = first.outputs[0]
    assert result.dtype is not None and result.shape is not None
    attributes = {key: node_attribute.as_int() for key, node_attribute in first.attributes.items()}
    lead = list(result.shape)[:-1]
    joined = edits.add(
        first,
        "MatMulNBits",
        inputs,
        {**attributes, "N": sum(sizes)},
        name=f"{result.name}_joined",
        dtype=result.dtype,
        shape=[*lead, sum(sizes)],
        domain=DOMAIN,
    )
    parts = edits.add_several(
        first,
        "Split",
        [joined, edits.ints(sizes)],
        [f"{node.outputs[0].name}_part" for node in nodes],
        [(result.dtype, node.outputs[0].shape) for node in nodes],
        {"axis": len(lead)},
    )
    for node, part in zip(nodes, parts, strict=True):
        edits.replace(node, part)


def _joined_weight(edits: GraphEdits, values: Sequence[ir.Value | None], name: str) -> ir.Value:
    """The rows of several weights, one after the other, made when they are written as they would be apart."""
    given = [value for value in values if value is not None]
    tensors = [value.const_value for value in given]
    shapes = [tuple(tensor.shape.numpy()) for tensor in tensors if tensor is not None]
    shape = (sum(rows for rows, *_ in shapes), *shapes[0][1:])
    integers = [tensor for tensor in tensors if isinstance(tensor, LazyIntegers)]
    if integers:

        def pieces() -> Iterator[torch.Tensor]:
            return itertools.chain.from_iterable(tensor.pieces() for tensor in integers)

        return edits.weight(LazyIntegers(pieces, integers[0].dtype, shape, ""), name, given[0])
    parameters = [tensor for tensor in tensors if isinstance(tensor, LazyParameters)]

    def rows() -> torch.Tensor:
        return torch.cat([tensor.numbers() for tensor in parameters])

    return edits.weight(LazyParameters(rows, parameters[0].dtype, shape, ""), name, given[0])
