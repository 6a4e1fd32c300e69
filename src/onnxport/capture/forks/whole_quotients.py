"""Quotients of sizes that are made whole: ``math.ceil(n / 2)`` is ``(n + 1) // 2``, ``int(n / 2)`` and ``n // 2`` one.

``round(n / 2)`` is the even one of the two nearest.

So is what is less by a fraction: ``torch.arange(0.5, n)`` has ``math.ceil(n - 0.5)`` elements, which is ``n``. Whether
one is whole already is a question of a remainder: ``(n / 2).is_integer()`` is ``n % 2 == 0``.

torch takes the first for a function of a real number, of which it proves little and slowly. The two are the same for
every size that a double holds, as a quotient that is not whole is further from the next than a double is off.

Nothing can be proven of a size that is a quotient by another (``int(h * (320 / min(h, w)))``), and what layers compute
of it grows without end. It is a number of its own, which is read from a tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
import torch.nn.functional as F

from onnxport.capture.forks.caught_checks import division_checked
from onnxport.torch_internals.symbolic_sizes import free_unbacked_symbols
from onnxport.torch_internals.sympy_functions import FloatTrueDiv, IntTrueDiv, ValueRanges, bound_sympy

_LARGEST = 1 << 32
_OPERANDS = "_onnxport_operands"
_ROUNDING = {"__ceil__": torch.ceil, "__floor__": torch.floor, "__trunc__": torch.trunc}
#: A size, what it is divided by, and what is taken from it before.
_NONE = (None, 1, 0.0)


def quotients_made_whole() -> Iterator[tuple[object, str, object]]:
    """What divides sizes and makes quotients whole, with ours in their place: owner, name, method."""
    divide: Callable[..., Any] = torch.SymInt.__truediv__

    def divided(size: torch.SymInt, by: object) -> object:
        quotient = divide(size, by)
        if isinstance(quotient, torch.SymFloat) and type(by) in (int, float) and by > 0 and by == int(by):  # type: ignore[operator,call-overload]
            setattr(quotient, _OPERANDS, (size, int(by), 0.0))  # type: ignore[call-overload]
        return quotient

    subtract: Callable[..., Any] = torch.SymInt.__sub__

    def less(size: torch.SymInt, number: object) -> object:
        found = subtract(size, number)
        if isinstance(found, torch.SymFloat) and isinstance(number, float) and abs(number) < _LARGEST:
            setattr(found, _OPERANDS, (size, 1, number))
        return found

    multiply: Callable[..., Any] = torch.SymInt.__mul__

    def multiplied(size: torch.SymInt, by: object) -> object:
        product = multiply(size, by)
        if isinstance(product, torch.SymFloat) and isinstance(by, float) and by.is_integer() and abs(by) < _LARGEST:
            setattr(product, _OPERANDS, (size * int(by), 1, 0.0))
        return product

    as_real: Callable[..., Any] = torch.SymInt.__sym_float__
    divide_real: Callable[..., Any] = torch.SymFloat.__truediv__

    def made_real(size: torch.SymInt) -> object:
        number = as_real(size)
        if isinstance(number, torch.SymFloat):
            setattr(number, _OPERANDS, (size, 1, 0.0))
        return number

    def divided_real(number: torch.SymFloat, by: object) -> object:
        quotient = divide_real(number, by)
        size, already, without = getattr(number, _OPERANDS, _NONE)
        is_whole = isinstance(by, int | float) and by > 0 and by == int(by)
        if is_whole and size is not None and already == 1 and isinstance(quotient, torch.SymFloat):
            setattr(quotient, _OPERANDS, (size, int(by), without))  # type: ignore[call-overload]
        return quotient

    yield torch.SymInt, "__sym_float__", made_real
    yield torch.SymInt, "__sub__", less
    yield torch.SymInt, "__mul__", multiplied
    yield torch.SymFloat, "__truediv__", divided_real
    yield torch.SymInt, "__truediv__", division_checked(divided)
    for name in ("floordiv", "mod"):
        yield torch.SymInt, f"__{name}__", division_checked(getattr(torch.SymInt, f"__{name}__"))
    for name in ("truediv", "floordiv", "mod"):
        reflected = f"__r{name}__"
        yield torch.SymInt, reflected, division_checked(getattr(torch.SymInt, reflected), reflected=True)
    for name in ("__ceil__", "__floor__", "__trunc__"):
        yield torch.SymFloat, name, _made_whole(name, getattr(torch.SymFloat, name))
    yield torch.SymFloat, "__round__", _rounded(vars(torch.SymFloat)["__round__"])
    yield torch.SymFloat, "is_integer", _is_whole
    yield torch.SymInt, "__round__", _rounded_to_tens
    yield torch.SymInt, "bit_length", _bit_length
    for name in ("__xor__", "__rxor__"):
        yield torch.SymInt, name, _bits_of_one


def _made_whole(name: str, original: Callable[[torch.SymFloat], object]) -> Callable[[torch.SymFloat], object]:
    def whole(number: torch.SymFloat) -> object:
        size, by, without = getattr(number, _OPERANDS, _NONE)
        if size is not None and by == 1 and without == 0:
            return size
        if size is None and _is_ratio(number.node.expr):
            return _number_of_its_own(number, _ROUNDING[name])
        if size is None or (name == "__trunc__" and (without > 0 or _may_be_negative(size.node.expr))):
            return original(number)
        return (
            (size - math.floor(without) + (by - 1)) // by if name == "__ceil__" else (size - math.ceil(without)) // by
        )

    return whole


def _rounded_to_tens(size: Any, digits: int | None = None) -> object:
    """``round(n, -1)``, of two as near the even one; torch leaves the size as it is."""
    if digits is None or digits >= 0:
        return size
    unit = 10**-digits
    return _nearest(size, unit) * unit


def _nearest(size: Any, by: int) -> Any:
    """The whole number that is nearest to a quotient, of two as near the even one."""
    below, rest = size // by, size % by
    return below + (2 * rest + below % 2 + by - 1) // (2 * by)


def _rounded(original: Callable[..., object]) -> Callable[..., object]:
    def rounded(number: torch.SymFloat, digits: int | None = None) -> object:
        size, by, without = getattr(number, _OPERANDS, _NONE)
        if digits is None and size is None and _is_ratio(number.node.expr):
            return _number_of_its_own(number, torch.round)
        if digits is not None or size is None or not float(without).is_integer():
            return original(number, digits)
        return _nearest(size - int(without), by)

    return rounded


def _is_whole(number: torch.SymFloat) -> object:
    size, by, without = getattr(number, _OPERANDS, _NONE)
    if size is None:
        return number == torch.sym_float(math.floor(number))
    return float(without).is_integer() and (size - int(without)) % by == 0


def _is_ratio(expression: sympy.Basic) -> bool:
    """Whether a number is computed of quotients of sizes by sizes."""
    return any(part.args[1].free_symbols for part in expression.atoms(FloatTrueDiv, IntTrueDiv))


def _number_of_its_own(number: torch.SymFloat, rounding: Callable[[torch.Tensor], torch.Tensor]) -> torch.SymInt:
    """A whole number of which nothing is known but whether it may be negative."""
    whole: Any = rounding(torch.scalar_tensor(number, dtype=torch.float64)).to(torch.int64).item()  # type: ignore[arg-type]
    if not _may_be_negative(number.node.expr):
        torch._check(whole >= 0)
    return whole  # type: ignore[no-any-return]


def _bit_length(size: torch.SymInt) -> object:
    """How many bits a size has, which is as many powers of two as are no larger."""
    powers = torch.tensor([1 << bit for bit in range(63)])
    length: Any = (torch.scalar_tensor(size, dtype=torch.int64).abs() >= powers).sum().item()  # type: ignore[arg-type]
    torch._check(length >= 0)
    return length


def _bits_of_one(one: Any, other: Any) -> object:
    """``n ^ m``, which torch's check of graphs refuses: the bits of either but for those of both."""
    return (one | other) - (one & other)


def with_images_noted(function: object, call: Callable[..., Any]) -> Callable[..., Any]:
    """How a function is called, after which no image that it resized has a size of 0."""
    if function is not F.interpolate:
        return call

    def resized(*args: object, **kwargs: object) -> torch.Tensor:
        image: torch.Tensor = call(*args, **kwargs)
        for size in image.shape[2:]:
            _note_image(size)
        return image

    return resized


def _note_image(size: object) -> None:
    """Let torch know of a number of data that images have it for a size: others are no images."""
    if isinstance(size, torch.SymInt) and free_unbacked_symbols(size.node.expr):
        torch._check(size >= 1)


def _may_be_negative(expression: sympy.Basic) -> bool:
    symbols = expression.free_symbols
    if free_unbacked_symbols(expression) or not all(symbol.is_nonnegative for symbol in symbols):
        return True
    ranges = {symbol: ValueRanges(0, _LARGEST) for symbol in symbols}
    return bool(bound_sympy(expression, ranges).lower < 0)
