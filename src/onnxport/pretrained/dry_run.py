"""Running a model for the shapes of what it returns, without computing anything."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from onnxport.capture import enable_fake_mode
from onnxport.capture.patches.replacing import attributes_replaced
from onnxport.capture.preserved import attributes_preserved
from onnxport.torch_internals.fake_tensors import FakeTensorMode


@contextlib.contextmanager
def dry_run(model: torch.nn.Module) -> Iterator[FakeTensorMode]:
    """While this is open, tensors have shapes only, and models take the ways that they take when they are exported.

    What the model's code keeps in its modules meanwhile (frequencies for long texts) has no numbers: it is put back.

    Libraries ask torch whether they are being compiled and call other operators then: transformers' mixtures of experts
    call one that has a rule for shapes in every dtype, in place of one that has it for bfloat16 alone.
    """
    compiling = attributes_replaced([(torch.compiler, "is_compiling", lambda: True)])
    with attributes_preserved(model), torch.no_grad(), compiling, enable_fake_mode() as mode:
        yield mode
