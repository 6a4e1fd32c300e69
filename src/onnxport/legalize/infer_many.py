"""Element types and shapes of operators with several outputs or with bodies, one entry for each output."""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

Dims = list[int | ir.SymbolicDim]
Infer = Callable[[ir.Node], None]


def _unknown() -> ir.SymbolicDim:
    return ir.SymbolicDim(None)


def _dims(value: ir.Value | None) -> Dims | None:
    return None if value is None or value.shape is None else list(value.shape)


def _fill(value: ir.Value, dims: Dims | None, kind: ir.TypeProtocol | None) -> None:
    if value.shape is None and dims is not None:
        value.shape = ir.Shape(dims)
    if value.type is None and kind is not None:
        value.type = kind


def _along_axis(node: ir.Node) -> None:
    """Split and TopK: the first input's shape, of another size along one axis."""
    dims = _dims(node.inputs[0])
    if dims:
        dims[node.attributes.get_int("axis", -1 if node.op_type == "TopK" else 0)] = _unknown()
    for position, output in enumerate(node.outputs):
        place = position == 1 and node.op_type == "TopK"
        first = node.inputs[0]
        kind = ir.TensorType(ir.DataType.INT64) if place else None if first is None else first.type
        _fill(output, dims, kind)


def _transform(node: ir.Node) -> None:
    """DFT: another size along the axis, and pairs at the end; the axis is an attribute before opset 20."""
    dims = _dims(node.inputs[0])
    if dims:
        real = node.attributes.get_int("inverse", 0) and node.attributes.get_int("onesided", 0)
        if "axis" in node.attributes and "onesided" not in node.attributes and len(node.inputs) == 1:
            dims[-1] = 2
        else:
            dims = [*(_unknown() for _ in dims[:-1]), 1 if real else 2]
    first = node.inputs[0]
    _fill(node.outputs[0], dims, None if first is None else first.type)


def _integers(node: ir.Node, position: int) -> list[int] | None:
    value = node.inputs[position] if position < len(node.inputs) else None
    if value is None or (value.const_value is None and value.is_graph_input()):
        return None
    tensor = ir.convenience.get_const_tensor(value)
    return None if tensor is None else [int(item) for item in tensor.numpy().reshape(-1)]


def _padded(node: ir.Node) -> None:
    """Pad: other sizes along the padded axes only, known if all that is added is."""
    first, dims = node.inputs[0], _dims(node.inputs[0])
    if dims is None or first is None:
        return
    pads = list(node.attributes["pads"].as_ints()) if "pads" in node.attributes else _integers(node, 1)
    has_axes = len(node.inputs) > 3 and node.inputs[3] is not None
    axes = _integers(node, 3) if has_axes else list(range(len(dims)))
    if axes is None:
        dims = [_unknown() for _ in dims]
    for position, axis in enumerate(axes or ()):
        added = None if pads is None else pads[position] + pads[position + len(axes or ())]
        before = dims[axis]
        if added != 0:
            dims[axis] = before + added if isinstance(before, int) and added is not None else _unknown()
    _fill(node.outputs[0], dims, first.type)


def _picked(node: ir.Node) -> None:
    """GatherND: a row of the data for each tuple of indices, whose length must be known."""
    data, indices = _dims(node.inputs[0]), _dims(node.inputs[1])
    first = node.inputs[0]
    width = indices[-1] if indices else None
    if data is None or indices is None or first is None or not isinstance(width, int):
        return
    _fill(node.outputs[0], indices[:-1] + data[node.attributes.get_int("batch_dims", 0) + width :], first.type)


def _places(node: ir.Node) -> None:
    """NonZero: a row for each axis."""
    dims = _dims(node.inputs[0])
    _fill(node.outputs[0], None if dims is None else [len(dims), _unknown()], ir.TensorType(ir.DataType.INT64))


