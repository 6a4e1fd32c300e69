"""Random programs with branches give eager's results at every size and on data of every kind, or say that they may not.

``python tests/branches/test_random_branches.py FIRST COUNT`` runs more of them and prints what differs.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from pathlib import Path

import pytest
import torch

import onnxport
from branches.branch_generator import inputs, model


def outcome(seed: int, folder: Path) -> str:
    """'right', 'warned', 'refused: …' or 'wrong: …' of the program of a seed."""
    made = model(seed, folder)
    example, *others = inputs(seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            program = onnxport.export(made, (example,), dynamic_shapes=({0: "n"},), verbose=False)
        except onnxport.errors.OnnxExporterError as error:
            return f"refused: {str(error).splitlines()[0]}"
    warned = any(issubclass(warning.category, onnxport.errors.OnnxExporterWarning) for warning in caught)
    for x in (example, *others):
        with torch.no_grad():
            expected = made(x)
        found = program(x)
        same = all(
            one.shape == other.shape and torch.allclose(one, other, rtol=1e-4, atol=1e-4)
            for one, other in zip(found, expected, strict=True)
        )
        if not same:
            return "warned" if warned else f"wrong: at {tuple(x.shape)}"
    return "right"


@pytest.mark.parametrize("seed", [*range(12), 1030, 20067, 500239])
def test_random_program(seed: int, tmp_path: Path) -> None:
    assert outcome(seed, tmp_path) == "right"


if __name__ == "__main__":
    first, count = int(sys.argv[1]), int(sys.argv[2])
    with tempfile.TemporaryDirectory() as directory:
        for number in range(first, first + count):
            try:
                told = outcome(number, Path(directory))
            except Exception as error:  # noqa: BLE001 - any error that is none of ours is a finding
                told = f"crashed: {type(error).__name__}: {str(error).strip().splitlines()[:1]}"
            print(number, told, flush=True)
