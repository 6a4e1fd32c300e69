"""The files that readers are given: each model by each exporter, static and dynamic, with inputs and outputs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import torch

from benchmarks.consumers.models import MODELS, Sizes, SmallModel
from benchmarks.consumers.probes import plain
from benchmarks.measure import quiet

if TYPE_CHECKING:
    from onnxport import ONNXProgram

EXPORTERS = ("onnxport", "dynamo", "torchscript")
TARGETS = ("onnxruntime", "onnxruntime-web", "openvino", "opencv", "tract", "mnn")
"""Readers that files are also written for by name."""

ONE_ROW = "ncnn"
"""The reader without a batch axis, which is given files of its own: fixed sizes, and one row of each input."""

PAIR = "pair"
"""The folder of our files that have their weights beside them."""


def target_folder(reader: str) -> str:
    """The folder of our files for one reader."""
    return f"target-{reader}"


@dataclass(frozen=True)
class Case:
    """One model, with sizes that vary, that are fixed, or that are fixed to one row, at one opset."""

    model: SmallModel
    kind: Literal["static", "dynamic", "row"]
    opset: int

    @property
    def name(self) -> str:
        """The name of its files."""
        return f"{self.model.name}-{self.kind}-{self.opset}"

    @property
    def dynamic(self) -> bool:
        """Whether sizes vary."""
        return self.kind == "dynamic"

    @property
    def sizes(self) -> Sizes:
        """The sizes that are traced."""
        return {**self.model.sizes, "batch": 1} if self.kind == "row" else self.model.sizes

    def is_for(self, reader: str) -> bool:
        """Whether a reader is given its files."""
        return (self.kind == "row") == (reader == ONE_ROW)


def cases(opset: int, names: list[str], readers: list[str]) -> list[Case]:
    """The cases of some models, or of all if none is named, that any of the readers is given."""
    chosen = [model for model in MODELS if not names or model.name in names]
    kinds: tuple[Literal["static", "dynamic", "row"], ...] = ("static", "dynamic", "row")
    every = [Case(model, kind, opset) for model in chosen for kind in kinds]
    return [case for case in every if any(case.is_for(reader) for reader in readers)]


def write_values(case: Case, folder: Path) -> None:
    """Write what readers are fed and what eager makes of it: data, and sizes where they vary, that nobody traced."""
    path = folder / f"{case.name}.json"
    if path.exists():
        return
    inputs = case.model.example(case.model.other_sizes if case.dynamic else case.sizes, seed=2)
    with torch.no_grad():
        output = case.model.build()(*inputs)
    tensors = {"inputs": [plain(x.numpy()) for x in inputs], "outputs": [plain(output.numpy())]}
    path.write_text(json.dumps(tensors))


def write_file(case: Case, exporter: str, folder: Path, *, keep: bool) -> str:
    """Export a case, unless its file is there and to be kept; what the exporter says if it refuses."""
    path = folder / exporter / f"{case.name}.onnx"
    failed = path.with_suffix(".txt")
    if keep and failed.exists():
        return failed.read_text()
    if keep and path.exists():
        return ""
    path.parent.mkdir(exist_ok=True)
    failed.unlink(missing_ok=True)
    try:
        with quiet(), torch.no_grad():
            _EXPORT[exporter](case, path)
    except Exception as error:  # noqa: BLE001  (whatever an exporter raises is a row of the table)
        failed.write_text(f"{type(error).__name__}: {str(error)[:300]}")
        return failed.read_text()
    return ""


def _arguments(case: Case) -> tuple[torch.nn.Module, tuple[torch.Tensor, ...], list[str]]:
    inputs = case.model.example(case.sizes, seed=1)
    return case.model.build(), inputs, [f"in{index}" for index in range(len(inputs))]


def _onnxport(case: Case, path: Path) -> None:
    import onnxport

    model, inputs, names = _arguments(case)
    program = onnxport.export(
        model, inputs, path, input_names=names, output_names=["out"], opset_version=case.opset,
        dynamic_shapes=case.model.axes if case.dynamic else None, external_data=False,
    )  # fmt: skip
    if case.is_for(ONE_ROW):
        _save_for(ONE_ROW, program, path)
        return
    for reader in TARGETS:
        _save_for(reader, program, path)
    program.save(_beside(path, PAIR), external_data=True)


def _save_for(reader: str, program: ONNXProgram, path: Path) -> None:
    """Write a file for one reader, or in its place what it is refused with: other readers have theirs."""
    from onnxport.errors import TargetError

    place = _beside(path, target_folder(reader))
    place.unlink(missing_ok=True)
    place.with_suffix(".txt").unlink(missing_ok=True)
    try:
        program.save(place, target=reader, external_data=False)
    except TargetError as error:
        place.with_suffix(".txt").write_text(f"TargetError: {str(error)[:300]}")


def _beside(path: Path, folder: str) -> Path:
    place = path.parent.with_name(folder) / path.name
    place.parent.mkdir(exist_ok=True)
    return place


def _dynamo(case: Case, path: Path) -> None:
    model, inputs, names = _arguments(case)
    made: dict[str, torch.export.Dim] = {}
    shapes = tuple(
        {axis: made.setdefault(name, torch.export.Dim(name, min=1, max=4096)) for axis, name in axes.items()}
        for axes in case.model.axes
    )
    torch.onnx.export(  # noqa: TID251  (what ours is compared with)
        model, inputs, path, dynamo=True, input_names=names, output_names=["out"], opset_version=case.opset,
        dynamic_shapes=shapes if case.dynamic else None, external_data=False,
    )  # fmt: skip


def _torchscript(case: Case, path: Path) -> None:
    model, inputs, names = _arguments(case)
    torch.onnx.export(  # noqa: TID251  (what ours is compared with)
        model, inputs, path, dynamo=False, input_names=names, output_names=["out"], opset_version=case.opset,
        dynamic_axes=dict(zip(names, case.model.axes, strict=True)) if case.dynamic else None,
    )  # fmt: skip


_EXPORT: dict[str, Callable[[Case, Path], None]] = {
    "onnxport": _onnxport,
    "dynamo": _dynamo,
    "torchscript": _torchscript,
}
