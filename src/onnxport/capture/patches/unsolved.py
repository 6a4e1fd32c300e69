"""Guards that torch has no solution for, and makes one of the example's numbers for.

At the end of a capture torch solves the guards on each axis. A whole division is replaced by a fraction there and the
example's remainder, so that ``(n + 1) // 2 == 2`` says that n is 4, as which it is then refused; or the solver fails.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import sympy  # type: ignore[import-untyped]

from onnxport.capture.patches.replacing import attributes_replaced
from onnxport.torch_internals.symbolic_sizes import DimConstraints
from onnxport.torch_internals.sympy_functions import FloorDiv, Mod, PythonMod


def divisions_left_unsolved() -> contextlib.AbstractContextManager[None]:
    """While this is open, guards with divisions other than ``(n + a) % b == 0`` are left as they are."""
    original: Callable[..., bool] = DimConstraints._has_unsupported_sympy_function

    def has_no_solution(constraints: object, expression: sympy.Basic) -> bool:
        return original(constraints, expression) or _divides(expression)

    return attributes_replaced([(DimConstraints, original.__name__, has_no_solution)])


def _divides(expression: sympy.Basic) -> bool:
    if not expression.has(FloorDiv, Mod, PythonMod):
        return False
    remainder = next((side for side in expression.args if isinstance(side, Mod | PythonMod)), None)
    if not isinstance(expression, sympy.Eq) or remainder is None or 0 not in expression.args:
        return True
    number, divisor = remainder.args
    terms = number.args if isinstance(number, sympy.Add) else (number,)
    linear = len(terms) <= 2 and all(term.is_Symbol or term.is_Integer for term in terms)
    return not linear or not divisor.is_Integer
