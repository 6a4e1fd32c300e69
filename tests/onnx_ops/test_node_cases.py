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
    if case.passes_in_onnxruntime():
        case.check(list(program(*case.tensors)))


@pytest.mark.parametrize("function, case", CASES)
def test_exported_to_an_older_opset(function: Callable[..., Any], case: NodeCase) -> None:
    if case.node.op_type == "BitCast" and "float" in case.name:
        with pytest.raises(OpsetError, match="lowest opset that works is 26"):
            onnxport.export(case.module(function), case.tensors, opset_version=20)
        return
    program = onnxport.export(case.module(function), case.tensors, opset_version=20)
    case.check(list(program(*case.tensors)))
