"""A decoder in onnxruntime: what its file takes and keeps, and one decoding of a batch.

States (``past_key_values.…``) are the outputs of the call before (``present.…``). They stay where onnxruntime put them
and are bound to the next call's inputs. Those that a file takes as buffers are as long from the start as they will be,
and each call writes to them in place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from onnxport.errors import InputError
from onnxport.program.runtime import from_ort_value, to_ort_value
from onnxport.provenance import CACHE_BUFFERS
from onnxport.weights.torch_tensor import TorchTensor

if TYPE_CHECKING:
    import onnxruntime

_PAST, _PRESENT = "past_key_values.", "present."
_NEW = "sequence"
"""The axis of new tokens: a mask over them alone is what models without a growing state take."""

_KNOWN = ("input_ids", "attention_mask", "position_ids")
_DTYPES = {
    "tensor(float)": torch.float32,
    "tensor(float16)": torch.float16,
    "tensor(bfloat16)": torch.bfloat16,
    "tensor(double)": torch.float64,
    "tensor(int64)": torch.int64,
    "tensor(int32)": torch.int32,
    "tensor(bool)": torch.bool,
}


class DecoderModel:
    """The file: its inputs other than states, and its states."""

    def __init__(self, session: onnxruntime.InferenceSession) -> None:
        self.session = session
        inputs = session.get_inputs()
        self.plain = {value.name: value for value in inputs if not value.name.startswith(_PAST)}
        self.states = {value.name: value for value in inputs if value.name.startswith(_PAST)}
        self.outputs = [value.name for value in session.get_outputs()]
        self.buffers = frozenset(session.get_modelmeta().custom_metadata_map.get(CACHE_BUFFERS, "").split())
        unknown = [name for name in self.plain if name not in _KNOWN]
        if unknown or "input_ids" not in self.plain:
            raise InputError(
                f"A decoder takes {', '.join(_KNOWN)} and states; this file takes {', '.join(self.plain)}."
            )

    def start(self, batch: int, positions: int) -> Decoding:
        """Begin to decode a batch of that many rows and at most so many positions, with nothing seen."""
        return Decoding(self, batch, positions)

    def empty_states(self, batch: int, positions: int) -> dict[str, onnxruntime.OrtValue]:
        """States of which nothing was seen: no positions, all of them in a buffer, zeros where a size is fixed."""
        made = {}
        for name, value in self.states.items():
            sizes = {"batch": batch, "past": positions if name in self.buffers else 0}
            shape = [size if isinstance(size, int) else sizes[size] for size in value.shape]
            made[name] = to_ort_value(TorchTensor(torch.zeros(shape, dtype=_DTYPES[value.type])))
        return made


class Decoding:
    """One decoding: the states of a batch between its calls."""

    def __init__(self, model: DecoderModel, batch: int, positions: int) -> None:
        self._model = model
        self._states = model.empty_states(batch, positions)
        self._seen = torch.empty(batch, 0, dtype=torch.int64)

    def advance(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Take new tokens in and return the logits of the last one.

        Args:
            tokens: The new tokens of each row.
            mask: 1 for each token so far that is no padding, the new ones included.
        """
        model = self._model
        if not model.states:
            # A file that keeps nothing is given everything again.
            tokens = self._seen = torch.cat([self._seen, tokens], dim=1)
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        new = tokens.shape[1]
        binding = model.session.io_binding()
        for name, tensor in self._plain(tokens, mask, positions[:, -new:]).items():
            binding.bind_ortvalue_input(name, to_ort_value(TorchTensor(tensor)))
        for name, value in self._states.items():
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
        self._states |= {
            name: found[_PRESENT + name.removeprefix(_PAST)] for name in self._states if name not in model.buffers
        }
        return from_ort_value(found["logits"])[:, -1]

    def _plain(self, tokens: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor) -> dict[str, torch.Tensor]:
        if "attention_mask" in self._model.plain and self._model.plain["attention_mask"].shape[1] == _NEW:
            mask = mask[:, -tokens.shape[1] :]
        given = {"input_ids": tokens, "attention_mask": mask, "position_ids": positions}
        return {name: given[name].to(_DTYPES[value.type]).contiguous() for name, value in self._model.plain.items()}
