"""A decoder in onnxruntime: what its file takes and keeps, and one decoding of a batch.

States (``past_key_values.…``) are the outputs of the call before (``present.…``). They stay where onnxruntime put them
and are bound to the next call's inputs. Those that a file takes as buffers are as long from the start as they will be,
and each call writes to them in place. States that no call returns, such as the keys and values of an encoder's output,
are given at the start and stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from onnxport.errors import InputError
from onnxport.generation.runs import DTYPES, as_taken, groups_of, run_file
from onnxport.program.runtime import from_ort_value, to_ort_value
from onnxport.provenance import ANEW_FROM, CACHE_BUFFERS
from onnxport.weights.torch_tensor import TorchTensor

if TYPE_CHECKING:
    import onnxruntime

_PAST, _PRESENT = "past_key_values.", "present."
NEXT = "next."
"""What the file of the first call leaves to those after it has the name that they take, behind this."""
_NEW = "sequence"
"""The axis of new tokens: a mask over them alone is what models without a growing state take."""

_TOKENS = ("input_ids", "decoder_input_ids")
_TYPES = "token_types"
_KNOWN = (*_TOKENS, "inputs_embeds", "attention_mask", "position_ids", _TYPES, "encoder_attention_mask")


class DecoderModel:
    """The file: its inputs other than states, and its states.

    Args:
        session: The file of the decoder.
        embedding: The file that makes the decoder's ``inputs_embeds`` of tokens and features of images.
        prompt: The file that makes the first call, where that is another than those after it.
    """

    def __init__(
        self,
        session: onnxruntime.InferenceSession,
        embedding: onnxruntime.InferenceSession | None = None,
        prompt: onnxruntime.InferenceSession | None = None,
    ) -> None:
        self.session, self.embedding, self.prompt = session, embedding, prompt
        inputs = session.get_inputs()
        self.plain = {value.name: value for value in inputs if not value.name.startswith(_PAST)}
        self.outputs = [value.name for value in session.get_outputs()]
        states = {value.name: value for value in inputs if value.name.startswith(_PAST)}
        self.states = {name: value for name, value in states.items() if _present(name) in self.outputs}
        self.constant = [name for name in states if name not in self.states]
        metadata = session.get_modelmeta().custom_metadata_map
        self.buffers = frozenset(metadata.get(CACHE_BUFFERS, "").split())
        self.anew_from = int(metadata[ANEW_FROM]) if ANEW_FROM in metadata else None
        left = [] if prompt is None else [value.name.removeprefix(NEXT) for value in prompt.get_outputs()]
        unknown = [name for name in self.plain if name not in (*_KNOWN, *left)]
        if unknown or not any(name in self.plain for name in (*_TOKENS, "inputs_embeds")):
            raise InputError(
                f"A decoder takes {', '.join(_KNOWN)} and states; this file takes {', '.join(self.plain)}."
            )

    @property
    def vocabulary(self) -> int | None:
        """How many tokens have logits; None where the file leaves it open."""
        size = next(value.shape[-1] for value in self.session.get_outputs() if value.name == "logits")
        return size if isinstance(size, int) else None

    def start(self, batch: int, positions: int, given: Mapping[str, torch.Tensor] | None = None) -> Decoding:
        """Begin to decode a batch of that many rows and at most so many positions, with nothing seen.

        Args:
            batch: The number of rows.
            positions: The most positions that there will be.
            given: What stays as it is: constant states and ``encoder_attention_mask``; and what the prompt brings:
                ``image_features``, ``audio_features``, ``token_type_ids``, ``position_ids``.
        """
        return Decoding(self, batch, positions, {} if given is None else given)

    def empty_states(self, batch: int, positions: int) -> dict[str, onnxruntime.OrtValue]:
        """States of which nothing was seen: no positions, all of them in a buffer, zeros where a size is fixed."""
        made = {}
        for name, value in self.states.items():
            sizes = {"batch": batch, "past": positions if name in self.buffers else 0}
            shape = [size if isinstance(size, int) else sizes[size] for size in value.shape]
            made[name] = to_ort_value(TorchTensor(torch.zeros(shape, dtype=DTYPES[value.type])))
        return made


class Decoding:
    """One decoding: the states of a batch between its calls."""

    def __init__(self, model: DecoderModel, batch: int, positions: int, given: Mapping[str, torch.Tensor]) -> None:
        self._model, self._positions_at_most = model, positions
        self._states = {} if model.prompt is not None else model.empty_states(batch, positions)
        self._seen = torch.empty(batch, 0, dtype=torch.int64)
        lacking = [name for name in model.constant if name not in given]
        if lacking:
            raise InputError(f"The decoder is given nothing for {', '.join(lacking)}.")
        self._constant = {name: to_ort_value(TorchTensor(given[name].contiguous())) for name in model.constant}
        self._given = {name: tensor for name, tensor in given.items() if name not in model.constant}

    def advance(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Take new tokens in and return the logits of the last one.

        Args:
            tokens: The new tokens of each row.
            mask: 1 for each token so far that is no padding, the new ones included.
        """
        model = self._model
        if model.prompt is not None and not self._states:
            return self._read(model.prompt, tokens, mask)
        if not model.states or model.anew_from is not None:
            self._seen = torch.cat([self._seen, tokens], dim=1)
        if not model.states:
            # A file that keeps nothing is given everything again.
            tokens = self._seen
        elif model.anew_from is not None and mask.shape[1] - tokens.shape[1] < model.anew_from <= mask.shape[1]:
            tokens, self._states = self._seen, model.empty_states(len(tokens), self._positions_at_most)
        binding = model.session.io_binding()
        for name, tensor in self._plain(tokens, mask).items():
            binding.bind_ortvalue_input(name, to_ort_value(TorchTensor(tensor)))
        for name, value in (*self._states.items(), *self._constant.items()):
            binding.bind_ortvalue_input(name, value)
        for name in model.outputs:
            state = _PAST + name.removeprefix(_PRESENT)
            if state in model.buffers:
                binding.bind_ortvalue_output(name, self._states[state])
            else:
                binding.bind_output(name)
        model.session.run_with_iobinding(binding)
        found = dict(zip(model.outputs, binding.get_outputs(), strict=True))
        # Buffers stay the objects that they are, which own their memory.
        self._states |= {name: found[_present(name)] for name in self._states if name not in model.buffers}
        return from_ort_value(found["logits"])[:, -1]

    def _read(self, session: onnxruntime.InferenceSession, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The first call: its file takes all that belongs to the prompts, one by one where it takes one."""
        known = {"input_ids": tokens, "attention_mask": mask, "position_ids": self._positions(tokens, mask)}
        given = {**known, **self._given}
        taken = session.get_inputs()
        lacking = [value.name for value in taken if value.name not in given]
        if lacking:
            raise InputError(f"The prompt needs {', '.join(lacking)}: pass them as inputs=, by name.")
        inputs = as_taken({value.name: given[value.name] for value in taken}, session)
        groups = groups_of(inputs, taken)
        results = [run_file(session, group) for group in groups]
        found = {name: torch.cat([result[name] for result in results]) for name in results[0]}
        self._states = {name: to_ort_value(TorchTensor(found.pop(_present(name)))) for name in self._model.states}
        logits = found.pop("logits")[:, -1]
        self._given = {**self._given, **{name.removeprefix(NEXT): tensor for name, tensor in found.items()}}
        return logits

    def _plain(self, tokens: torch.Tensor, mask: torch.Tensor) -> dict[str, torch.Tensor]:
        wanted = self._model.plain
        given = {
            **dict.fromkeys(_TOKENS, tokens),
            "attention_mask": mask,
            "position_ids": self._positions(tokens, mask),
        }
        if "attention_mask" in wanted and wanted["attention_mask"].shape[1] == _NEW:
            given["attention_mask"] = mask[:, -tokens.shape[1] :]
        if "inputs_embeds" in wanted:
            given |= self._embedded(tokens, mask)
        given |= {name: self._given[name] for name in wanted if name not in given}
        return {name: given[name].to(DTYPES[value.type]).contiguous() for name, value in wanted.items()}

    def _positions(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Where the new tokens are: after those that are no padding, or after what the prompt says of its own.

        Files that take positions by time, height and width have a row for each, in which text counts alike.
        """
        taken = self._model.plain.get("position_ids")
        rows = int(taken.shape[0]) if taken is not None and len(taken.shape) > 2 else 0
        stated = self._given.get("position_ids")
        if stated is None:
            counted = (mask.cumsum(1) - 1).clamp(min=0)[:, -tokens.shape[1] :]
            return counted.expand(rows, -1, -1) if rows else counted
        if rows and stated.dim() > 2:
            # The library's loop has one more before them, which counts tokens.
            stated = stated[-rows:]
        behind = mask.shape[1] - stated.shape[-1]
        if behind == 0:
            return stated
        return stated[..., -1:] + behind

    def _embedded(self, tokens: torch.Tensor, mask: torch.Tensor) -> dict[str, torch.Tensor]:
        """Embeddings of tokens, and their types; the prompt's have features in the places of their token."""
        embedding = self._model.embedding
        if embedding is None:
            raise InputError("The decoder takes inputs_embeds, and there is no file that makes them of tokens.")
        rows = next(value for value in embedding.get_inputs() if value.name != "input_ids")
        has_prompt = tokens.shape[1] == mask.shape[1]
        none = torch.zeros(0, int(rows.shape[1]))
        features = self._given.get(rows.name, none) if has_prompt else none
        feeds = {"input_ids": tokens.contiguous(), rows.name: features.to(DTYPES[rows.type]).contiguous()}
        values = {name: to_ort_value(TorchTensor(tensor)) for name, tensor in feeds.items()}
        names = [value.name for value in embedding.get_outputs()]
        results = embedding.run_with_ort_values(names, values)
        found = {name: from_ort_value(result) for name, result in zip(names, results, strict=True)}
        stated = self._given.get("token_type_ids")
        if has_prompt and stated is not None and _TYPES in found:
            found[_TYPES] = stated.unsqueeze(-1)
        return found


def _present(state: str) -> str:
    return _PRESENT + state.removeprefix(_PAST)
