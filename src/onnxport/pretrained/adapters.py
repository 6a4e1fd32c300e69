"""Adapters: small matrices beside the weights of a model (LoRA), kept in its file, merged, or left open as inputs."""

from __future__ import annotations

import copy
import importlib
import json
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal, TypeAlias

from onnxport.errors import InputError, with_article
from onnxport.program import ONNXProgram

AdapterUse: TypeAlias = Literal["keep", "merge", "inputs"]
"""What becomes of adapters: computed as the model does, added to the weights, or weights that a caller may replace."""

_ADAPTER = re.compile(r"(?:^|\.)lora_\w+(?:\.|$)")
"""Part of the name of a weight of an adapter, as peft calls its own."""


def adapted_checkpoint(directory: Path) -> str | None:
    """The checkpoint that an adapter in a directory was made for; None for a directory that holds no adapter alone."""
    settings = directory / "adapter_config.json"
    if not settings.is_file() or (directory / "config.json").is_file():
        return None
    base = json.loads(settings.read_text(encoding="utf-8")).get("base_model_name_or_path")
    if not base:
        raise InputError(f"{settings} names no base_model_name_or_path: say there which checkpoint the adapter is for.")
    beside = directory / base
    return str(beside) if beside.is_dir() else str(base)


def with_adapter(model: object, directory: Path) -> Any:
    """The model of peft that is this model and the adapter in a directory."""
    try:
        peft: Any = importlib.import_module("peft")
    except ImportError as error:
        raise InputError(f"{directory} holds an adapter, which needs peft ({error}): pip install peft.") from error
    return peft.PeftModel.from_pretrained(model, str(directory)).eval()


def without_wrapper(model: object, adapters: AdapterUse) -> Any:
    """The library's model within peft's, with its adapters in it, or a copy that they are merged into."""
    if adapters == "merge":
        if not hasattr(model, "merge_and_unload"):
            raise InputError(
                f'adapters="merge" asks peft to merge them, and {with_article(type(model).__name__)} '
                "is no model of peft. Pass the model that peft made, or merge its adapters before."
            )
        return copy.deepcopy(model).merge_and_unload()
    return model.get_base_model() if hasattr(model, "peft_config") and hasattr(model, "get_base_model") else model


def leave_open(programs: Iterable[ONNXProgram]) -> None:
    """Make the weights of adapters inputs too: what they are is the default, and a caller may give others."""
    found = 0
    for program in programs:
        graph = program.model.graph
        for name, value in graph.initializers.items():
            if _ADAPTER.search(name):
                graph.inputs.append(value)
                found += 1
    if not found:
        raise InputError('adapters="inputs" leaves weights open that are called lora_…, and the model has none.')
