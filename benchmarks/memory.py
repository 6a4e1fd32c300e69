"""One export in a process of its own: its peak memory beyond the loaded model, and a digest of the file it wrote.

Run as ``python -m benchmarks.memory MODEL EXPORTER``; prints one line of JSON.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.measure import timed_export, weight_bytes
from benchmarks.models import TINY, by_name

ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Footprint:
    """What an export needed beyond the model that was already loaded, and what it wrote."""

    peak: int
    weights: int
    file_size: int
    digest: str

    @property
    def ratio(self) -> float:
        """Peak memory as a fraction of the weights."""
        return self.peak / self.weights


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _reset_high_water() -> bool:
    """Forget the peak of loading the model; False where the system does not allow it."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return _high_water() < _resident() * 1.05


def _high_water() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def measure(name: str, exporter: str) -> Footprint:
    """Load and warm up, then export once and see how far memory went up."""
    case = by_name(name)
    with tempfile.TemporaryDirectory() as folder:
        timed_export(exporter, TINY.build(), TINY, Path(folder, "tiny.onnx"))
        model = case.build()
        case.example()
        gc.collect()
        if not _reset_high_water():
            print("The peak of loading could not be reset: the figure is an upper bound.", file=sys.stderr)
        before = _resident()
        path = Path(folder, "model.onnx")
        timed_export(exporter, model, case, path)
        peak = _high_water() - before
        files = sorted(file for file in Path(folder).iterdir() if file.name.startswith("model."))
        digest = hashlib.sha256()
        for file in files:
            with file.open("rb") as stream:
                while block := stream.read(1 << 24):
                    digest.update(block)
        size = sum(file.stat().st_size for file in files)
    return Footprint(peak, weight_bytes(model), size, digest.hexdigest())


def in_subprocess(name: str, exporter: str, hash_seed: int) -> Footprint:
    """Measure in a fresh process; the hash seed shows whether the order of a set reaches the file."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.memory", name, exporter],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or ["no message"]
        raise RuntimeError(f"{exporter} on {name} ended with {done.returncode}: {last[0]}")
    return Footprint(**json.loads(done.stdout.strip().splitlines()[-1]))


def main() -> None:
    """Parse the command line, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("exporter", choices=["onnxport", "torch.onnx"])
    arguments = parser.parse_args()
    print(json.dumps(asdict(measure(arguments.model, arguments.exporter))))


if __name__ == "__main__":
    main()
