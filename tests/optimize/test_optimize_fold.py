"""Constant folding: each kernel against onnxruntime, what never folds, and that the file never grows."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx_rows import feeds, ops, optimized, parse, run, same

from onnxport.optimize import run_passes
from onnxport.optimize.numpy_kernels import KERNELS
from onnxport.provenance import INPUT_KIND

#: Expression over literals, type of the result: folded to one literal that onnxruntime agrees with.
KERNEL_ROWS = [
    ("<float[3] a = {-1.5, 0, 2}>", "Abs(a)", "float[3]"),
    ("<int64[2] a = {1, -2}, int64 b = {3}>", "Add(a, b)", "int64[2]"),
    ("<bool[2] a = {0, 1}, bool b = {1}>", "And(a, b)", "bool[2]"),
    ("<float[4] a = {1.7, -1.7, 0, 3}>", "Cast<to = 7>(a)", "int64[4]"),
    ("<int64[3] a = {0, 300, -1}>", "Cast<to = 2>(a)", "uint8[3]"),
    ("<float[3] a = {0, -0.0, 2}>", "Cast<to = 9>(a)", "bool[3]"),
    ("<double[2] a = {1.00048828125000001, 65504}>", "Cast<to = 10>(a)", "float16[2]"),
    ("<float[2] a = {1.5, 2.5}, int32 b = {0}>", "CastLike(a, b)", "int32[2]"),
    ("<float[2] a = {1.5, -1.5}>", "Ceil(a)", "float[2]"),
    ("<int64[2,1] a = {1, 2}, int64[2,1] b = {3, 4}>", "Concat<axis = -1>(a, b)", "int64[2,2]"),
    ("<int64[2] a = {2, 3}>", "ConstantOfShape(a)", "float[2,3]"),
    ("<int64[0] a = {}>", "ConstantOfShape<value = int64[1] {7}>(a)", "int64"),
    ("<int64[6] a = {7, -7, 7, -7, 6, 0}, int64[6] b = {2, 2, -2, -2, 3, 5}>", "Div(a, b)", "int64[6]"),
    ("<uint8[2] a = {200, 7}, uint8[2] b = {3, 7}>", "Div(a, b)", "uint8[2]"),
    ("<float[3] a = {1, -1, 0}, float[3] b = {3, 0, 0}>", "Div(a, b)", "float[3]"),
    ("<int64[2] a = {1, 2}, int64[2] b = {1, 3}>", "Equal(a, b)", "bool[2]"),
    ("<int64[2,1] a = {1, 2}, int64[2] b = {1, 3}>", "Expand(a, b)", "int64[2,3]"),
    ("<float[2] a = {1.5, -1.5}>", "Floor(a)", "float[2]"),
    ("<int64[3,2] a = {1, 2, 3, 4, 5, 6}, int64[2] b = {-1, 0}>", "Gather<axis = 0>(a, b)", "int64[2,2]"),
    ("<int64[3] a = {1, 2, 3}, int64 b = {-1}>", "Gather(a, b)", "int64"),
    ("<int64[2] a = {1, 3}, int64 b = {2}>", "Greater(a, b)", "bool[2]"),
    ("<int64[2] a = {2, 1}, int64 b = {2}>", "GreaterOrEqual(a, b)", "bool[2]"),
    ("<int64[2] a = {1, 3}, int64 b = {2}>", "Less(a, b)", "bool[2]"),
    ("<int64[2] a = {2, 3}, int64 b = {2}>", "LessOrEqual(a, b)", "bool[2]"),
    ("<int64[2] a = {2, 3}, int64 b = {9}, int64[2] c = {1, 10}>", "Max(a, b, c)", "int64[2]"),
    ("<float[2] a = {2, 3}, float b = {2.5}>", "Min(a, b)", "float[2]"),
    ("<int64[4] a = {7, -7, 7, -7}, int64[4] b = {3, 3, -3, -3}>", "Mod(a, b)", "int64[4]"),
    ("<int64[4] a = {7, -7, 7, -7}, int64[4] b = {3, 3, -3, -3}>", "Mod<fmod = 1>(a, b)", "int64[4]"),
    ("<float[2] a = {7.5, -7.5}, float b = {2}>", "Mod<fmod = 1>(a, b)", "float[2]"),
    ("<int32[1] a = {2147483647}, int32[1] b = {2}>", "Mul(a, b)", "int32[1]"),
    ("<float[2] a = {0, 1}>", "Neg(a)", "float[2]"),
    ("<bool[2] a = {0, 1}>", "Not(a)", "bool[2]"),
    ("<bool[2] a = {0, 1}, bool b = {0}>", "Or(a, b)", "bool[2]"),
    ("<int64[2] a = {2, 3}, int64 b = {3}>", "Pow(a, b)", "int64[2]"),
    ("<float[2] a = {2, 3}, float b = {2}>", "Pow(a, b)", "float[2]"),
    ("<int64 a = {5}, int64 b = {-2}, int64 c = {-3}>", "Range(a, b, c)", "int64[3]"),
    ("<int64[2,2] a = {1, 5, 3, 4}, int64[1] b = {0}>", "ReduceMax(a, b)", "int64[1,2]"),
    ("<int64[2,2] a = {1, 5, 3, 4}, int64[1] b = {1}>", "ReduceMin<keepdims = 0>(a, b)", "int64[2]"),
    ("<int64[2,2] a = {1, 5, 3, 4}>", "ReduceProd<keepdims = 0>(a)", "int64"),
    ("<int64[2] a = {1, 5}>", "ReduceSum<noop_with_empty_axes = 1>(a)", "int64[2]"),
    ("<int32[2] a = {1, 5}>", "ReduceSum(a)", "int32[1]"),
    ("<int64[2,3] a = {1, 2, 3, 4, 5, 6}, int64[3] b = {0, -1, 1}>", "Reshape(a, b)", "int64[2,3,1]"),
    ("<int64[4] a = {1, 2, 3, 4}, int64[1] b = {1}, int64[1] c = {9}>", "Slice(a, b, c)", "int64[3]"),
    (
        "<int64[4] a = {1, 2, 3, 4}, int64[1] b = {9}, int64[1] c = {-9}, int64[1] d = {0}, int64[1] e = {-2}>",
        "Slice(a, b, c, d, e)",
        "int64[2]",
    ),
    (
        "<int64[4] a = {1, 2, 3, 4}, int64[1] b = {-2}, int64[1] c = {0}, int64[1] d = {-1}, int64[1] e = {-1}>",
        "Slice(a, b, c, d, e)",
        "int64[2]",
    ),
    ("<float[2] a = {2, 0.1}>", "Sqrt(a)", "float[2]"),
    ("<float[3] a = {2, -0.1, 88.5}>", "Exp(a)", "float[3]"),
    ("<float[3] a = {2, 0.1, 0}>", "Log(a)", "float[3]"),
    ("<float[3] a = {2, -0.1, 100}>", "Sin(a)", "float[3]"),
    ("<float[3] a = {2, -0.1, 100}>", "Cos(a)", "float[3]"),
    ("<int64[1,2,1] a = {1, 2}>", "Squeeze(a)", "int64[2]"),
    ("<int64[1,2,1] a = {1, 2}, int64[1] b = {-1}>", "Squeeze(a, b)", "int64[1,2]"),
    ("<float[1] a = {0.1}, float[1] b = {0.3}>", "Sub(a, b)", "float[1]"),
    ("<int64[1,2,3] a = {1, 2, 3, 4, 5, 6}>", "Transpose<perm = [2, 0, 1]>(a)", "int64[3,1,2]"),
    ("<int64[2,3] a = {1, 2, 3, 4, 5, 6}>", "Transpose(a)", "int64[3,2]"),
    ("<int64 a = {1}, int64[2] b = {0, -1}>", "Unsqueeze(a, b)", "int64[1,1]"),
    ("<bool[2] c = {0, 1}, int64[2] a = {1, 2}, int64 b = {9}>", "Where(c, a, b)", "int64[2]"),
    ("<bool[2] a = {0, 1}, bool b = {1}>", "Xor(a, b)", "bool[2]"),
]


@pytest.mark.parametrize(("literals", "expression", "result"), KERNEL_ROWS, ids=[row[1] for row in KERNEL_ROWS])
def test_kernel(literals: str, expression: str, result: str) -> None:
    model = optimized(f"() => ({result} y) {literals} {{ y = {expression} }}")
    assert ops(model) == ["Identity"]
    assert len(model.graph.initializers) == 1


def test_every_kernel_has_a_row() -> None:
    assert {row[1].partition("(")[0].partition("<")[0] for row in KERNEL_ROWS} == set(KERNELS)


#: Text, operators left.
FOLDS = {
    "chain": (
        "(float[2,3] x) => (float[6] y) <int64[1] two = {2}, int64[1] z = {0}> "
        "{ a = Shape(x) b = ReduceProd<keepdims = 1>(a) y = Reshape(x, b) }",
        ["Reshape"],
    ),
    "size": ("(float[2,3] x) => (int64 y) { y = Size(x) }", ["Identity"]),
    "fixed part of a free shape": (
        "(float[n,3] x) => (int64 y) <int64 one = {1}> { a = Shape(x) b = Gather(a, one) y = Neg(b) }",
        ["Identity"],
    ),
    "free part of a free shape": (
        "(float[n,3] x) => (int64 y) <int64 zero = {0}> { a = Shape(x) b = Gather(a, zero) y = Neg(b) }",
        ["Shape", "Gather", "Neg"],
    ),
    "fixed slice of a free shape": (
        "(float[n,3,4] x) => (int64[2] y) <int64[1] b = {-2}, int64[1] e = {9}> "
        "{ a = Shape(x) c = Slice(a, b, e) y = Neg(c) }",
        ["Identity"],
    ),
    "fixed range of a free shape": (
        "(float[n,3,4] x) => (int64[2] y) { a = Shape<start = -2>(x) y = Neg(a) }",
        ["Identity"],
    ),
    "constant nodes": (
        "(int64[2] x) => (int64[2] y) { a = Constant<value_int = 3>() b = Constant<value_ints = [3, 4]>() "
        "c = Add(x, a) y = Add(c, b) }",
        ["Add", "Add"],
    ),
    "constant as output": ("() => (int64 y) { y = Constant<value_int = 3>() }", ["Constant"]),
    "random": (
        "() => (int64[2] y) { a = RandomNormal<shape = [2], seed = 1.0>() b = Sub(a, a) y = Cast<to = 7>(b) }",
        ["RandomNormal", "Sub", "Cast"],
    ),
    "growth": (
        "() => (float[300] y) <float[1] a = {1}, int64[1] s = {300}> { y = Expand(a, s) }",
        ["Expand"],
    ),
    "free growth": (
        "() => (float[256] y) <float[1] a = {1}, int64[1] s = {256}> { y = Expand(a, s) }",
        ["Identity"],
    ),
}


@pytest.mark.parametrize(("text", "expected"), FOLDS.values(), ids=FOLDS.keys())
def test_fold(text: str, expected: list[str]) -> None:
    assert ops(optimized(text)) == expected


def test_division_by_zero_is_left_to_the_runtime() -> None:
    model = parse("() => (int64 y) <int64 a = {1}, int64 b = {0}> { y = Div(a, b) }")
    run_passes(model)
    assert ops(model) == ["Div"]


@pytest.mark.parametrize("value", [1e30, float("nan")])
def test_float_that_fits_no_integer_is_left_to_the_runtime(value: float) -> None:
    model = parse("() => (int64 y) <float a = {1}> { y = Cast<to = 7>(a) }")
    model.graph.initializers["a"].const_value = ir.tensor(np.float32(value), name="a")
    run_passes(model)
    assert ops(model) == ["Cast"]


def test_invalid_node_is_left_and_reported() -> None:
    model = parse("() => (int64[2] y) <int64[2] a = {1, 2}, int64[2] b = {1, 2}> { y = Add(a, b) }")
    model.graph.initializers["b"].const_value = ir.tensor(np.ones(3, np.int64), name="b")
    tally = run_passes(model)
    assert ops(model) == ["Add"]
    assert any(name.startswith("unfolded Add: shape mismatch") for name in tally)


def _arange(model: ir.Model, name: str, size: int) -> None:
    literal = model.graph.initializers[name]
    literal.const_value = ir.tensor(np.arange(size, dtype=np.float32), name=name)
    literal.shape = model.graph.outputs[0].shape = ir.Shape([size])


@pytest.mark.parametrize(("size", "expected"), [(128, ["Identity"]), (129, ["Cast"])])
def test_file_does_not_grow(size: int, expected: list[str]) -> None:
    model = parse("() => (double[1] y) <float[1] c = {0}> { y = Cast<to = 11>(c) }")
    _arange(model, "c", size)
    run_passes(model)
    assert ops(model) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(float[n,400] x) => (float[1] y) <float[1] c = {0}> { y = Neg(c) }", ["Identity"]),
        (
            "(float[n,400] x) => (float[1] y, float[n,400] z) <float[1] c = {0}> { y = Neg(c) z = Add(x, c) }",
            ["Neg", "Add"],
        ),
    ],
    ids=["the only reader", "another reader"],
)
def test_large_result_takes_the_place_of_what_it_was_made_from(text: str, expected: list[str]) -> None:
    model = parse(text)
    _arange(model, "c", 400)
    inputs = feeds(model)
    before = run(model, inputs)
    run_passes(model)
    assert ops(model) == expected
    same(before, run(model, inputs))


@pytest.mark.parametrize(
    ("kind", "expected"), [("PARAMETER", "Neg"), ("BUFFER", "Neg"), ("CONSTANT_TENSOR", "Identity")]
)
def test_weights_never_fold(kind: str, expected: str) -> None:
    model = parse("() => (float[2] y) <float[2] w = {1, 2}> { y = Neg(w) }")
    model.graph.initializers["w"].metadata_props[INPUT_KIND] = kind
    run_passes(model)
    assert ops(model) == [expected]


def test_initializer_that_is_an_input_never_folds() -> None:
    model = parse("() => (float[2] y) <float[2] w = {1, 2}> { y = Neg(w) }")
    model.graph.inputs.append(model.graph.initializers["w"])
    run_passes(model)
    assert ops(model) == ["Neg"]


def test_folded_value_keeps_its_name() -> None:
    model = optimized(
        "(int64[1] x) => (int64[1] y) <int64[1] a = {1}, int64[1] b = {2}> { sum = Add(a, b) y = Add(x, sum) }"
    )
    assert list(model.graph.initializers) == ["sum"]


def test_fake_tensors_are_not_read() -> None:
    import torch
    from onnx_ir.tensor_adapters import TorchTensor
    from torch._subclasses.fake_tensor import FakeTensorMode

    for tensor in (FakeTensorMode().from_tensor(torch.ones(2)), torch.ones(2, device="meta")):
        model = parse("() => (float[2] y) <float[2] c = {1, 2}> { y = Neg(c) }")
        model.graph.initializers["c"].const_value = TorchTensor(tensor, name="c")
        run_passes(model)
        assert ops(model) == ["Neg"]
