"""How far one value of the ONNX model is from the value torch computes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import torch

BIN_EDGES = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 1e6)
# A relative difference is taken of the expected value plus this, so that zeros have one as well.
_EPSILON = 1e-7
# How far two correct implementations may be apart, in parts of the value and of the tensor's typical magnitude.
_TOLERANCES = {torch.float64: 1e-5, torch.float32: 5e-4, torch.float16: 1e-2, torch.bfloat16: 5e-2}
_COARSEST = 0.25

Compared: TypeAlias = torch.Tensor | float | int | bool
"""What can be compared: a tensor or a number."""

Histogram: TypeAlias = torch.return_types.histogram
"""What ``torch.histogram`` returns: the counts (``hist``) and the edges between them (``bin_edges``)."""


@dataclass(frozen=True)
class VerificationInfo:
    """How one value of the ONNX model (an output or an intermediate) compares with torch's.

    Attributes:
        name: The name of the value in the ONNX graph.
        max_abs_diff: The largest absolute difference.
        max_rel_diff: The largest difference relative to the expected value.
        abs_diff_hist: How many elements differ by how much, as ``torch.histogram`` counts them.
        rel_diff_hist: The same of relative differences.
        expected_dtype: The element type in torch.
        actual_dtype: The element type in the ONNX model.
        mean_abs_diff: The mean absolute difference.
        mean_rel_diff: The mean relative difference.
        expected_shape: The shape in torch.
        actual_shape: The shape in the ONNX model.
        matches: Whether shapes and types are the same, and values as close as the element type allows.
        is_random: The model draws random numbers here, so only shape and type were compared.

    >>> import torch
    >>> info = VerificationInfo.from_tensors("y", torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5]))
    >>> info.max_abs_diff, round(info.max_rel_diff, 3), info.matches
    (0.5, 0.25, False)
    """

    name: str
    max_abs_diff: float
    max_rel_diff: float
    abs_diff_hist: Histogram
    rel_diff_hist: Histogram
    expected_dtype: torch.dtype
    actual_dtype: torch.dtype
    mean_abs_diff: float = 0.0
    mean_rel_diff: float = 0.0
    expected_shape: tuple[int, ...] = ()
    actual_shape: tuple[int, ...] = ()
    matches: bool = True
    is_random: bool = False

    @classmethod
    def from_tensors(
        cls,
        name: str,
        expected: Compared,
        actual: Compared,
        *,
        is_random: bool = False,
        tolerance: float | None = None,
        quantum: float = 0.0,
        on_average: bool = False,
    ) -> Self:
        """Compare two tensors or numbers. Complex tensors are compared as pairs of real numbers.

        ``tolerance`` is in parts of the values, in place of what goes with their element type, and ``quantum`` the step
        of a grid that they lie on, by which rounding may move them. With ``on_average`` all together are judged, by
        the root of the mean square.
        """
        wanted, found = _plain(expected), _plain(actual)
        same_kind = wanted.shape == found.shape and wanted.dtype == found.dtype
        if wanted.shape == found.shape and not is_random:
            absolute, relative = _differences(wanted, found)
        else:
            # Different shapes have no elements to compare; random numbers none worth comparing.
            absolute = relative = torch.tensor([] if is_random else [math.inf], dtype=torch.float64)
        return cls(
            name=name,
            max_abs_diff=_largest(absolute),
            max_rel_diff=_largest(relative),
            abs_diff_hist=_histogram(absolute),
            rel_diff_hist=_histogram(relative),
            expected_dtype=wanted.dtype,
            actual_dtype=found.dtype,
            mean_abs_diff=float(absolute.mean()) if absolute.numel() else 0.0,
            mean_rel_diff=float(relative.mean()) if relative.numel() else 0.0,
            expected_shape=tuple(wanted.shape),
            actual_shape=tuple(found.shape),
            matches=same_kind and (is_random or _close(wanted, absolute, tolerance, quantum, on_average)),
            is_random=is_random,
        )

    def asdict(self) -> dict[str, Any]:
        """Return all as plain Python values, fit for JSON but for infinities."""
        plain = dict(vars(self))
        for key in ("abs_diff_hist", "rel_diff_hist"):
            plain[key] = [part.tolist() for part in plain[key]]
        for key in ("expected_dtype", "actual_dtype"):
            plain[key] = str(plain[key])
        for key in ("expected_shape", "actual_shape"):
            plain[key] = list(plain[key])
        return plain

    def __str__(self) -> str:
        if self.expected_shape != self.actual_shape:
            return f"{self.name}: the shape is {list(self.actual_shape)}, expected {list(self.expected_shape)}"
        if self.expected_dtype != self.actual_dtype:
            return f"{self.name}: the type is {self.actual_dtype}, expected {self.expected_dtype}"
        return (
            f"{self.name}: the largest difference is {self.max_abs_diff:.3g} absolute, "
            f"{self.max_rel_diff:.3g} relative (on average {self.mean_abs_diff:.3g} and {self.mean_rel_diff:.3g})"
        )


class VerificationInfos(list[VerificationInfo]):
    """How several values compare; printed, a table.

    >>> import torch
    >>> print(VerificationInfos([VerificationInfo.from_tensors("y", torch.ones(2), torch.ones(2))]))
    value  shape  largest  relative
    y      [2]    0        0         agrees
    """

    def __str__(self) -> str:
        rows = [(info.name, str(list(info.expected_shape)), *figures(info)) for info in self]
        return "\n".join(text_table(("value", "shape", "largest", "relative", ""), rows))


def figures(info: VerificationInfo) -> tuple[str, str, str]:
    """The largest differences, absolute and relative, and a word: what a row of a table says of a value."""
    word = "agrees" if info.matches else "differs"
    if info.is_random:
        return "random", "random", word
    return f"{info.max_abs_diff:.3g}", f"{info.max_rel_diff:.3g}", word


def text_table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Rows below their titles, each column as wide as it must be."""
    widths = [max(len(row[column]) for row in (titles, *rows)) for column in range(len(titles))]
    return [
        "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        for row in (titles, *rows)
    ]


