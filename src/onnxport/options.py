"""What an export is asked for: the keywords of ``export`` with their types, and the options that its stages read."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypedDict, cast, get_args

import torch

from onnxport.errors import InputError
from onnxport.export_types import OperatorExportTypes, TrainingMode
from onnxport.onnx_build.opsets import DEFAULT_OPSET
from onnxport.quantize import Quantization
from onnxport.targets import PROFILES, Target
from onnxport.weights.metadata import Metadata

Table: TypeAlias = "Mapping[Any, Callable[..., Any] | Sequence[Callable[..., Any]]]"
Branches = Literal["export", "follow", "refuse"]
BRANCH_LIMIT = 32
"""Each way through a model costs a capture, and the ifs of an ONNX graph are as many."""

Modules: TypeAlias = "bool | Collection[type[torch.nn.Module]]"


@dataclass(frozen=True)
class Options:
    """How a captured model becomes an ONNX model. Built and checked once, then handed down.

    Attributes:
        opset: The opset of the file.
        ir_version: The version of the file format; None for the one that goes with the opset.
        optimize: Whether the graph is cleaned up.
        fold_batch_norm: Whether layers take up the batch normalisation behind them when a file is written.
        functions: The module classes whose calls become functions; True for all, False for none.
        translations: The user's translations, by operator.
        custom_opsets: Versions of the user's domains.
        operator_export_type: What becomes of operators without a translation.
        inlines_autograd: Whether autograd functions that nobody writes are looked into.
        training: The mode that the model is exported in.
        target: The reader that the file is written for.
        metadata: How much files say of where nodes come from.
        follows_example: Whether a model that is not as general as was declared is captured all the same. Tracing comes
            next where running the code fails, and an axis that the model forces is fixed with a warning.
        branches: What becomes of branches that Python code takes by sizes or data.
        branch_limit: How many ways through the model such branches may lead to.
        quantize: How weights are quantized, if they are.
    """

    opset: int = DEFAULT_OPSET
    ir_version: int | None = None
    optimize: bool = True
    fold_batch_norm: bool = True
    functions: Modules = False
    translations: Table | None = None
    custom_opsets: Mapping[str, int] | None = None
    operator_export_type: int = OperatorExportTypes.ONNX
    inlines_autograd: bool = True
    training: TrainingMode = TrainingMode.EVAL
    target: Target = PROFILES["onnx"]
    metadata: Metadata = "full"
    follows_example: bool = False
    branches: Branches = "export"
    branch_limit: int = BRANCH_LIMIT
    quantize: Quantization | None = None


def check_branches(branches: str) -> Branches:
    """Return what was asked for branches, or raise.

    >>> check_branches("follow")
    'follow'
    """
    if branches not in get_args(Branches):
        known = ", ".join(map(repr, get_args(Branches)))
        raise InputError(f"`branches` is {branches!r}, but it is one of {known}.")
    return cast("Branches", branches)


class Keywords(TypedDict, total=False):
    """The keywords of ``export`` other than ``dynamo``; the function itself describes them."""

    kwargs: dict[str, Any] | None
    export_params: bool
    verbose: bool | None
    input_names: Sequence[str] | None
    output_names: Sequence[str] | None
    opset_version: int | None
    dynamic_axes: Mapping[str, Mapping[int, str] | Sequence[int]] | None
    keep_initializers_as_inputs: bool
    external_data: bool
    dynamic_shapes: dict[str, Any] | tuple[Any, ...] | list[Any] | None
    custom_translation_table: Table | None
    report: bool
    optimize: bool
    fold_batch_norm: bool
    verify: bool
    profile: bool
    dump_exported_program: bool
    artifacts_dir: str | os.PathLike[str]
    fallback: bool
    training: int
    operator_export_type: int
    do_constant_folding: bool
    custom_opsets: Mapping[str, int] | None
    export_modules_as_functions: Modules
    autograd_inlining: bool
    ir_version: int | None
    example_outputs: Any
    metadata: Metadata
    target: str | Target
    branches: Branches
    branch_limit: int | None
    quantize: str | Quantization | None
