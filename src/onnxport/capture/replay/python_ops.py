"""Operators of TorchScript that work on Python's values: numbers, strings, lists and dicts."""

from __future__ import annotations

import math
import operator
import warnings
from collections.abc import Callable
from typing import Any

import torch

from onnxport.capture.diagnosis.user_lines import line_of_caller
from onnxport.capture.replay.values.kinds import Truth, plain
from onnxport.torch_internals.torchscript import TracerWarning, get_tracing_state

Function = Callable[..., Any]


def _logical(name: str, known: Callable[[Any, Any], Any]) -> Function:
    def apply(a: Any, b: Any) -> Any:
        if isinstance(a, Truth) or isinstance(b, Truth):
            return Truth(getattr(torch, name)(_truth_tensor(a), _truth_tensor(b)))
        return known(a, b)

    return apply


def _truth_tensor(value: Any) -> torch.Tensor:
    return value.tensor if isinstance(value, Truth) else torch.scalar_tensor(value, dtype=torch.bool)


def _and(a: Any, b: Any) -> Any:
    if isinstance(a, bool) and isinstance(b, bool | torch.SymBool):
        return b if a else False
    return a & b


def _or(a: Any, b: Any) -> Any:
    if isinstance(a, bool) and isinstance(b, bool | torch.SymBool):
        return True if a else b
    return a | b


def _not(value: Any) -> Any:
    if isinstance(value, Truth):
        return Truth(torch.logical_not(value.tensor))
    return torch.sym_not(value) if isinstance(value, torch.SymBool) else not value


