"""Weights that are tensor subclasses around other tensors: unwrapped, and computed by what the subclass does."""

from __future__ import annotations

from typing import Any

import onnx_ir as ir
import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import return_and_correct_aliasing
from torch.utils._pytree import tree_map

import onnxport
from comparison import assert_agrees, exported_and_compared
from onnxport.errors import TranslationError
from onnxport.weights.stored_form import StoredForm, StoredTensor

ATEN = torch.ops.aten


class Scaled(Tensor):
    """Integers and a scale, which are multiplied whenever something is computed with them."""

    @staticmethod
    def __new__(cls, integers: Tensor, scale: Tensor) -> Scaled:
        return torch.Tensor._make_wrapper_subclass(cls, integers.shape, dtype=torch.float32, strides=integers.stride())

    def __init__(self, integers: Tensor, scale: Tensor) -> None:
        self.integers, self.scale = integers, scale

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["integers", "scale"], None

    @classmethod
    def __tensor_unflatten__(cls, inner: dict[str, Tensor], context: None, size: Any, stride: Any) -> Scaled:
        return cls(inner["integers"], inner["scale"])

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any, kwargs: Any = None) -> Any:
        kwargs = {} if kwargs is None else kwargs
        if func in (ATEN.detach.default, ATEN.t.default, ATEN.alias.default, ATEN.clone.default, ATEN.split.Tensor):
            parts = func(args[0].integers, *args[1:])
            if func is ATEN.split.Tensor:
                return [type(args[0])(part, args[0].scale) for part in parts]
            return return_and_correct_aliasing(func, args, kwargs, type(args[0])(parts, args[0].scale))
        args, kwargs = tree_map(lambda x: x.integers * x.scale if isinstance(x, Scaled) else x, (args, kwargs))
        return func(*args, **kwargs)


class Outer(Scaled):
    """A subclass whose integers are again within a subclass."""


def integers(*shape: int) -> Tensor:
    return torch.randint(-100, 100, shape, dtype=torch.int8)


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.weight = nn.Parameter(Scaled(integers(6, 4), torch.tensor(0.02)), requires_grad=False)
        self.register_buffer("table", Scaled(integers(9, 4), torch.tensor(0.03)))
        self.bias = nn.Parameter(torch.randn(6))


class Linear(Layers):
    def forward(self, x: Tensor) -> Tensor:
        return torch.nn.functional.linear(x, self.weight, self.bias).relu()


class Product(Layers):
    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            turned = self.weight.t()
        return x @ turned


class Pieces(Layers):
    def forward(self, x: Tensor) -> Tensor:
        first, second = self.weight.split(3)
        return torch.cat([x @ second.t(), x @ first.t() + self.weight.shape[0]], -1)


class Lookup(Layers):
    def forward(self, x: Tensor) -> Tensor:
        rows = x.abs().sum(-1).long() % 9
        return torch.nn.functional.embedding(rows, self.table)


@pytest.mark.parametrize("model", [Linear(), Product(), Pieces(), Lookup()], ids=lambda model: type(model).__name__)
@pytest.mark.parametrize("opset", [13, 23])
def test_calls_on_a_wrapper(model: nn.Module, opset: int) -> None:
    axes = [{0: "batch"}]
    program = exported_and_compared(
        model, [torch.randn(3, 4)], [torch.randn(5, 4)], axes=axes, opset_version=opset, rtol=1e-4, atol=1e-4
    )
    kinds = [value.dtype for value in program.model.graph.initializers.values() if len(value.shape or ()) == 2]
    assert kinds == [ir.DataType.INT8]


def test_the_integers_are_stored_as_a_product_reads_them() -> None:
    model = Linear()
    program = onnxport.export(model, (torch.randn(3, 4),))
    assert [node.op_type for node in program.model.graph] == ["DequantizeLinear", "Gemm", "Relu"]
    stored = program.model.graph.initializers["weight.integers"].const_value
    assert stored is not None
    assert stored.numpy().tolist() == model.weight.integers.T.tolist()


def test_other_weights_are_applied_in_the_same_arrangement() -> None:
    program = onnxport.export(Linear(), (torch.randn(3, 4),))
    other = Linear()
    other.weight = nn.Parameter(Scaled(integers(6, 4), torch.tensor(0.5)), requires_grad=False)
    program.apply_weights({"weight": other.weight, "bias": other.bias})
    assert_agrees(program, other, [torch.randn(3, 4)], rtol=1e-4, atol=1e-4)


class Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        inner = Scaled(integers(6, 4), torch.tensor(0.02))
        self.weight = nn.Parameter(Outer(inner, torch.tensor(2.0)), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return torch.nn.functional.linear(x, self.weight)


def test_a_wrapper_in_a_wrapper() -> None:
    exported_and_compared(Nested(), [torch.randn(3, 4)], [torch.randn(5, 4)], axes=[{0: "b"}], rtol=1e-4, atol=1e-4)


class Kept(nn.Parameter):
    """A parameter that keeps a scale beside its integers."""

    scale: Tensor


class Beside(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = Kept(integers(6, 4), requires_grad=False)
        self.weight.scale = torch.rand(6, 1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.nn.functional.linear(x, self.weight.float() * self.weight.scale)


def test_what_a_parameter_keeps_beside_its_numbers() -> None:
    exported_and_compared(Beside(), [torch.randn(3, 4)], [torch.randn(5, 4)], axes=[{0: "b"}], rtol=1e-4, atol=1e-4)


class Returned(Layers):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, self.weight


def test_a_wrapper_that_is_returned_is_refused() -> None:
    with pytest.raises(TranslationError, match=r"\(Scaled\) is a result of the model"):
        onnxport.export(Returned(), (torch.randn(3, 4),))


@pytest.mark.parametrize("shape", [(3, 5), (1, 1), (700, 3001), (0, 3)])
def test_four_bits_are_packed_in_the_order_that_is_written(shape: tuple[int, int]) -> None:
    source = torch.randint(-8, 8, shape, dtype=torch.int8)
    tensor = StoredTensor(source, StoredForm().permuted((1, 0)).stored_as(ir.DataType.INT4), "weight")
    expected = ir.Tensor(source.T.numpy().astype(ir.DataType.INT4.numpy()), dtype=ir.DataType.INT4)
    assert tensor.tobytes() == expected.tobytes()
    assert len(tensor.tobytes()) == tensor.nbytes
    assert (tensor.numpy() == expected.numpy()).all()
