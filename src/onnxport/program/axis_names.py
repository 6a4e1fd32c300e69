"""Other names for the axes that vary, throughout a model."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping

import onnx_ir as ir

from onnxport.errors import InputError, Problem


def rename_axes(model: ir.Model, names: Mapping[str | ir.SymbolicDim, str]) -> None:
    """Rename axes in all shapes of a model, also within expressions; all at once, so that two can be exchanged."""
    mapping = {_name(axis): new for axis, new in names.items()}
    values = list(_values(model))
    shapes = [value.shape for value in values if value.shape is not None]
    known = {str(dim.value) for shape in shapes for dim in shape if not isinstance(dim, int) and dim.value is not None}
    if not mapping:
        return
    # The longest first: a sum may have a name of its own.
    ordered = sorted(mapping, key=len, reverse=True)
    pattern = re.compile("|".join(rf"(?<![\w.]){re.escape(name)}(?![\w.])" for name in ordered))
    parts = {match for name in known for match in pattern.findall(name)}
    if unknown := [name for name in mapping if name not in parts]:
        problems = [Problem(f"{name!r}{_suggestion(name, known)}") for name in unknown]
        raise InputError("The model has no axes of these names; nothing was renamed.", problems)
    renamed = {name: pattern.sub(lambda match: mapping[match[0]], name) for name in known}
    for value in values:
        if value.shape is not None and any(not isinstance(dim, int) and dim.value in renamed for dim in value.shape):
            value.shape = ir.Shape(
                [dim if isinstance(dim, int) else renamed.get(str(dim.value), dim) for dim in value.shape]
            )


def _name(axis: str | ir.SymbolicDim) -> str:
    name = axis.value if isinstance(axis, ir.SymbolicDim) else axis
    if not isinstance(name, str):
        raise InputError(f"An axis is given by its name or by a dimension of a shape that has one, not {axis!r}.")
    return name


def _values(model: ir.Model) -> Iterator[ir.Value]:
    for graph in model.graphs():
        yield from graph.inputs
        yield from graph.initializers.values()
        for node in graph:
            yield from node.outputs
    for function in model.functions.values():
        yield from function.inputs
        for node in function.all_nodes():
            yield from node.outputs


def _suggestion(name: str, known: set[str]) -> str:
    close = difflib.get_close_matches(name, sorted(known), n=3)
    return (
        f"; did you mean {' or '.join(map(repr, close))}?"
        if close
        else f"; there are {', '.join(sorted(known)) or 'none'}."
    )
