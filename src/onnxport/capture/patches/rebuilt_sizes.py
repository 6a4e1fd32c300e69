"""Sizes that a graph is given by their expressions: the largest and least of several.

In the body of a loop torch builds a size from before it out of its symbols. For ``Max`` and ``Min`` it records a
function of its own, which its check of the finished graph refuses; two at a time they are ``torch.sym_max`` and
``sym_min``.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import torch

from onnxport.capture.patches.replacing import attributes_replaced
from onnxport.torch_internals.fake_tensors import REBUILDING_SIZES, proxy_tensor


def extremes_of_two() -> contextlib.AbstractContextManager[None]:
    """While this is open, the largest and least of sizes are recorded two at a time."""
    names = {"_nary_sym_max": torch.sym_max, "_nary_sym_min": torch.sym_min}
    of_two = {vars(proxy_tensor)[name]: join for name, join in names.items() if name in vars(proxy_tensor)}
    if not REBUILDING_SIZES:
        return contextlib.nullcontext()
    register: Callable[..., None] = getattr(*REBUILDING_SIZES[0])

    def _sym_register(tracer: object, function: Any, args: tuple[Any, ...], out: object) -> None:
        join: Callable[[Any, Any], Any] | None = of_two.get(function)
        if join is None or len(args) < 2:
            register(tracer, function, args, out)
        else:
            register(tracer, join, (functools.reduce(join, args[:-1]), args[-1]), out)

    return attributes_replaced([(*REBUILDING_SIZES[0], _sym_register)])
