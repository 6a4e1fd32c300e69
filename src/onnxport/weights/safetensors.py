"""Weights in safetensors files, as torch tensors over the mapped file: nothing is read until it is used."""

from __future__ import annotations

import json
import math
import os
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from onnxport.errors import ArgumentTypeError, InputError
from onnxport.weights.mapped_pages import remember_mapping

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
_MAX_HEADER_BYTES = 100_000_000

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
    paths = [files] if isinstance(files, str | os.PathLike) or not isinstance(files, Iterable) else list(files)
    if not all(isinstance(path, str | os.PathLike) for path in paths):
        kind = type(files).__name__
        raise ArgumentTypeError(
            f"Weights are a state dict, or paths of safetensors files, not an object of type {kind}."
        )
    tensors: dict[str, torch.Tensor] = {}
    for path in paths:
        tensors.update(mapped_file(path).tensors)
    return tensors


@dataclass(frozen=True)
class MappedFile:
    """A safetensors file in memory: its tensors, and where their bytes stand in it.

    Attributes:
        path: The file.
        tensors: Its tensors by name, over the mapped bytes.
        start: Where in the file the bytes of tensors begin.
        address: Where in memory they begin.
        size: How many there are.
    """

    path: Path
    tensors: dict[str, torch.Tensor]
    start: int
    address: int
    size: int

    def offset(self, tensor: torch.Tensor) -> int | None:
        """Where in the file a tensor begins, if it is elements of the file one after another."""
        place = tensor.data_ptr() - self.address
        inside = place >= 0 and place + tensor.nbytes <= self.size
        return self.start + place if inside and tensor.nbytes and tensor.is_contiguous() else None


def mapped_file(file: str | os.PathLike[str]) -> MappedFile:
    """Map one safetensors file.

    >>> import os, tempfile, torch
    >>> from safetensors.torch import save_file
    >>> from onnxport.weights.safetensors import mapped_file
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.safetensors")
    ...     save_file({"weight": torch.ones(2), "bias": torch.ones(1)}, path)
    ...     file = mapped_file(path)
    >>> file.offset(file.tensors["weight"]) - file.offset(file.tensors["bias"]), file.offset(torch.ones(2))
    (4, None)
    """
    path = Path(file)
    try:
        size = path.stat().st_size
        with path.open("rb") as opened:
            start = opened.read(_PREFIX.size)
            length = _PREFIX.unpack(start)[0] if len(start) == _PREFIX.size else size
            if length > min(size - _PREFIX.size, _MAX_HEADER_BYTES):
                raise _refused(path, "its header is longer than the file, or than 100 MB")
            entries = _entries(path, opened.read(length))
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror}.") from error
    _check_ranges(path, entries, size - _PREFIX.size - length)
    # Copy on write: torch refuses to be quiet about memory it could not write to, and nobody writes to it.
    content = np.memmap(path, mode="c", offset=_PREFIX.size + length) if size > _PREFIX.size + length else None
    if content is not None:
        remember_mapping(content)
    tensors = {entry.name: _tensor(entry, content) for entry in entries}
    address, count = (0, 0) if content is None else (content.ctypes.data, content.nbytes)
    return MappedFile(path, tensors, _PREFIX.size + length, address, count)


@dataclass(frozen=True)
class _Entry:
    name: str
    dtype: torch.dtype
    shape: list[int]
    begin: int
    end: int


def _refused(path: Path, reason: str) -> InputError:
    return InputError(f"{path} is not a safetensors file: {reason}.")


def _entries(path: Path, text: bytes) -> list[_Entry]:
    try:
        header: object = json.loads(text, object_pairs_hook=_without_repetition)
    except (ValueError, RecursionError) as error:
        raise _refused(path, f"its header is not JSON ({error})") from error
    if not isinstance(header, dict):
        raise _refused(path, "its header is not a table of tensors")
    return [_entry(path, str(name), fields) for name, fields in header.items() if name != "__metadata__"]


def _without_repetition(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a name stands in it twice")
    return table


def _entry(path: Path, name: str, fields: object) -> _Entry:
    if not isinstance(fields, dict) or not {"dtype", "shape", "data_offsets"} <= fields.keys():
        raise _refused(path, f"the tensor {name!r} lacks a dtype, shape or data_offsets")
    kind, shape, offsets = fields["dtype"], fields["shape"], fields["data_offsets"]
    dtype = _DTYPES.get(kind) if isinstance(kind, str) else None
    if dtype is None:
        raise InputError(f"The tensor {name} in {path} has the dtype {kind}, which torch does not have.")
    if not _are_counts(shape):
        raise _refused(path, f"the tensor {name!r} has the shape {shape}")
    if not _are_counts(offsets) or len(offsets) != 2:
        raise _refused(path, f"the tensor {name!r} has the offsets {offsets}")
    begin, end = offsets
    if end - begin != math.prod(shape) * dtype.itemsize:
        raise _refused(path, f"the tensor {name!r} ({kind}, {shape}) has {end - begin} bytes")
    return _Entry(name, dtype, shape, begin, end)


def _are_counts(numbers: object) -> bool:
    return isinstance(numbers, list) and all(type(number) is int and 0 <= number < 2**63 for number in numbers)


def _check_ranges(path: Path, entries: list[_Entry], size: int) -> None:
    """Each byte belongs to one tensor, as the format demands."""
    end = 0
    for entry in sorted(entries, key=lambda entry: (entry.begin, entry.end)):
        if entry.begin != end:
            raise _refused(path, f"the tensor {entry.name!r} begins at {entry.begin}, where {end} is next")
        end = entry.end
    if end != size:
        raise _refused(path, f"its tensors take {end} bytes, and it has {size}")


def _tensor(entry: _Entry, content: np.memmap[tuple[int, ...], np.dtype[np.uint8]] | None) -> torch.Tensor:
    if entry.begin == entry.end or content is None:
        return torch.empty(entry.shape, dtype=entry.dtype)
    return torch.from_numpy(content[entry.begin : entry.end]).view(entry.dtype).reshape(entry.shape)
