"""Mixtures of experts in a graph: rows sorted by the expert that they chose, and a product for each expert's rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnxport.graphs import graphs

Activation = Literal["swiglu", "silu", "relu"]
Array = npt.NDArray[Any]
_NEVER_NEGATIVE = frozenset({"Softmax", "Sigmoid", "Relu", "Exp", "Abs"})
_PASSING = frozenset({"TopK", "GatherElements", "Reshape", "Cast", "Identity", "Add", "Mul", "Div", "ReduceSum"})


@dataclass(frozen=True)
class Mixture:
    """What a mixture of experts computes: for each row of ``x`` a sum of the results of the experts that it chose.

    Attributes:
        result: What the sum is.
        x: The rows.
        chosen: The numbers of the experts, ``[rows, k]``.
        shares: What each is multiplied by, ``[rows, k]``; never negative.
        up: The node that takes an expert's first matrix.
        down: The node that takes its second matrix.
        activation: What is between the two.
        experts: How many there are.
    """

    result: ir.Value
    x: ir.Value
    chosen: ir.Value
    shares: ir.Value
    up: ir.Node
    down: ir.Node
    activation: Activation
    experts: int


@dataclass(frozen=True)
class _Product:
    """The rows of each expert times its matrix; ``ends`` says where each expert's rows end."""

    rows: ir.Value
    taken: ir.Node
    ends: ir.Value


def find_mixtures(model: ir.Model) -> Iterator[Mixture]:
    """The mixtures of experts of a model that sort rows by expert, as libraries do that have a product for groups."""
    for graph in graphs(model):
        for node in graph:
            if node.op_type == "ReduceSum" and node.domain == "":
                found = _mixture(node)
                if found is not None:
                    yield found


def _mixture(node: ir.Node) -> Mixture | None:
    spread = _made(node.inputs[0], "Reshape")
    axes = _ints(node.inputs[1]) if len(node.inputs) > 1 else None
    if axes != [1] or node.attributes.get_int("keepdims", 1) != 0 or spread is None:
        return None
    shape, unsorted = _shape(spread.outputs[0]), _made(spread.inputs[0], "Gather")
    weighted = None if unsorted is None or _axis(unsorted) else _made(unsorted.inputs[0], "Mul")
    if weighted is None or unsorted is None or len(shape) != 3 or not isinstance(shape[1], int):
        return None
    down, share = _product(weighted.inputs[0]), _made(weighted.inputs[1], "Unsqueeze")
    shares = None if share is None or _ints(share.inputs[1]) != [1] else _made(share.inputs[0], "Gather")
    between = None if down is None else _activation(down.rows)
    up = None if between is None else _product(between[1])
    taken = None if up is None else _made(up.rows, "Gather")
    if down is None or shares is None or between is None or up is None or taken is None or up.ends is not down.ends:
        return None
    order, flat = shares.inputs[1], _made(shares.inputs[0], "Reshape")
    sort = _made(order, "TopK")
    chosen = None if sort is None else _made(sort.inputs[0], "Reshape")
    if sort is None or order is None or flat is None or chosen is None or flat.inputs[0] is None:
        return None
    x, held = taken.inputs[0], _shape(up.taken.inputs[0])
    fits = (
        x is not None
        and len(_shape(x)) == 2
        and len(held) == 3
        and _is_sorting(sort, order)
        and _is_inverse(unsorted.inputs[1], order)
        and _is_row(taken.inputs[1], order, shape[1])
        and isinstance(held[0], int)
        and _counts(up.ends, sort.outputs[0], held[0])
        and _is_chosen(chosen.inputs[0], shape[1])
        and _never_negative(flat.inputs[0])
    )
    if not fits or x is None or chosen.inputs[0] is None or not isinstance(held[0], int):
        return None
    return Mixture(node.outputs[0], x, chosen.inputs[0], flat.inputs[0], up.taken, down.taken, between[0], held[0])


# --- products -----------------------------------------------------------------------------------------


