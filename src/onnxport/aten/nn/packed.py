"""Packed sequences: the elements of sequences step by step, those of the longest sequence first at each step.

ONNX has no such layout; its recurrent operators take padded sequences and their lengths. So packed rows remember the
padded tensor that they were taken from, and what only packs, computes with layers and pads again never has
the rows in the file. Whatever else looks at the rows gets them, and rows that something was done with are put back
to their places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from onnxport.translate import Builder, Int, Number, Tensor, translates
from onnxport.translate.regions import inside


@dataclass(frozen=True)
class Packing:
    """How sequences are packed: their lengths, and which of the [steps, batch] places are theirs."""

    lengths: Tensor
    places: Tensor
    #: Whether there are just as many steps as the longest sequence has.
    exact: bool


@dataclass(frozen=True)
class PackedRows:
    """Where packed rows come from: [steps, batch, …], of which the places of a packing were taken."""

    packing: Packing
    padded: Tensor


def within_lengths(op: Builder, lengths: Tensor, steps: Int) -> Tensor:
    """Which of the [steps, batch] places belong to a sequence."""
    zero, one = op.scalar(0, torch.int64), op.scalar(1, torch.int64)
    times = op.unsqueeze(op.Range(zero, op.scalar(steps, torch.int64), one).with_shape([steps]), [1])
    return op.Less(times, op.unsqueeze(op.cast(lengths, torch.int64), [0]))


def packing_of(op: Builder, batch_sizes: Tensor, batch: Int) -> Packing:
    """The packing that batch sizes stand for: remembered, or counted from how many sequences there are at each step."""
    known = op.recall(batch_sizes)
    if isinstance(known, Packing):
        return Packing(inside(op, known.lengths), inside(op, known.places), known.exact)
    zero, one = op.scalar(0, torch.int64), op.scalar(1, torch.int64)
    sequences = op.Range(zero, op.scalar(batch, torch.int64), one).with_shape([batch])
    places = op.Less(sequences, op.unsqueeze(batch_sizes, [1])).with_shape([batch_sizes.shape[0], batch])
    lengths = op.ReduceSum(op.cast(places, torch.int64), [0], keepdims=0).with_shape([batch])
    return Packing(lengths, places, exact=True)


def packed_rows(op: Builder, padded: Tensor, packing: Packing) -> Tensor:
    """The rows of [steps, batch, …] at the places of a packing."""
    rows = op.Reshape(padded, [-1, *padded.shape[2:]])
    packed = op.Compress(rows, op.Reshape(packing.places, [-1]), axis=0)
    op.remember(packed, PackedRows(packing, padded))
    return packed


def padded_rows(op: Builder, data: Tensor, packing: Packing) -> Tensor:
    """[steps, batch, …] from packed rows; places that are not taken hold anything."""
    known = op.recall(data)
    if isinstance(known, PackedRows) and known.packing.lengths.value is packing.lengths.value:
        return inside(op, known.padded)
    places = packing.places
    counted = op.CumSum(op.cast(op.Reshape(places, [-1]), torch.int64), op.scalar(0, torch.int64))
    rows = op.Max(counted - 1, op.scalar(0, torch.int64))
    numbers = op.Reshape(rows, op.shape(places)).with_shape(places.shape)
    return op.Gather(data, numbers, axis=0).with_shape([*places.shape, *data.shape[1:]])


@translates("aten::_pack_padded_sequence", "onnxport::pack_padded_sequence")
def pack_padded_sequence(op: Builder, input: Tensor, lengths: Tensor, batch_first: bool) -> Sequence[Tensor]:
    padded = op.transpose(input, [1, 0, *range(2, input.rank)]) if batch_first else input
    lengths = op.cast(lengths, torch.int64)
    packing = Packing(lengths, within_lengths(op, lengths, padded.shape[0]).with_shape(padded.shape[:2]), exact=False)
    sizes = op.ReduceSum(op.cast(packing.places, torch.int64), [1], keepdims=0)
    batch_sizes = op.Slice(sizes, [0], _longest(op, packing), [0])
    op.remember(batch_sizes, packing)
    return packed_rows(op, padded, packing), batch_sizes


def _longest(op: Builder, packing: Packing) -> Tensor:
    return op.ReduceMax(packing.lengths, [0], keepdims=1)


@translates("onnxport::pad_packed_sequence")
def pad_packed_sequence(
    op: Builder,
    data: Tensor,
    batch_sizes: Tensor,
    batch: Int,
    batch_first: bool,
    padding_value: Number,
    total_length: Int | None,
) -> Sequence[Tensor]:
    packing = packing_of(op, batch_sizes, batch)
    x = padded_rows(op, data, packing)
    rank, steps = x.rank, x.shape[0]
    padding = op.scalar(padding_value, data.dtype)
    x = op.Where(op.unsqueeze(packing.places, list(range(2, rank))), x, padding)
    if total_length is None:
        x = x if packing.exact else op.Slice(x, [0], _longest(op, packing), [0])
    elif total_length != steps:
        x = _extended(op, x, [0, total_length - steps], padding)
    if batch_first:
        x = op.Transpose(x, perm=[1, 0, *range(2, rank)])
    return x, packing.lengths


@translates("aten::_pad_packed_sequence")
def aten_pad_packed_sequence(
    op: Builder, data: Tensor, batch_sizes: Tensor, batch_first: bool, padding_value: Number, total_length: int
) -> Sequence[Tensor]:
    batch = op.result_shapes()[1][0]
    total = total_length if total_length > 0 else None
    return pad_packed_sequence(op, data, batch_sizes, batch, batch_first, padding_value, total)


@translates("aten::pad_sequence")
def pad_sequence(
    op: Builder, sequences: Sequence[Tensor], batch_first: bool, padding_value: float, padding_side: str
) -> Tensor:
    axis = 0 if batch_first else 1
    longest = op.result_shapes()[0][1 - axis]
    dtype = sequences[0].dtype
    rows = []
    for sequence in sequences:
        missing = longest - sequence.shape[0]
        sides = [0, missing] if padding_side == "right" else [missing, 0]
        rows.append(_extended(op, op.cast(sequence, dtype), sides, op.scalar(padding_value, dtype)))
    return op.Concat(*(op.unsqueeze(row, [axis]) for row in rows), axis=axis)


def _extended(op: Builder, x: Tensor, sides: Sequence[Int], padding: Tensor) -> Tensor:
    """More places before and after the first axis."""
    if all(isinstance(amount, int) and amount == 0 for amount in sides):
        return x
    behind = [0] * (x.rank - 1)
    longer = op.Pad(x, op.ints([sides[0], *behind, sides[1], *behind]), padding)
    return longer.with_shape([x.shape[0] + sides[0] + sides[1], *x.shape[1:]])
