"""The files of a folder, open: what is run before the decoder, and what the decoder begins with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import torch

from onnxport.errors import InputError
from onnxport.generation.decoder_model import DecoderModel
from onnxport.generation.runs import as_taken, groups_of, run_file
from onnxport.generation.starts import Start
from onnxport.program.runtime import Initializer
from onnxport.provenance import HEARD_WHOLE

if TYPE_CHECKING:
    import onnxruntime

Rows: TypeAlias = Sequence[Sequence[int]]
"""Tokens of each row of a batch."""

Tensors: TypeAlias = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Beginning:
    """What a decoder begins with: its first tokens, which of them are no padding, and what it is given besides.

    ``read`` are the tokens that an encoder has read, if it reads any.
    """

    tokens: torch.Tensor
    mask: torch.Tensor
    given: Tensors = field(default_factory=dict)
    read: torch.Tensor | None = None


class Files(ABC):
    """The files of a folder that generates."""

    def __init__(self, decoder: DecoderModel) -> None:
        self.decoder = decoder

    @abstractmethod
    def begin(self, prompts: Rows, inputs: Tensors, start: Start, padding: int) -> Beginning:
        """Run what comes before the decoder.

        Args:
            prompts: The tokens of each row.
            inputs: What the files take besides tokens.
            start: What a decoder behind an encoder starts with where there is no prompt.
            padding: The token to fill up shorter rows with.
        """


class DecoderAlone(Files):
    """A language model in one file, or with one more for the first call."""

    def begin(self, prompts: Rows, inputs: Tensors, start: Start, padding: int) -> Beginning:
        """The prompts, padded on the left."""
        return Beginning(*left_padded(_prompts(prompts), padding), inputs)


class FeaturesAndText(Files):
    """An encoder of images or sound, the embedding of tokens and features, and a decoder."""

    def __init__(self, decoder: DecoderModel, encoder: onnxruntime.InferenceSession) -> None:
        super().__init__(decoder)
        self.encoder = encoder

    def begin(self, prompts: Rows, inputs: Tensors, start: Start, padding: int) -> Beginning:
        """The prompts, padded on the left, and the features of all their images or recordings."""
        _check_heard(self.encoder, inputs)
        taken = [value.name for value in self.encoder.get_inputs()]
        others = {name: tensor for name, tensor in inputs.items() if name not in taken}
        tokens, mask = left_padded(_prompts(prompts), padding)
        if all(name in inputs for name in taken):
            (name, *_) = (value.name for value in self.encoder.get_outputs())
            others[name] = self.features(as_taken({name: inputs[name] for name in taken}, self.encoder))
        return Beginning(tokens, mask, others)

    def features(self, encoded: Tensors) -> torch.Tensor:
        """Rows of features of images or recordings, one by one where the file takes one."""
        groups = groups_of(encoded, self.encoder.get_inputs())
        return torch.cat([next(iter(run_file(self.encoder, group).values())) for group in groups])


class EncoderAndDecoder(Files):
    """An encoder, which also makes the keys and values that the decoder attends to, and a decoder."""

    def __init__(self, decoder: DecoderModel, encoder: onnxruntime.InferenceSession) -> None:
        super().__init__(decoder)
        self.encoder = encoder

    def begin(self, prompts: Rows, inputs: Tensors, start: Start, padding: int) -> Beginning:
        """The start token, or prompts that are no input of the encoder's, behind what the encoder reads."""
        _check_heard(self.encoder, inputs)
        taken = {value.name for value in self.encoder.get_inputs()}
        read = as_taken({name: tensor for name, tensor in inputs.items() if name in taken}, self.encoder)
        if "input_ids" in taken and "input_ids" not in read:
            tokens, mask = right_padded(_prompts(prompts), padding)
            read |= {name: value for name, value in (("input_ids", tokens), ("attention_mask", mask)) if name in taken}
            prompts = ()
        lacking = sorted(taken - set(read))
        if lacking:
            raise InputError(f"The encoder takes {', '.join(lacking)}: pass them as inputs=, by name.")
        batch = len(next(iter(read.values())))
        encoded = run_file(self.encoder, read)
        given = {name.replace("present.", "past_key_values.", 1): value for name, value in encoded.items()}
        if "attention_mask" in read:
            given["encoder_attention_mask"] = read["attention_mask"]
        first = _prompts(prompts) if prompts else self._started(start, batch, given)
        return Beginning(*left_padded(first, padding), given, read.get("input_ids"))

    def _started(self, start: Start, batch: int, given: Tensors) -> Rows:
        """The first tokens of each row; of those that are left open the decoder says which is the likeliest."""
        tokens = torch.tensor([start.tokens] * batch)
        if not start.choices:
            return tokens.tolist()
        decoding = self.decoder.start(batch, tokens.shape[1], given)
        scores = decoding.advance(tokens, torch.ones_like(tokens))[:, list(start.choices)]
        chosen = torch.tensor(start.choices)[scores.argmax(-1)]
        behind = torch.tensor(start.behind, dtype=torch.int64).expand(batch, -1)
        return torch.cat([tokens, chosen.unsqueeze(1), behind], dim=1).tolist()


