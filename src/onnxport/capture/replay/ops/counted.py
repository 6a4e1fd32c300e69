"""Operators whose schema takes a count as a plain integer: called by the functions of torch that take sizes too.

While capturing, those functions are replaced (``capture/patches/counts.py``, ``sliding_pools.py``): they are looked up
when they are called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F

from onnxport.capture.replay.interpreter import NodeCall, handles
from onnxport.capture.replay.ops.calls import dtype_of
from onnxport.capture.replay.values.stand_ins import ReplayValue, materialized, plain_number

_WINDOWS = ("hann_window", "hamming_window", "blackman_window", "bartlett_window")
_POOLS = tuple(f"{kind}_pool{spatial}d" for kind in ("max", "avg") for spatial in (1, 2, 3))
_OPTIONS = 4  # dtype, layout, device, pin_memory


def _options(given: tuple[ReplayValue, ...]) -> Mapping[str, Any]:
    """What is said of the tensor that is made; there is only one device in the file."""
    return {} if given[0] is None else {"dtype": dtype_of(given[0])}


@handles(*(f"aten::{name}" for name in _WINDOWS))
def _window(call: NodeCall, *values: ReplayValue) -> torch.Tensor:
    call.trace()
    make: Callable[..., torch.Tensor] = getattr(torch, call.node.kind().partition("::")[2])
    return make(*(plain_number(value) for value in values[:-_OPTIONS]), **_options(values[-_OPTIONS:]))


@handles("aten::linspace")
def _linspace(call: NodeCall, start: ReplayValue, end: ReplayValue, *rest: ReplayValue) -> torch.Tensor:
    call.trace()
    steps = plain_number(rest[0])
    first, last = (bound if isinstance(bound, torch.Tensor) else plain_number(bound) for bound in (start, end))
    make: Callable[..., torch.Tensor] = torch.linspace
    return make(first, last, steps, **_options(rest[-_OPTIONS:]))


@handles("aten::one_hot")
def _one_hot(call: NodeCall, x: ReplayValue, classes: ReplayValue = -1) -> torch.Tensor:
    """Of as many classes as there are numbers up to the largest, where none are given."""
    call.trace()
    numbers: torch.Tensor = materialized(x)
    count = plain_number(classes)
    if isinstance(count, int) and count < 0:
        count = (numbers.max() + 1).item()
        torch._check(count >= 1)
    return F.one_hot(numbers, count)


@handles(*(f"aten::{name}" for name in _POOLS))
def _pool(call: NodeCall, x: ReplayValue, *values: ReplayValue) -> torch.Tensor:
    call.trace()
    name = call.node.kind().partition("::")[2]
    pool: Callable[..., torch.Tensor] = getattr(torch if name.startswith("max") else F, name)
    return pool(materialized(x), *(_numbers(value) for value in values))


def _numbers(value: ReplayValue) -> Any:
    """A number, several, or none."""
    if isinstance(value, list):
        return [plain_number(number) for number in value]
    return None if value is None else plain_number(value)
