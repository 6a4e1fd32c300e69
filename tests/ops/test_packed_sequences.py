"""Packed sequences: torch.export cannot see through these operators, so their calls are put into captured graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

import onnxport

LENGTHS = torch.tensor([5, 3, 3, 1])
SIZES = torch.tensor([4, 3, 3, 1, 1])

OPS = torch.ops.aten


@torch.library.custom_op("packing::stand_in", mutates_args=())
def stand_in(tensors: Sequence[torch.Tensor], shapes: Sequence[int]) -> list[torch.Tensor]:
    """Stands where the operator under test will be; ``shapes`` are its results' shapes, with -1 between them."""
    return [torch.zeros(shape) for shape in _split(shapes)]


@stand_in.register_fake
def _(tensors: Sequence[torch.Tensor], shapes: Sequence[int]) -> list[torch.Tensor]:
    return [tensors[0].new_empty(shape) for shape in _split(shapes)]


def _split(shapes: Sequence[int]) -> list[list[int]]:
    result: list[list[int]] = [[]]
    for size in shapes:
        if size == -1:
            result.append([])
        else:
            result[-1].append(size)
    return result


class StandIn(nn.Module):
    """A module that calls the stand-in on its inputs and weights."""

    def __init__(self, weights: Sequence[torch.Tensor], shapes: Sequence[torch.Size]) -> None:
        super().__init__()
        self.weights = nn.ParameterList(weights)
        self.shapes = [size for shape in shapes for size in (*shape, -1)][:-1]

    def forward(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        return stand_in([*inputs, *self.weights], self.shapes)


def run(
    target: torch._ops.OpOverload,
    arguments: Callable[[list[Any]], tuple[Any, ...]],
    inputs: Sequence[torch.Tensor],
    expected: Sequence[torch.Tensor],
    weights: Sequence[torch.Tensor] = (),
) -> None:
    """Export a graph with one call of ``target`` and compare what it gives."""
    captured = torch.export.export(StandIn(weights, [x.shape for x in expected]).eval(), tuple(inputs))
    for node in captured.graph.nodes:
        if node.op == "call_function" and "stand_in" in str(node.target):
            node.args = arguments(list(node.args[0]))
            node.target = target
            node.meta["val"] = [x.to("meta") for x in expected]
    found = onnxport.export(captured)(*inputs)
    for ours, eager in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, eager, rtol=1e-5, atol=1e-5)


NETWORKS = [
    (OPS.lstm.data, nn.LSTM, {}),
    (OPS.lstm.data, nn.LSTM, {"num_layers": 2, "bidirectional": True}),
    (OPS.lstm.data, nn.LSTM, {"proj_size": 2, "bidirectional": True}),
    (OPS.gru.data, nn.GRU, {"bidirectional": True}),
    (OPS.rnn_tanh.data, nn.RNN, {}),
    (OPS.rnn_relu.data, nn.RNN, {"nonlinearity": "relu", "bidirectional": True}),
]


@pytest.mark.parametrize(("target", "module", "options"), NETWORKS)
def test_networks_over_packed_sequences(target: Any, module: Any, options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    network = module(3, 4, **options).eval()
    data = torch.randn(int(SIZES.sum()), 3)
    with torch.no_grad():
        result, finals = network(PackedSequence(data, SIZES))
    states = list(finals) if isinstance(finals, tuple) else [finals]
    start = [torch.zeros_like(state) for state in states]
    weights = [weight for layer in network.all_weights for weight in layer]
    layers, both = options.get("num_layers", 1), options.get("bidirectional", False)

    def arguments(given: list[Any]) -> tuple[Any, ...]:
        own = given[2 : 2 + len(start)]
        hx = own if len(start) > 1 else own[0]
        return given[0], given[1], hx, given[2 + len(start) :], True, layers, 0.0, False, both

    run(target, arguments, [data, SIZES, *start], [result.data, *states], weights)


@pytest.mark.parametrize("batch_first", [False, True])
def test_packing(batch_first: bool) -> None:
    x = torch.randn(4, 6, 3) if batch_first else torch.randn(6, 4, 3)
    packed = pack_padded_sequence(x, LENGTHS, batch_first)
    run(OPS._pack_padded_sequence.default, lambda given: (*given, batch_first), [x, LENGTHS], [packed.data, SIZES])


@pytest.mark.parametrize(("batch_first", "total"), [(False, -1), (True, -1), (True, 7)])
def test_unpacking(batch_first: bool, total: int) -> None:
    data = torch.randn(int(SIZES.sum()), 3)
    padded, lengths = pad_packed_sequence(
        PackedSequence(data, SIZES), batch_first, padding_value=-1.0, total_length=None if total < 0 else total
    )
    target = OPS._pad_packed_sequence.default
    run(target, lambda given: (*given, batch_first, -1.0, total), [data, SIZES], [padded, lengths])
