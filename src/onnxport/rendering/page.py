"""One page of HTML with its style and scripts in it."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files


@functools.cache
def _asset(name: str) -> str:
    return (files(__package__) / name).read_text(encoding="utf-8")


def page(title: str, body: Iterable[str]) -> str:
    """Return a page that loads nothing.

    >>> page("a < b", ["<p>text</p>"]).startswith("<!DOCTYPE html>")
    True
    """
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{escape(title)}</title>\n'
        f"<style>{_asset('page.css')}</style>\n</head>\n<body>\n{chr(10).join(body)}\n</body>\n</html>\n"
    )


def graph_view(data: object) -> str:
    """A graph as :func:`onnxport.rendering.graph_data` describes it, to be opened module by module."""
    return (
        '<div class="graph" id="graph"></div>\n'
        f'<script type="application/json" id="graph-data">{_inert(data)}</script>\n'
        f"<script>{_asset('graph_layout.js')}\n{_asset('graph_view.js')}</script>"
    )


def flame_view(data: object) -> str:
    """A flame graph: ``[name, samples, kind, children]`` of the outermost call."""
    return (
        '<div class="flame" id="flame"></div>\n'
        f'<script type="application/json" id="flame-data">{_inert(data)}</script>\n'
        f"<script>{_asset('flame.js')}</script>"
    )


def _inert(data: object) -> str:
    """As JSON in which nothing can end the element around it."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")


def table(title: str, columns: Sequence[str], rows: Sequence[str], heading: str = "h2") -> str:
    """A table with a heading; rows are HTML."""
    head = "".join(f"<th>{column}</th>" for column in columns)
    shown = f"<{heading}>{title}</{heading}>" if title else ""
    return f"{shown}<div class='scroll'><table><tr>{head}</tr>{''.join(rows)}</table></div>"
