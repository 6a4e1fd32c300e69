"""Adapters: small matrices beside the weights of a model (LoRA), kept in its file, merged, or left open as inputs."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

from onnxport.errors import InputError, with_article
from onnxport.program import ONNXProgram

AdapterUse: TypeAlias = Literal["keep", "merge", "inputs"]
"""What becomes of adapters: computed as the model does, added to the weights, or weights that a caller may replace."""

_ADAPTER = re.compile(r"(?:^|\.)lora_\w+(?:\.|$)")
"""Part of the name of a weight of an adapter, as peft calls its own."""


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
