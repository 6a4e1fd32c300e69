"""Weights that are kept as 8-bit or 4-bit numbers: each with one DequantizeLinear, in the order that products read."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from onnxport.onnx_build.operators import operator_set
from onnxport.optimize.scope import Scope
from onnxport.weights.kinds import is_weight
from onnxport.weights.stored_form import HALF_BYTES, StoredForm, in_form
from onnxport.weights.torch_tensor import TorchTensor

_D = ir.DataType
_EIGHT_BITS = frozenset({_D.INT8, _D.UINT8, _D.FLOAT8E4M3FN, _D.FLOAT8E4M3FNUZ, _D.FLOAT8E5M2, _D.FLOAT8E5M2FNUZ})
_WHOLE = (_D.INT32, _D.INT64)
_MOVES = operator_set("Transpose Reshape Squeeze Unsqueeze Cast Identity")
Stored = tuple[ir.Value, StoredForm]
"""A weight, and what a part of the graph makes of it that the file can hold instead."""


def store_quantized_weights(scope: Scope) -> None:
    """Write quantized weights as DequantizeLinear of what a product reads by columns.

    ``Mul(MatMul(x, Cast(Transpose(w: int8))), s)`` becomes ``MatMul(x, DequantizeLinear(wᵀ, s, axis=1))``, and
    ``Gemm(x, DequantizeLinear(Cast(w, to=INT4), s), transB=1)`` becomes ``Gemm(x, DequantizeLinear(wᵀ: int4, sᵀ))``.
    Runtimes have one operator for that. The transposed weight is a view of torch's storage until it is written.
    """
    if scope.in_function or not any(_is_quantized(value) for value in scope.graph.initializers.values()):
        return
    weights = _Weights(scope)
    for node in scope.graph:
        step = _STEPS.get(node.op_type)
        if step is not None and node.domain == "" and node not in scope.dead:
            step(node, weights)
    weights.store_once()
    weights.take_over_names()


def _is_quantized(value: ir.Value) -> bool:
    return value.dtype in _EIGHT_BITS and is_weight(value) and isinstance(value.const_value, TorchTensor)


class _Weights:
    """The weights of a graph in the forms that were asked for so far."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self._made: dict[Stored, ir.Value] = {}

    def find(self, value: ir.Value | None) -> Stored | None:
        """The weight behind a value, through what only moves its elements or says in how many bits they are kept."""
        if value is None or value.shape is None or not value.shape.is_static():
            return None
        if value.is_initializer():
            fits = is_weight(value) and not value.is_graph_input() and isinstance(value.const_value, TorchTensor)
            return (value, StoredForm()) if fits else None
        node = value.producer()
        if node is None or node.domain != "":
            return None
        if node.op_type == "Cast" and not _is_narrowing(node):
            return None
        if node.op_type not in _MOVES:
            return None
        found = self.find(node.inputs[0])
        if found is None:
            return None
        weight, form = found
        if node.op_type == "Cast":
            return weight, form.stored_as(value.dtype)
        if node.op_type == "Transpose":
            rank = len(value.shape)
            order = node.attributes.get_ints("perm", tuple(reversed(range(rank))))
            return weight, form.permuted(tuple(order))
        return weight, form if node.op_type == "Identity" else form.reshaped(_sizes(value))

    def value(self, stored: Stored) -> ir.Value:
        """The initializer for a weight in a form."""
        weight, form = stored
        if form == StoredForm():
            return weight
        if stored not in self._made:
            assert isinstance(weight.const_value, TorchTensor)
            name = f"{weight.name}_stored"
            tensor = in_form(weight.const_value, form, name)
            if tensor is None:
                # It holds more than four bits do, whatever its scheme says.
                return self.value((weight, form.stored_as(None)))
            made = self.scope.add_initializer(tensor, name)
            made.metadata_props.update(weight.metadata_props)
            self._made[stored] = made
        return self._made[stored]

    def store_once(self) -> None:
        """Let what else reads a weight in a form read that one, so that the file doesn't hold it twice."""
        if not any(self.scope.counts.get(weight, 0) for weight, _ in self._made):
            return
        for node in list(self.scope.graph):
            if node.op_type in _MOVES and node.domain == "" and node not in self.scope.dead:
                found = self.find(node.outputs[0])
                if found in self._made and not node.outputs[0].is_graph_output():
                    self.scope.replace(node.outputs[0], self._made[found])
        for (weight, form), made in self._made.items():
            match form.steps:
                case (("permute", order),) if weight.dtype == made.dtype is not None and not weight.is_graph_output():
                    back = ir.AttrInt64s("perm", sorted(range(len(order)), key=order.__getitem__))
                    for user, index in _users(weight, self.scope):
                        turned = self.scope.insert_before(user, "Transpose", [made], made.dtype, _sizes(weight), [back])
                        self.scope.set_input(user, index, turned)
                case _:
                    pass

    def take_over_names(self) -> None:
        """Let the weights in other forms have the names of those whose place they took."""
        initializers = self.scope.graph.initializers
        for (weight, _), made in self._made.items():
            if self.scope.counts.get(weight, 0) or not self.scope.counts.get(made, 0) or weight.is_graph_output():
                continue
            name = str(weight.name)
            if initializers.pop(name, None) is not None:
                del initializers[str(made.name)]
                made.name = name
                initializers.add(made)

    def pair(self, data: Stored, zero_point: Stored | None) -> tuple[ir.Value, ir.Value | None]:
        """A weight and its zero points, which have to be of one element type."""
        one, other = self.value(data), None if zero_point is None else self.value(zero_point)
        if other is not None and zero_point is not None and one.dtype != other.dtype:
            one = self.value((data[0], data[1].stored_as(None)))
            other = self.value((zero_point[0], zero_point[1].stored_as(one.dtype)))
        return one, other


