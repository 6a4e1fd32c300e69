"""The enumerations of the TorchScript-era interface, with the values that ``torch.onnx`` gives them."""

from __future__ import annotations

import enum

import torch

producer_name = "pytorch"
"""Who a model says it was made by: readers of models look for this name."""

producer_version = torch.__version__
"""The version of torch, which a model says it was made with."""


class TrainingMode(enum.IntEnum):
    """The mode a model is exported in.

    >>> from onnxport import TrainingMode
    >>> TrainingMode.EVAL.value
    0
    """

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(enum.IntEnum):
    """What becomes of operators that have no ONNX form."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3
