"""Files of a few nodes, one for each thing that a profile of a target says about its reader."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

_HEAD = '<ir_version: {ir}, opset_import: ["": {opset}]> probe (float[2,3] in0) => (float[2,3] out)'
_NORM = """<float[3] scale = {{1.0, 2.0, 3.0}}, int64[2] shape = {{2, 3}}>
{ norm = LayerNormalization(in0, scale) flat = Reshape(norm, shape) out = Identity(flat) }"""

BODIES = {
    "sequences": """<int64 one = {1}>
        { made = SequenceConstruct(in0, in0) out = SequenceAt(made, one) }""",
    "If": """<float zero = {0.0}>
        { sum = ReduceSum <keepdims = 0> (in0) more = Greater(sum, zero)
          out = If (more) <then_branch = yes () => (float[2,3] a) { a = Relu(in0) },
                           else_branch = no () => (float[2,3] b) { b = Neg(in0) }> }""",
    "Loop": """<int64 count = {3}, bool true = {1}>
        { out = Loop (count, true, in0) <body = step (int64 i, bool go, float[2,3] x) => (bool on, float[2,3] y)
          { on = Identity(go) y = Add(x, x) }> }""",
    "Scan": """<float[3] start = {0.0, 0.0, 0.0}>
        { last, out = Scan <num_scan_inputs = 1, body = step (float[3] sum, float[3] x) => (float[3] next, float[3] y)
          { next = Add(sum, x) y = Identity(next) }> (start, in0) }""",
    "double": """{ wide = Cast <to = 11> (in0) twice = Add(wide, wide) out = Cast <to = 1> (twice) }""",
}
OPSETS = ((17, 8), (18, 8), (19, 9), (20, 10), (21, 10), (22, 10), (23, 11))


def write_probes(folder: Path) -> Iterator[tuple[str, Path, Path]]:
    """Write each file and what it computes; give its name, the file and the file of values."""
    folder.mkdir(exist_ok=True)
    texts = {name: _HEAD.format(ir=8, opset=17) + body for name, body in BODIES.items()}
    for opset, version in OPSETS:
        texts[f"opset {opset}"] = _HEAD.format(ir=version, opset=opset) + _NORM.replace("{{", "{").replace("}}", "}")
    given = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    for name, text in texts.items():
        path = folder / f"{name.replace(' ', '-')}.onnx"
        onnx.save(onnx.parser.parse_model(text), path)
        (expected,) = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"in0": given})
        values = path.with_suffix(".json")
        values.write_text(json.dumps({"inputs": [plain(given)], "outputs": [plain(np.asarray(expected))]}))
        yield name, path, values


def plain(array: np.ndarray) -> dict[str, object]:
    """An array as JSON has it."""
    return {"dtype": str(array.dtype), "shape": list(array.shape), "data": array.reshape(-1).tolist()}
