"""Arithmetic of weights alone that is not written: its result is, in place of the weights that only it reads.

``Conv(x, v * g / ‖v‖)`` is written as ``Conv(x, w)``, as files of the TorchScript exporter have it, which readers rely
on that take the weights of a convolution from initializers only. The elements are computed each time they are written;
the model in memory keeps the weights of the state dict, which can be replaced there at any time. No file grows by it,
so weights stored in few bits stay as they are. With ``dynamo=True`` weights keep their names and files have the nodes,
but for what is less than half as large, as the sums of integer weights that zero points are multiplied by, and for the
weights of layers: what quantizes or rewrites a file looks for initializers there (onnxruntime's ``quantize_dynamic``
takes nothing else). A weight that is a product of two, as of low rank, stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import torch

from onnxport.provenance import ARRANGED
from onnxport.weights.arrangement import Arrangement
from onnxport.weights.dtypes import ONNX_TO_TORCH
from onnxport.weights.torch_tensor import TorchTensor

_FREE_BYTES = 1024

# Where layers take their weights; of a product it is the second factor.
_WEIGHT_AT = {
    "Conv": (1,),
    "ConvTranspose": (1,),
    "MatMul": (1,),
    "Gemm": (1,),
    "LSTM": (1, 2),
    "GRU": (1, 2),
    "RNN": (1, 2),
}

Computed = Literal["never", "where smaller or of a layer", "always"]
"""Which results of arithmetic of weights alone are written in its place."""

_Kernel = Callable[[ir.Node, Sequence[torch.Tensor]], torch.Tensor]


def compute_written_weights(
    graph: ir.Graph, outputs: Collection[ir.Value], arrangement: Arrangement, which: Computed = "always"
) -> None:
    """Leave out the nodes that compute with weights and constants only, and write what they compute.

    >>> import onnx_ir as ir, torch
    >>> from onnxport.weights.arrangement import arrange
    >>> from onnxport.weights.torch_tensor import TorchTensor
    >>> weight = ir.Value(name="w", const_value=TorchTensor(torch.tensor([4.0, 9.0])))
    >>> r, x = ir.val("r", ir.DataType.FLOAT, [2]), ir.val("x", ir.DataType.FLOAT, [2])
    >>> root = ir.node("Sqrt", [weight], outputs=[r])
    >>> product = ir.node("Mul", [x, r])
    >>> graph = ir.Graph([x], product.outputs, nodes=[root, product], initializers=[weight])
    >>> arrangement = arrange(graph, graph.outputs)
    >>> compute_written_weights(graph, graph.outputs, arrangement)
    >>> {name: value.const_value.numpy().tolist() for name, value in arrangement.initializers.items()}
    {'r': [2.0, 3.0]}
    """
    computed = _computed_values(graph, set(outputs), arrangement)
    written = [value for value in computed if _is_frontier(value, computed) and _fits(value, computed, which)]
    if not written:
        return
    taken = set(written)
    gone: set[ir.Node] = set()
    for value in reversed(computed):
        node = _producer(value)
        if value in taken or all(user in gone for user, _ in value.uses()):
            gone.add(node)
    for node in gone:
        for source in node.inputs:
            if source is not None and source.is_initializer() and all(user in gone for user, _ in source.uses()):
                arrangement.initializers.pop(str(source.name), None)
    arrangement.left_out |= gone
    for value in written:
        arrangement.initializers[str(value.name)] = _initializer(value)


def _computed_values(graph: ir.Graph, outputs: Collection[ir.Value], arrangement: Arrangement) -> dict[ir.Value, None]:
    """The results of known operators over weights and constants, in the order of the graph."""
    found: dict[ir.Value, None] = {}
    for node in graph:
        if node.op_type not in _KERNELS or node.domain != "" or node in arrangement.left_out or len(node.outputs) != 1:
            continue
        value = node.outputs[0]
        if value in outputs or value.shape is None or not value.shape.is_static() or value.dtype not in ONNX_TO_TORCH:
            continue
        if all(one is None or one in found or _is_constant(one, outputs, arrangement) for one in node.inputs):
            found[value] = None
    return found


def _is_constant(value: ir.Value, outputs: Collection[ir.Value], arrangement: Arrangement) -> bool:
    if not value.is_initializer() or value.is_graph_input() or value in outputs:
        return False
    if arrangement.initializers.get(str(value.name)) is not value:
        return False
    tensor = value.const_value
    if type(tensor) is TorchTensor:
        return tensor.has_content and not tensor.raw.is_complex()
    return type(tensor) is ir.Tensor and tensor.dtype in ONNX_TO_TORCH


def _is_frontier(value: ir.Value, computed: Mapping[ir.Value, None]) -> bool:
    return any(user.outputs[0] not in computed for user, _ in value.uses())


def _fits(value: ir.Value, computed: Mapping[ir.Value, None], which: Computed) -> bool:
    """Whether what is written is no more than what then needn't be, or less than half of it."""
    nodes: dict[ir.Node, None] = {_producer(value): None}
    sources: dict[ir.Value, None] = {}
    for node in (pending := list(nodes)):
        for one in node.inputs:
            if one is None:
                continue
            if one not in computed:
                sources[one] = None
            elif _producer(one) not in nodes:
                nodes[_producer(one)] = None
                pending.append(_producer(one))
    freed = sum(_bytes(source) for source in sources if all(user in nodes for user, _ in source.uses()))
    if which == "always":
        return _bytes(value) <= max(_FREE_BYTES, freed)
    return 2 * _bytes(value) < freed or (_bytes(value) <= freed and _is_of_a_layer(value, nodes))


