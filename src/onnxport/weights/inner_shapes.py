"""What a file says of the shapes of values inside its graph, and how sizes that vary are called there."""

from __future__ import annotations

from collections.abc import Iterator

import onnx

from onnxport.weights.metadata import inner_graphs

UNKNOWN = "unk__"
"""Begins the name of a size that a reader works out by itself, as in files of onnxruntime's shape inference.

tract takes the name of a size inside the graph for another size than the number that its caller sets for the input of
that name, and refuses the file. It passes over names that begin so, and equal names still tell onnxruntime of equal
sizes.
"""


def forget_inner_shapes(graph: onnx.GraphProto) -> None:
    """Leave out what is known of values that nodes compute; of weights that are not in the file nobody else knows."""
    computed = {name for node in graph.node for name in node.output}
    kept = [info for info in graph.value_info if info.name not in computed]
    graph.ClearField("value_info")
    graph.value_info.extend(kept)
    for node in graph.node:
        for inner in inner_graphs(node):
            forget_inner_shapes(inner)


def leave_sizes_to_the_reader(proto: onnx.ModelProto) -> None:
    """Call sizes that vary inside the graph unknown, each by its name.

    >>> import onnx
    >>> from onnxport.weights.inner_shapes import leave_sizes_to_the_reader
    >>> model = onnx.parser.parse_model(
    ...     '<ir_version: 8, opset_import: ["": 17]>'
    ...     'g (float[batch, 4] x) => (float[batch, 4] y) <float[batch, 4] z> { z = Relu(x) y = Exp(z) }'
    ... )
    >>> leave_sizes_to_the_reader(model)
    >>> model.graph.value_info[0].type.tensor_type.shape.dim[0].dim_param
    'unk__batch'
    """
    for dim in _inner_sizes(proto):
        if not dim.dim_param.startswith(UNKNOWN):
            dim.dim_param = UNKNOWN + dim.dim_param


def know_sizes_by_name(proto: onnx.ModelProto) -> None:
    """Undo ``leave_sizes_to_the_reader`` where the name is one of the inputs' or outputs'."""
    sizes = {size.dim_param for info in (*proto.graph.input, *proto.graph.output) for size in _sizes(info)}
    for dim in _inner_sizes(proto):
        name = dim.dim_param.removeprefix(UNKNOWN)
        if name in sizes:
            dim.dim_param = name


def _inner_sizes(proto: onnx.ModelProto) -> Iterator[onnx.TensorShapeProto.Dimension]:
    """The sizes inside the graph that have a name."""
    pending: list[onnx.GraphProto | onnx.FunctionProto] = [proto.graph, *proto.functions]
    while pending:
        graph = pending.pop()
        for info in graph.value_info:
            yield from _sizes(info)
        for node in graph.node:
            pending.extend(inner_graphs(node))


def _sizes(info: onnx.ValueInfoProto) -> Iterator[onnx.TensorShapeProto.Dimension]:
    for dim in info.type.tensor_type.shape.dim:
        if dim.dim_param:
            yield dim
