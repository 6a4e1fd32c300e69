"""Models of transformers whose code branches by sizes or positions, on both sides of each branch."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from transformers import Phi3Config, Phi3Model

import onnxport
from comparison import assert_close

LONG_ROPE = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0, 1.1, 1.2, 1.3],
    "long_factor": [2.0, 2.1, 2.2, 2.3],
    "original_max_position_embeddings": 16,
}


def long_rope() -> nn.Module:
    sizes: dict[str, Any] = {"vocab_size": 50, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1}
    heads: dict[str, Any] = {"num_attention_heads": 4, "num_key_value_heads": 2, "pad_token_id": 0}
    limits: dict[str, Any] = {"max_position_embeddings": 64, "original_max_position_embeddings": 16}
    return Phi3Model(Phi3Config(**sizes, **heads, **limits, rope_parameters=LONG_ROPE, use_cache=False)).eval()


class Hidden(nn.Module):
    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        hidden: torch.Tensor = self.model(input_ids=input_ids).last_hidden_state
        return hidden


@pytest.mark.filterwarnings("ignore::onnxport.errors.OnnxExporterWarning")
def test_long_and_short_tables_of_rotary_positions() -> None:
    torch.manual_seed(0)
    model = Hidden(long_rope())
    program = onnxport.export(model, (torch.randint(3, 50, (2, 8)),), dynamic_shapes=({0: "batch", 1: "sequence"},))
    for length in (1, 16, 17, 40):
        ids = torch.randint(3, 50, (3, length))
        assert_close(program(ids)[0], model(ids).detach())


class Remembering(nn.Module):
    """Keeps what it computes on one way, as tables of positions are kept."""

    table: torch.Tensor | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.table is None:
            self.table = torch.arange(4.0) * 2
        return x + self.table if x.shape[0] > 5 else x - self.table


@pytest.mark.filterwarnings("ignore:The tensor attribute self.table was assigned")
def test_a_way_does_not_find_what_another_left_in_the_model() -> None:
    model = Remembering()
    program = onnxport.export(model, (torch.randn(3, 4),), dynamic_shapes=({0: "rows"},))
    assert model.table is None
    for rows in (1, 5, 6, 9):
        x = torch.randn(rows, 4)
        assert_close(program(x)[0], model(x))
