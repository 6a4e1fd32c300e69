"""Run the benchmark: ``python -m benchmarks.run [--models NAME ...] [--quick]``."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path

import torch
from rich.console import Console

from benchmarks.imports import starting_section
from benchmarks.measure import Timing, latencies, max_error, median_timing, node_count, quiet, session, timed_export
from benchmarks.memory import ROOT, in_subprocess
from benchmarks.models import GROWTH, MODELS, TINY, BenchModel, by_name
from benchmarks.report import markdown, show
from benchmarks.results import Failure, Growth, Pair, Results, Row

EXPORTERS = ("onnxport", "torch.onnx")


def first_line(error: BaseException) -> str:
    """Name an error in one line."""
    lines = str(error).strip().splitlines() or ["no message"]
    return f"{type(error).__name__}: {lines[0]}"


def measure_model(case: BenchModel, rounds: int, runs: int, folder: Path) -> Row:
    """Take every figure of one model."""
    model = case.build()
    paths = {exporter: folder / f"{case.name}-{exporter}.onnx" for exporter in EXPORTERS}
    timings: dict[str, list[Timing]] = {exporter: [] for exporter in EXPORTERS}
    for _ in range(rounds):
        # Ours twice: it is the shorter one, and its parts are small enough for a neighbour's noise to show.
        for exporter in ("onnxport", "torch.onnx", "onnxport"):
            timings[exporter].append(timed_export(exporter, model, case, paths[exporter]))
    ours, theirs = (median_timing(timings[exporter]) for exporter in EXPORTERS)
    # Some tens of milliseconds of pure Python: a neighbour on the machine can only add to them.
    stages = min(timing.stages for timing in timings["onnxport"])

    sessions = [session(paths[exporter]) for exporter in EXPORTERS]
    both_sizes = [case.example(), case.example(case.other_batch)]
    errors = [max(max_error(opened, model, inputs) for inputs in both_sizes) for opened in sessions]
    seconds = latencies(sessions, case.example(), runs)
    nodes = [node_count(paths[exporter]) for exporter in EXPORTERS]
    del model, sessions
    for path in paths.values():
        path.unlink()

    first, second = (in_subprocess(case.name, "onnxport", hash_seed) for hash_seed in (1, 2))
    other = in_subprocess(case.name, "torch.onnx", 1)
    return Row(
        case.name,
        ours,
        theirs,
        stages,
        max(first, second, key=lambda footprint: footprint.peak),
        other,
        first.digest == second.digest,
        Pair(*nodes),
        Pair(*seconds),
        Pair(*errors),
    )


def measure_growth(rounds: int, folder: Path) -> Growth:
    """Time what comes after the capture at a depth and at twice that depth; the fastest round has the least noise."""
    seconds = []
    for case in GROWTH:
        model = case.build()
        timings = [timed_export("onnxport", model, case, folder / "growth.onnx") for _ in range(rounds)]
        seconds.append(min(timing.stages for timing in timings))
    return Growth(*seconds)


def check_zoo(folder: Path) -> tuple[int, list[Failure]]:
    """Export the small transformers models of the tests and compare each with eager at three sizes."""
    sys.path.insert(0, str(ROOT / "tests"))
    import onnxport
    from zoo import ZOO

    passed, failures = 0, list[Failure]()
    for case in ZOO:
        torch.manual_seed(0)
        model = case.build().eval()
        path = folder / "zoo.onnx"
        try:
            with quiet():
                program = onnxport.export(
                    model, (), kwargs=case.inputs(*case.traced), dynamic_shapes=case.dynamic_shapes
                )
                program.save(str(path))
            opened = session(path)
            worst = max(max_error(opened, model, case.inputs(*size)) for size in (case.traced, *case.others))
        except Exception as error:  # noqa: BLE001 - a model that fails is a result, and is listed as one
            failures.append(Failure(case.name, first_line(error)))
            continue
        if worst <= case.tolerance:
            passed += 1
        else:
            failures.append(Failure(case.name, f"differs from eager by {worst:.1e}, allowed {case.tolerance:.0e}"))
    return passed, failures


def run(cases: list[BenchModel], rounds: int, runs: int, whole: bool, console: Console) -> Results:
    """Measure the models in turn; what fails is listed and the rest goes on."""
    rows: list[Row] = []
    failures: list[Failure] = []
    growth: Growth | None = None
    passed, zoo_failures = 0, list[Failure]()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tiny = TINY.build()
        for exporter in EXPORTERS:
            console.print(f"warming up {exporter}")
            timed_export(exporter, tiny, TINY, folder / "tiny.onnx")
        for case in cases:
            console.print(f"measuring {case.name}")
            try:
                rows.append(measure_model(case, rounds, runs, folder))
            except Exception as error:  # noqa: BLE001 - a model that fails is a result, and is listed as one
                failures.append(Failure(case.name, first_line(error)))
                console.print(f"  {failures[-1].reason}", style="red", markup=False)
        if whole:
            console.print(f"measuring growth over {' and '.join(case.name for case in GROWTH)}")
            growth = measure_growth(max(rounds, 3), folder)
            console.print("comparing the small transformers models with eager")
            passed, zoo_failures = check_zoo(folder)
    return Results(rows, failures, growth, passed, zoo_failures)


def main() -> None:
    """Parse the command line, measure, print and write."""
    parser = argparse.ArgumentParser(description="Compare onnxport with torch.onnx.")
    parser.add_argument("--models", nargs="+", help="only these models; leaves RESULTS.md as it is")
    parser.add_argument("--quick", action="store_true", help="one round and few runs; leaves RESULTS.md as it is")
    parser.add_argument("--output", type=Path, help="write the Markdown page here")
    arguments = parser.parse_args()
    cases = MODELS if arguments.models is None else [by_name(name) for name in arguments.models]
    whole = arguments.models is None
    rounds, runs = (1, 5) if arguments.quick else (3, 21)
    # A redirected table has no terminal to fit into; at rich's default of 80 columns it would be unreadable.
    console = Console(width=None if sys.stdout.isatty() else 140)
    load_before = os.getloadavg()[0]
    results = run(cases, rounds, runs, whole, console)
    show(results, console)
    output = arguments.output
    if output is None and whole and not arguments.quick:
        output = ROOT / "benchmarks" / "RESULTS.md"
    if output is not None:
        selection = [] if whole else ["--models", *arguments.models]
        command = " ".join(["python -m benchmarks.run", *selection, *(["--quick"] if arguments.quick else [])])
        loads = (load_before, os.getloadavg()[0])
        starting = starting_section() if whole and not arguments.quick else ""
        output.write_text(markdown(results, rounds, command, loads, starting), encoding="utf-8")
        console.print(f"wrote {output}")
    sys.exit(1 if results.failures else 0)


if __name__ == "__main__":
    main()
