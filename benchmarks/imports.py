"""What importing costs: ``python -m benchmarks.imports [ROUNDS] [--write]`` prints seconds, by processes in turn.

Each figure is the median of a process of its own less that of one which stops where the other begins: what the package
adds to torch, and what help adds to Python.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

ROUNDS = 7
HEADING = "## Starting"

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


def starting_section(rounds: int = ROUNDS) -> str:
    """Measure, and return the section of the results that says so."""
    found = medians(rounds)
    rows = [
        f"| `{name}` | {f'`{base}`' if base else 'nothing'} | {found[name] - found.get(base, 0.0):.2f} |"
        for name, _, base in CASES
    ]
    about = f"Seconds that a process takes beyond one that does only the second, median of {rounds} that take turns."
    return "\n".join([HEADING, "", about, "", "| what | beyond | seconds |", "|---|---|---:|", *rows, ""])


def main() -> None:
    """Measure and print the table; with --write, put it into RESULTS.md in the place of the one there."""
    rounds = [int(word) for word in sys.argv[1:] if word.isdecimal()]
    section = starting_section(*rounds)
    print(section)
    if "--write" in sys.argv:
        results = Path(__file__).with_name("RESULTS.md")
        before, _, after = results.read_text(encoding="utf-8").partition("## Targets")
        kept = before.partition(HEADING)[0]
        results.write_text(f"{kept}{section}\n## Targets{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
