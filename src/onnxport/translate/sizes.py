"""Computing run-time sizes in ONNX: an expression over the program's symbols becomes a value once and is remembered."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import sympy  # type: ignore[import-untyped]
import torch

from onnxport.errors import TranslationError
from onnxport.torch_internals import sympy_functions as sym
from onnxport.translate.dims import Int

if TYPE_CHECKING:
    from onnxport.translate.builder import Builder
    from onnxport.translate.tensor import Tensor


class Sizes:
    """Computes run-time sizes in one graph; each expression is emitted once per scope and then shared.

    Every size is an int64 vector of length 1, the form in which ONNX's shape inputs want it.
    """

    def __init__(self, op: Builder, outer: Sizes | None = None) -> None:
        self._op = op
        self._outer = outer
        self._values: dict[sympy.Basic, Tensor] = {}
        self._sources: dict[str, tuple[Tensor, int]] = {}
        self._multiples: dict[str, tuple[sympy.Basic, Tensor, int]] = {}
        self._defined: set[sympy.Basic] = set()

    def add_source(self, expr: sympy.Symbol, tensor: Tensor, axis: int) -> None:
        """Remember that ``tensor`` has the size ``expr``, a bare symbol, at ``axis``."""
        self._sources.setdefault(expr.name, (tensor, axis))

    def add_multiple(self, expr: sympy.Basic, tensor: Tensor, axis: int) -> None:
        """Remember that ``tensor`` has the size ``expr``, such as ``2*half + 1``, at ``axis``."""
        symbols = expr.free_symbols
        factor = expr.diff(*symbols) if len(symbols) == 1 else None
        if factor is not None and factor.is_Integer and factor > 0:
            self._multiples.setdefault(next(iter(symbols)).name, (expr, tensor, axis))

    def define(self, expr: sympy.Basic, vector: Tensor) -> None:
        """Bind a symbol to a vector of length 1 that holds it; what was computed with another value is forgotten."""
        self._values = {known: value for known, value in self._values.items() if expr not in known.free_symbols}
        self._values[expr] = vector
        self._defined.add(expr)

    def vector(self, size: Int) -> Tensor:
        """The size as an int64 vector of length 1 (float64 or bool for such numbers)."""
        if isinstance(size, int):
            return self._op.const([size], torch.int64)
        return self._value(_divided_without_signs(size.expr))

    def _known(self, expr: sympy.Basic) -> Tensor | None:
        scope: Sizes | None = self
        while scope is not None:
            value = scope._values.get(expr)
            if value is not None:
                return value
            if scope._defined and not scope._defined.isdisjoint(expr.free_symbols):
                return None
            scope = scope._outer
        return None

    def _source(self, symbol: sympy.Symbol) -> tuple[Tensor, int] | None:
        scope: Sizes | None = self
        while scope is not None:
            source = scope._sources.get(symbol.name)
            if source is not None:
                return source
            scope = scope._outer
        return None

    def _value(self, expr: sympy.Basic) -> Tensor:
        value = self._known(expr)
        if value is None:
            value = self._values[expr] = self._compute(expr)
        return value

    def _read(self, tensor: Tensor, axis: int) -> Tensor:
        op = self._op
        return op.Shape(op.pairs(tensor) if tensor.is_complex else tensor, start=axis, end=axis + 1)

    def _multiple(self, symbol: sympy.Symbol) -> tuple[sympy.Basic, Tensor, int] | None:
        """The axis of which a symbol is a part, and what its size is in terms of the symbol."""
        scope: Sizes | None = self
        while scope is not None and symbol not in scope._defined:
            if symbol.name in scope._multiples:
                return scope._multiples[symbol.name]
            scope = scope._outer
        return None

    def _solved(self, symbol: sympy.Symbol) -> Tensor:
        """A symbol of which only a multiple is the size of a tensor: ``half`` where an axis has ``2*half``."""
        multiple = self._multiple(symbol)
        if multiple is None:
            raise TranslationError(
                f"The size {symbol} is not the size of any tensor or the value of any scalar computed so far."
            )
        op, (expr, _, _) = self._op, multiple
        constant = expr.subs(symbol, 0)
        rest = op.Sub(self._value(expr), op.const([int(constant)], torch.int64)) if constant else self._value(expr)
        return floor_divide(op, rest, op.const([int(expr.diff(symbol))], torch.int64), exact=True)

    def _whole(self, expr: sympy.Basic) -> Tensor | None:
        """What a tensor has as its size, although it is no bare symbol."""
        symbols = expr.free_symbols
        multiple = self._multiple(*symbols) if len(symbols) == 1 else None
        return self._read(*multiple[1:]) if multiple is not None and multiple[0] == expr else None

    def _compute(self, expr: sympy.Basic) -> Tensor:
        op = self._op
        if isinstance(expr, sympy.Symbol):
            source = self._source(expr)
            return self._solved(expr) if source is None else self._read(*source)
        whole = self._whole(expr)
        if whole is not None:
            return whole
        if expr.is_Integer:
            return op.const([int(expr)], torch.int64)
        if expr.is_Float or isinstance(expr, sympy.Rational):
            return op.const([float(expr)], torch.float64)
        if expr in (sympy.true, sympy.false):
            return op.const([bool(expr)], torch.bool)
        if isinstance(expr, sympy.Piecewise):
            *pairs, (last, _) = expr.args
            chosen = self._value(last)
            for value, condition in reversed(pairs):
                chosen = op.Where(self._value(condition), self._value(value), chosen)
            return chosen
        emit: Emit | None = _EMIT.get(type(expr))
        if emit is None:
            raise TranslationError(f"The size {expr} uses {type(expr).__name__}, which has no ONNX form yet.")
        if isinstance(expr, sympy.Mul) and any(isinstance(arg, sympy.Rational) and arg.q != 1 for arg in expr.args):
            numerator, denominator = expr.as_numer_denom()
            return floor_divide(op, self._value(numerator), self._value(denominator), exact=True)
        return emit(op, expr, [self._value(arg) for arg in expr.args])


@functools.lru_cache(maxsize=4096)
def _divided_without_signs(expr: sympy.Basic) -> sympy.Basic:
    """The same numbers with ``(n - 1) // 2`` as ``(n + 1) // 2 - 1``, whose numerator no size makes negative.

    So a plain Div will do, which shape inference follows; with the constant around it little is left.
    """
    if not expr.has(sym.FloorDiv):
        return expr

    def rewritten(division: sympy.Basic) -> sympy.Basic:
        numerator, divisor = division.args
        constant, rest = numerator.as_coeff_Add()
        if not (divisor.is_Integer and divisor > 0 and constant.is_Integer and constant < 0 and _is_count(rest)):
            return division
        return sym.FloorDiv(rest + constant % divisor, divisor) + constant // divisor

    return expr.replace(lambda part: type(part) is sym.FloorDiv, rewritten)


def _is_count(expr: sympy.Basic, at_least_one: sympy.Basic | None = None) -> bool:
    """Whether an expression is 0 or more for sizes that are, among them one that is not 0."""
    if isinstance(expr, sympy.Add):
        constant, rest = expr.as_coeff_Add()
        if constant == -1 and at_least_one in rest.args:
            constant, rest = sympy.Integer(0), rest - at_least_one
        return bool(constant >= 0) and all(map(_is_count, sympy.Add.make_args(rest)))
    if isinstance(expr, sympy.Mul | sym.FloorDiv):
        return all(map(_is_count, expr.args))
    return bool(expr.is_nonnegative and (expr.is_Symbol or expr.is_number))


def floor_divide(op: Builder, a: Tensor, b: Tensor, *, exact: bool = False) -> Tensor:
    """Floor division; ONNX's Div truncates, which is the same where both are known not to be negative."""
    return op.Div(a, b) if exact else op.Div(op.Sub(a, op.Mod(a, b)), b)


