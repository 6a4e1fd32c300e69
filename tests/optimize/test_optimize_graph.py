"""What the passes do to a graph as a whole: dead code, sharing, common subexpressions, bodies, functions, promises."""

from __future__ import annotations

import onnx_ir as ir
import pytest
import torch
from onnx_ir.tensor_adapters import TorchTensor
from onnx_rows import feeds, ops, optimized, parse, run, same

from onnxport.events import EventLog
from onnxport.optimize import optimize, run_passes
from onnxport.provenance import INPUT_KIND

MERGES = {
    "equal nodes": (
        "(float[2] x) => (float[2] y) { a = Exp(x) b = Exp(x) y = Add(a, b) }",
        ["Exp", "Add"],
    ),
    "equal chains": (
        "(float[2] x) => (float[2] y) { a = Exp(x) b = Exp(x) c = Neg(a) d = Neg(b) y = Add(c, d) }",
        ["Exp", "Neg", "Add"],
    ),
    "equal literals": (
        "(float[2] x) => (float[2] y) <float a = {2}, float b = {2}> { c = Mul(x, a) d = Mul(x, b) y = Add(c, d) }",
        ["Mul", "Add"],
    ),
    "zeros of two signs": (
        "(float[2] x) => (float[2] y) <float a = {0}, float b = {-0.0}> { c = Mul(x, a) d = Mul(x, b) y = Div(c, d) }",
        ["Mul", "Mul", "Div"],
    ),
    "other attributes": (
        "(float[2,2] x) => (float[2,2] y) { a = Softmax<axis = 0>(x) b = Softmax<axis = 1>(x) y = Add(a, b) }",
        ["Softmax", "Softmax", "Add"],
    ),
    "attributes that are zeros of two signs": (
        "(float[2] x) => (float[2] y) { a = Elu<alpha = 0.0>(x) b = Elu<alpha = -0.0>(x) y = Div(a, b) }",
        ["Elu", "Elu", "Div"],
    ),
    "attributes in another order": (
        "(float[2,2] x, float[2,2] w) => (float[2,2] y) "
        "{ a = Gemm<alpha = 2.0, transA = 1>(x, w) b = Gemm<transA = 1, alpha = 2.0>(x, w) y = Add(a, b) }",
        ["Gemm", "Add"],
    ),
    "two outputs": (
        "(float[2] x) => (float[2] y, float[2] z) { y = Exp(x) z = Exp(x) }",
        ["Exp", "Identity"],
    ),
    "an output and a value": (
        "(float[2] x) => (float[2] y, float[2] z) { a = Exp(x) y = Exp(x) z = Neg(a) }",
        ["Exp", "Neg"],
    ),
    "several results": (
        "(float[4] x) => (float[2] y) "
        "{ a, b = Split<num_outputs = 2>(x) c, d = Split<num_outputs = 2>(x) y = Add(a, d) }",
        ["Split", "Add"],
    ),
    "several results that are outputs": (
        "(float[4] x) => (float[2] a, float[2] b, float[2] c, float[2] d) "
        "{ a, b = Split<num_outputs = 2>(x) c, d = Split<num_outputs = 2>(x) }",
        ["Split", "Split"],
    ),
}


@pytest.mark.parametrize(("text", "expected"), MERGES.values(), ids=MERGES.keys())
def test_common_subexpressions(text: str, expected: list[str]) -> None:
    assert ops(optimized(text)) == expected


@pytest.mark.parametrize(
    "draw",
    [
        "RandomNormal<shape = [2]>()",
        "RandomUniform<shape = [2]>()",
        "RandomNormalLike(x)",
        "RandomUniformLike(x)",
        "Bernoulli(x)",
        "Dropout(x, ratio, training)",
    ],
)
def test_random_draws_stay_apart(draw: str) -> None:
    literals = "<float ratio = {0.5}, bool training = {1}>"
    model = parse(f"(float[2] x) => (float[2] y) {literals} {{ a = {draw} b = {draw} y = Sub(a, b) }}")
    run_passes(model)
    assert len(ops(model)) == 3


