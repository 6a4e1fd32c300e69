"""Sizes that are known only at run time: ``Dim`` for Python, ``Sizes`` to compute them in ONNX.

A ``Dim`` is an expression over the program's size symbols. Translations add, multiply and
compare them by structure; nothing here ever guards or specialises. ``Sizes`` turns an expression into an
ONNX value once and remembers it.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, TypeGuard

import sympy  # type: ignore[import-untyped]
import torch

from onnxport.errors import TranslationError
from onnxport.onnx_build.names import UniqueNames
from onnxport.torch_internals import sympy_functions as sym

if TYPE_CHECKING:
    from onnxport.translate.builder import Builder
    from onnxport.translate.tensor import Tensor


class Dim:
    """A run-time size (or, from a ``SymFloat`` or ``SymBool``, a run-time number) as an expression.

    >>> import sympy
    >>> from onnxport.translate.dims import Dim
    >>> batch = Dim(sympy.Symbol("batch", positive=True, integer=True))
    >>> (batch * 2) // 2 == batch
    True
    """

    __slots__ = ("_hash", "expr", "kind")

    def __init__(self, expr: sympy.Basic, kind: type = int) -> None:
        self.expr = expr
        self.kind = kind
        self._hash = hash(expr)

    def __repr__(self) -> str:
        return str(self.expr)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dim) and bool(self.expr == other.expr)

    def __hash__(self) -> int:
        return self._hash

    def __add__(self, other: Int) -> Int:
        return as_int(self.expr + _expr(other))

    __radd__ = __add__

    def __sub__(self, other: Int) -> Int:
        return as_int(self.expr - _expr(other))

    def __rsub__(self, other: Int) -> Int:
        return as_int(_expr(other) - self.expr)

    def __mul__(self, other: Int) -> Int:
        return as_int(self.expr * _expr(other))

    __rmul__ = __mul__

    @property
    def divisor(self) -> Int | None:
        """What the size is the whole quotient by, if it is one."""
        return as_int(self.expr.args[1]) if type(self.expr) is sym.FloorDiv else None

    def __floordiv__(self, other: Int) -> Int:
        return as_int(sym.FloorDiv(self.expr, _expr(other)))

    def __rfloordiv__(self, other: Int) -> Int:
        return as_int(sym.FloorDiv(_expr(other), self.expr))

    def __mod__(self, other: Int) -> Int:
        return as_int(sym.Mod(self.expr, _expr(other)))

    def __neg__(self) -> Int:
        return as_int(-self.expr)

    def __bool__(self) -> bool:
        raise TypeError(f"The run-time size {self.expr} has no truth value while exporting.")


Int: TypeAlias = int | Dim


def _expr(value: Int) -> sympy.Basic:
    return value.expr if isinstance(value, Dim) else sympy.Integer(value)


def as_int(expr: sympy.Basic) -> Int:
    """A sympy expression as a plain int where it is one."""
    return int(expr) if expr.is_Integer else Dim(expr)


def is_static(shape: Iterable[Int]) -> TypeGuard[Sequence[int]]:
    """Whether every size is a plain int."""
    return all(isinstance(size, int) for size in shape)


def product(sizes: Iterable[Int]) -> Int:
    """The product of sizes, static or not."""
    result: Int = 1
    for size in sizes:
        result = result * size
    return result


def maximum(a: Int, b: Int) -> Int:
    """The larger of two sizes."""
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    return as_int(sym.Max(_expr(a), _expr(b)))


def minimum(a: Int, b: Int) -> Int:
    """The smaller of two sizes."""
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    return as_int(sym.Min(_expr(a), _expr(b)))


def broadcast(shapes: Sequence[Sequence[Int] | None]) -> list[Int] | None:
    """The shape that shapes broadcast to, or ``None`` where that is not known.

    >>> from onnxport.translate.dims import broadcast
    >>> broadcast([(2, 1, 3), (4, 1)])
    [2, 4, 3]
    """
    if len(shapes) == 1 or all(shape == shapes[0] for shape in shapes):
        return None if shapes[0] is None else list(shapes[0])
    result: list[Int] = []
    for shape in shapes:
        if shape is None:
            return None
        longer = max(len(shape), len(result))
        sizes: list[Int] = [*[1] * (longer - len(shape)), *shape]
        result = [*[1] * (longer - len(result)), *result]
        for axis, size in enumerate(sizes):
            if result[axis] == size or size == 1:
                continue
            if result[axis] == 1:
                result[axis] = size
            elif isinstance(result[axis], Dim) and isinstance(size, Dim):
                return None
            elif isinstance(size, int):
                result[axis] = size
    return result


_UNBACKED = re.compile(r"(?:u|zuf)\d+")
"""What torch calls numbers that only running gives."""


class DimNames:
    """How symbols are shown and which of them the user declared to be one and the same."""

    def __init__(
        self,
        names: Mapping[str, str],
        same: Mapping[str, str],
        ranges: Mapping[sympy.Symbol, sym.ValueRanges[sympy.Expr]],
        way: str = "",
    ) -> None:
        self._names = names
        self._same = same
        self._ranges = ranges
        self._symbols: dict[str, sympy.Basic] = {}
        self._replacements: dict[sympy.Basic, sympy.Basic] = {}
        self._before: dict[sympy.Basic, sympy.Basic] = {}
        self._way = way
        self._numbers = itertools.count()
        self._fresh = UniqueNames(taken=self._names.values)
        self._shown: dict[sympy.Basic, str] = {}
        self._cache: dict[sympy.Basic, Int] = {}

    def read(self, value: object) -> Int | float | bool | Dim:
        """A Python or symbolic number from the graph as int, float, bool or ``Dim``."""
        if isinstance(value, torch.SymInt):
            expr = value.node.expr
            found = self._cache.get(expr)
            if found is None:
                found = self._cache[expr] = as_int(self.own(expr))
            return found
        if isinstance(value, torch.SymFloat):
            expr = self.own(value.node.expr)
            return float(expr) if expr.is_number else Dim(expr, float)
        if isinstance(value, torch.SymBool):
            expr = self.own(value.node.expr)
            return bool(expr) if expr in (sympy.true, sympy.false) else Dim(expr, bool)
        assert isinstance(value, int | float | bool)
        return value

    def shape(self, value: torch.Tensor) -> tuple[Int, ...]:
        """The sizes of a (fake) tensor."""
        return tuple([size if type(size) is int else self.read(size) for size in value.shape])  # type: ignore[misc]

    def label(self, size: Int) -> int | str:
        """The size as it stands in the ONNX model: a number, or the user's name for it."""
        if isinstance(size, int):
            return size
        shown = self._shown.get(size.expr)
        if shown is None:
            renamed = {s: sympy.Symbol(self._names.get(str(s), str(s))) for s in size.expr.free_symbols}
            shown = self._shown[size.expr] = str(size.expr.xreplace(renamed))
        return shown

    def may_be_zero(self, size: Int) -> bool:
        """Whether a size can be 0 at run time, as far as what was declared for its symbols tells."""
        return size == 0 if isinstance(size, int) else not self._is_positive(size.expr)

    def _is_positive(self, expr: sympy.Basic) -> bool:
        if isinstance(expr, sympy.Mul):
            return all(map(self._is_positive, expr.args))
        if isinstance(expr, sympy.Symbol):
            known = self._ranges.get(expr)
            # 2 is what torch takes for granted of any axis that varies; any other bound was declared.
            return known is not None and known.lower >= 1 and known.lower != 2
        return bool(expr.is_Integer and expr > 0)

    def own(self, expr: sympy.Basic) -> sympy.Basic:
        """An expression over the symbols of this file: one for those declared to be the same, and numbered by it."""
        # In the order in which torch made them, which is the same each time.
        for symbol in sorted(expr.free_symbols, key=lambda symbol: (len(symbol.name), symbol.name)):
            if symbol in self._replacements:
                continue
            name = symbol.name
            if name not in self._names and name not in self._same and _UNBACKED.fullmatch(name):
                self._replacements[symbol] = self._numbered(symbol)
                continue
            self._symbols.setdefault(name, symbol)
            first = self._symbols.get(self._same.get(name, name))
            if first is not None and first is not symbol:
                self._replacements[symbol] = first
        return expr.xreplace(self._replacements) if self._replacements else expr

    def _numbered(self, symbol: sympy.Symbol) -> sympy.Symbol:
        """A symbol that was made after the capture, under the next number of this file.

        torch counts on with each time that a captured program is prepared, so its own number says nothing.
        """
        number = next(self._numbers)
        name = f"size_{number}_{self._way}" if self._way else f"size_{number}"
        numbered = sympy.Symbol(self._fresh.unique(name), **symbol.assumptions0)
        self._before[numbered] = symbol
        return numbered

    def known_to_torch(self, expr: sympy.Basic) -> sympy.Basic:
        """An expression over the symbols as the shape environment of the capture has them."""
        return expr.xreplace(self._before) if self._before else expr


