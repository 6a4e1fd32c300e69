"""Limits of sizes: where one is passed, the code of the model raises, or the file does not hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import sympy  # type: ignore[import-untyped]


@dataclass(frozen=True)
class SizeLimit:
    """What must hold of the sizes of axes that vary.

    ``condition`` is of symbols named like the axes, ``words`` say it, ``otherwise`` tells what is where it does not
    hold, and ``where`` is the line that asks.

    >>> import sympy
    >>> from onnxport.size_limits import SizeLimit
    >>> limit = SizeLimit(sympy.Symbol("n") <= 50, "n is at most 50", "it raises", "model.py:7")
    >>> limit.is_kept({"n": 8}), limit.is_kept({"n": 60}), limit.is_kept({})
    (True, False, True)
    """

    condition: sympy.Basic
    words: str
    otherwise: str
    where: str

    def is_kept(self, sizes: Mapping[str, int]) -> bool:
        """Whether the model takes these sizes, by the names of axes; so it does as far as they are not known.

        It takes none at which it divides by a size that is 0.
        """
        symbols = {symbol: sizes[symbol.name] for symbol in self.condition.free_symbols if symbol.name in sizes}
        numbers = {symbol: sympy.Integer(size) for symbol, size in symbols.items()}
        try:
            return bool(self.condition.xreplace(numbers) != sympy.false)
        except ZeroDivisionError:
            return False
