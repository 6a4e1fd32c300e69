"""Branches that are not for the example's sizes, run at sizes of which no more is known than what leads there.

A state that is empty in the first call fits nothing that later calls add to it, so that the branch for these fails at
the example's sizes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import sympy  # type: ignore[import-untyped]
import torch
from torch.fx.experimental.symbolic_shapes import has_free_unbacked_symbols

from onnxport.capture.replay.control.closures import Body
from onnxport.capture.replay.interpreter import Env
from onnxport.capture.replay.values.sequences import handle_operator
from onnxport.capture.replay.values.stand_ins import ReplayValue, Truth, parts_of, rebuilt

Size = int | torch.SymInt


def at_other_sizes(body: Body, names: Sequence[int], condition: torch.SymBool | Truth, holds: bool) -> Body | None:
    """A body that reads tensors of some names, at any sizes where a condition holds or not; None if it has none."""
    sizes = _sizes_of(condition, holds)
    if not sizes.symbols:
        return None

    def run(env: Env) -> list[ReplayValue]:
        return body({**env, **{name: sizes.opened(env[name]) for name in names}})

    return run


def _sizes_of(condition: torch.SymBool | Truth, holds: bool) -> _Sizes:
    if isinstance(condition, Truth):
        return _Sizes(condition.symbols, {})
    if has_free_unbacked_symbols(condition):
        return _Sizes((), {})
    asked = condition.node.expr if holds else torch.sym_not(condition).node.expr
    known = {}
    if isinstance(asked, sympy.Eq):
        for size, number in (asked.args, asked.args[::-1]):
            if isinstance(number, sympy.Integer):
                known[size] = int(number)
    return _Sizes(asked.free_symbols, known)


@dataclass(frozen=True)
class _Sizes:
    """The symbols of the sizes that a condition is about, and the sizes that follow from it."""

    symbols: Collection[object]
    known: Mapping[object, int]

    def opened(self, value: ReplayValue) -> ReplayValue:
        """A value whose tensors with such sizes have any in the place of those that vary."""
        if isinstance(value, list | tuple | dict):
            return rebuilt(value, [self.opened(part) for part in parts_of(value)])
        if not isinstance(value, torch.Tensor) or not any(self._is_asked_for(size) for size in value.shape):
            return value
        handle = handle_operator("of_any_rank")(value)
        return handle_operator("of_any_size")(handle, [self._size(size) for size in value.shape])

    def _is_asked_for(self, size: Size) -> bool:
        return isinstance(size, torch.SymInt) and any(symbol in self.symbols for symbol in size.node.expr.free_symbols)

    def _size(self, size: Size) -> Size:
        return self.known.get(size.node.expr, -1) if isinstance(size, torch.SymInt) else size
