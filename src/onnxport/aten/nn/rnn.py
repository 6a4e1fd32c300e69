"""Recurrent networks: LSTM, GRU and the plain RNN, whole or as single cells, padded or packed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from onnxport.aten.nn.packed import packed_rows, packing_of, padded_rows, within_lengths
from onnxport.translate import Builder, Int, Tensor, translates
from onnxport.translate.regions import region, region_input


@dataclass(frozen=True)
class Unit:
    """An ONNX operator and the order in which it wants torch's gates."""

    op_type: str
    gates: tuple[int, ...] = (0,)
    activation: str = ""

    @property
    def states(self) -> int:
        """How many states it carries."""
        return 2 if self.op_type == "LSTM" else 1


# torch orders the gates of an LSTM input, forget, cell, output and those of a GRU reset, update, new.
LSTM = Unit("LSTM", (0, 3, 1, 2))
GRU = Unit("GRU", (1, 0, 2))
RNN_TANH = Unit("RNN")
RNN_RELU = Unit("RNN", activation="Relu")


@dataclass(frozen=True)
class Direction:
    """The weights of one layer in one direction, as torch holds them."""

    w_ih: Tensor
    w_hh: Tensor
    b_ih: Tensor | None = None
    b_hh: Tensor | None = None
    w_hr: Tensor | None = None


def _directions(params: Sequence[Tensor], has_biases: bool, count: int) -> list[Direction]:
    each = len(params) // count
    result = []
    for start in range(0, len(params), each):
        own = list(params[start : start + each])
        b_ih, b_hh = (own[2], own[3]) if has_biases else (None, None)
        result.append(Direction(own[0], own[1], b_ih, b_hh, own[-1] if each in (3, 5) else None))
    return result


def _gates(op: Builder, tensors: Sequence[Tensor], unit: Unit, leading: Sequence[int], behind: Sequence[Int]) -> Tensor:
    """Tensors whose first axis is gate by gate, joined and with the gates in ONNX's order."""
    joined = op.Concat(*tensors, axis=0) if len(tensors) > 1 else tensors[0]
    count = len(unit.gates)
    hidden = tensors[0].shape[0] // count
    if unit.gates != tuple(range(count)):
        split = op.reshape(joined, [*leading, count, hidden, *behind])
        axis = len(leading)
        joined = op.Gather(split, op.const(unit.gates, torch.int64), axis=axis).with_shape(split.shape)
    rows = hidden * count
    if len(leading) == 2:
        rows, leading = rows * leading[1], leading[:1]
    return op.reshape(joined, [*leading, rows, *behind])


def _layer(
    op: Builder,
    unit: Unit,
    x: Tensor,
    states: Sequence[Tensor],
    directions: Sequence[Direction],
    lengths: Tensor | None = None,
) -> tuple[Tensor, list[Tensor]]:
    """One layer over [time, batch, features]: its output with the directions side by side, and its final states."""
    if directions[0].w_hr is not None:
        return _projected_layer(op, x, states, directions, lengths)
    count = len(directions)
    steps, batch, _ = x.shape
    hidden = directions[0].w_hh.shape[1]
    weights = _gates(op, [d.w_ih for d in directions], unit, [count], [directions[0].w_ih.shape[1]])
    recurrent = _gates(op, [d.w_hh for d in directions], unit, [count], [hidden])
    biases = [b for d in directions for b in (d.b_ih, d.b_hh) if b is not None]
    bias = _gates(op, biases, unit, [count, 2], []) if biases else None
    # torch resets the hidden part of a GRU's new gate after its matrix product.
    outputs = op.multi(
        unit.op_type,
        x,
        weights,
        recurrent,
        bias,
        lengths,
        *states,
        outputs=1 + unit.states,
        hidden_size=hidden,
        direction="bidirectional" if count == 2 else None,
        linear_before_reset=1 if unit.op_type == "GRU" else None,
        activations=[unit.activation] * count if unit.activation else None,
    )
    sequence = outputs[0].with_shape([steps, count, batch, hidden])
    if count == 1:
        sequence = op.squeeze(sequence, [1])
    else:
        sequence = op.reshape(op.transpose(sequence, [0, 2, 1, 3]), [steps, batch, count * hidden])
    return sequence, [final.with_shape([count, batch, hidden]) for final in outputs[1:]]


