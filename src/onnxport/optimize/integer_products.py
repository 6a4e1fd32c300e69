"""Products of inputs that are quantized as they come with quantized weights: multiplied as integers."""

from __future__ import annotations

import onnx_ir as ir

from onnxport.optimize.rules.pattern import made_by
from onnxport.optimize.scope import Scope

_D = ir.DataType
# Two products of such numbers with those of 8 bits add up within 16 bits, which kernels without VNNI keep to.
_LARGEST = 127


def multiply_integers(scope: Scope) -> None:
    """Multiply integers where both sides of a product are dequantized, the left in a grid that is chosen at run time.

    ``Gemm(DequantizeLinear(q, s, z), DequantizeLinear(w, t), b, transB=1)`` becomes
    ``Add(Mul(Cast(MatMulInteger(q, wᵀ, z)), s * t), b)``, which runtimes compute at once. Grids that are known
    before are left as they are: runtimes take those for products of integers by themselves.
    """
    if scope.in_function:
        return
    for node in scope.graph:
        if node.op_type in ("Gemm", "MatMul") and node.domain == "" and node not in scope.dead:
            left, right = made_by(node.inputs[0], "DequantizeLinear"), _weight(node)
            if left is not None and right is not None and _is_chosen(left, scope) and _is_plain(right, scope):
                _multiply(node, left, right, scope)


def _weight(product: ir.Node) -> ir.Node | None:
    """What dequantizes the weight of a product that reads it transposed."""
    if product.op_type == "MatMul":
        turned = made_by(product.inputs[1], "Transpose")
        if turned is None or tuple(turned.attributes.get_ints("perm", (1, 0))) != (1, 0):
            return None
        return made_by(turned.inputs[0], "DequantizeLinear")
    numbers = [product.attributes.get_float(name, 1.0) for name in ("alpha", "beta")]
    turns = [product.attributes.get_int(name, 0) for name in ("transA", "transB")]
    return made_by(product.inputs[1], "DequantizeLinear") if (numbers, turns) == ([1.0, 1.0], [0, 1]) else None


def _is_chosen(left: ir.Node, scope: Scope) -> bool:
    """Whether integers of 7 bits are dequantized with one scale that only run time knows."""
    integers, scale = left.inputs[:2]
    clip = made_by(integers, "Clip")
    if integers is None or clip is None or integers.dtype != _D.UINT8 or scale is None or scale.dtype != _D.FLOAT:
        return False
    most = scope.array(clip.inputs[2]) if len(clip.inputs) > 2 else None
    if most is None or most.size != 1 or int(most) > _LARGEST or scale.shape is None or len(scale.shape):
        return False
    return scale.producer() is not None and scope.array(scale) is None


def _is_plain(right: ir.Node, scope: Scope) -> bool:
    """Whether a weight has 8 bits and one scale, or one for each output, without zero points."""
    weight, scale = right.inputs[:2]
    if (
        weight is None
        or scale is None
        or weight.dtype != _D.INT8
        or not weight.is_initializer()
        or scale.dtype != _D.FLOAT
    ):
        return False
    if weight.shape is None or len(weight.shape) != 2 or scale.shape is None or "block_size" in right.attributes:
        return False
    if len(scale.shape) == 1 and right.attributes.get_int("axis", 1) != 0:
        return False
    zero = right.inputs[2] if len(right.inputs) > 2 else None
    known = scope.array(zero)
    return len(scale.shape) < 2 and (zero is None or (known is not None and not known.any()))


def _multiply(node: ir.Node, left: ir.Node, right: ir.Node, scope: Scope) -> None:
    (integers, scale, *zeros), (weight, steps) = left.inputs, right.inputs[:2]
    result = node.outputs[0]
    assert integers is not None and scale is not None and weight is not None and steps is not None
    assert weight.shape is not None and steps.shape is not None
    shape = [] if result.shape is None else list(result.shape)
    turn = [ir.AttrInt64s("perm", (1, 0))]
    turned = scope.insert_before(node, "Transpose", [weight], _D.INT8, list(weight.shape)[::-1], turn)
    operands = [integers, turned, *(zero for zero in zeros if zero is not None)]
    sums = scope.insert_before(node, "MatMulInteger", operands, _D.INT32, shape)
    real = scope.insert_before(node, "Cast", [sums], _D.FLOAT, shape, [ir.AttrInt64("to", int(_D.FLOAT))])
    factor = scope.insert_before(node, "Mul", [scale, steps], _D.FLOAT, list(steps.shape))
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    scope.tally["product of integers"] += 1
    if bias is None:
        scope.become(node, "Mul", [real, factor])
        return
    scaled = scope.insert_before(node, "Mul", [real, factor], _D.FLOAT, shape)
    scope.become(node, "Add", [scaled, bias])
