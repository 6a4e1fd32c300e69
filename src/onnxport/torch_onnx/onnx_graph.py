"""A model's ONNX graph as a TorchScript graph, for code that looks through the nodes of ``_model_to_graph``.

The graph is that of the file which ``export`` writes: nodes are ``onnx::`` nodes, weights are inputs after those of the
model, other constants are ``onnx::Constant`` nodes, and the graphs inside of If, Loop and Scan are blocks.
"""

from __future__ import annotations

import contextlib
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence

import onnx_ir as ir
import torch

from onnxport.errors import with_plain_errors
from onnxport.export_call import export
from onnxport.export_types import OperatorExportTypes, TrainingMode
from onnxport.exporter import Model
from onnxport.legacy_call import call_arguments
from onnxport.program import ONNXProgram
from onnxport.program.runtime import to_torch
from onnxport.symbolic.api.mode import select_model_mode_for_export
from onnxport.symbolic.session.blocks import BRANCHES
from onnxport.symbolic.session.given import tensor_type
from onnxport.torch_internals.torchscript import (
    JitBlock,
    JitGraph,
    JitNode,
    JitType,
    JitValue,
    ListType,
    OptionalType,
    TensorType,
)
from onnxport.weights.dtypes import ONNX_TO_TORCH
from onnxport.weights.kinds import is_weight

Written = ChainMap[str, JitValue]


@with_plain_errors
def model_to_graph(
    model: Model,
    args: object,
    verbose: bool = False,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    operator_export_type: OperatorExportTypes = OperatorExportTypes.ONNX,
    do_constant_folding: bool = True,
    _disable_torch_constant_prop: bool = False,
    fixed_batch_size: bool = False,
    training: TrainingMode = TrainingMode.EVAL,
    dynamic_axes: Mapping[str, Mapping[int, str] | Sequence[int]] | None = None,
    opset_version: int | None = None,
) -> tuple[JitGraph, dict[str, torch.Tensor], object]:
    """Export a model and return its ONNX graph as a TorchScript graph, as ``torch.onnx.utils._model_to_graph`` does.

    Args:
        opset_version: The opset of the graph. torch.onnx keeps it in a global variable; here it is an argument.
        _disable_torch_constant_prop, fixed_batch_size: Not looked at; they chose among passes of torch.onnx.
        model, args, verbose, input_names, output_names, operator_export_type, do_constant_folding, training,
        dynamic_axes: As for ``export`` with ``dynamo=False``.

    Returns:
        The graph, the weights by the names of its inputs, and what the model returns; None for a script.

    >>> import torch, onnxport.utils
    >>> graph, weights, _ = onnxport.utils._model_to_graph(torch.nn.Linear(3, 2), torch.ones(1, 3))
    >>> [node.kind() for node in graph.nodes()], sorted(weights)
    (['onnx::Gemm'], ['bias', 'weight'])
    """
    program = export(
        model,
        args,
        None,
        dynamo=False,
        verbose=verbose,
        input_names=input_names,
        output_names=output_names,
        operator_export_type=operator_export_type,
        do_constant_folding=do_constant_folding,
        training=training,
        dynamic_axes=dynamic_axes,
        opset_version=opset_version,
    )
    graph, weights = onnx_graph(program)
    return graph, weights, _results(model, args, training)


def _results(model: Model, args: object, training: TrainingMode) -> object:
    if not callable(model) or isinstance(model, torch.jit.ScriptModule | torch.jit.ScriptFunction):
        return None
    with select_model_mode_for_export(model, training), torch.no_grad():
        positional, keywords = call_arguments(model, args, None)
        return model(*positional, **keywords)