DEAD = {
    "node": ("(float[2] x) => (float[2] y) { a = Exp(x) b = Neg(a) y = Relu(x) }", ["Relu"]),
    "initializer": ("(float[2] x) => (float[2] y) <float w = {1}> { a = Add(x, w) y = Relu(x) }", ["Relu"]),
    "branches": (
        "(bool c, float[2] x) => (float[2] y) { e = Exp(x) a = If(c) "
        "<then_branch = t () => (float[2] p) { p = Neg(e) }, else_branch = f () => (float[2] q) { q = Abs(e) }> "
        "y = Relu(x) }",
        ["Relu"],
    ),
}


@pytest.mark.parametrize(("text", "expected"), DEAD.values(), ids=DEAD.keys())
def test_dead_code(text: str, expected: list[str]) -> None:
    model = optimized(text)
    assert ops(model) == expected
    assert not model.graph.initializers


POOL = "MaxPool<kernel_shape = [2]>(x)"
OUTPUTS = {
    "nobody-reads-the-last": (f"{{ y, i = {POOL} }}", 1),
    "only-dead-nodes-read-it": (f"{{ y, i = {POOL} j = Neg(i) }}", 1),
    "a-live-node-reads-it": (f"{{ v, i = {POOL} f = Cast<to = 1>(i) y = Add(v, f) }}", 2),
    "one-that-must-be-there": ("{ a, b = Split<num_outputs = 2, axis = 2>(x) y = Identity(a) }", 2),
}


@pytest.mark.parametrize(("text", "outputs"), OUTPUTS.values(), ids=OUTPUTS.keys())
def test_outputs_nobody_reads(text: str, outputs: int) -> None:
    model = optimized(f"(float[1,1,4] x) => (float[1,1,n] y) {text}")
    assert len(next(iter(model.graph)).outputs) == outputs


def test_unused_inputs_stay_in_order() -> None:
    model = optimized("(float[2] a, float[2] x, float[2] b) => (float[2] y) { y = Relu(x) }")
    assert [value.name for value in model.graph.inputs] == ["a", "x", "b"]


