"""Figures as people read them, in columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

    from onnxport.inspection import Port


def show_table(console: Console, title: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Print rows under a title; columns of numbers are flush right, and nothing is cut."""
    found = [[_text(cell) for cell in row] for row in rows]
    if not found:
        return
    cells = list(zip(*([list(columns)] if any(columns) else []), *found, strict=True))
    widths = [max(map(len, column)) for column in cells]
    right = [all(row[at].replace(",", "").replace(".", "").isdigit() for row in found) for at in range(len(widths))]
    console.print(f"\n{title}", style="bold")
    for row in zip(*cells, strict=True):
        padded = [
            cell.rjust(width) if flush else cell.ljust(width)
            for cell, width, flush in zip(row, widths, right, strict=True)
        ]
        console.print("  ".join(padded).rstrip())


def shape_text(shape: Sequence[object] | None) -> str:
    """Sizes as they are written: ``[batch, 3, 224, 224]``; one without a name is a question mark."""
    if shape is None:
        return "any shape"
    return f"[{', '.join('?' if size is None else str(size) for size in shape)}]"


def sizes_text(sizes: Mapping[str, int]) -> str:
    """The sizes that something was run at, to stand behind a name; nothing where none varies."""
    return f" at {', '.join(f'{name}={size}' for name, size in sizes.items())}" if sizes else ""


def port_rows(inputs: Sequence[Port], outputs: Sequence[Port]) -> list[tuple[str, str, str, str]]:
    """Inputs and outputs as rows of a table."""
    sides = [("input", inputs), ("output", outputs)]
    return [(side, port.name, port.type, shape_text(port.shape)) for side, ports in sides for port in ports]


def _text(cell: object) -> str:
    return f"{cell:,}" if isinstance(cell, int) and not isinstance(cell, bool) else str(cell)
