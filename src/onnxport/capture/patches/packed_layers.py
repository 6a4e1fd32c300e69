"""Quantized layers over packed sequences, as the tracer sees them: only run time knows the number of sequences."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch.ao.nn.quantized import dynamic
from torch.nn.utils.rnn import PackedSequence

from onnxport.capture.patches.replacing import attributes_replaced

State = torch.Tensor | tuple[torch.Tensor, torch.Tensor]


def batches_of_any_size() -> contextlib.AbstractContextManager[None]:
    """While the block runs, such layers make their first states for as many sequences as there will be."""
    return attributes_replaced([(kind, "forward_packed", _forward_packed) for kind in (dynamic.LSTM, dynamic.GRU)])


def _forward_packed(layer: Any, packed: PackedSequence, hx: State | None = None) -> tuple[PackedSequence, State]:
    """What the layer does, with the number of sequences in a tensor: ``int`` of it would be the example's."""
    count = packed.batch_sizes[0]
    rows, states = layer.forward_impl(packed.data, hx, packed.batch_sizes, count, packed.sorted_indices)
    return packed._replace(data=rows), layer.permute_hidden(states, packed.unsorted_indices)
