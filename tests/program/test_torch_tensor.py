from __future__ import annotations

import io

import numpy as np
import onnx_ir as ir
import pytest
import torch

import onnxport
from onnxport.errors import OnnxExporterError
from onnxport.weights import torch_tensor
from onnxport.weights.converted import ConvertedTensor
from onnxport.weights.dtypes import ONNX_TO_TORCH, TORCH_TO_ONNX, from_torch_dtype, to_torch_dtype
from onnxport.weights.torch_tensor import TorchTensor

LAYOUTS = {
    "contiguous": lambda t: t,
    "transposed": lambda t: t.t(),
    "expanded": lambda t: t[:1].expand(5, 6),
    "strided": lambda t: t[:, ::2],
    "flipped view": lambda t: t[2:, 1:3],
    "one element, wide stride": lambda t: t[:1, ::6],
    "scalar": lambda t: t[1, 2],
    "empty": lambda t: t[:0],
    "parameter": lambda t: torch.nn.Parameter(t, requires_grad=t.is_floating_point()),
}


@pytest.mark.parametrize("dtype", TORCH_TO_ONNX, ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_values(dtype: torch.dtype, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_tensor, "SLAB_BYTES", 8)
    source = torch.arange(30).reshape(5, 6).to(dtype)
    tensor = LAYOUTS[layout](source)
    made = TorchTensor(tensor, name="w")
    real = torch.view_as_real(tensor.detach()) if dtype.is_complex else tensor.detach()
    assert made.dtype == from_torch_dtype(real.dtype)
    assert tuple(made.shape.numpy()) == tuple(real.shape)
    np.testing.assert_array_equal(made.numpy().astype(np.float64), real.to(torch.float64).numpy())
    stream = io.BytesIO()
    made.tofile(stream)
    assert made.tobytes() == stream.getvalue() == made.numpy().tobytes()
    assert made.nbytes == len(made.tobytes())


@pytest.mark.parametrize("dtype", TORCH_TO_ONNX, ids=str)
def test_memory_is_shared(dtype: torch.dtype) -> None:
    tensor = torch.zeros(4, 4).to(dtype)
    (view,) = TorchTensor(tensor).slabs()
    for array in (TorchTensor(tensor).numpy(), np.asarray(view)):
        assert array.__array_interface__["data"][0] == tensor.data_ptr()


@pytest.mark.parametrize(
    "tensor",
    [torch.tensor([1 + 2j, 3 - 4j]).conj(), torch.tensor([1 + 2j, 3 - 4j]).conj().imag, torch._neg_view(torch.ones(3))],
    ids=["conjugate", "imaginary part", "negative"],
)
def test_lazy_conjugates_and_signs_are_resolved(tensor: torch.Tensor) -> None:
    expected = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor.resolve_neg()
    np.testing.assert_array_equal(TorchTensor(tensor).numpy(), expected.numpy())


def test_array_protocols() -> None:
    made = TorchTensor(torch.tensor([[1.0, 2.0]]))
    assert np.asarray(made, dtype=np.float64).dtype == np.float64
    assert torch.equal(torch.from_dlpack(made), torch.tensor([[1.0, 2.0]]))


def test_dtypes_both_ways() -> None:
    for dtype, onnx in TORCH_TO_ONNX.items():
        assert to_torch_dtype(from_torch_dtype(dtype)) is dtype
        assert ONNX_TO_TORCH[onnx] is dtype
        assert dtype.itemsize == onnx.itemsize


@pytest.mark.parametrize(
    ("convert", "dtype", "message"),
    [
        (from_torch_dtype, torch.qint8, "no element type for torch.qint8; cast the tensor"),
        (to_torch_dtype, ir.DataType.STRING, "no dtype for the ONNX element type STRING"),
    ],
)
def test_dtypes_without_a_counterpart(convert, dtype, message: str) -> None:
    with pytest.raises(OnnxExporterError, match=message):
        convert(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8])
def test_transposed_matrices_are_turned_slab_by_slab(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_tensor, "SLAB_BYTES", 100)
    matrix = torch.arange(35).reshape(5, 7).to(dtype)
    for view in (matrix.t(), matrix[:, 2:].t(), matrix[1:2].t(), matrix[:, :1].t(), matrix.t()[::2]):
        tensor = TorchTensor(view)
        assert b"".join(tensor.slabs()) == TorchTensor(view.clone(memory_format=torch.contiguous_format)).tobytes()


class Mixing(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("weight", torch.eye(4).roll(1, 0).to_sparse_csr())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.weight @ x.T).T


@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
def test_a_sparse_weight_is_stored_dense() -> None:
    program = onnxport.export(Mixing(), (torch.randn(5, 4),))
    x = torch.randn(5, 4)
    torch.testing.assert_close(program(x)[0], Mixing()(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.float64, torch.complex64])
@pytest.mark.parametrize("shape", [(3, 5), (700, 65), (65, 700), (70000, 3), (3, 70000), (1, 9), (0, 4)])
def test_transposed_weights_are_turned_as_torch_turns_them(shape: tuple[int, int], dtype: torch.dtype) -> None:
    weight = (torch.randn(shape) * 20).to(dtype)
    expected = torch.view_as_real(weight.t()) if dtype.is_complex else weight.t()
    assert TorchTensor(weight.t()).tobytes() == TorchTensor(expected.contiguous()).tobytes()
    if dtype == torch.float32:
        halves = ConvertedTensor(weight.t(), ir.DataType.FLOAT16, "")
        assert halves.tobytes() == TorchTensor(weight.t().half().contiguous()).tobytes()
