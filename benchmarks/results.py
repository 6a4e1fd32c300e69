"""What was measured, and the targets it is held against."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from benchmarks.measure import Timing
from benchmarks.memory import Footprint


@dataclass(frozen=True)
class Pair:
    """One figure for both exporters."""

    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        """Ours as a multiple of theirs."""
        return self.ours / self.theirs


@dataclass(frozen=True)
class Row:
    """All figures of one model."""

    name: str
    ours: Timing
    theirs: Timing
    stages: float
    ours_memory: Footprint
    theirs_memory: Footprint
    same_bytes: bool
    nodes: Pair
    latency: Pair
    error: Pair

    @property
    def over_capture(self) -> Pair:
        """Total seconds as a multiple of the capture that both begin with."""
        return Pair(self.ours.total / self.ours.capture, self.theirs.total / self.ours.capture)

    @property
    def speedup(self) -> float:
        """How many times faster ours is, save included."""
        return self.theirs.total / self.ours.total

    @property
    def per_call(self) -> float:
        """Least seconds that ours spends between capture and save, for each call in the captured graph."""
        return self.stages / self.ours.fx_calls

    @property
    def median_per_call(self) -> float:
        """The same in the run with the median total."""
        return self.ours.stages / self.ours.fx_calls


@dataclass(frozen=True)
class Failure:
    """A model that could not be measured, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class Growth:
    """Seconds after capture and before save, at a depth and at twice that depth."""

    single: float
    double: float

    @property
    def ratio(self) -> float:
        """How the time grows when the model doubles."""
        return self.double / self.single


@dataclass(frozen=True)
class Results:
    """Everything one run of the benchmark found."""

    rows: list[Row]
    failures: list[Failure]
    growth: Growth | None
    zoo_passed: int
    zoo_failures: list[Failure]


@dataclass(frozen=True)
class Verdict:
    """A target, what was measured, and whether it is met."""

    figure: str
    target: str
    theirs: str
    ours: str
    met: bool


def geometric_mean(values: Iterable[float]) -> float:
    """Return the geometric mean.

    >>> geometric_mean([1.0, 4.0])
    2.0
    """
    logarithms = [math.log(value) for value in values]
    return math.exp(sum(logarithms) / len(logarithms))


def verdicts(results: Results) -> list[Verdict]:
    """Hold the results against the targets; a model that failed fails the targets on all models."""
    rows, whole = results.rows, not results.failures
    found: list[Verdict] = []

    def mean(figure: str, target: str, ours: list[float], theirs: list[float], met: Callable[[float], bool]) -> None:
        value = geometric_mean(ours)
        shown = f"{geometric_mean(theirs):.2f}" if theirs else "–"
        found.append(Verdict(figure, target, shown, f"{value:.2f}", met(value) and whole))

    def worst(figure: str, target: str, values: dict[str, float], theirs: str, limit: float) -> None:
        name = max(values, key=lambda key: values[key])
        shown = f"{values[name]:.2f} ({name})"
        found.append(Verdict(figure, target, theirs, shown, values[name] <= limit and whole))

    if rows:
        mean(
            "total / capture, geometric mean",
            "≤ 1.3",
            [row.over_capture.ours for row in rows],
            [row.over_capture.theirs for row in rows],
            lambda value: value <= 1.3,
        )
        mean(
            "torch.onnx total / our total, geometric mean",
            "≥ 4",
            [row.speedup for row in rows],
            [1.0],
            lambda value: value >= 4,
        )
        worst(
            "translate+optimize+legalize per FX call, ms, least round, worst model",
            "≤ 0.2",
            {row.name: row.per_call * 1e3 for row in rows},
            "–",
            0.2,
        )
        theirs_memory = max(row.theirs_memory.ratio for row in rows)
        worst(
            "peak memory beyond the loaded model / weights, worst",
            "≤ 0.25",
            {row.name: row.ours_memory.ratio for row in rows},
            f"{theirs_memory:.2f}",
            0.25,
        )
        worst(
            "onnxruntime latency, ours / torch.onnx's, worst",
            "≤ 1.05",
            {row.name: row.latency.ratio for row in rows},
            "1",
            1.05,
        )
        same = sum(row.same_bytes for row in rows)
        found.append(
            Verdict(
                "same bytes from two processes",
                "yes",
                "–",
                f"{same} of {len(rows)} models",
                same == len(rows) and whole,
            )
        )
    if results.growth is not None:
        ratio = results.growth.ratio
        found.append(Verdict("time after capture, 64 layers / 32 layers", "≤ 2.2", "–", f"{ratio:.2f}", ratio <= 2.2))
    tried = results.zoo_passed + len(results.zoo_failures)
    if tried:
        found.append(
            Verdict(
                "small transformers models equal to eager at three sizes",
                "all",
                "–",
                f"{results.zoo_passed} of {tried}",
                not results.zoo_failures,
            )
        )
    return found
