"""One wrong constant in a correct model: the first node that departs is found, with its module and line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
import torch
from torch import nn

import onnxport
from onnxport.verification import find_mismatch, verify_onnx_program
from onnxport.weights.torch_tensor import TorchTensor
from zoo import ZOO


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.fc = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.nn.functional.gelu(self.fc(self.norm(x)))


class Written(nn.Module):
    """Calls that write in place are other nodes in the functional graph."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.sin(x)
        y[0].mul_(3.0)
        return (y * 2.5).cumsum(0)


class Parts(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        a, b = x.split(2, dim=1)
        values, indices = (a * 1.5).max(dim=1)
        return values, indices, b + 0.25


class Branch(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.cond(x.sum() > 0, lambda z: z + 1.0, lambda z: z - 1.0, (x,))
        return y * 7.5


def weight(name: str) -> Callable[[ir.Graph], None]:
    def inject(graph: ir.Graph) -> None:
        value = graph.initializers[name]
        value.const_value = TorchTensor(torch.full_like(value.const_value.raw, 3.0), name)  # type: ignore[union-attr]

    return inject


def literal(number: float) -> Callable[[ir.Graph], None]:
    """Double the only constant that is this number."""

    def inject(graph: ir.Graph) -> None:
        found = [
            value
            for value in graph.initializers.values()
            if value.const_value is not None and value.const_value.size == 1 and value.const_value.numpy() == number
        ]
        (value,) = found
        array = value.const_value.numpy()  # type: ignore[union-attr]
        value.const_value = ir.tensor(np.asarray(array * 2, array.dtype), name=value.name)

    return inject


def zoo(name: str) -> tuple[nn.Module, dict[str, torch.Tensor]]:
    row = next(row for row in ZOO if row.name == name)
    torch.manual_seed(0)
    return row.build().eval(), row.inputs(*row.traced)


def own(model: nn.Module, *args: torch.Tensor) -> Callable[[], tuple[nn.Module, dict[str, Any]]]:
    names = model.forward.__code__.co_varnames[1:]
    if isinstance(model, nn.Sequential):
        names = ("input",)
    return lambda: (model.eval(), dict(zip(names, args, strict=False)))


def row(name: str, make: Any, inject: Any, fx_name: str, op_type: str, module: str, source: str) -> Any:
    return pytest.param(make, inject, fx_name, op_type, module, source, id=name)


X = torch.randn(4, 8, generator=torch.Generator().manual_seed(0))
CONV = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 2, 3))

ROWS = [
    row("linear", own(nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 2)), X), weight("2.bias"),
        "linear_1", "Gemm", "2", "the module '2', a Linear"),
    row("norm", own(nn.Sequential(Block(), Block()), X), weight("1.norm.weight"),
        "layer_norm_1", "LayerNormalization", "1.norm", "self.fc(self.norm(x))"),
    row("conv", own(CONV, torch.randn(1, 1, 8, 8)), weight("3.weight"),
        "conv2d_1", "Conv", "3", "the module '3', a Conv2d"),
    row("batch norm", own(CONV, torch.randn(1, 1, 8, 8)), weight("1.running_mean"),
        "batch_norm", "BatchNormalization", "1", "the module '1', a BatchNorm2d"),
    row("in place", own(Written(), X), literal(2.5), "mul", "Mul", "", "return (y * 2.5).cumsum(0)"),
    row("several results", own(Parts(), X[:, :4].clone()), literal(0.25), "add", "Add", "", "return values, indices"),
    row("before several results", own(Parts(), X[:, :4].clone()), literal(1.5), "mul", "Mul", "", "(a * 1.5).max"),
    row("branch", own(Branch(), X), literal(7.5), "mul", "Mul", "", "return y * 7.5"),
    row("embedding", own(nn.Sequential(nn.Embedding(9, 8)), torch.tensor([[1, 2, 3]])), weight("0.weight"),
        "embedding", "Gather", "0", "the module '0', an Embedding"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "inject", "fx_name", "op_type", "module", "source"), ROWS)
def test_the_first_node_is_found(make: Any, inject: Any, fx_name: str, op_type: str, module: str, source: str) -> None:
    model, inputs = make()
    program = onnxport.export(model, (), kwargs=inputs)
    assert find_mismatch(program) is None
    inject(program.model.graph)
    program.release()
    found = find_mismatch(program)
    assert found is not None
    assert (found.fx_node.name, found.node.op_type, found.module) == (fx_name, op_type, module), str(found)
    assert source in found.source
    assert found.info.max_abs_diff > 0.01
    assert "is the first to depart from torch" in str(found)


@pytest.mark.parametrize(
    ("name", "injected", "fx_name"),
    [
        ("bert", "encoder.layer.1.output.LayerNorm.bias", "layer_norm_4"),
        ("gpt2", "transformer.h.1.mlp.c_fc.bias", "addmm_6"),
    ],
)
def test_transformers(name: str, injected: str, fx_name: str) -> None:
    model, inputs = zoo(name)
    program = onnxport.export(model, (), kwargs=inputs)
    assert find_mismatch(program) is None
    weight(injected)(program.model.graph)
    program.release()
    found = find_mismatch(program)
    assert found is not None
    assert found.fx_node.name == fx_name, str(found)


def test_intermediates_are_compared_in_order() -> None:
    program = onnxport.export(Block(), (X,))
    infos = verify_onnx_program(program, compare_intermediates=True)
    assert [info.name for info in infos] == ["layer_norm", "linear", "gelu", "output"]
    assert all(info.matches for info in infos)


def test_values_computed_from_random_numbers_are_not_compared() -> None:
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(), nn.ReLU()).train()
    with pytest.warns(onnxport.errors.OnnxExporterWarning, match="training mode"):
        program = onnxport.export(model, (X,))
    infos = verify_onnx_program(program, compare_intermediates=True)
    assert [(info.name, info.is_random) for info in infos] == [("linear", False), ("dropout", True), ("output", True)]
    assert find_mismatch(program) is None
