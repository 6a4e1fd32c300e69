"""BatchNormalization folded into the convolution before it: on request, in place of the weights it changes."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx_rows import feeds, ops, parse, run

from onnxport.optimize import optimize
from onnxport.provenance import INPUT_KIND

CASES = {
    # operator, weight shape, channels out, attributes, bias
    "conv": ("Conv", (4, 3, 2, 2), 4, "", True),
    "conv without bias": ("Conv", (4, 3, 2, 2), 4, "", False),
    "grouped conv": ("Conv", (6, 1, 2, 2), 6, "group = 3", True),
    "transposed conv": ("ConvTranspose", (3, 5, 2, 2), 5, "", True),
    "grouped transposed conv": ("ConvTranspose", (3, 2, 2, 2), 6, "group = 3", False),
}


def _model(op_type: str, weight: tuple[int, ...], channels: int, attributes: str, bias: bool) -> ir.Model:
    inputs = "x, cw, cb" if bias else "x, cw"
    attributes = f"<{attributes}>" if attributes else ""
    model = parse(
        f"(float[n,3,5,5] x) => (float[n,{channels},h,w] y) "
        f"<float[1] cw = {{0}}, float[1] cb = {{0}}, float[1] s = {{0}}, float[1] b = {{0}}, float[1] m = {{0}}, "
        f"float[1] v = {{0}}> {{ c = {op_type}{attributes}({inputs}) "
        "d = BatchNormalization<epsilon = 0.001>(c, s, b, m, v) y = Relu(d) }"
    )
    random = np.random.default_rng(1)
    names = {"cw": "conv.weight", "cb": "conv.bias", "s": "bn.weight", "b": "bn.bias", "m": "bn.mean", "v": "bn.var"}
    for short, name in names.items():
        value = model.graph.initializers[short]
        shape = weight if short == "cw" else (channels,)
        value.name = name
        value.const_value = ir.tensor(random.random(shape).astype(np.float32) + 0.1, name=name)
        value.shape = ir.Shape(shape)
        value.metadata_props[INPUT_KIND] = "PARAMETER"
    return model


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_fold_batch_norm(case: tuple[str, tuple[int, ...], int, str, bool]) -> None:
    model = _model(*case)
    inputs = feeds(model)
    before = run(model, inputs)
    optimize(model, fold_batch_norm=True)
    assert ops(model) == [case[0], "Relu"]
    assert sorted(model.graph.initializers) == ["conv.bias", "conv.weight"]
    for value in model.graph.initializers.values():
        assert value.metadata_props == {INPUT_KIND: "PARAMETER", "onnxport.folded": "bn"}
        assert isinstance(value.const_value, ir.LazyTensor)
    np.testing.assert_allclose(run(model, inputs)[0], before[0], rtol=1e-5, atol=1e-5)


def test_left_alone_by_default() -> None:
    model = _model(*CASES["conv"])
    optimize(model)
    assert ops(model) == ["Conv", "BatchNormalization", "Relu"]


@pytest.mark.parametrize("shared", ["conv.weight", "conv.bias", "bn.weight", "c"])
def test_left_alone_when_something_else_reads(shared: str) -> None:
    model = _model(*CASES["conv"])
    conv, norm, relu = model.graph
    values = {value.name: value for node in (conv, norm) for value in (*node.inputs, *node.outputs)}
    reader = ir.node("Exp", [values[shared]])
    reader.outputs[0].name = "z"
    model.graph.insert_before(relu, reader)
    model.graph.outputs.append(reader.outputs[0])
    optimize(model, fold_batch_norm=True)
    assert "BatchNormalization" in ops(model)


def test_left_alone_in_training() -> None:
    model = _model(*CASES["conv"])
    model.graph[1].attributes.add(ir.AttrInt64("training_mode", 1))
    optimize(model, fold_batch_norm=True)
    assert "BatchNormalization" in ops(model)
