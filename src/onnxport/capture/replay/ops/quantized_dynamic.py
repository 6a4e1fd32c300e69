"""Layers whose weights are quantized and whose inputs and results are not: each input by the range that it has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, cast

import torch
import torch.nn.functional as F

from onnxport.capture.replay.interpreter import NodeCall, handles
from onnxport.capture.replay.ops.grids import affine_operators, grids_of, weight_of
from onnxport.capture.replay.ops.quantized import Packed, unpacked
from onnxport.capture.replay.values.stand_ins import ReplayValue, materialized
from onnxport.torch_internals.fake_tensors import disable_current_modes

Range = tuple[torch.Tensor, torch.Tensor]
"""The scale and the zero point that were chosen for a tensor."""


def _rounded(x: torch.Tensor, reduce_range: bool) -> tuple[torch.Tensor, Range]:
    """An input as the nearest of the numbers that its range is divided into."""
    # With the sums of products in mind, one bit less, on processors that need it.
    high = 127 if reduce_range and torch.backends.quantized.engine != "qnnpack" else 255
    eps = torch.finfo(torch.float32).eps
    scale, zero_point = affine_operators().choose_qparams.tensor(x, 0, high, eps, torch.uint8)
    return _nearest(x, (scale, zero_point), high), (scale, zero_point)


def _nearest(x: torch.Tensor, parameters: Range, high: int) -> torch.Tensor:
    operators = affine_operators()
    integers = operators.quantize_per_tensor.tensor(x, *parameters, 0, high, torch.uint8)
    return operators.dequantize_per_tensor.tensor(integers, *parameters, 0, high, torch.uint8)


_CONVOLUTIONS = [f"{name}{axes}d" for name in ("conv", "conv_transpose") for axes in (1, 2, 3)]


@handles(
    "quantized::linear_dynamic",
    "quantized::linear_relu_dynamic",
    *(f"quantized::{name}_dynamic" for name in _CONVOLUTIONS),
)
def _layer(call: NodeCall, x: torch.Tensor, packed: Packed, reduce_range: bool = False) -> torch.Tensor:
    call.trace()
    kind = call.node.kind().removesuffix("_dynamic")
    rounded, parameters = _rounded(x, reduce_range)
    y = unpacked(grids_of(call.run), kind.removesuffix("_relu"), packed)(rounded)
    if "conv" in kind:
        # torch's kernel rounds the result too, and by the range of the input.
        return _nearest(y, parameters, 255)
    return y.relu() if kind.endswith("_relu") else y


@handles("quantized::linear_dynamic_fp16", "quantized::linear_relu_dynamic_fp16")
def _half_precision(call: NodeCall, x: torch.Tensor, packed: Packed) -> torch.Tensor:
    """A layer whose weights are kept in float16."""
    call.trace()
    weight, bias = _half_weight(packed)
    y = F.linear(x, weight(), bias)
    return y.relu() if "relu" in call.node.kind() else y


# --- one step of a recurrent layer -----------------------------------------------------------------------------------


def _gates(call: NodeCall, x: torch.Tensor, hidden: torch.Tensor, w_ih: Packed, w_hh: Packed) -> list[torch.Tensor]:
    """What input and state contribute to the gates; the packed weights hold the biases."""
    call.trace()
    grids = grids_of(call.run)
    pairs = ((x, w_ih), (hidden, w_hh))
    return [unpacked(grids, "quantized::linear", packed)(_rounded(value, True)[0]) for value, packed in pairs]


@handles("quantized::quantized_lstm_cell_dynamic")
def _lstm_cell(
    call: NodeCall, x: torch.Tensor, states: list[torch.Tensor], w_ih: Packed, w_hh: Packed, *_: ReplayValue
) -> list[torch.Tensor]:
    hidden, cell = states
    inputs, recurrent = _gates(call, x, hidden, w_ih, w_hh)
    enter, keep, candidate, leave = (inputs + recurrent).chunk(4, 1)
    cell = keep.sigmoid() * cell + enter.sigmoid() * candidate.tanh()
    return [leave.sigmoid() * cell.tanh(), cell]


@handles("quantized::quantized_gru_cell_dynamic")
def _gru_cell(
    call: NodeCall, x: torch.Tensor, hidden: torch.Tensor, w_ih: Packed, w_hh: Packed, *_: ReplayValue
) -> torch.Tensor:
    inputs, recurrent = _gates(call, x, hidden, w_ih, w_hh)
    (reset_x, update_x, new_x), (reset_h, update_h, new_h) = inputs.chunk(3, 1), recurrent.chunk(3, 1)
    reset, update = (reset_x + reset_h).sigmoid(), (update_x + update_h).sigmoid()
    new = (new_x + reset * new_h).tanh()
    return (hidden - new) * update + new


_ACTIVATIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "quantized::quantized_rnn_tanh_cell_dynamic": torch.tanh,
    "quantized::quantized_rnn_relu_cell_dynamic": torch.relu,
}


@handles(*_ACTIVATIONS)
def _rnn_cell(
    call: NodeCall, x: torch.Tensor, hidden: torch.Tensor, w_ih: Packed, w_hh: Packed, *_: ReplayValue
) -> torch.Tensor:
    inputs, recurrent = _gates(call, x, hidden, w_ih, w_hh)
    return _ACTIVATIONS[call.node.kind()](inputs + recurrent)


# --- recurrent layers ------------------------------------------------------------------------------------------------


@handles("aten::quantized_lstm", "aten::quantized_gru")
def _recurrent_layer(call: NodeCall, *values: ReplayValue) -> ReplayValue:
    """The layer with the real numbers of its weights.

    torch's kernel rounds input and state at each step, to the range that they have there; this is closer to the layer
    before it was quantized, and one operator of ONNX.
    """
    call.trace()
    given = [materialized(value) for value in values]
    is_packed = isinstance(given[1], torch.Tensor) and given[1].dtype == torch.int64
    at = 3 if is_packed else 2
    layers = [_cell_weights(packed) for packed in cast(list[_CellWeights], values[at])]
    has_biases = all(bias is not None for *_, bias in layers[0])
    weights = [part() for pair in layers for part, _ in pair]
    biases = [bias for pair in layers for _, bias in pair if has_biases]
    flat = [tensor for n in range(len(layers)) for tensor in (*weights[2 * n : 2 * n + 2], *biases[2 * n : 2 * n + 2])]
    operator = getattr(torch.ops.aten, call.node.kind().removeprefix("aten::quantized_"))
    overload = operator.data if is_packed else operator.input
    options = given[at + 2 : at + (6 if is_packed else 7)]
    result: ReplayValue = overload(*given[:at], flat, has_biases, *options)
    return result


class _CellWeights(Protocol):
    """What is packed for a layer in one direction: its kind, its matrices, and what the matrices hold as well."""

    def __getstate__(self) -> tuple[tuple[str, object, object, object, list[Packed]], str]: ...


def _cell_weights(packed: _CellWeights) -> list[tuple[Callable[[], torch.Tensor], torch.Tensor | None]]:
    """The weights for input and state of one layer in one direction, each with its bias."""
    kind, _, _, _, matrices = packed.__getstate__()[0]
    return [_half_weight(matrix) if "fp16" in kind else _integer_weight(matrix) for matrix in matrices]


def _integer_weight(packed: Packed) -> tuple[Callable[[], torch.Tensor], torch.Tensor | None]:
    with disable_current_modes():
        weight, bias = torch.ops.quantized.linear_unpack(packed)
        return weight_of(weight), None if bias is None else bias.detach()


def _half_weight(packed: Packed) -> tuple[Callable[[], torch.Tensor], torch.Tensor | None]:
    with disable_current_modes():
        weight, bias = torch.ops.quantized.linear_unpack_fp16(packed)
        halves, offset = weight.detach().to(torch.float16), None if bias is None else bias.detach()
    return lambda: halves.to(torch.float32), offset


# --- tables ----------------------------------------------------------------------------------------------------------


def _table(packed: Packed) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The integers of a table, and for each row a scale and a zero point, which need not be whole."""
    with disable_current_modes():
        rows = torch.ops.quantized.embedding_bag_unpack(packed)
        parameters = (rows.q_per_channel_scales(), rows.q_per_channel_zero_points())
        scales, zero_points = (numbers.to(torch.float32).unsqueeze(1) for numbers in parameters)
        integers = rows.int_repr()
        if rows.dtype == torch.quint4x2:
            # Two numbers in a byte, the first of them in its lower half.
            halves = torch.stack([integers & 15, integers >> 4], -1)
            integers = halves.flatten()[: rows.numel()].reshape(rows.shape)
        return integers, scales, zero_points