IF = "(bool c, float[2] x) => (float[2] y) <float[2] u = {1, 2}> { e = Exp(x) "
BODIES = {
    "rules, folding and merging inside": (
        IF + "y = If(c) <then_branch = t () => (float[2] p) <float[2] k = {1, 2}> "
        "{ n = Add(k, k) i = Identity(e) m = Add(i, n) l = Add(e, n) p = Add(m, l) }, "
        "else_branch = f () => (float[2] q) { q = Add(e, u) }> }",
        [["Exp", "If"], ["Add", "Add"], ["Add"]],
    ),
    "a branch that is a copy": (
        IF + "y = If(c) <then_branch = t () => (float[2] p) { i = Identity(e) p = Identity(i) }, "
        "else_branch = f () => (float[2] q) { i2 = Relu(e) q = Identity(i2) }> }",
        [["Exp", "If"], ["Identity"], ["Relu"]],
    ),
    "a branch that is constant": (
        IF + "y = If(c) <then_branch = t () => (float[2] p) { p = Add(u, u) }, "
        "else_branch = f () => (float[2] q) { k = Constant<value = float[2] {5, 6}>() q = Sub(e, k) }> }",
        [["Exp", "If"], ["Identity"], ["Sub"]],
    ),
    "what both branches compute": (
        IF + "y = If(c) <then_branch = t () => (float[2] p) { a = Sin(e) b = Add(a, u) p = Neg(b) }, "
        "else_branch = f () => (float[2] q) { d = Cos(e) g = Sin(e) h = Add(g, u) q = Mul(h, d) }> }",
        [["Exp", "Sin", "Add", "If"], ["Neg"], ["Cos", "Mul"]],
    ),
    "what branches return": (
        IF + "y = If(c) <then_branch = t () => (float[2] p) { p = Sin(e) }, "
        "else_branch = f () => (float[2] q) { g = Sin(e) q = Neg(g) }> }",
        [["Exp", "If"], ["Sin"], ["Sin", "Neg"]],
    ),
    "draws of both branches": (
        "(bool c, float[2] x) => (float[2] y) { y = If(c) <then_branch = t () => (float[2] p) "
        "{ a = RandomNormalLike<seed = 1.0>(x) b = Mul(a, x) p = Sub(b, b) }, else_branch = f () => (float[2] q) "
        "{ g = RandomNormalLike<seed = 1.0>(x) h = Mul(g, x) k = Sub(h, h) q = Neg(k) }> }",
        [["If"], ["RandomNormalLike", "Mul", "Sub"], ["RandomNormalLike", "Mul", "Sub", "Neg"]],
    ),
    "what was computed before the branch": (
        IF + "s = Sin(e) o = If(c) <then_branch = t () => (float[2] p) { a = Sin(e) p = Neg(a) }, "
        "else_branch = f () => (float[2] q) { q = Relu(e) }> y = Add(o, s) }",
        [["Exp", "Sin", "If", "Add"], ["Neg"], ["Relu"]],
    ),
    "a loop": (
        "(float[2] x) => (float[2] y) <int64 n = {3}, bool go = {1}, float one = {1}> { y = Loop(n, go, x) "
        "<body = b (int64 i, bool c, float[2] s) => (bool d, float[2] r) "
        "{ d = Identity(c) t = Mul(s, one) v = Identity(t) r = Add(v, x) }> }",
        [["Loop"], ["Identity", "Add"]],
    ),
    "a branch that is always taken": (
        "(float[2] x) => (float[2] y) <bool c = {0}> { z = If(c) <then_branch = t () => (float[2] p) { p = Exp(x) }, "
        "else_branch = f () => (float[2] q) { a = Neg(x) b = Identity(a) q = Relu(b) }> y = Neg(z) }",
        [["Neg", "Relu", "Neg"]],
    ),
    "a branch that is always taken and gives outputs": (
        "(float[2] x) => (float[2] y, float[2] z, float[2] w) <bool t = {1}> { c = Not(t) d = Not(c) y, z, w = If(d) "
        "<then_branch = t () => (float[2] p, float[2] q, float[2] r) { p = Exp(x) q = Identity(x) r = Identity(p) }, "
        "else_branch = f () => (float[2] i, float[2] j, float[2] k) { i = Neg(x) j = Abs(x) k = Abs(i) }> }",
        [["Exp", "Identity", "Identity"]],
    ),
    "a branch in a branch that is always taken": (
        IF + "o = Constant<value = bool {1}>() y = If(o) <then_branch = t () => (float[2] p) { p = If(c) "
        "<then_branch = v () => (float[2] r) { r = Neg(e) }, else_branch = w () => (float[2] s) { s = Abs(e) }> }, "
        "else_branch = f () => (float[2] q) { q = Add(e, u) }> }",
        [["Exp", "If"], ["Neg"], ["Abs"]],
    ),
    "names of branches that both have them": (
        "(float[2] x) => (float[2] y) <bool c = {1}, bool d = {0}> { "
        "h = If(c) <then_branch = t () => (float[2] p) { a = Exp(x) p = Neg(a) }, "
        "else_branch = f () => (float[2] q) { q = Abs(x) }> "
        "k = If(d) <then_branch = t () => (float[2] p) { p = Exp(x) }, "
        "else_branch = f () => (float[2] q) { a = Sqrt(x) q = Sin(a) }> y = Add(h, k) }",
        [["Exp", "Neg", "Sqrt", "Sin", "Add"]],
    ),
    "what a loop computes alike every time": (
        "(float[2,2] x, float[2,2] w) => (float[2,2] y) <int64 n = {3}, bool go = {1}> { y = Loop(n, go, x) "
        "<body = b (int64 i, bool c, float[2,2] s) => (bool d, float[2,2] r) <float[2,2] v, float[2,2] t> "
        "{ d = Identity(c) v = Exp(w) t = Transpose<perm = [1, 0]>(v) r = MatMul(s, t) }> }",
        [["Exp", "Transpose", "Loop"], ["Identity", "MatMul"]],
    ),
    "what a loop in a loop computes alike every time": (
        "(float[2] x, float[2] w) => (float[2] y) <int64 n = {3}, bool go = {1}> { y = Loop(n, go, x) "
        "<body = b (int64 i, bool c, float[2] s) => (bool d, float[2] r) { d = Identity(c) r = Loop(n, c, s) "
        "<body = e (int64 j, bool f, float[2] g) => (bool h, float[2] k) <float[2] v, float[2] t, float[2] o> "
        "{ h = Identity(f) v = Exp(w) t = Neg(s) o = Add(v, t) k = Mul(g, o) }> }> }",
        [["Exp", "Loop"], ["Identity", "Neg", "Add", "Loop"], ["Identity", "Mul"]],
    ),
    "what a loop may never compute": (
        "(float[2] x, float[m] w) => (float[2] y) <int64 n = {0}, bool go = {1}, int64[1] at = {9}> "
        "{ y = Loop(n, go, x) <body = b (int64 i, bool c, float[2] s) => (bool d, float[2] r) <float[1] v> "
        "{ d = Identity(c) v = Gather(w, at) r = Add(s, v) }> }",
        [["Loop"], ["Identity", "Gather", "Add"]],
    ),
}


