"""Example inputs as the command line describes them: by shape, or by a file that holds them."""

from __future__ import annotations

import pickle
import re
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from onnxport.command_line.archive_records import check_archive, is_archive
from onnxport.command_line.usage import UsageError
from onnxport.errors import InputError, with_article
from onnxport.weights.safetensors import mapped_tensors

_FILES = (".npy", ".npz", ".pt", ".pth", ".safetensors")


@dataclass(frozen=True)
class Example:
    """An input as the command line describes it; of a file, it has its values."""

    name: str | None
    sizes: tuple[int, ...]
    labels: dict[int, str]
    dtype: torch.dtype
    values: torch.Tensor | None = field(default=None, repr=False)

    def tensor(self, generator: torch.Generator | None = None) -> torch.Tensor:
        """The values, or random ones of that shape; whole numbers are 0 or 1, which most models can look up."""
        return random_tensor(self.sizes, self.dtype, generator) if self.values is None else self.values


def random_tensor(sizes: Sequence[int], dtype: torch.dtype, generator: torch.Generator | None = None) -> torch.Tensor:
    """Numbers around zero, or zeros and ones where they are whole."""
    if dtype.is_floating_point or dtype.is_complex:
        wide = dtype if dtype.is_complex else torch.float32
        return torch.randn(tuple(sizes), dtype=wide, generator=generator).to(dtype)
    return torch.randint(0, 2, tuple(sizes), generator=generator).to(dtype)


def parse_input(text: str, default: torch.dtype = torch.float32) -> Example:
    """Read one ``--input`` that describes a shape.

    >>> from onnxport.command_line.examples import parse_input
    >>> parse_input("ids=batch@1,length@16:int64")
    Example(name='ids', sizes=(1, 16), labels={0: 'batch', 1: 'length'}, dtype=torch.int64)
    >>> parse_input("3,224").dtype
    torch.float32
    """
    name, equals, rest = text.rpartition("=")
    shape, colon, dtype_name = rest.partition(":")
    dtype = parse_dtype(dtype_name, f"--input {text}") if colon else default
    sizes: list[int] = []
    labels: dict[int, str] = {}
    for axis, part in enumerate(part for part in shape.split(",") if part):
        label, at, size = part.rpartition("@")
        if not size.isdecimal() or (at and not label.isidentifier()):
            raise UsageError(
                f"--input {text}: {part!r} is no size; write a number, or label@number where it may vary, or the name "
                f"of a file ({', '.join(_FILES)})."
            )
        sizes.append(int(size))
        if at:
            labels[axis] = label
    return Example(name if equals else None, tuple(sizes), labels, dtype)


def parse_dtype(name: str, where: str) -> torch.dtype:
    """A dtype of torch by its name."""
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise UsageError(f"{where}: torch has no dtype {name!r}; write float32, int64, bool ...")
    return dtype


def read_examples(
    texts: Sequence[str], dynamic: Sequence[str] = (), default: torch.dtype | None = None
) -> list[Example]:
    """Read all ``--input``, and the ``--dynamic`` that name axes of inputs which come from files."""
    found: list[Example] = []
    for text in texts:
        name, equals, rest = text.partition("=")
        place = rest if equals and name.isidentifier() else text
        if Path(place).suffix in _FILES:
            found += _of_file(Path(place), name if place is rest else None)
        else:
            found.append(parse_input(text, torch.float32 if default is None else default))
    names = [example.name for example in found if example.name is not None]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"--input {name}=...: {name} is given {names.count(name)} times.")
    for text in dynamic:
        found = _labelled(found, text)
    return found


def _of_file(path: Path, name: str | None) -> list[Example]:
    content = read_tensors(path)
    if isinstance(content, torch.Tensor):
        content = {"": content}
    if isinstance(content, Mapping):
        if name is not None and len(content) > 1:
            raise InputError(f"{path} holds {len(content)} tensors ({', '.join(content)}); give it without {name}=.")
        named = [(name if name is not None else key or None, tensor) for key, tensor in content.items()]
    else:
        named = [(name if len(content) == 1 else None, tensor) for tensor in content]
    return [Example(key, tuple(tensor.shape), {}, tensor.dtype, tensor) for key, tensor in named]


def _labelled(examples: list[Example], text: str) -> list[Example]:
    match = re.fullmatch(r"(?:(\w+):)?(\d+)=(\w+)", text)
    if match is None:
        raise UsageError(f"--dynamic {text}: write input:axis=label, such as x:0=batch.")
    name, axis, label = match[1], int(match[2]), match[3]
    chosen = [example for example in examples if example.name == name or (name is None and len(examples) == 1)]
    if not chosen or axis >= len(chosen[0].sizes):
        known = ", ".join(f"{example.name} with {len(example.sizes)} axes" for example in examples)
        raise UsageError(f"--dynamic {text}: there is no input {name} with an axis {axis}; there is {known}.")
    labelled = replace(chosen[0], labels={**chosen[0].labels, axis: label})
    return [labelled if example is chosen[0] else example for example in examples]


def read_tensors(path: Path) -> torch.Tensor | Mapping[str, torch.Tensor] | Sequence[torch.Tensor]:
    """The tensors of a file, of which no code is run.

    Raises:
        UsageError: There is no such file.
        InputError: It is damaged, holds other things than tensors, or would have to be unpickled.
    """
    content = load_saved(path)
    if isinstance(content, torch.Tensor):
        return content
    if not isinstance(content, Mapping | list | tuple):
        raise InputError(
            f"{path} holds {with_article(type(content).__name__)}, not a tensor, or a list or dict of tensors."
        )
    items = content.values() if isinstance(content, Mapping) else content
    others = {type(item).__name__ for item in items if not isinstance(item, torch.Tensor)}
    if others:
        raise InputError(f"{path} holds {', '.join(sorted(others))} beside tensors; save tensors only.")
    return content


def load_saved(path: Path) -> object:
    """What was saved to a file, of which no code is run.

    Raises:
        UsageError: There is no such file.
        InputError: It is damaged, or would have to be unpickled.
    """
    if not path.is_file():
        raise UsageError(f"There is no file {path}.")
    try:
        if path.suffix == ".safetensors":
            return mapped_tensors(path)
        if path.suffix == ".npz" and not is_archive(path):
            raise InputError(f"{path} is no file of numpy.savez.")
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                return {name: torch.from_numpy(arrays[name]) for name in arrays.files}
        if path.suffix == ".npy":
            return torch.from_numpy(np.load(path, allow_pickle=False))
        check_archive(path, allow_files=False)
        content: object = torch.load(path, weights_only=True, map_location="cpu")
        return content
    except InputError:
        raise
    except pickle.UnpicklingError as error:
        raise InputError(
            f"{path} holds a pickle of more than tensors, which is not loaded; save tensors only."
        ) from error
    except (OSError, ValueError, TypeError, RuntimeError, EOFError, KeyError, zipfile.BadZipFile) as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise InputError(f"{path} can't be read as tensors: {reason}") from error