def _projected_layer(
    op: Builder, x: Tensor, states: Sequence[Tensor], directions: Sequence[Direction], lengths: Tensor | None
) -> tuple[Tensor, list[Tensor]]:
    """An LSTM whose hidden state is projected, which ONNX's has no weights for: a Scan in each direction."""
    steps, batch, _ = x.shape
    sequences, finals = [], []
    for position, direction in enumerate(directions):
        assert direction.w_hr is not None
        start = [_part(op, state, position, len(directions)) for state in states]
        gates = op.MatMul(x, op.transpose(direction.w_ih, [1, 0]))
        for bias in (direction.b_ih, direction.b_hh):
            gates = gates if bias is None else op.Add(gates, bias)
        rows = direction.w_ih.shape[0]
        scanned = [gates.with_shape([steps, batch, rows])]
        if lengths is not None:
            scanned.append(within_lengths(op, lengths, steps))
        inner = op.subgraph()
        carried = [region_input(inner, "state", item.dtype, item.shape) for item in start]
        elements = [region_input(inner, "element", item.dtype, item.shape[1:]) for item in scanned]
        hidden, cell = _lstm_step(inner, direction, elements[0], *carried)
        shown = hidden
        if lengths is not None:
            inside = inner.unsqueeze(elements[1], [1])
            shown = inner.Where(inside, hidden, inner.scalar(0, hidden.dtype))
            hidden, cell = (inner.Where(inside, new, old) for new, old in zip((hidden, cell), carried, strict=True))
        body = region(inner, "body", [*carried, *elements], [hidden, cell, shown])
        backwards = [1] if position == 1 else None
        h, c, sequence = op.multi(
            "Scan",
            *start,
            *scanned,
            outputs=3,
            out_dtypes=[x.dtype] * 3,
            body=body,
            num_scan_inputs=len(scanned),
            scan_input_directions=None if backwards is None else backwards * len(scanned),
            scan_output_directions=backwards,
        )
        sequences.append(sequence)
        finals.append([h.with_shape(start[0].shape), c.with_shape(start[1].shape)])
    width = directions[0].w_hr.shape[0] * len(directions) if directions[0].w_hr is not None else 0
    joined = sequences[0] if len(sequences) == 1 else op.Concat(*sequences, axis=2)
    stacked = [_stack(op, [final[which] for final in finals]) for which in range(2)]
    return joined.with_shape([steps, batch, width]), stacked