def _same_kind(op: Builder, args: Sequence[Tensor]) -> list[Tensor]:
    if any(arg.dtype == torch.float64 for arg in args):
        return [op.cast(arg, torch.float64) for arg in args]
    return list(args)


Emit = Callable[["Builder", sympy.Basic, list["Tensor"]], "Tensor"]


def _fold(op_type: str) -> Emit:
    def emit(op: Builder, expr: sympy.Basic, args: list[Tensor]) -> Tensor:
        args = _same_kind(op, args)
        result = args[0]
        for arg in args[1:]:
            result = op.multi(op_type, result, arg, outputs=1)[0]
        return result

    return emit


def _add(op: Builder, expr: sympy.Basic, args: list[Tensor]) -> Tensor:
    """Sum with the negative terms subtracted, so that ``n - 1`` reads as such."""
    args = _same_kind(op, args)
    terms = sorted(zip(expr.args, args, strict=True), key=lambda term: term[0].is_number)
    result = terms[0][1]
    for term, value in terms[1:]:
        if term.is_Integer and int(term) < 0:
            result = op.Sub(result, op.const([-int(term)], torch.int64))
        else:
            result = op.Add(result, value)
    return result


def _floor_div(op: Builder, expr: sympy.Basic, args: list[Tensor]) -> Tensor:
    numerator, divisor = expr.args
    nonnegative = numerator.is_nonnegative or _is_count(numerator, divisor if divisor.is_Symbol else None)
    return floor_divide(op, *args, exact=bool(nonnegative and divisor.is_nonnegative))


