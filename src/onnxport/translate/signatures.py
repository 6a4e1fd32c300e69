"""What the ONNX schemas say about an operator: attribute types, and where its outputs' dtypes come from."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import onnx
import onnx_ir as ir

from onnxport.translate.dims import Int, broadcast

if TYPE_CHECKING:
    from onnxport.translate.tensor import Tensor

CANONICAL_OPSET = 23
"""The opset translations are written for; legalisation goes on from here."""

_TYPE_NAMES = {
    "tensor(bool)": ir.DataType.BOOL,
    "tensor(int64)": ir.DataType.INT64,
    "tensor(int32)": ir.DataType.INT32,
    "tensor(uint8)": ir.DataType.UINT8,
    "tensor(float)": ir.DataType.FLOAT,
}


@dataclass(frozen=True)
class Signature:
    """The part of a schema that emitting a node needs.

    ``outputs`` holds per output the positions of the inputs that share its type, or a fixed type.
    """

    attributes: dict[str, ir.AttributeType]
    outputs: tuple[tuple[int, ...] | ir.DataType, ...]

    def output_type(self, index: int, inputs: Sequence[Tensor | None]) -> ir.DataType | None:
        """The dtype of an output given the inputs, where the schema determines it."""
        rule = self.outputs[min(index, len(self.outputs) - 1)]
        if isinstance(rule, ir.DataType):
            return rule
        for position in rule:
            if position < len(inputs) and (found := inputs[position]) is not None:
                return found._value.dtype
        return None


@functools.cache
def signature(op_type: str) -> Signature:
    """The signature of an operator of the default domain at the canonical opset."""
    schema = onnx.defs.get_schema(op_type, CANONICAL_OPSET)
    constraints = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    outputs: list[tuple[int, ...] | ir.DataType] = []
    for output in schema.outputs:
        allowed = constraints.get(output.type_str, [output.type_str])
        shared = tuple(i for i, parameter in enumerate(schema.inputs) if parameter.type_str == output.type_str)
        if not shared and len(allowed) == 1 and allowed[0] in _TYPE_NAMES:
            outputs.append(_TYPE_NAMES[allowed[0]])
        else:
            outputs.append(shared)
    attributes = {
        name: ir.AttributeType(int(attribute.type.value))  # type: ignore[attr-defined]
        for name, attribute in schema.attributes.items()
    }
    return Signature(attributes, tuple(outputs))


_SAME_SHAPE = """
Abs Acos Acosh Asin Asinh Atan Atanh BatchNormalization BitwiseNot Cast Ceil Celu Clip Cos Cosh CumSum Elu Erf Exp Floor
Gelu GroupNormalization HardSigmoid HardSwish Identity InstanceNormalization IsInf IsNaN LayerNormalization LeakyRelu
Log LogSoftmax LpNormalization Mish Neg Not Reciprocal Relu RMSNormalization Round ScatterElements ScatterND Selu Shrink
Sigmoid Sign Sin Sinh Softmax Softplus Softsign Sqrt Tan Tanh ThresholdedRelu Trilu
"""
SAME_SHAPE = frozenset(_SAME_SHAPE.split())
"""Operators whose first output has the shape of the first input."""

_BROADCASTING = """
Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual Max Min Mod Mul Or
Pow PRelu Sub Where Xor
"""
BROADCASTING = frozenset(_BROADCASTING.split())
"""Operators whose output has the shape the inputs broadcast to."""

_STRUCTURAL = """
Concat Expand Gather GatherND Identity Loop Reshape Scan ScatterND Slice Split Squeeze Transpose Unsqueeze
"""
STRUCTURAL = frozenset(_STRUCTURAL.split())
"""Operators that move elements without looking at them, so that a complex tensor's pairs stay together."""


def output_shape(op_type: str, inputs: Sequence[Tensor | None]) -> Sequence[Int] | None:
    """The shape of the first output, where it follows from those of the inputs alone."""
    if op_type in SAME_SHAPE and inputs[0] is not None:
        return inputs[0].known_shape
    if op_type in BROADCASTING:
        return broadcast([x.known_shape for x in inputs if x is not None])
    return None