def _plain(value: Compared) -> torch.Tensor:
    tensor = value.detach().cpu() if isinstance(value, torch.Tensor) else torch.tensor(value)
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _differences(expected: torch.Tensor, actual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    wanted, found = expected.to(torch.float64).flatten(), actual.to(torch.float64).flatten()
    absolute = (wanted - found).abs()
    # Infinity less infinity is no number, and so is what has to do with one: equal or not is all that can be said.
    undefined = ~(wanted.isfinite() & found.isfinite())
    same = (wanted == found) | (wanted.isnan() & found.isnan())
    absolute[undefined & same] = 0.0
    absolute[undefined & ~same] = math.inf
    relative = absolute / (wanted.abs() + _EPSILON)
    relative[undefined] = absolute[undefined]
    return absolute, relative


def _close(
    expected: torch.Tensor, absolute: torch.Tensor, tolerance: float | None, quantum: float, on_average: bool
) -> bool:
    if not expected.is_floating_point():
        return bool((absolute <= quantum).all())
    tolerance = _TOLERANCES.get(expected.dtype, _COARSEST) if tolerance is None else tolerance
    values = expected.to(torch.float64).flatten().abs()
    finite = values[values.isfinite()]
    typical = finite.square().mean().sqrt() if finite.numel() else torch.tensor(0.0)
    if on_average:
        return bool(absolute.square().mean().sqrt() <= tolerance * (typical + 1e-2) + quantum) if len(values) else True
    allowed = tolerance * (torch.where(values.isfinite(), values, 0.0) + typical + 1e-2) + quantum
    return bool((absolute <= allowed).all())


def _largest(differences: torch.Tensor) -> float:
    return float(differences.max()) if differences.numel() else 0.0


def _histogram(differences: torch.Tensor) -> Histogram:
    edges = torch.tensor(BIN_EDGES, dtype=torch.float32)
    # torch leaves out what lies beyond the last edge; the worst differences belong in the picture.
    return torch.histogram(differences.clamp(max=BIN_EDGES[-1]).to(torch.float32), bins=edges)