@pytest.mark.parametrize(("text", "expected"), BODIES.values(), ids=BODIES.keys())
def test_bodies(text: str, expected: list[list[str]]) -> None:
    model = optimized(text)
    assert [ops(model), *([node.op_type for node in body] for body in model.graph.subgraphs())] == expected


def test_what_leaves_a_branch_has_the_sizes_of_both() -> None:
    model = parse(
        "(bool c, float[n] x) => (float[m] y) { y = If(c) <then_branch = t () => (float[1] p) <float[1] a, float[1] b> "
        "{ a = Exp(x) b = Sin(a) p = Neg(b) }, else_branch = f () => (float[n] q) <float[n] g, float[n] h> "
        "{ g = Exp(x) h = Sin(g) q = Abs(h) }> }"
    )
    run_passes(model)
    assert [str(node.outputs[0].shape) for node in model.graph] == ["[n]", "[n]", "[m]"]


FUNCTIONS = """
<ir_version: 10, opset_import: ["" : 21, "local" : 1]>
g (float[2] x) => (float[2] y) { y = local.used<k = 2.0>(x) }
<domain: "local", opset_import: ["" : 21]>
used <k> (a) => (b) {
    one = Constant<value_float = 1.0>()
    two = Add(one, one)
    i = Identity(a)
    s = Constant<value_float: float = @k>()
    t = Constant<value_float: float = @k>()
    u = Mul(i, s)
    v = Mul(a, t)
    w = Add(u, v)
    b = Mul(w, two)
}
<domain: "local", opset_import: ["" : 21]>
unused (a) => (b) { b = Neg(a) }
"""


def test_functions() -> None:
    model = optimized(FUNCTIONS)
    (function,) = model.functions.values()
    assert function.name == "used"
    assert [node.op_type for node in function] == ["Constant", "Constant", "Mul", "Add", "Mul"]


def _tied(*tensors: torch.Tensor) -> ir.Model:
    """A model that adds up its parameters w0, w1 …"""
    weights = []
    for index, tensor in enumerate(tensors):
        name = f"w{index}"
        weights.append(ir.val(name, const_value=TorchTensor(tensor, name=name)))
        weights[-1].metadata_props[INPUT_KIND] = "PARAMETER"
    total = ir.node("Sum", weights)
    total.outputs[0].name = "y"
    total.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)
    total.outputs[0].shape = ir.Shape([2, 2])
    graph = ir.Graph([], total.outputs, nodes=[total], initializers=weights, opset_imports={"": 21}, name="g")
    return ir.Model(graph, ir_version=10)