def _lstm_step(op: Builder, weights: Direction, gates: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    assert weights.w_hr is not None
    total = op.Add(gates, op.MatMul(hidden, op.transpose(weights.w_hh, [1, 0])))
    size = weights.w_hh.shape[0] // 4
    i, f, g, o = op.multi("Split", total, [size] * 4, axis=1, outputs=4)
    cell = op.Add(op.Mul(op.Sigmoid(f), cell), op.Mul(op.Sigmoid(i), op.Tanh(g)))
    hidden = op.Mul(op.Sigmoid(o), op.Tanh(cell))
    return op.MatMul(hidden, op.transpose(weights.w_hr, [1, 0])), cell


def _part(op: Builder, state: Tensor, position: int, count: int) -> Tensor:
    """One direction of [directions, batch, hidden] as [batch, hidden]."""
    if count == 1:
        return op.squeeze(state, [0])
    return op.Gather(state, op.const(position, torch.int64), axis=0).with_shape(state.shape[1:])


def _stack(op: Builder, states: Sequence[Tensor]) -> Tensor:
    raised = [op.unsqueeze(state, [0]) for state in states]
    return raised[0] if len(raised) == 1 else op.Concat(*raised, axis=0).with_shape([len(raised), *states[0].shape])


def _layers(
    op: Builder,
    unit: Unit,
    x: Tensor,
    states: Sequence[Tensor],
    params: Sequence[Tensor],
    has_biases: bool,
    num_layers: int,
    dropout: float,
    train: bool,
    bidirectional: bool,
    lengths: Tensor | None = None,
) -> tuple[Tensor, list[Tensor]]:
    """All layers over [time, batch, features]; states are [layers · directions, batch, hidden]."""
    count = 2 if bidirectional else 1
    directions = _directions(params, has_biases, num_layers * count)
    pieces = [_per_layer(op, state, num_layers, count) for state in states]
    finals: list[list[Tensor]] = []
    for layer in range(num_layers):
        if layer > 0 and train and dropout > 0:
            x = op.Dropout(x, op.scalar(dropout, torch.float32), op.scalar(True, torch.bool)).with_shape(x.shape)
        own = directions[layer * count : (layer + 1) * count]
        x, final = _layer(op, unit, x, [piece[layer] for piece in pieces], own, lengths)
        finals.append(final)
    joined = [
        finals[0][which] if num_layers == 1 else op.Concat(*(final[which] for final in finals), axis=0)
        for which in range(unit.states)
    ]
    return x, joined


def _per_layer(op: Builder, state: Tensor, layers: int, count: int) -> list[Tensor]:
    if layers == 1:
        return [state]
    parts = op.multi("Split", state, [count] * layers, axis=0, outputs=layers)
    return [part.with_shape([count, *state.shape[1:]]) for part in parts]


def _register(name: str, unit: Unit) -> None:
    def padded(
        op: Builder,
        input: Tensor,
        hx: Tensor | Sequence[Tensor],
        params: Sequence[Tensor],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> Sequence[Tensor]:
        states = [hx] if isinstance(hx, Tensor) else hx
        x = op.transpose(input, [1, 0, 2]) if batch_first else input
        result, finals = _layers(op, unit, x, states, params, has_biases, num_layers, dropout, train, bidirectional)
        return op.transpose(result, [1, 0, 2]) if batch_first else result, *finals

    def packed(
        op: Builder,
        data: Tensor,
        batch_sizes: Tensor,
        hx: Tensor | Sequence[Tensor],
        params: Sequence[Tensor],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
    ) -> Sequence[Tensor]:
        states = [hx] if isinstance(hx, Tensor) else hx
        packing = packing_of(op, batch_sizes, states[0].shape[1])
        x = padded_rows(op, data, packing)
        lengths = op.cast(packing.lengths, torch.int32)
        result, finals = _layers(
            op, unit, x, states, params, has_biases, num_layers, dropout, train, bidirectional, lengths
        )
        return packed_rows(op, result, packing), *finals

    translates(f"aten::{name}.input")(padded)
    translates(f"aten::{name}.data")(packed)


_register("lstm", LSTM)
_register("gru", GRU)
_register("rnn_tanh", RNN_TANH)
_register("rnn_relu", RNN_RELU)


# Cells


def _cell(
    op: Builder,
    unit: Unit,
    x: Tensor,
    states: Sequence[Tensor],
    weights: Direction,
) -> list[Tensor]:
    """One step: a sequence of length 1. Unbatched states get a batch of one."""
    unbatched = x.rank == 1
    raised = [op.unsqueeze(item, [0, 1] if unbatched else [0]) for item in (x, *states)]
    _, finals = _layer(op, unit, raised[0], raised[1:], [weights])
    return [op.squeeze(final, [0, 1] if unbatched else [0]) for final in finals]


@translates("aten::lstm_cell")
def lstm_cell(
    op: Builder,
    input: Tensor,
    hx: Sequence[Tensor],
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None,
    b_hh: Tensor | None,
) -> Sequence[Tensor]:
    return _cell(op, LSTM, input, hx, Direction(w_ih, w_hh, b_ih, b_hh))


def _register_cell(name: str, unit: Unit) -> None:
    def cell(
        op: Builder,
        input: Tensor,
        hx: Tensor,
        w_ih: Tensor,
        w_hh: Tensor,
        b_ih: Tensor | None,
        b_hh: Tensor | None,
    ) -> Tensor:
        return _cell(op, unit, input, [hx], Direction(w_ih, w_hh, b_ih, b_hh))[0]

    translates(f"aten::{name}_cell")(cell)


_register_cell("gru", GRU)
_register_cell("rnn_tanh", RNN_TANH)
_register_cell("rnn_relu", RNN_RELU)
