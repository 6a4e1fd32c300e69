"""What ``export`` is called with: of which type each argument is, and which are kept for older code."""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch

from onnxport.errors import ArgumentTypeError, Problem, warn
from onnxport.export_types import OperatorExportTypes, TrainingMode
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


def _are_names(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and all(map(_is_name, value))


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _by_name(value: object) -> bool:
    return isinstance(value, Mapping) and all(map(_is_name, value))


def _are_versions(value: object) -> bool:
    return isinstance(value, Mapping) and all(type(version) is int for version in value.values())


def _is_one_of(kind: type[enum.IntEnum], value: object) -> bool:
    try:
        kind(int(value))  # type: ignore[call-overload]
    except (TypeError, ValueError):
        return False
    return True


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_truth(value: object) -> bool:
    return isinstance(value, int | np.bool_)


# Any text counts as true in Python, "no" as well: it is refused, where a number is taken as it is.
_SWITCHES = (
    "export_params",
    "verbose",
    "keep_initializers_as_inputs",
    "dynamo",
    "external_data",
    "report",
    "optimize",
    "verify",
    "profile",
    "dump_exported_program",
    "fallback",
    "do_constant_folding",
    "autograd_inlining",
    "fold_batch_norm",
)

# What an argument must be unless it is None, where None says something, and how it is written.
_FORMS: Mapping[str, tuple[Callable[[object], bool], str]] = {
    "args": (
        lambda value: not isinstance(value, str | os.PathLike),
        "the example inputs, as in (x,), and the file after them",
    ),
    "kwargs": (_by_name, 'a dict from parameter to value, as in {"mask": mask}'),
    "input_names": (_are_names, 'a list of names, as in ["x", "mask"]'),
    "output_names": (_are_names, 'a list of names, as in ["scores"]'),
    "dynamic_axes": (_by_name, 'a dict by input name, as in {"x": {0: "batch"}}'),
    "custom_translation_table": (
        lambda value: isinstance(value, Mapping),
        "a dict from operator to translation, as in {torch.ops.mylib.op: translation}",
    ),
    "artifacts_dir": (lambda value: isinstance(value, str | os.PathLike), 'the path of a folder, as in "reports"'),
    "training": (partial(_is_one_of, TrainingMode), "one of TrainingMode: EVAL, PRESERVE or TRAINING"),
    "operator_export_type": (
        partial(_is_one_of, OperatorExportTypes),
        "one of OperatorExportTypes, such as ONNX",
    ),
    "branch_limit": (_is_count, "how many ways through the model are captured at most, from 1 on"),
    "custom_opsets": (_are_versions, 'a dict from domain to version, as in {"mylib": 1}'),
    **dict.fromkeys(_SWITCHES, (_is_truth, "True or False")),
}


def check_forms(given: Mapping[str, object]) -> None:
    """Refuse arguments that are not of the type they must be, all at once; names without a form are passed over.

    >>> from onnxport.arguments import check_forms
    >>> check_forms({"input_names": ["x"], "kwargs": None})
    >>> check_forms({"input_names": "x"})
    Traceback (most recent call last):
    ...
    onnxport.errors.ArgumentTypeError: `input_names` is 'x'; write a list of names, as in ["x", "mask"].
    """
    stated = [name for name in _FORMS if name in given and (given[name] is not None or name == "artifacts_dir")]
    wrong = [name for name in stated if not _FORMS[name][0](given[name])]
    problems = [Problem(f"`{name}` is {_shown(given[name])}; write {_FORMS[name][1]}.") for name in wrong]
    if len(problems) == 1:
        raise ArgumentTypeError.about(problems[0])
    if problems:
        raise ArgumentTypeError("Arguments of export are not what they must be:", problems)


def _shown(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"an object of type {type(value).__name__}"


def described(model: object, given: Description) -> Description:
    """Complete what was given by what the model says of itself, if it does and was given no inputs.

    By its methods, not by its class: modules written for torch.onnx's ExportableModule serve as well.
    """
    example = getattr(model, "example_arguments", None)
    no_inputs = isinstance(given.args, tuple | list) and not given.args and not given.kwargs
    if not (isinstance(model, torch.nn.Module) and callable(example) and no_inputs):
        return given
    args, kwargs = example()

    def or_own(value: object, method: str) -> Any:
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
