"""What torch takes for granted of its archives when it reads them, looked at before it does.

torch makes a tensor of as many elements as the pickle states, of whatever bytes the record has: where there are fewer,
it reads on behind them. And the code of a TorchScript file may save to any file while it is loaded.
"""

from __future__ import annotations

import pickletools
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from onnxport.command_line.archive_code import run_at_loading
from onnxport.errors import InputError

_BYTES = {
    **dict.fromkeys(("Double", "Long", "ComplexFloat"), 8),
    **dict.fromkeys(("Float", "Int", "QInt32"), 4),
    **dict.fromkeys(("Half", "BFloat16", "Short"), 2),
    "ComplexDouble": 16,
}
_FILLER = rb"(?:\s|\\|#[^\n]*\n)*"
_FILES = re.compile(
    _FILLER.join([rb"\b(?:torch|aten)", rb"\.", rb"(?:save|from_file)\b"])
    + rb"|"
    + _FILLER.join([rb"\bops", rb"\.", rb"image", rb"\.", rb"(?:read|write)_\w+"])
)
"""The operators of TorchScript that read or write files, as the code in an archive names them."""
_NOT_LOADED = ("traced_inputs",)
"""Pickles that loading a model leaves alone: a trace states the inputs that it was made with, in empty records."""
_PUTS = ("PUT", "BINPUT", "LONG_BINPUT")
_GETS = ("GET", "BINGET", "LONG_BINGET")
_MARK = object()
_DAMAGED = (ValueError, TypeError, IndexError, KeyError, OverflowError, UnicodeError, struct.error)
"""What reading the operations of something that is no pickle ends in."""
_UNREADABLE = (zipfile.BadZipFile, zlib.error, NotImplementedError, OSError, RuntimeError, EOFError, *_DAMAGED)
"""What reading an archive that is none ends in."""


@dataclass(frozen=True)
class _Function:
    """Something that a pickle names: module and name."""

    name: str


@dataclass(frozen=True)
class _Stored:
    """Memory that a pickle says is in a record: so many elements of so many bytes."""

    record: str
    count: int
    itemsize: int


def is_archive(path: Path) -> bool:
    """Whether a file ends as archives do; Python raises an error where it ends like a part of one."""
    try:
        return zipfile.is_zipfile(path)
    except zipfile.BadZipFile:
        return False


def check_archive(path: Path, *, allow_files: bool) -> None:
    """Refuse an archive whose records are shorter than its tensors, or whose code works with files."""
    if not is_archive(path):
        return
    try:
        with zipfile.ZipFile(path) as archive:
            sizes = {info.filename: info.file_size for info in archive.infolist()}
            if len(sizes) < len(archive.infolist()):
                raise InputError(f"{path} is damaged: it has two records of one name.")
            for name in sizes:
                inside = PurePosixPath(*PurePosixPath(name).parts[1:])
                if inside.suffix == ".pkl" and len(inside.parts) == 1 and inside.stem not in _NOT_LOADED:
                    _check_tensors(path, name, archive.read(name), sizes)
                elif inside.suffix == ".py" and not allow_files and (found := _FILES.search(archive.read(name))):
                    raise InputError(
                        f"{path} is not loaded, since its code works with files: {found[0].decode()} in {inside}. Pass "
                        "--allow-pickle if you trust where it comes from."
                    )
            codes = [] if allow_files else [name for name in sizes if name.endswith(".py")]
            reason = run_at_loading({name: archive.read(name) for name in codes})
            if reason is not None:
                raise InputError(
                    f"{path} is not loaded, since code of it would run as it is: {reason}. Pass --allow-pickle if you "
                    "trust where it comes from."
                )
    except InputError:
        raise
    except _UNREADABLE as error:
        raise InputError(f"{path} is a damaged archive: {error}.") from error


