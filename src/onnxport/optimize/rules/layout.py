"""Operations that only rearrange (Reshape, Transpose, Squeeze, Unsqueeze, Expand, Slice), and axes of reductions."""

from __future__ import annotations

from typing import Literal

import numpy as np
import onnx_ir as ir

from onnxport.optimize.rules.pattern import Rule, producer_of, rules_for
from onnxport.optimize.scope import Scope, comparable_dims, known_dims, surely_same_shape

_EVERYTHING = 2**31 - 1


def _to_own_shape(node: ir.Node, scope: Scope) -> ir.Value | None:
    value = node.inputs[0]
    return value if surely_same_shape(value, node.outputs[0]) else None


def _new_shape(node: ir.Node, scope: Scope, dims: list[int]) -> Literal[True] | None:
    """Give a Reshape another constant shape; not in functions, which have nowhere to keep it."""
    if scope.in_function:
        return None
    name = f"{node.outputs[0].name}_shape"
    shape = scope.literal(np.array(dims, dtype=np.int64), ir.DataType.INT64, name)
    scope.set_input(node, 1, shape)
    return True


def _constant_shape(node: ir.Node, scope: Scope) -> Literal[True] | None:
    """``Reshape(x, Concat(...))`` whose result has one free dimension, or free ones only where ``x`` has them too."""
    target = known_dims(node.outputs[0])
    if target is None or scope.ints(node.inputs[1]) is not None:
        return None
    if node.attributes.get_int("allowzero", 0) or 0 in target:
        return None
    free = [index for index, dim in enumerate(target) if not isinstance(dim, int)]
    if len(free) <= 1:
        dims = [dim if isinstance(dim, int) else -1 for dim in target]
    else:
        # Copied dimensions and an inferred one don't mix: with an empty batch there is nothing to infer from.
        source, target = comparable_dims(node.inputs[0]), comparable_dims(node.outputs[0])
        if source is None or target is None:
            return None
        if any(index >= len(source) or source[index] != target[index] for index in free):
            return None
        dims = [dim if isinstance(dim, int) else 0 for dim in target]
    return _new_shape(node, scope, dims)


def _reshape_of_reshape(node: ir.Node, scope: Scope) -> Literal[True] | None:
    source = producer_of(node).inputs[0]
    middle = node.inputs[0]
    target = scope.ints(node.inputs[1])
    if source is None or target is None:
        return None
    if 0 in target and not node.attributes.get_int("allowzero", 0):
        before, between = comparable_dims(source), known_dims(middle)
        if between is None:
            return None
        compared = comparable_dims(middle) is not None
        dims = []
        for index, dim in enumerate(target):
            if dim != 0:
                dims.append(dim)
            elif before is not None and compared and index < len(before) and before[index] == between[index]:
                dims.append(0)
            else:
                kept = between[index]
                if not isinstance(kept, int) or kept == 0:
                    return None
                dims.append(kept)
        if dims != target and not _new_shape(node, scope, dims):
            return None
    scope.set_input(node, 0, source)
    return True


def _no_copies_behind_reshape(node: ir.Node, scope: Scope) -> Literal[True] | None:
    """A shape that copies a size of what is itself reshaped: readers that join the two look for it in the wrong one."""
    target = scope.ints(node.inputs[1])
    if target is None or target.count(0) != 1 or -1 in target:
        return None
    if node.attributes.get_int("allowzero", 0):
        return None
    stated = known_dims(node.outputs[0])
    if stated is None or 0 in stated:
        return None
    return _new_shape(node, scope, [-1 if dim == 0 else dim for dim in target])


def _permutation(node: ir.Node) -> list[int] | None:
    given = node.attributes.get("perm")
    if given is not None:
        return list(given.as_ints())
    value = node.inputs[0]
    if value is None or value.shape is None:
        return None
    return list(range(value.shape.rank()))[::-1]


def _transpose_nothing(node: ir.Node, scope: Scope) -> ir.Value | None:
    order = _permutation(node)
    return node.inputs[0] if order is not None and order == list(range(len(order))) else None


def _transpose_of_transpose(node: ir.Node, scope: Scope) -> Literal[True] | None:
    inner = producer_of(node)
    first, second = _permutation(inner), _permutation(node)
    if first is None or second is None:
        return None
    scope.set_input(node, 0, inner.inputs[0])
    node.attributes.add(ir.AttrInt64s("perm", [first[axis] for axis in second]))
    return True


def _inverse_pair(node: ir.Node, scope: Scope) -> ir.Value | None:
    """Both axes count in the rank of the longer side, which is the same tensor's rank for either order."""
    inner = producer_of(node)
    source, middle = inner.inputs[0], node.inputs[0]
    if source is None or len(inner.inputs) < 2 or len(node.inputs) < 2:
        return None
    first, second = scope.ints(inner.inputs[1]), scope.ints(node.inputs[1])
    if first is None or second is None or len(first) != len(second):
        return None
    if sorted(first) == sorted(second):
        return source
    longer = middle if inner.op_type == "Unsqueeze" else source
    if longer is None or longer.shape is None:
        return None
    rank = longer.shape.rank()
    return source if sorted(axis % rank for axis in first) == sorted(axis % rank for axis in second) else None


