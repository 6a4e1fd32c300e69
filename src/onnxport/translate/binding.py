"""Binding: a call's arguments by the names of its operator's schema, defaults filled in."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch


@functools.cache
def _parameters(target: torch._ops.OpOverload, wanted: frozenset[str]) -> list[tuple[int, str, Any]]:
    return [
        (position, argument.name, argument.default_value if argument.has_default_value() else None)
        for position, argument in enumerate(target._schema.arguments)
        if argument.name in wanted
    ]


def bind(
    target: torch._ops.OpOverload,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    wanted: frozenset[str],
    read: Callable[[Any], Any],
) -> dict[str, Any]:
    """The wanted arguments of a call by name, each read by ``read``; what was not passed has its default.

    >>> import torch
    >>> from onnxport.translate.binding import bind
    >>> bind(torch.ops.aten.add.Tensor, (1, 2), {}, frozenset({"self", "alpha"}), lambda value: value)
    {'self': 1, 'alpha': 1}
    """
    bound: dict[str, Any] = {}
    given = len(args)
    for position, name, default in _parameters(target, wanted):
        if position < given:
            bound[name] = read(args[position])
        elif name in kwargs:
            bound[name] = read(kwargs[name])
        else:
            bound[name] = default
    return bound
