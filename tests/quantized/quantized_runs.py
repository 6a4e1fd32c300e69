"""Quantized models through both exporters, as a table: ``make quantized-cases``.

Of each case: how far the results are from eager's at another size of the batch, the size of the file as a part of the
least that it could be, the operators that onnxruntime made of it, and whether torch.onnx's file is right.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import re
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import torch
from benchmarks.pages import write_block
from quantized_models import (
    CASES,
    COARSE,
    LAYERS,
    PACKED,
    WIDTH,
    example,
    exported_with,
    least_bytes,
    moved,
    packed_model,
    stored_bytes,
    with_written_weights,
)
from torch import Tensor, nn

import onnxport

_INTEGERS = re.compile("QLinear.*|.*Integer")


@dataclass(frozen=True)
class Case:
    """One row of the table; ``theirs`` says what came of torch.onnx's file."""

    origin: str
    layer: str
    error: float
    allowed: float
    size: float
    fused: str
    theirs: str

    @property
    def right(self) -> bool:
        """Whether our results are near enough."""
        return self.error <= self.allowed

    def __str__(self) -> str:
        verdict = "" if self.right else ", wrong"
        ours = f"{self.origin} | {self.layer} | {self.error:.0e}{verdict} | {self.size:.2f} | {self.fused}"
        return f"| {ours} | {self.theirs} |"


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep what exporters print out of the table."""
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        yield


def fused_operators(path: Path) -> str:
    """The operators for quantized numbers that onnxruntime has in a file after its optimizations."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    after = path.with_suffix(".optimized.onnx")
    options.optimized_model_filepath = str(after)
    onnxruntime.InferenceSession(str(path), options)
    kinds = {
        node.op_type
        for node in onnx.load(after).graph.node
        if (node.domain == "com.microsoft" and not node.op_type.startswith(("Fused", "Quick", "Skip")))
        or _INTEGERS.fullmatch(node.op_type)
    }
    return ", ".join(sorted(kinds)) if kinds else "–"


def theirs(model: nn.Module, x: Tensor, expected: Tensor, allowed: float, ideal: int, folder: Path) -> str:
    """What comes of torch.onnx's file: how far off it is and how large, or how it fails."""
    path = folder / "theirs.onnx"
    try:
        with quiet():
            program = torch.onnx.export(  # noqa: TID251 - the other side of the comparison
                model, (example(2),), dynamic_shapes=({0: "batch"},), dynamo=True, opset_version=21, verbose=False
            )
            assert program is not None
            program.save(str(path), external_data=False)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the row
        return f"fails: {type(error).__name__}"
    try:
        session = onnxruntime.InferenceSession(str(path))
        found = session.run(None, {session.get_inputs()[0].name: x.numpy()})[0]
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the row
        return f"its file fails: {type(error).__name__}"
    off = moved(torch.from_numpy(np.asarray(found)), expected) if found.shape == tuple(expected.shape) else np.inf
    return f"{'right' if off <= allowed else f'wrong by {off:.0e}'}, {path.stat().st_size / ideal:.2f}"


def measured(
    origin: str,
    layer: str,
    program: onnxport.ONNXProgram,
    expected: Tensor,
    x: Tensor,
    ideal: int,
    allowed: float,
    beside: Any,
) -> Case:
    """The row of one exported model; ``beside`` is the model to give to torch.onnx, if it has such a thing."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        path = folder / "model.onnx"
        program.save(path, external_data=False, metadata="none")
        other = "no such option" if beside is None else theirs(beside, x, expected, allowed, ideal, folder)
        error = moved(program(x)[0], expected)
        return Case(origin, layer, error, allowed, path.stat().st_size / ideal, fused_operators(path), other)


def packed_cases() -> Iterator[Case]:
    """Models that unpack the weights of their checkpoints."""
    for origin in PACKED:
        for layer in LAYERS:
            model = packed_model(origin, layer)
            program = onnxport.export(
                model, (example(2),), dynamic_shapes=({0: "batch"},), opset_version=21, verbose=False
            )
            x = example(3)
            with torch.no_grad():
                expected = model(x)
            yield measured(origin, layer, program, expected, x, stored_bytes(model), 1e-3, model)


def outgoing_cases() -> Iterator[Case]:
    """Models of floating point that are quantized on the way out."""
    for scheme, layer in CASES:
        model, program = exported_with(scheme, layer)
        x = example(3)
        with torch.no_grad():
            expected = with_written_weights(model, program.quantization)(x)
        ideal = least_bytes(model, program.quantization)
        yield measured(f'quantize="{scheme}"', layer, program, expected, x, ideal, COARSE.get(scheme, 1e-3), None)


def torchao_cases() -> Iterator[Case]:
    """Models that torchao quantized, where it is installed."""
    if importlib.util.find_spec("torchao") is None:
        print("without torchao, which is not installed")
        return
    from test_torchao import CONFIGURATIONS
    from torchao.quantization import quantize_

    for name, (configuration, kind, _) in CONFIGURATIONS.items():
        for layer in LAYERS:
            torch.manual_seed(0)
            model = LAYERS[layer](lambda inputs, outputs: nn.Linear(inputs, outputs)).eval()
            weights = sum(parameter.numel() for parameter in model.parameters() if parameter.dim() == 2)
            others = sum(parameter.numel() for parameter in model.parameters() if parameter.dim() == 1)
            with quiet():
                quantize_(model, configuration)
                program = onnxport.export(
                    model, (example(2),), dynamic_shapes=({0: "batch"},), opset_version=21, verbose=False
                )
            x = example(3)
            with torch.no_grad():
                expected = model(x)
            ideal = int(weights * kind.bitwidth / 8) + 4 * (weights // _group(name) + others)
            yield measured(f"torchao {name}", layer, program, expected, x, ideal, 1e-3, model)


def _group(name: str) -> int:
    """How many weights share a scale in a configuration."""
    if name.startswith("int6"):
        return 16
    return 32 if "groups" in name or ("int4" in name and "rows" not in name) else WIDTH


def table(cases: list[Case]) -> str:
    """The rows, and what they come to."""
    alone = [case for case in cases if not case.right and case.theirs.startswith("right")]
    right = sum(case.right for case in cases)
    tried = [case for case in cases if case.theirs != "no such option"]
    both = sum(case.theirs.startswith("right") for case in tried)
    largest = max(case.size for case in cases)
    return "\n".join(
        [
            f"Of {len(cases)} cases {right} are right; torch.onnx is right in {both} of the {len(tried)} that it can "
            f"be given, and it alone in {len(alone)}. The largest file is {largest:.2f} of the ideal.",
            "",
            "| origin | layer | error | size / ideal | onnxruntime runs | torch.onnx: result, size / ideal |",
            "|---|---|---:|---:|---|---|",
            *map(str, cases),
        ]
    )


def main() -> None:
    """Run all cases, print the table, and write it to a page between two marks."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--origins", nargs="*", default=["packed", "outgoing", "torchao"])
    parser.add_argument("--write", type=Path)
    given = parser.parse_args()
    sources = {"packed": packed_cases, "outgoing": outgoing_cases, "torchao": torchao_cases}
    cases = []
    for origin in given.origins:
        for case in sources[origin]():
            print(case, flush=True)
            cases.append(case)
    text = table(cases)
    print(text)
    if given.write is not None:
        write_block(given.write, "cases", text)


if __name__ == "__main__":
    main()
