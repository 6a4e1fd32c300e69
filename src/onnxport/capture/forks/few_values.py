"""Numbers that come to one of a few values, whatever the sizes: ``n % 3`` is 0, 1 or 2.

Where Python's code wants such a number as a plain one, to cut a list or to write it into a name, it is asked which of
them it is, and each is a way through the model.
"""

from __future__ import annotations

from typing import Any

import torch

from onnxport.torch_internals.symbolic_sizes import values_in_range

_MOST = 6


def one_of_few(node: Any) -> int | None:
    """The number that an expression comes to on this way through the model; None where it may come to many."""
    if not node.is_int():
        return None
    values = values_in_range(node, _MOST)
    if values is None:
        return None
    number = torch.SymInt(node)
    # The last is what is left.
    return next((value for value in values[:-1] if number == value), values[-1])
