"""What may differ in a quantized model: torch computes with the numbers that the file holds, results may be apart."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import torch

from onnxport.onnx_build.operators import operator_set
from onnxport.program import ONNXProgram
from onnxport.quantize import QuantizationReport
from onnxport.quantize.lazy_weight import QuantizedWeight
from onnxport.verification.info import Compared

# How far results may be from torch's, in parts of their typical magnitude, where more than weights was rounded. Errors
# that a wrong graph makes are of the magnitude of the results.
_COARSE = {"float16": 2e-2, "bfloat16": 1e-1, "dynamic-int8": 2e-1, "static-int8": 2e-1}
_WEIGHTS_ELSEWHERE = 5e-1
_MOVING = operator_set(
    "Concat Flatten Gather Identity MaxPool Relu Reshape Slice Split Squeeze Transpose Unsqueeze Cast Clip "
    "AveragePool GlobalAveragePool ReduceMean LeakyRelu Sigmoid Tanh Softmax HardSigmoid"
)
# The steepest that these are.
_SMOOTH = {"Gelu": 1.2, "HardSwish": 1.5}
_LAYERS = operator_set("MatMul Gemm Conv")
_INTEGER_PRODUCTS = operator_set("MatMulInteger ConvInteger QLinearMatMul QLinearConv")


@contextlib.contextmanager
def written_weights(report: QuantizationReport | None) -> Iterator[None]:
    """While this is open, torch's weights are the numbers that their quantized forms in the file stand for."""
    held: list[tuple[torch.Tensor, torch.Tensor]] = []
    try:
        for layer in () if report is None else report.layers:
            if layer.replaced and _is_view(layer.weight):
                rows = layer.weight.load()
                held.append((rows, rows.detach().clone()))
                with torch.no_grad():
                    rows.detach().copy_(layer.weight.real())
        yield
    finally:
        for rows, original in reversed(held):
            with torch.no_grad():
                rows.detach().copy_(original)


def coarseness(report: QuantizationReport | None, model: ir.Model) -> float | None:
    """How far results may be from those of torch with the same weights, if further than others."""
    if report is None:
        return None
    if report.scheme in _COARSE:
        return _COARSE[report.scheme]
    if not all(layer.replaced and _is_view(layer.weight) for layer in report.layers):
        return _WEIGHTS_ELSEWHERE
    if any(node.op_type in ("MatMulNBits", "QMoE") and _rounds_inputs(node) for node in model.graph.all_nodes()):
        return _COARSE["dynamic-int8"]
    return None


def _rounds_inputs(node: ir.Node) -> bool:
    """Whether the runtime may round what it multiplies by integer weights to 8 bits."""
    return node.attributes.get_int("accuracy_level", 0) == 4


def _is_view(weight: QuantizedWeight) -> bool:
    """Whether the weight is read where torch has it, so that writing to it reaches the model."""
    first, second = weight.load(), weight.load()
    return first.data_ptr() == second.data_ptr()


def note_movement(program: ONNXProgram, before: Sequence[Compared], after: Sequence[object]) -> None:
    """Write into the report of a quantization how far results moved."""
    report = program.quantization
    if report is None or len(before) != len(after):
        return
    for value, one, other in zip(program.model.graph.outputs, before, after, strict=False):
        if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor) and one.is_floating_point():
            wanted, found = one.detach().double(), other.double()
            size = wanted.square().mean().sqrt() if wanted.numel() else torch.tensor(0.0)
            if wanted.shape == found.shape and size > 0:
                report.end_to_end[str(value.name)] = float((wanted - found).square().mean().sqrt() / size)


def quantum(value: ir.Value | None, depth: int = 20, *, through_layers: bool = True) -> float:
    """How far a result may move where a number before it is rounded to the next step of its grid; zero without grid.

    Averages of integers lie halfway between two steps as a rule, and there the order of a sum decides. Behind the last
    grid a layer may follow, where a step or two of what it reads arrive by the size of its weights.

    >>> import onnx_ir as ir
    >>> from onnxport.verification.quantized import quantum
    >>> model = ir.from_onnx_text('''<ir_version: 10, opset_import: ["": 21]> agraph (float[2] x) => (float[2] y)
    ... <float s = {0.5}> { q = QuantizeLinear(x, s)  y = DequantizeLinear(q, s) }''')
    >>> quantum(model.graph.outputs[0])
    0.5
    """
    node = None if value is None else value.producer()
    if node is None or node.domain != "" or depth == 0:
        return 0.0
    behind = partial(quantum, depth=depth - 1, through_layers=through_layers)
    if node.op_type == "QuantizeLinear":
        scale = _numbers(node.inputs[1])
        moved = quantum(node.inputs[0], depth - 1, through_layers=False)
        return 1.0 if scale is None else max(1.0, float(np.ceil(moved / np.abs(scale).min())))
    if node.op_type == "DequantizeLinear":
        scale = _numbers(node.inputs[1])
        return 0.0 if scale is None else behind(node.inputs[0]) * float(np.abs(scale).max())
    if node.op_type in _MOVING or node.op_type in _SMOOTH:
        inputs = node.inputs if node.op_type == "Concat" else node.inputs[:1]
        return _SMOOTH.get(node.op_type, 1.0) * max((behind(one) for one in inputs), default=0.0)
    if node.op_type in ("Add", "Sub"):
        return sum(behind(one) for one in node.inputs)
    if node.op_type in _LAYERS and through_layers:
        return 2.0 * behind(node.inputs[0]) * _size(node)
    return 0.0


def _size(layer: ir.Node) -> float:
    """The largest norm of the weights that one result of a layer is a sum with; zero if they are not known."""
    weight = _numbers(layer.inputs[1])
    if weight is None or weight.ndim < 2 or not weight.size:
        return 0.0
    # Which axis of a matrix is summed over depends on how it is stored: the larger of both.
    flat = weight.reshape(weight.shape[0], -1) if layer.op_type == "Conv" else weight.reshape(-1, weight.shape[-1])
    axes = (1,) if layer.op_type == "Conv" else (0, 1)
    return max(float(np.sqrt(np.square(flat).sum(axis).max())) for axis in axes)


def _numbers(value: ir.Value | None) -> npt.NDArray[np.float64] | None:
    """A constant as real numbers, if it is one that is stored as it is, quantized or transposed."""
    if value is None:
        return None
    if value.const_value is not None:
        return value.const_value.numpy().astype(np.float64)
    node = value.producer()
    if node is None or node.domain != "" or node.op_type not in ("DequantizeLinear", "Transpose"):
        return None
    numbers = _numbers(node.inputs[0])
    if numbers is None or node.op_type == "Transpose":
        return numbers
    # Scales of rows, columns or blocks: the largest stands for all of them.
    scale, zero = _numbers(node.inputs[1]), _numbers(node.inputs[2]) if len(node.inputs) > 2 else None
    moved = numbers if zero is None or zero.size != 1 else numbers - zero.reshape(())
    return None if scale is None else moved * np.abs(scale).max()


def has_integer_products(model: ir.Model) -> bool:
    """Whether a model has operators whose kernels saturate on some processors, even without optimizations."""
    return any(node.op_type in _INTEGER_PRODUCTS and node.domain == "" for node in model.graph.all_nodes())
