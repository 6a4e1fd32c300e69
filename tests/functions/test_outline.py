"""Outlining on small graphs: order, nodes of unknown origin, and what stays where it is."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from onnx.reference import ReferenceEvaluator

from onnxport.events import EventLog
from onnxport.functions import ModuleCalls, inline_functions, outline
from onnxport.provenance import Provenance, attach

X = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype=np.float32)


def model_of(body: str) -> ir.Model:
    model = ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["": 20]> main (float[n,3] x) => (float[n,3] y) {' + body + "}"
    )
    for value in (*model.graph.inputs, *(out for node in model.graph for out in node.outputs)):
        if value.shape is None and value.name is not None and not value.name.startswith("size"):
            value.shape, value.type = ir.Shape(["n", 3]), ir.TensorType(ir.DataType.FLOAT)
        elif value.shape is None:
            value.shape, value.type = ir.Shape([1]), ir.TensorType(ir.DataType.INT64)
    return model


def calls_of(model: ir.Model, owners: str) -> ModuleCalls:
    """A letter for each node: the module it belongs to, `-` for the model itself, `?` if that isn't known."""
    graph = torch.fx.Graph()
    for index, (node, owner) in enumerate(zip(model.graph, owners, strict=True)):
        fx_node = graph.placeholder(f"node{index}")
        stack = {"L__self__": ("", "tests.Model")}
        if owner not in "-?":
            stack[f"L__self__{owner}"] = (owner, "tests.Block")
        fx_node.meta["nn_module_stack"] = stack
        if owner != "?":
            attach(node, Provenance(fx_node))
    return ModuleCalls(graph, True)


ROWS: dict[str, tuple[str, str, list[str], int]] = {
    # name: nodes, their modules, the main graph after, and the number of functions
    "two-equal": (
        "a = Relu(x) b = Neg(a) c = Relu(b) y = Neg(c)",
        "aabb",
        ["Block", "Block"],
        1,
    ),
    "two-different": ("a = Relu(x) b = Neg(a) c = Neg(b) y = Relu(c)", "aabb", ["Block", "Block.1"], 2),
    "another-between": ("a = Relu(x) r = Exp(x) b = Neg(a) y = Add(b, r)", "a-a-", ["Exp", "Block", "Add"], 1),
    "a-reader-between": ("a = Relu(x) r = Exp(a) b = Neg(a) y = Add(b, r)", "a-a-", ["Block", "Exp", "Add"], 1),
    "interleaved": ("a = Relu(x) r = Exp(a) b = Neg(r) y = Add(b, r)", "a-a-", ["Relu", "Exp", "Neg", "Add"], 0),
    "unknown-inside": ("a = Relu(x) b = Neg(a) y = Exp(b)", "a?a", ["Block"], 1),
    "unknown-between": (
        "a = Relu(x) b = Neg(a) c = Exp(b) y = Add(b, c)",
        "a?b-",
        ["Block", "Neg", "Block.1", "Add"],
        2,
    ),
    "two-outputs": ("a = Relu(x) b = Neg(a) y = Add(a, b)", "aa-", ["Block", "Add"], 1),
}


@pytest.mark.parametrize("row", ROWS)
def test_main_graph_and_functions(row: str) -> None:
    body, owners, expected, functions = ROWS[row]
    before = ReferenceEvaluator(ir.serde.serialize_model(model_of(body))).run(None, {"x": X})[0]
    model = model_of(body)
    events = EventLog()
    outline(model, calls_of(model, owners), events)
    assert [node.op_type for node in model.graph] == expected
    assert len(model.functions) == functions
    assert bool(events.of("note")) == (row == "interleaved")
    proto = ir.serde.serialize_model(model)
    onnx.checker.check_model(proto)
    np.testing.assert_array_equal(ReferenceEvaluator(proto).run(None, {"x": X})[0], before)
    inline_functions(model)
    np.testing.assert_array_equal(ReferenceEvaluator(ir.serde.serialize_model(model)).run(None, {"x": X})[0], before)


SIZED = (
    "size = Shape <start = 0, end = 1> (x) three = Constant <value_ints = [3]> () "
    "size_a = Concat <axis = 0> (size, three) a = Expand(x, size_a) b = Relu(a) c = Expand(b, size_a) y = Relu(c)"
)


def test_sizes_are_measured_at_the_inputs_of_each_function() -> None:
    model = model_of(SIZED)
    three = next(node for node in model.graph if node.op_type == "Constant")
    literal = ir.Value(
        name="three", type=ir.TensorType(ir.DataType.INT64), shape=ir.Shape([1]), const_value=ir.tensor([3])
    )
    three.outputs[0].replace_all_uses_with(literal)
    model.graph.remove(three, safe=True)
    model.graph.register_initializer(literal)
    for node in model.graph:
        if node.op_type == "Concat":
            node.outputs[0].shape = ir.Shape([2])
    outline(model, calls_of(model, "aaaabb"), EventLog())
    assert [node.op_type for node in model.graph] == ["Block", "Block"]
    (function,) = model.functions.values()
    assert [node.op_type for node in function] == ["Constant", "Shape", "Concat", "Expand", "Relu"]
    assert not model.graph.initializers
    found = ReferenceEvaluator(ir.serde.serialize_model(model)).run(None, {"x": X})[0]
    np.testing.assert_array_equal(found, X)
