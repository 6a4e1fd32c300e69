"""The table of readers against exporters, and what of ours failed."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Result:
    """What a reader says of a file, empty if it runs and agrees with eager; for quantizers, the elements quantized."""

    error: str
    elements: int = 0


Results = dict[tuple[str, str, str], Result]
"""By reader, exporter and the name of the case."""

Probed = dict[str, dict[str, str]]
"""By reader and probe: what the reader says, empty if it takes it."""

TITLES = {
    "onnxruntime": "onnxruntime",
    "onnxruntime-web": "onnxruntime-web, in node",
    "checker": "onnx's checker and strict shape inference",
    "shapes": "onnxruntime's symbolic shape inference",
    "shapes at 20": "the same at opset 20",
    "openvino": "OpenVINO",
    "opencv": "OpenCV",
    "tract": "tract, sizes set by the caller",
    "mnn": "MNN",
    "ncnn": "ncnn, fixed sizes and one row",
    "quantize": "quantize_dynamic runs",
    "quantized": "quantize_dynamic quantizes as much as of the best file",
    "calibrate": "quantize_static runs",
    "preprocess": "quant_pre_process",
    "pair": "quant_pre_process and the optimizer, of a pair of files",
    "onnxsim": "onnxsim",
    "onnxslim": "onnxslim",
}
COLUMNS = {
    "onnxport": "onnxport",
    "target": "onnxport, `target=` the reader",
    "dynamo": "torch.onnx",
    "torchscript": "torch.onnx, TorchScript",
}
PACKAGES = (
    "onnxruntime", "openvino", "opencv-python-headless", "tract", "MNN", "ncnn", "pnnx", "onnxsim", "onnxslim", "onnx",
    "torch",
)  # fmt: skip


def counts(results: Results) -> dict[str, dict[str, tuple[int, int]]]:
    """By reader and exporter: how many cases pass, of how many."""
    found: dict[str, dict[str, tuple[int, int]]] = {}
    for (reader, exporter, _), cell in results.items():
        passed, total = found.setdefault(reader, {}).get(exporter, (0, 0))
        found[reader][exporter] = passed + (not cell.error), total + 1
    if "quantize" in found:
        found["quantized"] = _quantized(results)
    return found


def _quantized(results: Results) -> dict[str, tuple[int, int]]:
    elements = {key[1:]: cell.elements for key, cell in results.items() if key[0] == "quantize" and not cell.error}
    exporters = {exporter for reader, exporter, _ in results if reader == "quantize"}
    names = {name for reader, _, name in results if reader == "quantize"}
    best = {name: max(elements.get((exporter, name), 0) for exporter in exporters) for name in names}
    return {
        exporter: (sum(elements.get((exporter, name), -1) == best[name] for name in names), len(names))
        for exporter in exporters
    }


def table(results: Results) -> str:
    """The counts as a table of markdown."""
    found = counts(results)
    exporters = [exporter for exporter in COLUMNS if any(exporter in row for row in found.values())]
    titles = COLUMNS
    lines = [f"| reader | {' | '.join(titles[e] for e in exporters)} |", "|---|" + "---|" * len(exporters)]
    for reader, title in TITLES.items():
        if reader in found:
            counted = [found[reader].get(exporter) for exporter in exporters]
            cells = ["–" if cell is None else f"{cell[0]}/{cell[1]}" for cell in counted]
            lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def failures(results: Results, exporter: str) -> str:
    """What readers say of the files of one exporter that they don't take."""
    lines = []
    for (reader, by, case), cell in results.items():
        if by == exporter and cell.error:
            told = " ".join(cell.error.split()).replace("|", "/").replace(f"{ROOT}/", "")[:160]
            lines.append(f"- {TITLES[reader]}, {case}: {told}")
    return "\n".join(lines)


def probe_table(probed: Probed) -> str:
    """Which reader takes which probe."""
    names = list(next(iter(probed.values()), {}))
    lines = [f"| reader | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for reader, told in probed.items():
        lines.append(f"| {TITLES[reader]} | {' | '.join('no' if told[name] else 'yes' for name in names)} |")
    return "\n".join(lines)


def targets() -> str:
    """The profiles as a table of markdown."""
    from onnxport.targets import PROFILES

    titles = ("target", "opset", "inner shapes", "sizes", "int64 inputs", "rewritten", "refused", "known from")
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for target in PROFILES.values():
        types = sorted(dtype.name.lower() for dtype in target.refused_types)
        refused = [*sorted(target.refused), *sorted(target.unread), *types]
        cells = [
            f"`{target.name}`",
            f"{target.opset} (reads {target.oldest_opset} to {target.newest_opset})",
            "stated" if target.inner_shapes else "left out",
            "fixed" if target.fixed_sizes else "may vary",
            "int32" if target.int32_inputs else "int64",
            ", ".join(sorted(target.rewritten)) or "–",
            ", ".join(refused) or "–",
            target.basis,
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def page(results: Results, probed: Probed, opset: int) -> str:
    """docs/consumers.md."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)
    models = len({case for reader, _, case in results if reader == "onnxruntime"})
    return f"""# Readers of ONNX files

Which readers take what onnxport writes, beside torch.onnx's two exporters: {models} cases (small models, each with
fixed sizes and with sizes that vary) at opset {opset}, as one file each. A case counts when the reader runs the file
and its values are eager's, on data and (where they vary) at sizes that nobody traced. `make consumers` writes
this page.

{table(results)}

Measured with {versions}.

## Targets

`export(..., target=...)`, `ONNXProgram.save(..., target=...)` and `onnxport export --target` write a file for one
reader. What the reader can't hold is an error that names each operator with its line. A profile of your own is a
`onnxport.Target(...)`.

{targets()}

What the readers take of files with a few nodes each, on which the profiles rest:

{probe_table(probed)}

## What readers don't take of ours

{failures(results, "onnxport") or "Nothing."}

## What readers don't take of ours that was written for them

{failures(results, "target") or "Nothing."}
"""
