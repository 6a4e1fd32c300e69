"""What the library generates with nothing but a model, for files to be compared with."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from onnxport.capture.preserved import attributes_preserved
from onnxport.errors import InputError, Problem
from onnxport.pretrained.library import transformers
from onnxport.pretrained.model_inputs import required_besides

NEW_TOKENS = 20
_TIES = {torch.float16: 2e-2, torch.bfloat16: 1e-1}
_TIE = 1e-3
"""How far two logits may be apart, in parts of the largest, for either to be the likeliest when rounded otherwise."""


def generate_plainly(model: Any, inputs: Mapping[str, torch.Tensor], *, own_loop: bool = False, **settings: int) -> Any:
    """The likeliest tokens and their logits: no penalties, no forced tokens, no end, no settings of a folder.

    Args:
        model: The model.
        inputs: What it generates from.
        own_loop: Use the model's own ``generate``, which may call a model inside it.
        **settings: Settings of generation in the place of these.
    """
    library = transformers()
    plain = library.GenerationConfig(
        **{"pad_token_id": 0, "max_new_tokens": NEW_TOKENS, **settings},
        do_sample=False,
        use_cache=True,
        output_logits=True,
        return_dict_in_generate=True,
    )
    kept, model.generation_config = model.generation_config, plain
    try:
        # Some models keep what they have seen in their attributes, where the next prompt would find it.
        with torch.no_grad(), attributes_preserved(model):
            if own_loop or required_besides((), inspect.signature(model.forward).parameters):
                # Its loop calls a model inside it.
                return model.generate(**inputs, generation_config=plain)
            # Models of speech have a generate of their own around it, for long recordings and time stamps.
            return library.GenerationMixin.generate(model, **inputs)
    except Exception as error:
        raise InputError(
            f"{type(model).__name__} itself can't generate, so there is nothing to compare the folder with: its "
            f"generate raises {error!r}. To have the files all the same, export with verify=False (--no-verify)."
        ) from error
    finally:
        model.generation_config = kept


def token_differences(
    model: object,
    expected: Sequence[Sequence[int]],
    found: Sequence[Sequence[int]],
    logits: Sequence[torch.Tensor],
    batch: str,
) -> list[Problem]:
    """Where tokens of a folder are others than the library's, but for logits that are nearly equal.

    Args:
        model: The model.
        expected: The library's tokens of each row.
        found: The folder's.
        logits: What the library chose from, by step and row.
        batch: What the rows are, in words.
    """
    problems = []
    for row, (wanted, actual) in enumerate(zip(expected, found, strict=True)):
        at = next((i for i, pair in enumerate(zip(wanted, actual, strict=True)) if pair[0] != pair[1]), None)
        if at is None or is_tie(model, logits[at][row], wanted[at], actual[at]):
            continue
        what = (
            f"Greedy tokens for row {row} of {batch} differ from the {at + 1}th on: {actual[at:]}, not {wanted[at:]}."
        )
        problems.append(Problem(what))
    return problems


def is_tie(model: Any, logits: torch.Tensor, one: int, other: int) -> bool:
    """Whether either of two tokens may be the likeliest, by how numbers of the model's type are rounded."""
    return bool((logits[one] - logits[other]).abs() <= tie_width(model) * logits.abs().max())


def tie_width(model: Any) -> float:
    """How far two logits may be apart that are equal but for rounding, in parts of the largest."""
    return _TIES.get(next(model.parameters()).dtype, _TIE)