def _unsqueeze_of_unsqueeze(node: ir.Node, scope: Scope) -> Literal[True] | None:
    inner = producer_of(node)
    first, second = scope.ints(inner.inputs[1]), scope.ints(node.inputs[1])
    if first is None or second is None or scope.in_function or min(*first, *second, 0) < 0:
        return None
    # The n-th axis between the two is the n-th one after them that the second doesn't insert.
    free = [axis for axis in range(len(first) + len(second) + max(first)) if axis not in second]
    axes = sorted([*second, *(free[axis] for axis in first)])
    name = f"{node.outputs[0].name}_axes"
    scope.set_input(node, 1, scope.literal(np.array(axes, dtype=np.int64), ir.DataType.INT64, name))
    scope.set_input(node, 0, inner.inputs[0])
    return True


def _expand_by_ones(node: ir.Node, scope: Scope) -> ir.Value | None:
    value = node.inputs[0]
    target = scope.ints(node.inputs[1])
    if value is None or value.shape is None or target is None:
        return None
    return value if all(dim == 1 for dim in target) and len(target) <= value.shape.rank() else None


def _expand_of_expand(node: ir.Node, scope: Scope) -> Literal[True] | None:
    """The outer shape alone says all where it names each size that the inner one made."""
    inner, target = producer_of(node), scope.ints(node.inputs[1])
    source, middle = inner.inputs[0], known_dims(node.inputs[0])
    if source is None or middle is None or target is None or len(target) < len(middle):
        return None
    if any(asked == 1 and size != 1 for asked, size in zip(reversed(target), reversed(middle), strict=False)):
        return None
    scope.set_input(node, 0, source)
    return True


def _axes_of_reshape(node: ir.Node, scope: Scope) -> Literal[True] | None:
    """``Unsqueeze(Reshape(x))`` becomes ``Reshape(x)`` where one size at most is to be inferred."""
    value, result = node.inputs[0], known_dims(node.outputs[0])
    source = producer_of(node).inputs[0]
    if value is None or source is None or result is None or scope.in_function or 0 in result:
        return None
    free = [dim for dim in result if not isinstance(dim, int)]
    if len(free) > 1 or scope.counts.get(value, 0) != 1 or value.is_graph_output():
        return None
    dims = [dim if isinstance(dim, int) else -1 for dim in result]
    shape = scope.literal(np.array(dims, dtype=np.int64), ir.DataType.INT64, f"{node.outputs[0].name}_shape")
    scope.become(node, "Reshape", [source, shape])
    return True


def _slice_of_everything(node: ir.Node, scope: Scope) -> ir.Value | None:
    value = node.inputs[0]
    if value is None:
        return None
    steps = scope.ints(node.inputs[4]) if len(node.inputs) > 4 and node.inputs[4] is not None else [1]
    if steps is None or any(step != 1 for step in steps):
        return None
    if surely_same_shape(value, node.outputs[0]):
        return value
    starts, ends = scope.ints(node.inputs[1]), scope.ints(node.inputs[2])
    if starts is None or ends is None or any(starts):
        return None
    return value if all(end >= _EVERYTHING for end in ends) else None


def _reduce_all(node: ir.Node, scope: Scope) -> Literal[True] | None:
    """A reduction to one number names no axes: OpenCV 5.0 takes what has no axes for one of length 1 if they are named.

    onnxruntime's symbolic shape inference reads no axes of ReduceMax, ReduceMin and ReduceProd from opset 18 on.
    """
    data, *axes = node.inputs
    numbers = scope.ints(axes[0]) if axes else None
    if numbers is None or data is None or data.shape is None:
        return None
    rank = data.shape.rank()
    kept = node.attributes.get_int("keepdims", 1) == 1
    # Without axes such a node would reduce nothing.
    nothing = node.attributes.get_int("noop_with_empty_axes", 0) == 1
    if kept or nothing or not rank or len({axis % rank for axis in numbers}) != rank:
        return None
    scope.become(node, node.op_type, [data], list(node.attributes.values()))
    return True


_REDUCTIONS = "ReduceL1 ReduceL2 ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare"

RULES: list[Rule] = [
    *rules_for("reduction of all axes", _REDUCTIONS, _reduce_all),
    *rules_for("reshape to its own shape", "Reshape Flatten", _to_own_shape),
    Rule("reshape by a constant", "Reshape", _constant_shape),
    Rule("reshape of reshape", "Reshape(Reshape|Flatten|Squeeze|Unsqueeze)", _reshape_of_reshape),
    Rule("no copies behind a reshape", "Reshape(Reshape|Flatten)", _no_copies_behind_reshape),
    Rule("transpose of nothing", "Transpose", _transpose_nothing),
    Rule("transpose of transpose", "Transpose(Transpose)", _transpose_of_transpose),
    *rules_for("squeeze against unsqueeze", "Squeeze(Unsqueeze) Unsqueeze(Squeeze)", _inverse_pair),
    Rule("unsqueeze of unsqueeze", "Unsqueeze(Unsqueeze)", _unsqueeze_of_unsqueeze),
    *rules_for("axes of reshape", "Unsqueeze(Reshape) Squeeze(Reshape)", _axes_of_reshape),
    Rule("expand of expand", "Expand(Expand)", _expand_of_expand),
    Rule("expand to its own shape", "Expand", _to_own_shape),
    Rule("expand to its own shape", "Expand", _expand_by_ones),
    Rule("slice of everything", "Slice", _slice_of_everything),
]
