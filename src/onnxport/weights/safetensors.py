"""Weights in safetensors files, as torch tensors over the mapped file: nothing is read until it is used."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from onnxport.errors import InputError

_DTYPES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "I16": torch.int16,
    "U16": torch.uint16,
    "I32": torch.int32,
    "U32": torch.uint32,
    "I64": torch.int64,
    "U64": torch.uint64,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
}
_PREFIX = struct.Struct("<Q")

Files = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


def mapped_tensors(files: Files) -> dict[str, torch.Tensor]:
    """The tensors of one or several safetensors files by name, straight from the mapped files.

    >>> import os, tempfile, torch
    >>> from safetensors.torch import save_file
    >>> from onnxport.weights.safetensors import mapped_tensors
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.safetensors")
    ...     save_file({"weight": torch.ones(2)}, path)
    ...     mapped_tensors(path)["weight"].tolist()
    [1.0, 1.0]
    """
    paths = [files] if isinstance(files, str | os.PathLike) else list(files)
    tensors: dict[str, torch.Tensor] = {}
    for path in paths:
        tensors.update(_mapped(Path(path)))
    return tensors


def _mapped(path: Path) -> dict[str, torch.Tensor]:
    size = path.stat().st_size
    with path.open("rb") as file:
        start = file.read(_PREFIX.size)
        length = _PREFIX.unpack(start)[0] if len(start) == _PREFIX.size else size
        if length > size - _PREFIX.size:
            raise InputError(f"{path} is not a safetensors file: its header is longer than the file.")
        header: dict[str, Any] = json.loads(file.read(length))
    # Copy on write: torch refuses to be quiet about memory it could not write to, and nobody writes to it.
    content = np.memmap(path, mode="c", offset=_PREFIX.size + length) if size > _PREFIX.size + length else None
    return {name: _tensor(path, name, entry, content) for name, entry in header.items() if name != "__metadata__"}


def _tensor(path: Path, name: str, entry: dict[str, Any], content: np.memmap[Any, Any] | None) -> torch.Tensor:
    dtype = _DTYPES.get(entry["dtype"])
    if dtype is None:
        raise InputError(f"The tensor {name} in {path} has the dtype {entry['dtype']}, which torch does not have.")
    begin, end = entry["data_offsets"]
    if begin == end or content is None:
        return torch.empty(entry["shape"], dtype=dtype)
    return torch.from_numpy(content[begin:end]).view(dtype).reshape(entry["shape"])
