"""Attention and rotary embeddings in all their forms, against onnx's reference and against torch."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from onnx.reference import ReferenceEvaluator
from rule_cases import Case, F, I, Literal, at_opset, case, model_of, run

from onnxport.legalize import legalize

OPSETS = (9, 10, 11, 12, 13, 17, 18, 20, 22)


def mask(*shape: int, dead_row: bool = False) -> np.ndarray:
    allowed = np.random.default_rng(1).random(shape) > 0.4
    allowed[..., 0] = True
    if dead_row:
        allowed[..., 1, :] = False
    return allowed


def bias(*shape: int, dead_row: bool = False) -> np.ndarray:
    return np.where(mask(*shape, dead_row=dead_row), F(*shape), -np.inf).astype(np.float32)


Q, K, V = F(2, 4, 5, 8), F(2, 4, 7, 8), F(2, 4, 7, 6)
GROUPED = (Q, F(2, 2, 7, 8), F(2, 2, 7, 6))
FLAT = (F(2, 5, 32), F(2, 7, 32), F(2, 7, 24))
SQUARE = (Q, F(2, 4, 5, 8), F(2, 4, 5, 8))
PAST = (F(2, 4, 3, 8), F(2, 4, 3, 8))
SCORED = (Q, K, V, mask(5, 7, dead_row=True), None, None)
HEADS = {"q_num_heads": 4, "kv_num_heads": 4}

ATTENTION = [
    case("Attention", Q, K, V, note="plain"),
    case("Attention", Q, K, V, dynamic=True, scale=0.3, note="heads-static"),
    case("Attention", Q, K, V, scale=1.0),
    case("Attention", Q, K, V, bias(5, 7), note="float-mask"),
    case("Attention", Q, K, V, Literal(F(5, 7)), note="constant-mask"),
    case("Attention", Q, K, V, bias(2, 1, 5, 7, dead_row=True), note="float-mask-dead-row"),
    case("Attention", Q, K, V, mask(2, 4, 5, 7), note="bool-mask"),
    case("Attention", Q, K, V, mask(2, 1, 5, 7, dead_row=True), note="bool-mask-dead-row"),
    case("Attention", Q, K, V, mask(5, 7), dynamic=True, note="bool-mask"),
    case("Attention", Q, K, V, mask(5, 4), note="short-mask"),
    case("Attention", Q, K, V, bias(5, 4), note="short-float-mask"),
    case("Attention", *SQUARE, is_causal=1),
    case("Attention", *SQUARE, is_causal=1, dynamic=True),
    case("Attention", *SQUARE, mask(5, 5), is_causal=1, note="bool-mask"),
    case("Attention", *SQUARE, bias(5, 5), is_causal=1, note="float-mask"),
    case("Attention", Q, K, V, softcap=2.0),
    case("Attention", *GROUPED),
    case("Attention", *GROUPED, mask(2, 1, 5, 7), dynamic=True),
    case("Attention", *FLAT, **HEADS),
    case("Attention", *FLAT, dynamic=True, **HEADS),
    case("Attention", F(2, 5, 32), F(2, 7, 16), F(2, 7, 12), q_num_heads=4, kv_num_heads=2),
    case("Attention", *SQUARE, None, *PAST, outputs=3, note="past"),
    case("Attention", *SQUARE, None, *PAST, outputs=3, is_causal=1, note="past"),
    case("Attention", *SQUARE, None, *PAST, outputs=3, is_causal=1, dynamic=True, note="past"),
    case("Attention", *SQUARE, outputs=3, note="present-only"),
    # The reference gives the capped scores in mode 0 as well, where the text of the standard says the product.
    *[
        case("Attention", *SCORED, outputs=4, qk_matmul_output_mode=mode, softcap=softcap)
        for mode, softcap in ((0, 0.0), (1, 3.0), (2, 3.0), (3, 3.0))
    ],
    case("Attention", Q, K, V, softmax_precision=11),
]

ROTARY = [
    case("RotaryEmbedding", F(2, 4, 5, 8), F(2, 5, 4), F(2, 5, 4)),
    case("RotaryEmbedding", F(2, 4, 5, 8), F(2, 5, 4), F(2, 5, 4), interleaved=1),
    case("RotaryEmbedding", F(2, 4, 5, 8), F(9, 4), F(9, 4), I(2, 5, low=0, high=9), note="positions"),
    case("RotaryEmbedding", F(2, 5, 32), F(9, 4), F(9, 4), I(2, 5, low=0, high=9), num_heads=4),
    case("RotaryEmbedding", F(2, 5, 32), F(2, 5, 4), F(2, 5, 4), num_heads=4, interleaved=1),
    case("RotaryEmbedding", F(2, 4, 5, 8), F(2, 5, 2), F(2, 5, 2), rotary_embedding_dim=4),
]


def static_heads(one: Case, model: onnx.ModelProto) -> onnx.ModelProto:
    for value in model.graph.input:
        array = one.inputs[int(value.name[2:])]
        dims = value.type.tensor_type.shape.dim
        if isinstance(array, np.ndarray) and len(dims) == 4 and value.name in ("in0", "in1", "in2", "in4", "in5"):
            dims[1].dim_value, dims[3].dim_value = array.shape[1], array.shape[3]
    return model


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("one", ATTENTION + ROTARY, ids=str)
def test_reference(one: Case, opset: int) -> None:
    model = static_heads(one, model_of(one))
    feed = {f"in{at}": value for at, value in enumerate(one.inputs) if isinstance(value, np.ndarray)}
    expected = ReferenceEvaluator(model).run(None, feed)
    got = run(at_opset(model, opset), one)
    for result, reference in zip(got, expected, strict=True):
        assert result.shape == reference.shape
        np.testing.assert_allclose(result, reference, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("allowed", [None, mask(5, 5, dead_row=True)], ids=["all", "masked"])
def test_torch(causal: bool, allowed: np.ndarray | None) -> None:
    if causal and allowed is not None:
        pytest.skip("torch takes one or the other")
    one = case("Attention", *SQUARE, *([] if allowed is None else [allowed]), is_causal=int(causal))
    tensors = [torch.from_numpy(value) for value in SQUARE]
    given = None if allowed is None else torch.from_numpy(allowed)
    expected = torch.nn.functional.scaled_dot_product_attention(*tensors, attn_mask=given, is_causal=causal)
    (got,) = run(at_opset(model_of(one), 17), one)
    np.testing.assert_allclose(got, expected.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("one", "operators"),
    [
        (case("Attention", Q, K, V), "Transpose Mul MatMul Softmax MatMul"),
        (case("Attention", Q, K, V, scale=1.0), "Transpose MatMul Softmax MatMul"),
        (case("Attention", Q, K, V, Literal(F(5, 7))), "Transpose Mul MatMul Add Softmax MatMul"),
        (case("Attention", *GROUPED), "Transpose Mul Reshape MatMul Reshape Softmax Reshape MatMul Reshape"),
    ],
    ids=str,
)
def test_lean(one: Case, operators: str) -> None:
    assert [node.op_type for node in at_opset(model_of(one), 18).graph.node] == operators.split()


def test_one_mask_for_all_layers() -> None:
    model = ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["": 23]>
        agraph (float[1,2,3,4] x, bool[3,3] m) => (float[1,2,3,4] y) {
            a = Attention <is_causal=1> (x, x, x, m)
            b = Attention <is_causal=1> (a, a, a, m)
            y = Attention <is_causal=1> (b, b, b, m)
        }"""
    )
    legalize(model, 9)
    kinds = [node.op_type for node in model.graph]
    assert [kinds.count(kind) for kind in ("Softmax", "And", "ReduceSum")] == [3, 1, 1]


def test_key_transposed_once() -> None:
    model = ir.from_onnx_text(
        """<ir_version: 10, opset_import: ["": 23]>
        agraph (float[1,3,2,4] x) => (float[1,2,3,4] y) {
            q = Transpose <perm=[0,2,1,3]> (x)
            k = Transpose <perm=[0,2,1,3]> (x)
            y = Attention (q, k, q)
        }"""
    )
    legalize(model, 17)
    perms = [list(node.attributes["perm"].as_ints()) for node in model.graph if node.op_type == "Transpose"]
    assert perms == [[0, 2, 1, 3], [0, 2, 3, 1]]