def _check_heard(encoder: onnxruntime.InferenceSession, inputs: Tensors) -> None:
    """Refuse masks that leave something of a recording out, where the file hears all of it."""
    named = encoder.get_modelmeta().custom_metadata_map.get(HEARD_WHOLE, "")
    for name in named.split(","):
        if name in inputs and not bool(inputs[name].all()):
            raise InputError(f"The encoder hears all of a recording, and {name} leaves some of it out: cut it off.")


def open_files(folder: Path, initializer: Initializer) -> Files:
    """Open what is in a folder."""

    def opened(name: str) -> onnxruntime.InferenceSession:
        return initializer(str(folder / f"{name}.onnx"))

    there = {path.stem for path in folder.glob("*.onnx")}
    if {"encoder", "decoder"} <= there:
        return EncoderAndDecoder(DecoderModel(opened("decoder")), opened("encoder"))
    if {"prompt", "model"} <= there:
        return DecoderAlone(DecoderModel(opened("model"), prompt=opened("prompt")))
    for name in ("vision", "audio"):
        if {name, "embedding", "model"} <= there:
            return FeaturesAndText(DecoderModel(opened("model"), opened("embedding")), opened(name))
    if "model" in there:
        return DecoderAlone(DecoderModel(opened("model")))
    raise InputError(f"{folder} has no model.onnx; write one with onnxport.export_pretrained.")


def _prompts(rows: Rows) -> Rows:
    if not rows or not all(rows):
        raise InputError("Each prompt needs at least one token to go on from.")
    return rows


def left_padded(rows: Rows, padding: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of tokens as one tensor that ends where each row ends, and the mask of what is no padding.

    >>> from onnxport.generation.files import left_padded
    >>> [tensor.tolist() for tensor in left_padded([[5, 6, 7], [8]], 0)]
    [[[5, 6, 7], [0, 0, 8]], [[1, 1, 1], [0, 0, 1]]]
    """
    longest = max(map(len, rows))
    tokens = [[padding] * (longest - len(row)) + list(row) for row in rows]
    mask = [[0] * (longest - len(row)) + [1] * len(row) for row in rows]
    return torch.tensor(tokens), torch.tensor(mask)


def right_padded(rows: Rows, padding: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows of tokens as one tensor that begins where each row begins, and the mask of what is no padding.

    >>> from onnxport.generation.files import right_padded
    >>> [tensor.tolist() for tensor in right_padded([[5, 6, 7], [8]], 0)]
    [[[5, 6, 7], [8, 0, 0]], [[1, 1, 1], [1, 0, 0]]]
    """
    longest = max(map(len, rows))
    tokens = [list(row) + [padding] * (longest - len(row)) for row in rows]
    mask = [[1] * len(row) + [0] * (longest - len(row)) for row in rows]
    return torch.tensor(tokens), torch.tensor(mask)
