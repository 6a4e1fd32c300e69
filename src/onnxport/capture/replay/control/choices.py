"""Operators that are branches: which item is read, or which axis goes, only run time knows."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.fx.experimental.symbolic_shapes import has_free_unbacked_symbols

from onnxport.capture.replay.control.branches import chosen
from onnxport.capture.replay.control.closures import Body
from onnxport.capture.replay.control.specs import UnlikeRanks
from onnxport.capture.replay.interpreter import Env, NodeCall, handles, result_of
from onnxport.capture.replay.ops.calls import call_operator
from onnxport.capture.replay.ops.python_ops import COMPARISONS
from onnxport.capture.replay.values.items import has_run_time_length, have_one_shape, item_at
from onnxport.capture.replay.values.stand_ins import Number, ReplayValue, known_truth, materialized, plain_number

# As many axes as are squeezed at once where each may stay: every one of them doubles the branches.
_MOST_AXES = 4


@handles("aten::squeeze")
def _squeeze(call: NodeCall, x: ReplayValue, *axes: ReplayValue) -> ReplayValue:
    """Axes of size 1 go, and those that vary go where they have it: without axes given, any of them."""
    call.trace()
    axis = plain_number(axes[0]) if axes and not isinstance(axes[0], list) else None
    if isinstance(x, torch.Tensor) and isinstance(axis, torch.SymInt):
        return _by_number(call, x.dim(), [_without_axis(call, axis) for axis in range(x.dim())])
    if not isinstance(x, torch.Tensor):
        return call_operator(call.node, [x, *axes])
    named = axes[0] if axes and isinstance(axes[0], list) else axes
    asked = [plain_number(one) % x.dim() for one in named if x.dim()] if axes else range(x.dim())
    is_one = {axis: known_truth(COMPARISONS["aten::eq"](x.shape[axis], 1)) for axis in asked}
    open_axes = [axis for axis, truth in is_one.items() if not isinstance(truth, bool)]
    if not open_axes or len(open_axes) > _MOST_AXES:
        return call_operator(call.node, [x, *axes])
    name, gone = _name(call, 0), [axis for axis, truth in is_one.items() if truth is True]
    try:
        return result_of(call.node, _squeezed(call, name, open_axes, gone)(call.env))
    except (UnlikeRanks, IndexError):
        # Without an axis that the model reads later, it is not for such sizes.
        if any(has_free_unbacked_symbols(x.shape[axis]) for axis in open_axes):
            raise
    # Where sizes decide, following the example is a guard, and that is reported.
    gone += [axis for axis in open_axes if x.shape[axis] == 1]
    return _squeezed(call, name, (), gone)(call.env)[0]


def _squeezed(call: NodeCall, name: int, open_axes: Sequence[int], gone: Sequence[int]) -> Body:
    """The tensor without the axes that are gone, and without those of the others that have size 1."""

    def without(env: Env) -> list[ReplayValue]:
        x = materialized(env[name])
        for axis in sorted(gone, reverse=True):
            x = x.select(axis, 0)
        return [x.clone()]

    if not open_axes:
        return without
    axis, *others = open_axes

    def choose(env: Env) -> list[ReplayValue]:
        is_one = known_truth(COMPARISONS["aten::eq"](materialized(env[name]).shape[axis], 1))
        bodies = [_squeezed(call, name, others, dropped) for dropped in ([*gone, axis], gone)]
        if isinstance(is_one, bool):
            return bodies[0 if is_one else 1](env)
        return chosen(NodeCall(call.run, call.node, env), is_one, bodies, [], [name])

    return choose


def _without_axis(call: NodeCall, axis: int) -> Body:
    name = _name(call, 0)
    return lambda env: [materialized(env[name]).squeeze(axis).clone()]


@handles("aten::unsqueeze")
def _unsqueeze(call: NodeCall, x: ReplayValue, axis: ReplayValue) -> ReplayValue:
    call.trace()
    if not isinstance(x, torch.Tensor) or not isinstance(plain_number(axis), torch.SymInt):
        return call_operator(call.node, [x, axis])
    return _by_number(call, x.dim() + 1, [_with_axis(call, place) for place in range(x.dim() + 1)])


def _with_axis(call: NodeCall, axis: int) -> Body:
    name = _name(call, 0)
    return lambda env: [materialized(env[name]).unsqueeze(axis).clone()]


@handles("aten::__getitem__")
def _get_item(call: NodeCall, items: list[ReplayValue], position: ReplayValue) -> ReplayValue:
    """An item of a list, or of a dict or text by its key."""
    place = plain_number(position) if not isinstance(items, dict) or isinstance(position, Number) else position
    if has_run_time_length(items):
        call.trace()
        return item_at(items, place)
    if not isinstance(place, torch.SymInt) or not isinstance(items, list):
        return items[place]
    call.trace()
    if have_one_shape(items):
        chosen_one = Number.of(place % len(items)).tensor().reshape(1)
        return torch.stack(materialized(items)).index_select(0, chosen_one).select(0, 0)
    return _by_number(call, len(items), [_item(call, place) for place in range(len(items))])


def _item(call: NodeCall, place: int) -> Body:
    name = _name(call, 0)

    def read(env: Env) -> list[ReplayValue]:
        items = env[name]
        assert isinstance(items, list)
        return [items[place]]

    return read


def _name(call: NodeCall, position: int) -> int:
    return call.node.inputsAt(position).unique()


def _by_number(call: NodeCall, count: int, bodies: Sequence[Body]) -> ReplayValue:
    """What one of several bodies gives: that of the number that the node's second input is; it may be negative."""
    names = [_name(call, 0), _name(call, 1)]

    def from_(place: int) -> Body:
        if place == count - 1:
            return bodies[place]

        def choose(env: Env) -> list[ReplayValue]:
            number = plain_number(env[names[1]])
            is_here = COMPARISONS["aten::eq"](number % count, place)
            within = NodeCall(call.run, call.node, env)
            condition = known_truth(is_here)
            if isinstance(condition, bool):
                return (bodies[place] if condition else from_(place + 1))(env)
            return chosen(within, condition, [bodies[place], from_(place + 1)], [], names)

        return choose

    return result_of(call.node, from_(0)(call.env))
