"""The keywords of ``export`` with their types: what it returns depends on two arguments, and these are the others."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypedDict

import torch


class Options(TypedDict, total=False):
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
    custom_translation_table: Mapping[Any, Callable[..., Any] | Sequence[Callable[..., Any]]] | None
    report: bool
    optimize: bool
    verify: bool
    profile: bool
    dump_exported_program: bool
    artifacts_dir: str | os.PathLike[str]
    fallback: bool
    training: int
    operator_export_type: int
    do_constant_folding: bool
    custom_opsets: Mapping[str, int] | None
    export_modules_as_functions: bool | Collection[type[torch.nn.Module]]
    autograd_inlining: bool
    ir_version: int | None
    example_outputs: Any