def _is_narrowing(cast: ir.Node) -> bool:
    """Whether a Cast only says in how many bits integers are kept: 4, or 8 for zero points that torch has in 64."""
    source, result = cast.inputs[0], cast.outputs[0]
    if result.dtype in HALF_BYTES:
        return True
    return source is not None and source.dtype in _WHOLE and result.dtype in (_D.INT8, _D.UINT8)


def _sizes(value: ir.Value) -> tuple[int, ...]:
    assert value.shape is not None
    return tuple(int(size) for size in value.shape.numpy())


def _users(value: ir.Value, scope: Scope) -> list[tuple[ir.Node, int]]:
    return [(node, index) for node, index in value.uses() if node not in scope.dead]


# --- what is written out, as one DequantizeLinear --------------------------------------------------------------------


def _scaled(node: ir.Node, weights: _Weights) -> None:
    """``Mul(Cast(w), s)``, or ``Mul(MatMul(x, Cast(w)), s)`` with a scale for each column."""
    for given, scale in (node.inputs, reversed(node.inputs)):
        source = given.producer() if given is not None else None
        if source is None or scale is None or source.domain != "":
            continue
        if source.op_type == "Cast" and _dequantized(node, source, scale, weights):
            return
        if source.op_type == "MatMul" and _scaled_product(node, source, scale, weights):
            return


def _dequantized(node: ir.Node, cast: ir.Node, scale: ir.Value, weights: _Weights) -> bool:
    data = weights.find(cast.inputs[0])
    if data is None or data[0].dtype not in _EIGHT_BITS or cast.outputs[0].dtype != scale.dtype:
        return False
    shape = _sizes(cast.outputs[0])
    found = _scale(scale, shape, weights)
    if found is None:
        return False
    factor, axis = found
    attributes = [] if axis is None else [ir.AttrInt64("axis", axis)]
    if scale.dtype == _D.BFLOAT16:
        _dequantized_wide(node, weights.value(data), factor, attributes, weights.scope)
    else:
        weights.scope.become(node, "DequantizeLinear", [weights.value(data), factor], attributes)
        _dequantize(node, weights)
    weights.scope.tally["quantized weight"] += 1
    return True


def _dequantized_wide(node: ir.Node, data: ir.Value, scale: ir.Value, attributes: list[ir.Attr], scope: Scope) -> None:
    """By way of float32, which holds the products exactly: runtimes don't dequantize to bfloat16."""
    to_float, to_result = (ir.AttrInt64("to", int(kind)) for kind in (_D.FLOAT, _D.BFLOAT16))
    wide = scope.insert_before(node, "Cast", [scale], _D.FLOAT, _sizes(scale), [to_float])
    shape = _sizes(node.outputs[0])
    real = scope.insert_before(node, "DequantizeLinear", [data, wide], _D.FLOAT, shape, attributes)
    scope.become(node, "Cast", [real], [to_result])


def _scale(scale: ir.Value, shape: tuple[int, ...], weights: _Weights) -> tuple[ir.Value, int | None] | None:
    """A scale as DequantizeLinear takes it, with its axis: a number, or one for each element of an axis."""
    if scale.shape is None or not scale.shape.is_static() or len(scale.shape) > len(shape):
        return None
    sizes = _sizes(scale)
    padded = (1,) * (len(shape) - len(sizes)) + sizes
    axes = [axis for axis, size in enumerate(padded) if size != 1]
    if len(axes) > 1 or any(padded[axis] != shape[axis] for axis in axes):
        return None
    axis, wanted = (axes[0], (padded[axes[0]],)) if axes else (None, ())
    array = weights.scope.array(scale)
    if array is not None and scale.dtype is not None:
        return weights.scope.literal(np.reshape(array, wanted), scale.dtype, f"{scale.name}_scale"), axis
    stored = weights.find(scale)
    if stored is None:
        return None
    return (weights.value(stored) if sizes == wanted else weights.value((stored[0], stored[1].reshaped(wanted)))), axis