def onnx_graph(program: ONNXProgram) -> tuple[JitGraph, dict[str, torch.Tensor]]:
    """The graph of a program as it would be written to a file, and the weights that are inputs of it."""
    literals = {name for name, value in program.model.graph.initializers.items() if not is_weight(value)}
    stored = ir.from_proto(program.model_proto).graph
    graph = JitGraph()
    written: Written = ChainMap()
    for value in stored.inputs:
        _add(written, value, graph.addInput())
    weights: dict[str, torch.Tensor] = {}
    constants: list[ir.Value] = []
    for name, value in stored.initializers.items():
        if name in literals:
            constants.append(value)
        elif value.const_value is not None:
            _add(written, value, graph.addInput())
            weights[name] = to_torch(value.const_value)
    for value in constants:
        _add_constant(graph, written, value)
    _write_nodes(graph, stored, written)
    for output in stored.outputs:
        graph.registerOutput(written[_name(output)])
    return graph, weights


def _write_nodes(graph: JitGraph, source: ir.Graph, written: Written) -> None:
    for node in source:
        inputs = [_none(graph) if value is None else written[_name(value)] for value in node.inputs]
        domain = node.domain if node.domain else "onnx"
        copy = graph.create(f"{domain}::{node.op_type}", inputs, len(node.outputs))
        graph.insertNode(copy)
        for value, output in zip(node.outputs, copy.outputs(), strict=True):
            _add(written, value, output)
        for attribute in node.attributes.values():
            if attribute.type not in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
                _set(copy, attribute)
        for name in BRANCHES.get(copy.kind(), ()):
            _write_block(graph, copy.addBlock(), node.attributes[name].as_graph(), written)


def _write_block(graph: JitGraph, block: JitBlock, source: ir.Graph, around: Written) -> None:
    inside = around.new_child()
    for value in source.inputs:
        _add(inside, value, block.addInputToBlock())  # type: ignore[attr-defined]
    place = graph.insertPoint()
    graph.setInsertPoint(block)
    for value in source.initializers.values():
        _add_constant(graph, inside, value)
    _write_nodes(graph, source, inside)
    graph.setInsertPoint(place)
    for output in source.outputs:
        block.registerOutput(inside[_name(output)])


def _add_constant(graph: JitGraph, written: Written, value: ir.Value) -> None:
    node = graph.create("onnx::Constant", [], 1)
    graph.insertNode(node)
    if value.const_value is not None:
        node.t_("value", to_torch(value.const_value))
    _add(written, value, node.output())


def _add(written: Written, value: ir.Value, copy: JitValue) -> None:
    written[_name(value)] = copy
    copy.setType(_type(value.type, value.shape))
    with contextlib.suppress(RuntimeError):
        # TorchScript takes no name that begins with a digit; the value then keeps its number.
        copy.setDebugName(_name(value))


def _name(value: ir.Value) -> str:
    return "" if value.name is None else value.name


def _type(kind: ir.TypeProtocol | None, shape: ir.Shape | None) -> JitType:
    if isinstance(kind, ir.SequenceType):
        return ListType(_type(kind.elem_type, None))
    if isinstance(kind, ir.OptionalType):
        return OptionalType(_type(kind.elem_type, shape))
    dtype = None if kind is None else ONNX_TO_TORCH.get(kind.dtype)
    if dtype is None:
        return TensorType.get()
    sizes = None if shape is None else [size if isinstance(size, int) else None for size in shape]
    return tensor_type(dtype, sizes)


def _none(graph: JitGraph) -> JitValue:
    value: JitValue = graph.insertConstant(None)  # type: ignore[attr-defined]
    return value


def _set(node: JitNode, attribute: ir.Attr) -> None:
    setters: dict[ir.AttributeType, Callable[[], object]] = {
        ir.AttributeType.INT: lambda: node.i_(attribute.name, attribute.as_int()),
        ir.AttributeType.FLOAT: lambda: node.f_(attribute.name, attribute.as_float()),
        ir.AttributeType.STRING: lambda: node.s_(attribute.name, attribute.as_string()),
        ir.AttributeType.TENSOR: lambda: node.t_(attribute.name, to_torch(attribute.as_tensor())),
        ir.AttributeType.INTS: lambda: node.is_(attribute.name, list(attribute.as_ints())),  # type: ignore[attr-defined]
        ir.AttributeType.FLOATS: lambda: node.fs_(attribute.name, list(attribute.as_floats())),
        ir.AttributeType.STRINGS: lambda: node.ss_(attribute.name, list(attribute.as_strings())),
    }
    setters[attribute.type]()