def _product(value: ir.Value | None) -> _Product | None:
    """What a product of groups of rows multiplies, if a value is one: a loop over the groups that have rows."""
    joined = _made(value, "Concat")
    loop = None if joined is None else _made(joined.inputs[0], "Loop")
    if loop is None or len(loop.outputs) != 1:
        return None
    body = loop.attributes["body"].as_graph()
    following = _made(body.outputs[1], "Concat")
    product = None if following is None else _made(following.inputs[1], "MatMul")
    rows = None if product is None else _made(product.inputs[0], "Slice")
    taken = None if product is None else _made(product.inputs[1], "Gather")
    if following is None or rows is None or taken is None or following.inputs[0] is not body.inputs[2] or _axis(taken):
        return None
    last, number = _made(rows.inputs[2], "Gather"), _made(taken.inputs[1], "Gather")
    first = _made(rows.inputs[1], "Gather")
    if last is None or first is None or number is None or number.inputs[1] is not body.inputs[0]:
        return None
    same = all(_unsqueezed(bound.inputs[1]) is taken.inputs[1] for bound in (first, last))
    ends, starts = last.inputs[0], _made(first.inputs[0], "Concat")
    before = None if starts is None else _made(starts.inputs[1], "Slice")
    if not same or before is None or before.inputs[0] is not ends or rows.inputs[0] is None or ends is None:
        return None
    return _Product(rows.inputs[0], taken, ends)


def _unsqueezed(value: ir.Value | None) -> ir.Value | None:
    node = _made(value, "Unsqueeze")
    return None if node is None else node.inputs[0]


def _activation(value: ir.Value) -> tuple[Activation, ir.Value] | None:
    """What is between two products, and what it is of; a gated one reads both halves of the first product."""
    relu = _made(value, "Relu")
    if relu is not None and relu.inputs[0] is not None:
        return "relu", relu.inputs[0]
    plain = _silu(value)
    if plain is not None:
        return "silu", plain
    gated = _made(value, "Mul")
    for gate, other in () if gated is None else (gated.inputs, reversed(gated.inputs)):
        half = None if gate is None else _silu(gate)
        split = _made(half, "Split")
        if split is None or other is None or other.producer() is not split or len(split.outputs) != 2:
            continue
        axis = split.attributes.get_int("axis", 0)
        equal = len({str(_shape(part)[-1]) for part in split.outputs}) == 1
        if half is split.outputs[0] and other is split.outputs[1] and equal and axis in (1, -1) and split.inputs[0]:
            return "swiglu", split.inputs[0]
    return None


def _silu(value: ir.Value) -> ir.Value | None:
    swish = _made(value, "Swish")
    if swish is not None and swish.attributes.get_float("alpha", 1.0) == 1.0:
        return swish.inputs[0]
    product = _made(value, "Mul")
    for one, other in () if product is None else (product.inputs, reversed(product.inputs)):
        sigmoid = _made(other, "Sigmoid")
        if sigmoid is not None and sigmoid.inputs[0] is one:
            return one
    return None


# --- routing -----------------------------------------------------------------------------------------


def _is_sorting(sort: ir.Node, order: ir.Value) -> bool:
    """Whether all numbers of experts are sorted, the least first."""
    attributes = sort.attributes
    up = attributes.get_int("largest", 1) == 0 and attributes.get_int("sorted", 1) == 1
    return up and order is sort.outputs[1] and _shape(order) == _shape(sort.inputs[0])


def _is_inverse(value: ir.Value | None, order: ir.Value) -> bool:
    """Whether a value says where each row went when it was sorted."""
    node = _made(value, "ScatterND")
    count = None if node is None else _made(node.inputs[2], "Range")
    if node is None or count is None or _unsqueezed(node.inputs[1]) is not order:
        return False
    return _number(count.inputs[0]) == 0 and _number(count.inputs[2]) == 1 and _shape(value) == _shape(order)


def _is_row(value: ir.Value | None, order: ir.Value, each: int) -> bool:
    """Whether a value is ``order // each``: the row of which each choice is one."""
    rounded = _made(value, "Sub")
    node = _made(value if rounded is None else rounded.inputs[0], "Div")
    if node is None or not _are(node, order, each):
        return False
    # Division truncates, and one less is the floor where the remainder of the two kinds of division differs.
    below = None if rounded is None else _made(rounded.inputs[1], "Cast")
    same = None if below is None else _made(below.inputs[0], "Not")
    equal = None if same is None else _made(same.inputs[0], "Equal")
    if equal is None:
        return rounded is None
    remainders = [_made(side, "Mod") for side in equal.inputs]
    return all(one is not None and _are(one, order, each) for one in remainders)


def _are(node: ir.Node, order: ir.Value, each: int) -> bool:
    return node.inputs[0] is order and _number(node.inputs[1]) == each


