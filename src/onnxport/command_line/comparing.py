"""Comparing what is computed: two files with each other, or a file with the model that it was made from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx_ir as ir
import torch

from onnxport.command_line.examples import Example
from onnxport.command_line.feeds import feeds_for, in_onnxruntime, open_inputs
from onnxport.command_line.tables import shape_text
from onnxport.inspection import port_of
from onnxport.program import ONNXProgram
from onnxport.program.runtime import Output
from onnxport.verification import VerificationInfo
from onnxport.verification.info import Compared


@dataclass(frozen=True)
class ComparedValue:
    """One output of both sides, and whether they agree."""

    info: VerificationInfo
    matches: bool

    def cells(self) -> tuple[str, ...]:
        """As cells of a table."""
        info = self.info
        if info.expected_shape != info.actual_shape or info.expected_dtype != info.actual_dtype:
            kinds = [(info.expected_dtype, info.expected_shape), (info.actual_dtype, info.actual_shape)]
            texts = [f"{str(dtype).removeprefix('torch.')} {list(shape)}" for dtype, shape in kinds]
            return info.name, "differs", "", " against ".join(texts)
        said = "" if self.matches else f"relative {info.max_rel_diff:.3g}, on average {info.mean_abs_diff:.3g}"
        return info.name, "agrees" if self.matches else "differs", f"{info.max_abs_diff:.3g}", said


@dataclass(frozen=True)
class ComparedRun:
    """All outputs of both sides, on one set of inputs."""

    sizes: Mapping[str, int]
    feeds: Mapping[str, torch.Tensor]
    values: Sequence[ComparedValue]
    missing: str = ""

    @property
    def matches(self) -> bool:
        """Whether all of them agree."""
        return not self.missing and all(value.matches for value in self.values)

    def document(self) -> dict[str, object]:
        """As JSON has it, without the histograms."""
        outputs = []
        for value in self.values:
            facts = {key: fact for key, fact in value.info.asdict().items() if not key.endswith("_hist")}
            outputs.append({**facts, "matches": value.matches})
        return {"sizes": dict(self.sizes), "matches": self.matches, "outputs": outputs, "missing": self.missing}


def compared_outputs(
    first: tuple[Path, ONNXProgram],
    second: tuple[Path, ONNXProgram],
    examples: Sequence[Example],
    sizes: Mapping[str, int],
    tolerance: float | None,
) -> ComparedRun:
    """Run two files on the same inputs, which `why_not_comparable` has nothing against."""
    feeds = feeds_for(first[1].model, examples, sizes)
    renamed = {str(other.name): feeds[str(value.name)] for value, other in _paired(first[1].model, second[1].model)}
    with in_onnxruntime(first[0]):
        expected = first[1](**feeds)
    with in_onnxruntime(second[0]):
        actual = second[1](**renamed)
    outputs = [str(value.name) for value in first[1].model.graph.outputs]
    return compared_run(sizes, feeds, outputs, flat_outputs(expected), flat_outputs(actual), tolerance)


def why_not_comparable(first: tuple[Path, ir.Model], second: tuple[Path, ir.Model]) -> str:
    """What keeps two files from being run on the same inputs, as a sentence; nothing where they can be."""
    ours, theirs = ([str(value.name) for value in open_inputs(model)] for _, model in (first, second))
    if len(ours) != len(theirs):
        texts = [f"{len(names)} inputs ({', '.join(names)})" for names in (ours, theirs)]
        return f"{first[0]} has {texts[0]}, {second[0]} has {texts[1]}."
    for value, other in _paired(first[1], second[1]):
        if value.type != other.type or not _shapes_fit(value.shape, other.shape):
            texts = [f"{port.type} {shape_text(port.shape)}" for port in (port_of(value), port_of(other))]
            return f"{value.name} of {first[0]} is {texts[0]}, {other.name} of {second[0]} is {texts[1]}."
    return ""


def sizes_that_fit(sizes: Mapping[str, int], first: ir.Model, second: ir.Model) -> dict[str, int]:
    """Sizes to run the first file at, with those that the second has fixed and the first leaves open."""
    fixed = {
        str(dim.value): size
        for value, other in _paired(first, second)
        for dim, size in zip(value.shape or (), other.shape or (), strict=False)
        if isinstance(dim, ir.SymbolicDim) and dim.value in sizes and isinstance(size, int)
    }
    return {**sizes, **fixed}


def _paired(first: ir.Model, second: ir.Model) -> list[tuple[ir.Value, ir.Value]]:
    """The inputs of two files that belong together, by name, or in their order where they have other names."""
    ours, theirs = open_inputs(first), open_inputs(second)
    named = {value.name: value for value in theirs}
    alike = {value.name for value in ours} == set(named)
    return [(one, named[one.name]) for one in ours] if alike else list(zip(ours, theirs, strict=True))


def _shapes_fit(first: ir.Shape | None, second: ir.Shape | None) -> bool:
    if first is None or second is None:
        return True
    fixed = [(one, other) for one, other in zip(first, second, strict=False) if isinstance(one, int)]
    return len(first) == len(second) and all(one == other for one, other in fixed if isinstance(other, int))


def compared_run(
    sizes: Mapping[str, int],
    feeds: Mapping[str, torch.Tensor],
    names: Sequence[str],
    expected: Sequence[Compared],
    actual: Sequence[Compared],
    tolerance: float | None,
) -> ComparedRun:
    """Compare values one by one; more on one side than on the other is a difference too."""
    count = min(len(expected), len(actual))
    labels = [names[at] if at < len(names) else f"output {at}" for at in range(count)]
    values = []
    for name, one, other in zip(labels, expected, actual, strict=False):
        info = VerificationInfo.from_tensors(name, one, other)
        values.append(ComparedValue(info, _agrees(info, tolerance)))
    missing = "" if len(expected) == len(actual) else f"{len(expected)} outputs against {len(actual)}"
    return ComparedRun(sizes, feeds, values, missing)


def flat_outputs(outputs: Sequence[Output]) -> list[Compared]:
    """Tensors, and the items of sequences."""
    found: list[Compared] = []
    for output in outputs:
        if output is not None:
            found += output if isinstance(output, list) else [output]
    return found


def _agrees(info: VerificationInfo, tolerance: float | None) -> bool:
    if tolerance is None:
        return info.matches
    alike = info.expected_shape == info.actual_shape and info.expected_dtype == info.actual_dtype
    return alike and not math.isnan(info.max_abs_diff) and info.max_abs_diff <= tolerance
