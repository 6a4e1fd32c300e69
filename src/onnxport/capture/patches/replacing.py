"""Putting something else in the place of kernels, attributes and entries of tables for a while.

Whatever was there is noted before anything is touched, so that an interrupt at any moment finds its way back
(:mod:`onnxport.undoing`).
"""

from __future__ import annotations

import contextlib
import gc
import inspect
import types
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import TypeAlias, TypeVar

import torch

from onnxport.torch_internals.operators import DispatchKey, OpOverload
from onnxport.undoing import undone_after

Kernel: TypeAlias = Callable[..., object]
Kernels: TypeAlias = Mapping[DispatchKey, Kernel]
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_Function = TypeVar("_Function", bound=Callable[..., object])
_ABSENT = object()
#: Functions of torch's own library that have another in their place, with that one.
_instead_of: dict[object, object] = {}


@contextlib.contextmanager
def kernels_replaced(kernels: Mapping[OpOverload, Kernels]) -> Iterator[None]:
    """While this is open, operators have these Python kernels, by dispatch key; afterwards those they had before."""
    saved = [(operator, dict(operator.py_kernels)) for operator in kernels]

    def undo() -> None:
        for operator, before in saved:
            operator.py_kernels.clear()
            operator.py_kernels.update(before)
            operator._dispatch_cache.clear()

    with undone_after(undo):
        for operator, own in kernels.items():
            operator.py_kernels.update(own)
            operator._dispatch_cache.clear()
        yield


@contextlib.contextmanager
def attributes_replaced(rows: Sequence[tuple[object, str, object]]) -> Iterator[None]:
    """While this is open, modules and classes have these attributes; one that was inherited is so again afterwards."""
    saved = [(owner, name, vars(owner).get(name, _ABSENT)) for owner, name, _ in rows]
    functions: dict[object, object] = {
        before: value
        for (owner, _, before), (_, _, value) in zip(saved, rows, strict=True)
        # One of Python may have another in its place for a single module that has imported it.
        if isinstance(owner, types.ModuleType) and isinstance(before, types.BuiltinFunctionType)
    }
    instead_before = dict(_instead_of)

    def undo() -> None:
        _instead_of.clear()
        _instead_of.update(instead_before)
        for owner, name, before in reversed(saved):
            if before is not _ABSENT:
                setattr(owner, name, before)
            elif name in vars(owner):
                delattr(owner, name)

    with undone_after(undo):
        for owner, name, value in rows:
            setattr(owner, name, value)
        _instead_of.update(functions)
        yield


def in_place_of(function: _Function) -> _Function:
    """What is in the place of a function now: code that imported it by its name has the function itself."""
    while function in _instead_of:
        function = _instead_of[function]  # type: ignore[assignment]
    return function


@contextlib.contextmanager
def items_replaced(table: MutableMapping[_Key, _Value], entries: Mapping[_Key, _Value]) -> Iterator[None]:
    """While this is open, a table has these entries."""
    before = {key: table[key] for key in entries if key in table}

    def undo() -> None:
        for key in entries:
            if key not in before:
                table.pop(key, None)
        table.update(before)

    with undone_after(undo):
        table.update(entries)
        yield


@contextlib.contextmanager
def code_replaced(function: types.FunctionType, by: types.CodeType) -> Iterator[None]:
    """While this is open, a function runs other code, among its own names, wherever it was imported to."""
    before = function.__code__
    with undone_after(lambda: setattr(function, "__code__", before)):
        function.__code__ = by
        yield


@contextlib.contextmanager
def class_replaced(kind: type, shown: property) -> Iterator[None]:
    """While this is open, the instances of a class show another ``__class__``, which can't be assigned to."""
    (attributes,) = gc.get_referents(vars(kind))

    def undo() -> None:
        attributes.pop("__class__", None)
        _forget_lookups(kind)

    with undone_after(undo):
        attributes["__class__"] = shown
        _forget_lookups(kind)
        yield


def _forget_lookups(kind: type) -> None:
    """Python remembers where it found the attributes of a class, until one is assigned."""
    kind.__doc__ = kind.__doc__


def method_replaced(
    model: torch.nn.Module, function: Callable[..., object], signature: inspect.Signature, name: str = "forward"
) -> contextlib.AbstractContextManager[None]:
    """While this is open, a model's ``forward`` (or another method) is a function that shows the given signature.

    In the dictionary of the object: the class stays as it is, and so does what ``__setattr__`` would do.
    """
    vars(function)["__signature__"] = signature
    return items_replaced(vars(model), {name: function})
