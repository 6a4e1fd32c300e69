"""A process of one reader, which may well end it: tries files one after another and appends a line for each."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.consumers.readers import READERS, Arrays, quantized_elements


def attempt(reader: str, path: Path, values: Path) -> dict[str, Any]:
    """What one reader makes of one file: no error, or what it says, or how far its values are off."""
    stored = json.loads(values.read_text())
    inputs, expected = (_arrays(stored[key]) for key in ("inputs", "outputs"))
    try:
        outputs = READERS[reader](path, inputs)
    except Exception as error:  # noqa: BLE001  (whatever a reader raises is a cell of the table)
        return {"error": f"{type(error).__name__}: {error}"[:400]}
    if reader == "quantize":
        return {"error": _compared(outputs, expected, 0.5), "elements": quantized_elements(path)}
    return {"error": _compared(outputs, expected, 0.5 if reader == "calibrate" else 2e-3)}


def _arrays(stored: list[dict[str, Any]]) -> Arrays:
    return [np.array(item["data"], item["dtype"]).reshape(item["shape"]) for item in stored]


def _compared(outputs: Arrays, expected: Arrays, tolerance: float) -> str:
    got, wanted = np.asarray(outputs[0]), expected[0]
    if got.shape != wanted.shape:
        return f"the shape is {got.shape}, not {wanted.shape}"
    furthest = float(np.abs(got.astype(np.float64) - wanted).max())
    return "" if furthest <= tolerance * max(1.0, float(np.abs(wanted).max())) else f"off by {furthest:.3g}"


def main() -> None:
    """Arguments: the reader, a file of pairs of paths, and the file that lines are appended to."""
    reader, pairs, results = sys.argv[1:]
    for path, values in json.loads(Path(pairs).read_text()):
        with open(results, "a") as file:
            print(json.dumps({"begun": path}), file=file, flush=True)
            print(json.dumps({"file": path, **attempt(reader, Path(path), Path(values))}), file=file, flush=True)


if __name__ == "__main__":
    main()
