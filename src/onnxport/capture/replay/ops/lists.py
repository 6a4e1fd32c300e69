"""What TorchScript does with lists, those among them whose length only run time knows, and where such lists come from.

A list is a Python list throughout. What stands for as many items as run time will tell is one element of it, so that
appending, extending and joining lists need no care; reading does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from onnxport.capture.replay.interpreter import CopiedSlice, Handler, NodeCall, handles, result_of
from onnxport.capture.replay.ops.calls import call_operator
from onnxport.capture.replay.ops.language import is_of_type
from onnxport.capture.replay.ops.objects import sort_items
from onnxport.capture.replay.ops.tensors import with_masks
from onnxport.capture.replay.values.items import (
    Run,
    Size,
    has_run_time_length,
    have_one_shape,
    holds_numbers,
    item_at,
    item_count,
    item_tensor,
    join_items,
    numbers_in,
    take_items,
    with_item,
    without_item,
)
from onnxport.capture.replay.values.sequences import sequence_operator
from onnxport.capture.replay.values.stand_ins import (
    UNINITIALIZED,
    Growing,
    ItemType,
    Number,
    ReplayValue,
    Sequenced,
    Stacked,
    Truth,
    materialized,
    plain_number,
)
from onnxport.errors import CaptureError
from onnxport.torch_graph import Node, Value, inputs_of, outputs_of

Items = list[ReplayValue]
Maker = Callable[..., Run | None]


def _call_as_it_is(call: NodeCall, *values: ReplayValue) -> ReplayValue:
    call.trace()
    return call_operator(call.node, values)


def _handles_lists(*kinds: str, otherwise: Handler = _call_as_it_is) -> Callable[[Handler], Handler]:
    """Register what to do at a node that is given a list whose length only run time knows.

    ``otherwise`` is the handler for anything else: by default, the operator is called.
    """

    def register(function: Handler) -> Handler:
        @handles(*kinds)
        def handle(call: NodeCall, *values: ReplayValue) -> ReplayValue:
            if values and has_run_time_length(values[0]):
                call.trace()
                return function(call, *values)
            return otherwise(call, *values)

        return function

    return register


# --- reading ---------------------------------------------------------------------------------------------------------


def _known_length(call: NodeCall, items: torch.Tensor | Items) -> ReplayValue:
    return items.shape[0] if isinstance(items, torch.Tensor) else len(items)


@_handles_lists("aten::len", otherwise=_known_length)
def _len(call: NodeCall, items: Items) -> ReplayValue:
    return item_count(items)


def _join_known(call: NodeCall, items: Items, dim: ReplayValue = 0) -> ReplayValue:
    axis = plain_number(dim)
    call.trace()
    if call.node.kind() == "aten::stack":
        return torch.stack(materialized(items), axis)
    if len(items) == 2 and isinstance(items[0], Growing) and items[0].piece is None:
        return Growing(materialized(items[1]), axis)
    return torch.cat(materialized(items), axis)


@_handles_lists("aten::cat", "aten::concat", "aten::concatenate", "aten::stack", otherwise=_join_known)
def _join(call: NodeCall, items: Items, axis: ReplayValue = 0) -> torch.Tensor:
    return join_items(items, plain_number(axis), call.node.kind() == "aten::stack")


def _unpack_known(call: NodeCall, items: Sequence[ReplayValue]) -> ReplayValue:
    count = call.node.outputsSize()
    if len(items) != count:
        raise CaptureError(f"A list of {len(items)} items is unpacked into {count} variables.")
    return result_of(call.node, list(items))


@_handles_lists("prim::ListUnpack", otherwise=_unpack_known)
def _unpack(call: NodeCall, items: Items) -> ReplayValue:
    node, count = call.node, call.node.outputsSize()
    if all(_is_put_together(use.user, node) for output in outputs_of(node) for use in output.uses()):
        # A trace does so with what a script returned; the list that it makes of the items is the whole one.
        return result_of(node, [UNINITIALIZED] * count)
    torch._check(item_count(items) == count)
    return result_of(node, [item_at(items, position) for position in range(count)])


def _is_put_together(node: Node, unpacking: Node) -> bool:
    """Whether a node makes a list of all that another takes out of one."""
    return node.kind() == "prim::ListConstruct" and [value.unique() for value in inputs_of(node)] == [
        value.unique() for value in outputs_of(unpacking)
    ]


@handles("prim::ListConstruct")
def _list(call: NodeCall, *items: ReplayValue) -> Items:
    unpacking = call.node.inputsAt(0).node() if items else None
    if unpacking is not None and unpacking.kind() == "prim::ListUnpack" and _is_put_together(call.node, unpacking):
        source = call.env[unpacking.inputsAt(0).unique()]
        if has_run_time_length(source):
            return list(source)
    return list(items)


def _slice_known(call: NodeCall, items: Items | torch.Tensor, *bounds: ReplayValue) -> ReplayValue:
    """Of a tensor by a step that only run time knows: the slice of every one, and of that by positions."""
    if not isinstance(items, torch.Tensor) or len(bounds) != 4:
        return _call_as_it_is(call, items, *bounds)
    axis, start, end, step = (plain_number(bound) for bound in bounds)
    if not isinstance(step, torch.SymInt):
        return _call_as_it_is(call, items, *bounds)
    call.trace()
    every = torch.ops.aten.slice.Tensor(items, axis, start, end)
    torch._check(step >= 1)
    positions = torch.remainder(torch.arange(every.shape[axis]), step).eq(0).nonzero().squeeze(1)  # type: ignore[call-overload]
    copied = every.index_select(axis, positions)
    call.run.copies.append(CopiedSlice(every, axis, positions, copied))
    return copied


@_handles_lists("aten::slice", otherwise=_slice_known)
def _slice(call: NodeCall, items: Items, *bounds: ReplayValue) -> Items:
    start, end, step = (plain_number(bound) for bound in bounds)
    if start in (None, 0) and step == 1 and end is None:
        return list(items)
    if len(items) == 1 and isinstance(items[0], Stacked):
        return [replace(items[0], tensor=items[0].tensor[start:end:step])]
    return [take_items(items, _positions(items)[start:end:step])]


def _isinstance_known(call: NodeCall, value: ReplayValue) -> bool:
    return any(is_of_type(value, kind) for kind in call.node.tys("types"))


@_handles_lists("prim::isinstance", otherwise=_isinstance_known)
def _isinstance(call: NodeCall, items: Items) -> ReplayValue:
    """Told by the tensors that stand for the items."""
    shown = [item.tensor if isinstance(item, Stacked) else getattr(item, "handle", item) for item in items]
    return _isinstance_known(call, shown)


# --- writing ---------------------------------------------------------------------------------------------------------


@_handles_lists("aten::reverse")
def _reverse(call: NodeCall, items: Items) -> ReplayValue:
    items[:] = [_reversed(item) if isinstance(item, Stacked | Sequenced) else item for item in reversed(items)]
    return None


def _handles_writes(*kinds: str) -> Callable[[Handler], Handler]:
    """Register what to do where a list is changed at a place, if only run time knows its length or the place."""

    def register(function: Handler) -> Handler:
        def changed(call: NodeCall, items: ReplayValue, *values: ReplayValue) -> ReplayValue:
            if isinstance(items, list) and values and isinstance(plain_number(values[0]), torch.SymInt):
                return function(call, items, *values)
            return _call_as_it_is(call, items, *values)

        return _handles_lists(*kinds, otherwise=changed)(function)

    return register


def _reversed(run: Run) -> Run:
    if isinstance(run, Stacked):
        return replace(run, tensor=run.tensor.flip(0))
    return take_items([run], _positions([run]).flip(0))


def _positions(items: Items) -> torch.Tensor:
    return torch.arange(item_count(items))  # type: ignore[arg-type]


@_handles_writes("aten::pop")
def _pop(call: NodeCall, items: Items, position: ReplayValue = -1) -> ReplayValue:
    place = plain_number(position)
    item = item_at(items, place)
    _delete_at(items, place)
    return item


@_handles_writes("aten::Delete", "aten::__delitem__")
def _delete(call: NodeCall, items: Items, position: ReplayValue) -> ReplayValue:
    _delete_at(items, plain_number(position))
    return None


def _delete_at(items: Items, position: Size) -> None:
    if isinstance(position, int) and position == -1 and not isinstance(items[-1], Stacked | Sequenced):
        del items[-1]
    elif len(items) == 1 and isinstance(items[0], Stacked) and isinstance(position, int) and position in (0, -1):
        rows = items[0].tensor
        items[0] = replace(items[0], tensor=rows[1:] if position == 0 else rows[:-1])
    else:
        items[:] = [without_item(items, position)]


@_handles_writes("aten::insert")
def _insert(call: NodeCall, items: Items, position: ReplayValue, item: ReplayValue) -> ReplayValue:
    place = plain_number(position)
    if isinstance(place, int) and place == 0:
        items.insert(0, item)
    else:
        items[:] = [with_item(items, place, item)]
    return None


@_handles_writes("aten::_set_item")
def _set_item(call: NodeCall, items: Items, position: ReplayValue, item: ReplayValue) -> Items:
    place = plain_number(position)
    if isinstance(place, torch.SymInt):
        place = place % item_count(items)
    if not has_run_time_length(items) and have_one_shape([*items, item]):
        here = Number.of(place).tensor()
        items[:] = [torch.where(here == n, item, other) for n, other in enumerate(items)]  # type: ignore[call-overload]
        return items
    longer = with_item(items, place, item)
    # The item that was there is behind the new one.
    before = isinstance(place, int) and place < 0
    items[:] = [without_item([longer], place if before else place + 1)]
    return items


# --- what ONNX can't tell --------------------------------------------------------------------------------------------


def _refuse(call: NodeCall, *values: ReplayValue) -> ReplayValue:
    raise CaptureError(
        f"{call.node.kind()} is called on a list whose length only run time knows, and ONNX can't tell its result. "
        "Work on the tensors of the list, or stack them."
    )


_REFUSED = "count remove mul mul_ eq ne any all hash str format join"
_handles_lists(*(f"aten::{name}" for name in _REFUSED.split()))(_refuse)
_handles_lists("aten::index", otherwise=with_masks)(_refuse)


# --- what tensors tell of lists of numbers ---------------------------------------------------------------------------


@_handles_lists("aten::sort", "aten::sorted", otherwise=sort_items)
def _sort(call: NodeCall, items: Items, reverse: ReplayValue = False) -> ReplayValue:
    """Of numbers, or of tensors of one element each."""
    numbers = numbers_in(items) if holds_numbers(items) else join_items(items, 0, new_axis=True)
    if numbers.dim() != 1:
        return _refuse(call, items)
    ordered = Stacked(numbers.sort(descending=bool(reverse))[0], holds_numbers(items))
    if call.node.kind() == "aten::sorted":
        return [ordered]
    items[:] = [ordered]
    return None


@_handles_lists("aten::sum", "prim::min", "prim::max")
def _reduce(call: NodeCall, items: Items) -> ReplayValue:
    if not holds_numbers(items):
        return _refuse(call, items)
    reduced: torch.Tensor = getattr(numbers_in(items), call.node.kind().partition("::")[2])()
    return plain_number(reduced)


@_handles_lists("aten::__contains__")
def _contains(call: NodeCall, items: Items, wanted: ReplayValue) -> ReplayValue:
    if not holds_numbers(items):
        return _refuse(call, items)
    return Truth((numbers_in(items) == item_tensor(wanted)).any())


@handles("prim::tolist")
def _tolist(call: NodeCall, x: torch.Tensor, axes: int, kind: ReplayValue) -> ReplayValue:
    """The numbers of a tensor; how many there are, only run time may know."""
    call.trace()
    return _numbers_of(materialized(x))


def _numbers_of(x: torch.Tensor) -> ReplayValue:
    if x.dim() == 0:
        return Truth(x) if x.dtype == torch.bool else x.item()
    if isinstance(x.shape[0], int):
        return [_numbers_of(row) for row in x.unbind(0)]
    if x.dim() > 1:
        raise CaptureError(
            f"tolist() of a tensor with {x.dim()} axes, of which the first varies, gives lists in a list whose length "
            "only run time knows; ONNX has none. Work on the tensor, or flatten it first."
        )
    return [Stacked(x, is_number=True)]


# --- lists of run-time length that operators make --------------------------------------------------------------------


def _makes_lists(*kinds: str) -> Callable[[Maker], Maker]:
    """Register what makes a list from a tensor; a function that returns None leaves it to torch."""

    def register(function: Maker) -> Maker:
        @handles(*kinds)
        def handle(call: NodeCall, *values: ReplayValue) -> ReplayValue:
            if isinstance(values[0], torch.Tensor) and not _is_taken_apart(call.node):
                call.trace()
                items = function(*values)
                if items is not None:
                    return [items]
            return _call_as_it_is(call, *values)

        return function

    return register


def _is_taken_apart(node: Node) -> bool:
    """Whether only items at fixed places are read, so that the script itself says how many there are."""
    # Of chunks there are as many as are asked for, unless there is too little to share.
    counted = node.kind().endswith("chunk")
    return all(
        use.user.kind() == "prim::ListUnpack"
        or (counted and use.user.kind() == "aten::__getitem__" and _is_constant(use.user.inputsAt(1)))
        for use in node.output().uses()
    )


def _is_constant(value: Value) -> bool:
    return value.node().kind() == "prim::Constant"


@_makes_lists("aten::unbind")
def _unbind(x: torch.Tensor, dim: ReplayValue = 0) -> Stacked | None:
    axis = plain_number(dim)
    return None if isinstance(x.shape[axis], int) else Stacked(x.movedim(axis, 0))


@_makes_lists("aten::split", "aten::unsafe_split")
def _split(x: torch.Tensor, split_size: ReplayValue, dim: ReplayValue = 0) -> Sequenced | None:
    if isinstance(split_size, list):
        return None
    size, axis = plain_number(split_size), plain_number(dim)
    return None if isinstance(size, int) and isinstance(x.shape[axis], int) else _pieces(x, size, axis)


@_makes_lists("aten::chunk", "aten::unsafe_chunk")
def _chunk(x: torch.Tensor, chunks: ReplayValue, dim: ReplayValue = 0) -> Sequenced | None:
    count, axis = plain_number(chunks), plain_number(dim)
    total = x.shape[axis]
    return None if isinstance(total, int) and isinstance(count, int) else _pieces(x, (total + count - 1) // count, axis)


def _pieces(x: torch.Tensor, size: Size, axis: int) -> Sequenced:
    axis = axis % x.dim()
    sizes = [None if n == axis else length for n, length in enumerate(x.shape)]
    return Sequenced(sequence_operator("split")(x, size, axis), ItemType(x.dtype, tuple(sizes)))
