"""What an older opset costs: ``python -m benchmarks.opsets [OLD NEW]`` prints the latency of models at both.

Models are captured once and written at opset 17 and at opset 20, then run in turn in onnxruntime, on one thread.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import torch

import onnxport
from benchmarks.measure import latencies, quiet, session
from benchmarks.models import MODELS, BenchModel, Inputs

RUNS = 21


class Sequences(torch.nn.Module):
    """Two layers of LSTM in both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(128, 256, num_layers=2, bidirectional=True, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the states at every step."""
        return self.lstm(x)[0]


def _steps(batch: int) -> Inputs:
    return {"x": torch.randn(batch, 64, 128)}


CASES = [*(case for case in MODELS if case.name != "mixer-64"), BenchModel("lstm", Sequences, _steps)]


def ratio(case: BenchModel, old: int, new: int, folder: Path) -> float:
    """Return the latency at the old opset divided by that at the new one."""
    paths = [folder / f"{case.name}-{opset}.onnx" for opset in (old, new)]
    with quiet():
        first = onnxport.export(
            case.build(), (), paths[0], kwargs=case.example(), dynamic_shapes=case.dynamic_shapes(), opset_version=old
        )
        assert first.exported_program is not None
        onnxport.export(first.exported_program, f=paths[1], opset_version=new)
    before, after = latencies([session(path) for path in paths], case.example(), RUNS)
    return before / after


def main(old: int, new: int) -> None:
    """Print a row for each model."""
    print(f"| model | latency at opset {old} / at opset {new} |\n|---|---:|")
    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            print(f"| {case.name} | {ratio(case, old, new, Path(folder)):.2f} |", flush=True)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:3] or ("17", "20")))
