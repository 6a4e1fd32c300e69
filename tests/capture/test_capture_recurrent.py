"""Recurrent layers stay one call, and their sequence length stays what the user declared."""

from __future__ import annotations

import warnings

import pytest
import torch

import onnxport

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
    program = onnxport.export(layer, (torch.randn(2, 5, 3),), dynamic_shapes=({0: "batch", 1: "length"},))
    for size in ((2, 5, 3), (1, 7, 3), (4, 2, 3)):
        x = torch.randn(size)
        with torch.no_grad():
            expected = torch.utils._pytree.tree_leaves(layer(x))
        for ours, eager in zip(program(x), expected, strict=True):
            torch.testing.assert_close(ours, eager, rtol=1e-5, atol=1e-5)


def test_kernels_are_as_before() -> None:
    before = dict(torch.ops.aten.lstm.input.py_kernels)
    onnxport.export(LAYERS["lstm"].eval(), (torch.randn(2, 5, 3),))
    assert torch.ops.aten.lstm.input.py_kernels == before


def test_nothing_is_said_of_what_torch_assigns_itself() -> None:
    layer = torch.nn.LSTM(4, 5)
    with warnings.catch_warnings(action="error"):
        onnxport.export(layer, (torch.randn(3, 2, 4),))
