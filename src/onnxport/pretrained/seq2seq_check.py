"""Whether encoder and decoder files generate what the library generates: greedy tokens, one input and a batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from onnxport.errors import Problem
from onnxport.pretrained.model_inputs import find_inputs
from onnxport.pretrained.parts import Tensors
from onnxport.pretrained.plain_generation import NEW_TOKENS, generate_plainly, is_tie
from onnxport.program.runtime import RuntimeSession, default_session


def check_seq2seq(model: Any, folder: Path) -> list[Problem]:
    """Where greedy tokens of the folder and of ``generate`` differ, but for logits that are nearly equal."""
    found = find_inputs(model, (model.main_input_name, "decoder_input_ids"))[0]
    example, others = found.sizes()
    problems = []
    for sizes in (example, *others):
        given = {name: tensor for name, tensor in found.made(sizes).items() if name != "decoder_input_ids"}
        expected, logits = _library_tokens(model, given)
        actual = folder_tokens(folder, given, expected[:, :1], NEW_TOKENS)
        for row, (wanted, tokens) in enumerate(zip(expected.tolist(), actual.tolist(), strict=True)):
            at = next((i for i, pair in enumerate(zip(wanted, tokens, strict=True)) if pair[0] != pair[1]), None)
            if at is not None and not is_tie(model, logits[at - 1][row], wanted[at], tokens[at]):
                what = f"Greedy tokens of row {row} of {sizes['batch']} differ from the {at}th on: "
                problems.append(Problem(f"{what}{tokens[at:]}, not {wanted[at:]}."))
    return problems


def folder_tokens(folder: Path, inputs: Tensors, start: torch.Tensor, steps: int) -> torch.Tensor:
    """The likeliest tokens, one after another, that the files of a folder give after the first."""
    encoder, decoder = (
        RuntimeSession(default_session(str(folder / f"{part}.onnx"))) for part in ("encoder", "decoder")
    )
    names = [value.name for value in encoder.session.get_outputs()]
    encoded = dict(zip(names, encoder.run(names, inputs), strict=True))
    state: Tensors = {}
    for value in decoder.session.get_inputs():
        source = value.name.replace("past_key_values", "present")
        if ".encoder." in value.name:
            state[value.name] = encoded[source]
        elif ".decoder." in value.name:
            state[value.name] = torch.zeros(len(start), value.shape[1], 0, value.shape[3])
        elif value.name == "encoder_attention_mask":
            state[value.name] = inputs["attention_mask"]
    results = [value.name for value in decoder.session.get_outputs()]
    tokens = start
    for _ in range(steps):
        outputs = dict(zip(results, decoder.run(results, {"decoder_input_ids": tokens[:, -1:], **state}), strict=True))
        state |= {name.replace("present", "past_key_values"): outputs[name] for name in results if name != "logits"}
        tokens = torch.cat([tokens, outputs["logits"][:, -1:].argmax(-1)], dim=1)
    return tokens


def _library_tokens(model: Any, inputs: Tensors) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
    stated = [getattr(one, "decoder_start_token_id", None) for one in (model.config, model.generation_config)]
    start = next((token for token in stated if token is not None), 0)
    result = generate_plainly(model, inputs, decoder_start_token_id=start)
    return result.sequences, result.logits
