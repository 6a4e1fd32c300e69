"""``export(..., dynamo=False)``: the call of the TorchScript exporter, as code for it has always made it.

The arguments mean what they meant there; the model is captured by the strategies that suit such code, and the
result is written to one file.
"""

from __future__ import annotations

import contextlib
import inspect
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch

from onnxport.capture.replay import mirrored
from onnxport.capture.request.inputs import bind, named_tensors
from onnxport.capture.strategies import follow_the_example
from onnxport.errors import InputError, warn
from onnxport.program import ONNXProgram
from onnxport.symbolic.api.mode import select_model_mode_for_export
from onnxport.symbolic.session.export_types import TrainingMode
from onnxport.torch_internals import pytree
from onnxport.weights.saving import check_destination

_QUIET = (
    r"`(training|operator_export_type|do_constant_folding|custom_opsets|autograd_inlining|export_modules\w+)` is dep"
)
_HIGHEST_OPSET = 20


def export_legacy(
    export: Callable[..., Any],
    model: Any,
    args: Any,
    f: Any,
    *,
    kwargs: Mapping[str, Any] | None,
    training: int,
    input_names: Sequence[str] | None,
    output_names: Sequence[str] | None,
    dynamic_axes: Mapping[str, Any] | None,
    export_params: bool,
    keep_initializers_as_inputs: bool | None,
    do_constant_folding: bool,
    verbose: bool | None,
    opset_version: int | None,
    **options: Any,
) -> ONNXProgram | None:
    """Export as the TorchScript exporter would be asked to, by way of ``export``; the program only if ``f`` is None."""
    if isinstance(model, torch.nn.DataParallel):
        raise InputError("A torch.nn.DataParallel has no ONNX form. Pass what it wraps: model.module.")
    if opset_version is not None and opset_version > _HIGHEST_OPSET:
        warn(f"Opset {opset_version} is newer than what torch.onnx writes with dynamo=False (7 to {_HIGHEST_OPSET}).")
    if isinstance(f, str | os.PathLike):
        check_destination(f)
    with select_model_mode_for_export(model, TrainingMode(training)), warnings.catch_warnings(), follow_the_example():
        warnings.filterwarnings("ignore", message=_QUIET, category=DeprecationWarning)
        replay = mirrored(model)
        positional, keywords = call_arguments(replay, args, kwargs)
        with _without_text(replay):
            program: ONNXProgram = export(
                replay,
                positional,
                None,
                kwargs=keywords,
                input_names=input_names,
                output_names=output_names,
                dynamic_axes=_known_axes(replay, positional, keywords, dynamic_axes, input_names, output_names),
                opset_version=opset_version,
                optimize=do_constant_folding,
                verbose=False,
                dynamo=True,
                **options,
            )
    unused = [domain for domain in options.get("custom_opsets") or () if domain not in program.model.opset_imports]
    if unused:
        warn(f"custom_opsets names {', '.join(map(repr, unused))}, of which the model has no operator.")
    if verbose:
        print(program)
    if f is None:
        return program
    program.save(
        f,
        include_initializers=export_params,
        # Weights that are not in the file have to come from outside.
        keep_initializers_as_inputs=bool(keep_initializers_as_inputs) or not export_params,
        external_data=False,
    )
    return None


def call_arguments(model: Any, args: Any, kwargs: Mapping[str, Any] | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of the call: a dict at the end of ``args`` holds keywords, and numbers are tensors."""
    positional = tuple(args) if isinstance(args, tuple | list) and not hasattr(args, "_fields") else (args,)
    keywords = dict(kwargs) if kwargs is not None else {}
    if positional and type(positional[-1]) is dict and not isinstance(model, torch.export.ExportedProgram):
        last = positional[-1]
        signature = inspect.signature(model.forward)
        if all(isinstance(name, str) for name in last) and _fits(signature, positional[:-1], {**last, **keywords}):
            positional, keywords = positional[:-1], {**last, **keywords}
    return pytree.tree_map(_tensor, (positional, keywords))  # type: ignore[no-any-return]


def _fits(signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        # Then the dict is an argument like the others.
        return False
    return True


def _tensor(leaf: Any) -> Any:
    if isinstance(leaf, bool | int | float):
        dtype = torch.float64 if isinstance(leaf, float) else None
        return torch.tensor(leaf, dtype=dtype)
    return leaf


def _known_axes(
    model: Any,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    dynamic_axes: Mapping[str, Any] | None,
    input_names: Sequence[str] | None,
    output_names: Sequence[str] | None,
) -> Mapping[str, Any] | None:
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


@contextlib.contextmanager
def _without_text(model: Any) -> Iterator[None]:
    """While the block runs, strings among the results are left out, with a warning."""
    if not isinstance(model, torch.nn.Module):
        yield
        return
    told: set[str] = set()

    def leave_out(module: torch.nn.Module, args: Any, output: Any) -> Any:
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
