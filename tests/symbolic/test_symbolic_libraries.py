"""Symbolic functions in the manner of well-known libraries, written with our helpers and with torch's own."""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import onnx
import pytest
import torch
from registering import registered
from torch.nn import functional

import onnxport
from cases import Wrapped
from onnxport.errors import OnnxExporterError

Function = Callable[..., Any]
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*made-up values"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


@dataclass(frozen=True)
class Tools:
    """What symbolic functions import: from here, or from ``torch.onnx``."""

    package: str

    def __getattr__(self, name: str) -> ModuleType:
        return importlib.import_module(f"{self.package}.{name}")


WAYS = [pytest.param("onnxport", True, id="ours"), pytest.param("torch.onnx", False, id="torch's-with-the-old-call")]


def function(forward: Function, symbolic: Function) -> Any:
    methods = {"forward": staticmethod(lambda ctx, *args: forward(*args)), "symbolic": staticmethod(symbolic)}
    return type("Function", (torch.autograd.Function,), methods)


@pytest.fixture(scope="module", autouse=True)
def library() -> Iterator[None]:
    made = torch.library.Library("visionlib", "FRAGMENT")
    made.define("nms(Tensor boxes, Tensor scores, float iou) -> Tensor")
    made.impl("nms", nms, "CPU")
    made.define("roi_align(Tensor x, Tensor rois, float scale, int h, int w, int ratio, bool aligned) -> Tensor")
    made.impl("roi_align", lambda x, rois, scale, h, w, ratio, aligned: averages(x, rois, h, w), "CPU")
    made.define("roi_pool(Tensor x, Tensor rois, float scale, int h, int w) -> (Tensor, Tensor)")
    made.impl("roi_pool", lambda x, rois, scale, h, w: (maxima(x, rois, h, w), torch.zeros(1)), "CPU")
    yield
    made._destroy()


def nms(boxes: torch.Tensor, scores: torch.Tensor, iou: float) -> torch.Tensor:
    kept: list[int] = []
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    for index in scores.argsort(descending=True).tolist():
        sides = torch.minimum(boxes[kept, 2:], boxes[index, 2:]) - torch.maximum(boxes[kept, :2], boxes[index, :2])
        common = sides.clamp(min=0).prod(1)
        if (common / (areas[kept] + areas[index] - common) <= iou).all():
            kept.append(index)
    return torch.tensor(kept)


