"""Lists to which each iteration of a loop adds numbers, or tuples and dicts of numbers and tensors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from onnxport.capture.replay.values.items import NUMBERS, is_inner
from onnxport.capture.rewriting.open_lists import (
    ModelValue,
    OpenList,
    OpenRows,
    column_of,
    leaves_of_row,
    shape_of_row,
)
from onnxport.capture.rewriting.variables import Collecting
from onnxport.torch_internals.arrays import Array


@dataclass
class CollectingRows(Collecting):
    """A list that each iteration adds such items to, and does nothing else with. ``like`` is one of them."""

    like: ModelValue = None

    def contribution(self, value: Any) -> list[torch.Tensor]:
        """What is in the list after the iteration: what stands in each place of its items."""
        items = [[column_of(leaf) for leaf in leaves_of_row(item)] for item in value]
        columns = zip(*items, strict=True)
        return [parts[0] if len(parts) == 1 else torch.stack(parts) for parts in columns]

    def result(self, value: Any, states: Iterator[torch.Tensor], stacks: Iterator[torch.Tensor]) -> object:
        """The list with all that iterations added."""
        parts = value.parts if isinstance(value, OpenList) else list(value)
        columns = [next(stacks) for _ in leaves_of_row(self.like)]
        columns = columns if self.count == 1 else [column.flatten(0, 1) for column in columns]
        whole = OpenList([*parts, OpenRows(self.like, tuple(columns))])
        # Whoever else has the list finds in it what was added.
        value[:] = whole.parts
        return value if isinstance(value, OpenList) else whole


def may_be_rows(items: Sequence[ModelValue], known: set[object]) -> bool:
    """Whether items are of one kind and of sizes that are ``known`` outside of the loop."""
    first = _kinds(items[0], known)
    return None not in first and all(
        shape_of_row(item) == shape_of_row(items[0]) and _kinds(item, known) == first for item in items
    )


def _kinds(item: ModelValue, known: set[object]) -> list[object]:
    """The type and sizes of what is in an item; None stands for what a loop can't collect."""
    return [_kind(leaf, known) for leaf in leaves_of_row(item)] or [None]


def _kind(leaf: ModelValue, known: set[object]) -> object:
    if isinstance(leaf, NUMBERS):
        return column_of(leaf).dtype
    if not isinstance(leaf, torch.Tensor | Array):
        return None
    tensor = column_of(leaf)
    return None if any(is_inner(size, known) for size in tensor.shape) else (tensor.dtype, list(tensor.shape))
