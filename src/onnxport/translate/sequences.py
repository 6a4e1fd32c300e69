"""Lists of tensors whose length only run time knows: ONNX sequences; tensors that may be None: ONNX's optional values.

The operators are those of a TorchScript replay; a tensor that is a sequence is told by the type of its value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir
import torch

from onnxport.translate.builder import Builder
from onnxport.translate.dims import Int
from onnxport.translate.loop import emit_loop
from onnxport.translate.regions import inside, region
from onnxport.translate.registry import translates
from onnxport.translate.tensor import FreeRankType, Tensor
from onnxport.weights.dtypes import from_torch_dtype


def _emit(op: Builder, op_type: str, of: torch.dtype, *inputs: Tensor | None, **attributes: Any) -> Tensor:
    """A node whose result is a sequence."""
    result = op.multi(op_type, *inputs, outputs=1, out_dtype=of, **attributes)[0]
    result.value.type = ir.SequenceType(ir.TensorType(from_torch_dtype(of)))
    return result


@translates("onnxport::sequence_empty")
def sequence_empty(op: Builder, dtype: torch.dtype) -> Tensor:
    """No items."""
    return _emit(op, "SequenceEmpty", dtype, dtype=dtype)


@translates("onnxport::sequence_construct")
def sequence_construct(op: Builder, items: Sequence[Tensor]) -> Tensor:
    """Items whose number is known."""
    result = _emit(op, "SequenceConstruct", items[0].dtype, *items)
    result.value.shape = _common_shape([item.value.shape for item in items])
    return result


def _common_shape(shapes: Sequence[ir.Shape | None]) -> ir.Shape | None:
    """What all shapes say; None if not even the number of axes is the same."""
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes) or len({len(shape) for shape in known}) > 1:
        return None
    return ir.Shape([sizes[0] if len(set(sizes)) == 1 else None for sizes in zip(*known, strict=True)])


@translates("onnxport::sequence_unbind")
def sequence_unbind(op: Builder, x: Tensor) -> Tensor:
    """The slices of a tensor along its first axis."""
    return _emit(op, "SplitToSequence", x.dtype, x, axis=0, keepdims=0)


@translates("onnxport::sequence_split")
def sequence_split(op: Builder, x: Tensor, size: Int, axis: int) -> Tensor:
    """Pieces of one size along an axis; the last may be smaller."""
    return _emit(op, "SplitToSequence", x.dtype, x, op.scalar(size, torch.int64), axis=axis)


@translates("onnxport::sequence_insert")
def sequence_insert(op: Builder, sequence: Tensor, item: Tensor, position: Int | None) -> Tensor:
    """One more item, at the end or before another."""
    place = None if position is None else op.scalar(position, torch.int64)
    return _emit(op, "SequenceInsert", sequence.dtype, sequence, item, place)


@translates("onnxport::sequence_erase")
def sequence_erase(op: Builder, sequence: Tensor, position: Int) -> Tensor:
    """One item less."""
    return _emit(op, "SequenceErase", sequence.dtype, sequence, op.scalar(position, torch.int64))


@translates("onnxport::sequence_at")
def sequence_at(op: Builder, sequence: Tensor, position: Int, sizes: Sequence[Int]) -> Tensor:
    """One of the items; what is known of its sizes is in the shape that torch gives it."""
    return op.SequenceAt(sequence, op.scalar(position, torch.int64), out_dtype=sequence.dtype)


@translates("onnxport::sequence_length")
def sequence_length(op: Builder, sequence: Tensor) -> Tensor:
    """The number of items."""
    return op.SequenceLength(sequence).with_shape([])


@translates("onnxport::sequence_join")
def sequence_join(op: Builder, sequence: Tensor, axis: int, new_axis: bool, sizes: Sequence[Int]) -> Tensor:
    """The items one after another along an axis of theirs, or along a new one."""
    return op.ConcatFromSequence(sequence, axis=axis, new_axis=1 if new_axis else None, out_dtype=sequence.dtype)


@translates("onnxport::sequence_take")
def sequence_take(op: Builder, sequence: Tensor, positions: Tensor) -> Tensor:
    """A loop over the positions that starts from nothing."""
    start = sequence_empty(op, sequence.dtype)
    return _filled(op, start, sequence, positions.shape[0], positions)


@translates("onnxport::sequence_extend")
def sequence_extend(op: Builder, sequence: Tensor, other: Tensor) -> Tensor:
    """A loop over the second sequence that starts from the first: ONNX has no operator that joins two."""
    return _filled(op, sequence, other, sequence_length(op, other), None)


def _filled(op: Builder, start: Tensor, source: Tensor, count: Int | Tensor, positions: Tensor | None) -> Tensor:
    def body(inner: Builder, iteration: Tensor, state: Sequence[Tensor]) -> list[Tensor]:
        place = iteration
        if positions is not None:
            place = inner.Gather(inside(inner, positions), iteration, axis=0)
        item = inner.SequenceAt(inside(inner, source), place, out_dtype=source.dtype)
        return [_emit(inner, "SequenceInsert", start.dtype, state[0], item)]

    return emit_loop(op, body, count, [start])[0]


@translates("onnxport::optional")
def optional(op: Builder, tensor: Tensor, is_there: Tensor) -> Tensor:
    """A branch whose one way gives an optional value with the tensor in it, and whose other gives one without."""
    held = ir.TensorType(from_torch_dtype(tensor.dtype))
    branches: dict[str, Any] = {}
    for attribute, content in (("then_branch", tensor), ("else_branch", None)):
        inner = op.subgraph()
        inputs = [] if content is None else [inside(inner, content)]
        kind = None if content is not None else ir.TypeAndShape(held, None)
        given = inner.multi("Optional", *inputs, outputs=1, out_dtype=tensor.dtype, type=kind)[0]
        given.value.type, given.value.shape = ir.OptionalType(held), tensor.value.shape
        branches[attribute] = region(inner, attribute, [], [given])
    result = op.multi("If", op.reshape(is_there, []), outputs=1, out_dtype=tensor.dtype, **branches)[0]
    result.value.type, result.value.shape = ir.OptionalType(held), tensor.value.shape
    return result


@translates("onnxport::of_any_rank")
def of_any_rank(op: Builder, tensor: Tensor) -> Tensor:
    """The tensor, of which from here on nobody knows how many axes it has."""
    value = op.Identity(tensor).value
    value.type, value.shape = FreeRankType(from_torch_dtype(tensor.dtype)), None
    return Tensor(op, value, tensor.dtype, None)


@translates("onnxport::of_any_size")
def of_any_size(op: Builder, handle: Tensor, sizes: Sequence[Int]) -> Tensor:
    """The tensor, of which it is known here how many axes it has."""
    value = op.Identity(handle).value
    value.type = ir.TensorType(from_torch_dtype(handle.dtype))
    return Tensor(op, value, handle.dtype, None)
