"""What holds for every model: versions, names, provenance, subgraphs, functions, casts, and what is refused."""

from __future__ import annotations

import math
import time

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest

from onnxport.errors import OpsetError
from onnxport.events import EventLog
from onnxport.legalize import legalize
from onnxport.onnx_build.opsets import NEWEST_OPSET, OLDEST_OPSET
from onnxport.provenance import INPUT_KIND, STACK_TRACE


def parse(body: str, inputs: str = "float[2,3] x", outputs: str = "float[2,3] y") -> ir.Model:
    return ir.from_onnx_text(f'<ir_version: 10, opset_import: ["": 23]> agraph ({inputs}) => ({outputs}) {{ {body} }}')


def checked(model: ir.Model) -> onnx.ModelProto:
    proto = ir.to_proto(model)
    onnx.checker.check_model(proto, full_check=True)
    return proto


def run(model: ir.Model, **feed: np.ndarray) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(checked(model).SerializeToString(), options)
    return list(session.run(None, feed))


@pytest.mark.parametrize(
    ("opset", "version"),
    [
        (7, 3),
        (8, 3),
        (9, 4),
        (10, 5),
        (11, 6),
        (12, 7),
        (14, 7),
        (15, 8),
        (17, 8),
        (18, 10),
        (20, 10),
        (23, 10),
        (24, 12),
    ],
)
def test_versions(opset: int, version: int) -> None:
    model = parse("y = Relu(x)")
    legalize(model, opset)
    assert (model.opset_imports[""], model.ir_version) == (opset, version)
    checked(model)


def test_ir_version_can_be_chosen() -> None:
    model = parse("y = Relu(x)")
    legalize(model, 20, ir_version=9)
    assert model.ir_version == 9


@pytest.mark.parametrize("opset", [OLDEST_OPSET - 1, NEWEST_OPSET + 1, 0, -1])
def test_not_an_opset(opset: int) -> None:
    with pytest.raises(OpsetError, match=rf"from {OLDEST_OPSET} to {NEWEST_OPSET}"):
        legalize(parse("y = Relu(x)"), opset)


@pytest.mark.parametrize("opset", range(24, NEWEST_OPSET + 1))
def test_newer_opsets_stay_valid(opset: int) -> None:
    model = parse("y = Attention(x, x, x)", inputs="float[1,2,3,4] x", outputs="float[1,2,3,4] y")
    legalize(model, opset)
    checked(model)
    assert [node.op_type for node in model.graph] == ["Attention"]


def test_outputs_keep_name_type_and_shape() -> None:
    model = parse("y = Gelu(x)")
    legalize(model, 13)
    (output,) = model.graph.outputs
    assert (output.name, output.dtype, list(output.shape or ())) == ("y", ir.DataType.FLOAT, [2, 3])


def test_names_are_unique_and_provenance_is_kept() -> None:
    model = parse("a = Gelu(x) b = Gelu(a) y = Gelu(b)")
    for node in model.graph:
        node.metadata_props[STACK_TRACE] = 'File "model.py", line 7, in forward'
    legalize(model, 13)
    names = [node.name for node in model.graph] + [value.name for node in model.graph for value in node.outputs]
    assert len(names) == len(set(names))
    assert all(node.metadata_props[STACK_TRACE].startswith('File "model.py"') for node in model.graph)


def test_same_model_same_bytes() -> None:
    def once() -> bytes:
        model = parse("a = Gelu(x) y = Softmax <axis=0> (a)")
        legalize(model, 11)
        return ir.to_proto(model).SerializeToString(deterministic=True)

    assert once() == once()


def test_replaced_literals_are_dropped() -> None:
    model = parse("axes = Constant <value_ints=[1]> () y = ReduceMean(x, axes)", outputs="float[2,1] y")
    legalize(model, 17)
    assert [node.op_type for node in model.graph] == ["ReduceMean"]


