"""Compare the legacy call with torch.onnx's: ``python -m benchmarks.legacy [--rounds N] [NAME ...]``.

Both exporters run in one process, in turn, with ``dynamo=False``: of the module itself, and of a trace of it.
"""

from __future__ import annotations

import argparse
import io
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch

import onnxport
from benchmarks.measure import quiet
from benchmarks.models import by_name

EXPORTERS: dict[str, Callable[..., Any]] = {
    "onnxport": onnxport.export,
    "torch.onnx": torch.onnx.export,  # noqa: TID251  what ours is compared with
}


class First(torch.nn.Module):
    """A model with the first of its results only: torch.onnx has no form for the dicts of transformers in a trace."""

    def __init__(self, model: torch.nn.Module, names: list[str]) -> None:
        super().__init__()
        self.model = model
        self.names = names

    def forward(self, *args: torch.Tensor) -> torch.Tensor:
        """Return the first result."""
        first: torch.Tensor = self.model(**dict(zip(self.names, args, strict=True)))[0]
        return first


def seconds(export: Callable[..., Any], model: Any, inputs: dict[str, torch.Tensor]) -> float:
    """Time one export to memory, with the first axis of every input dynamic."""
    axes = {name: {0: "batch"} for name in inputs}
    start = time.perf_counter()
    with quiet():
        export(
            model,
            tuple(inputs.values()),
            io.BytesIO(),
            dynamo=False,
            input_names=list(inputs),
            dynamic_axes=axes,
            opset_version=17,
        )
    return time.perf_counter() - start


def compare(name: str, rounds: int) -> None:
    """Print the median seconds of both exporters for one model."""
    case = by_name(name)
    inputs = case.example()
    model = First(case.build(), list(inputs)).eval()
    with quiet():
        trace = torch.jit.trace(model, tuple(inputs.values()), check_trace=False, strict=False)
    for kind, subject in (("module", model), ("trace", trace)):
        times: dict[str, list[float]] = {exporter: [] for exporter in EXPORTERS}
        for _ in range(rounds):
            for exporter, export in EXPORTERS.items():
                times[exporter].append(seconds(export, subject, inputs))
        ours, theirs = (statistics.median(times[exporter]) for exporter in EXPORTERS)
        print(f"{name} {kind}: onnxport {ours:.2f} s, torch.onnx {theirs:.2f} s, {ours / theirs:.2f}x", flush=True)


def main() -> None:
    """Measure the models that are named, or those the project is judged by."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=["resnet-50", "bert-base"])
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in arguments.models:
        compare(name, arguments.rounds)


if __name__ == "__main__":
    main()
