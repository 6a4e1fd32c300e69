"""Writes docs/comparisons.md and its plots from the measurements in benchmarks/RESULTS.md and docs/consumers.md.

Run by `make comparisons`; a test checks that the page is what these files say.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[1]
_OURS, _THEIRS, _OLD = "#2f6fb2", "#e08e3c", "#b9a98f"
_WIDTH, _BAR = 400, 14

Table = list[dict[str, str]]


def tables(text: str) -> list[Table]:
    """The tables of a page, each row by its columns' titles."""
    found = []
    for block in re.findall(r"(?:^\|.*\|$\n?)+", text, re.M):
        rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in block.splitlines()]
        found.append([dict(zip(rows[0], row, strict=False)) for row in rows[2:]])
    return found


def number(text: str) -> float:
    """The figure in a cell: 6.5× and 42/42 too."""
    match = re.match(r"[\d.]+(?:e[+-]\d+)?", text)
    return float(match[0]) if match else 0.0


def bars(title: str, rows: Sequence[tuple[str, Sequence[tuple[float, str]]]], series: Sequence[tuple[str, str]]) -> str:
    """Horizontal bars in groups: a label, and for each series a length and its text; series have a name and colour."""
    longest = max(length for _, values in rows for length, _ in values)
    step = _BAR * len(series) + 12
    left = max(110, int(16 + 6.3 * max(len(label) for label, _ in rows)))
    width, height = left + _WIDTH + 110, 62 + step * len(rows)
    parts = [f'<text x="10" y="22" font-weight="600" font-size="15">{escape(title)}</text>']
    for index, (name, colour) in enumerate(series):
        x = left + index * 170
        parts.append(f'<rect x="{x}" y="36" width="11" height="11" rx="2" fill="{colour}"/>')
        parts.append(f'<text x="{x + 17}" y="46">{escape(name)}</text>')
    for place, (label, values) in enumerate(rows):
        top = 62 + place * step
        middle = top + _BAR * len(series) / 2 + 4
        parts.append(f'<text x="{left - 10}" y="{middle:.0f}" text-anchor="end">{escape(label)}</text>')
        for index, (length, text) in enumerate(values):
            y, size = top + index * _BAR, max(_WIDTH * length / longest, 1)
            colour = series[index][1]
            parts.append(
                f'<rect x="{left}" y="{y}" width="{size:.1f}" height="{_BAR - 3}" rx="2" fill="{colour}"/>'
                f'<text x="{left + size + 6:.1f}" y="{y + 10}" font-size="11" fill="#5c6670">{escape(text)}</text>'
            )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'font-family="system-ui, sans-serif" font-size="12" fill="#1b1f24">'
        f'<rect width="100%" height="100%" fill="#ffffff"/>{"".join(parts)}</svg>\n'
    )


def plots(results: str, consumers: str) -> dict[str, str]:
    """The pictures by the names of their files."""
    models = [row for row in tables(results)[0] if row["model"] != "geometric mean"]
    both = [("onnxport", _OURS), ("torch.onnx", _THEIRS)]

    def pair(title: str, ours: str, theirs: str, unit: str) -> str:
        rows = [
            (row["model"], [(number(row[column]), f"{row[column]}{unit}") for column in (ours, theirs)])
            for row in models
        ]
        return bars(title, rows, both)

    readers = []
    for row in tables(consumers)[0]:
        named = ["onnxport", "torch.onnx", "torch.onnx, TorchScript"]
        readers.append((row["reader"], [(number(row[name]), row[name]) for name in named if "/" in row[name]]))
    three = [("onnxport", _OURS), ("torch.onnx", _THEIRS), ("torch.onnx, TorchScript", _OLD)]
    return {
        "export_seconds.svg": pair("Seconds of an export", "total s", "torch.onnx s", " s"),
        "export_memory.svg": pair(
            "Peak memory beyond the model, in parts of its weights", *_memory_columns(models[0]), ""
        ),
        "readers.svg": bars("Cases that a reader runs with the right values, of 42", readers, three),
    }


def _memory_columns(row: dict[str, str]) -> tuple[str, str]:
    ours, theirs = (name for name in row if "memory" in name)
    return ours, theirs


def page(results: str, consumers: str) -> str:
    """The page itself."""
    measured = next(line for line in results.splitlines() if line.startswith("Measured by"))
    figures = results.split("## Targets")[1].strip()
    starting = results.split("## Starting")[1].split("## Targets")[0].strip()
    readers = consumers.split("\n## ")[0].split("\n\n")
    return f"""# Comparisons

Written by `make comparisons` from `benchmarks/RESULTS.md` and [what readers take](consumers.md). Do not edit.

## Speed and memory

{measured}

![Seconds of an export by model](images/export_seconds.svg)

![Peak memory by model](images/export_memory.svg)

{figures}

## Starting

{starting}

## Readers

{readers[1].split(" `make consumers`")[0]}

![Readers and the cases they run](images/readers.svg)

{readers[2]}
"""


def main() -> None:
    """Write the page and its pictures into a folder, docs without an argument."""
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs"
    results = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8")
    consumers = (ROOT / "docs" / "consumers.md").read_text(encoding="utf-8")
    (folder / "images").mkdir(parents=True, exist_ok=True)
    (folder / "comparisons.md").write_text(page(results, consumers), encoding="utf-8")
    for name, picture in plots(results, consumers).items():
        (folder / "images" / name).write_text(picture, encoding="utf-8")


if __name__ == "__main__":
    main()
