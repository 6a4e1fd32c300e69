"""Quantized tensors in plain modules: layers of torch.ao, ``torch.ops.quantized`` and functions of quantized tensors.

Each row is a function of a tensor and of layers. Results may differ by one step of the last grid where a value lies in
the middle between two, and weights are stored as integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir
import pytest
import torch
import torch.ao.nn.intrinsic.quantized as nniq
import torch.ao.nn.quantized as nnq
import torch.ao.nn.quantized.dynamic as nnqd
import torch.nn.functional as F
from torch import Tensor, nn
from torch.ao.quantization import quantize_dynamic
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import onnxport
from comparison import assert_agrees, eager_result

pytestmark = pytest.mark.filterwarnings("ignore")
QF: Any = nnq.functional
Q = torch.ops.quantized
STEP = 0.1
"""The largest step of a grid in these rows."""


@pytest.fixture(autouse=True, scope="module")
def _engine() -> Iterator[None]:
    """The kernels that leave a bit unused: with all of them, onnxruntime's sums of products may saturate."""
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = "fbgemm"
    yield
    torch.backends.quantized.engine = before


class Row(nn.Module):
    def __init__(self, function: Callable[..., Any], layers: list[nn.Module]) -> None:
        super().__init__()
        self.function, self.layers = function, nn.ModuleList(layers)

    def forward(self, x: Tensor) -> Any:
        return self.function(x, *self.layers)


@dataclass(frozen=True)
class Case:
    """A function, the shape of an item of its argument (None: indices), and what makes its layers."""

    function: Callable[..., Any]
    shape: tuple[int, ...] | None
    makers: tuple[Callable[[], nn.Module], ...] = ()

    def model(self) -> Row:
        torch.manual_seed(0)
        return Row(self.function, [make() for make in self.makers]).eval()

    def example(self, size: int) -> Tensor:
        if self.shape is None:
            return torch.randint(0, 10, (size, 4))
        return torch.randn((size, *self.shape))


def q(x: Tensor, scale: float = 0.05, zero_point: int = 64, dtype: torch.dtype = torch.quint8) -> Tensor:
    return torch.quantize_per_tensor(x, scale, zero_point, dtype)


def whole(*shape: int) -> Tensor:
    return torch.quantize_per_tensor(torch.randn(shape) * 0.3, 0.01, 0, torch.qint8)


def by_channel(*shape: int) -> Tensor:
    scales, zeros = torch.rand(shape[0]) * 0.01 + 0.005, torch.zeros(shape[0], dtype=torch.long)
    return torch.quantize_per_channel(torch.randn(shape) * 0.3, scales, zeros, 0, torch.qint8)


def linear(kind: Any = nnq.Linear, weight: Any = by_channel, bias: bool = True) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        layer = kind(8, 5)
        layer.set_weight_bias(weight(5, 8), torch.randn(5) if bias else None)
        layer.scale, layer.zero_point = STEP, 60
        return layer

    return make


def conv(kind: Any, size: int = 3, channels: int = 4, **options: Any) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        layer = kind(3, channels, size, **options)
        shape = layer.weight().shape
        layer.set_weight_bias(
            whole(*shape) if "Transpose" in kind.__name__ else by_channel(*shape), torch.randn(channels)
        )
        layer.scale, layer.zero_point = STEP, 60
        return layer

    return make


def dynamic(layer: Callable[[], nn.Module], dtype: torch.dtype = torch.qint8) -> Callable[[], nn.Module]:
    def make() -> nn.Module:
        kinds = {nn.Linear, nn.LSTMCell, nn.GRUCell, nn.RNNCell}
        return quantize_dynamic(nn.Sequential(layer()), kinds, dtype=dtype)[0]

    return make


def four_bits(kind: Any) -> Any:
    torch.manual_seed(0)
    scales, zero_points = torch.rand(10) * 0.1 + 0.1, torch.rand(10) * 8
    layer = kind(10, 12, dtype=torch.quint4x2, **({"mode": "sum"} if kind is nnq.EmbeddingBag else {}))
    layer.set_weight(torch.quantize_per_channel(torch.randn(10, 12), scales, zero_points, 0, torch.quint4x2))
    return layer