class Sizes:
    """Computes run-time sizes in one graph; each expression is emitted once per scope and then shared.

    Every size is an int64 vector of length 1, the form in which ONNX's shape inputs want it.
    """

    def __init__(self, op: Builder, outer: Sizes | None = None) -> None:
        self._op = op
        self._outer = outer
        self._values: dict[sympy.Basic, Tensor] = {}
        self._sources: dict[str, tuple[Tensor, int]] = {}
        self._defined: set[sympy.Basic] = set()

    def add_source(self, expr: sympy.Symbol, tensor: Tensor, axis: int) -> None:
        """Remember that ``tensor`` has the size ``expr``, a bare symbol, at ``axis``."""
        self._sources.setdefault(expr.name, (tensor, axis))

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

    def _compute(self, expr: sympy.Basic) -> Tensor:
        op = self._op
        if isinstance(expr, sympy.Symbol):
            source = self._source(expr)
            if source is None:
                raise TranslationError(
                    f"The size {expr} is not the size of any tensor or the value of any scalar computed so far."
                )
            tensor, axis = source
            return op.Shape(op.pairs(tensor) if tensor.is_complex else tensor, start=axis, end=axis + 1)
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


def _unary(op_type: str) -> Emit:
    def emit(op: Builder, expr: sympy.Basic, args: list[Tensor]) -> Tensor:
        return op.multi(op_type, op.cast(args[0], torch.float64), outputs=1)[0]

    return emit


def _piecewise(op: Builder, expr: sympy.Basic, args: list[Tensor]) -> Tensor:
    return op.Where(*args)


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
    sympy.Not: lambda op, expr, args: op.Not(args[0]),
}
