"""Inputs that the model gives another shape in place, for its caller too: torch then takes them for other inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from onnxport.capture.diagnosis.user_lines import line_of_caller
from onnxport.errors import InputError, Problem
from onnxport.torch_internals.fake_tensors import FakeTensor

_RESHAPING = {"t_", "transpose_", "swapaxes_", "swapdims_", "squeeze_", "unsqueeze_", "as_strided_", "resize_"}


def refuse_reshaped_input(func: Any, args: Sequence[Any]) -> None:
    """Refuse a call that gives an input another shape."""
    name = getattr(func, "__name__", "")
    if name not in _RESHAPING or not args or not _is_input(args[0]):
        return
    what = f"{name} changes the shape of an input in place, for the caller as well, and no file can do that."
    plain = name.removesuffix("_")
    remedy = f"Give the model a view of its own: y = x.{plain}(...) in the place of x.{name}(...)."
    raise InputError("The model changes what it is given:", [Problem(what, line_of_caller(), remedy)])


def _is_input(tensor: object) -> bool:
    if not isinstance(tensor, FakeTensor) or isinstance(tensor, torch.nn.Parameter):
        return False
    environment = tensor.fake_mode.shape_env
    tracked = None if environment is None else environment.tracked_fakes
    return any(one.fake is tensor for one in tracked or ())
