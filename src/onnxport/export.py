"""``export()``: the pipeline, one call per stage."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import IO, Any, Literal, TypeAlias, Unpack, overload

import torch

from onnxport import aten  # noqa: F401  (fills the registry)
from onnxport.arguments import Description, described, warn_of_deprecated, warn_of_training
from onnxport.artifacts import Artifacts, accounted
from onnxport.capture import capture
from onnxport.collection import collection_paused
from onnxport.events import EventLog
from onnxport.functions import check_request, function_calls, outline
from onnxport.legacy_call import export_legacy
from onnxport.legalize import FIRST_IR_WITH_FUNCTIONS, check_ir_version, check_opset, legalize
from onnxport.onnx_build.opsets import DEFAULT_OPSET
from onnxport.optimize import optimize as optimize_model
from onnxport.options import Options
from onnxport.prepare import prepare
from onnxport.program import ONNXProgram
from onnxport.provenance import write_texts
from onnxport.symbolic import OperatorExportTypes, TrainingMode, kept_for_symbolics, log_events, symbolic_lookup
from onnxport.symbolic.session.fallback import kept_operators
from onnxport.translate import Names, is_translated, lookup, translate
from onnxport.verification import verify as verify_program
from onnxport.weights.saving import check_destination

Model: TypeAlias = "torch.nn.Module | torch.export.ExportedProgram | Callable[..., Any]"
File: TypeAlias = "str | os.PathLike[str] | IO[bytes]"


@overload
def export(
    model: Model, args: Any = ..., f: File | None = ..., *, dynamo: Literal[True] = ..., **options: Unpack[Options]
) -> ONNXProgram: ...
@overload
def export(
    model: Model, args: Any = ..., f: None = ..., *, dynamo: bool, **options: Unpack[Options]
) -> ONNXProgram: ...
@overload
def export(model: Model, args: Any, f: File, *, dynamo: Literal[False], **options: Unpack[Options]) -> None: ...
@overload
def export(
    model: Model, args: Any = ..., f: File | None = ..., *, dynamo: bool, **options: Unpack[Options]
) -> ONNXProgram | None: ...
def export(
    model: Model,
    args: Any = (),
    f: File | None = None,
    *,
    kwargs: dict[str, Any] | None = None,
    export_params: bool = True,
    verbose: bool | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    opset_version: int | None = None,
    dynamic_axes: Mapping[str, Mapping[int, str] | Sequence[int]] | None = None,
    keep_initializers_as_inputs: bool = False,
    dynamo: bool = True,
    external_data: bool = True,
    dynamic_shapes: dict[str, Any] | tuple[Any, ...] | list[Any] | None = None,
    custom_translation_table: Mapping[Any, Callable[..., Any] | Sequence[Callable[..., Any]]] | None = None,
    report: bool = False,
    optimize: bool = True,
    verify: bool = False,
    profile: bool = False,
    dump_exported_program: bool = False,
    artifacts_dir: str | os.PathLike[str] = ".",
    fallback: bool = False,
    training: int = TrainingMode.EVAL,
    operator_export_type: int = OperatorExportTypes.ONNX,
    do_constant_folding: bool = True,
    custom_opsets: Mapping[str, int] | None = None,
    export_modules_as_functions: bool | Collection[type[torch.nn.Module]] = False,
    autograd_inlining: bool = True,
    ir_version: int | None = None,
    example_outputs: Any = None,
) -> ONNXProgram | None:
    """Export a PyTorch model to ONNX.

    Args:
        model: The model, or a ``torch.export.ExportedProgram`` of it.
        args: Example positional inputs. Tensors become inputs of the ONNX model; other values are fixed in it.
        f: Where to save the model: a path, or an open binary file. Without it, nothing is written.
        kwargs: Example keyword inputs.
        export_params: Whether to save the weights with the model; without them they are left out of the file.
        verbose: Whether to show the stages on standard error: True anywhere and in detail, None on a terminal only.
        input_names: Names for the inputs in order; more names than inputs run on into the parameters.
        output_names: Names for the outputs in order.
        opset_version: The version of the ai.onnx operators the model uses: exactly this one. The default is 20.
        dynamic_axes: Axes that vary, by input name: ``{"x": {0: "batch"}}`` or ``{"x": [0]}``.
        keep_initializers_as_inputs: Whether the weights in the saved file can be overridden as inputs.
        dynamo: False is the call of the TorchScript exporter, with its meaning of the arguments: the model is written
            to ``f`` as one file, and not returned.
        external_data: Whether to save the weights in a file of their own beside the model.
        dynamic_shapes: Axes that vary, in any form ``torch.export.export`` takes, or with names as strings.
        custom_translation_table: Translations by operator, preferred to the built-in ones: functions that take ``op``
            and the arguments of the call, ONNX Script functions, or lists of which the first that fits is taken.
        report: Whether to write a report, as markdown and as a page of HTML, also when the export fails.
        optimize: Whether to clean up the graph.
        verify: Whether to compare the ONNX model in onnxruntime with the model itself, on the example and at other
            sizes of the axes that vary. What differs is a warning; the figures are in ``verification`` of the program.
        profile: Whether to write where the time went: a table of functions, and a timeline for trace viewers.
        dump_exported_program: Whether to write the captured program as a ``.pt2`` file.
        artifacts_dir: The folder for report, profile and captured program.
        export_modules_as_functions: True, or a set of module classes: their calls become functions of it, one for all
            equal calls. Deprecated in torch.onnx and kept here; ``inline_functions`` of the program undoes it.
        fallback, training, operator_export_type, do_constant_folding, custom_opsets, autograd_inlining,
            example_outputs: Deprecated; each warns what to do instead.
        ir_version: The version of the file format, for readers that know only older ones: from 3 on, and an error
            where the model has what came later. The default is the one that goes with the opset.

    Returns:
        The program: callable with torch tensors, and saved with ``save``. With ``dynamo=False`` and a file, None.

    Raises:
        OnnxExporterError: If the model can't be exported; the message says what, where, and what to do.

    >>> import torch, onnxport
    >>> program = onnxport.export(torch.nn.Linear(3, 2), (torch.randn(4, 3),), dynamic_shapes=({0: "batch"},))
    >>> program.model.graph.inputs[0].shape == ("batch", 3)
    True
    >>> program(torch.randn(7, 3))[0].shape
    torch.Size([7, 2])
    """
    if not dynamo:
        return export_legacy(
            export,
            model,
            args,
            f,
            kwargs=kwargs,
            training=training,
            input_names=input_names,
            output_names=output_names,
            dynamic_axes=dynamic_axes,
            export_params=export_params,
            keep_initializers_as_inputs=keep_initializers_as_inputs,
            do_constant_folding=do_constant_folding,
            verbose=verbose,
            opset_version=opset_version,
            dynamic_shapes=dynamic_shapes,
            custom_translation_table=custom_translation_table,
            report=report,
            artifacts_dir=artifacts_dir,
            operator_export_type=operator_export_type,
            custom_opsets=custom_opsets,
            export_modules_as_functions=export_modules_as_functions,
            autograd_inlining=autograd_inlining,
            ir_version=ir_version,
        )
    warn_of_deprecated(
        fallback=fallback,
        training=int(training),
        operator_export_type=int(operator_export_type),
        do_constant_folding=do_constant_folding,
        custom_opsets=custom_opsets,
        export_modules_as_functions=export_modules_as_functions,
        autograd_inlining=autograd_inlining,
        example_outputs=example_outputs,
    )
    warn_of_training(model)
    given = described(model, Description(args, kwargs, input_names, output_names, dynamic_shapes))
    opset = check_opset(DEFAULT_OPSET if opset_version is None else opset_version)
    as_functions = check_request(export_modules_as_functions, opset)
    check_ir_version(ir_version, functions=as_functions)
    if isinstance(f, str | os.PathLike):
        check_destination(f)
    events = EventLog()
    log_events(events)
    find = lookup(
        custom_translation_table,
        symbolic_lookup(opset, custom_opsets, inlining=autograd_inlining),
        kept_operators(int(operator_export_type), custom_opsets),
    )
    artifacts = Artifacts(artifacts_dir, report, profile, dump_exported_program, verbose)
    with accounted(artifacts, model, find, events) as account:
        with events.stage("capture"), kept_for_symbolics(opset, find, inlining=autograd_inlining):
            account.captured = captured = capture(
                model,
                given.args,
                given.kwargs,
                dynamic_shapes=given.dynamic_shapes,
                dynamic_axes=dynamic_axes,
                input_names=given.input_names,
                output_names=given.output_names,
                events=events,
            )
        with collection_paused():
            with events.stage("prepare"):
                account.functional = program = prepare(captured.program, partial(is_translated, find), events)
            with events.stage("translate"):
                names = Names(
                    inputs=tuple(given.input_names or ()),
                    outputs=tuple(given.output_names or ()),
                    dims=captured.dim_names,
                    same_dims=captured.same_dims,
                    output_dims=captured.output_dim_names,
                )
                account.onnx_model = onnx_model = translate(program, find, names, events)
            has_functions = ir_version is None or ir_version >= FIRST_IR_WITH_FUNCTIONS
            calls = function_calls(program.graph, as_functions, opset, model) if has_functions else None
            apart = None if calls is None else calls.chain
            if optimize:
                with events.stage("optimize"):
                    optimize_model(onnx_model, events, apart=apart)
            with events.stage("legalize"):
                legalize(onnx_model, opset, ir_version=ir_version, events=events, apart=apart)
            if calls is not None:
                with events.stage("functions"):
                    outline(onnx_model, calls, events)
            write_texts(onnx_model)
        result = ONNXProgram(onnx_model, captured.program, events)
        result.functional = program
        if f is not None:
            result.save(
                f,
                include_initializers=export_params,
                keep_initializers_as_inputs=keep_initializers_as_inputs,
                # Nothing can be put beside an open file.
                external_data=external_data and isinstance(f, str | os.PathLike),
            )
        if verify:
            with events.stage("verify"):
                result.verification = account.verification = verify_program(result, model, captured, events)
    return result
