"""Files for the command line to read: some by other writers than this exporter, some that are damaged or mean harm."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

MODELS = {
    # Without metadata, with names as the TorchScript exporter gives them.
    "plain": """
        <ir_version: 8, opset_import: ["": 17], producer_name: "somebody">
        agraph (float[batch, 4] x) => (float[batch, 3] y)
        <float[4, 3] weight = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}>
        { h = MatMul(x, weight)  y = Relu(h) }
    """,
    # The same, at one size.
    "fixed": """
        <ir_version: 8, opset_import: ["": 17]>
        agraph (float[5, 4] x) => (float[5, 3] y)
        <float[4, 3] weight = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}>
        { h = MatMul(x, weight)  y = Relu(h) }
    """,
    # Functions that call each other, in a domain of their own.
    "functions": """
        <ir_version: 8, opset_import: ["": 17, "mine": 1]>
        agraph (float[n, 2] x) => (float[n, 2] y) { y = mine.outer(x) }
        <opset_import: ["": 17, "mine": 1], domain: "mine"> outer (a) => (b) { c = mine.inner(a) b = Relu(c) }
        <opset_import: ["": 17], domain: "mine"> inner (a) => (b) { b = Neg(a) }
    """,
    # A branch whose sides have literals of their own.
    "branches": """
        <ir_version: 8, opset_import: ["": 17]>
        agraph (float[2] x, bool flag) => (float[2] y) {
            y = If (flag) <
                then_branch = yes () => (float[2] a) { one = Constant <value = float[1] {1.0}> ()  a = Add(x, one) },
                else_branch = no () => (float[2] b) { b = Neg(x) }
            >
        }
    """,
    # Old forms: attributes that have become inputs since.
    "old": """
        <ir_version: 4, opset_import: ["": 9]>
        agraph (float[batch, 4] x) => (float[batch, 1] y) {
            a = Clip <min = -1.0, max = 1.0> (x)
            b = Slice <axes = [1], starts = [0], ends = [3]> (a)
            c = Unsqueeze <axes = [0]> (b)
            d = Squeeze <axes = [0]> (c)
            y = ReduceSum <axes = [1], keepdims = 1> (d)
        }
    """,
    "wasteful": """
        <ir_version: 8, opset_import: ["": 17]>
        agraph (float[n] x) => (float[n] y) {
            a = Identity(x)  b = Identity(a)  dead = Neg(b)  c = Relu(b)  d = Relu(a)  y = Add(c, d)
        }
    """,
}


def write_models(folder: Path) -> None:
    """Write all of them, and one with its weights in a file of their own."""
    for name, text in MODELS.items():
        model = onnx.parser.parse_model(text)
        for number, node in enumerate(model.graph.node):
            node.name = f"/layer/block/{node.op_type}_{number}"
        onnx.save(model, folder / f"{name}.onnx")
    weight = numpy_helper.from_array(np.ones((4, 100), np.float32), "w")
    model = onnx.parser.parse_model(MODELS["plain"].replace("batch, 3", "batch, 100"))
    model.graph.initializer[0].CopyFrom(weight)
    model.graph.initializer[0].name = "weight"
    onnx.save(model, folder / "data.onnx", save_as_external_data=True, location="data.bin", size_threshold=0)


def write_hostile(folder: Path) -> None:
    """Write files that no command may read."""
    inner = folder / "hostile"
    inner.mkdir()
    (folder / "secret.bin").write_bytes(bytes(1600))
    (inner / "link.bin").symlink_to(folder / "secret.bin")
    for name, location in {
        "parent": "../secret.bin",
        "absolute": str(folder / "secret.bin"),
        "link": "link.bin",
    }.items():
        model = onnx.load(folder / "data.onnx", load_external_data=False)
        for entry in model.graph.initializer[0].external_data:
            entry.value = location if entry.key == "location" else entry.value
        onnx.save(model, inner / f"{name}.onnx")
    whole = (folder / "plain.onnx").read_bytes()
    (inner / "cut.onnx").write_bytes(whole[: len(whole) // 2])
    (inner / "junk.onnx").write_bytes(b"this is no model")
    (inner / "empty.onnx").write_bytes(b"")
