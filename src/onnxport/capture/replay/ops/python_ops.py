"""Operators of TorchScript that work on Python's values: numbers, strings, lists and dicts."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable, Collection, MutableMapping

import torch
from torch.fx.experimental.symbolic_shapes import has_free_unbacked_symbols

from onnxport.capture.diagnosis.user_lines import line_of_caller
from onnxport.capture.diagnosis.zero_sizes import is_otherwise_at_zero
from onnxport.capture.replay.values.stand_ins import Number, Optionally, ReplayValue, Truth, plain_number
from onnxport.torch_internals.torchscript import TracerWarning, get_tracing_state

Function = Callable[..., ReplayValue]


def _logical(name: str, known: Function) -> Function:
    def apply(a: ReplayValue, b: ReplayValue) -> ReplayValue:
        if isinstance(a, Truth) or isinstance(b, Truth):
            return Truth(getattr(torch, name)(*(_tensor(value) for value in (a, b))))
        return known(a, b)

    return apply


def _tensor(value: ReplayValue) -> torch.Tensor:
    if isinstance(value, Truth):
        return value.tensor
    return torch.scalar_tensor(value, dtype=torch.bool)  # type: ignore[arg-type]


def _and(a: bool | torch.SymBool, b: bool | torch.SymBool) -> ReplayValue:
    if isinstance(a, bool) and isinstance(b, bool | torch.SymBool):
        return b if a else False
    return a & b


def _or(a: bool | torch.SymBool, b: bool | torch.SymBool) -> ReplayValue:
    if isinstance(a, bool) and isinstance(b, bool | torch.SymBool):
        return True if a else b
    return a | b


def _not(value: ReplayValue) -> ReplayValue:
    if isinstance(value, Truth):
        return Truth(torch.logical_not(value.tensor), value.symbols)
    return torch.sym_not(value) if isinstance(value, torch.SymBool) else not value


def _is(a: ReplayValue, b: ReplayValue) -> ReplayValue:
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Optionally) and other is None:
            return Truth(torch.logical_not(one.is_there))
    return a is b


def to_bool(value: ReplayValue) -> ReplayValue:
    """A number as a bool; that of a tensor is known at run time only."""
    if isinstance(value, torch.Tensor):
        if get_tracing_state() is not None:
            return _followed(value)
        scalar = value.reshape([])
        return Truth(scalar if scalar.dtype == torch.bool else scalar != 0)
    number = plain_number(value) if not isinstance(value, Truth) else value
    if isinstance(number, torch.SymInt | torch.SymFloat):
        return COMPARISONS["aten::ne"](number, 0)
    return number if isinstance(number, Truth | torch.SymBool) else bool(number)


def _followed(value: torch.Tensor) -> bool:
    """What the example decides: a tracer follows it in scripts too, and says so of their lines."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TracerWarning)
        truth = bool(value)
    told = TracerWarning("Converting a tensor to a Python boolean: the script's branch is that of the example.")
    told.add_note(line_of_caller())
    warnings.warn(told, stacklevel=2)
    return truth


def to_int(value: ReplayValue) -> ReplayValue:
    """A number as an integer."""
    number = plain_number(value)
    if isinstance(number, torch.SymFloat):
        return torch.sym_int(number)
    if isinstance(number, torch.SymBool):
        return torch.sym_ite(number, 1, 0)
    return number if isinstance(number, torch.SymInt) else int(number)


def to_float(value: ReplayValue) -> ReplayValue:
    """A number as a float."""
    number = plain_number(value)
    return torch.sym_float(number) if isinstance(number, torch.SymInt | torch.SymFloat) else float(number)


def _append(items: list[ReplayValue], item: ReplayValue) -> list[ReplayValue]:
    items.append(item)
    return items


def _set_item(container: MutableMapping[ReplayValue, ReplayValue], key: ReplayValue, value: ReplayValue) -> ReplayValue:
    container[key] = value
    return container


def _is_symbolic(*values: ReplayValue) -> bool:
    return any(isinstance(value, torch.SymInt | torch.SymFloat) for value in values)


