"""Functions of the TorchScript exporter that ``torch.onnx.utils`` is imported for."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Unpack

import onnx.printer
import torch

from onnxport.capture import is_in_onnx_export
from onnxport.errors import with_plain_errors
from onnxport.export_call import export as _export
from onnxport.export_types import OperatorExportTypes, TrainingMode
from onnxport.exporter import File, Model
from onnxport.options import Keywords
from onnxport.symbolic import (
    register_custom_op_symbolic,
    select_model_mode_for_export,
    unregister_custom_op_symbolic,
)
from onnxport.symbolic.api.surroundings import (
    disable_apex_o2_state_dict_hook,
    exporter_context,
    setup_onnx_logging,
    unpack_quantized_tensor,
    warn_on_static_input_change,
)
from onnxport.symbolic.session.blocks import add_block as _add_block
from onnxport.symbolic.session.blocks import add_input_to_block as _add_input_to_block
from onnxport.symbolic.session.blocks import add_output_to_block as _add_output_to_block
from onnxport.torch_onnx.onnx_graph import model_to_graph as _model_to_graph
from onnxport.torch_onnx.unconvertible import unconvertible_ops

__all__ = [
    "_add_block",
    "_add_input_to_block",
    "_add_output_to_block",
    "_model_to_graph",
    "disable_apex_o2_state_dict_hook",
    "export",
    "export_to_pretty_string",
    "exporter_context",
    "is_in_onnx_export",
    "model_signature",
    "register_custom_op_symbolic",
    "select_model_mode_for_export",
    "setup_onnx_logging",
    "unconvertible_ops",
    "unpack_quantized_tensor",
    "unregister_custom_op_symbolic",
    "warn_on_static_input_change",
]


@with_plain_errors
def export(model: Model, args: object, f: File, **options: Unpack[Keywords]) -> None:
    """Export a model as the TorchScript exporter was asked to: ``onnxport.export`` with ``dynamo=False``.

    >>> import io, onnx, torch, onnxport.utils
    >>> file = io.BytesIO()
    >>> onnxport.utils.export(torch.nn.ReLU(), torch.ones(2), file, opset_version=13)
    >>> [node.op_type for node in onnx.load_from_string(file.getvalue()).graph.node]
    ['Relu']
    """
    _export(model, args, f, dynamo=False, **options)


@with_plain_errors
def export_to_pretty_string(
    model: Model,
    args: object,
    export_params: bool = True,
    verbose: bool = False,
    training: TrainingMode = TrainingMode.EVAL,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    operator_export_type: OperatorExportTypes = OperatorExportTypes.ONNX,
    export_type: object = None,
    google_printer: bool = False,
    opset_version: int | None = None,
    keep_initializers_as_inputs: bool | None = None,
    custom_opsets: Mapping[str, int] | None = None,
    add_node_names: bool = True,
    do_constant_folding: bool = True,
    dynamic_axes: Mapping[str, Mapping[int, str] | Sequence[int]] | None = None,
) -> str:
    """Export a model and return it as text instead of writing a file.

    Args:
        google_printer: Whether to show all of the model as protobuf text does, and not in the short form of ONNX.
        add_node_names: Whether the nodes have names.
        export_type: Not looked at; it once chose between kinds of files.
        model, args, export_params, verbose, training, input_names, output_names, operator_export_type, opset_version,
        keep_initializers_as_inputs, custom_opsets, do_constant_folding, dynamic_axes: As for ``export``.

    >>> import torch, onnxport
    >>> text = onnxport.export_to_pretty_string(torch.nn.ReLU(), torch.ones(2), opset_version=13)
    >>> text.splitlines()[-2].strip()
    '["/Relu"] output = Relu (input)'
    """
    program = _export(
        model,
        args,
        None,
        dynamo=False,
        verbose=verbose,
        training=training,
        input_names=input_names,
        output_names=output_names,
        operator_export_type=operator_export_type,
        opset_version=opset_version,
        keep_initializers_as_inputs=bool(keep_initializers_as_inputs),
        custom_opsets=custom_opsets,
        do_constant_folding=do_constant_folding,
        dynamic_axes=dynamic_axes,
    )
    model_proto = program.model_proto
    if not export_params:
        model_proto.graph.ClearField("initializer")
    if not add_node_names:
        for node in model_proto.graph.node:
            node.ClearField("name")
    return str(model_proto) if google_printer else str(onnx.printer.to_text(model_proto))


def model_signature(model: torch.nn.Module | Callable[..., object]) -> inspect.Signature:
    """The signature of a model's forward, or of a function.

    >>> import torch, onnxport.utils
    >>> list(onnxport.utils.model_signature(torch.nn.ReLU()).parameters)
    ['input']
    """
    function: Callable[..., object] = getattr(model, "forward", model)
    return inspect.signature(function)
