"""Every conformance case of onnx for operators we offer: eagerly, exported as the node, and exported to opset 20."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from node_cases import NodeCase, cases_of

import onnxport
from onnxport import ops
from onnxport.errors import OpsetError

OPERATORS: list[tuple[str, str, Callable[..., Any]]] = [
    ("attention", "Attention", ops.attention),
    ("bitcast", "BitCast", ops.bit_cast),
    ("cumprod", "CumProd", ops.cum_prod),
    ("rmsnormalization", "RMSNormalization", ops.rms_normalization),
    ("rotaryembedding", "RotaryEmbedding", ops.rotary_embedding),
    ("swish", "Swish", ops.swish),
    ("tensorscatter", "TensorScatter", ops.tensor_scatter),
]

_WINDOWED = "onnxruntime does not know the windows of opset 25's Attention"
_PADDED = "onnxruntime refuses a mask as long as the padded keys beside nonpad_kv_seqlen"
_FORBIDDEN = "onnxruntime gives the scores before the causal mask, where onnx's are after it"

FAILS_IN_ONNXRUNTIME = {
    "test_attention_3d_local_window": _WINDOWED,
    "test_attention_bidirectional_window": _WINDOWED,
    "test_attention_local_window": _WINDOWED,
    "test_attention_local_window_ext_cache_float16_mask": _WINDOWED,
    "test_attention_local_window_ext_cache_rank2_mask": _WINDOWED,
    "test_attention_local_window_ext_cache_rank3_head_mask": _WINDOWED,
    "test_attention_local_window_ext_cache_rank4_batch_mask": _WINDOWED,
    "test_attention_local_window_gqa_rank4_mask": _WINDOWED,
    "test_attention_local_window_rank1_boolean_mask": _WINDOWED,
    "test_attention_local_window_with_past": _WINDOWED,
    "test_attention_4d_causal_padded_kv_bf16": _PADDED,
    "test_attention_4d_diff_heads_mask4d_padded_kv": _PADDED,
    "test_attention_4d_padded_kv_bf16": _PADDED,
    "test_attention_4d_with_past_and_present_qk_matmul_bias_3d_mask_causal": _FORBIDDEN,
    "test_attention_4d_with_past_and_present_qk_matmul_bias_4d_mask_causal": _FORBIDDEN,
    "test_bitcast_bool_to_uint8": "onnxruntime has no kernel for BitCast of bool",
}
"""Cases that onnxruntime gets wrong in onnx's own model and in ours alike, by name, each with the reason."""


def function_of(case: NodeCase, function: Callable[..., Any]) -> Callable[..., Any]:
    """The axis of CumProd is a tensor for ONNX and a number for us."""
    if case.node.op_type != "CumProd":
        return function
    axis = int(case.arrays[1])
    return lambda x, _, **options: function(x, axis, **options)


CASES = [
    pytest.param(function_of(case, function), case, id=case.name.removeprefix("test_"))
    for module, op_type, function in OPERATORS
    for case in cases_of(module, op_type)
]


@pytest.mark.parametrize("function, case", CASES)
def test_eager(function: Callable[..., Any], case: NodeCase) -> None:
    case.check(case.call(function, *case.tensors))


@pytest.mark.parametrize("function, case", CASES)
def test_exported(function: Callable[..., Any], case: NodeCase) -> None:
    program = onnxport.export(case.module(function), case.tensors, opset_version=case.opset)
    # onnxruntime has no kernels for bfloat16, so that casts stand around the node.
    (node,) = (node for node in program.model.graph if node.op_type != "Cast")
    assert node.op_type == case.node.op_type
    assert set(node.attributes) <= set(case.attributes)
    if case.name in FAILS_IN_ONNXRUNTIME:
        assert not case.passes_in_onnxruntime(), "onnxruntime computes it now: take it out of the list"
        assert not case.passes(lambda: program(*case.tensors)), "ours runs now: take it out of the list"
    else:
        case.check(list(program(*case.tensors)))


def test_the_list_names_cases() -> None:
    assert set(FAILS_IN_ONNXRUNTIME) <= {case.name for _, case in (row.values for row in CASES)}


@pytest.mark.parametrize("function, case", CASES)
def test_exported_to_an_older_opset(function: Callable[..., Any], case: NodeCase) -> None:
    if case.node.op_type == "BitCast" and "float" in case.name and not case.name.endswith("_to_float32"):
        with pytest.raises(OpsetError, match="lowest opset that works is 26"):
            onnxport.export(case.module(function), case.tensors, opset_version=20)
        return
    program = onnxport.export(case.module(function), case.tensors, opset_version=20)
    case.check(list(program(*case.tensors)))
