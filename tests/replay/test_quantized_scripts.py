"""Models that torch.ao quantized, scripted, traced and as they are: the rounding is that of torch's kernels."""

import copy
import io
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.ao.quantization import (
    DeQuantStub,
    QuantStub,
    convert,
    fuse_modules,
    get_default_qconfig,
    prepare,
    quantize_dynamic,
)

import onnxport
from onnxport.errors import CaptureError

pytestmark = pytest.mark.filterwarnings("ignore")
X = torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(0))


@pytest.fixture(autouse=True)
def engine() -> Iterator[None]:
    """The kernels that leave a bit unused: with all of them, onnxruntime's sums of products may saturate."""
    before = torch.backends.quantized.engine
    torch.backends.quantized.engine = "fbgemm"
    yield
    torch.backends.quantized.engine = before


def quantized(model: nn.Module) -> Any:
    """A model quantized by what some inputs show of its ranges."""
    torch.manual_seed(0)
    model.eval().qconfig = get_default_qconfig("fbgemm")
    model = prepare(model)
    for _ in range(3):
        model(torch.randn(X.shape))
    return convert(model)


def check(model: Any, script: Any, x: Tensor, others: Tensor) -> onnxport.ONNXProgram:
    """Export with an axis that varies and compare."""
    program = onnxport.export(script, (x,), dynamo=False, input_names=["x"], dynamic_axes={"x": {0: "batch"}})
    off = (program(others)[0] - model(others)).abs()
    # What lies in the middle between two steps may be rounded either way.
    assert off.max() < 0.06
    assert (off > 1e-5).float().mean() < 0.1
    return program


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.quant, self.dequant = QuantStub(), DeQuantStub()
        self.conv, self.relu = nn.Conv2d(3, 4, 3), nn.ReLU()
        self.grouped, self.fc = nn.Conv2d(4, 4, 3, padding=1, groups=2), nn.Linear(4, 2)
        self.joined = torch.ao.nn.quantized.FloatFunctional()

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.conv(self.quant(x)))
        x = self.joined.cat([self.joined.add(x, self.grouped(x)), x], 1)[:, :4]
        x = F.adaptive_avg_pool2d(torch.sigmoid(F.max_pool2d(x, 2)), 1).flatten(1)
        return self.dequant(self.fc(x))


def _loaded(script: Any) -> Any:
    file = io.BytesIO()
    torch.jit.save(script, file)
    file.seek(0)
    return torch.jit.load(file)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    """The same weights and inputs each time: how far two roundings are apart depends on them."""
    torch.manual_seed(0)


MAKERS: dict[str, Callable[[Any], Any]] = {
    "traced": lambda model: torch.jit.trace(model, X),
    "scripted": torch.jit.script,
    "loaded": lambda model: _loaded(torch.jit.trace(model, X)),
    "module": lambda model: model,
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
def test_a_network(make: Callable[[Any], Any]) -> None:
    model = quantized(fuse_modules(Network().eval(), [["conv", "relu"]]))
    program = check(model, make(model), X, torch.randn(40, 3, 6, 6))
    kinds = [str(value.dtype) for value in program.model.graph.initializers.values()]
    assert kinds.count("INT8") >= 3


@pytest.mark.parametrize("make", [torch.jit.script, lambda model: model], ids=["scripted", "module"])
def test_layers_that_quantize_their_inputs(make: Callable[[Any], Any]) -> None:
    model = quantize_dynamic(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3)), {nn.Linear})
    check(model, make(model), torch.randn(3, 4), torch.randn(5, 4))


class Wrapped(nn.Module):
    def __init__(self, function: Callable[[Any, Tensor], Tensor], layer: nn.Module | None = None) -> None:
        super().__init__()
        self.quant, self.dequant, self.layer, self.function = QuantStub(), DeQuantStub(), layer, function

    def forward(self, x: Tensor) -> Tensor:
        return self.dequant(self.function(self.layer, self.quant(x)))


OPERATORS: dict[str, nn.Module] = {
    "tanh": Wrapped(lambda _, x: torch.tanh(x)),
    "mean": Wrapped(lambda _, x: x.mean((2, 3))),
    "avg_pool": Wrapped(lambda _, x: F.avg_pool2d(x, 2)),
    "conv1d": Wrapped(lambda layer, x: layer(x.flatten(2)), nn.Conv1d(3, 4, 3, stride=2)),
    "batch_norm": Wrapped(lambda layer, x: layer(x), nn.BatchNorm2d(3)),
    "layer_norm": Wrapped(lambda layer, x: layer(x), nn.LayerNorm([6])),
    "elu": Wrapped(lambda layer, x: layer(x), nn.ELU()),
    "leaky_relu": Wrapped(lambda layer, x: layer(x), nn.LeakyReLU()),
    "hardswish": Wrapped(lambda layer, x: layer(x), nn.Hardswish()),
    "relu6": Wrapped(lambda layer, x: layer(x), nn.ReLU6()),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name: str) -> None:
    model = quantized(copy.deepcopy(OPERATORS[name]))
    check(model, torch.jit.trace(model, X, check_trace=False), X, torch.randn(5, 3, 6, 6))


def test_what_is_not_known_is_refused() -> None:
    @torch.jit.script
    def threshold(x: Tensor) -> Tensor:
        y = torch.quantize_per_tensor(x, 0.1, 0, torch.quint8)
        return torch.dequantize(torch.ops.quantized.threshold(y, 0.5, 0.0))

    with pytest.raises(CaptureError, match="quantized::threshold can't be replayed"):
        onnxport.export(threshold, (X,))
