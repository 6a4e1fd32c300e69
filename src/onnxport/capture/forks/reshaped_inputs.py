"""Inputs that the model gives another shape in place, as ``x.unsqueeze_(0)`` does.

At the end of a capture torch looks at its inputs to say what it took for granted of their sizes. It keeps the tensors
that the model was given, and one of another shape by then is another input to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnxport.torch_internals.fake_tensors import FakeTensor, disable_current_modes

_RESHAPING = {"t_", "transpose_", "swapaxes_", "swapdims_", "squeeze_", "unsqueeze_", "as_strided_"}


def keep_shape_of_input(func: Any, args: Sequence[Any]) -> None:
    """Before a call gives an input another shape, put a tensor of the one it came in into torch's list of inputs."""
    if getattr(func, "__name__", "") not in _RESHAPING or not args or not isinstance(args[0], FakeTensor):
        return
    given = args[0]
    environment = given.fake_mode.shape_env
    for tracked in () if environment is None else environment.tracked_fakes or ():
        if tracked.fake is given:
            with disable_current_modes(), given.fake_mode:
                tracked.fake = torch.empty_strided(given.shape, given.stride(), dtype=given.dtype, device=given.device)
