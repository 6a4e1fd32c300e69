"""Equations of einsum: which letter stands for which axis."""

from __future__ import annotations

import re
import string
from collections.abc import Sequence

_ELLIPSIS = "..."


def explicit_equation(equation: str) -> str:
    """An equation without spaces and with its right-hand side: the letters that occur once, in order.

    >>> from onnxport.onnx_build.equations import explicit_equation
    >>> explicit_equation("i j, jk")
    'ij,jk->ik'
    """
    equation = equation.replace(" ", "")
    if "->" in equation:
        return equation
    letters = re.sub(r"[^A-Za-z]", "", equation)
    once = "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    return f"{equation}->{_ELLIPSIS if _ELLIPSIS in equation else ''}{once}"


def lettered(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The letters of each factor and of the result, with letters of their own for the axes of ellipses.

    Ellipses meet from the right, as shapes do in any broadcast; ``ranks`` are those of the factors.

    >>> from onnxport.onnx_build.equations import lettered
    >>> lettered("...ij,...jk", [4, 3])
    (['abij', 'bjk'], 'abik')
    """
    given, result = explicit_equation(equation).split("->")
    terms = given.split(",")
    counts = [
        rank - len(term.replace(_ELLIPSIS, "")) if _ELLIPSIS in term else 0
        for term, rank in zip(terms, ranks, strict=True)
    ]
    spare = "".join(letter for letter in string.ascii_letters if letter not in equation)[: max(counts)]
    own = [spare[len(spare) - count :] for count in counts]
    named = [term.replace(_ELLIPSIS, letters) for term, letters in zip(terms, own, strict=True)]
    return named, result.replace(_ELLIPSIS, spare)
