"""``JitScalarType``: the element types of TorchScript, under all the names they go by."""

from __future__ import annotations

import enum

import onnx_ir as ir
import torch

from onnxport.errors import OnnxExporterError
from onnxport.torch_internals.torchscript import (
    BoolType,
    FloatType,
    IntType,
    JitValue,
    ListType,
    OptionalType,
    TensorType,
)
from onnxport.weights.dtypes import TORCH_TO_ONNX

TensorProtoDataType = ir.DataType
"""The element types of ONNX, by the name ``torch.onnx`` has for them."""

# dtype, name of the type, name in torch's C++, in the order of TorchScript's numbers.
_ROWS: tuple[tuple[torch.dtype | None, str, str], ...] = (
    (torch.uint8, "Byte", "uint8_t"),
    (torch.int8, "Char", "int8_t"),
    (torch.int16, "Short", "int16_t"),
    (torch.int32, "Int", "int"),
    (torch.int64, "Long", "int64_t"),
    (torch.float16, "Half", "half"),
    (torch.float32, "Float", "float"),
    (torch.float64, "Double", "double"),
    (torch.complex32, "ComplexHalf", "complex32"),
    (torch.complex64, "ComplexFloat", "complex64"),
    (torch.complex128, "ComplexDouble", "complex128"),
    (torch.bool, "Bool", "bool"),
    (torch.qint8, "QInt8", "qint8"),
    (torch.quint8, "QUInt8", "quint8"),
    (torch.qint32, "QInt32", "qint32"),
    (torch.bfloat16, "BFloat16", "bfloat16"),
    (torch.float8_e5m2, "Float8E5M2", "float8_e5m2"),
    (torch.float8_e4m3fn, "Float8E4M3FN", "float8_e4m3fn"),
    (torch.float8_e5m2fnuz, "Float8E5M2FNUZ", "float8_e5m2fnuz"),
    (torch.float8_e4m3fnuz, "Float8E4M3FNUZ", "float8_e4m3fnuz"),
    (None, "Undefined", "undefined"),
)
# In ONNX a quantized tensor is the integers it is stored as.
_STORED_AS = {torch.qint8: torch.int8, torch.quint8: torch.uint8, torch.qint32: torch.int32}
_NUMBERS: dict[type, torch.dtype] = {bool: torch.bool, int: torch.int64, float: torch.float64}


class JitScalarType(enum.IntEnum):
    """The element types of TorchScript, numbered as it numbers them.

    >>> import torch
    >>> from onnxport import JitScalarType
    >>> JitScalarType.from_dtype(torch.float32).scalar_name()
    'Float'
    >>> JitScalarType.from_name("Long").dtype(), int(JitScalarType.INT64.onnx_type())
    (torch.int64, 7)
    """

    UINT8 = 0
    INT8 = 1
    INT16 = 2
    INT = 3
    INT64 = 4
    HALF = 5
    FLOAT = 6
    DOUBLE = 7
    COMPLEX32 = 8
    COMPLEX64 = 9
    COMPLEX128 = 10
    BOOL = 11
    QINT8 = 12
    QUINT8 = 13
    QINT32 = 14
    BFLOAT16 = 15
    FLOAT8E5M2 = 16
    FLOAT8E4M3FN = 17
    FLOAT8E5M2FNUZ = 18
    FLOAT8E4M3FNUZ = 19
    UNDEFINED = 20

    @classmethod
    def from_name(cls, name: str | None) -> JitScalarType:
        """The type by its TorchScript name (``"Float"``), its C++ name (``"int64_t"``) or its dtype's (``"float32"``).

        >>> JitScalarType.from_name("int64_t").name
        'INT64'
        """
        if name is None:
            raise ValueError("The name of a scalar type can't be None.")
        for number, (dtype, scalar_name, torch_name) in enumerate(_ROWS):
            if name in (scalar_name, torch_name, str(dtype).removeprefix("torch.")):
                return cls(number)
        raise OnnxExporterError(f"{name!r} is not the name of a scalar type; those are {_names()}.")

    @classmethod
    def from_dtype(cls, dtype: torch.dtype | None) -> JitScalarType:
        """The type of a torch dtype."""
        for number, row in enumerate(_ROWS):
            if dtype is not None and row[0] == dtype:
                return cls(number)
        raise OnnxExporterError(f"TorchScript has no scalar type for {dtype}.")

    @classmethod
    def from_onnx_type(cls, onnx_type: int | None) -> JitScalarType:
        """The type of an element type of ONNX, by its number."""
        for dtype, known in TORCH_TO_ONNX.items():
            if onnx_type is not None and int(known) == int(onnx_type):
                return cls.from_dtype(dtype)
        raise OnnxExporterError(f"{onnx_type} is not the number of an ONNX element type that torch has.")

    @classmethod
    def from_value(cls, value: object, default: JitScalarType | None = None) -> JitScalarType:
        """The type of a tensor, or of a value of a graph: a list has that of its items.

        >>> JitScalarType.from_value(torch.ones(2, dtype=torch.int32)).name
        'INT'
        """
        if isinstance(value, torch.Tensor):
            return cls.from_dtype(value.dtype)
        dtype = _dtype_of(value)
        if dtype is not None:
            return cls.from_dtype(dtype)
        if default is not None:
            return default
        raise OnnxExporterError(f"The scalar type of {value!r} is not known here; pass a default.")

    def scalar_name(self) -> str:
        """The name in TorchScript types, ``"Float"``."""
        return _ROWS[self][1]

    def torch_name(self) -> str:
        """The name in torch's C++, ``"int64_t"``."""
        return _ROWS[self][2]

    def dtype(self) -> torch.dtype:
        """The torch dtype."""
        dtype = _ROWS[self][0]
        if dtype is None:
            raise OnnxExporterError("An undefined scalar type has no dtype.")
        return dtype

    def onnx_type(self) -> ir.DataType:
        """The element type of ONNX."""
        dtype = _ROWS[self][0]
        if dtype is not None:
            dtype = _STORED_AS.get(dtype, dtype)
        if dtype is None or dtype not in TORCH_TO_ONNX:
            raise OnnxExporterError(f"ONNX has no element type for {self.scalar_name()}.")
        return TORCH_TO_ONNX[dtype]

    def onnx_compatible(self) -> bool:
        """Whether ONNX has the type.

        >>> JitScalarType.FLOAT.onnx_compatible(), JitScalarType.UNDEFINED.onnx_compatible()
        (True, False)
        """
        dtype = _ROWS[self][0]
        return dtype is not None and _STORED_AS.get(dtype, dtype) in TORCH_TO_ONNX


def _dtype_of(value: object) -> torch.dtype | None:
    kind: object = value.type() if isinstance(value, JitValue) else value
    if isinstance(kind, ListType):
        kind = kind.getElementType()
    if isinstance(kind, OptionalType):
        kind = kind.getElementType()
    if isinstance(kind, TensorType):
        return kind.dtype()
    if isinstance(kind, BoolType):
        return torch.bool
    if isinstance(kind, IntType):
        return torch.int64
    if isinstance(kind, FloatType):
        return torch.float64
    return _NUMBERS.get(type(value))


def _names() -> str:
    return ", ".join(row[1] for row in _ROWS)