def _is_of_a_layer(value: ir.Value, nodes: Collection[ir.Node]) -> bool:
    """Whether layers take what the nodes compute as their weight, and it is no product of two others."""
    taken = all(place in _WEIGHT_AT.get(user.op_type, ()) for user, place in value.uses())
    return taken and not any(node.op_type == "MatMul" and _bytes(node.outputs[0]) >= _bytes(value) for node in nodes)


def _bytes(value: ir.Value) -> int:
    if value.const_value is not None:
        return int(value.const_value.nbytes)
    assert value.shape is not None and value.dtype is not None
    return int(np.prod(value.shape.numpy())) * ONNX_TO_TORCH[value.dtype].itemsize


def _producer(value: ir.Value) -> ir.Node:
    node = value.producer()
    assert node is not None
    return node


def _initializer(value: ir.Value) -> ir.Value:
    assert value.shape is not None and value.dtype is not None
    dtype, name, shape = value.dtype, str(value.name), ir.Shape(value.shape.numpy())

    def evaluate() -> ir.Tensor[npt.NDArray[Any]]:
        result = _evaluate(value, {}).to(ONNX_TO_TORCH[dtype]).reshape(shape.numpy())
        return ir.Tensor(TorchTensor(result.contiguous()).numpy(), dtype=dtype, name=name)

    made = ir.Value(
        name=name, type=value.type, shape=shape, const_value=ir.LazyTensor(evaluate, dtype, shape, name=name)
    )
    made.metadata_props.update(value.metadata_props)
    made.metadata_props[ARRANGED] = _text(value)
    return made


def _text(value: ir.Value) -> str:
    node = value.producer()
    if node is None:
        return str(value.name)
    return f"{node.op_type.lower()}({', '.join(_text(one) for one in node.inputs if one is not None)})"


def _evaluate(value: ir.Value, known: dict[ir.Value, torch.Tensor]) -> torch.Tensor:
    if value not in known:
        tensor, node = value.const_value, value.producer()
        if isinstance(tensor, TorchTensor):
            known[value] = tensor.raw.detach().cpu()
        elif node is None:
            assert isinstance(tensor, ir.Tensor)
            known[value] = _from_bytes(tensor)
        else:
            # An optional input that is left out is at the end in all of these operators.
            known[value] = _KERNELS[node.op_type](
                node, [_evaluate(one, known) for one in node.inputs if one is not None]
            )
    return known[value]


def _from_bytes(tensor: ir.Tensor[Any]) -> torch.Tensor:
    dtype, shape = ONNX_TO_TORCH[tensor.dtype], tensor.shape.numpy()
    content = bytearray(tensor.tobytes())
    return torch.frombuffer(content, dtype=dtype).reshape(shape) if content else torch.empty(shape, dtype=dtype)


# The operators, in torch.


def _pointwise(function: Callable[..., torch.Tensor]) -> _Kernel:
    return lambda node, inputs: function(*inputs)


def _reduction(function: Callable[[torch.Tensor, list[int], bool], torch.Tensor]) -> _Kernel:
    def kernel(node: ir.Node, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
        axes = _axes(node, inputs)
        if not axes and node.attributes.get_int("noop_with_empty_axes", 0) == 1:
            return inputs[0]
        every = axes if axes else list(range(inputs[0].dim()))
        return function(inputs[0], every, bool(node.attributes.get_int("keepdims", 1)))

    return kernel


def _axes(node: ir.Node, inputs: Sequence[torch.Tensor]) -> list[int]:
    """An input from some opset on, an attribute before."""
    if len(inputs) > 1:
        return [int(axis) for axis in inputs[1]]
    return list(node.attributes.get_ints("axes", []))


def _divide(node: ir.Node, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
    whole = not inputs[0].is_floating_point()
    return torch.div(inputs[0], inputs[1], rounding_mode="trunc" if whole else None)


def _stated_shape(node: ir.Node, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
    shape = node.outputs[0].shape
    assert shape is not None
    return inputs[0].reshape(shape.numpy())


def _cast(node: ir.Node, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
    return inputs[0].to(ONNX_TO_TORCH[ir.DataType(node.attributes.get_int("to"))])


def _concat(node: ir.Node, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
    return torch.cat(list(inputs), node.attributes.get_int("axis", 0))


def _transpose(node: ir.Node, inputs: Sequence[torch.Tensor]) -> torch.Tensor:
    return inputs[0].permute(*node.attributes.get_ints("perm", list(range(inputs[0].dim()))[::-1]))


_KERNELS: dict[str, _Kernel] = {
    "Abs": _pointwise(torch.abs),
    "Add": _pointwise(torch.add),
    "Cast": _cast,
    "Concat": _concat,
    "Div": _divide,
    "Exp": _pointwise(torch.exp),
    "MatMul": _pointwise(torch.matmul),
    "Mul": _pointwise(torch.mul),
    "Neg": _pointwise(torch.neg),
    "Reciprocal": _pointwise(torch.reciprocal),
    "ReduceL1": _reduction(lambda tensor, axes, kept: tensor.abs().sum(axes, kept)),
    "ReduceL2": _reduction(lambda tensor, axes, kept: tensor.square().sum(axes, kept).sqrt()),
    "ReduceMean": _reduction(lambda tensor, axes, kept: tensor.mean(axes, kept)),
    "ReduceSum": _reduction(lambda tensor, axes, kept: tensor.sum(axes, kept)),
    "ReduceSumSquare": _reduction(lambda tensor, axes, kept: tensor.square().sum(axes, kept)),
    "Reshape": _stated_shape,
    "Sigmoid": _pointwise(torch.sigmoid),
    "Sqrt": _pointwise(torch.sqrt),
    "Squeeze": _stated_shape,
    "Sub": _pointwise(torch.sub),
    "Tanh": _pointwise(torch.tanh),
    "Transpose": _transpose,
    "Unsqueeze": _stated_shape,
}