def test_result_that_is_an_input() -> None:
    model = parse("e = Constant <value_ints=[1]> () s = Shape <start=0, end=2> (x) y = Reshape(x, s)")
    legalize(model, 13)
    x = np.ones((2, 3), np.float32)
    assert run(model, x=x)[0].shape == (2, 3)


def test_subgraphs() -> None:
    model = parse(
        """
        y = If (c) <
            then_branch = yes () => (float[2,3] a) { a = Gelu(x) },
            else_branch = no () => (float[2,3] b) {
                axes = Constant <value_ints=[1]> ()
                m = ReduceMean(x, axes)
                b = Sub(x, m)
            }
        >
        """,
        inputs="bool c, float[2,3] x",
    )
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    for taken in (True, False):
        expected = run(model.clone(), c=np.array(taken), x=x)
        lowered = model.clone()
        legalize(lowered, 11)
        np.testing.assert_allclose(run(lowered, c=np.array(taken), x=x)[0], expected[0], rtol=1e-6)


FUNCTION = """<ir_version: 10, opset_import: ["": 23, "local": 1]>
agraph (float[2,3] x) => (float[2,3] y) { y = local.block(x) }
<domain: "local", opset_import: ["": 23]>
block (a) => (b) { b = Gelu(a) }
"""


@pytest.mark.parametrize(("opset", "functions"), [(18, 1), (15, 1), (13, 0)])
def test_functions(opset: int, functions: int) -> None:
    model = ir.from_onnx_text(FUNCTION)
    legalize(model, opset)
    assert len(model.functions) == functions
    assert all(function.opset_imports[""] == opset for function in model.functions.values())
    x = np.ones((2, 3), np.float32)
    np.testing.assert_allclose(run(model, x=x)[0], x * 0.8413447, rtol=1e-6)


