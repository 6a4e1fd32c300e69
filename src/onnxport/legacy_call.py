"""``export(..., dynamo=False)``: the call of the TorchScript exporter, as code for it has always made it.

The arguments mean what they meant there; the model is captured by the strategies that suit such code, and the
result is written to one file.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch

from onnxport.arguments import Description
from onnxport.artifacts import Artifacts
from onnxport.capture.patches import one_export_at_a_time
from onnxport.capture.replay import Mirror, as_mirror, has_packed_weights, optional_parameters
from onnxport.capture.request.callables import as_module
from onnxport.capture.request.input_names import named_tensors
from onnxport.capture.request.inputs import bind, keywords_at_the_end
from onnxport.capture.request.tensor_keys import keys_as_inputs
from onnxport.collection import full_collections_rarer
from onnxport.errors import InputError, warn
from onnxport.exporter import Destination, run_export
from onnxport.options import Options
from onnxport.program import ONNXProgram
from onnxport.symbolic.api.mode import select_model_mode_for_export
from onnxport.torch_internals import pytree
from onnxport.weights.wire import is_read

_HIGHEST_OPSET = 20


@one_export_at_a_time
@full_collections_rarer()
def export_legacy(
    model: Any,
    given: Description,
    options: Options,
    destination: Destination | None,
    *,
    verify: bool,
    artifacts: Artifacts,
) -> ONNXProgram | None:
    """Export as the TorchScript exporter would be asked to; return the program only if there is no file for it."""
    if isinstance(model, torch.nn.DataParallel):
        raise InputError("A torch.nn.DataParallel has no ONNX form. Pass what it wraps: model.module.")
    if options.opset > _HIGHEST_OPSET:
        warn(f"Opset {options.opset} is newer than what torch.onnx writes with dynamo=False (7 to {_HIGHEST_OPSET}).")
    if destination is not None:
        # Weights that are not in the file have to come from outside.
        from_outside = destination.weights_as_inputs or not destination.weights
        destination = replace(destination, weights_as_inputs=from_outside, external_data=False)
    model = as_module(model)
    with select_model_mode_for_export(model, options.training):
        replay = as_mirror(model)
        if isinstance(replay, Mirror):
            replay.interpreter.typed_for = options.opset
        positional, keywords = call_arguments(replay, given.args, given.kwargs)
        axes = _known_axes(replay, positional, keywords, given)
        destination = _with_read_inputs(destination, replay, positional, keywords, given)
        with _without_text(replay):
            program = run_export(
                replay,
                replace(given, args=positional, kwargs=keywords, dynamic_axes=axes),
                replace(options, follows_example=True),
                destination,
                verify=verify,
                artifacts=replace(artifacts, verbose=False),
            )
    unused = [domain for domain in options.custom_opsets or () if domain not in program.model.opset_imports]
    if unused:
        warn(f"custom_opsets names {', '.join(map(repr, unused))}, of which the model has no operator.")
    if artifacts.verbose:
        print(program)
    if destination is not None:
        _tell_unread(program, destination)
    return program if destination is None else None


def call_arguments(
    model: Any, args: object, kwargs: Mapping[str, object] | None
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of the call: a dict at the end of ``args`` holds keywords, numbers and keys are tensors."""
    positional = tuple(args) if isinstance(args, tuple | list) and not hasattr(args, "_fields") else (args,)
    keywords = dict(kwargs) if kwargs is not None else {}
    if positional and type(positional[-1]) is dict and not isinstance(model, torch.export.ExportedProgram):
        signature = inspect.signature(model.forward)
        positional, keywords = keywords_at_the_end(signature, positional, keywords, legacy=True)
    return pytree.tree_map(_tensor, keys_as_inputs((positional, keywords)))  # type: ignore[no-any-return]


def _tensor(leaf: object) -> object:
    if isinstance(leaf, bool | int | float):
        dtype = torch.float64 if isinstance(leaf, float) else None
        return torch.tensor(leaf, dtype=dtype)
    return leaf


def _known_axes(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], given: Description
) -> Mapping[str, Any] | None:
    dynamic_axes, input_names, output_names = given.dynamic_axes, given.input_names, given.output_names
    if not dynamic_axes:
        return None
    inputs = set(named_tensors(bind(model, args, kwargs, lambda _: None), input_names))
    known = inputs | set(output_names or ())
    unknown = [name for name in dynamic_axes if name not in known]
    if unknown:
        warn(
            f"dynamic_axes names {', '.join(map(repr, unknown))}, which is no input or output, and is left out there. "
            f"Known are {', '.join(map(repr, sorted(known)))}."
        )
    if not any(name in inputs for name in dynamic_axes):
        warn(
            "dynamic_axes names axes of outputs only. Those vary with axes of inputs; without one that varies, the "
            "file states the sizes that the outputs have."
        )
    return {name: axes for name, axes in dynamic_axes.items() if name in known}


def _with_read_inputs(
    destination: Destination | None, model: Any, args: tuple[Any, ...], kwargs: dict[str, Any], given: Description
) -> Destination | None:
    """A file has the inputs whose values count, and a script's optional ones: run time may ask for these."""
    if destination is None:
        return None
    optional = optional_parameters(model)
    kept: list[str] = []
    if optional:
        inputs = bind(model, args, kwargs, lambda _: None)
        places = named_tensors(inputs, given.input_names)
        kept = [name for name, place in places.items() if inputs.leaves[place].steps[0] in optional]
    return replace(destination, unread_inputs=kept)


def _tell_unread(program: ONNXProgram, destination: Destination) -> None:
    kept = destination.kept_inputs(program)
    if kept is None:
        return
    unread = [value.name for value in program.model.graph.inputs if not is_read(value) and value.name not in kept]
    if unread:
        warn(
            f"No result is computed from the values of {', '.join(map(repr, unread))}: the file has no such input, as "
            "with torch.onnx. With dynamo=True it has."
        )


@contextlib.contextmanager
def _without_text(model: object) -> Iterator[None]:
    """While the block runs, strings among the results are left out, with a warning."""
    # Layers with packed weights are traced, and the tracer compiles the hooks that it finds.
    if not isinstance(model, torch.nn.Module) or has_packed_weights(model):
        yield
        return
    told: set[str] = set()

    def leave_out(module: torch.nn.Module, args: object, output: object) -> object:
        leaves = pytree.tree_leaves(output)
        texts = [leaf for leaf in leaves if isinstance(leaf, str)]
        if not texts:
            return None
        shown = ", ".join(map(repr, texts))
        if shown not in told:
            told.add(shown)
            warn(f"The model returns text ({shown}); ONNX models return tensors, so it is left out.")
        return tuple(leaf for leaf in leaves if not isinstance(leaf, str))

    handle = model.register_forward_hook(leave_out)
    try:
        yield
    finally:
        handle.remove()
