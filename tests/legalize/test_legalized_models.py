"""Whole models at every opset: the file says the opset that was asked for, and the values are eager's."""

from __future__ import annotations

import functools
import re

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
import torch

import onnxport
import zoo
from onnxport.errors import OpsetError
from onnxport.legalize import legalize
from onnxport.program import ONNXProgram

OPSETS = range(9, 27)
MODELS = ("resnet", "bert", "gpt2", "llama", "vit")


class Recurrent(torch.nn.Module):
    """Two bidirectional LSTM layers and a linear one."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(8, 16, 2, batch_first=True, bidirectional=True)
        self.linear = torch.nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(self.lstm(x)[0])


@functools.cache
def exported(name: str) -> tuple[ONNXProgram, dict[str, torch.Tensor], list[np.ndarray]]:
    torch.manual_seed(0)
    if name == "lstm":
        model, inputs, axes = Recurrent().eval(), {"x": torch.randn(2, 8, 8)}, {"x": {0: "batch"}}
        other = {"x": torch.randn(3, 8, 8)}
    else:
        row = next(row for row in zoo.ZOO if row.name == name)
        model, inputs, axes = row.build().eval(), row.inputs(*row.traced), row.dynamic_shapes
        other = row.inputs(*row.others[-1])
    program = onnxport.export(model, (), kwargs=inputs, dynamic_shapes=axes, opset_version=23)
    with torch.no_grad():
        result = model(**other)
    leaves = torch.utils._pytree.tree_leaves(dict(result) if hasattr(result, "keys") else result)
    return program, other, [leaf.numpy() for leaf in leaves if isinstance(leaf, torch.Tensor)]


@pytest.mark.parametrize(
    ("name", "opset"),
    [*((name, opset) for name in (*MODELS, "lstm") for opset in OPSETS), ("resnet", 7), ("resnet", 8)],
)
def test_model_at_opset(name: str, opset: int) -> None:
    program, inputs, expected = exported(name)
    model = program.model.clone()
    legalize(model, opset)
    proto = ir.to_proto(model)
    assert {entry.domain: entry.version for entry in proto.opset_import}[""] == opset
    onnx.checker.check_model(proto, full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options)
    got = session.run(
        None, {value.name: inputs[value.name].numpy() for value in session.get_inputs() if value.name in inputs}
    )
    for result, reference in zip(got, expected, strict=True):
        np.testing.assert_allclose(result, reference, rtol=1e-4, atol=2e-5)


@pytest.mark.parametrize("name", [*MODELS, "lstm"])
@pytest.mark.parametrize(("opset", "version"), [(24, 12), (25, 13), (26, 13), (27, 13), (28, 14)])
def test_model_at_newer_opset(name: str, opset: int, version: int) -> None:
    """Newer than what onnxruntime runs, but not than what can be checked."""
    model = exported(name)[0].model.clone()
    legalize(model, opset)
    proto = ir.to_proto(model)
    assert ({entry.domain: entry.version for entry in proto.opset_import}[""], proto.ir_version) == (opset, version)
    onnx.checker.check_model(proto, full_check=True)


@pytest.mark.parametrize("name", [*MODELS, "lstm"])
def test_model_at_too_old_an_opset(name: str) -> None:
    """Everything that does not fit is named with its line and the opset that has it, and that opset then works."""
    program = exported(name)[0]
    needed = 7
    for opset in (7, 8):
        try:
            legalize(program.model.clone(), opset)
        except OpsetError as error:
            problems = str(error).split("\n  - ")[1:]
            assert problems
            for problem in problems:
                assert re.search(r"\n    (first )?at \S+\.py:\d+ in \w+[^\n]*\n", problem), problem
                found = re.search(r"The lowest opset that works is (\d+): pass opset_version=\1\.", problem)
                assert found, problem
                needed = max(needed, int(found[1]))
    legalize(program.model.clone(), needed)