def _ceil_div(op: Builder, expr: sympy.Basic, args: list[Tensor]) -> Tensor:
    a, b = args
    return floor_divide(op, op.Add(a, op.Sub(b, op.const([1], torch.int64))), b)


def _pow(op: Builder, expr: sympy.Basic, args: list[Tensor]) -> Tensor:
    if expr.args[1] == -1:
        return op.Reciprocal(op.cast(args[0], torch.float64))
    return op.Pow(*_same_kind(op, args))


def _true_div(op: Builder, expr: sympy.Basic, args: list[Tensor]) -> Tensor:
    return op.Div(op.cast(args[0], torch.float64), op.cast(args[1], torch.float64))


def _rounded(op_type: str) -> Emit:
    def emit(op: Builder, expr: sympy.Basic, args: list[Tensor]) -> Tensor:
        return op.cast(op.multi(op_type, args[0], outputs=1)[0], torch.int64)

    return emit


def _round_decimal(op: Builder, expr: sympy.Basic, args: list[Tensor]) -> Tensor:
    """Rounded to so many digits, which are fewer than none for tens and hundreds: then the factor divides."""
    number = op.cast(args[0], torch.float64)
    digits = int(expr.args[1])
    factor = op.const([10.0 ** abs(digits)], torch.float64)
    there, back = (op.Mul, op.Div) if digits >= 0 else (op.Div, op.Mul)
    return back(op.multi("Round", there(number, factor), outputs=1)[0], factor)


def _unary(op_type: str) -> Emit:
    def emit(op: Builder, expr: sympy.Basic, args: list[Tensor]) -> Tensor:
        return op.multi(op_type, op.cast(args[0], torch.float64), outputs=1)[0]

    return emit


def _piecewise(op: Builder, expr: sympy.Basic, args: list[Tensor]) -> Tensor:
    return op.Where(*args)


def _if_then_else(op: Builder, expr: sympy.Basic, args: list[Tensor]) -> Tensor:
    condition, then, otherwise = args
    return op.Or(op.And(condition, then), op.And(op.Not(condition), otherwise))


def _not_equal(op: Builder, expr: sympy.Basic, args: list[Tensor]) -> Tensor:
    return op.Not(op.Equal(*_same_kind(op, args)))


_EMIT: dict[type, Emit] = {
    sympy.Add: _add,
    sympy.Mul: _fold("Mul"),
    sympy.Pow: _pow,
    sym.PowByNatural: _pow,
    sym.FloatPow: _pow,
    sym.FloorDiv: _floor_div,
    sym.CleanDiv: _floor_div,
    sym.CeilDiv: _ceil_div,
    sym.Mod: _fold("Mod"),
    sym.PythonMod: _fold("Mod"),
    sym.Max: _fold("Max"),
    sym.Min: _fold("Min"),
    sympy.Max: _fold("Max"),
    sympy.Abs: lambda op, expr, args: op.Abs(args[0]),
    sympy.Min: _fold("Min"),
    sym.FloatTrueDiv: _true_div,
    sym.IntTrueDiv: _true_div,
    sym.ToFloat: lambda op, expr, args: op.cast(args[0], torch.float64),
    sym.TruncToInt: lambda op, expr, args: op.cast(args[0], torch.int64),
    sym.FloorToInt: _rounded("Floor"),
    sym.CeilToInt: _rounded("Ceil"),
    sym.RoundToInt: _rounded("Round"),
    sym.RoundDecimal: _round_decimal,
    sym.OpaqueUnaryFn_sqrt: _unary("Sqrt"),
    sym.OpaqueUnaryFn_exp: _unary("Exp"),
    sym.OpaqueUnaryFn_log: _unary("Log"),
    sym.BitwiseFn_bitwise_and: _fold("BitwiseAnd"),
    sym.BitwiseFn_bitwise_or: _fold("BitwiseOr"),
    sym.Identity: lambda op, expr, args: args[0],
    sym.Where: _piecewise,
    sympy.Eq: _fold("Equal"),
    sympy.Ne: _not_equal,
    sympy.StrictLessThan: _fold("Less"),
    sympy.StrictGreaterThan: _fold("Greater"),
    sympy.LessThan: _fold("LessOrEqual"),
    sympy.GreaterThan: _fold("GreaterOrEqual"),
    sympy.And: _fold("And"),
    sympy.Or: _fold("Or"),
    sympy.ITE: _if_then_else,
    sympy.Not: lambda op, expr, args: op.Not(args[0]),
}
