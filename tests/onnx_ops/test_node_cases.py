"""Every conformance case of onnx for operators we offer: eagerly, exported as the node, and exported to opset 20."""

from __future__ import annotations

import pytest
from node_cases import NodeCase, cases_of

import onnxport
from onnxport import ops

CASES = [
    pytest.param(function, case, id=case.name.removeprefix("test_"))
    for module, op_type, function in [
        ("attention", "Attention", ops.attention),
        ("rotaryembedding", "RotaryEmbedding", ops.rotary_embedding),
    ]
    for case in cases_of(module, op_type)
]


@pytest.mark.parametrize("function, case", CASES)
def test_eager(function, case: NodeCase) -> None:
    case.check(case.call(function, *case.tensors))


@pytest.mark.parametrize("function, case", CASES)
def test_exported(function, case: NodeCase) -> None:
    program = onnxport.export(case.module(function), case.tensors, opset_version=case.opset)
    # onnxruntime has no kernels for bfloat16, so that casts stand around the node.
    (node,) = (node for node in program.model.graph if node.op_type != "Cast")
    assert node.op_type == case.node.op_type
    assert set(node.attributes) <= set(case.attributes)
    if case.passes_in_onnxruntime():
        case.check(list(program(*case.tensors)))


@pytest.mark.parametrize("function, case", CASES)
def test_exported_to_an_older_opset(function, case: NodeCase) -> None:
    program = onnxport.export(case.module(function), case.tensors, opset_version=20)
    case.check(list(program(*case.tensors)))
