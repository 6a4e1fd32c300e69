"""Which element types onnxruntime has no implementation for, by a table that it was asked for (``make kernels``)."""

from __future__ import annotations

import functools
import importlib.resources
import json

import onnx_ir as ir

from onnxport.onnx_build.schemas import Schema, Types

Gaps = dict[str, Types]

_NOTHING: Gaps = {}


def _text() -> str:
    return importlib.resources.files("onnxport.legalize").joinpath("runtime_gaps.json").read_text(encoding="utf-8")


def measured_runtime() -> str:
    """The version of onnxruntime that the table is of."""
    return str(json.loads(_text())["onnxruntime"])


@functools.cache
def _table() -> dict[tuple[str, int], Gaps]:
    return {
        (op_type, int(version)): {
            variable: frozenset(ir.DataType[dtype.upper()] for dtype in missing.split())
            for variable, missing in variables.items()
        }
        for op_type, forms in json.loads(_text())["missing"].items()
        for version, variables in forms.items()
    }


def gaps(node: ir.Node, since: int) -> Gaps:
    """The types onnxruntime does not compute a node in, by type variable, for the form of opset ``since``.

    >>> import onnx_ir as ir
    >>> from onnxport.legalize.runtime_gaps import gaps
    >>> sorted(dtype.name for dtype in gaps(ir.node("Trilu", []), 14)["T"])[:3]
    ['BFLOAT16', 'INT16', 'INT8']
    """
    name = node.op_type
    if name.startswith("Scatter"):
        reduction = node.attributes.get_string("reduction", "none")
        name = name if reduction == "none" else f"{name}.{reduction}"
    return _table().get((name, since), _NOTHING)


def missing(node: ir.Node, schema: Schema) -> dict[str, ir.DataType]:
    """The node's type variables that are bound to a type onnxruntime has no implementation for."""
    lacking = gaps(node, schema.since)
    if not lacking:
        return {}
    found: dict[str, ir.DataType] = {}
    for position, value in enumerate(node.inputs):
        variable = schema.input(position)[0]
        if value is not None and value.dtype is not None and value.dtype in lacking.get(variable, ()):
            found[variable] = value.dtype
    for position, output in enumerate(node.outputs):
        variable = schema.output(position)
        if output.dtype is not None and output.dtype in lacking.get(variable, ()):
            found[variable] = output.dtype
    return found
