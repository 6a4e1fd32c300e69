"""What TorchScript does with lists whose length only run time knows, and where such lists come from.

A list is a Python list throughout. What stands for as many items as run time will tell is one element of it, so that
appending, extending and joining lists need no care; reading does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onnxport.capture.replay.interpreter import HANDLERS, Env, Handler, Interpreter, call, handles
from onnxport.capture.replay.ops import prims
from onnxport.capture.replay.values.items import at, erased, inserted, joined, length, taken, varies
from onnxport.capture.replay.values.kinds import UNINITIALIZED, Kind, Sequenced, Stacked, plain
from onnxport.capture.replay.values.sequences import operator
from onnxport.errors import CaptureError

Maker = Callable[..., Stacked | Sequenced | None]

_REFUSED = "index count remove sort sorted __contains__ mul mul_ eq ne any all min max sum hash str format join"


def _on_lists(*kinds: str) -> Callable[[Handler], Handler]:
    """Register what to do at a node that is given a list whose length only run time knows."""

    def register(function: Handler) -> Handler:
        for kind in kinds:
            HANDLERS[kind] = _guarded(function, HANDLERS.get(kind))
        return function

    return register


def _guarded(function: Handler, otherwise: Handler | None) -> Handler:
    def handle(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
        if varies(values[0]):
            run.trace()
            return function(run, node, values, env)
        return _by_default(otherwise, run, node, values, env)

    return handle


def _by_default(handler: Handler | None, run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    if handler is not None:
        return handler(run, node, values, env)
    run.trace()
    return call(node, node.kind(), values)


@_on_lists("aten::len")
def _len(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    return length(values[0])


@_on_lists("aten::__getitem__")
def _get_item(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    return at(values[0], plain(values[1]))


@_on_lists("aten::cat", "aten::concat", "aten::concatenate", "aten::stack")
def _join(run: Interpreter, node: Any, values: list[Any], env: Env) -> torch.Tensor:
    return joined(values[0], plain(values[1]), node.kind() == "aten::stack")


@_on_lists("prim::ListUnpack")
def _unpack(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    count = node.outputsSize()
    if all(_is_put_together(use.user, node) for output in node.outputs() for use in output.uses()):
        # A trace does so with what a script returned; the list that it makes of the items is the whole one.
        return UNINITIALIZED if count == 1 else [UNINITIALIZED] * count
    torch._check(length(values[0]) == count)
    items = [at(values[0], position) for position in range(count)]
    return items[0] if count == 1 else items


def _is_put_together(node: Any, unpacking: Any) -> bool:
    """Whether a node makes a list of all that another takes out of one."""
    return node.kind() == "prim::ListConstruct" and [value.unique() for value in node.inputs()] == [
        value.unique() for value in unpacking.outputs()
    ]


@handles("prim::ListConstruct")
def _list(run: Interpreter, node: Any, values: list[Any], env: Env) -> list[Any]:
    unpacking = next(node.inputs()).node() if values else None
    if unpacking is not None and unpacking.kind() == "prim::ListUnpack" and _is_put_together(node, unpacking):
        source = env[next(unpacking.inputs()).unique()]
        if varies(source):
            return list(source)
    return values


@_on_lists("aten::slice")
def _slice(run: Interpreter, node: Any, values: list[Any], env: Env) -> list[Any]:
    items, start, end, step = values[0], *(plain(value) for value in values[1:])
    if start in (None, 0) and step == 1 and end is None:
        return list(items)
    return [_sliced(items, start, end, step)]


def _sliced(items: list[Any], start: Any, end: Any, step: Any) -> Stacked | Sequenced:
    if len(items) == 1 and isinstance(items[0], Stacked):
        return Stacked(items[0].tensor[start:end:step])
    return taken(items, torch.arange(length(items))[start:end:step])


@_on_lists("aten::reverse")
def _reverse(run: Interpreter, node: Any, values: list[Any], env: Env) -> None:
    items = values[0]
    items[:] = [_reversed(item) if isinstance(item, Stacked | Sequenced) else item for item in reversed(items)]


def _reversed(run: Stacked | Sequenced) -> Stacked | Sequenced:
    if isinstance(run, Stacked):
        return Stacked(run.tensor.flip(0))
    return taken([run], torch.arange(length([run])).flip(0))


@_on_lists("aten::pop")
def _pop(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    items, position = values[0], plain(values[1]) if len(values) > 1 else -1
    item = at(items, position)
    _delete_at(items, position)
    return item


@_on_lists("aten::Delete", "aten::__delitem__")
def _delete(run: Interpreter, node: Any, values: list[Any], env: Env) -> None:
    _delete_at(values[0], plain(values[1]))


def _delete_at(items: list[Any], position: Any) -> None:
    if position == -1 and not isinstance(items[-1], Stacked | Sequenced):
        del items[-1]
    elif len(items) == 1 and isinstance(items[0], Stacked) and isinstance(position, int) and position in (0, -1):
        rows = items[0].tensor
        items[0] = Stacked(rows[1:] if position == 0 else rows[:-1])
    else:
        items[:] = [erased(items, position)]


@_on_lists("aten::insert")
def _insert(run: Interpreter, node: Any, values: list[Any], env: Env) -> None:
    items, position, item = values[0], plain(values[1]), values[2]
    if isinstance(position, int) and position == 0:
        items.insert(0, item)
    else:
        items[:] = [inserted(items, position, item)]


@_on_lists("aten::_set_item")
def _set_item(run: Interpreter, node: Any, values: list[Any], env: Env) -> list[Any]:
    items: list[Any] = values[0]
    position, item = plain(values[1]), values[2]
    if isinstance(position, torch.SymInt):
        position = position % length(items)
    longer = inserted(items, position, item)
    # The item that was there is behind the new one.
    before = isinstance(position, int) and position < 0
    items[:] = [erased([longer], position if before else position + 1)]
    return items


@_on_lists("prim::isinstance")
def _isinstance(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    """Told by the tensors that stand for the items."""
    shown = [item.tensor if isinstance(item, Stacked) else getattr(item, "handle", item) for item in values[0]]
    return _IS_INSTANCE(run, node, [shown], env)


_IS_INSTANCE = prims._isinstance


@_on_lists(*(f"aten::{name}" for name in _REFUSED.split()))
def _refuse(run: Interpreter, node: Any, values: list[Any], env: Env) -> None:
    raise CaptureError(
        f"{node.kind()} is called on a list whose length only run time knows, and ONNX can't tell its result. "
        "Work on the tensors of the list, or stack them."
    )


def _makes_lists(*kinds: str) -> Callable[[Maker], Maker]:
    """Register what makes a list from a tensor; a function that returns None leaves it to torch."""

    def register(function: Maker) -> Maker:
        for kind in kinds:
            HANDLERS[kind] = _made(function, HANDLERS.get(kind))
        return function

    return register


def _made(function: Maker, otherwise: Handler | None) -> Handler:
    def handle(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
        if isinstance(values[0], torch.Tensor) and not _is_taken_apart(node):
            run.trace()
            items = function(*values)
            if items is not None:
                return [items]
        return _by_default(otherwise, run, node, values, env)

    return handle


def _is_taken_apart(node: Any) -> bool:
    """Whether only items at fixed places are read, so that the script itself says how many there are."""
    # Of chunks there are as many as are asked for, unless there is too little to share.
    counted = node.kind().endswith("chunk")
    return all(
        use.user.kind() == "prim::ListUnpack"
        or (counted and use.user.kind() == "aten::__getitem__" and _is_constant(list(use.user.inputs())[1]))
        for use in node.output().uses()
    )


def _is_constant(value: Any) -> bool:
    return bool(value.node().kind() == "prim::Constant")


@_makes_lists("aten::unbind")
def _unbind(x: torch.Tensor, axis: Any = 0) -> Stacked | None:
    axis = plain(axis)
    return None if isinstance(x.shape[axis], int) else Stacked(x.movedim(axis, 0))


@_makes_lists("aten::split", "aten::unsafe_split")
def _split(x: torch.Tensor, size: Any, axis: Any = 0) -> Sequenced | None:
    size, axis = size if isinstance(size, list) else plain(size), plain(axis)
    if isinstance(size, list) or (isinstance(size, int) and isinstance(x.shape[axis], int)):
        return None
    return _pieces(x, size, axis)


@_makes_lists("aten::chunk", "aten::unsafe_chunk")
def _chunk(x: torch.Tensor, count: Any, axis: Any = 0) -> Sequenced | None:
    count, axis = plain(count), plain(axis)
    total = x.shape[axis]
    return None if isinstance(total, int) and isinstance(count, int) else _pieces(x, (total + count - 1) // count, axis)


def _pieces(x: torch.Tensor, size: Any, axis: int) -> Sequenced:
    axis = axis % x.dim()
    sizes = [None if n == axis else length for n, length in enumerate(x.shape)]
    return Sequenced(operator("split")(x, size, axis), Kind(x.dtype, tuple(sizes)))
