"""The mode a model is exported in, and back to how it was."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import SupportsInt

import torch

from onnxport.export_types import TrainingMode
from onnxport.symbolic.session.call_options import current_options, with_call_options


@contextlib.contextmanager
def select_model_mode_for_export(model: object, mode: TrainingMode | None) -> Iterator[None]:
    """Put a model into a mode for exporting; afterwards each of its modules is in the mode it was in.

    Args:
        model: The model; what has no modes is left alone.
        mode: ``EVAL``, ``TRAINING``, or ``PRESERVE`` (and None) to leave it as it is.

    >>> import torch, onnxport
    >>> model = torch.nn.Dropout()
    >>> with onnxport.select_model_mode_for_export(model, onnxport.TrainingMode.EVAL):
    ...     model.training
    False
    >>> model.training
    True
    """
    chosen = TrainingMode.PRESERVE if mode is None else _checked(mode)
    # A frozen script has no mode any more.
    modules = list(model.modules()) if isinstance(model, torch.nn.Module) and hasattr(model, "training") else []
    saved = [module.training for module in modules]
    try:
        if modules and chosen is not TrainingMode.PRESERVE:
            modules[0].train(chosen is TrainingMode.TRAINING)
        with with_call_options(replace(current_options(), training=chosen)):
            yield
    finally:
        for module, training in zip(modules, saved, strict=True):
            if module.training != training:
                module.training = training


def _checked(mode: SupportsInt) -> TrainingMode:
    try:
        return TrainingMode(int(mode))
    except (TypeError, ValueError) as error:
        raise TypeError(f"`mode` is a TrainingMode, not {mode!r}.") from error