def _constant(node: ir.Node) -> None:
    """Constant: what it holds."""
    tensor = ir.convenience.get_const_tensor(node.outputs[0])
    if tensor is not None:
        _fill(node.outputs[0], [*tensor.shape], ir.TensorType(tensor.dtype))


def _random(node: ir.Node) -> None:
    """Random numbers: the shape of the input, or of the attribute."""
    first = node.inputs[0] if node.inputs else None
    dims: Dims | None = [*node.attributes["shape"].as_ints()] if "shape" in node.attributes else _dims(first)
    kind = None if first is None else first.type
    if "dtype" in node.attributes:
        kind = ir.TensorType(ir.DataType(node.attributes["dtype"].as_int()))
    elif first is None:
        kind = ir.TensorType(ir.DataType.FLOAT)
    _fill(node.outputs[0], dims, kind)


def _body(node: ir.Node, name: str, infer: Infer) -> ir.Graph:
    graph = node.attributes[name].as_graph()
    for inner in graph:
        if inner.outputs and (inner.outputs[0].type is None or inner.outputs[0].shape is None):
            infer(inner)
    return graph


def _branches(node: ir.Node, infer: Infer) -> None:
    """If: what both branches have in common."""
    first, second = (_body(node, name, infer) for name in ("then_branch", "else_branch"))
    for output, one, other in zip(node.outputs, first.outputs, second.outputs, strict=False):
        left, right = _dims(one), _dims(other)
        common: Dims | None = None
        if left is not None and right is not None and len(left) == len(right):
            common = [a if a == b else _unknown() for a, b in zip(left, right, strict=True)]
        _fill(output, common, one.type if one.type is not None else other.type)


def _loop(node: ir.Node, infer: Infer) -> None:
    """Loop: states are shaped as the body takes them, the rest is stacked."""
    body = _body(node, "body", infer)
    states = len(node.inputs) - 2
    for position, (output, inner) in enumerate(zip(node.outputs, body.outputs[1:], strict=False)):
        if position < states:
            taken = body.inputs[position + 2]
            _fill(output, _dims(taken), taken.type if taken.type is not None else inner.type)
            continue
        row = _dims(inner)
        _fill(output, None if row is None else [_unknown(), *row], inner.type)


def _scan(node: ir.Node, infer: Infer) -> None:
    """Scan: as Loop, stacked along axes of choice."""
    body = _body(node, "body", infer)
    states = len(node.inputs) - node.attributes.get_int("num_scan_inputs", 1)
    axes = node.attributes["scan_output_axes"].as_ints() if "scan_output_axes" in node.attributes else None
    for position, (output, inner) in enumerate(zip(node.outputs, body.outputs, strict=False)):
        if position < states:
            taken = body.inputs[position]
            _fill(output, _dims(taken), taken.type if taken.type is not None else inner.type)
            continue
        row = _dims(inner)
        if row is not None:
            axis = 0 if axes is None else axes[position - states]
            row.insert(axis if axis >= 0 else axis + len(row) + 1, _unknown())
        _fill(output, row, inner.type)


_PLAIN: dict[str, Infer] = {
    "TopK": _along_axis,
    "Split": _along_axis,
    "DFT": _transform,
    "NonZero": _places,
    "Pad": _padded,
    "Constant": _constant,
    "GatherND": _picked,
    **dict.fromkeys(("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Bernoulli"), _random),
}
_WITH_BODIES: dict[str, Callable[[ir.Node, Infer], None]] = {"If": _branches, "Loop": _loop, "Scan": _scan}


def infer_many(node: ir.Node, infer: Infer) -> None:
    """Fill in what is missing of the types and shapes of all outputs, of operators that are known here.

    Bodies are inferred with ``infer``, node by node.
    """
    plain = _PLAIN.get(node.op_type)
    if plain is not None:
        plain(node)
    bodied = _WITH_BODIES.get(node.op_type)
    if bodied is not None:
        bodied(node, infer)
