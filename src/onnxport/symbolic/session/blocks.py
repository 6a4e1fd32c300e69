"""Blocks: the graphs inside the If, Loop and Scan of a TorchScript graph, and what is known of values around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch

from onnxport.errors import OnnxExporterError
from onnxport.symbolic.session.given import tensor_type
from onnxport.symbolic.session.inference import InferredType, PartialShape
from onnxport.symbolic.session.node_attributes import get_attribute
from onnxport.torch_internals.torchscript import JitBlock, JitNode, JitType, JitValue, TensorType

Describe = Callable[[JitValue], InferredType]

BRANCHES: dict[str, tuple[str, ...]] = {
    "onnx::If": ("then_branch", "else_branch"),
    "onnx::Loop": ("body",),
    "onnx::Scan": ("body",),
}
"""The operators that have blocks, and the attributes these are in ONNX, in order."""

CONTROLS: dict[str, dict[int, torch.dtype]] = {
    "onnx::If": {0: torch.bool},
    "onnx::Loop": {0: torch.int64, 1: torch.bool},
}
"""The inputs that say which blocks run, and how often; in TorchScript other types were taken for them as well."""


def add_block(node: JitNode) -> JitBlock:
    """Add a block to a node: the first of an ``If`` is what runs if the condition holds, the second if it doesn't.

    >>> import torch
    >>> graph = torch._C.Graph()
    >>> node = graph.insertNode(graph.create("onnx::If", [graph.addInput()], 1))
    >>> len(list(add_block(node).nodes()))
    0
    """
    if node.kind() not in BRANCHES:
        raise OnnxExporterError(f"{node.kind()} has no blocks in ONNX; If, Loop and Scan have.")
    return node.addBlock()


def add_input_to_block(block: JitBlock) -> JitValue:
    """Add an input to a block, typed by what the node hands to it: of a ``Loop`` iteration, condition, then its state.

    >>> import torch
    >>> graph = torch._C.Graph()
    >>> node = graph.insertNode(graph.create("onnx::Loop", [graph.addInput(), graph.addInput()], 1))
    >>> add_input_to_block(add_block(node)).type().scalarType()
    'Long'
    """
    value: JitValue = block.addInputToBlock()  # type: ignore[attr-defined]
    node = block.owningNode()
    index = len(list(block.inputs())) - 1
    given = list(node.inputs())
    if node.kind() == "onnx::Loop" and index < 2:
        value.setType(tensor_type((torch.int64, torch.bool)[index], ()))
    elif index < len(given):
        value.setType(_inside(given[index].type(), _is_slice(node, index, len(given))))
    return value


def add_output_to_block(block: JitBlock, value: JitValue) -> int:
    """Add a value to those that a block returns; of the body of a ``Loop`` the condition comes first."""
    return block.registerOutput(value)


def _is_slice(node: JitNode, index: int, count: int) -> bool:
    """Whether an input of a node is handed to its block slice by slice."""
    return (
        node.kind() == "onnx::Scan"
        and node.hasAttribute("num_scan_inputs")
        and index >= count - node.i("num_scan_inputs")
    )


def _inside(kind: JitType, is_slice: bool) -> JitType:
    """The type of a value in the body of a loop: its sizes may be others in every iteration, its rank is not."""
    dtype = kind.dtype() if isinstance(kind, TensorType) else None
    if not isinstance(kind, TensorType) or dtype is None:
        return kind
    sizes = kind.varyingSizes()
    typed = TensorType.get().with_dtype(dtype)
    if sizes is None:
        return typed
    return typed.with_sizes([None] * (len(sizes) - 1 if is_slice else len(sizes)))


def has_blocks(node: JitNode) -> bool:
    """Whether a node has blocks."""
    return next(iter(node.blocks()), None) is not None


def block_results(node: JitNode, describe: Describe) -> list[InferredType]:
    """What is known of the results of a node from what its blocks return."""
    returned = [[describe(value) for value in block.outputs()] for block in node.blocks()]
    if node.kind() == "onnx::If":
        found = [_merged(one) for one in zip(*returned, strict=False)]
    else:
        found = list(_of_loop(node, returned[0], describe))
    found += [InferredType()] * (node.outputsSize() - len(found))
    return found[: node.outputsSize()]


def _of_loop(node: JitNode, returned: Sequence[InferredType], describe: Describe) -> Iterator[InferredType]:
    is_loop = node.kind() == "onnx::Loop"
    inputs = list(node.inputs())
    slices = node.i("num_scan_inputs") if node.hasAttribute("num_scan_inputs") else 0
    states = inputs[2:] if is_loop else inputs[: len(inputs) - slices]
    results = returned[1:] if is_loop else returned
    for position, result in enumerate(results):
        if position < len(states):
            # What comes out after no iteration at all is what went in.
            yield _merged([result, describe(states[position])])
            continue
        # PartialShape of the body may be known by names that mean nothing outside.
        inner = None if result.shape is None else [size if isinstance(size, int) else None for size in result.shape]
        if inner is not None:
            inner.insert(_axis(node, position - len(states), len(inner)), None)
        yield InferredType(result.dtype, None if inner is None else tuple(inner))


def _axis(node: JitNode, position: int, rank: int) -> int:
    """The axis along which a result is stacked."""
    axes = get_attribute(node, "scan_output_axes") if node.hasAttribute("scan_output_axes") else None
    axis: int = axes[position] if isinstance(axes, list) and position < len(axes) else 0
    return axis if axis >= 0 else axis + rank + 1


def _merged(ways: Sequence[InferredType]) -> InferredType:
    """What holds of a value that may be any of several."""
    dtype = next((way.dtype for way in ways if way.dtype is not None), None)
    shapes = [way.shape for way in ways]
    return InferredType(dtype, _common_sizes(shapes), is_sequence=any(way.is_sequence for way in ways))


def _common_sizes(shapes: Sequence[PartialShape | None]) -> PartialShape | None:
    known = [shape for shape in shapes if shape is not None]
    if len(known) != len(shapes) or len({len(shape) for shape in known}) != 1:
        return None
    return tuple(sizes[0] if all(size == sizes[0] for size in sizes) else None for sizes in zip(*known, strict=True))