def numbers(size: int) -> nn.Parameter:
    return nn.Parameter(torch.rand(size) + 0.5)


def run(x: Tensor, layer: nn.Module) -> Any:
    return layer(q(x)).dequantize()


def first(x: Tensor, layer: nn.Module) -> Any:
    return layer(x)[0]


IMAGE, LINE, VOLUME, ROWS, FEATURES = (3, 6, 6), (3, 9), (3, 4, 5, 5), (4,), (8,)
CASES: dict[str, Case] = {
    "quantize": Case(lambda x: q(x).dequantize(), ROWS),
    "quantize-int8": Case(lambda x: torch.dequantize(q(x, 0.05, 0, torch.qint8)), ROWS),
    "quantize-channels": Case(
        lambda x: torch.quantize_per_channel(
            x, torch.tensor([0.1, 0.05, 0.02]), torch.tensor([10, 0, 5]), 1, torch.quint8
        ).dequantize(),
        IMAGE,
    ),
    "int_repr": Case(lambda x: q(x).int_repr(), ROWS),
    "q_scale": Case(lambda x: q(x).dequantize() * q(x).q_scale() + q(x).q_zero_point(), ROWS),
    "linear": Case(run, FEATURES, (linear(),)),
    "linear-whole": Case(run, FEATURES, (linear(weight=whole),)),
    "linear-without-bias": Case(run, FEATURES, (linear(bias=False),)),
    "linear-relu": Case(run, FEATURES, (linear(nniq.LinearReLU),)),
    "linear-more-axes": Case(run, (2, 8), (linear(),)),
    "linear-function": Case(
        lambda x: QF.linear(q(x), WEIGHT, torch.zeros(5), scale=STEP, zero_point=60).dequantize(), FEATURES
    ),
    "conv1d": Case(run, LINE, (conv(nnq.Conv1d, padding=1),)),
    "conv2d": Case(run, IMAGE, (conv(nnq.Conv2d, stride=2, padding=1),)),
    "conv2d-groups": Case(run, IMAGE, (conv(nnq.Conv2d, 2, 6, dilation=2, groups=3),)),
    "conv2d-reflect": Case(run, IMAGE, (conv(nnq.Conv2d, padding=1, padding_mode="reflect"),)),
    "conv3d": Case(run, VOLUME, (conv(nnq.Conv3d),)),
    "conv1d-relu": Case(run, LINE, (conv(nniq.ConvReLU1d),)),
    "conv2d-relu": Case(run, IMAGE, (conv(nniq.ConvReLU2d),)),
    "conv3d-relu": Case(run, VOLUME, (conv(nniq.ConvReLU3d),)),
    "conv2d-function": Case(
        lambda x: QF.conv2d(q(x), FILTERS, torch.zeros(4), scale=STEP, zero_point=60).dequantize(), IMAGE
    ),
    "transposed-conv1d": Case(run, LINE, (conv(nnq.ConvTranspose1d, stride=2),)),
    "transposed-conv2d": Case(run, IMAGE, (conv(nnq.ConvTranspose2d, stride=2, output_padding=1),)),
    "transposed-conv3d": Case(run, VOLUME, (conv(nnq.ConvTranspose3d),)),
    "add": Case(lambda x: Q.add(q(x), q(x.flip(1)), STEP, 60).dequantize(), ROWS),
    "add-relu": Case(lambda x: Q.add_relu(q(x), q(x.flip(1)), STEP, 0).dequantize(), ROWS),
    "mul": Case(lambda x: Q.mul(q(x), q(x.flip(1)), STEP, 60).dequantize(), ROWS),
    "add-number": Case(lambda x: Q.add_scalar(q(x), 0.5).dequantize(), ROWS),
    "add-large-number": Case(lambda x: Q.add_scalar(q(x), 9.0).dequantize(), ROWS),
    "add-low-number": Case(lambda x: Q.add_scalar(q(x), -12.0).dequantize(), ROWS),
    "mul-number": Case(lambda x: Q.mul_scalar(q(x), 0.5).int_repr(), ROWS),
    "mul-negative": Case(lambda x: Q.mul_scalar(q(x), -0.5).int_repr(), ROWS),
    "cat": Case(lambda x: Q.cat([q(x), q(x * 2)], 1, STEP, 60).dequantize(), ROWS),
    "cat-grid-of-first": Case(lambda x: torch.cat([q(x), q(x * 2)], 1).dequantize(), ROWS),
    "functional-add": Case(lambda x, f: f.add(q(x), q(x)).dequantize(), ROWS, (nnq.QFunctional,)),
    "functional-mul": Case(lambda x, f: f.mul(q(x), q(x)).dequantize(), ROWS, (nnq.QFunctional,)),
    "matmul": Case(lambda x: Q.matmul(q(x), q(x).transpose(1, 2), STEP, 60).dequantize(), (3, 4)),
    "views": Case(lambda x: q(x).view(-1, 2).transpose(0, 1).contiguous().reshape(-1).dequantize(), ROWS),
    "permute": Case(lambda x: q(x).permute(0, 2, 3, 1)[:, 1:].flatten(1).dequantize(), IMAGE),
    "chunk": Case(lambda x: torch.cat([part.dequantize() for part in q(x).chunk(3, 1)], 0), IMAGE),
    "stack": Case(lambda x: torch.stack([q(x), q(x)]).squeeze(0).unsqueeze(1).dequantize(), ROWS),
    "pad": Case(lambda x: F.pad(q(x), (1, 1)).dequantize(), ROWS),
    "pixel_shuffle": Case(lambda x: F.pixel_shuffle(q(x), 2).dequantize(), (4, 3, 3)),
    "relu": Case(lambda x: F.relu(q(x)).dequantize(), ROWS),
    "relu6": Case(run, ROWS, (nnq.ReLU6,)),
    "sigmoid": Case(lambda x: torch.sigmoid(q(x)).dequantize(), ROWS),
    "sigmoid-layer": Case(run, ROWS, (lambda: nnq.Sigmoid(1 / 256, 0),)),
    "tanh": Case(lambda x: torch.tanh(q(x)).dequantize(), ROWS),
    "hardswish": Case(run, ROWS, (lambda: nnq.Hardswish(STEP, 60),)),
    "hardsigmoid": Case(lambda x: F.hardsigmoid(q(x)).dequantize(), ROWS),
    "hardtanh": Case(lambda x: F.hardtanh(q(x)).dequantize(), ROWS),
    "elu": Case(run, ROWS, (lambda: nnq.ELU(STEP, 60, 1.0),)),
    "leaky_relu": Case(run, ROWS, (lambda: nnq.LeakyReLU(STEP, 60, 0.2),)),
    "prelu": Case(run, IMAGE, (lambda: nnq.PReLU(STEP, 60, 3),)),
    "softmax": Case(run, ROWS, (lambda: nnq.Softmax(1, 1 / 256, 0),)),
    "clamp": Case(lambda x: torch.clamp(q(x), -1, 1).dequantize(), ROWS),
    "threshold": Case(lambda x: F.threshold(q(x), 0.3, 0.0).dequantize(), ROWS),
    "batch_norm2d": Case(run, IMAGE, (lambda: nnq.BatchNorm2d(3),)),
    "batch_norm3d": Case(run, VOLUME, (lambda: nnq.BatchNorm3d(3),)),
    "layer_norm": Case(run, ROWS, (lambda: nnq.LayerNorm([4], numbers(4), numbers(4), 0.05, 60),)),
    "group_norm": Case(run, (4, 5, 5), (lambda: nnq.GroupNorm(2, 4, numbers(4), numbers(4), 0.05, 60),)),
    "instance_norm": Case(run, IMAGE, (lambda: nnq.InstanceNorm2d(3, numbers(3), numbers(3), 0.05, 60),)),
    "max_pool1d": Case(lambda x: F.max_pool1d(q(x), 2).dequantize(), LINE),
    "max_pool2d": Case(lambda x: F.max_pool2d(q(x), 2).dequantize(), IMAGE),
    "avg_pool2d": Case(lambda x: F.avg_pool2d(q(x), 2).dequantize(), IMAGE),
    "adaptive_avg_pool2d": Case(lambda x: F.adaptive_avg_pool2d(q(x), 1).dequantize(), IMAGE),
    "mean": Case(lambda x: q(x).mean((2, 3)).dequantize(), IMAGE),
    "nearest": Case(lambda x: F.interpolate(q(x), scale_factor=2.0).dequantize(), IMAGE),
    "bilinear": Case(
        lambda x: F.interpolate(q(x), scale_factor=2.0, mode="bilinear", align_corners=False).dequantize(), IMAGE
    ),
    "embedding": Case(lambda x, table: table(x), None, (lambda: nnq.Embedding(10, 12),)),
    "embedding_bag": Case(lambda x, table: table(x), None, (lambda: nnq.EmbeddingBag(10, 12, mode="sum"),)),
    "constant": Case(lambda x: x @ WEIGHT.dequantize().t(), FEATURES),
    "dynamic-linear": Case(lambda x, f: f(x), FEATURES, (dynamic(lambda: nn.Linear(8, 5)),)),
    "dynamic-float16": Case(lambda x, f: f(x), FEATURES, (dynamic(lambda: nn.Linear(8, 5), torch.float16),)),
    "dynamic-conv2d": Case(lambda x, f: f(x), IMAGE, (conv(nnqd.Conv2d),)),
    "dynamic-lstm-cell": Case(first, FEATURES, (dynamic(lambda: nn.LSTMCell(8, 6)),)),
    "dynamic-gru-cell": Case(lambda x, f: f(x), FEATURES, (dynamic(lambda: nn.GRUCell(8, 6)),)),
    "dynamic-rnn-cell": Case(lambda x, f: f(x), FEATURES, (dynamic(lambda: nn.RNNCell(8, 6)),)),
}
WEIGHT, FILTERS = whole(5, 8), whole(4, 3, 3, 3)
INTEGERS: dict[str, int] = {
    **dict.fromkeys([name for name in CASES if "conv" in name or name.startswith(("linear", "dynamic-linear"))], 1),
    "embedding": 1,
    "embedding_bag": 1,
    "constant": 1,
    "dynamic-lstm-cell": 2,
    "dynamic-gru-cell": 2,
}
LEGACY = ("linear", "conv2d", "add", "views", "mean", "dynamic-linear")