def test_other_domains_are_left_alone() -> None:
    model = ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["": 23, "com.other": 4]>
        agraph (float[2] x) => (float[2] y) { y = com.other.Gelu(x) }"""
    )
    legalize(model, 9)
    assert model.opset_imports["com.other"] == 4
    assert [node.op_type for node in model.graph] == ["Gelu"]


def elementwise(op: str, dtype: str, count: int) -> ir.Model:
    inputs = ", ".join(f"{dtype}[1,1,3] {name}" for name in "xz")
    return parse(f"y = {op}({', '.join('xz'[:count])})", inputs, f"{dtype}[1,1,N] y")


@pytest.mark.parametrize(
    ("op", "count", "dtype", "opset", "through"),
    [
        ("Add", 2, "int8", 13, "int32"),
        ("Sin", 1, "bfloat16", 20, "float"),
        ("Conv", 2, "bfloat16", 21, "float"),
        ("Equal", 2, "uint8", 10, None),
        ("Relu", 1, "float16", 9, None),
    ],
)
def test_casts(op: str, count: int, dtype: str, opset: int, through: str | None) -> None:
    model, events = elementwise(op, dtype, count), EventLog()
    if op == "Equal":
        model = parse("y = Equal(x, z)", f"{dtype}[3] x, {dtype}[3] z", "bool[3] y")
    legalize(model, opset, events=events)
    expected = [] if through is None else [f"{op} takes no {dtype} in opset {opset} and is computed in {through}"]
    assert [event.message for event in events.of("cast")] == expected
    (output,) = model.graph.outputs
    assert (output.name, output.dtype) == ("y", ir.DataType.BOOL if op == "Equal" else ir.DataType[dtype.upper()])
    checked(model)


@pytest.mark.parametrize(("op", "dtype", "opset"), [("Relu", "bfloat16", 11), ("Pow", "int64", 11)])
def test_no_exact_cast(op: str, dtype: str, opset: int) -> None:
    with pytest.raises(OpsetError, match=f"{op} .*opset {opset}"):
        legalize(elementwise(op, dtype, 2 if op == "Pow" else 1), opset)


def test_refusals_are_listed_together() -> None:
    model = parse(
        "a = Gelu(x) n = NonZero(a) k = Cast <to=7> (s) y = ReduceMean(a, k)",
        inputs="float[2,3] x, int32[1] s",
        outputs="float[M,N] y, int64[2,P] n",
    )
    for node in model.graph:
        node.metadata_props[STACK_TRACE] = (
            f'File "torch.py", line 1, in call\nFile "model.py", line {len(node.op_type)}, in forward'
        )
    with pytest.raises(OpsetError) as caught:
        legalize(model, 8)
    text = str(caught.value)
    assert "opset 8" in text
    assert (
        "NonZero does not exist in opset 8\n    at model.py:7 in forward\n    The lowest opset that works is 9" in text
    )
    assert "Erf does not exist in opset 8" in text
    assert "ReduceMean cannot be expressed in opset 8: the list of axes is computed at run time" in text
    assert "pass opset_version=18" in text
    assert text.endswith("Opset 18 takes all of these: pass opset_version=18.")


def test_a_type_that_only_the_output_has_is_checked() -> None:
    model = parse("y = Cast<to = 16>(x)", "float[2] x", "bfloat16[2] y")
    with pytest.raises(OpsetError, match="Cast gives no bfloat16 in opset 12") as caught:
        legalize(model, 12)
    assert "opset_version=13" in str(caught.value)


def test_same_refusal_is_counted() -> None:
    model = parse("a = Gelu(x) b = Gelu(a) y = Gelu(b)")
    with pytest.raises(OpsetError, match=r"Erf does not exist in opset 7 \(3 times\)"):
        legalize(model, 7)


@pytest.mark.parametrize(
    ("body", "opset", "message"),
    [
        ("y = NotAnOperator(x)", 20, "NotAnOperator does not exist"),
        ("y = Relu(x, x)", 20, "takes 1 to 1 inputs"),
        ("y = Relu <alpha=1> (x)", 20, "no attribute 'alpha'"),
        ("y = LeakyRelu <alpha=1> (x)", 20, "attribute 'alpha' of LeakyRelu has another type"),
        ("y = Concat(x, x)", 20, "needs the attribute 'axis'"),
    ],
)
def test_validation(body: str, opset: int, message: str) -> None:
    with pytest.raises(OpsetError, match=message):
        legalize(parse(body), opset)


def test_old_files_keep_weights_as_inputs_and_literals_as_constants() -> None:
    model = parse("a = Mul(x, w) b = Add(a, one) y = Reshape(b, shape)")
    contents = {"w": np.ones(3, np.float32), "one": np.ones(3, np.float32), "shape": np.array([2, 3])}
    for name, kind in (("w", "PARAMETER"), ("one", None), ("shape", None)):
        tensor = ir.tensor(contents[name], name=name)
        value = next(value for node in model.graph for value in node.inputs if value is not None and value.name == name)
        value.const_value, value.type, value.shape = tensor, ir.TensorType(tensor.dtype), tensor.shape
        if kind:
            value.metadata_props[INPUT_KIND] = kind
        model.graph.register_initializer(value)
    legalize(model, 8)
    assert [value.name for value in model.graph.inputs] == ["x", "w", "shape"]
    assert list(model.graph.initializers) == ["w", "shape"]
    assert [node.op_type for node in model.graph] == ["Constant", "Mul", "Add", "Reshape"]
    np.testing.assert_array_equal(run(model, x=np.zeros((2, 3), np.float32))[0], np.ones((2, 3)))


def test_time_grows_with_the_nodes_and_no_faster() -> None:
    times: dict[int, float] = {}
    for count in (1000, 8000) * 3:
        body = " ".join(f"v{at + 1} = Relu(v{at})" for at in range(count))
        model = parse(body.replace("(v0)", "(x)"), outputs=f"float[2,3] v{count}")
        start = time.process_time()
        legalize(model, 18)
        times[count] = min(times.get(count, math.inf), time.process_time() - start)
    assert times[8000] < 24 * times[1000]
