"""Recurrent layers stay one call, and their sequence length stays what the user declared."""

from __future__ import annotations

import warnings

import pytest
import torch

import onnxport
from comparison import exported_and_compared

LAYERS = {
    "lstm": torch.nn.LSTM(3, 4, num_layers=2, bidirectional=True, batch_first=True),
    "lstm_projected": torch.nn.LSTM(3, 4, proj_size=2, batch_first=True),
    "gru": torch.nn.GRU(3, 4, bidirectional=True, batch_first=True),
    "rnn": torch.nn.RNN(3, 4, num_layers=2, batch_first=True),
    "rnn_relu": torch.nn.RNN(3, 4, nonlinearity="relu", batch_first=True),
}


@pytest.mark.parametrize("name", LAYERS)
def test_dynamic_length(name: str) -> None:
    layer = LAYERS[name].eval()
    examples = [(torch.randn(size),) for size in ((2, 5, 3), (1, 7, 3), (4, 2, 3))]
    exported_and_compared(layer, *examples, axes=[{0: "batch", 1: "length"}])


def test_kernels_are_as_before() -> None:
    before = dict(torch.ops.aten.lstm.input.py_kernels)
    onnxport.export(LAYERS["lstm"].eval(), (torch.randn(2, 5, 3),))
    assert torch.ops.aten.lstm.input.py_kernels == before


def test_nothing_is_said_of_what_torch_assigns_itself() -> None:
    layer = torch.nn.LSTM(4, 5)
    with warnings.catch_warnings(action="error"):
        exported_and_compared(layer, (torch.randn(3, 2, 4),))