def check(case: Case, integers: int, **options: Any) -> None:
    model = case.model()
    program = onnxport.export(model, (case.example(2),), **options)
    x = case.example(5)
    ours, eager = program(x)[0], eager_result(model, [x])
    assert (ours.dtype, ours.shape) == (eager.dtype, eager.shape)
    off = (ours.double() - eager.double()).abs()
    # In steps: of the grid of the result, which is its integers' where they are returned.
    assert off.max() <= (1.001 if not eager.dtype.is_floating_point else 1.001 * STEP)
    assert (off > 1e-4).double().mean() <= 0.15
    kinds = [value.dtype for value in program.model.graph.initializers.values() if len(value.shape or ()) > 1]
    eight = [kind for kind in kinds if kind in (ir.DataType.INT8, ir.DataType.UINT8)]
    assert len(eight) >= integers


@pytest.mark.parametrize("name", CASES)
def test_modules_and_functions(name: str) -> None:
    check(CASES[name], INTEGERS.get(name, 0), dynamic_shapes=({0: "batch"},))


@pytest.mark.parametrize("name", LEGACY)
def test_the_legacy_call(name: str) -> None:
    axes = {"x": {0: "batch"}}
    check(CASES[name], INTEGERS.get(name, 0), dynamo=False, input_names=["x"], dynamic_axes=axes)


