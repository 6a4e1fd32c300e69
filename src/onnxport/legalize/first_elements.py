"""Sizes that are declared for the first elements of an axis that varies, and are less where it has none.

torch takes such an axis for one that has elements, so that ``x[:1]`` has one, and so has what is computed of it.
onnxruntime gives a tensor the memory of another that is declared to be as large, and fails where it is not.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from onnxport.graphs import bodies
from onnxport.legalize.infer_shapes import result_dims, unknown
from onnxport.legalize.known import Dims, constant_integers, dims_of


def forget_sizes_of_first_elements(model: ir.Model) -> None:
    """Leave open what is declared of inner values that have no elements where an axis has none.

    Outputs keep what is stated, unless nodes read them too: a runtime infers from it what those give.
    """
    stated = {output: output.shape for output in model.graph.outputs if not output.uses()}
    _walk(model.graph, set())
    for output, shape in stated.items():
        output.shape = shape


def _walk(graph: ir.Graph, opened: set[ir.Value]) -> None:
    """Go through the nodes in order; ``opened`` are the values so far of which sizes were left open."""
    for node in graph:
        within = bodies(node)
        for body in within:
            _walk(body, opened)
        begins = node.op_type in ("Slice", "ConstantOfShape")
        read = [*node.inputs, *(value for body in within for value in body.outputs)]
        if not begins and (not opened or opened.isdisjoint(read)):
            continue
        opened.update(
            output for output, dims in zip(node.outputs, _dims(node), strict=True) if _is_opened(output, dims)
        )


def _dims(node: ir.Node) -> list[Dims | None]:
    """What follows of the shapes of a node's outputs from those of its inputs."""
    if node.op_type == "If":
        return [_in_common(of_branches) for of_branches in zip(*(body.outputs for body in bodies(node)), strict=True)]
    if node.op_type == "Slice":
        first = _first_elements(node)
    else:
        first = _computed_sizes(node) if node.op_type == "ConstantOfShape" else result_dims(node)
    others = first if node.op_type in ("Split", "TopK") else None
    return [first, *[others] * (len(node.outputs) - 1)]


def _in_common(values: Sequence[ir.Value]) -> Dims | None:
    """The shape of one of several values, open where one of theirs is."""
    shapes = [dims_of(value) for value in values]
    known = [shape for shape in shapes if shape is not None and shapes[0] is not None and len(shape) == len(shapes[0])]
    if len(known) < len(shapes):
        return None
    return [
        sizes[0] if all(isinstance(size, int) for size in sizes) else unknown() for sizes in zip(*known, strict=True)
    ]


def _first_elements(node: ir.Node) -> Dims | None:
    """The shape of a slice, open where the axis is."""
    before, after = dims_of(node.inputs[0]), dims_of(node.outputs[0])
    if before is None or after is None:
        return after
    return [unknown() if isinstance(old, ir.SymbolicDim) else new for old, new in zip(before, after, strict=True)]


def _computed_sizes(node: ir.Node) -> Dims | None:
    """The shape of what is made of sizes, open where they are computed: a size of 1 that is, is none where it is 0."""
    sizes = node.inputs[0]
    producer = None if sizes is None else sizes.producer()
    pieces = [sizes] if producer is None or producer.op_type != "Concat" else list(producer.inputs)
    known = [constant_integers(piece) for piece in pieces]
    dims = [size for numbers in known for size in ([unknown()] if numbers is None else numbers)]
    stated = dims_of(node.outputs[0])
    # Several that are computed at once are those of a tensor, whose declared ones are what they are.
    return stated if stated is not None and len(stated) != len(dims) else dims


def _is_opened(value: ir.Value, dims: Dims | None) -> bool:
    """Leave sizes of a value open that do not follow; whether there are any."""
    if value.shape is None:
        return False
    stated = list(value.shape.dims)
    follows = dims if dims is not None and len(dims) == len(stated) else [unknown() for _ in stated]
    left = [
        unknown() if isinstance(size, int) and not isinstance(other, int) else size
        for size, other in zip(stated, follows, strict=True)
    ]
    if left == stated:
        return False
    value.shape = ir.Shape(left)
    return True
