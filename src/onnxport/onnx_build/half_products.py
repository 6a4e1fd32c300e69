"""Products of 16-bit numbers in the one form that onnxruntime can't load."""

from __future__ import annotations

import onnx_ir as ir

from onnxport.provenance import pass_on

_SIXTEEN_BITS = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16})


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
    if not first.outputs[0].uses() and not first.outputs[0].is_graph_output():
        graph.remove(first, safe=True)