def _to_bool(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        if get_tracing_state() is not None:
            return _followed(value)
        whole = value.reshape([])
        return Truth(whole if whole.dtype == torch.bool else whole != 0)
    number = plain(value) if not isinstance(value, Truth) else value
    return number != 0 if isinstance(number, torch.SymInt | torch.SymFloat) else _as_is_or_bool(number)


def _followed(value: torch.Tensor) -> bool:
    """What the example decides: a tracer follows it in scripts too, and says so of their lines."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TracerWarning)
        truth = bool(value)
    told = TracerWarning("Converting a tensor to a Python boolean: the script's branch is that of the example.")
    told.add_note(line_of_caller())
    warnings.warn(told, stacklevel=2)
    return truth


def _as_is_or_bool(value: Any) -> Any:
    return value if isinstance(value, Truth | torch.SymBool) else bool(value)


def _to_int(value: Any) -> Any:
    number = plain(value)
    if isinstance(number, torch.SymFloat):
        return torch.sym_int(number)
    if isinstance(number, torch.SymBool):
        return torch.sym_ite(number, 1, 0)
    return number if isinstance(number, torch.SymInt) else int(number)


def _to_float(value: Any) -> Any:
    number = plain(value)
    return torch.sym_float(number) if isinstance(number, torch.SymInt | torch.SymFloat) else float(number)


def _append(items: list[Any], item: Any) -> list[Any]:
    items.append(item)
    return items


def _set_item(container: Any, key: Any, value: Any) -> Any:
    container[key] = value
    return container


def _pop(container: Any, *key: Any) -> Any:
    return container.pop(*key)


def _slice(items: Any, start: int | None = None, end: int | None = None, step: int = 1) -> Any:
    return items[start:end:step]


def _index(items: list[Any], item: Any) -> int:
    return items.index(item)


def _sort(items: list[Any], reverse: bool = False) -> None:
    items.sort(reverse=reverse)


def _sorted(items: list[Any]) -> list[Any]:
    return sorted(items)


def _extend(items: list[Any], more: list[Any]) -> None:
    items.extend(more)


def _insert(items: list[Any], at: int, item: Any) -> None:
    items.insert(at, item)


def _clear(items: Any) -> None:
    items.clear()


def _remove(items: list[Any], item: Any) -> None:
    items.remove(item)


def _delete(container: Any, key: Any) -> None:
    del container[key]


def _dict(pairs: Any = ()) -> dict[Any, Any]:
    return dict(pairs)


def _update(container: dict[Any, Any], more: Any) -> None:
    container.update(more)


def _get(container: dict[Any, Any], key: Any, default: Any = None) -> Any:
    return container.get(key, default)


def _div(a: Any, b: Any) -> Any:
    return a / b


def _remainder(a: Any, b: Any) -> Any:
    return a % b


def _minimum(a: Any, b: Any = None) -> Any:
    if b is None:
        return min(a)
    return torch.sym_min(a, b) if _symbolic(a, b) else min(a, b)


def _maximum(a: Any, b: Any = None) -> Any:
    if b is None:
        return max(a)
    return torch.sym_max(a, b) if _symbolic(a, b) else max(a, b)


def _symbolic(*values: Any) -> bool:
    return any(isinstance(value, torch.SymInt | torch.SymFloat) for value in values)


def _any(items: list[Any]) -> bool:
    return any(items)


def _all(items: list[Any]) -> bool:
    return all(items)


def _contains(container: Any, item: Any) -> bool:
    return item in container


def _format(text: str, *values: Any) -> str:
    return text.format(*values)


def _percent(text: str, *values: Any) -> str:
    given = values[0] if len(values) == 1 and isinstance(values[0], tuple) else values
    return text % given


def _split(text: str, separator: str | None = None, maximum: int = -1) -> list[str]:
    return text.split(separator, maximum)


def _range_length(low: Any, high: Any, step: Any) -> Any:
    if _symbolic(low, high, step):
        return torch.sym_max((high - low + step - (1 if step > 0 else -1)) // step, 0)
    return len(range(low, high, step))


def _derive_index(index: Any, start: Any, step: Any) -> Any:
    return start + index * step


def _sum(items: list[Any]) -> Any:
    return sum(items)


def _floor(value: Any) -> Any:
    return math.floor(value)


def _identity(value: Any, *_: Any, **__: Any) -> Any:
    return value


def _text(function: str) -> Function:
    return lambda text, *rest: getattr(text, function)(*rest)


_TEXT = (
    "lower upper strip lstrip rstrip replace startswith endswith find rfind title capitalize isdigit isalpha isalnum "
    "isspace isupper islower zfill center ljust rjust splitlines partition rpartition expandtabs swapcase"
)

COMPARISONS: dict[str, Function] = {
    f"aten::{name}": getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")
}
"""Of numbers, sizes among them."""

FUNCTIONS: dict[str, Function] = {
    "aten::add": operator.add,
    "aten::add_": operator.iadd,
    "aten::sub": operator.sub,
    "aten::mul": operator.mul,
    "aten::mul_": operator.imul,
    "aten::div": _div,
    "aten::floordiv": operator.floordiv,
    "aten::floor_divide": operator.floordiv,
    "aten::remainder": _remainder,
    "aten::fmod": math.fmod,
    "aten::mod": _remainder,
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
    "aten::__is__": lambda a, b: a is b,
    "aten::__isnot__": lambda a, b: a is not b,
    "aten::Bool": _to_bool,
    "aten::Int": _to_int,
    "aten::Float": _to_float,
    "aten::Complex": complex,
    "aten::IntImplicit": _to_int,
    "aten::FloatImplicit": _to_float,
    "aten::ScalarImplicit": plain,
    "aten::item": plain,
    "aten::len": len,
    "aten::list": list,
    "aten::dict": _dict,
    "aten::append": _append,
    "aten::extend": _extend,
    "aten::insert": _insert,
    "aten::pop": _pop,
    "aten::clear": _clear,
    "aten::remove": _remove,
    "aten::reverse": lambda items: items.reverse(),
    "aten::copy": lambda items: items.copy(),
    "aten::index": _index,
    "aten::count": lambda items, item: items.count(item),
    "aten::sort": _sort,
    "aten::sorted": _sorted,
    "aten::slice": _slice,
    "aten::__getitem__": operator.getitem,
    "aten::_set_item": _set_item,
    "aten::Delete": _delete,
    "aten::__delitem__": _delete,
    "aten::__contains__": _contains,
    "aten::keys": lambda table: list(table.keys()),
    "aten::values": lambda table: list(table.values()),
    "aten::items": lambda table: list(table.items()),
    "aten::update": _update,
    "aten::get": _get,
    "aten::setdefault": lambda table, key, value: table.setdefault(key, value),
    "aten::popitem": lambda table: table.popitem(),
    "aten::sum": _sum,
    "prim::min": _minimum,
    "prim::max": _maximum,
    "aten::any": _any,
    "aten::all": _all,
    "aten::ceil": math.ceil,
    "aten::floor": _floor,
    "aten::round": round,
    "aten::trunc": math.trunc,
    "aten::sqrt": lambda value: torch.sym_sqrt(value) if _symbolic(value) else math.sqrt(value),
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
    "aten::format": _format,
    "aten::percentFormat": _percent,
    "aten::split": _split,
    "aten::join": lambda separator, items: separator.join(items),
    "aten::__range_length": _range_length,
    "aten::__derive_index": _derive_index,
    "prim::unchecked_cast": _identity,
    "prim::unchecked_unwrap_optional": _identity,
    "aten::_unwrap_optional": _identity,
    **{f"aten::{name}": _text(name) for name in _TEXT.split()},
}
"""By the operator's name: the functions for overloads that torch's dispatcher does not know."""
