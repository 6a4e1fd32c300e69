"""Comparison, tests and logic: results are bool."""

from __future__ import annotations

import math

import torch

from onnxport.aten.reduction.reduce import any_, flat
from onnxport.translate import Builder, Tensor, one_node, translates

one_node("Equal", "aten::eq.Tensor", "aten::eq.Scalar", promote=("self", "other"))


@translates("aten::ne.Tensor", "aten::ne.Scalar", promote=("self", "other"))
def ne(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    return ~op.Equal(self, other)


# ONNX orders numbers only; False is before True.


@translates("aten::gt.Tensor", "aten::gt.Scalar", promote=("self", "other"))
def gt(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    return self & ~other if self.dtype == torch.bool else self > other


@translates("aten::ge.Tensor", "aten::ge.Scalar", promote=("self", "other"))
def ge(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    return self | ~other if self.dtype == torch.bool else self >= other


@translates("aten::lt.Tensor", "aten::lt.Scalar", promote=("self", "other"))
def lt(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    return ~self & other if self.dtype == torch.bool else self < other


@translates("aten::le.Tensor", "aten::le.Scalar", promote=("self", "other"))
def le(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    return ~self | other if self.dtype == torch.bool else self <= other


# Tests of one tensor: whole numbers are all finite


@translates("aten::isnan")
def isnan(op: Builder, self: Tensor) -> Tensor:
    return op.IsNaN(self) if self.is_float else op.full(False, self.shape, torch.bool)


@translates("aten::isinf")
def isinf(op: Builder, self: Tensor) -> Tensor:
    return op.IsInf(self) if self.is_float else op.full(False, self.shape, torch.bool)


@translates("aten::isposinf")
def isposinf(op: Builder, self: Tensor) -> Tensor:
    return op.IsInf(self, detect_negative=0) if self.is_float else op.full(False, self.shape, torch.bool)


@translates("aten::isneginf")
def isneginf(op: Builder, self: Tensor) -> Tensor:
    return op.IsInf(self, detect_positive=0) if self.is_float else op.full(False, self.shape, torch.bool)


@translates("aten::isfinite")
def isfinite(op: Builder, self: Tensor) -> Tensor:
    return op.Abs(self) < math.inf if self.is_float else op.full(True, self.shape, torch.bool)


@translates("aten::isreal")
def isreal(op: Builder, self: Tensor) -> Tensor:
    return op.full(True, self.shape, torch.bool)


@translates("aten::isin.Tensor_Scalar", promote=("elements", "test_element"))
def isin_scalar(op: Builder, elements: Tensor, test_element: Tensor, assume_unique: bool, invert: bool) -> Tensor:
    found = op.Equal(elements, test_element)
    return ~found if invert else found


@translates("aten::isin.Scalar_Tensor", promote=("element", "test_elements"))
def scalar_isin(op: Builder, element: Tensor, test_elements: Tensor, assume_unique: bool, invert: bool) -> Tensor:
    return isin(op, element, test_elements, assume_unique, invert)


@translates("aten::isin.Tensor_Tensor", promote=("elements", "test_elements"))
def isin(op: Builder, elements: Tensor, test_elements: Tensor, assume_unique: bool, invert: bool) -> Tensor:
    pairs = op.Equal(op.unsqueeze(elements, [elements.rank]), flat(op, test_elements))
    found = any_(op, pairs, [elements.rank])
    return ~found if invert else found


# Logic


_LOGIC = {"And": "and", "Or": "or", "Xor": "xor"}


def _logical(op_type: str, name: str) -> None:
    @translates(f"aten::logical_{name}")
    def logical(op: Builder, self: Tensor, other: Tensor) -> Tensor:
        return getattr(op, op_type)(op.cast(self, torch.bool), op.cast(other, torch.bool))  # type: ignore[no-any-return]


for op_type, name in _LOGIC.items():
    _logical(op_type, name)


@translates("aten::logical_not")
def logical_not(op: Builder, self: Tensor) -> Tensor:
    return ~op.cast(self, torch.bool)