def averages(x: torch.Tensor, rois: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """Of an image that is the same everywhere."""
    return x[rois[:, 0].long()].amax((2, 3), keepdim=True).expand(-1, -1, height, width).clone()


maxima = averages

BOXES = torch.tensor([[0.0, 0, 1, 1], [0, 0, 1, 1.1], [2, 2, 3, 3], [2, 2.1, 3, 3]])
SCORES = torch.tensor([0.9, 0.95, 0.7, 0.8])
IMAGE = torch.tensor([1.0, 2.0, 3.0]).reshape(1, 3, 1, 1).expand(2, 3, 8, 8).clone()
ROIS = torch.tensor([[0, 1.0, 1, 5, 5], [1, 0.0, 0, 7, 7]])
X = torch.linspace(-2, 3, 24).reshape(2, 3, 4)
MASK = torch.tensor([[[True, True, False, True]]]).expand(2, 3, 4)


# torchvision: operators, of which indices are constants of one and of several elements


def vision_nms(tools: Tools) -> tuple[str, Function]:
    opset = tools.symbolic_opset11

    @tools.symbolic_helper.parse_args("v", "v", "f")
    def symbolic(g: Any, boxes: Any, scores: Any, iou: float) -> Any:
        boxes = opset.unsqueeze(g, boxes, 0)
        scores = opset.unsqueeze(g, opset.unsqueeze(g, scores, 0), 0)
        most = g.op("Constant", value_t=torch.tensor([sys.maxsize], dtype=torch.long))
        threshold = g.op("Constant", value_t=torch.tensor([iou], dtype=torch.float))
        boxes, scores = (g.op("Cast", one, to_i=onnxport.TensorProtoDataType.FLOAT) for one in (boxes, scores))
        found = g.op("NonMaxSuppression", boxes, scores, most, threshold)
        column = opset.select(g, found, 1, g.op("Constant", value_t=torch.tensor([2], dtype=torch.long)))
        return opset.squeeze(g, column, 1)

    return "visionlib::nms", symbolic


def vision_roi_align(tools: Tools) -> tuple[str, Function]:
    opset = tools.symbolic_opset11

    @tools.symbolic_helper.parse_args("v", "v", "f", "i", "i", "i", "i")
    def symbolic(g: Any, x: Any, rois: Any, scale: float, h: int, w: int, ratio: int, aligned: int) -> Any:
        first = opset.select(g, rois, 1, g.op("Constant", value_t=torch.tensor([0], dtype=torch.long)))
        indices = g.op("Cast", opset.squeeze(g, first, 1), to_i=onnxport.TensorProtoDataType.INT64)
        rest = opset.select(g, rois, 1, g.op("Constant", value_t=torch.tensor([1, 2, 3, 4], dtype=torch.long)))
        return g.op(
            "RoiAlign",
            x,
            rest,
            indices,
            coordinate_transformation_mode_s="half_pixel" if aligned else "output_half_pixel",
            spatial_scale_f=scale,
            output_height_i=h,
            output_width_i=w,
            sampling_ratio_i=max(ratio, 0),
        )

    return "visionlib::roi_align", symbolic


def vision_roi_pool(tools: Tools) -> tuple[str, Function]:
    @tools.symbolic_helper.parse_args("v", "v", "f", "i", "i")
    def symbolic(g: Any, x: Any, rois: Any, scale: float, height: int, width: int) -> Any:
        # Nobody asks for the second result.
        return g.op("MaxRoiPool", x, rois, pooled_shape_i=(height, width), spatial_scale_f=scale), None

    return "visionlib::roi_pool", symbolic


OPERATORS = [
    pytest.param(vision_nms, lambda b, s: torch.ops.visionlib.nms(b, s, 0.5) * 2, (BOXES, SCORES), (11, 18), id="nms"),
    pytest.param(
        vision_roi_align,
        lambda x, rois: torch.ops.visionlib.roi_align(x, rois, 1.0, 3, 3, 2, True) + 1,
        (IMAGE, ROIS),
        (16,),
        id="roi-align",
    ),
    pytest.param(
        vision_roi_pool,
        lambda x, rois: torch.ops.visionlib.roi_pool(x, rois, 1.0, 2, 2)[0] + 1,
        (IMAGE, ROIS),
        (11, 17),
        id="roi-pool",
    ),
]


@pytest.mark.parametrize(("package", "dynamo"), WAYS)
@pytest.mark.parametrize(("make", "model", "args", "opsets"), OPERATORS)
def test_operators_of_torchvision(
    make: Function, model: Function, args: tuple[torch.Tensor, ...], opsets: Sequence[int], package: str, dynamo: bool
) -> None:
    with registered(*make(Tools(package))):
        for opset in opsets:
            program = onnxport.export(Wrapped(model), args, opset_version=opset, dynamo=dynamo)
            onnx.checker.check_model(program.model_proto, full_check=True)
            torch.testing.assert_close(program(*args)[0], model(*args))


def test_a_result_that_is_none_may_not_be_used() -> None:
    def model(x: torch.Tensor, rois: torch.Tensor) -> torch.Tensor:
        return torch.ops.visionlib.roi_pool(x, rois, 1.0, 2, 2)[1] + 1

    with registered(*vision_roi_pool(Tools("onnxport"))), pytest.raises(OnnxExporterError, match="None for result 1"):
        onnxport.export(Wrapped(model), (IMAGE, ROIS))


# Functions that standard operators stand for


def openmmlab_nms(tools: Tools) -> Function:
    opset = tools.symbolic_opset9

    def symbolic(g: Any, boxes: Any, scores: Any, iou: float, offset: int) -> Any:
        boxes = opset.unsqueeze(g, boxes, 0)
        scores = opset.unsqueeze(g, opset.unsqueeze(g, scores, 0), 0)
        most = g.op("Constant", value_t=torch.tensor([sys.maxsize], dtype=torch.long))
        threshold = g.op("Constant", value_t=torch.tensor([iou], dtype=torch.float))
        found = g.op("NonMaxSuppression", boxes, scores, most, threshold)
        third = g.op("Constant", value_t=torch.tensor([2], dtype=torch.long))
        return opset.squeeze(g, opset.select(g, found, 1, third), 1)

    apply = function(lambda boxes, scores, iou, offset: nms(boxes, scores, iou), symbolic).apply
    return lambda boxes, scores: apply(boxes, scores, 0.5, 0)


def deberta_softmax(tools: Tools) -> Function:
    helper, opset = tools.symbolic_helper, tools.symbolic_opset9

    def forward(x: torch.Tensor, mask: torch.Tensor, dim: int) -> torch.Tensor:
        hidden = ~mask.to(torch.bool)
        return torch.softmax(x.masked_fill(hidden, torch.finfo(x.dtype).min), dim).masked_fill(hidden, 0)

    def symbolic(g: Any, x: Any, mask: Any, dim: int) -> Any:
        shown = g.op("Cast", mask, to_i=helper.cast_pytorch_to_onnx["Long"])
        one = g.op("Constant", value_t=torch.tensor(1, dtype=torch.int64))
        hidden = g.op("Cast", g.op("Sub", one, shown), to_i=helper.cast_pytorch_to_onnx["Bool"])
        lowest = g.op("Constant", value_t=torch.tensor(torch.finfo(x.type().dtype()).min))
        result = opset.softmax(g, opset.masked_fill(g, x, hidden, lowest), dim)
        return opset.masked_fill(g, result, hidden, g.op("Constant", value_t=torch.tensor(0, dtype=torch.bool)))

    apply = function(forward, symbolic).apply
    return lambda x, mask: apply(x, mask, -1)


class DropoutOptions:
    dropout = 0.3


def deberta_dropout(tools: Tools) -> Function:
    opset = tools.symbolic_opset12

    def symbolic(g: Any, x: Any, options: Any) -> Any:
        chance = options.dropout if isinstance(options, DropoutOptions) else options
        return opset.dropout(g, x, chance, False)

    apply, options = function(lambda x, options: x * 1, symbolic).apply, DropoutOptions()
    return lambda x: apply(x, options) + apply(x, 0.5)


def quantization_toolkit(tools: Tools) -> Function:
    """The scale from the largest value, in single precision whatever the input has, as an export to TensorRT wants."""
    helper = tools.symbolic_helper

    def forward(x: torch.Tensor, largest: torch.Tensor, bits: int, unsigned: bool, narrow: bool) -> torch.Tensor:
        bound = 2 ** (bits - 1) - 1
        scale = largest.float() / bound
        return ((x.float() / scale).round().clamp(-bound, bound) * scale).to(x.dtype)

    def symbolic(g: Any, x: Any, largest: Any, bits: int, unsigned: bool, narrow: bool) -> Any:
        kind, sizes = x.type().scalarType(), helper._get_tensor_sizes(x)
        bound = g.op("Constant", value_t=torch.tensor(2.0 ** (bits - 1) - 1))
        to = helper.cast_pytorch_to_onnx
        if kind == "Half":
            x, largest = g.op("Cast", x, to_i=to["Float"]), g.op("Cast", largest, to_i=to["Float"])
        scale = g.op("Div", largest, bound)
        scale.setType(largest.type().with_dtype(torch.float32))
        zero = g.op("Constant", value_t=torch.tensor(0, dtype=torch.uint8 if unsigned else torch.int8))
        stored = g.op("QuantizeLinear", x, scale, zero)
        stored.setType(x.type().with_dtype(torch.int8).with_sizes(sizes))
        result = g.op("DequantizeLinear", stored, scale, zero).setType(x.type().with_dtype(torch.float32))
        return g.op("Cast", result, to_i=to["Half"]) if kind == "Half" else result

    apply = function(forward, symbolic).apply
    return lambda x, largest: apply(x, largest, 8, False, True)


def speech_logaddexp(tools: Tools) -> Function:
    def symbolic(g: Any, x: Any, y: Any) -> Any:
        total = g.op("Add", g.op("Exp", x), g.op("Exp", y))
        return g.op("Log", total).setType(x.type())

    apply = function(torch.logaddexp, symbolic).apply
    return lambda x: apply(x, x * 0.5)


def megatron_layer_norm(tools: Tools) -> Function:
    opset = tools.symbolic_opset9

    def forward(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, shape: Any, eps: float) -> torch.Tensor:
        return functional.layer_norm(x, shape, weight, bias, eps)

    def symbolic(g: Any, x: Any, weight: Any, bias: Any, shape: Any, eps: float) -> Any:
        return opset.layer_norm(g, x, list(shape), weight, bias, eps, False)

    apply = function(forward, symbolic).apply
    return lambda x: apply(x, x[0, 0], x[0, 1], torch.Size([4]), 1e-5)


def runtime_triangle(tools: Tools) -> Function:
    """An operator of onnxruntime, which it can run."""

    def symbolic(g: Any, x: Any, diagonal: int) -> Any:
        number = g.op("Constant", value_t=torch.tensor(diagonal))
        return g.op("com.microsoft::Trilu", x, number, upper_i=0).setType(x.type())

    apply = function(lambda x, diagonal: x.tril(diagonal), symbolic).apply
    return lambda x: apply(x, 1) * 2


def detector_nms_of_runtime(tools: Tools) -> Function:
    """The forward only makes up something of the right kind, by chance; what reads it is compared."""

    def forward(boxes: torch.Tensor, scores: torch.Tensor, most: torch.Tensor, iou: torch.Tensor) -> torch.Tensor:
        count = 2
        batches = torch.randint(0, boxes.shape[0], (count,)).sort()[0]
        found = torch.cat([batches[None], torch.zeros(1, count, dtype=torch.int64), torch.arange(count)[None]], 0)
        return found.T.contiguous()

    def symbolic(g: Any, boxes: Any, scores: Any, most: Any, iou: Any) -> Any:
        return g.op("NonMaxSuppression", boxes, scores, most, iou)

    apply = function(forward, symbolic).apply

    def model(boxes: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        found = apply(boxes[None], scores[None, None], torch.tensor([2]), torch.tensor([0.5]))
        return boxes[None][found[:, 0], found[:, 2]]

    return model


FUNCTIONS = [
    pytest.param(openmmlab_nms, (BOXES, SCORES), nms(BOXES, SCORES, 0.5), (11, 13, 20), id="openmmlab-nms"),
    pytest.param(deberta_softmax, (X, MASK), None, (12, 17), id="deberta-softmax"),
    pytest.param(deberta_dropout, (X,), None, (12, 17), id="deberta-dropout"),
    pytest.param(quantization_toolkit, (X, torch.tensor(3.0)), None, (13, 17), id="quantization"),
    pytest.param(quantization_toolkit, (X.half(), torch.tensor(3.0).half()), None, (13, 19), id="quantization-of-half"),
    pytest.param(speech_logaddexp, (X,), None, (11, 17), id="speech-logaddexp"),
    pytest.param(megatron_layer_norm, (X,), None, (9, 17), id="megatron-layer-norm"),
    pytest.param(runtime_triangle, (X,), None, (11, 17), id="onnxruntime-trilu"),
    pytest.param(detector_nms_of_runtime, (BOXES, SCORES), BOXES[[1, 3]], (11, 17), id="detector-nms"),
]


@pytest.mark.parametrize(("package", "dynamo"), WAYS)
# The library says so when its opset is an old one.
@pytest.mark.filterwarnings("ignore:This model contains a squeeze operation")
@pytest.mark.parametrize(("make", "args", "expected", "opsets"), FUNCTIONS)
def test_functions_of_libraries(
    make: Function,
    args: tuple[torch.Tensor, ...],
    expected: torch.Tensor | None,
    opsets: Sequence[int],
    package: str,
    dynamo: bool,
) -> None:
    model = make(Tools(package))
    for opset in opsets:
        program = onnxport.export(Wrapped(model), args, opset_version=opset, dynamo=dynamo)
        onnx.checker.check_model(program.model_proto)
        torch.testing.assert_close(program(*args)[0], model(*args) if expected is None else expected)


# Functions that stay one node, of a runtime that has them


def node_of(forward: Function, symbolic: Function, *args: Any) -> Any:
    apply = function(forward, symbolic).apply
    tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]

    def model(*given: torch.Tensor) -> Any:
        rest = iter(given)
        return apply(*(next(rest) if isinstance(arg, torch.Tensor) else arg for arg in args))

    with warnings.catch_warnings(action="ignore"):
        program = onnxport.export(Wrapped(model), tuple(tensors), opset_version=13, dynamo=False)
    return program.model.graph[-1]


def deformable(g: Any, x: Any, offset: Any, mask: Any, weight: Any, bias: Any, stride: Any, groups: int) -> Any:
    given = [x, offset, mask, weight]
    if bias is not None:
        given.append(bias)
    return g.op("mmcv::MMCVModulatedDeformConv2d", *given, stride_i=stride, groups_i=groups)


def efficient_nms(g: Any, boxes: Any, scores: Any, background: int, iou: float, version: str) -> Any:
    out = g.op(
        "TRT::EfficientNMS_TRT",
        boxes,
        scores,
        background_class_i=background,
        iou_threshold_f=iou,
        plugin_version_s=version,
        outputs=4,
    )
    count, found, values, classes = out
    return count, found, values, classes


def efficient_nms_forward(boxes: torch.Tensor, scores: torch.Tensor, *rest: Any) -> Any:
    batch = scores.shape[0]
    return (
        torch.randint(0, 10, (batch, 1), dtype=torch.int32),
        torch.randn(batch, 10, 4),
        torch.randn(batch, 10),
        torch.randint(0, 3, (batch, 10), dtype=torch.int32),
    )


def brevitas(g: Any, x: Any, scale: Any, zero: Any, bits: Any, signed: bool, rounding: str) -> Any:
    result = g.op("onnx.brevitas::Quant", x, scale, zero, bits, signed_i=int(signed), rounding_mode_s=rounding)
    result.setType(x.type())
    return result


def multi_scale(g: Any, value: Any, shapes: Any, locations: Any, step: int) -> Any:
    return g.op("mmdeploy::MSDA", value, shapes, locations, im2col_step_i=step, scales_f=[0.5, 1.0], names_s=["a", "b"])


ONE = torch.ones(1)
NODES = [
    pytest.param(
        node_of,
        (lambda x, *rest: x * 1, deformable, X, X, X, X, None, (2, 2), 1),
        ("mmcv", "MMCVModulatedDeformConv2d", 4, [[2, 3, 4]], {"stride": (2, 2), "groups": 1}),
        id="openmmlab-deformable-convolution",
    ),
    pytest.param(
        node_of,
        (lambda x, *rest: x * 1, deformable, X, X, X, X, ONE, [1], 2),
        ("mmcv", "MMCVModulatedDeformConv2d", 5, [[2, 3, 4]], {"stride": (1,), "groups": 2}),
        id="openmmlab-deformable-convolution-with-bias",
    ),
    pytest.param(
        node_of,
        (efficient_nms_forward, efficient_nms, X, X, -1, 0.25, "1"),
        (
            "TRT",
            "EfficientNMS_TRT",
            2,
            [[2, 1], [2, 10, 4], [2, 10], [2, 10]],
            {"background_class": -1, "iou_threshold": 0.25, "plugin_version": "1"},
        ),
        id="tensorrt-nms",
    ),
    pytest.param(
        node_of,
        (lambda x, *rest: x * 1, brevitas, X, ONE, ONE, ONE, True, "ROUND"),
        ("onnx.brevitas", "Quant", 4, [[2, 3, 4]], {"signed": 1, "rounding_mode": "ROUND"}),
        id="brevitas-quant",
    ),
    pytest.param(
        node_of,
        (lambda x, *rest: x.sum((1, 2)), multi_scale, X, ONE, X, 64),
        ("mmdeploy", "MSDA", 3, [[2]], {"im2col_step": 64, "scales": (0.5, 1.0), "names": ("a", "b")}),
        id="multi-scale-attention",
    ),
]


@pytest.mark.parametrize(("make", "given", "expected"), NODES)
def test_functions_that_stay_a_node(make: Function, given: tuple[Any, ...], expected: tuple[Any, ...]) -> None:
    node = make(*given)
    domain, op_type, inputs, shapes, attributes = expected
    assert (node.domain, node.op_type, len(node.inputs)) == (domain, op_type, inputs)
    assert [list(value.shape) for value in node.outputs] == shapes
    assert {name: one.value for name, one in node.attributes.items()} == attributes


# Operators of ATen that torch's exporter writes with branches and loops: users call those functions


TORCHS_OWN = [
    pytest.param(
        "repeat_interleave",
        13,
        lambda x: x.repeat_interleave(x[:, 0, 0].long().abs() + 1, 0),
        id="a-loop-over-a-sequence",
    ),
    pytest.param("diagonal", 13, lambda x: x.diagonal(1, 0, 1), id="two-branches"),
    pytest.param("embedding_bag", 11, lambda x: functional.embedding_bag(x[0].long().abs() % 2, x[:, 0]), id="a-loop"),
    pytest.param(
        "scatter_reduce", 16, lambda x: x.scatter_reduce(1, x.long().abs() % 3, x, "amax"), id="branches-in-a-row"
    ),
]


@pytest.mark.parametrize(("package", "dynamo"), [("torch.onnx", True), ("torch.onnx", False)])
@pytest.mark.parametrize(("name", "opset", "model"), TORCHS_OWN)
def test_torchs_own_functions_write_branches_and_loops(
    name: str, opset: int, model: Function, package: str, dynamo: bool
) -> None:
    symbolic = getattr(getattr(Tools(package), f"symbolic_opset{opset}"), name)
    with registered(f"aten::{name}", symbolic):
        program = onnxport.export(
            Wrapped(model), (X,), opset_version=opset, dynamo=dynamo, input_names=["x"], dynamic_axes={"x": {0: "n"}}
        )
    assert {node.op_type for node in program.model.graph} & {"If", "Loop"}
    for x in (X, torch.linspace(-3, 3, 60).reshape(5, 3, 4)):
        torch.testing.assert_close(program(x)[0], model(x))


# Operators of ATen that a library writes in its own way


def resized(tools: Tools) -> Function:
    helper = tools.symbolic_helper

    def symbolic(g: Any, x: Any, size: Any, *args: Any) -> Any:
        scales, corners = helper._get_interpolate_attributes(g, "nearest", args)
        assert corners is None or helper._maybe_get_scalar(corners) is not None
        empty = g.op("Constant", value_t=torch.tensor([], dtype=torch.float32))
        if scales is None:
            head = helper._slice_helper(g, g.op("Shape", x), axes=[0], starts=[0], ends=[2])
            size = g.op("Cast", size, to_i=helper.cast_pytorch_to_onnx["Long"])
            last = g.op("Concat", head, size, axis_i=0)
            given = [x, empty, g.op("Constant", value_t=torch.tensor([], dtype=torch.float32)), last]
        else:
            given = [x, empty, scales]
        return g.op(
            "Resize",
            *given,
            coordinate_transformation_mode_s="asymmetric",
            cubic_coeff_a_f=-0.75,
            mode_s="nearest",
            nearest_mode_s="floor",
        )

    return symbolic


def rolled(tools: Tools) -> Function:
    helper = tools.symbolic_helper

    @helper.parse_args("v", "is", "is")
    def symbolic(g: Any, x: Any, shifts: list[int], dims: list[int]) -> Any:
        for shift, dim in zip(shifts, dims, strict=True):
            tail = helper._slice_helper(g, x, axes=[dim], starts=[-shift], ends=[sys.maxsize])
            head = helper._slice_helper(g, x, axes=[dim], starts=[0], ends=[-shift])
            x = g.op("Concat", tail, head, axis_i=dim)
        return x

    return symbolic


def quantized_per_channel(tools: Tools) -> Function:
    helper = tools.symbolic_helper

    @helper.parse_args("v", "v", "v", "i", "i", "i")
    def symbolic(g: Any, x: Any, scale: Any, zero: Any, axis: int, low: int = -128, high: int = 127) -> Any:
        kind = onnxport.TensorProtoDataType.UINT8 if low == 0 else onnxport.TensorProtoDataType.INT8
        zero = g.op("Cast", zero, to_i=kind)
        stored = g.op("QuantizeLinear", x, scale, zero, axis_i=axis)
        return g.op("DequantizeLinear", stored, scale, zero, axis_i=axis)

    return symbolic


def quantized_per_tensor(tools: Tools) -> Function:
    helper = tools.symbolic_helper

    @helper.parse_args("v", "v", "v", "i", "i")
    def symbolic(g: Any, x: Any, scale: Any, zero: Any, low: int = -128, high: int = 127) -> Any:
        zero = g.op("Cast", zero, to_i=onnxport.TensorProtoDataType.INT8)
        if helper._get_tensor_rank(scale) is None:
            scale = g.op("Cast", scale, to_i=onnxport.TensorProtoDataType.FLOAT)
        scale = g.op("Cast", scale, to_i=onnxport.TensorProtoDataType.FLOAT)
        return g.op("DequantizeLinear", g.op("QuantizeLinear", x, scale, zero), scale, zero)

    return symbolic


def sampled(tools: Tools) -> Function:
    helper = tools.symbolic_helper

    def symbolic(g: Any, x: Any, grid: Any, mode: Any, padding: Any, corners: Any) -> Any:
        mode_name = ["bilinear", "nearest", "bicubic"][helper._maybe_get_const(mode, "i")]
        padding_name = ["zeros", "border", "reflection"][helper._maybe_get_const(padding, "i")]
        aligned = int(helper._maybe_get_const(corners, "b"))
        return g.op(
            "com.microsoft::GridSample",
            x,
            grid,
            mode_s=mode_name,
            padding_mode_s=padding_name,
            align_corners_i=aligned,
        )

    return symbolic


def largest_so_far(tools: Tools) -> Function:
    @tools.symbolic_helper.parse_args("v", "i")
    def symbolic(g: Any, x: Any, dim: int) -> Any:
        return g.op("mmcv::cummax", x, dim_i=dim, outputs=2)

    return symbolic


SCALES, ZEROS = torch.tensor([0.1, 0.2, 0.3]), torch.zeros(3, dtype=torch.int32)
GRID = torch.linspace(-1, 1, 2 * 5 * 5 * 2).reshape(2, 5, 5, 2)
OVERRIDDEN = [
    pytest.param(
        "aten::upsample_nearest2d",
        resized,
        lambda x: functional.interpolate(x, scale_factor=2.0),
        (IMAGE,),
        (11, 17),
        True,
        id="openmmlab-resize-by-scale",
    ),
    pytest.param(
        "aten::upsample_nearest2d",
        resized,
        lambda x: functional.interpolate(x, size=(4, 16)),
        (IMAGE,),
        (11, 17),
        True,
        id="openmmlab-resize-to-size",
    ),
    pytest.param("aten::roll", rolled, lambda x: x.roll((1, 2), (1, 2)), (X,), (11, 17), True, id="openmmlab-roll"),
    pytest.param(
        "aten::fake_quantize_per_channel_affine",
        quantized_per_channel,
        lambda x: torch.fake_quantize_per_channel_affine(x, SCALES, ZEROS, 1, -128, 127),
        (X,),
        (13, 17),
        True,
        id="quantization-per-channel",
    ),
    pytest.param(
        "aten::fake_quantize_per_tensor_affine",
        quantized_per_tensor,
        lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127),
        (X,),
        (13, 17),
        True,
        id="quantization-per-tensor",
    ),
    pytest.param(
        "::grid_sampler",
        sampled,
        lambda x, grid: functional.grid_sample(x, grid, "bilinear", "border", True),
        (IMAGE, GRID),
        (11, 17),
        True,
        id="onnxruntime-grid-sampler",
    ),
    pytest.param("aten::cummax", largest_so_far, lambda x: x.cummax(1)[0], (X,), (11,), False, id="openmmlab-cummax"),
]


@pytest.mark.parametrize(("package", "dynamo"), WAYS)
@pytest.mark.parametrize(("name", "make", "model", "args", "opsets", "runs"), OVERRIDDEN)
def test_operators_that_libraries_override(
    name: str,
    make: Function,
    model: Function,
    args: tuple[torch.Tensor, ...],
    opsets: Sequence[int],
    runs: bool,
    package: str,
    dynamo: bool,
) -> None:
    with registered(name, make(Tools(package))):
        for opset in opsets:
            program = onnxport.export(Wrapped(model), args, opset_version=opset, dynamo=dynamo)
            if runs:
                torch.testing.assert_close(program(*args)[0], model(*args))
            else:
                assert [node.domain for node in program.model.graph] == ["mmcv"]
