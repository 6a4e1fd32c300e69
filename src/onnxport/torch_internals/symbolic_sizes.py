"""Symbolic dimensions: what a user may declare of one, how torch reasons about them, and where it does."""

from collections.abc import Mapping

import sympy  # type: ignore[import-untyped]
import torch
from torch._guards import TracingContext
from torch.export.dynamic_shapes import _DimHint, _DimHintType
from torch.fx.experimental import _config, symbolic_shapes
from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot
from torch.fx.experimental.sym_node import SymNode
from torch.fx.experimental.symbolic_shapes import DimConstraints, _constrain_range_for_size, free_unbacked_symbols
from torch.utils._sympy.functions import FloorDiv, Mod, PythonMod
from torch.utils._sympy.numbers import int_oo
from torch.utils._sympy.value_ranges import ValueRanges, bound_sympy

__all__ = [
    "DimConstraints",
    "DimHint",
    "DimHintType",
    "TracingContext",
    "config",
    "constrain_range_for_size",
    "example_sizes",
    "forget_what_was_settled",
    "free_unbacked_symbols",
    "get_proxy_mode",
    "is_recorded",
    "note_least",
    "note_remainder",
    "optimization_hint",
    "recorded_call",
    "recorded_constant",
    "recorded_size",
    "recorded_tensor",
    "truth_in_range",
    "values_in_range",
    "were_other_counts",
]

# The type of Dim.AUTO, Dim.DYNAMIC and Dim.STATIC, and which of them one is.
DimHint = _DimHint
DimHintType = _DimHintType

# backed_size_oblivious is set for a capture, and everything is put back after it.
config = _config

# A symbol without example that counts something: no more is known of it than that it isn't negative.
constrain_range_for_size = _constrain_range_for_size


def optimization_hint(size: int | torch.SymInt, fallback: int) -> int:
    """The example's number for a size, without a guard; the fallback for one that only running tells."""
    # Until torch 2.11 the function was hint_int.
    name = "optimization_hint" if hasattr(symbolic_shapes, "optimization_hint") else "hint_int"
    return int(getattr(symbolic_shapes, name)(size, fallback))


def example_sizes(environment: symbolic_shapes.ShapeEnv) -> Mapping[sympy.Symbol, sympy.Integer]:
    """The example's number for each symbol that has one."""
    # Until torch 2.10 the table was var_to_val.
    name = "backed_var_to_val" if hasattr(environment, "backed_var_to_val") else "var_to_val"
    table: Mapping[sympy.Symbol, sympy.Integer] = getattr(environment, name)
    return table


def forget_what_was_settled(size: torch.SymInt) -> None:
    """Let torch ask anew what its guards say: it keeps that a condition is open, also when a guard settles it later."""
    environment = size.node.shape_env
    environment._version_counter += 1


def were_other_counts(one: object, other: object) -> bool:
    """Whether two sizes were others when they were made, of which data decide one, whatever was found since."""
    if not isinstance(one, torch.SymInt) or not isinstance(other, torch.SymInt) or one.node._expr == other.node._expr:
        return False
    return bool(free_unbacked_symbols(one.node._expr) | free_unbacked_symbols(other.node._expr))


def is_recorded(size: torch.SymInt) -> bool:
    """Whether the graph that is being recorded has a size, as opposed to one computed while nothing was recorded."""
    mode = get_proxy_mode()
    return mode is None or bool(get_proxy_slot(size, mode.tracer, False, lambda _: True))


def recorded_call(condition: torch.SymBool) -> torch.fx.Node | None:
    """The call of the graph which is being recorded that gave a condition; None where there is none."""
    mode = get_proxy_mode()
    found = None if mode is None else get_proxy_slot(condition, mode.tracer, None, lambda proxy: proxy)
    node = None if found is None else found.force().node
    return node if isinstance(node, torch.fx.Node) else None


def recorded_tensor(tensor: object) -> torch.fx.Node | None:
    """The call of the graph which is being recorded that gave a tensor; None where there is none."""
    mode = get_proxy_mode()
    if mode is None or not isinstance(tensor, torch.Tensor):
        return None
    found: torch.fx.Node | None = get_proxy_slot(tensor, mode.tracer, None, lambda slot: slot.proxy.node)
    return found


def recorded_constant(node: torch.fx.Node) -> torch.Tensor | None:
    """The tensor that the graph which is being recorded has as an attribute; None where a node is no such attribute."""
    mode = get_proxy_mode()
    if mode is None or node.op != "get_attr":
        return None
    found = getattr(getattr(mode.tracer, "root", None), str(node.target), None)
    return found if type(found) is torch.Tensor else None


def recorded_size(expression: sympy.Basic) -> torch.SymInt | None:
    """The size that the graph which is being recorded has of an expression; None where it has none."""
    mode = get_proxy_mode()
    found = None if mode is None else getattr(mode.tracer, "sympy_expr_tracker", {}).get(expression)
    value = getattr(found, "value", None)
    return value if isinstance(value, torch.SymInt) else None


def note_least(number: torch.SymFloat, least: float) -> None:
    """Let torch know of a number of data that it is at least so much."""
    expression = number.node.expr
    if isinstance(expression, sympy.Symbol):
        number.node.shape_env._update_var_to_range(expression, ValueRanges(sympy.Float(least), sympy.oo))


def note_remainder(environment: symbolic_shapes.ShapeEnv, condition: sympy.Basic, outcome: bool) -> None:
    """Let torch know, where a condition says so, that a number leaves no remainder: ``n // (n // 8)`` is 8 then."""
    if not isinstance(condition, sympy.Eq if outcome else sympy.Ne):
        return
    remainder, other = condition.args
    if other != 0 or not isinstance(remainder, Mod | PythonMod):
        return
    number, by = remainder.args
    environment._add_divisible(Mod(number, by))
    if by.is_Integer and by > 0:
        environment._add_divisible(Mod(number, FloorDiv(number, by)))


def truth_in_range(node: SymNode) -> bool | None:
    """The truth of a condition that its symbols settle, else None.

    Of data it is settled by the ranges of its symbols and by what was checked before. Of sizes it is where every size
    says the same: that operators hold at certain sizes only is no answer to what the model's code asks.
    """
    assert node.shape_env is not None
    if free_unbacked_symbols(node.expr):
        known = node.shape_env._maybe_evaluate_static(node.expr)
        return None if known is None else bool(known)
    # A number that the model is given, other than a size, may be negative.
    ranges = {one: ValueRanges(0 if one.is_nonnegative else -int_oo, int_oo) for one in node.expr.free_symbols}
    bounds = bound_sympy(node.expr, ranges)
    return bool(bounds.lower) if bounds.is_singleton() else None


def values_in_range(node: SymNode, most: int) -> range | None:
    """The whole numbers that an expression may come to, if there are no more than so many; else None."""
    assert node.shape_env is not None
    ranges = dict(node.shape_env.var_to_range)
    for symbol in node.expr.free_symbols - free_unbacked_symbols(node.expr):
        ranges[symbol] = ValueRanges(0 if symbol.is_nonnegative else -int_oo, int_oo)
    bounds = bound_sympy(node.expr, ranges)
    finite = bounds.is_int and bounds.lower > -int_oo and bounds.upper < int_oo
    found = range(int(bounds.lower), int(bounds.upper) + 1) if finite else range(0)
    return found if 0 < len(found) <= most else None
