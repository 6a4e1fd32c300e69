"""Sixty quantized models, by origin, scheme and layer: equal to eager, in integers, in a file of the least size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx
import pytest
from quantized_models import (
    CASES,
    COARSE,
    LAYERS,
    PACKED,
    example,
    exported_with,
    least_bytes,
    moved,
    packed_model,
    stored_bytes,
    with_written_weights,
)

import onnxport
from comparison import eager_result


def saved(program: onnxport.ONNXProgram, folder: Path) -> tuple[int, set[str]]:
    path = folder / "model.onnx"
    program.save(path, external_data=False, metadata="none")
    kinds = {onnx.TensorProto.DataType.Name(tensor.data_type) for tensor in onnx.load(path).graph.initializer}
    return path.stat().st_size, kinds


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("origin", PACKED)
def test_packed_checkpoint(origin: str, name: str, tmp_path: Path) -> None:
    model = packed_model(origin, name)
    program = onnxport.export(model, (example(2),), dynamic_shapes=({0: "batch"},), opset_version=21)
    x = example(3)
    assert moved(program(x)[0], eager_result(model, (x,))) < 1e-3
    size, kinds = saved(program, tmp_path)
    assert kinds & {"UINT4", "INT8", "UINT8", "FLOAT8E4M3FN"}
    assert size <= 1.1 * stored_bytes(model)


@pytest.mark.parametrize(("scheme", "name"), CASES)
def test_quantized_on_the_way_out(scheme: Any, name: str, tmp_path: Path) -> None:
    model, program = exported_with(scheme, name)
    report = program.quantization
    assert report is not None
    x = example(3)
    expected = eager_result(with_written_weights(model, report), (x,))
    assert moved(program(x)[0], expected) < COARSE.get(scheme, 1e-3)
    size, kinds = saved(program, tmp_path)
    assert kinds & {"INT8", "INT4", "UINT4", "UINT8", "FLOAT16", "BFLOAT16"}
    assert size <= 1.1 * least_bytes(model, report) + 3000