W = torch.arange(4.0).reshape(2, 2)
SHARED = {
    "the same tensor": ([W, W, W], {"w0": "w1,w2"}),
    "views of one storage": ([W, W.detach(), W.view(2, 2)], {"w0": "w1,w2"}),
    "equal copies": ([W, W.clone()], {"w0": None, "w1": None}),
    "another view": ([W, W.t()], {"w0": None, "w1": None}),
    "on the meta device": ([W.to("meta"), W.to("meta")], {"w0": None, "w1": None}),
}


@pytest.mark.parametrize(("tensors", "expected"), SHARED.values(), ids=SHARED.keys())
def test_tied_weights(tensors: list[torch.Tensor], expected: dict[str, str | None]) -> None:
    model = _tied(*tensors)
    before = None if tensors[0].is_meta else run(model, {})
    run_passes(model)
    left = model.graph.initializers
    assert {name: value.metadata_props.get("onnxport.aliases") for name, value in left.items()} == expected
    assert all(value.const_value.raw is tensors[int(name[1:])] for name, value in left.items())
    if before is not None:
        same(before, run(model, {}))


def test_metadata_and_names_are_carried() -> None:
    model = parse(
        "(float[2,3] x) => (float[2,3] y) { a = Transpose<perm = [1, 0]>(x) b = Transpose<perm = [1, 0]>(a) "
        "c = Exp(b) y = Identity(c) }"
    )
    exp = model.graph[2]
    exp.name = "node_exp"
    exp.metadata_props["namespace"] = "block"
    model.graph.outputs[0].metadata_props["kind"] = "USER_OUTPUT"
    run_passes(model)
    (node,) = model.graph
    assert (node.name, node.metadata_props, node.outputs[0].name) == ("node_exp", {"namespace": "block"}, "y")
    assert node.outputs[0].metadata_props == {"kind": "USER_OUTPUT"}


def test_rewritten_node_keeps_its_provenance() -> None:
    model = parse("(float[2] x) => (float[2] y) <float one = {1}> { y = Mul(x, one) }")
    model.graph[0].name = "node_mul"
    model.graph[0].metadata_props["namespace"] = "block"
    run_passes(model)
    (node,) = model.graph
    assert (node.op_type, node.name, node.metadata_props) == ("Identity", "node_mul", {"namespace": "block"})


def test_hits_are_noted() -> None:
    events = EventLog()
    optimize(parse("(float[2] x) => (float[2] y) { a = Identity(x) b = Identity(a) y = Relu(b) }"), events)
    (event,) = events.of("note")
    assert event.stage == "optimize"
    assert event.message == "6 node visits; dead node: 2, identity: 2"


def _layers(count: int) -> ir.Model:
    """Blocks with something for every step to do."""
    block = (
        "i{n} = Identity(h{n}) t{n} = Transpose<perm = [1, 0]>(i{n}) u{n} = Transpose<perm = [1, 0]>(t{n}) "
        "s{n} = Shape(u{n}) r{n} = Reshape(u{n}, s{n}) a{n} = Exp(r{n}) b{n} = Exp(u{n}) c{n} = Add(a{n}, b{n}) "
        "h{m} = MatMul(c{n}, w) "
    )
    nodes = "".join(block.format(n=n, m=n + 1) for n in range(count))
    text = f"(float[2,2] h0, float[2,2] w) => (float[2,2] y) {{ {nodes} y = Identity(h{count}) }}"
    return parse(text)


def test_twice_the_layers_are_twice_the_visits() -> None:
    visits = []
    for count in (10, 20, 40):
        model = _layers(count)
        visits.append(run_passes(model)["visits"])
        assert ops(model) == ["Exp", "Add", "MatMul"] * count
    assert visits[2] - visits[1] == 2 * (visits[1] - visits[0])


def test_same_model_same_bytes() -> None:
    first, second = _layers(5), _layers(5)
    run_passes(first)
    run_passes(second)
    assert ir.to_proto(first).SerializeToString() == ir.to_proto(second).SerializeToString()


def test_layers_compute_the_same() -> None:
    model = _layers(2)
    inputs = feeds(model)
    before = run(model, inputs)
    run_passes(model)
    same(before, run(model, inputs))
