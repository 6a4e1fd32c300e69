"""Embeddings of bitsandbytes with two numbers in a byte: rows are looked up packed, and become numbers afterwards."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch.nn.functional import embedding

from onnxport.capture.patches.replacing import attributes_replaced

_HOME = "bitsandbytes.nn"


@contextlib.contextmanager
def rows_of_packed_tables(model: object) -> Iterator[None]:
    """While this is open, 4-bit embeddings of a model compute as many rows as there are indices, however many."""
    home = sys.modules.get(_HOME)
    kind = None if home is None else home.Embedding4bit
    if kind is None or not isinstance(model, torch.nn.Module) or not any(isinstance(m, kind) for m in model.modules()):
        yield
        return
    with attributes_replaced([(kind, "_forward_with_partial_dequantize", _rows)]):
        yield


def _rows(layer: Any, indices: torch.Tensor) -> torch.Tensor:
    state, count, width = layer.weight.quant_state, layer.num_embeddings, layer.embedding_dim
    blocks = width // state.blocksize
    packed = embedding(indices, layer.weight.data.view(torch.uint8).view(count, width // 2))
    places = torch.stack([packed >> 4, packed & 15], -1).flatten(-2).to(torch.int64)
    largest = embedding(indices, state.absmax.view(count, blocks))
    real: torch.Tensor = state.code[places].unflatten(-1, (blocks, state.blocksize)) * largest.unsqueeze(-1)
    return real.flatten(-2).to(layer.dtype)
