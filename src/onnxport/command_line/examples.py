"""Example inputs as the command line describes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from onnxport.errors import InputError


@dataclass(frozen=True)
class Example:
    """An input as the command line describes it."""

    name: str | None
    sizes: tuple[int, ...]
    labels: dict[int, str]
    dtype: torch.dtype

    def tensor(self) -> torch.Tensor:
        """Random values of that shape; whole numbers are 0 or 1, which most models can look up."""
        if self.dtype.is_floating_point or self.dtype.is_complex:
            return torch.randn(self.sizes, dtype=self.dtype)
        return torch.randint(0, 2, self.sizes).to(self.dtype)


def parse_input(text: str) -> Example:
    """Read one ``--input``.

    >>> from onnxport.command_line.examples import parse_input
    >>> parse_input("ids=batch@1,length@16:int64")
    Example(name='ids', sizes=(1, 16), labels={0: 'batch', 1: 'length'}, dtype=torch.int64)
    >>> parse_input("3,224").dtype
    torch.float32
    """
    name, equals, rest = text.rpartition("=")
    shape, colon, dtype_name = rest.partition(":")
    dtype = getattr(torch, dtype_name, None) if colon else torch.float32
    if not isinstance(dtype, torch.dtype):
        raise InputError(f"--input {text}: torch has no dtype {dtype_name!r}; write float32, int64, bool ...")
    sizes: list[int] = []
    labels: dict[int, str] = {}
    for axis, part in enumerate(part for part in shape.split(",") if part):
        label, at, size = part.rpartition("@")
        if not size.isdecimal() or (at and not label.isidentifier()):
            raise InputError(f"--input {text}: {part!r} is no size; write a number, or label@number where it may vary.")
        sizes.append(int(size))
        if at:
            labels[axis] = label
    return Example(name if equals else None, tuple(sizes), labels, dtype)


def dynamic_shapes(examples: Sequence[Example]) -> dict[str, object] | tuple[object, ...] | None:
    """The axes that vary, as ``export`` takes them: by name, or in order."""
    if not any(example.labels for example in examples):
        return None
    if all(example.name is not None for example in examples):
        return {str(example.name): example.labels for example in examples}
    if any(example.name is not None for example in examples):
        raise InputError("Name all inputs or none of them: the axes that vary are declared by name, or in order.")
    return tuple(example.labels for example in examples)
