"""An ONNX file, whoever wrote it, as one page of HTML that needs nothing beside itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

import onnx_ir as ir

from onnxport.inspection import Inspection, inspect_model
from onnxport.program.summary import bytes_text
from onnxport.rendering import graph_data, graph_view, page, table

# Beyond these the view takes longer to be loaded than to be read.
_LARGEST_GRAPH = 30_000
_MOST_ROWS = 40


def file_page(model: ir.Model, sizes: Mapping[str, int]) -> str:
    """Return the page of a model and the files that it was read from.

    >>> import onnx_ir as ir
    >>> from onnxport.report.file_page import file_page
    >>> model = ir.from_onnx_text(
    ...     '<ir_version: 10, opset_import: ["": 20]> agraph (float[2] x) => (float[2] y) { y = Relu(x) }'
    ... )
    >>> "Relu" in file_page(model, {"relu.onnx": 100})
    True
    """
    title = next(iter(sizes), model.graph.name or "model")
    return page(title, _sections(model, inspect_model(model), title, sizes))


def _sections(model: ir.Model, found: Inspection, title: str, sizes: Mapping[str, int]) -> Iterator[str]:
    yield f"<h1>{escape(title)}</h1>"
    yield f'<p class="quiet">written by {escape(found.producer or "an unnamed writer")}</p>'
    opsets = ", ".join(f"{domain} {version}" for domain, version in found.opsets.items())
    facts = {
        "size": bytes_text(sum(sizes.values())),
        "opset": opsets,
        "IR version": str(found.ir_version),
        "nodes": f"{len(found.nodes):,}",
        "parameters": f"{found.parameters:,}",
    }
    cells = "".join(f"<div><dt>{escape(label)}</dt><dd>{escape(text)}</dd></div>" for label, text in facts.items())
    yield f'<dl class="facts">{cells}</dl>'
    sides = [("input", port) for port in found.inputs] + [("output", port) for port in found.outputs]
    ports = [(side, port.name, port.type, _shape(port.shape)) for side, port in sides]
    yield _rows("Inputs and outputs", ("", "Name", "Element type", "Axes"), ports)
    if len(found.nodes) <= _LARGEST_GRAPH:
        yield "<h2>Graph</h2>"
        yield graph_view(graph_data(model, title))
    yield _rows("Operators", ("Operator", "Count"), list(found.operators.items()))
    modules = [(share.path, share.kind, share.nodes, share.parameters) for share in found.modules]
    yield _rows("Modules", ("Module", "Class", "Nodes", "Parameters"), modules)
    weights = [(one.name, one.type, _shape(one.shape), bytes_text(one.bytes)) for one in found.weights]
    yield _rows("Largest tensors", ("Name", "Element type", "Shape", "Size"), weights)


def _rows(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    if not rows:
        return ""
    cells = ["".join(f"<td>{escape(str(cell))}</td>" for cell in row) for row in rows[:_MOST_ROWS]]
    more = [f"<td colspan={len(columns)}>and {len(rows) - _MOST_ROWS} more</td>"] if len(rows) > _MOST_ROWS else []
    return table(title, columns, [f"<tr>{row}</tr>" for row in (*cells, *more)])


def _shape(shape: Sequence[int | str | None] | None) -> str:
    return "any" if shape is None else f"[{', '.join('?' if size is None else str(size) for size in shape)}]"