@pytest.mark.parametrize("name", ["linear", "conv2d", "dynamic-linear"])
def test_weights_are_called_as_their_layer_does(name: str) -> None:
    names = onnxport.export(CASES[name].model(), (CASES[name].example(2),)).model.graph.initializers
    assert not [one for one in names if "lifted_tensor" in one]
    assert [one for one in names if one.endswith(".weight")] and [one for one in names if one.endswith(".bias")]


def test_four_bit_tables() -> None:
    """Rows are compared with bags of one: torch 2.13 looks up rows with its kernel for bytes, which reads others."""
    table, bag = four_bits(nnq.Embedding), four_bits(nnq.EmbeddingBag)
    program = onnxport.export(table, (torch.arange(4),), dynamic_shapes=({0: "n"},))
    assert_agrees(program, lambda x: bag(x.reshape(-1, 1)), (torch.tensor([9, 0, 3]),), atol=1e-3)
    program = onnxport.export(bag, (torch.randint(0, 10, (2, 4)),), dynamic_shapes=({0: "n"},))
    # The kernel computes with scales in float16.
    assert_agrees(program, bag, (torch.randint(0, 10, (3, 4)),), atol=2e-3)


RECURRENT: dict[str, tuple[Callable[[], nn.Module], torch.dtype]] = {
    "lstm": (lambda: nn.LSTM(4, 6), torch.qint8),
    "lstm of both directions": (lambda: nn.LSTM(4, 6, 2, bidirectional=True), torch.qint8),
    "lstm in float16": (lambda: nn.LSTM(4, 6), torch.float16),
    "gru": (lambda: nn.GRU(4, 6, 2), torch.qint8),
}


