"""Arguments of ``export`` that are kept for code written for older versions of ``torch.onnx``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from onnxport.errors import warn
from onnxport.torch_internals.layers import DropoutNd, NormBase

# Each deprecated argument: its default, and what to do instead.
_DEPRECATED: Mapping[str, tuple[object, str]] = {
    "training": (0, "set the mode before exporting, with model.eval() or model.train()"),
    "operator_export_type": (0, "pass translations for your operators in `custom_translation_table`"),
    "do_constant_folding": (True, "pass optimize=False to leave the graph as it was translated"),
    "custom_opsets": (None, "give the version with the operator, in onnxport.ops.symbolic or its translation"),
    "export_modules_as_functions": (
        False,
        "it is kept for models that need functions; leave it out where a flat graph will do",
    ),
    "autograd_inlining": (True, "give the autograd.Function a `symbolic` method to keep it as one node"),
    "fallback": (False, "the strategies for capturing a model are tried in order anyway"),
    "example_outputs": (None, "what a model returns is known from its capture, of a scripted one too"),
}


@dataclass(frozen=True)
class Description:
    """What tells ``export`` how a model is called, from the user or from the model itself."""

    args: Any
    kwargs: Mapping[str, Any] | None
    input_names: Sequence[str] | None
    output_names: Sequence[str] | None
    dynamic_shapes: Any
    dynamic_axes: Mapping[str, Mapping[int, str] | Sequence[int]] | None = None


def described(model: object, given: Description) -> Description:
    """Complete what was given by what the model says of itself, if it does and was given no inputs.

    By its methods, not by its class: modules written for torch.onnx's ExportableModule serve as well.
    """
    example = getattr(model, "example_arguments", None)
    no_inputs = isinstance(given.args, tuple | list) and not given.args and not given.kwargs
    if not (isinstance(model, torch.nn.Module) and callable(example) and no_inputs):
        return given
    args, kwargs = example()

    def or_own(value: Any, method: str) -> Any:
        own = getattr(model, method, None)
        return own() if value is None and callable(own) else value

    return Description(
        args,
        kwargs,
        or_own(given.input_names, "input_names"),
        or_own(given.output_names, "output_names"),
        or_own(given.dynamic_shapes, "dynamic_shapes"),
        given.dynamic_axes,
    )


def warn_of_deprecated(**given: object) -> None:
    """Warn once for each deprecated argument that was given another value than its default.

    >>> from onnxport.arguments import warn_of_deprecated
    >>> warn_of_deprecated(do_constant_folding=True)
    """
    for name, value in given.items():
        default, remedy = _DEPRECATED[name]
        if (value is None) != (default is None) or (value is not None and value != default):
            warn(f"`{name}` is deprecated; {remedy}.", DeprecationWarning)


def warn_of_training(model: object) -> None:
    """Say that a model in training mode is exported with dropout and batch statistics, if it has any."""
    if not isinstance(model, torch.nn.Module):
        return
    sensitive = {type(m).__name__ for m in model.modules() if isinstance(m, DropoutNd | NormBase) and m.training}
    if sensitive:
        warn(
            f"{type(model).__name__} is in training mode: {', '.join(sorted(sensitive))} will be exported as such. "
            "Call model.eval() before exporting for inference."
        )
