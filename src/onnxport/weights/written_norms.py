"""Batch normalisations that are not written: the layers before them are, with other weights.

The model in memory keeps both, with the weights of the state dict, which can be replaced there at any time.
"""

from __future__ import annotations

from collections.abc import Collection

import onnx
import onnx_ir as ir

from onnxport.provenance import FOLDED
from onnxport.weights.arrangement import Arrangement, JoinedLayer
from onnxport.weights.batch_norm import folded_norm, pair_of
from onnxport.weights.stored_form import StoredTensor
from onnxport.weights.torch_tensor import TorchTensor


def fold_written_norms(graph: ir.Graph, outputs: Collection[ir.Value], arrangement: Arrangement) -> None:
    """Leave each BatchNormalization out that alone reads a layer, and give the layer the weights of both.

    Layers that share their weights have them once for all, where the normalisations behind them share theirs. OpenCV
    (5.0), which puts the two together itself, gives the weights of both one name twice, and refuses the file.
    """
    for norm in graph:
        if norm.op_type != "BatchNormalization" or norm.domain != "" or norm in arrangement.left_out:
            continue
        pairs = _pairs_of_same_weights(norm, outputs)
        bias = _fold(*pairs[0], arrangement) if pairs else None
        if bias is None:
            continue
        for layer, one in pairs:
            arrangement.joined[str(layer.outputs[0].name)] = JoinedLayer(str(one.outputs[0].name), bias)
            arrangement.left_out.add(one)
    _forget_unread(arrangement)


def _pairs_of_same_weights(norm: ir.Node, outputs: Collection[ir.Value]) -> list[tuple[ir.Node, ir.Node]]:
    """The layer before a normalisation with it, and those that share the weights of both; none if others read them."""
    layer = _only_layer_before(norm, outputs)
    if layer is None:
        return []
    pairs = []
    for reader in _readers(layer.inputs[1]):
        behind = _readers(reader.outputs[0])
        if len(behind) != 1 or _only_layer_before(behind[0], outputs) is not reader:
            return []
        pairs.append((reader, behind[0]))
    bias = layer.inputs[2] if len(layer.inputs) > 2 else None
    alike = all(_form(*pair) == _form(layer, norm) for pair in pairs)
    return pairs if alike and (bias is None or len(_readers(bias)) == len(pairs)) else []


def _only_layer_before(norm: ir.Node, outputs: Collection[ir.Value]) -> ir.Node | None:
    if norm.op_type != "BatchNormalization" or norm.domain != "":
        return None
    layer, result = pair_of(norm), norm.inputs[0]
    return layer if result is not None and result not in outputs and len(result.uses()) == 1 else None


def _readers(value: ir.Value | None) -> list[ir.Node]:
    return [] if value is None else [user for user, _ in value.uses()]


def _form(layer: ir.Node, norm: ir.Node) -> tuple[object, ...]:
    """What the weights of both in one are computed of, and the graph that has them."""
    numbers = (layer.attributes.get_int("group", 1), layer.attributes.get_int("transB", 0))
    epsilon = norm.attributes.get_float("epsilon", 1e-5)
    return (layer.op_type, layer.graph, *numbers, *layer.inputs[1:], *norm.inputs[1:], epsilon)


def _fold(layer: ir.Node, norm: ir.Node, arrangement: Arrangement) -> str | None:
    """The name of the bias, if the layer takes up the normalisation."""
    read = [value for value in (*layer.inputs[1:], *norm.inputs[1:5]) if value is not None]
    tensors = {value: value.const_value for value in read if _is_plain_weight(value, arrangement)}
    weight, bias = layer.inputs[1], layer.inputs[2] if len(layer.inputs) > 2 else None
    folded = folded_norm(layer, norm, {value: tensor for value, tensor in tensors.items() if tensor is not None})
    if folded is None or weight is None:
        return None
    name = str(bias.name) if bias is not None else f"{str(weight.name).removesuffix('.weight')}.bias"
    if bias is None and name in arrangement.initializers:
        return None
    written = ((folded.weight(str(weight.name)), weight), (folded.bias(name), weight if bias is None else bias))
    for tensor, like in written:
        made = ir.Value(name=tensor.name, const_value=tensor, type=like.type)
        made.metadata_props.update(like.metadata_props)
        made.metadata_props[FOLDED] = folded.absorbed
        arrangement.initializers[str(tensor.name)] = made
    return name


def _is_plain_weight(value: ir.Value, arrangement: Arrangement) -> bool:
    if not value.is_initializer() or value.is_graph_input() or value.is_graph_output():
        return False
    tensor = value.const_value
    held = isinstance(tensor, TorchTensor) and not isinstance(tensor, StoredTensor) and tensor.has_content
    return held and arrangement.initializers.get(str(value.name)) is value


def _forget_unread(arrangement: Arrangement) -> None:
    """Leave out the weights that only normalisations read which are not written."""
    for norm in arrangement.left_out:
        if norm.op_type != "BatchNormalization":
            continue
        for value in norm.inputs[1:]:
            if value is not None and all(user in arrangement.left_out for user, _ in value.uses()):
                arrangement.initializers.pop(str(value.name), None)


def join_written_layers(graph: onnx.GraphProto, joined: dict[str, JoinedLayer]) -> None:
    """Let layers of a graph give what the normalisations behind them gave, with the biases that they have for it."""
    for node in graph.node:
        layer = joined.get(node.output[0]) if node.output else None
        if layer is not None:
            node.output[0] = layer.result
            inputs = [*node.input[:2], layer.bias]
            node.ClearField("input")
            node.input.extend(inputs)
    # What a normalisation gives has the shape of what it is given; an output states its own.
    stated = {info.name for info in (*graph.value_info, *graph.output)}
    for info in graph.value_info:
        layer = joined.get(info.name)
        if layer is not None and layer.result not in stated:
            info.name = layer.result
    kept = [info for info in graph.value_info if info.name not in joined]
    graph.ClearField("value_info")
    graph.value_info.extend(kept)
