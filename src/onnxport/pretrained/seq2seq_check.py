"""Whether encoder and decoder files generate what the library generates: greedy tokens, one input and a batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from onnxport.errors import Problem
from onnxport.generation import Session, TokenRules
from onnxport.generation.files import EncoderAndDecoder
from onnxport.generation.starts import Start
from onnxport.pretrained.model_inputs import find_inputs, main_input
from onnxport.pretrained.padding_masks import MASK, with_masks
from onnxport.pretrained.parts import Tensors
from onnxport.pretrained.plain_generation import NEW_TOKENS, generate_plainly, token_differences


def check_seq2seq(model: object, folder: Path) -> list[Problem]:
    """Where greedy tokens of the folder and of ``generate`` differ, but for logits that are nearly equal."""
    session = Session(folder)
    found = find_inputs(model, (main_input(model), "decoder_input_ids"))[0]
    files = session.files
    if isinstance(files, EncoderAndDecoder) and MASK in (value.name for value in files.encoder.get_inputs()):
        found = with_masks(model, [found])[0]
    example, others = found.sizes()
    problems, no_prompts = [], list[list[int]]()
    for sizes in (example, *others):
        given = {name: tensor for name, tensor in found.made(sizes).items() if name != "decoder_input_ids"}
        expected, logits = _library_tokens(model, given)
        session.begins = Start([int(expected[0, 0])])
        tokens = session.generate(no_prompts, NEW_TOKENS, eos_token_ids=(), rules=TokenRules(), inputs=given)
        problems += token_differences(model, expected[:, 1:].tolist(), tokens, logits, f"a batch of {sizes['batch']}")
    return problems


def _library_tokens(model: Any, inputs: Tensors) -> tuple[torch.Tensor, tuple[torch.Tensor, ...]]:
    stated = [getattr(one, "decoder_start_token_id", None) for one in (model.config, model.generation_config)]
    start = next((token for token in stated if token is not None), 0)
    result = generate_plainly(model, inputs, decoder_start_token_id=start)
    return result.sequences, result.logits
