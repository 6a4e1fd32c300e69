"""The conformance cases that onnx ships for an operator, as calls of ours: inputs, attributes, expected outputs."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from onnx.backend.test.case import node as onnx_cases

from comparison import assert_close

TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 3e-2}


@dataclass(frozen=True)
class NodeCase:
    """One node with data."""

    name: str
    model: onnx.ModelProto
    arrays: list[np.ndarray[Any, Any]]
    expected: list[torch.Tensor]

    @property
    def node(self) -> onnx.NodeProto:
        return self.model.graph.node[0]

    @property
    def opset(self) -> int:
        return int(self.model.opset_import[0].version)

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        return tuple(torch_tensor(array) for array in self.arrays)

    @property
    def attributes(self) -> dict[str, Any]:
        return {one.name: onnx.helper.get_attribute_value(one) for one in self.node.attribute}

    def call(self, function: Callable[..., Any], *tensors: torch.Tensor) -> list[torch.Tensor]:
        """Call ``function`` as the node says; the outputs the node has names for."""
        given = iter(tensors)
        inputs = [next(given) if name else None for name in self.node.input]
        options = {k: v.decode() if isinstance(v, bytes) else v for k, v in self.attributes.items()}
        results = function(*inputs, **options)
        results = list(results) if isinstance(results, list | tuple) else [results]
        return [result for result, name in zip(results, self.node.output, strict=False) if name]

    def module(self, function: Callable[..., Any]) -> torch.nn.Module:
        case = self

        class Model(torch.nn.Module):
            def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
                return tuple(case.call(function, *tensors))

        return Model()

    def check(self, found: list[torch.Tensor]) -> None:
        for one, other in zip(found, self.expected, strict=True):
            tolerance = TOLERANCE.get(other.dtype, 1e-5)
            assert_close(one, other, rtol=max(tolerance, 1e-4), atol=tolerance)

    def passes(self, run: Callable[[], Iterable[torch.Tensor]]) -> bool:
        try:
            self.check(list(run()))
        except Exception:  # noqa: BLE001 - whatever it fails with, it fails
            return False
        return True

    def passes_in_onnxruntime(self) -> bool:
        """Whether onnxruntime computes onnx's own model right."""
        return self.passes(self._run_as_given)

    def _run_as_given(self) -> Iterator[torch.Tensor]:
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(self.model.SerializeToString(), options)
        names = [value.name for value in session.get_inputs()]
        return map(torch_tensor, session.run(None, dict(zip(names, self.arrays, strict=True))))


def torch_tensor(array: np.ndarray[Any, Any]) -> torch.Tensor:
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.astype(np.float32)).to(torch.bfloat16)
    return torch.from_numpy(np.ascontiguousarray(array)).reshape(array.shape)


def cases_of(module: str, op_type: str) -> list[NodeCase]:
    """The cases in one file of onnx's; those that expand the operator's function are left out."""
    before = len(onnx_cases._NodeTestCases)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module(f"onnx.backend.test.case.node.{module}")
    found = []
    for case in onnx_cases._NodeTestCases[before:]:
        if case.model.graph.node[0].op_type == op_type and len(case.model.graph.node) == 1:
            ((inputs, outputs),) = case.data_sets
            expected = [torch_tensor(np.asarray(output)) for output in outputs]
            found.append(NodeCase(case.name, case.model, list(inputs), expected))
    return found
