"""Literals among operands: numbers that are known while translating, for which leaner forms exist."""

from __future__ import annotations

from onnxport.translate import Dim, Tensor

Known = int | float | bool


def number_of(x: Tensor | Known | Dim) -> Known | None:
    """The number that a literal holds, or ``None`` where it is computed at run time or is a weight.

    A weight has a value as well, but one that may be replaced after the export.
    """
    if isinstance(x, int | float):
        return x
    if isinstance(x, Dim) or x.value.const_value is None or x.value.metadata_props or x.known_shape != ():
        return None
    number: Known = x.value.const_value.numpy().item()
    return number
