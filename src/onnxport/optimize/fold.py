"""Constant folding: nodes whose inputs are all literals, and sizes that the shape states."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxport.graphs import bodies
from onnxport.optimize.numpy_kernels import KERNELS
from onnxport.optimize.scope import Array, Scope, constant_node_tensor

#: A folded result may be this large for free; beyond it, only as large as the literals that folding makes unused.
FREE_BYTES = 1024


def fold(node: ir.Node, scope: Scope) -> bool:
    """Replace a node by the literal it computes; whether that happened.

    ``Concat(Shape(x: [2, n]), [3])`` stays, ``Add([1], [2])`` becomes ``[3]``, ``Shape(x: [2, 5])`` becomes ``[2, 5]``.
    Weights are never read, random operators have no kernel, and the file never grows by it.
    """
    op_type = node.op_type
    if op_type == "Constant":
        return _lift_constant(node, scope)
    if _has_no_elements(node.outputs[0]):
        return _leave_out_nothing(node, scope)
    if op_type == "Shape" or op_type == "Size":
        result = _from_shape(node)
    else:
        if op_type not in KERNELS:
            return False
        result = _from_literals(node, scope)
        if result is None and (op_type == "Gather" or op_type == "Slice"):
            result = _from_part_of_shape(node, scope)
    if result is None:
        return False
    _store(node, scope, result)
    scope.tally["folded constant"] += 1
    return True


def _has_no_elements(value: ir.Value) -> bool:
    return value.shape is not None and 0 in value.shape.dims and value.shape.is_static()


def _leave_out_nothing(node: ir.Node, scope: Scope) -> bool:
    """Results without elements are literals, whatever they are computed of.

    onnxruntime 1.31 ends the process over an LSTM or GRU of an empty batch, and runs one while it loads a file whose
    branch for no rows has such a layer.
    """
    if scope.in_function or bodies(node) or not all(map(_has_no_elements, node.outputs)):
        return False
    if any(value.dtype is None or value.is_graph_output() for value in node.outputs):
        return False
    for value in node.outputs:
        assert value.dtype is not None and value.shape is not None
        array = np.empty(value.shape.numpy(), dtype=value.dtype.numpy())
        if scope.counts.get(value, 0):
            scope.replace(value, scope.literal(array, value.dtype, scope.yield_name(value)))
    scope.tally["result without elements"] += 1
    return node in scope.dead


def _from_literals(node: ir.Node, scope: Scope) -> Array | None:
    arrays: list[Array] = []
    for value in node.inputs:
        array = scope.array(value)
        if array is None:
            # An omitted optional input in the middle changes what the later ones mean: left to the runtime.
            return None
        arrays.append(array)
    if not arrays:
        return None
    allowed = FREE_BYTES
    freed = sum(array.nbytes for value, array in zip(node.inputs, arrays, strict=True) if _only_use(value, scope))
    allowed = max(allowed, freed)
    folding = KERNELS[node.op_type]
    with np.errstate(all="ignore"):
        try:
            if folding.size is not None and folding.size(node, arrays) > allowed:
                return None
            result = folding.kernel(node, arrays)
        except (ValueError, IndexError, TypeError, OverflowError) as error:
            # An invalid node (shapes that don't broadcast, an axis out of range): whoever runs it will say so.
            scope.tally[f"unfolded {node.op_type}: {error}"] += 1
            return None
    return result if result is not None and result.nbytes <= allowed else None


def _only_use(value: ir.Value | None, scope: Scope) -> bool:
    return value is not None and scope.counts.get(value, 0) == 1 and not value.is_graph_output()


def _from_shape(node: ir.Node) -> Array | None:
    dims = _stated_dims(node)
    if dims is None or not all(isinstance(dim, int) for dim in dims):
        return None
    array = np.array(dims, dtype=np.int64)
    return np.asarray(array.prod(dtype=np.int64)) if node.op_type == "Size" else array


def _stated_dims(node: ir.Node) -> tuple[int | ir.SymbolicDim, ...] | None:
    """The dimensions a Shape node returns, as far as its input's shape states them."""
    value = node.inputs[0]
    if value is None or value.shape is None:
        return None
    return value.shape.dims[node.attributes.get_int("start", 0) : node.attributes.get_int("end", None)]


def _from_part_of_shape(node: ir.Node, scope: Scope) -> Array | None:
    """A Gather or Slice that takes only fixed dimensions of a shape that also has free ones."""
    source = node.inputs[0]
    producer = source.producer() if source is not None else None
    if producer is None or producer.op_type != "Shape" or any(a.is_ref() for a in producer.attributes.values()):
        return None
    dims = _stated_dims(producer)
    rest = [scope.array(value) for value in node.inputs[1:]]
    if dims is None:
        return None
    known = [array for array in rest if array is not None]
    if len(known) != len(rest):
        return None
    # The free dimensions stand in as -1, which no fixed one can be.
    stated = np.array([dim if isinstance(dim, int) else -1 for dim in dims], dtype=np.int64)
    result = KERNELS[node.op_type].kernel(node, [stated, *known])
    return None if result is None or (result < 0).any() else result


def _lift_constant(node: ir.Node, scope: Scope) -> bool:
    """Constant nodes become initializers, where equal ones are one; those that are outputs or in functions stay."""
    value = node.outputs[0]
    if scope.in_function or value.is_graph_output():
        return False
    array = scope.array(value)
    if array is not None:
        dtype = _literal_type(value, scope)
        scope.replace(value, scope.literal(array, dtype, scope.yield_name(value)))
    else:
        tensor = constant_node_tensor(node)
        if tensor is None or tensor.dtype == ir.DataType.STRING:
            return False
        name = scope.yield_name(value)
        tensor.name = name
        scope.replace(value, scope.add_initializer(tensor, name))
    scope.tally["constant node"] += 1
    return True


def _literal_type(value: ir.Value, scope: Scope) -> ir.DataType:
    tensor = scope.literal_tensor(value)
    assert tensor is not None
    return tensor.dtype


def _store(node: ir.Node, scope: Scope, result: Array) -> None:
    value = node.outputs[0]
    dtype = ir.DataType.from_numpy(result.dtype)
    array = np.ascontiguousarray(result).reshape(result.shape)
    if scope.in_function:
        scope.become(node, "Constant", (), [ir.AttrTensor("value", ir.Tensor(array, dtype=dtype))])
        return
    made = scope.literal(array, dtype, scope.yield_name(value))
    scope.replace(value, made)
