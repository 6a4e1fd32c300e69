"""Rows for aten/rnn.py."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from cases import R, case

KINDS: dict[str, tuple[type[nn.Module], dict[str, Any]]] = {
    "lstm": (nn.LSTM, {}),
    "gru": (nn.GRU, {}),
    "rnn_tanh": (nn.RNN, {}),
    "rnn_relu": (nn.RNN, {"nonlinearity": "relu"}),
}
CELLS: dict[str, tuple[type[nn.Module], dict[str, Any]]] = {
    "lstm": (nn.LSTMCell, {}),
    "gru": (nn.GRUCell, {}),
    "rnn_tanh": (nn.RNNCell, {}),
    "rnn_relu": (nn.RNNCell, {"nonlinearity": "relu"}),
}
VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "deep": {"num_layers": 2, "bidirectional": True},
    "no-bias": {"bias": False, "bidirectional": True},
    "batch-first": {"batch_first": True, "num_layers": 2},
}


class WithStates(nn.Module):
    """A network that is given its states."""

    def __init__(self, network: nn.Module, states: int) -> None:
        super().__init__()
        self.network = network
        self.states = states

    def forward(self, x: torch.Tensor, *states: torch.Tensor) -> Any:
        return self.network(x, states if self.states > 1 else states[0])


CASES = [
    *(
        case(
            f"aten::{kind}.input",
            module(3, 4, **fixed, **options),
            R("b", "n", 3) if options.get("batch_first") else R("n", "b", 3),
            name=name,
            opsets=name == "deep",
        )
        for kind, (module, fixed) in KINDS.items()
        for name, options in VARIANTS.items()
    ),
    case("aten::lstm.input", nn.LSTM(3, 4), R(5, 3), name="unbatched"),
    case("aten::lstm.input", nn.LSTM(3, 4, proj_size=2), R("n", "b", 3), name="projected"),
    case(
        "aten::lstm.input",
        nn.LSTM(3, 4, proj_size=2, num_layers=2, bidirectional=True, bias=False),
        R(5, "b", 3),
        name="projected-deep",
    ),
    case("aten::lstm.input", WithStates(nn.LSTM(3, 4), 2), R(5, "b", 3), R(1, "b", 4), R(1, "b", 4), name="states"),
    case("aten::gru.input", WithStates(nn.GRU(3, 4, 2), 1), R(5, "b", 3), R(2, "b", 4), name="states"),
    *(case(f"aten::{kind}_cell", module(3, 4, **fixed), R("b", 3)) for kind, (module, fixed) in CELLS.items()),
    case("aten::gru_cell", nn.GRUCell(3, 4, bias=False), R(3), name="unbatched"),
    case("aten::lstm_cell", WithStates(nn.LSTMCell(3, 4), 2), R("b", 3), R("b", 4), R("b", 4), name="states"),
]
