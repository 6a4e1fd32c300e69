"""The pictures of the report, as SVG to be put into a page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from onnxport.verification.info import BIN_EDGES, Histogram

_ROW, _LABEL, _BAR, _VALUE = 22, 150, 200, 190
_PLOT_HEIGHT, _COLUMN = 110, 34
# The height of a column follows the share of elements; one among millions must still be seen.
_LEAST = 2.0


def bars(rows: Sequence[tuple[str, float, str]], title: str, failed: frozenset[str] = frozenset()) -> str:
    """Horizontal bars: a label, a length and the text behind it for each."""
    longest = max((length for _, length, _ in rows), default=0.0)
    width, height = _LABEL + _BAR + _VALUE, _ROW * len(rows)
    parts = []
    for index, (label, length, text) in enumerate(rows):
        y = index * _ROW
        size = _BAR * length / longest if longest > 0 else 0.0
        kind = "bar bad" if label in failed else "bar"
        parts.append(
            f'<text x="{_LABEL - 10}" y="{y + 16}" text-anchor="end">{escape(label)}</text>'
            f'<rect class="{kind}" x="{_LABEL}" y="{y + 4}" width="{max(size, 1):.1f}" height="{_ROW - 8}" rx="2"/>'
            f'<text class="quiet" x="{_LABEL + max(size, 1) + 8:.1f}" y="{y + 16}">{escape(text)}</text>'
        )
    return _svg(width, height, "".join(parts), title)


def columns(counts: Histogram, title: str) -> str:
    """How many elements differ by how much: one column for each power of ten."""
    numbers = [float(count) for count in counts.hist]
    total = sum(numbers)
    width, base = _COLUMN * len(numbers) + 20, _PLOT_HEIGHT + 18
    parts = [f'<line class="axis" x1="10" x2="{width - 10}" y1="{base}" y2="{base}"/>']
    for index, number in enumerate(numbers):
        x = 10 + index * _COLUMN
        size = max(_PLOT_HEIGHT * number / total, _LEAST) if number else 0.0
        # Differences of more than a thousandth are what a reader looks for.
        kind = "bar bad" if BIN_EDGES[index] >= 1e-3 else "bar"
        if number:
            parts.append(
                f'<rect class="{kind}" x="{x + 2}" y="{base - size:.1f}" width="{_COLUMN - 4}" height="{size:.1f}">'
                f"<title>{number:.0f} of {total:.0f} elements from {BIN_EDGES[index]:g} to {BIN_EDGES[index + 1]:g}"
                f'</title></rect><text class="tick" x="{x + _COLUMN / 2}" y="{base - size - 4:.1f}">'
                f"{_short(number)}</text>"
            )
        parts.append(f'<text class="tick" x="{x}" y="{base + 14}">{_edge(BIN_EDGES[index])}</text>')
    parts.append(f'<text class="tick" x="{width - 10}" y="{base + 14}">{_edge(BIN_EDGES[-1])}</text>')
    return _svg(width + 10, base + 20, "".join(parts), title)


def _svg(width: float, height: float, content: str, title: str) -> str:
    return (
        f'<svg role="img" aria-label="{escape(title)}" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}">{content}</svg>'
    )


def _short(number: float) -> str:
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= size:
            return f"{number / size:.3g}{unit}"
    return f"{number:.0f}"


def _edge(edge: float) -> str:
    return f"{edge:g}" if 0.01 <= edge < 1e6 or edge == 0 else f"{edge:.0e}".replace("e-0", "e-").replace("e+0", "e")
