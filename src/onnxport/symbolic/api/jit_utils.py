"""What symbolic functions with branches and loops are written with, under the names ``torch.onnx`` has for it."""

from __future__ import annotations

import dataclasses

import torch

from onnxport.errors import OnnxExporterError
from onnxport.symbolic.session.blocks import add_block
from onnxport.symbolic.session.graph_context import GraphContext
from onnxport.torch_internals.torchscript import JitNode, JitValue, TensorType

__all__ = ["GraphContext", "add_op_with_blocks", "get_device_from_value", "parse_node_kind"]


def add_op_with_blocks(
    graph_context: GraphContext, opname: str, *inputs: object, outputs: int = 1, n_blocks: int = 1, **attributes: object
) -> tuple[JitValue | tuple[JitValue, ...], tuple[GraphContext, ...], JitNode]:
    """Add a node with blocks: an ``If`` with two, or a ``Loop`` or ``Scan`` with one.

    Args:
        graph_context: Where the node is added.
        opname: The operator.
        inputs: The inputs of the node.
        outputs: The number of its outputs.
        n_blocks: The number of its blocks.
        attributes: Its attributes, as for ``g.op``.

    Returns:
        The output, or a tuple of the outputs; a ``g`` for each block, with which it is written; and the node. What a
        block takes and returns is added with ``utils._add_input_to_block`` and ``utils._add_output_to_block``.

    >>> import torch, onnxport
    >>> from onnxport import jit_utils, utils
    >>> def leap(g, x):
    ...     many = g.op("Greater", g.op("Size", x), g.op("Constant", value_t=torch.tensor(2)))
    ...     result, (then, other), _ = jit_utils.add_op_with_blocks(g, "If", many, n_blocks=2)
    ...     utils._add_output_to_block(then.block, then.op("Neg", x))
    ...     utils._add_output_to_block(other.block, other.op("Relu", x))
    ...     return result
    >>> onnxport.register_custom_op_symbolic("aten::relu", leap, 9)
    >>> program = onnxport.export(torch.nn.ReLU(), (torch.ones(2),), dynamic_shapes=({0: "n"},))
    >>> onnxport.unregister_custom_op_symbolic("aten::relu", 9)
    >>> program(torch.ones(2))[0], program(torch.ones(3))[0]
    (tensor([1., 1.]), tensor([-1., -1., -1.]))
    """
    values = graph_context.op(opname, *inputs, outputs=outputs, **attributes)
    node = (values[0] if isinstance(values, tuple) else values).node()
    inner = tuple(dataclasses.replace(graph_context, block=add_block(node)) for _ in range(n_blocks))
    return values, inner, node


def get_device_from_value(value: JitValue) -> torch.device | None:
    """The device of a tensor, None where it is not known or the value is no tensor."""
    kind = value.type()
    return kind.device() if isinstance(kind, TensorType) else None


def parse_node_kind(kind: str) -> tuple[str, str]:
    """The namespace and the name of an operator.

    >>> parse_node_kind("aten::relu")
    ('aten', 'relu')
    """
    domain, separator, name = kind.partition("::")
    if not separator or "::" in name:
        raise OnnxExporterError(f'{kind!r} is not the kind of a node, which is written "namespace::name".')
    return domain, name
