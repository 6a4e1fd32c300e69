"""Export the models three ways, run the files in turns, and print or write the table: ``make latency``."""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import onnxruntime
import torch

import onnxport
from benchmarks.latency.models import MODELS, TimedModel
from benchmarks.measure import quiet
from benchmarks.pages import write_block
from onnxport.program.runtime import to_ort_value
from onnxport.provenance import CACHE_BUFFERS
from onnxport.weights.torch_tensor import TorchTensor

_ROOM = 64
"""Positions of a buffer that are free."""

THEIRS, OURS, FUSED = "torch", "onnx", "onnxruntime"


def export_file(case: TimedModel, kind: str, path: Path) -> None:
    """Write the file of one exporter, or of a target of ours."""
    model = case.build()
    with quiet():
        if kind == THEIRS:
            program = torch.onnx.export(  # noqa: TID251 - the other side of the comparison
                model, case.example(), dynamic_shapes=case.axes(), dynamo=True, verbose=False
            )
            assert program is not None
            program.save(str(path), external_data=True)
        else:
            ours = onnxport.export(model, case.example(), dynamic_shapes=case.axes(), target=kind, verbose=False)
            ours.save(path, external_data=True)


def ratios(case: TimedModel, folder: Path, threads: int, seconds: float) -> list[float]:
    """The median of our time over theirs, for the default target and for onnxruntime; each turn runs all three."""
    inputs = torch.utils._pytree.tree_leaves(case.measured())
    sessions = [_opened(folder / f"{case.name}.{kind}.onnx", threads) for kind in (THEIRS, OURS, FUSED)]
    bound = [_bound(session, inputs) for session in sessions]
    for session, binding in zip(sessions, bound, strict=True):
        session.run_with_iobinding(binding)
    # One thread's time on the processor is its own, whoever else is at work; that of two says nothing of waiting.
    clock = time.process_time if threads == 1 else time.perf_counter
    turns: list[list[float]] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(turns) < 5:
        # Whoever runs second finds warmer caches or a hotter core: take turns.
        order = (0, 1, 2) if len(turns) % 2 else (2, 1, 0)
        turn = [0.0, 0.0, 0.0]
        for index in order:
            start = clock()
            sessions[index].run_with_iobinding(bound[index])
            turn[index] = clock() - start
        turns.append(turn)
    return [statistics.median(turn[index] / turn[0] for turn in turns) for index in (1, 2)]


def _bound(session: onnxruntime.InferenceSession, inputs: Sequence[torch.Tensor]) -> onnxruntime.IOBinding:
    """Inputs and outputs of a file as a loop binds them: what it takes as a buffer is past and present at once."""
    binding = session.io_binding()
    buffers = session.get_modelmeta().custom_metadata_map.get(CACHE_BUFFERS, "").split()
    outputs = [value.name for value in session.get_outputs()]
    # A step gives its logits, and then what is kept, in the order in which it was given.
    kept = dict(zip(buffers, outputs[1:], strict=True)) if buffers else {}
    for given, tensor in zip(session.get_inputs(), inputs, strict=True):
        room = [tensor.new_zeros(*tensor.shape[:2], _ROOM, *tensor.shape[3:])] if given.name in kept else []
        value = to_ort_value(TorchTensor(torch.cat([tensor, *room], 2) if room else tensor))
        binding.bind_ortvalue_input(given.name, value)
        if given.name in kept:
            binding.bind_ortvalue_output(kept[given.name], value)
    for name in outputs:
        if name not in kept.values():
            binding.bind_output(name)
    return binding


def _opened(path: Path, threads: int) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    # Idle threads of one session that wait in a loop would take a core from the next one.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def table(measured: dict[str, dict[int, list[float]]], threads: Sequence[int]) -> str:
    """The ratios as markdown, with their geometric means."""
    columns = [f"{name}, {count} thread{'s' * (count > 1)}" for count in threads for name in ("default", "onnxruntime")]
    lines = [f"| model | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for name, by_threads in measured.items():
        lines.append(f"| {name} | {' | '.join(f'{ratio:.2f}' for count in threads for ratio in by_threads[count])} |")
    means = [
        math.exp(statistics.fmean(math.log(row[count][index]) for row in measured.values()))
        for count in threads
        for index in (0, 1)
    ]
    return "\n".join([*lines, f"| geometric mean | {' | '.join(f'{mean:.2f}' for mean in means)} |"])


def main() -> None:
    """Read the command line, export what is not there yet, measure, and write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.latency", description=__doc__)
    parser.add_argument("--models", nargs="*", default=[case.name for case in MODELS])
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--seconds", type=float, default=6.0, help="for each model and number of threads")
    parser.add_argument("--files", type=Path, default=Path("build/latency"), help="where files are, or are written")
    parser.add_argument("--write", type=Path, help="the page that has the table between two marks")
    given = parser.parse_args()
    given.files.mkdir(parents=True, exist_ok=True)
    measured: dict[str, dict[int, list[float]]] = {}
    for case in (case for case in MODELS if case.name in given.models):
        for kind in (THEIRS, OURS, FUSED):
            path = given.files / f"{case.name}.{kind}.onnx"
            if not path.exists():
                export_file(case, kind, path)
        measured[case.name] = {count: ratios(case, given.files, count, given.seconds) for count in given.threads}
        print(case.name, measured[case.name], flush=True)
    text = table(measured, given.threads)
    print(text)
    if given.write is not None:
        write_block(given.write, "latency", text)


if __name__ == "__main__":
    main()