def _scaled_product(node: ir.Node, product: ir.Node, scale: ir.Value, weights: _Weights) -> bool:
    right = product.inputs[1]
    cast = right.producer() if right is not None else None
    if cast is None or cast.op_type != "Cast" or right is None or right.dtype != scale.dtype:
        return False
    if scale.dtype == _D.BFLOAT16:
        return False
    once = all(len(_users(value, weights.scope)) == 1 for value in (right, product.outputs[0]))
    data = weights.find(cast.inputs[0])
    if not once or data is None or data[0].dtype not in _EIGHT_BITS or product.outputs[0].is_graph_output():
        return False
    shape = _sizes(right)
    found = _scale(scale, shape, weights) if len(shape) == 2 else None
    if found is None or found[1] == 0:
        return False
    factor, axis = found
    attributes = [] if axis is None else [ir.AttrInt64("axis", axis)]
    weights.scope.become(cast, "DequantizeLinear", [weights.value(data), factor], attributes)
    weights.scope.replace(node.outputs[0], product.outputs[0])
    weights.scope.tally["quantized weight"] += 1
    return True


# --- the order in which it is kept -----------------------------------------------------------------------------------


def _dequantize(node: ir.Node, weights: _Weights) -> None:
    """Keep a weight transposed that is only read so, with its scales, and in its element type."""
    data = weights.find(node.inputs[0])
    if data is None or data[0].dtype not in _EIGHT_BITS:
        return
    parameters = [weights.find(value) for value in node.inputs[1:]]
    if _only_read_transposed(node.outputs[0], weights.scope) and _transposable(node, parameters):
        data = (data[0], data[1].permuted((1, 0)))
        parameters = _transpose(node, parameters, weights.scope)
    scale, zero_point = (*parameters, None)[:2]
    kept, offset = weights.pair(data, zero_point)
    _set(node, 0, kept, weights.scope)
    if scale is not None:
        _set(node, 1, weights.value(scale), weights.scope)
    if offset is not None:
        _set(node, 2, offset, weights.scope)


def _set(node: ir.Node, index: int, value: ir.Value, scope: Scope) -> None:
    if node.inputs[index] is not value:
        scope.set_input(node, index, value)


def _only_read_transposed(value: ir.Value, scope: Scope) -> bool:
    users = _users(value, scope)
    if value.shape is None or len(value.shape) != 2 or value.is_graph_output() or not users:
        return False
    rounded = _rounded(value, scope)
    if rounded is not None:
        return _only_read_transposed(rounded, scope)
    return all(_reads_transposed(node, index) for node, index in users)


def _rounded(value: ir.Value, scope: Scope) -> ir.Value | None:
    """What becomes of a value that is only converted to another type, once."""
    users = _users(value, scope)
    once = len(users) == 1 and users[0][0].op_type == "Cast" and users[0][0].domain == ""
    return users[0][0].outputs[0] if once and not value.is_graph_output() else None


def _reads_transposed(node: ir.Node, index: int) -> bool:
    if node.domain != "":
        return False
    if node.op_type == "Transpose":
        return tuple(node.attributes.get_ints("perm", (1, 0))) == (1, 0)
    return node.op_type == "Gemm" and index == 1 and node.attributes.get_int("transB", 0) == 1


def _transposable(node: ir.Node, parameters: list[Stored | None]) -> bool:
    """Whether scales and zero points can follow: there is one for each element of an axis, or they are weights."""
    blocked = node.attributes.get_int("block_size", 0) != 0
    return not blocked or None not in parameters


def _transpose(node: ir.Node, parameters: list[Stored | None], scope: Scope) -> list[Stored | None]:
    result = node.outputs[0]
    if node.inputs[1] is not None and node.inputs[1].shape is not None and len(node.inputs[1].shape):
        axis = node.attributes.get_int("axis", 1) % 2
        node.attributes.add(ir.AttrInt64("axis", 1 - axis))
    read, rounded = result, _rounded(result, scope)
    if rounded is not None:
        read = rounded
        read.shape = ir.Shape(_sizes(read)[::-1])
    for user, _ in _users(read, scope):
        if user.op_type == "Gemm":
            user.attributes.pop("transB")
        else:
            scope.replace(user.outputs[0], read)
    result.shape = ir.Shape(_sizes(result)[::-1])
    if node.attributes.get_int("block_size", 0) == 0:
        return parameters
    return [None if found is None else (found[0], found[1].permuted((1, 0))) for found in parameters]


def _integer_product(node: ir.Node, weights: _Weights) -> None:
    """Keep the right side of a product of integers as it is read."""
    data = weights.find(node.inputs[1])
    if data is not None and data[0].dtype in _EIGHT_BITS:
        _set(node, 1, weights.value(data), weights.scope)


_STEPS: dict[str, Callable[[ir.Node, _Weights], None]] = {
    "Mul": _scaled,
    "DequantizeLinear": _dequantize,
    "MatMulInteger": _integer_product,
}
