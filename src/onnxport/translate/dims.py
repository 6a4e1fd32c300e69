"""Sizes that are known only at run time.

A ``Dim`` is an expression over the program's size symbols. Translations add, multiply and
compare them by structure; nothing here ever guards or specialises. ``sizes.py`` computes them in ONNX.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias, TypeGuard

import sympy  # type: ignore[import-untyped]
import torch

from onnxport.onnx_build.names import UniqueNames
from onnxport.torch_internals import sympy_functions as sym


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
