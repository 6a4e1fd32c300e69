"""Indices that are known at export, against the axis that they are for: the file would fail on every input."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from onnxport.errors import Problem, capture_error_like
from onnxport.legalize.known import constant_array, dims_of
from onnxport.onnx_build.opsets import ONNX_DOMAINS
from onnxport.provenance import line_of

_ONE_AXIS = frozenset({"Gather", "GatherElements", "ScatterElements"})
_SEVERAL_AXES = frozenset({"GatherND", "ScatterND"})
_TAKING_INDICES = _ONE_AXIS | _SEVERAL_AXES


def check_constant_indices(model: ir.Model) -> None:
    """Refuse constant indices that lie outside an axis of fixed size, as eager does; fake tensors let them pass.

    Nodes in branches and loops may never be run, and are left alone.

    >>> import onnx_ir as ir
    >>> from onnxport.legalize.index_bounds import check_constant_indices
    >>> text = '''<ir_version: 10, opset_import: ["": 20]> agraph (float[n, 5] x) => (float[n, 2] y)
    ...     <int64[2] index = {0, 7}> { y = Gather <axis = 1> (x, index) }'''
    >>> check_constant_indices(ir.from_onnx_text(text))
    Traceback (most recent call last):
        ...
    onnxport.errors.CaptureError: The index 7 lies outside an axis of size 5.
        Indices of that axis are 0 to 4.
    """
    problems: dict[Problem, None] = {}
    for node in model.graph:
        if node.op_type in _TAKING_INDICES and node.domain in ONNX_DOMAINS:
            outside = _outside(node)
            if outside is not None:
                index, size = outside
                remedy = f"Indices of that axis are 0 to {size - 1}." if size else "That axis is empty."
                problem = Problem(f"The index {index} lies outside an axis of size {size}.", line_of(node), remedy)
                problems[problem] = None
    kind = capture_error_like(IndexError)
    if len(problems) == 1:
        raise kind.about(*problems)
    if problems:
        raise kind("Indices lie outside the axes that they are for:", list(problems))


def _outside(node: ir.Node) -> tuple[int, int] | None:
    """An index that is not one of its axis, with the size of that axis; None where there is none, or none is known."""
    sizes, held = dims_of(node.inputs[0]), node.inputs[1]
    if not sizes or held is None or not getattr(held.const_value, "has_content", True):
        return None
    found = constant_array(held)
    if found is None or found.size == 0:
        return None
    array = found.astype(np.int64)
    if node.op_type in _ONE_AXIS:
        axis = node.attributes.get_int("axis", 0)
        columns = [array]
        read = [sizes[axis]]
    else:
        start = node.attributes.get_int("batch_dims", 0)
        columns = [array[..., at] for at in range(array.shape[-1])]
        read = sizes[start:]
    for column, size in zip(columns, read, strict=False):
        if isinstance(size, int):
            low, high = int(column.min()), int(column.max())
            if low < -size or high >= size:
                return (high if high >= size else low), size
    return None
