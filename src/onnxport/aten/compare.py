"""Comparison and logic: results are bool."""

from __future__ import annotations

import torch

from onnxport.translate import Builder, Tensor, one_node, translates

_COMPARISONS = {
    "Equal": "eq",
    "Greater": "gt",
    "GreaterOrEqual": "ge",
    "Less": "lt",
    "LessOrEqual": "le",
}
for op_type, name in _COMPARISONS.items():
    one_node(op_type, f"aten::{name}.Tensor", f"aten::{name}.Scalar", promote=("self", "other"))


@translates("aten::ne.Tensor", "aten::ne.Scalar", promote=("self", "other"))
def ne(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    return ~op.Equal(self, other)


_LOGIC = {"And": "and", "Or": "or", "Xor": "xor"}


def _logical(op_type: str, name: str) -> None:
    @translates(f"aten::logical_{name}")
    def logical(op: Builder, self: Tensor, other: Tensor) -> Tensor:
        return getattr(op, op_type)(op.cast(self, torch.bool), op.cast(other, torch.bool))  # type: ignore[no-any-return]

    @translates(
        f"aten::bitwise_{name}.Tensor",
        f"aten::bitwise_{name}.Scalar",
        f"aten::__{name}__.Tensor",
        f"aten::__{name}__.Scalar",
        promote=("self", "other"),
    )
    def bitwise(op: Builder, self: Tensor, other: Tensor) -> Tensor:
        prefix = "" if self.dtype == torch.bool else "Bitwise"
        return getattr(op, prefix + op_type)(self, other)  # type: ignore[no-any-return]


for op_type, name in _LOGIC.items():
    _logical(op_type, name)


@translates("aten::logical_not")
def logical_not(op: Builder, self: Tensor) -> Tensor:
    return ~op.cast(self, torch.bool)


@translates("aten::bitwise_not")
def bitwise_not(op: Builder, self: Tensor) -> Tensor:
    return ~self if self.dtype == torch.bool else op.BitwiseNot(self)
