"""What importing costs: ``python -m benchmarks.imports [ROUNDS]`` prints seconds of processes that take turns.

Each figure is the median of a process of its own less that of one which stops where the other begins: what the package
adds to torch, and what help adds to Python.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

ROUNDS = 7

#: What is timed: a name, the code, and the name of what it is compared with.
CASES: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("python", ("-c", "pass"), ""),
    ("import torch", ("-c", "import torch"), "python"),
    ("import onnxport, after torch", ("-c", "import torch, onnxport"), "import torch"),
    ("from onnxport import export, after torch", ("-c", "import torch; from onnxport import export"), "import torch"),
    ("everything that the first export loads", ("-c", "import torch, onnxport.exporter"), "import torch"),
    ("import torch.onnx, after torch", ("-c", "import torch, torch.onnx"), "import torch"),
    ("onnxport --help", ("-m", "onnxport", "--help"), "python"),
    ("onnxport export --help", ("-m", "onnxport", "export", "--help"), "python"),
)


def seconds(arguments: tuple[str, ...]) -> float:
    """How long a process takes."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    return time.perf_counter() - start


def medians(rounds: int) -> dict[str, float]:
    """The median of each case; the cases take turns, so that all see the same machine."""
    taken: dict[str, list[float]] = {name: [] for name, _, _ in CASES}
    for _ in range(rounds):
        for name, arguments, _ in CASES:
            taken[name].append(seconds(arguments))
    return {name: statistics.median(times) for name, times in taken.items()}


def main() -> None:
    """Measure and print the table."""
    found = medians(int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS)
    print("| | seconds |\n|---|---|")
    for name, _, base in CASES:
        print(f"| `{name}` | {found[name] - found.get(base, 0.0):.2f} |")


if __name__ == "__main__":
    main()
