"""Calling operators by their schema: torch's own through ``torch.ops``, TorchScript's as Python functions."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch.fx.experimental.symbolic_shapes import statically_known_true

from onnxport.capture.replay.ops.python_ops import COMPARISONS, FUNCTIONS
from onnxport.capture.replay.values.stand_ins import Number, ReplayValue, Truth, materialized, plain_number
from onnxport.errors import CaptureError
from onnxport.torch_graph import Node
from onnxport.torch_internals.operators import SCALAR_TYPES, Argument, dispatch_find_schema_or_throw, parse_schema
from onnxport.torch_internals.torchscript import JitType

# TorchScript writes these as integers; torch.ops would pass the integers on to the captured graph.
_LAYOUTS = (torch.strided, torch.sparse_coo, torch.sparse_csr)
_FORMATS = (torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d)
_CODES: dict[str, Sequence[object]] = {
    "dtype": SCALAR_TYPES,
    "output_dtype": SCALAR_TYPES,
    "out_dtype": SCALAR_TYPES,
    "layout": _LAYOUTS,
    "memory_format": _FORMATS,
}
_PLAIN_TYPES = ("int", "float", "bool", "number", "Scalar", "complex")

# Operators on numbers in tensors whose result is that of the numbers; the rest see tensors.
_ARITHMETIC: dict[str, Callable[..., ReplayValue]] = {
    "aten::add": lambda a, b, alpha=1: a + (b if alpha == 1 else b * alpha),
    "aten::sub": lambda a, b, alpha=1: a - (b if alpha == 1 else b * alpha),
    "aten::rsub": lambda a, b, alpha=1: b - (a if alpha == 1 else a * alpha),
    "aten::mul": operator.mul,
    "aten::neg": operator.neg,
    "aten::floor_divide": operator.floordiv,
    "aten::remainder": operator.mod,
    "aten::maximum": lambda a, b: torch.sym_max(a, b),
    "aten::minimum": lambda a, b: torch.sym_min(a, b),
    "aten::max": lambda a, b: torch.sym_max(a, b),
    "aten::min": lambda a, b: torch.sym_min(a, b),
    **COMPARISONS,
}
_KEPT = {"aten::detach", "aten::clone", "aten::contiguous", "aten::lift_fresh", "aten::lift_fresh_copy", "aten::alias"}
# Operators that take a plain number where a tensor is asked for, and give it the type of the tensor beside it.
_PROMOTING_NAMES = (
    "add sub mul div pow eq ne lt le gt ge remainder fmod floor_divide rsub bitwise_and bitwise_or bitwise_xor "
    "logical_and logical_or logical_xor __and__ __or__ __xor__ true_divide xlogy"
)
_PROMOTING = {f"aten::{name}" for name in _PROMOTING_NAMES.split()}


def _is_size(value: ReplayValue) -> bool:
    """Whether a value is an integer that is not negative: dividing such, rounding down is rounding to zero."""
    number = plain_number(value) if isinstance(value, Number) else value
    return (
        isinstance(number, int | torch.SymInt) and not isinstance(number, bool) and statically_known_true(number >= 0)
    )


def dtype_code(dtype: torch.dtype) -> int:
    """The integer that stands for a dtype in TorchScript."""
    return SCALAR_TYPES.index(dtype)


def dtype_of(code: ReplayValue) -> torch.dtype:
    """The dtype that an integer stands for; a dtype stands for itself."""
    if isinstance(code, torch.dtype):
        return code
    assert isinstance(code, int)
    return SCALAR_TYPES[code]


@dataclass(frozen=True)
class Callee:
    """An operator ready to be called with values of a TorchScript graph."""

    name: str
    overload: Callable[..., ReplayValue]
    arguments: tuple[Argument, ...]
    kinds: tuple[str, ...]
    positional: int

    def __call__(self, values: Sequence[ReplayValue]) -> ReplayValue:
        """Call with one value for each argument of the schema."""
        name = self.name.rstrip("_") if not self.name.endswith("__") else self.name
        if any(type(value) is Number for value in values):
            result = self._on_numbers(name, values)
            if result is not None:
                return result
        promoting = name in _PROMOTING and any(isinstance(value, torch.Tensor) for value in values)
        converted = [
            self._convert(argument, kind, value, promoting)
            for argument, kind, value in zip(self.arguments, self.kinds, values, strict=False)
        ]
        keywords = {
            argument.name: value
            for argument, value in zip(self.arguments[self.positional :], converted[self.positional :], strict=False)
        }
        return self.overload(*converted[: self.positional], **keywords)

    def _on_numbers(self, name: str, values: Sequence[ReplayValue]) -> ReplayValue:
        if name == "aten::div" and values[-1] in ("floor", "trunc") and all(_is_size(value) for value in values[:2]):
            return Number.of(plain_number(values[0]) // plain_number(values[1]))
        if not all(isinstance(value, Number | int | float | bool | torch.SymInt | None) for value in values):
            return None
        if name in _KEPT:
            return values[0]
        function = _ARITHMETIC.get(name)
        if function is None:
            return None
        result = function(*(plain_number(value) for value in values))
        return result.tensor if isinstance(result, Truth) else Number.of(result)  # type: ignore[arg-type]

    def _convert(self, argument: Argument, kind: str, value: ReplayValue, promoting: bool) -> ReplayValue:
        if type(value) is Number and promoting:
            return value.value
        if kind == "Tensor":
            return materialized(value)
        if kind in _PLAIN_TYPES:
            if argument.name in _CODES and isinstance(value, int):
                return _CODES[argument.name][value]
            return plain_number(value)
        if isinstance(value, list | tuple):
            return [plain_number(item) for item in value] if kind == "plain list" else materialized(value)
        return plain_number(value) if isinstance(value, Number | Truth) else value


def _kind(type_: JitType) -> str:
    name = type_.kind()
    if name == "OptionalType":
        return _kind(type_.getElementType())
    if name == "ListType":
        return "plain list" if _kind(type_.getElementType()) in _PLAIN_TYPES else "list"
    return {"TensorType": "Tensor", "NumberType": "number"}.get(name, str(type_))


@functools.cache
def callee(schema_text: str) -> Callee | None:
    """The operator of a schema, or None if torch's dispatcher does not know it."""
    schema = parse_schema(schema_text)
    qualified = f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name
    namespace, _, name = schema.name.partition("::")
    if schema.name in FUNCTIONS and not _in_dispatcher(qualified):
        return None
    packet = getattr(getattr(torch.ops, namespace), name, None)
    overload = getattr(packet, schema.overload_name or "default", None)
    if overload is None or not _in_dispatcher(qualified):
        return None
    arguments = tuple(overload._schema.arguments)
    positional = sum(1 for argument in arguments if not argument.kwarg_only)
    return Callee(schema.name, overload, arguments, tuple(_kind(a.type) for a in arguments), positional)


@functools.cache
def _in_dispatcher(qualified: str) -> bool:
    name, _, overload = qualified.partition(".")
    try:
        dispatch_find_schema_or_throw(name, overload)
    except RuntimeError:
        # Defined for the TorchScript interpreter only.
        return False
    return True


def call_operator(node: Node, values: Sequence[ReplayValue]) -> ReplayValue:
    """Call the operator of a node, by its schema, or the Python function that does what it does."""
    schema, kind = node.schema(), node.kind()
    if kind.startswith("quantized::"):
        raise CaptureError(f"The operator {kind} can't be replayed. Leave what it is part of unquantized.")
    operator = callee(schema) if schema != "(no schema)" else None
    if operator is not None:
        return operator(values)
    function = FUNCTIONS.get(kind)
    if function is None:
        raise CaptureError(f"The operator {kind} of TorchScript can't be replayed: {schema}.")
    return function(*(value.value if type(value) is Number else value for value in values))
