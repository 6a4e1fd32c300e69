"""ONNX files that commands read and write, and the tensors that they save."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import torch

from onnxport.command_line.usage import UsageError
from onnxport.errors import SaveError
from onnxport.program.runtime import Output
from onnxport.weights.external_data import read_model


def read_file(path: Path) -> ir.Model:
    """Read an ONNX file, whoever wrote it; ONNX's own domain goes by its empty name."""
    model = read_model(path)
    if "ai.onnx" in model.opset_imports:
        model.opset_imports.setdefault("", model.opset_imports.pop("ai.onnx"))
    return model


def files_of(path: Path, model: ir.Model) -> list[Path]:
    """The file and those that it keeps tensors in."""
    tensors = [value.const_value for graph in model.graphs() for value in graph.initializers.values()]
    kept = [Path(os.path.relpath(t.path, path.parent.resolve())) for t in tensors if isinstance(t, ir.ExternalTensor)]
    return list(dict.fromkeys([path, *(path.parent / file for file in kept)]))


def save_tensors(path: Path, tensors: Mapping[str, Output]) -> None:
    """Write named tensors to an ``.npz`` or ``.pt`` file, under a temporary name first."""
    if path.suffix not in (".npz", ".pt"):
        raise UsageError(f"{path}: outputs are saved as an .npz or a .pt file.")
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            if path.suffix == ".pt":
                torch.save(dict(tensors), file)
            else:
                np.savez(file, allow_pickle=False, **dict(_arrays(tensors)))
        temporary.replace(path)
    except OSError as error:
        raise SaveError(f"{path} can't be written: {error.strerror}") from error
    finally:
        temporary.unlink(missing_ok=True)


def _arrays(tensors: Mapping[str, Output]) -> Iterator[tuple[str, npt.NDArray[np.generic]]]:
    for name, value in tensors.items():
        items = value if isinstance(value, list) else [] if value is None else [value]
        for position, item in enumerate(items):
            # numpy has no bfloat16, nor floats of 8 bits.
            kept = item.dtype in (torch.float64, torch.float32, torch.float16) or not item.dtype.is_floating_point
            yield f"{name}.{position}" if isinstance(value, list) else name, (item if kept else item.float()).numpy()
