"""Fake mode: models that are built and exported without their weights."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from onnxport.torch_internals import pytree
from onnxport.torch_internals.fake_tensors import FakeTensorMode


@contextlib.contextmanager
def enable_fake_mode() -> Iterator[FakeTensorMode]:
    """Make tensors of shape and dtype only, so that a model of any size can be built and exported.

    Apply the weights afterwards with :meth:`onnxport.ONNXProgram.apply_weights`, or save the model without them.

    >>> import torch, onnxport
    >>> with onnxport.enable_fake_mode():
    ...     model, x = torch.nn.Linear(3, 2).eval(), torch.randn(1, 3)
    >>> program = onnxport.export(model, (x,))
    >>> program.apply_weights({"weight": torch.ones(2, 3), "bias": torch.zeros(2)})
    >>> program(torch.ones(1, 3))[0].tolist()
    [[3.0, 3.0]]
    """
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        yield mode


def on_the_models_device(model: object, inputs: object) -> Any:
    """Example inputs on the meta device if that is where the model is: only there can the two meet."""
    if not isinstance(model, torch.nn.Module):
        return inputs
    devices = {parameter.device.type for parameter in model.parameters()}
    if devices != {"meta"}:
        return inputs
    return pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.to("meta"), inputs)
