"""torch's own numpy: arrays that hold tensors, and the functions of numpy for them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import _numpy
from torch._numpy._ndarray import ndarray as Array

__all__ = ["Array", "array_functions", "dtype_of_arrays"]


def dtype_of_arrays(dtype: Any) -> torch.dtype:
    """The type of torch's for one that numpy has a name for."""
    made: torch.dtype = getattr(torch, np.dtype(dtype).name)
    return made


@functools.cache
def array_functions() -> Mapping[object, Callable[..., Any]]:
    """The functions of torch's numpy, by those of numpy whose place they take."""
    names = [name for name in dir(_numpy) if not name.startswith("_") and hasattr(np, name)]
    pairs = ((getattr(np, name), getattr(_numpy, name)) for name in names)
    return {theirs: ours for theirs, ours in pairs if callable(theirs) and not isinstance(theirs, type)}
