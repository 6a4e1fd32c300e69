"""The results as a table on the terminal and as Markdown."""

from __future__ import annotations

import importlib.metadata
import os
import platform

from rich.console import Console
from rich.table import Table

from benchmarks.results import Results, Row, geometric_mean, verdicts

HEADINGS = [
    "model",
    "capture s",
    "total s",
    "torch.onnx s",
    "total / capture",
    "torch.onnx / capture",
    "speed-up",
    "save s",
    "torch.onnx save s",
    "ms per FX call",
    "ms per FX call, median run",
    "memory / weights",
    "torch.onnx memory / weights",
    "nodes",
    "torch.onnx nodes",
    "latency ms",
    "torch.onnx latency ms",
    "max error",
    "torch.onnx max error",
]


def _cells(row: Row) -> list[str]:
    return [
        row.name,
        f"{row.ours.capture:.2f}",
        f"{row.ours.total:.2f}",
        f"{row.theirs.total:.2f}",
        f"{row.over_capture.ours:.2f}",
        f"{row.over_capture.theirs:.2f}",
        f"{row.speedup:.1f}×",
        f"{row.ours.save:.2f}",
        f"{row.theirs.save:.2f}",
        f"{row.per_call * 1e3:.3f}",
        f"{row.median_per_call * 1e3:.3f}",
        f"{row.ours_memory.ratio:.2f}",
        f"{row.theirs_memory.ratio:.2f}",
        f"{row.nodes.ours:.0f}",
        f"{row.nodes.theirs:.0f}",
        f"{row.latency.ours * 1e3:.1f}",
        f"{row.latency.theirs * 1e3:.1f}",
        f"{row.error.ours:.1e}",
        f"{row.error.theirs:.1e}",
    ]


def _means(rows: list[Row]) -> list[str]:
    """One row of geometric means, blank where a mean over models says nothing."""
    cells = [""] * len(HEADINGS)
    cells[0] = "geometric mean"
    figures = {
        "total / capture": geometric_mean(row.over_capture.ours for row in rows),
        "torch.onnx / capture": geometric_mean(row.over_capture.theirs for row in rows),
        "speed-up": geometric_mean(row.speedup for row in rows),
        "ms per FX call": geometric_mean(row.per_call * 1e3 for row in rows),
        "memory / weights": geometric_mean(row.ours_memory.ratio for row in rows),
        "torch.onnx memory / weights": geometric_mean(row.theirs_memory.ratio for row in rows),
    }
    for heading, value in figures.items():
        cells[HEADINGS.index(heading)] = f"{value:.3f}" if heading == "ms per FX call" else f"{value:.2f}"
    return cells


def _lines(results: Results) -> list[list[str]]:
    rows = [_cells(row) for row in results.rows]
    return [*rows, _means(results.rows)] if len(rows) > 1 else rows


def _markdown(headings: list[str], lines: list[list[str]]) -> list[str]:
    bars = ["|" + "|".join("---" if index == 0 else "---:" for index in range(len(headings))) + "|"]
    return ["| " + " | ".join(cells) + " |" for cells in [headings]] + bars + [f"| {' | '.join(c)} |" for c in lines]


def _verdict_lines(results: Results) -> list[list[str]]:
    return [[v.figure, v.theirs, v.ours, v.target, "met" if v.met else "missed"] for v in verdicts(results)]


def environment() -> str:
    """Say what the figures were measured with."""
    packages = ["torch", "onnx", "onnx_ir", "onnxruntime", "transformers"]
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in packages)
    return f"Python {platform.python_version()}, {versions}; {platform.machine()}, {os.cpu_count()} cores"


def markdown(results: Results, rounds: int, command: str, load: tuple[float, float], starting: str = "") -> str:
    """Return the results as a Markdown page; the load before and after tells how far to trust wall-clock figures.

    ``starting`` is the section about imports, where it was measured.
    """
    page = [
        "# Benchmark results",
        "",
        f"Measured by `{command}` with {environment()}. "
        f"Load average: {load[0]:.1f} at the start, {load[1]:.1f} at the end (the benchmark itself is about 1).",
        "",
        "Both exporters run in one process on the same model and inputs, the batch axis dynamic, in "
        f"{rounds} round(s) of onnxport, torch.onnx, onnxport. The run with the median total is shown, and beside it "
        "the least time per FX call of all runs, because what else happens on a machine only adds to it. Totals "
        "include the save to a single file; before each save the clock rests while a file of that size is written and "
        "removed, because the host of a virtual machine may have taken back the memory that the file passes through. "
        "Memory is the high-water mark beyond the loaded model, each exporter in its own process. Latency is "
        "onnxruntime's median on one thread, runs interleaved. The maximum error is absolute, against eager, over all "
        "outputs at the traced batch and at another. Both totals are divided by the capture that onnxport's event log "
        "reports.",
        "",
    ]
    if results.rows:
        page += ["## Models", "", *_markdown(HEADINGS, _lines(results)), ""]
    page += [starting] if starting else []
    page += [
        "## Targets",
        "",
        *_markdown(["figure", "torch.onnx", "onnxport", "target", "verdict"], _verdict_lines(results)),
        "",
    ]
    problems = [*results.failures, *results.zoo_failures]
    if problems:
        page += ["## Not measured", "", *(f"- {problem.name}: {problem.reason}" for problem in problems), ""]
    return "\n".join(page)


def show(results: Results, console: Console) -> None:
    """Print the results: models as columns, because there are more figures than a terminal is wide."""
    if results.rows:
        lines = _lines(results)
        table = Table("figure", *(cells[0] for cells in lines), title="onnxport and torch.onnx")
        for index, heading in enumerate(HEADINGS[1:], start=1):
            table.add_row(heading, *(cells[index] for cells in lines))
        console.print(table)
    targets = Table("figure", "torch.onnx", "onnxport", "target", "verdict", title="Targets")
    for cells in _verdict_lines(results):
        targets.add_row(*cells[:-1], f"[{'green' if cells[-1] == 'met' else 'red'}]{cells[-1]}[/]")
    console.print(targets)
    for problem in [*results.failures, *results.zoo_failures]:
        console.print(f"{problem.name}: {problem.reason}", style="red", markup=False)
