"""Rows of ONNX text: parsed, optimized, and run before and after on the same inputs."""

from __future__ import annotations

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort

from onnxport.optimize import run_passes


def parse(text: str, opset: int = 21) -> ir.Model:
    """A model from ``(inputs) => (outputs) { nodes }``, shapes inferred."""
    if not text.lstrip().startswith("<"):
        text = f'<ir_version: 10, opset_import: ["" : {opset}, "local" : 1]> g {text}'
    proto = onnx.parser.parse_model(text)
    return ir.from_proto(onnx.shape_inference.infer_shapes(proto, check_type=True, data_prop=True))


def ops(model: ir.Model) -> list[str]:
    return [node.op_type for node in model.graph]


def signature(model: ir.Model) -> list[tuple[str | None, ...]]:
    graph = model.graph
    return [tuple(value.name for value in values) for values in (graph.inputs, graph.outputs)]


def feeds(model: ir.Model, sizes: dict[str, int] | None = None, seed: int = 0) -> dict[str, np.ndarray]:
    """Random inputs; free dimensions are 3 unless told otherwise."""
    random = np.random.default_rng(seed)
    result = {}
    for value in model.graph.inputs:
        if value.is_initializer():
            continue
        dims = [d if isinstance(d, int) else (sizes or {}).get(str(d.value), 3) for d in value.shape]
        dtype = value.dtype.numpy()
        array = random.integers(-3, 4, dims) if dtype.kind == "i" else random.standard_normal(dims)
        if dtype.kind == "b":
            array = array > 0
        result[value.name] = np.asarray(array).astype(dtype)
        if dtype.kind == "f" and result[value.name].size:
            result[value.name].flat[0] = -0.0
    return result


def run(model: ir.Model, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    proto = ir.to_proto(model)
    onnx.checker.check_model(proto)
    session = ort.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)


def same(before: list[np.ndarray], after: list[np.ndarray]) -> None:
    """Equal in type, shape and value, and in the sign of zeros."""
    assert len(before) == len(after)
    for left, right in zip(before, after, strict=True):
        assert left.dtype == right.dtype and left.shape == right.shape
        np.testing.assert_array_equal(left, right)
        if left.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(left), np.signbit(right))


def optimized(text: str, opset: int = 21, sizes: dict[str, int] | None = None) -> ir.Model:
    """Optimize a row, check that it computes the same under the same names and that doing it again changes nothing."""
    model = parse(text, opset)
    inputs = feeds(model, sizes)
    expected, names = run(model, inputs), signature(model)
    run_passes(model)
    assert signature(model) == names
    same(expected, run(model, inputs))
    once = ir.to_proto(model).SerializeToString(deterministic=True)
    run_passes(model)
    assert ir.to_proto(model).SerializeToString(deterministic=True) == once
    return model
