"""Measurements of one export: time by stage, nodes, values against eager, and the latency of what came out."""

from __future__ import annotations

import contextlib
import gc
import io
import logging
import os
import statistics
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import onnxruntime
import torch

from benchmarks.models import BenchModel, Inputs

STAGES = ("translate", "optimize", "legalize")


@dataclass(frozen=True)
class Timing:
    """Seconds of one export and of its parts; what an exporter does not report is zero."""

    total: float
    save: float
    capture: float = 0.0
    stages: float = 0.0
    fx_calls: int = 0


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep exporters' progress and warnings out of the table."""
    previous = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(previous)


def export_ours(model: torch.nn.Module, case: BenchModel, path: Path) -> Timing:
    """Export and save with onnxport."""
    import onnxport

    start = time.perf_counter()
    program = onnxport.export(model, (), kwargs=case.example(), dynamic_shapes=case.dynamic_shapes())
    exported = time.perf_counter()
    save = timed_save(program, model, path)
    calls = sum(node.op == "call_function" for node in program.exported_program.graph.nodes)
    stages = sum(program.events.seconds(stage) for stage in STAGES)
    return Timing(exported - start + save, save, program.events.seconds("capture"), stages, calls)


def export_theirs(model: torch.nn.Module, case: BenchModel, path: Path) -> Timing:
    """Export and save with torch.onnx."""
    start = time.perf_counter()
    program = torch.onnx.export(  # noqa: TID251 - the other side of the comparison
        model, (), kwargs=case.example(), dynamic_shapes=case.dynamic_shapes(), dynamo=True, verbose=False
    )
    exported = time.perf_counter()
    assert program is not None
    save = timed_save(program, model, path)
    return Timing(exported - start + save, save)


def timed_save(program: Any, model: torch.nn.Module, path: Path) -> float:
    """Save a program of either exporter, with the memory at hand, and return the seconds."""
    make_room(path, weight_bytes(model))
    start = time.perf_counter()
    program.save(str(path))
    return time.perf_counter() - start


def make_room(path: Path, size: int) -> None:
    """Let a virtual machine have the memory that the next file of ``size`` bytes passes through.

    Its host may take free memory back, and giving it again took up to ten times as long as the write: a cost of the
    machine, and a different one each time. So a file of that size is written and removed first.
    """
    filler = path.with_suffix(".filler")
    block = bytes(1 << 26)
    with filler.open("wb") as file:
        for _ in range(size // len(block) + 1):
            file.write(block)
    filler.unlink()


EXPORTERS = {"onnxport": export_ours, "torch.onnx": export_theirs}


def timed_export(exporter: str, model: torch.nn.Module, case: BenchModel, path: Path) -> Timing:
    """Run one export, from a collected heap, with no file in its way or still being written, without its chatter."""
    path.unlink(missing_ok=True)
    os.sync()
    gc.collect()
    with quiet():
        return EXPORTERS[exporter](model, case, path)


def median_timing(timings: list[Timing]) -> Timing:
    """Return the run whose total is the median, so that its parts belong together."""
    return sorted(timings, key=lambda timing: timing.total)[(len(timings) - 1) // 2]


def node_count(path: Path) -> int:
    """Count the nodes of a saved model, those of subgraphs and local functions included."""

    def count(nodes: Any) -> int:
        inner = (attribute for node in nodes for attribute in node.attribute)
        return len(nodes) + sum(count(graph.node) for a in inner for graph in [*a.graphs, *([a.g] if a.g.node else [])])

    model = onnx.load(str(path), load_external_data=False)
    return count(model.graph.node) + sum(count(function.node) for function in model.functions)


def session(path: Path) -> onnxruntime.InferenceSession:
    """Open a saved model on one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def feeds(opened: onnxruntime.InferenceSession, inputs: Inputs) -> dict[str, Any]:
    """Match inputs to those of the session, by name."""
    return {wanted.name: inputs[wanted.name].numpy() for wanted in opened.get_inputs()}


def max_error(opened: onnxruntime.InferenceSession, model: torch.nn.Module, inputs: Inputs) -> float:
    """Return the largest absolute difference from eager over all outputs; infinite where shapes differ."""
    with torch.no_grad():
        expected = [leaf for leaf in torch.utils._pytree.tree_leaves(model(**inputs)) if leaf is not None]
    actual = opened.run(None, feeds(opened, inputs))
    if [tuple(value.shape) for value in actual] != [tuple(value.shape) for value in expected]:
        return float("inf")
    return max(
        float((torch.from_numpy(a).double() - e.double()).abs().max()) for a, e in zip(actual, expected, strict=True)
    )


def latencies(sessions: list[onnxruntime.InferenceSession], inputs: Inputs, runs: int) -> list[float]:
    """Return the median seconds of a run for each session; runs alternate, so that noise falls on all alike."""
    fed = [feeds(opened, inputs) for opened in sessions]
    for opened, feed in zip(sessions, fed, strict=True):
        opened.run(None, feed)
    seconds: list[list[float]] = [[] for _ in sessions]
    for turn in range(runs):
        # Whoever runs second finds warmer caches or a hotter core: take turns.
        order = range(len(sessions)) if turn % 2 == 0 else reversed(range(len(sessions)))
        for index in order:
            start = time.perf_counter()
            sessions[index].run(None, fed[index])
            seconds[index].append(time.perf_counter() - start)
    return [statistics.median(values) for values in seconds]


def weight_bytes(model: torch.nn.Module) -> int:
    """Return the bytes of a model's parameters and buffers, tied ones counted once."""
    storages = {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
        for tensor in [*model.parameters(), *model.buffers()]
    }
    return sum(storages.values())
