"""Functions and modules that a number of data chooses in a block: ``self.experts[index[i]](x[i])`` in a loop.

Outside of blocks the number is compared with each place, and each is a way through the model, unless there are many.
In a block there is one way: what is called is a ``cond`` of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import torch

from onnxport.capture.forks.decisions import MOST_AT_ONE_LINE, is_of_data
from onnxport.capture.rewriting.choices import either
from onnxport.capture.rewriting.open_blocks import is_in_block
from onnxport.capture.rewriting.open_lists import OpenList
from onnxport.capture.rewriting.open_numbers import as_tensor, item_of
from onnxport.capture.rewriting.variables import WatchedList

Function = Callable[..., object]
_INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)


class ChosenFunction:
    """One of several functions, by a number that only run time knows; all that it can is be called."""

    def __init__(self, functions: Mapping[int, Any], number: torch.Tensor) -> None:
        self._functions, self._number = sorted(functions.items()), number

    def __call__(self, *args: object, **kwargs: object) -> object:
        """What the function gives that is chosen."""
        return self._called(self._functions, args, kwargs)

    def _called(
        self, functions: Sequence[tuple[int, Any]], args: tuple[object, ...], kwargs: dict[str, object]
    ) -> object:
        """Halves of them in turn: each choice runs both of its ways twice."""
        if len(functions) == 1:
            return functions[0][1](*args, **kwargs)
        half = len(functions) // 2
        return either(
            self._number < functions[half][0],
            lambda: self._called(functions[:half], args, kwargs),
            lambda: self._called(functions[half:], args, kwargs),
        )


def chosen_function(owner: object, key: object) -> ChosenFunction | None:
    """What a key of a list of functions stands for that only run time knows, in a block; None for all else."""
    listed = isinstance(owner, list | tuple | torch.nn.ModuleList | torch.nn.Sequential)
    # Lists that grow in the block, or that run time knows the length of, note who reads them.
    grows = isinstance(owner, WatchedList) or (isinstance(owner, OpenList) and owner.has_open_length)
    if not listed or grows:
        return None
    functions = dict(enumerate(cast(Sequence[object], owner)))
    if not is_in_block() and len(functions) <= MOST_AT_ONE_LINE:
        return None
    number = _number(key) if functions and all(map(_is_function, functions.values())) else None
    # A place may be counted from the end.
    return None if number is None else ChosenFunction(functions, number % len(functions))


def named_function(owner: object, name: Callable[[int], str], key: object) -> object:
    """The function with the name that a number stands in, which only run time knows; None for all else."""
    if not isinstance(owner, dict | torch.nn.ModuleDict):
        return None
    # Names are counted from 0 or 1.
    found = {place: owner[name(place)] for place in range(len(owner) + 1) if name(place) in owner}
    number = _number(key) if found and all(map(_is_function, found.values())) else None
    if number is None:
        return None
    return ChosenFunction(found, number) if is_in_block() else item_of(found, key)


def _is_function(item: object) -> bool:
    return callable(item) and not isinstance(item, torch.Tensor)


def _number(key: object) -> torch.Tensor | None:
    if isinstance(key, torch.Tensor) and key.dtype in _INTEGERS and all(size == 1 for size in key.shape):
        return key.reshape(())
    # As a tensor it is read in the ways of the choice, too.
    return as_tensor(key) if isinstance(key, torch.SymInt) and is_of_data(key.node.expr) else None