@handles("quantized::embedding_byte", "quantized::embedding_4bit")
def _embedding(call: NodeCall, packed: Packed, indices: torch.Tensor, *_: ReplayValue) -> torch.Tensor:
    call.trace()
    integers, scales, zero_points = (F.embedding(indices, numbers) for numbers in _table(packed))
    return (integers.to(torch.float32) - zero_points) * scales


@handles("quantized::embedding_bag_byte", "quantized::embedding_bag_4bit")
def _embedding_bag(
    call: NodeCall,
    packed: Packed,
    indices: torch.Tensor,
    offsets: torch.Tensor | None,
    scale_grad_by_freq: bool,
    mode: int,
    pruned_weights: bool,
    per_sample_weights: torch.Tensor | None,
    compressed_indices: torch.Tensor | None,
    include_last_offset: bool,
) -> torch.Tensor:
    """Sums of rows, whatever the mode says."""
    call.trace()
    integers, scales, zero_points = _table(packed)
    # By an operator that is captured: a cast of what came with the model would be computed at once.
    real = affine_operators().dequantize_per_tensor.default(integers, 1.0, 0, 0, 255, torch.uint8)
    rows = (real - zero_points) * scales
    return F.embedding_bag(
        indices,
        rows,
        offsets,
        mode="sum",
        per_sample_weights=per_sample_weights,
        include_last_offset=include_last_offset,
    )