def _extremum(of_sizes: Function, otherwise: Function) -> Function:
    def apply(*values: ReplayValue) -> ReplayValue:
        return of_sizes(*values) if len(values) == 2 and _is_symbolic(*values) else otherwise(*values)

    return apply


def _percent(text: str, *values: ReplayValue) -> str:
    return text % (values[0] if len(values) == 1 and isinstance(values[0], tuple) else values)


def _range_length(low: int, high: int, step: int) -> ReplayValue:
    if _is_symbolic(low, high, step):
        return torch.sym_max((high - low + step - (1 if step > 0 else -1)) // step, 0)
    return len(range(low, high, step))


def _text(function: str) -> Function:
    return lambda text, *rest: getattr(text, function)(*rest)


_TEXT = (
    "lower upper strip lstrip rstrip replace startswith endswith find rfind title capitalize isdigit isalpha isalnum "
    "isspace isupper islower zfill center ljust rjust splitlines partition rpartition expandtabs swapcase"
)


def _symbols(side: ReplayValue) -> Collection[object]:
    return side.node.expr.free_symbols if isinstance(side, torch.SymInt | torch.SymFloat) else ()


def _comparison(compare: Function) -> Function:
    """Of what may be sizes: torch takes those that vary for positive, and they may be 0."""

    def apply(a: ReplayValue, b: ReplayValue) -> ReplayValue:
        same = _same_sizes(a, b) if compare in (operator.eq, operator.ne) else None
        if same is not None:
            return same if compare is operator.eq else torch.sym_not(same)
        if not _is_symbolic(a, b):
            return compare(a, b)
        found = compare(a, b)
        if is_otherwise_at_zero(compare, a, b, found):
            symbols = {symbol for side in (a, b) for symbol in _symbols(side)}
            return Truth(compare(*(Number.of(side).tensor() for side in (a, b))), symbols)  # type: ignore[arg-type]
        return found

    return apply


def _same_sizes(a: ReplayValue, b: ReplayValue) -> torch.SymBool | None:
    """Whether two lists have the same sizes, if some of these only run time knows: Python would ask them at once."""
    if not isinstance(a, list) or not isinstance(b, list) or len(a) != len(b):
        return None
    if not any(isinstance(size, torch.SymInt) and has_free_unbacked_symbols(size) for size in (*a, *b)):
        return None
    same: torch.SymBool | None = None
    for one, other in zip(a, b, strict=True):
        equal = one == other
        if equal is False:
            return None
        if isinstance(equal, torch.SymBool):
            same = equal if same is None else same & equal
    return same


COMPARISONS: dict[str, Function] = {
    f"aten::{name}": _comparison(getattr(operator, name)) for name in ("eq", "ne", "lt", "le", "gt", "ge")
}
"""Of numbers, sizes among them."""

FUNCTIONS: dict[str, Function] = {
    "aten::add": operator.add,
    "aten::add_": operator.iadd,
    "aten::sub": operator.sub,
    "aten::mul": operator.mul,
    "aten::mul_": operator.imul,
    "aten::div": operator.truediv,
    "aten::floordiv": operator.floordiv,
    "aten::floor_divide": operator.floordiv,
    "aten::remainder": operator.mod,
    "aten::fmod": math.fmod,
    "aten::mod": operator.mod,
    "aten::pow": operator.pow,
    "aten::neg": operator.neg,
    "aten::abs": abs,
    "prim::abs": abs,
    **COMPARISONS,
    "aten::__and__": _logical("logical_and", _and),
    "aten::__or__": _logical("logical_or", _or),
    "aten::__xor__": _logical("logical_xor", operator.xor),
    "aten::__not__": _not,
    "aten::__lshift__": operator.lshift,
    "aten::__rshift__": operator.rshift,
    "aten::__is__": _is,
    "aten::__isnot__": lambda a, b: _not(_is(a, b)),
    "aten::Bool": to_bool,
    "aten::Int": to_int,
    "aten::Float": to_float,
    "aten::Complex": complex,
    "aten::IntImplicit": to_int,
    "aten::FloatImplicit": to_float,
    "aten::ScalarImplicit": plain_number,
    "aten::item": plain_number,
    "aten::len": len,
    "aten::list": list,
    "aten::dict": dict,
    "aten::append": _append,
    "aten::extend": lambda items, more: items.extend(more),
    "aten::insert": lambda items, position, item: items.insert(position, item),
    "aten::pop": lambda container, *key: container.pop(*key),
    "aten::clear": lambda container: container.clear(),
    "aten::remove": lambda items, item: items.remove(item),
    "aten::reverse": lambda items: items.reverse(),
    "aten::copy": lambda items: items.copy(),
    "aten::index": lambda items, item: items.index(item),
    "aten::count": lambda items, item: items.count(item),
    "aten::sort": lambda items, reverse=False: items.sort(reverse=reverse),
    "aten::sorted": sorted,
    "aten::slice": lambda items, start=None, end=None, step=1: items[start:end:step],
    "aten::__getitem__": operator.getitem,
    "aten::_set_item": _set_item,
    "aten::Delete": operator.delitem,
    "aten::__delitem__": operator.delitem,
    "aten::__contains__": operator.contains,
    "aten::keys": lambda table: list(table.keys()),
    "aten::values": lambda table: list(table.values()),
    "aten::items": lambda table: list(table.items()),
    "aten::update": lambda table, more: table.update(more),
    "aten::get": lambda table, key, default=None: table.get(key, default),
    "aten::setdefault": lambda table, key, value: table.setdefault(key, value),
    "aten::popitem": lambda table: table.popitem(),
    "aten::sum": sum,
    # torch.export replaces min and max while it runs, by functions that know sizes: so they are looked up when called.
    "prim::min": _extremum(torch.sym_min, lambda *values: min(*values)),
    "prim::max": _extremum(torch.sym_max, lambda *values: max(*values)),
    "aten::any": any,
    "aten::all": all,
    "aten::ceil": math.ceil,
    "aten::floor": math.floor,
    "aten::round": round,
    "aten::trunc": math.trunc,
    "aten::sqrt": lambda value: torch.sym_sqrt(value) if _is_symbolic(value) else math.sqrt(value),
    "aten::exp": math.exp,
    "aten::log": math.log,
    "aten::log2": math.log2,
    "aten::log10": math.log10,
    "aten::log1p": math.log1p,
    "aten::sin": math.sin,
    "aten::cos": math.cos,
    "aten::tan": math.tan,
    "aten::asin": math.asin,
    "aten::acos": math.acos,
    "aten::atan": math.atan,
    "aten::atan2": math.atan2,
    "aten::sinh": math.sinh,
    "aten::cosh": math.cosh,
    "aten::tanh": math.tanh,
    "aten::erf": math.erf,
    "aten::gamma": math.gamma,
    "aten::lgamma": math.lgamma,
    "aten::factorial": math.factorial,
    "aten::gcd": math.gcd,
    "aten::degrees": math.degrees,
    "aten::radians": math.radians,
    "aten::isnan": math.isnan,
    "aten::isinf": math.isinf,
    "aten::isfinite": math.isfinite,
    "aten::copysign": math.copysign,
    "aten::hash": hash,
    "aten::ord": ord,
    "aten::chr": chr,
    "aten::hex": hex,
    "aten::bin": bin,
    "aten::oct": oct,
    "aten::str": str,
    "aten::format": lambda text, *values: text.format(*values),
    "aten::percentFormat": _percent,
    "aten::split": lambda text, separator=None, most=-1: text.split(separator, most),
    "aten::join": lambda separator, items: separator.join(items),
    "aten::__range_length": _range_length,
    "aten::__derive_index": lambda index, start, step: start + index * step,
    **{f"aten::{name}": _text(name) for name in _TEXT.split()},
}
"""By the operator's name: the functions for overloads that torch's dispatcher does not know."""
