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
from onnxport.capture.replay.values.items import has_run_time_length, item_at, item_type_of
from onnxport.capture.replay.values.stand_ins import Number, ReplayValue, known_truth, materialized, plain_number


@handles("aten::squeeze")
def _squeeze(call: NodeCall, x: ReplayValue, *axes: ReplayValue) -> ReplayValue:
    """Of an axis that varies: it goes where it has size 1, and else stays."""
    call.trace()
    axis = plain_number(axes[0]) if axes and not isinstance(axes[0], list) else None
    if isinstance(x, torch.Tensor) and isinstance(axis, torch.SymInt):
        return _by_number(call, x.dim(), [_without_axis(call, axis) for axis in range(x.dim())])
    size = x.shape[axis] if isinstance(x, torch.Tensor) and x.dim() and isinstance(axis, int) else 0
    is_one = known_truth(COMPARISONS["aten::eq"](size, 1))
    if isinstance(is_one, bool) or axis is None:
        return call_operator(call.node, [x, *axes])
    name = _name(call, 0)

    def without(env: Env) -> list[ReplayValue]:
        return [materialized(env[name]).select(axis, 0)]

    def same(env: Env) -> list[ReplayValue]:
        return [materialized(env[name]).clone()]

    try:
        return result_of(call.node, chosen(call, is_one, [without, same], [], [name]))
    except UnlikeRanks:
        if not isinstance(is_one, torch.SymBool) or has_free_unbacked_symbols(is_one):
            raise
    # Where sizes decide, following the example is a guard, and that is reported.
    return (without if is_one else same)(call.env)[0]


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
    if _have_one_shape(items):
        chosen_one = Number.of(place % len(items)).tensor().reshape(1)
        return torch.stack(materialized(items)).index_select(0, chosen_one).select(0, 0)
    return _by_number(call, len(items), [_item(call, place) for place in range(len(items))])


def _have_one_shape(items: list[ReplayValue]) -> bool:
    found = item_type_of(items) if all(isinstance(item, torch.Tensor) for item in items) else None
    return found is not None and found.sizes is not None and None not in found.sizes


def _item(call: NodeCall, place: int) -> Body:
    name = _name(call, 0)

    def read(env: Env) -> list[ReplayValue]:
        items = env[name]
        assert isinstance(items, list)
        return [items[place]]

    return read


def _name(call: NodeCall, position: int) -> int:
    return list(call.node.inputs())[position].unique()


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
