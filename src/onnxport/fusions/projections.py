"""Queries, keys and values in one value, which onnxruntime's operators take as it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnxport.onnx_build.names import joined_name
from onnxport.optimize.rules.pattern import made_by
from onnxport.optimize.scope import Scope, known_dims
from onnxport.weights.kinds import is_weight


@dataclass(frozen=True)
class _Product:
    """``MatMul(source, weight) + bias``, which nothing else reads."""

    source: ir.Value
    weight: ir.Value
    bias: ir.Value | None
    name: str
    width: int


def joined_projections(node: ir.Node, operands: Sequence[ir.Value], scope: Scope) -> ir.Value | None:
    """Queries, keys and values one after the other in the last axis, if that takes no copy; new nodes before ``node``.

    They are what a Split took them from, or one product: ``MatMul(x, Q), MatMul(x, K), MatMul(x, V)`` becomes
    ``MatMul(x, Concat(Q, K, V))``, whose weights are joined when they are written.
    """
    whole = _taken_apart(operands)
    if whole is not None:
        return whole
    products = [found for value in operands if (found := _product(value, scope)) is not None]
    if len(products) != len(operands):
        return None
    first = products[0]
    if any(one.source is not first.source or (one.bias is None) != (first.bias is None) for one in products):
        return None
    dtype, (*lead, inputs) = first.weight.dtype, known_dims(first.source) or ()
    assert dtype is not None
    width = sum(one.width for one in products)
    weight = _concat(node, [one.weight for one in products], [inputs, width], scope)
    weight.name = scope.free_name(joined_name([one.name for one in products]))
    result = scope.insert_before(node, "MatMul", [first.source, weight], dtype, [*lead, width])
    biases = [one.bias for one in products if one.bias is not None]
    if not biases:
        return result
    bias = _concat(node, biases, [width], scope)
    bias.name = scope.free_name(joined_name([str(one.name) for one in biases]))
    return scope.insert_before(node, "Add", [result, bias], dtype, [*lead, width])


def _concat(node: ir.Node, values: Sequence[ir.Value], dims: Sequence[int | ir.SymbolicDim], scope: Scope) -> ir.Value:
    dtype = values[0].dtype
    assert dtype is not None
    return scope.insert_before(node, "Concat", values, dtype, dims, [ir.AttrInt64("axis", len(dims) - 1)])


def _taken_apart(operands: Sequence[ir.Value]) -> ir.Value | None:
    """What a Split along the last axis gives as these values, in this order and nothing beside them."""
    split = made_by(operands[0], "Split")
    if split is None or len(split.outputs) != len(operands) or split.inputs[0] is None:
        return None
    dims = known_dims(split.inputs[0])
    if dims is None or split.attributes.get_int("axis", 0) % len(dims) != len(dims) - 1:
        return None
    same = all(given is value for given, value in zip(split.outputs, operands, strict=True))
    return split.inputs[0] if same else None


def _product(value: ir.Value, scope: Scope) -> _Product | None:
    """The product of a weight that gives a value, with a bias if there is one."""
    if not _is_read_once(value, scope):
        return None
    add = made_by(value, "Add")
    bias = None
    if add is not None:
        held = [(one, other) for one, other in (add.inputs, add.inputs[::-1]) if other is not None and is_weight(other)]
        if len(held) != 1:
            return None
        ((product, bias),) = held
        if product is None or not _is_read_once(product, scope) or known_dims(bias) != (known_dims(value) or ())[-1:]:
            return None
        value = product
    multiplied = made_by(value, "MatMul")
    if multiplied is None:
        return None
    source, weight = multiplied.inputs
    dims = known_dims(weight)
    if source is None or weight is None or dims is None or len(dims) != 2 or not isinstance(dims[1], int):
        return None
    turned = made_by(weight, "Transpose")
    held_by = turned.inputs[0] if turned is not None else weight
    if held_by is None or not held_by.is_initializer() or not is_weight(held_by) or not _is_read_once(weight, scope):
        return None
    # A weight that others read as well would be in the file twice.
    if not _is_read_once(held_by, scope) or known_dims(source) is None:
        return None
    return _Product(source, weight, bias, str(held_by.name), dims[1])


def _is_read_once(value: ir.Value, scope: Scope) -> bool:
    return scope.counts.get(value, 0) == 1 and not value.is_graph_output()