def _is_chosen(value: ir.Value | None, each: int) -> bool:
    """Whether a value holds the numbers of the experts with the largest scores, so that none is there twice."""
    node = value.producer() if value is not None else None
    if node is None or node.op_type != "TopK" or node.domain != "" or value is not node.outputs[1]:
        return False
    return node.attributes.get_int("axis", -1) in (1, -1) and len(_shape(value)) == 2 and _shape(value)[1] == each


def _never_negative(value: ir.Value | None, depth: int = 12) -> bool:
    """Whether a value can't be below zero: probabilities, sums of such, and what they are multiplied with and over."""
    if value is None or depth == 0:
        return False
    known = _array(value)
    if known is not None:
        return bool((known >= 0).all())
    node = value.producer()
    if node is None or node.domain != "":
        return False
    if node.op_type in _NEVER_NEGATIVE:
        return True
    if node.op_type not in _PASSING:
        return False
    several = node.op_type in ("Add", "Mul", "Div")
    return all(_never_negative(one, depth - 1) for one in (node.inputs if several else node.inputs[:1]))


def _counts(ends: ir.Value, numbers: ir.Value, experts: int) -> bool:
    """Whether ``ends`` counts how many of the sorted numbers are of an expert or one before it.

    What is added up is computed from each number alone, so it is computed for each that there can be.
    """
    total = _made(_uncast(ends), "CumSum")
    counted = None if total is None else _made(_uncast(total.inputs[0]), "ScatterElements")
    if total is None or counted is None or any(total.attributes.get_int(name, 0) for name in ("exclusive", "reverse")):
        return False
    start = _array(counted.inputs[0])
    if start is None or start.shape != (experts,) or start.any() or counted.attributes.get_string("reduction") != "add":
        return False
    every = np.arange(experts)
    places, added = (_elementwise(one, numbers, every) for one in counted.inputs[1:3])
    if places is None or added is None:
        return False
    return bool((places == every).all() and (np.broadcast_to(added, every.shape) == 1).all())


def _uncast(value: ir.Value | None) -> ir.Value | None:
    node = _made(value, "Cast")
    return value if node is None else _uncast(node.inputs[0])


_KERNELS: dict[str, Callable[..., Array]] = {
    "GreaterOrEqual": np.greater_equal,
    "LessOrEqual": np.less_equal,
    "And": np.logical_and,
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Where": np.where,
    "Min": np.minimum,
    "Max": np.maximum,
    "Floor": np.floor,
}


def _elementwise(value: ir.Value | None, given: ir.Value, numbers: Array, depth: int = 16) -> Array | None:
    """What a value is, element by element, of some numbers in the place of another; None if it is of something else."""
    if value is given:
        return numbers
    known = _array(value)
    if known is not None:
        return known
    node = value.producer() if value is not None else None
    if node is None or node.domain != "" or depth == 0:
        return None
    operands = [_elementwise(one, given, numbers, depth - 1) for one in node.inputs]
    if any(one is None for one in operands):
        return None
    if node.op_type == "Cast" and value is not None and value.dtype is not None:
        return np.asarray(operands[0]).astype(value.dtype.numpy())
    if node.op_type == "Div" and value is not None and value.dtype == ir.DataType.FLOAT:
        return np.divide(operands[0], operands[1], dtype=np.float32)  # type: ignore[arg-type]
    kernel = _KERNELS.get(node.op_type)
    return None if kernel is None else np.asarray(kernel(*operands))


# --- reading -----------------------------------------------------------------------------------------


def _made(value: ir.Value | None, op_type: str) -> ir.Node | None:
    node = value.producer() if value is not None else None
    return node if node is not None and node.op_type == op_type and node.domain == "" else None


def _array(value: ir.Value | None) -> Array | None:
    """The content of a small constant."""
    tensor = None if value is None or not value.is_initializer() else value.const_value
    return tensor.numpy() if tensor is not None and tensor.size <= 4096 else None


def _ints(value: ir.Value | None) -> list[int] | None:
    array = _array(value)
    return None if array is None else [int(number) for number in array.reshape(-1)]


def _number(value: ir.Value | None) -> int | None:
    numbers = _ints(value)
    return numbers[0] if numbers is not None and len(numbers) == 1 else None


def _shape(value: ir.Value | None) -> tuple[int | ir.SymbolicDim, ...]:
    return () if value is None or value.shape is None else tuple(value.shape)


def _axis(gather: ir.Node) -> int:
    return gather.attributes.get_int("axis", 0)
