"""Weights that stay in the files of a checkpoint: those files where a model can refer to them.

onnxruntime reads external data from files below the model's folder alone, after symbolic links were followed: neither
absolute paths nor ``..`` nor links that lead out of it. A hard link is a second name of the same file, and is read.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import torch

from onnxport.errors import InputError
from onnxport.quantize import Quantization
from onnxport.weights.in_place import WeightsInPlace
from onnxport.weights.safetensors import MappedFile


def check_reference(model: str | os.PathLike[str] | torch.nn.Module, quantize: str | Quantization | None) -> None:
    """Refuse what leaves no weight as it stands in a file."""
    if isinstance(model, torch.nn.Module):
        raise InputError(
            'weights="reference" refers to the files of a checkpoint, and a model in memory has none: pass the '
            "checkpoint's directory."
        )
    if quantize is not None:
        raise InputError('Quantized weights are written anew: leave out quantize, or weights="reference".')


def placed_beside(files: Sequence[MappedFile], folder: Path) -> WeightsInPlace:
    """Let a model in a folder refer to files, which get a second name there if they are elsewhere."""
    if not files:
        raise InputError(
            "The weights of this checkpoint can't be referred to where they are: transformers renames, joins or "
            'converts them when it loads them, or they are in no safetensors files. Leave out weights="reference".'
        )
    return WeightsInPlace({_placed(file.path, folder): file for file in files})


def _placed(file: Path, folder: Path) -> str:
    """What a model in a folder calls a file."""
    real, here = file.resolve(), folder.resolve()
    if real.is_relative_to(here):
        return real.relative_to(here).as_posix()
    name = folder / file.name
    if name.exists() and name.samefile(real) and not name.is_symlink():
        return file.name
    if file.parent.resolve() == here:
        raise InputError(
            f"{file} is a link to {real}, outside of the folder, from where onnxruntime reads no weights: write to "
            "another folder."
        )
    try:
        name.unlink(missing_ok=True)
        name.hardlink_to(real)
    except OSError as error:
        raise InputError(
            f"{real} can't be given a second name in {folder} ({error.strerror}), and models can't refer to files "
            "outside of their folder: write to a folder on the same file system, or to the checkpoint's own."
        ) from error
    return file.name