def _check_tensors(path: Path, name: str, pickled: bytes, sizes: dict[str, int]) -> None:
    try:
        stated = list(_stated(pickled))
    except _DAMAGED as error:
        raise InputError(f"{path} is damaged: {PurePosixPath(name).name} in it is no pickle ({error}).") from error
    for stored, extent in stated:
        record = f"{name.removesuffix('.pkl')}/{stored.record}"
        size = sizes.get(record)
        # One that is missing is an error of torch's own.
        if size is not None and size < stored.count * stored.itemsize:
            needed = stored.count * stored.itemsize
            raise InputError(f"{path} is damaged: {record} in it has {size} bytes, and its tensor needs {needed}.")
        if extent > stored.count:
            raise InputError(
                f"{path} is damaged: a tensor in it reaches to element {extent} of the {stored.count} in {record}."
            )


def _stated(pickled: bytes) -> Iterator[tuple[_Stored, int]]:
    """The memory that a pickle refers to, with the number of elements that is reached; nothing of it is called.

    The operations are followed with what they put on the stack where it is text, a number or a tuple, and with nothing
    in place of all else.
    """
    stack: list[object] = []
    memo: dict[object, object] = {}
    for operation, argument, _ in pickletools.genops(pickled):
        if operation.name in _PUTS:
            memo[argument] = stack[-1]
        elif operation.name == "MEMOIZE":
            memo[len(memo)] = stack[-1]
        elif operation.name in _GETS:
            stack.append(memo[argument])
        elif operation.name == "MARK":
            stack.append(_MARK)
        else:
            taken = _take(stack, operation.stack_before)
            if operation.name == "BINPERSID":
                stored = _stored(taken[0])
                stack.append(stored)
                yield stored, 0
            elif operation.name == "REDUCE":
                stack.append(None)
                yield from _rebuilt(*taken)
            else:
                stack += _results(operation, argument, taken)


def _take(stack: list[object], kinds: list[pickletools.StackObject]) -> list[object]:
    """What an operation takes from the stack, in order; what stands behind a mark counts as one."""
    taken: list[object] = []
    if pickletools.markobject in kinds:
        mark = next((place for place in reversed(range(len(stack))) if stack[place] is _MARK), -1)
        if mark < 0:
            raise ValueError("it ends something that it did not begin")
        taken = [tuple(stack[mark + 1 :])]
        del stack[mark:]
        kinds = kinds[: kinds.index(pickletools.markobject)]
    for _ in kinds:
        taken.insert(0, stack.pop())
    return taken


def _results(operation: pickletools.OpcodeInfo, argument: object, taken: list[object]) -> list[object]:
    if operation.name in ("TUPLE", "EMPTY_TUPLE"):
        return [taken[0] if taken else ()]
    if operation.name in ("TUPLE1", "TUPLE2", "TUPLE3"):
        return [tuple(taken)]
    if operation.name == "GLOBAL":
        return [_Function(str(argument))]
    if operation.name == "STACK_GLOBAL":
        return [_Function(" ".join(map(str, taken)))]
    if operation.name == "DUP":
        return [*taken, *taken]
    known = isinstance(argument, int | str) and not operation.stack_before
    return [argument if known else None for _ in operation.stack_after]


def _stored(state: object) -> _Stored:
    if not isinstance(state, tuple) or len(state) != 5 or state[0] != "storage":
        raise ValueError("it states its memory in no form that torch writes")
    _, kind, record, _, count = state
    if not isinstance(kind, _Function) or not isinstance(record, str) or not isinstance(count, int) or count < 0:
        raise ValueError("it states its memory in no form that torch writes")
    return _Stored(record, count, _BYTES.get(kind.name.rpartition(" ")[2].removesuffix("Storage"), 1))


def _rebuilt(function: object, arguments: object) -> Iterator[tuple[_Stored, int]]:
    """How far a tensor reaches in its memory: storage, offset, sizes and strides are what it is made of."""
    if not isinstance(function, _Function) or not function.name.startswith("torch._utils _rebuild_"):
        return
    match arguments:
        case (_Stored() as stored, int() as offset, tuple() as sizes, tuple() as strides, *_):
            if len(sizes) != len(strides) or min([offset, *sizes, *strides]) < 0:
                raise ValueError("a tensor has a negative size or stride")
            last = sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
            yield stored, 0 if 0 in sizes else offset + last + 1
