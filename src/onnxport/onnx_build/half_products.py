"""Products in the two forms that onnxruntime can't load, both of 16-bit numbers as a rule."""

from __future__ import annotations

import onnx_ir as ir

from onnxport.provenance import pass_on

_SIXTEEN_BITS = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16})


def cast_before_transposes(graph: ir.Graph) -> None:
    """Let ``MatMul(Cast(Transpose(x)), w)`` be ``MatMul(Transpose(Cast(x)), w)`` where the first axis moves back.

    onnxruntime 1.31 makes one operator of the former, whatever is cast, and ends the process with a segmentation fault.

    >>> import onnx_ir as ir
    >>> from onnxport.onnx_build.half_products import cast_before_transposes
    >>> model = ir.from_onnx_text('''<ir_version: 10, opset_import: ["": 21]>
    ... g (bfloat16[3, 2, 4] x, float[4, 4] w) => (float[2, 3, 4] y) {
    ...   t = Transpose<perm=[1, 0, 2]>(x)  c = Cast<to=1>(t)  y = MatMul(c, w)
    ... }''')
    >>> cast_before_transposes(model.graph)
    >>> [node.op_type for node in model.graph]
    ['Cast', 'Transpose', 'MatMul']
    """
    for node in list(graph):
        if node.op_type != "MatMul" or node.domain != "":
            continue
        for place, read in enumerate(node.inputs):
            cast = _made_by(read, "Cast")
            first = None if cast is None else _made_by(cast.inputs[0], "Transpose")
            if cast is None or first is None or first.inputs[0] is None:
                continue
            order = tuple(first.attributes.get_ints("perm", ()))
            if len(order) > 2 and 0 in order[-2:]:
                node.replace_input_with(place, _exchanged(graph, node, cast, first.inputs[0], order))
                _remove_unread(graph, cast)
                _remove_unread(graph, first)


def _made_by(value: ir.Value | None, op_type: str) -> ir.Node | None:
    node = None if value is None else value.producer()
    return node if node is not None and node.op_type == op_type and node.domain == "" else None


def _exchanged(graph: ir.Graph, node: ir.Node, cast: ir.Node, source: ir.Value, order: tuple[int, ...]) -> ir.Value:
    """What a transposition and a cast after it give, with the cast before it."""
    result = cast.outputs[0]
    before = ir.Node("", "Cast", [source], [cast.attributes["to"]], name=f"{node.name}_{cast.name}")
    converted = before.outputs[0]
    converted.name, converted.type, converted.shape = f"{node.name}_{result.name}_source", result.type, source.shape
    after = ir.Node(
        "", "Transpose", [converted], [ir.AttrInt64s("perm", order)], name=f"{node.name}_{cast.name}_Transpose"
    )
    moved = after.outputs[0]
    moved.name, moved.type, moved.shape = f"{node.name}_{result.name}", result.type, result.shape
    for made in (before, after):
        pass_on(cast, made)
        graph.insert_before(node, made)
    return moved


def _remove_unread(graph: ir.Graph, node: ir.Node) -> None:
    if node.graph is graph and not node.outputs[0].uses() and not node.outputs[0].is_graph_output():
        graph.remove(node, safe=True)


def move_transposes_behind_products(graph: ir.Graph) -> None:
    """Let ``MatMul(Transpose(x), w)`` of 16-bit numbers be ``Transpose(MatMul(x, w))`` where the first axis moves.

    onnxruntime 1.31 makes one operator of the former, for which it has no kernel in 16 bits, and ends the process
    with a segmentation fault; this can go when it loads such a file.

    >>> import onnx_ir as ir
    >>> from onnxport.onnx_build.half_products import move_transposes_behind_products
    >>> model = ir.from_onnx_text('''<ir_version: 10, opset_import: ["": 21]>
    ... g (float16[3, 2, 4] x, float16[4, 4] w) => (float16[2, 3, 4] y) {
    ...   t = Transpose<perm=[1, 0, 2]>(x)  y = MatMul(t, w)
    ... }''')
    >>> move_transposes_behind_products(model.graph)
    >>> [node.op_type for node in model.graph]
    ['MatMul', 'Transpose']
    """
    for node in list(graph):
        if node.op_type != "MatMul" or node.domain != "":
            continue
        read, weight = node.inputs
        if (
            read is None
            or weight is None
            or weight.dtype not in _SIXTEEN_BITS
            or weight.shape is None
            or len(weight.shape) != 2
        ):
            continue
        first = read.producer()
        if first is None or first.op_type != "Transpose" or first.domain != "" or first.inputs[0] is None:
            continue
        order = tuple(first.attributes.get_ints("perm", ()))
        if len(order) > 2 and order[0] != 0 and order[-1] == len(order) - 1:
            _move(graph, node, first, order)


def _move(graph: ir.Graph, node: ir.Node, first: ir.Node, order: tuple[int, ...]) -> None:
    source, weight, result = first.inputs[0], node.inputs[1], node.outputs[0]
    assert source is not None
    product = ir.Node("", "MatMul", [source, weight], name=f"{node.name}_MatMul")
    made = product.outputs[0]
    made.name, made.type = f"{result.name}_MatMul", result.type
    if result.shape is not None:
        made.shape = ir.Shape([result.shape[order.index(axis)] for axis in range(len(order))])
    pass_on(node, product)
    graph.insert_before(node, product)
    node.op_type = "Transpose"
    node.attributes["perm"] = ir.AttrInt64s("perm", order)
    node.resize_inputs(1)
    node.replace_input_with(0, made)
    _remove_unread(graph, first)