class OverPacked(nn.Module):
    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor, lengths: Tensor) -> Any:
        rows, states = self.layer(pack_padded_sequence(x, lengths, enforce_sorted=False))
        return pad_packed_sequence(rows)[0], states


@pytest.mark.parametrize("dynamo", [True, False])
@pytest.mark.parametrize("name", ["lstm of both directions", "gru"])
def test_dynamic_recurrent_layers_over_packed_sequences(name: str, dynamo: bool) -> None:
    make, dtype = RECURRENT[name]
    torch.manual_seed(0)
    model: Any = quantize_dynamic(OverPacked(make()).eval(), {nn.LSTM, nn.GRU}, dtype=dtype)
    axes = {"x": {0: "steps", 1: "batch"}, "lengths": {0: "batch"}}
    given: Any = {"dynamic_shapes": axes} if dynamo else {"input_names": list(axes), "dynamic_axes": axes}
    program = onnxport.export(model, (torch.randn(5, 2, 4), torch.tensor([3, 5])), dynamo=dynamo, **given)
    others = torch.randn(7, 3, 4), torch.tensor([2, 7, 1])
    assert_agrees(program, model, others, rtol=0.0, atol=0.03)


@pytest.mark.parametrize("dynamo", [True, False])
@pytest.mark.parametrize("name", RECURRENT)
def test_dynamic_recurrent_layers(name: str, dynamo: bool) -> None:
    """As near to eager as its rounding at each step allows, and to the layer of the weights' real numbers quite."""
    make, dtype = RECURRENT[name]
    torch.manual_seed(0)
    plain = make().eval()
    model: Any = quantize_dynamic(nn.Sequential(plain), {type(plain)}, dtype=dtype)[0]
    axes = {0: "steps", 1: "batch"}
    given: Any = {"dynamic_shapes": (axes,)} if dynamo else {"input_names": ["x"], "dynamic_axes": {"x": axes}}
    program = onnxport.export(model, (torch.randn(5, 2, 4),), dynamo=dynamo, **given)
    x = torch.randn(7, 3, 4)
    assert_agrees(program, model, (x,), rtol=0.0, atol=0.03)
    real = {key: value.dequantize() if value.is_quantized else value for key, value in model.get_weight().items()}
    plain.load_state_dict({**real, **model.get_bias()})
    assert_agrees(program, plain, (x,))
    kinds = {value.dtype for value in program.model.graph.initializers.values() if len(value.shape or ()) > 1}
    assert dtype == torch.float16 or ir.DataType.INT8 in kinds


def test_dynamic_layers_multiply_integers() -> None:
    """Inputs of 7 bits, which fbgemm chooses, in any number of axes."""
    torch.backends.quantized.engine = "fbgemm"
    torch.manual_seed(0)
    model = quantize_dynamic(
        nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8, bias=False)).eval(), {nn.Linear}
    )
    for shape, other in (((3, 16), (5, 16)), ((2, 3, 16), (4, 3, 16))):
        program = onnxport.export(model, (torch.randn(shape),), dynamic_shapes=({0: "batch"},))
        operators = [node.op_type for node in program.model.graph]
        assert operators.count("MatMulInteger") == 2
        assert not {"Gemm", "MatMul", "DequantizeLinear"} & set(operators)
        assert_agrees(program, model, (torch.randn(other),), rtol=1e-5, atol=1e-5)
