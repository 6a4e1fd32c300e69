"""A call of the model itself, to see what it gives."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from onnxport.capture.request.trees import copied

# torch's words where a gradient is asked for and none was noted.
_NONE_NOTED = "does not require grad"


def called_eagerly(model: Callable[..., object], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What a model gives for copies of the arguments; gradients are noted only where it takes some in its forward.

    >>> import torch
    >>> from onnxport.capture.request.eager_calls import called_eagerly
    >>> called_eagerly(lambda x: torch.autograd.grad((x.requires_grad_() ** 2).sum(), x)[0], (torch.ones(2),), {})
    tensor([2., 2.])
    """
    with torch.no_grad():
        try:
            return model(*copied(args), **copied(dict(kwargs)))
        except RuntimeError as error:
            if _NONE_NOTED not in str(error):
                raise
    with torch.enable_grad():
        return model(*copied(args), **copied(dict(kwargs)))
