"""One call of a file, with all that it is given or piece by piece."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import torch

from onnxport.program.runtime import RuntimeSession

if TYPE_CHECKING:
    import onnxruntime

Tensors: TypeAlias = Mapping[str, torch.Tensor]
DTYPES = {
    "tensor(float)": torch.float32,
    "tensor(float16)": torch.float16,
    "tensor(bfloat16)": torch.bfloat16,
    "tensor(double)": torch.float64,
    "tensor(int64)": torch.int64,
    "tensor(int32)": torch.int32,
    "tensor(bool)": torch.bool,
}
"""Element types by what onnxruntime calls them."""


def run_file(session: onnxruntime.InferenceSession, inputs: Tensors) -> dict[str, torch.Tensor]:
    """All outputs of a file that are tensors, by name."""
    names = [value.name for value in session.get_outputs()]
    found = dict(zip(names, RuntimeSession(session).run(names, inputs), strict=True))
    return {name: tensor for name, tensor in found.items() if isinstance(tensor, torch.Tensor)}


def as_taken(inputs: Tensors, session: onnxruntime.InferenceSession) -> dict[str, torch.Tensor]:
    """Inputs in the element types that a file takes: processors make masks and pixels of other ones."""
    types = {value.name: DTYPES[value.type] for value in session.get_inputs()}
    return {name: tensor.to(types[name]).contiguous() for name, tensor in inputs.items()}


def groups_of(inputs: Tensors, taken: Sequence[onnxruntime.NodeArg]) -> list[Tensors]:
    """What a file takes in each call: all at once, or one piece after another where it takes less along an axis."""
    pieces = {value.name: pieces_of(inputs[value.name], value.shape) for value in taken}
    if all(len(parts) == 1 for parts in pieces.values()):
        return [inputs]
    return [dict(zip(pieces, group, strict=True)) for group in zip(*pieces.values(), strict=True)]


def pieces_of(tensor: torch.Tensor, shape: Sequence[object]) -> list[torch.Tensor]:
    """What a file takes of a tensor at once, where it takes less along an axis of one size."""
    for axis, size in enumerate(shape):
        if isinstance(size, int) and size > 0 and tensor.shape[axis] != size and tensor.shape[axis] % size == 0:
            return list(tensor.split(size, axis))
    return [tensor]
