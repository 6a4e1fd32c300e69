"""``export()``: the public call. Its arguments become a description of the call and one ``Options``."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from onnxport.errors import with_plain_errors
from onnxport.export_types import OperatorExportTypes, TrainingMode

if TYPE_CHECKING:
    from onnxport.exporter import File, Model
    from onnxport.options import Branches, Modules, Table
    from onnxport.program import ONNXProgram
    from onnxport.quantize import Quantization
    from onnxport.targets import Target
    from onnxport.weights.metadata import Metadata


# One signature, not an overload for each way to call it: type checkers then tell of a wrong option in one line. What
# it returns is a program but for dynamo=False with a file, which has None as in torch.onnx; `| Any` says so without
# everybody having to ask.
@with_plain_errors
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
    custom_translation_table: Table | None = None,
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
    export_modules_as_functions: Modules = False,
    autograd_inlining: bool = True,
    ir_version: int | None = None,
    example_outputs: Any = None,
    metadata: Metadata = "full",
    target: str | Target = "onnx",
    branches: Branches = "export",
    branch_limit: int | None = None,
    fold_batch_norm: bool = True,
    quantize: str | Quantization | None = None,
) -> ONNXProgram | Any:
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
        profile: Whether to write where the time went: a table of functions, a flame graph as a page of HTML, and a
            timeline for trace viewers.
        dump_exported_program: Whether to write the captured program as a ``.pt2`` file.
        artifacts_dir: The folder for report, profile and captured program.
        export_modules_as_functions: True, or a set of module classes: their calls become functions of it, one for all
            equal calls. Deprecated in torch.onnx and kept here; ``inline_functions`` of the program undoes it.
        fallback: Deprecated, as are those that follow; each warns what to do instead.
        training: Deprecated.
        operator_export_type: Deprecated.
        do_constant_folding: Deprecated.
        custom_opsets: Deprecated.
        autograd_inlining: Deprecated.
        example_outputs: Deprecated.
        ir_version: The version of the file format, for readers that know only older ones: from 3 on, and an error
            where the model has what came later. The default is the one that goes with the opset.
        metadata: How much a saved file says of where its nodes come from: ``"full"`` has the call, its modules and its
            lines in the model's code, ``"names"`` only the modules, ``"none"`` nothing.
        target: The reader that the file is written for: ``"onnx"`` for any, the name of another (``"onnxruntime"``,
            ``"onnxruntime-web"``, ``"openvino"``, ``"tensorrt"``, ``"opencv"``, ``"tract"``, ``"mnn"``, ``"ncnn"``,
            ``"rknn"``), or a :class:`Target` of your own. It decides the opset where none is asked for and the form of
            the file; what it can't hold is an error.
        branches: What becomes of branches that the model's Python code takes by a size that varies or by data:
            "export" writes both sides, with an If; "follow" takes the example's; "refuse" makes them an error.
        branch_limit: How many ways through the model branches may lead to, 32 unless it says otherwise; each takes as
            long as a capture. Beyond it one by a size follows the example, with a warning; one by data is an error.
        quantize: What to quantize to: ``"int8"``, ``"int4"``, ``"uint4"``, ``"dynamic-int8"``, ``"float16"``,
            ``"bfloat16"``, or a :class:`Quantization`. Where no
            opset is asked for, it is one that can say so. ``quantization`` of the program has what was done.
        fold_batch_norm: Whether a convolution or linear layer takes up the batch normalisation behind it when a file is
            written. The weight keeps its name and says so in its metadata. The program in memory has both, so that
            ``apply_weights`` takes any state dict; files without weights, or with weights as inputs, have both too.

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
    # The stages take a second to load, which whoever imports the package would wait for.
    from onnxport.arguments import Description, check_forms, warn_of_deprecated
    from onnxport.artifacts import Artifacts
    from onnxport.exporter import Destination, run_export
    from onnxport.functions import check_request
    from onnxport.legacy_call import export_legacy
    from onnxport.legalize import check_ir_version, check_opset
    from onnxport.options import BRANCH_LIMIT, Options, check_branches
    from onnxport.quantize import as_quantization, opset_for
    from onnxport.targets import find_target
    from onnxport.targets.fit import check_target_opset
    from onnxport.weights.metadata import check_metadata

    check_forms(locals())
    if dynamo:
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
    saved = None if f is None else Destination(f, export_params, keep_initializers_as_inputs, external_data)
    artifacts = Artifacts(artifacts_dir, report, profile, dump_exported_program, verbose)
    given = Description(args, kwargs, input_names, output_names, dynamic_shapes, dynamic_axes)
    reader = find_target(target)
    quantization = None if quantize is None else as_quantization(quantize)
    opset = check_target_opset(reader, check_opset(opset_for(opset_version, quantization, reader)))
    options = Options(
        opset=opset,
        ir_version=reader.ir_version if ir_version is None else ir_version,
        optimize=optimize,
        fold_batch_norm=fold_batch_norm,
        functions=check_request(export_modules_as_functions, opset),
        translations=custom_translation_table,
        custom_opsets=custom_opsets,
        operator_export_type=int(operator_export_type),
        inlines_autograd=autograd_inlining,
        training=TrainingMode(int(training)),
        target=reader,
        metadata=check_metadata(metadata),
        branches=check_branches(branches),
        branch_limit=BRANCH_LIMIT if branch_limit is None else branch_limit,
        quantize=quantization,
    )
    check_ir_version(ir_version, functions=options.functions)
    if not dynamo:
        options = replace(options, optimize=do_constant_folding)
        return export_legacy(model, given, options, saved, verify=verify, artifacts=artifacts)
    return run_export(model, given, options, saved, verify=verify, artifacts=artifacts)
