"""``onnxport compare``: two ONNX files side by side: their graphs, their results, their speed."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from onnxport.command_line.answers import ExitCode, Json, answering
from onnxport.command_line.options import Inputs, OpenSizes, Tolerance
from onnxport.command_line.tables import shape_text, show_table, sizes_text

if TYPE_CHECKING:
    import onnx_ir as ir
    import torch
    from rich.console import Console

    from onnxport.inspection import Inspection, Port
    from onnxport.program import ONNXProgram


def compare_command(
    first: Annotated[Path, typer.Argument(help="An ONNX file.")],
    second: Annotated[Path, typer.Argument(help="Another; they are run if it has the same inputs.")],
    inputs: Inputs = None,
    size: OpenSizes = None,
    tolerance: Tolerance = None,
    runs: Annotated[int, typer.Option(help="How often each is run for its speed; 0 not to run them at all.")] = 10,
    as_json: Json = False,
) -> None:
    """Compare two ONNX files. Their graphs, what they compute, and how fast they are."""
    with answering(as_json=as_json) as answer:
        from onnxport.command_line.comparing import compared_outputs, sizes_that_fit, why_not_comparable
        from onnxport.command_line.examples import read_examples
        from onnxport.command_line.feeds import parse_sizes
        from onnxport.command_line.onnx_files import read_file
        from onnxport.inspection import inspect_model
        from onnxport.program import ONNXProgram

        models = [read_file(first), read_file(second)]
        found = [inspect_model(model) for model in models]
        difference = graph_difference(found[0], found[1], models[0], models[1])
        programs = [(path, ONNXProgram(model, None)) for path, model in zip((first, second), models, strict=True)]
        examples = read_examples(inputs or ())
        results, milliseconds = [], None
        not_compared = why_not_comparable((first, models[0]), (second, models[1])) if runs > 0 else ""
        if runs > 0 and not not_compared:
            asked = parse_sizes(size or (), models[0], examples)
            fitting = asked if size else [sizes_that_fit(at, models[0], models[1]) for at in asked]
            for at in (one for place, one in enumerate(fitting) if one not in fitting[:place]):
                results.append(compared_outputs(programs[0], programs[1], examples, at, tolerance))
            milliseconds = _latencies(programs, results[0].feeds, runs)
        document = {
            "first": str(first),
            "second": str(second),
            "graph": asdict(difference),
            "runs": [result.document() for result in results],
            "not_compared": not_compared,
            "milliseconds": milliseconds,
        }
        same = not not_compared and all(result.matches for result in results)

        def show(console: Console) -> None:
            difference.show(console)
            if not_compared:
                console.print(f"\nWhat they compute was not compared: {not_compared}")
            for result in results:
                rows = [info.cells() for info in result.values]
                show_table(
                    console, f"Outputs{sizes_text(result.sizes)}", ("output", "", "largest difference", ""), rows
                )
            if milliseconds is not None:
                times = [(path, f"{took:.3f} ms") for path, took in zip((first, second), milliseconds, strict=True)]
                show_table(console, f"Time of a run (median of {runs})", ("file", "time"), times)

        answer.give(document, show, ExitCode.DONE if same else ExitCode.DIFFERENT)


@dataclass(frozen=True)
class GraphDifference:
    """What two graphs have not in common; each pair is of the first file and the second."""

    ports: Sequence[tuple[str, str, str]]
    opsets: dict[str, tuple[int | None, int | None]]
    operators: dict[str, tuple[int, int]]
    weights: dict[str, str]

    def show(self, console: Console) -> None:
        """Print what differs, or that nothing does."""
        if not (self.ports or self.opsets or self.operators or self.weights):
            console.print("The graphs have the same inputs, outputs, operators and weights.")
        show_table(console, "Inputs and outputs", ("name", "first", "second"), self.ports)
        show_table(console, "Opsets", ("domain", "first", "second"), _flat(self.opsets))
        show_table(console, "Operators", ("operator", "first", "second"), _flat(self.operators))
        show_table(console, "Weights", ("name", "difference"), self.weights.items())


def _flat(pairs: Mapping[str, tuple[object, object]]) -> list[tuple[object, ...]]:
    return [(name, *("" if item is None else item for item in pair)) for name, pair in pairs.items()]


def graph_difference(one: Inspection, other: Inspection, first: ir.Model, second: ir.Model) -> GraphDifference:
    """What two models have not in common."""
    kinds = [_described([*found.inputs, *found.outputs]) for found in (one, other)]
    ports = [
        (name, kinds[0].get(name, ""), kinds[1].get(name, ""))
        for name in dict.fromkeys([*kinds[0], *kinds[1]])
        if kinds[0].get(name) != kinds[1].get(name)
    ]
    opsets = {
        domain: (one.opsets.get(domain), other.opsets.get(domain))
        for domain in dict.fromkeys([*one.opsets, *other.opsets])
        if one.opsets.get(domain) != other.opsets.get(domain)
    }
    operators = {
        name: (one.operators.get(name, 0), other.operators.get(name, 0))
        for name in sorted({*one.operators, *other.operators})
        if one.operators.get(name) != other.operators.get(name)
    }
    return GraphDifference(ports, opsets, operators, _weights(first, second))


def _described(ports: Sequence[Port]) -> dict[str, str]:
    return {port.name: f"{port.type} {shape_text(port.shape)}" for port in ports}


def _weights(first: ir.Model, second: ir.Model) -> dict[str, str]:
    """Weights that one of the files lacks, or has other values of."""
    import numpy as np

    ours, theirs = first.graph.initializers, second.graph.initializers
    found: dict[str, str] = {}
    for name in sorted({*ours, *theirs}):
        if name not in theirs or name not in ours:
            found[name] = "in the second only" if name in theirs else "in the first only"
            continue
        one, other = ours[name].const_value, theirs[name].const_value
        if one is None or other is None:
            continue
        if one.dtype != other.dtype or one.shape != other.shape:
            found[name] = f"{one.dtype.name.lower()} {one.shape} against {other.dtype.name.lower()} {other.shape}"
        elif not np.array_equal(one.numpy(), other.numpy()):
            found[name] = "other values"
    return found


def _latencies(
    programs: Sequence[tuple[Path, ONNXProgram]], feeds: Mapping[str, torch.Tensor], runs: int
) -> list[float]:
    """The median of a run of each, in milliseconds; they take turns, so that both see the same machine."""
    import statistics

    seconds: list[list[float]] = [[] for _ in programs]
    for _ in range(runs):
        for (_, program), taken in zip(programs, seconds, strict=True):
            start = time.perf_counter()
            program(**feeds)
            taken.append(time.perf_counter() - start)
    return [1000 * statistics.median(taken) for taken in seconds]
