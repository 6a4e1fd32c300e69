"""Means of images behind convolutions, and factors of their channels: kept in the layout of onnxruntime's convolutions.

The layout holds blocks of channels, and what stands between two convolutions either knows it or costs a copy before and
a copy behind it.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxport.onnx_build.operators import operator_set
from onnxport.optimize.scope import Dims, Scope, known_dims

_KEEP_LAYOUT = operator_set("BatchNormalization Relu HardSwish HardSigmoid Sigmoid Tanh LeakyRelu Clip Mul Add")
"""What onnxruntime fuses with a convolution or runs in its layout."""

_FAR = 4

_BLOCK = 8
"""Channels of a block. Tensors of other numbers of channels may leave the layout anyway."""


def pool_whole_images(node: ir.Node, scope: Scope) -> bool:
    """Write the mean over both axes of what a convolution gives as GlobalAveragePool.

    ``ReduceMean(Relu(Conv(x)), [2, 3], keepdims=1)`` becomes ``GlobalAveragePool(Relu(Conv(x)))``. Images of no size,
    whose mean is no number, are not pooled.
    """
    (data, axes, *_) = (*node.inputs, None, None)
    dims = known_dims(data)
    if data is None or data.dtype != ir.DataType.FLOAT or dims is None or len(dims) != 4:
        return False
    if not all(isinstance(dim, int) and dim > 0 for dim in dims[2:]) or node.attributes.get_int("keepdims", 1) != 1:
        return False
    if sorted(axis % 4 for axis in scope.ints(axes) or []) != [2, 3] or not _of_convolution(data):
        return False
    scope.become(node, "GlobalAveragePool", [data])
    return True


def scale_whole_images(node: ir.Node, scope: Scope) -> bool:
    """Repeat the factor of each channel for all pixels before images are multiplied by it.

    ``Mul(x, factors)`` with ``x`` and ``factors`` of convolutions, and factors of 1 x 1, becomes
    ``Mul(x, Resize(factors, scales=[1, 1, height, width]))``: a product of equal shapes keeps the layout of
    convolutions, and so does Resize by whole numbers, while one that repeats an operand does not.
    """
    left, right = node.inputs
    for images, factors in ((left, right), (right, left)):
        dims, small = known_dims(images), known_dims(factors)
        if images is None or factors is None or dims is None or small is None or len(dims) != 4:
            continue
        channels, height, width = dims[1:]
        if not (isinstance(channels, int) and isinstance(height, int) and isinstance(width, int)):
            continue
        if small != (*dims[:2], 1, 1) or channels % _BLOCK or height * width <= 1 or images.dtype != ir.DataType.FLOAT:
            continue
        if not _of_convolution(images) or not _of_convolution(factors):
            continue
        scales = scope.literal(np.array([1, 1, height, width], np.float32), ir.DataType.FLOAT, f"by_{height}_{width}")
        repeated = _repeated(node, factors, scales, dims, scope)
        scope.become(node, "Mul", [images, repeated])
        return True
    return False


def _repeated(node: ir.Node, factors: ir.Value, scales: ir.Value, dims: Dims, scope: Scope) -> ir.Value:
    attributes = [
        ir.AttrString("mode", "nearest"),
        ir.AttrString("coordinate_transformation_mode", "asymmetric"),
        ir.AttrString("nearest_mode", "floor"),
    ]
    resize = ir.Node("", "Resize", [factors, None, scales], attributes)
    (result,) = resize.outputs
    result.type, result.shape = ir.TensorType(ir.DataType.FLOAT), ir.Shape(dims)
    scope.insert_node_before(node, resize)
    return result


def _of_convolution(value: ir.Value) -> bool:
    """Whether a convolution makes a value, or a few activations behind one."""
    for _ in range(_FAR):
        producer = value.producer()
        if producer is None or producer.domain != "":
            return False
        if producer.op_type == "Conv":
            return True
        source = producer.inputs[0] if producer.op_type in _KEEP_LAYOUT else None
        if source is None:
            return False
        value = source
    return False
