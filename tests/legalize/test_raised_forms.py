"""Files of older opsets at newer ones: they compute the same, or are refused with a reason."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.reference
import onnx_ir as ir
import onnxruntime
import pytest

from onnxport.conversion import convert_model, optimize_model
from onnxport.errors import OpsetError
from onnxport.legalize.versions import ir_version_for

X = "float[2, 4, 6] x"
ROWS: list[tuple[str, int, str, str]] = [
    # name, opset, inputs, nodes; the output is y.
    ("squeeze", 11, "float[2, 1, 3] x", "y = Squeeze <axes = [1]> (x)"),
    ("squeeze_all", 11, "float[2, 1, 3] x", "y = Squeeze (x)"),
    ("unsqueeze", 9, X, "y = Unsqueeze <axes = [0, 2]> (x)"),
    ("reduce_sum", 11, X, "y = ReduceSum <axes = [-1], keepdims = 0> (x)"),
    ("reduce_all", 11, X, "y = ReduceMax (x)"),
    ("reduce_mean", 13, X, "y = ReduceMean <axes = [0, 2]> (x)"),
    ("reduce_log_sum_exp", 17, X, "y = ReduceLogSumExp <axes = [1]> (x)"),
    ("slice", 9, X, "y = Slice <axes = [1, 2], starts = [1, -3], ends = [3, 100]> (x)"),
    ("slice_all", 9, X, "y = Slice <starts = [1, 1], ends = [2, 3]> (x)"),
    ("top_k", 9, X, "y, places = TopK <k = 2, axis = 1> (x)"),
    ("clip", 7, X, "y = Clip <min = -0.5, max = 0.25> (x)"),
    ("clip_below", 10, X, "y = Clip <min = 0.1> (x)"),
    ("pad", 10, X, "y = Pad <pads = [0, 1, 0, 0, 0, 2], value = 3.0> (x)"),
    ("pad_reflect", 10, X, 'y = Pad <pads = [0, 1, 0, 0, 0, 2], mode = "reflect"> (x)'),
    ("dropout", 10, X, "y = Dropout <ratio = 0.3> (x)"),
    ("split", 11, X, "y, z = Split <axis = 1, split = [1, 3]> (x)"),
    ("split_equal", 13, X, "y, z = Split <axis = 2> (x)"),
    ("softmax", 11, X, "y = Softmax (x)"),
    ("softmax_last", 11, X, "y = Softmax <axis = 2> (x)"),
    ("log_softmax", 9, X, "y = LogSoftmax <axis = 1> (x)"),
    ("hardmax", 11, X, "y = Hardmax <axis = 0> (x)"),
    ("upsample_7", 7, "float[1, 2, 3, 3] x", 'y = Upsample <mode = "nearest", scales = [1.0, 1.0, 2.0, 3.0]> (x)'),
    (
        "upsample_9",
        9,
        "float[1, 2, 3, 3] x",
        's = Constant <value = float[4] {1.0, 1.0, 2.0, 1.5}> ()  y = Upsample <mode = "linear"> (x, s)',
    ),
    (
        "resize_10",
        10,
        "float[1, 2, 3, 3] x",
        's = Constant <value = float[4] {1.0, 1.0, 2.5, 1.5}> ()  y = Resize <mode = "nearest"> (x, s)',
    ),
    (
        "scatter",
        9,
        "float[3, 2] x, float[1, 2] u",
        "i = Constant <value = int64[1, 2] {2, 0}> ()  y = Scatter <axis = 0> (x, i, u)",
    ),
    ("batch_norm", 7, "float[2, 3, 4] x, float[3] s, float[3] b", "v = Abs(s)  y = BatchNormalization (x, s, b, b, v)"),
    (
        "roi_align",
        10,
        "float[1, 2, 8, 8] x",
        "r = Constant <value = float[1, 4] {1.0, 1.0, 6.0, 5.0}> ()  b = Constant <value = int64[1] {0}> ()  "
        "y = RoiAlign <output_height = 2, output_width = 3, sampling_ratio = 2> (x, r, b)",
    ),
    ("grid_sample", 16, "float[1, 2, 4, 4] x, float[1, 3, 3, 2] g", 'y = GridSample <mode = "bicubic"> (x, g)'),
    ("dft", 17, "float[1, 6, 1] x", "y = DFT <axis = 1> (x)"),
    (
        "group_norm",
        18,
        "float[2, 4, 3] x, float[2] s, float[2] b",
        "y = GroupNormalization <num_groups = 2, epsilon = 0.001> (x, s, b)",
    ),
    (
        "in_a_branch",
        9,
        "float[2, 3] x, bool flag",
        "y = If (flag) <then_branch = yes () => (a) { a = Unsqueeze <axes = [0]> (x) }, "
        "else_branch = no () => (b) { c = Clip <min = 0.0> (x) b = Unsqueeze <axes = [0]> (c) }>",
    ),
]


def model_of(opset: int, inputs: str, nodes: str) -> onnx.ModelProto:
    text = f'<ir_version: {ir_version_for(opset)}, opset_import: ["": {opset}]> g ({inputs}) => (y) {{ {nodes} }}'
    return onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text))


def feeds_of(model: onnx.ModelProto) -> dict[str, np.ndarray]:
    draw = np.random.default_rng(0)
    feeds = {}
    for one in model.graph.input:
        kind = one.type.tensor_type
        sizes = [dim.dim_value for dim in kind.shape.dim]
        values = draw.standard_normal(sizes).astype(np.float32)
        feeds[one.name] = np.asarray(True) if kind.elem_type == onnx.TensorProto.BOOL else values
    return feeds


def outputs(model: onnx.ModelProto) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, feeds_of(model))


@pytest.mark.parametrize(("opset", "inputs", "nodes"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_a_newer_opset_computes_the_same(opset: int, inputs: str, nodes: str) -> None:
    old = model_of(opset, inputs, nodes)
    # The group normalisation of opset 18 is deprecated, and onnxruntime does not run it.
    grouped = "GroupNorm" in nodes
    expected = onnx.reference.ReferenceEvaluator(old).run(None, feeds_of(old)) if grouped else outputs(old)
    for goal in (13, 17, 20, 21, 23):
        # Nor has it a kernel for RoiAlign from 22 on.
        if goal <= opset or (grouped and goal < 21) or ("RoiAlign" in nodes and goal > 21):
            continue
        model = ir.from_proto(old)
        convert_model(model, opset=goal)
        converted = ir.to_proto(model)
        onnx.checker.check_model(converted, full_check=True)
        np.testing.assert_allclose(outputs(converted)[0], expected[0], rtol=1e-4, atol=1e-5)
    model = ir.from_proto(old)
    optimize_model(model)
    assert model.opset_imports[""] == opset
    if not grouped:
        np.testing.assert_allclose(outputs(ir.to_proto(model))[0], expected[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("opset", "inputs", "nodes", "reason"),
    [
        (8, "float[2, 3] x, float[3] s", "y = BatchNormalization <spatial = 0> (x, s, s, s, s)", "for each element"),
        (
            11,
            "float[1, 1, 2, 2] x, float[0] r, float[4] s",
            'y = Resize <coordinate_transformation_mode = "tf_half_pixel_for_nn"> (x, r, s)',
            "tf_half_pixel_for_nn",
        ),
    ],
)
def test_what_no_newer_opset_has(opset: int, inputs: str, nodes: str, reason: str) -> None:
    with pytest.raises(OpsetError, match=reason):
        convert_model(ir.from_proto(model_of(opset, inputs, nodes)), opset=20)


def test_functions_of_an_older_opset() -> None:
    text = """
        <ir_version: 8, opset_import: ["": 12, "mine": 1]> g (float[2, 3] x) => (y) { y = mine.grown(x) }
        <opset_import: ["": 12], domain: "mine"> grown (a) => (b) { c = Clip(a) b = Unsqueeze <axes = [0]> (c) }
    """
    old = onnx.parser.parse_model(text)
    model = ir.from_proto(old)
    convert_model(model, opset=20)
    np.testing.assert_array_equal(outputs(ir.to_proto(model))[0], outputs(old)[0])
    assert all(function.opset_imports[""] == 20 for function in model.functions.values())
