"""Which ONNX element type stands for which torch dtype, both ways; every stage reads this table."""

from __future__ import annotations

import onnx_ir as ir
import torch

from onnxport.errors import OnnxExporterError

# torch names these, which its type stubs don't, but has no tensors of them.
INT4: torch.dtype = torch.int4  # type: ignore[attr-defined]
UINT4: torch.dtype = torch.uint4  # type: ignore[attr-defined]
_FOUR_BITS = {INT4: ir.DataType.INT4, UINT4: ir.DataType.UINT4}

TORCH_TO_ONNX: dict[torch.dtype, ir.DataType] = {
    torch.float32: ir.DataType.FLOAT,
    torch.float64: ir.DataType.DOUBLE,
    torch.float16: ir.DataType.FLOAT16,
    torch.bfloat16: ir.DataType.BFLOAT16,
    torch.float8_e4m3fn: ir.DataType.FLOAT8E4M3FN,
    torch.float8_e4m3fnuz: ir.DataType.FLOAT8E4M3FNUZ,
    torch.float8_e5m2: ir.DataType.FLOAT8E5M2,
    torch.float8_e5m2fnuz: ir.DataType.FLOAT8E5M2FNUZ,
    torch.float8_e8m0fnu: ir.DataType.FLOAT8E8M0,
    torch.int8: ir.DataType.INT8,
    torch.int16: ir.DataType.INT16,
    torch.int32: ir.DataType.INT32,
    torch.int64: ir.DataType.INT64,
    torch.uint8: ir.DataType.UINT8,
    torch.uint16: ir.DataType.UINT16,
    torch.uint32: ir.DataType.UINT32,
    torch.uint64: ir.DataType.UINT64,
    torch.bool: ir.DataType.BOOL,
    torch.complex64: ir.DataType.COMPLEX64,
    torch.complex128: ir.DataType.COMPLEX128,
}
ONNX_TO_TORCH: dict[ir.DataType, torch.dtype] = {onnx: dtype for dtype, onnx in TORCH_TO_ONNX.items()}

_CARRIERS: dict[ir.DataType, torch.dtype] = {
    ir.DataType.UINT4: torch.uint8,
    ir.DataType.INT4: torch.int8,
    ir.DataType.FLOAT4E2M1: torch.float8_e4m3fn,
}

# torch names the parts of a complex number only through its tensors; these are the dtypes of `tensor.real`.
COMPLEX_PARTS: dict[torch.dtype, torch.dtype] = {
    torch.complex32: torch.float16,
    torch.complex64: torch.float32,
    torch.complex128: torch.float64,
}


def from_torch_dtype(dtype: torch.dtype) -> ir.DataType:
    """Return the ONNX element type of a torch dtype.

    >>> import torch
    >>> from onnxport.weights.dtypes import from_torch_dtype
    >>> from_torch_dtype(torch.bfloat16).name
    'BFLOAT16'
    """
    if dtype in _FOUR_BITS:
        return _FOUR_BITS[dtype]
    if dtype not in TORCH_TO_ONNX:
        raise OnnxExporterError(
            f"ONNX has no element type for {dtype}; cast the tensor to one of {_names(TORCH_TO_ONNX)} before exporting."
        )
    return TORCH_TO_ONNX[dtype]


def to_torch_dtype(dtype: ir.DataType) -> torch.dtype:
    """Return the torch dtype of an ONNX element type.

    >>> import onnx_ir as ir
    >>> from onnxport.weights.dtypes import to_torch_dtype
    >>> to_torch_dtype(ir.DataType.INT64)
    torch.int64
    """
    if dtype not in ONNX_TO_TORCH:
        raise OnnxExporterError(
            f"torch has no dtype for the ONNX element type {dtype.name}; it knows {_names(TORCH_TO_ONNX)}."
        )
    return ONNX_TO_TORCH[dtype]


def carrier_dtype(code: int) -> torch.dtype:
    """The torch dtype that stands for ONNX's element type of that number, the nearest for types torch lacks.

    >>> from onnxport.weights.dtypes import carrier_dtype
    >>> carrier_dtype(1), carrier_dtype(22)
    (torch.float32, torch.int8)
    """
    try:
        dtype = ir.DataType(code)
    except ValueError as error:
        raise OnnxExporterError(f"{code} is not the number of an ONNX element type.") from error
    return _CARRIERS[dtype] if dtype in _CARRIERS else to_torch_dtype(dtype)


def _names(dtypes: dict[torch.dtype, ir.DataType]) -> str:
    return ", ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
