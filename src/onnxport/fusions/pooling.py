"""The mean of images behind a convolution, by the operator that keeps the layout of onnxruntime's convolutions."""

from __future__ import annotations

import onnx_ir as ir

from onnxport.onnx_build.operators import operator_set
from onnxport.optimize.scope import Scope, known_dims

_KEEP_LAYOUT = operator_set("Relu HardSwish HardSigmoid Sigmoid Tanh LeakyRelu Clip Mul Add")
"""What onnxruntime fuses with a convolution or runs in its layout."""

_FAR = 4


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
