"""Leaving the model and the process as they were."""

from __future__ import annotations

import contextlib
import dis
import random
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from onnxport.source_files import is_librarys_file, is_users_file
from onnxport.torch_internals.symbolic_sizes import config as symbolic_config
from onnxport.undoing import undone_after

Restore = Callable[[], object]
Variables = dict[str, object]
"""Values by the names of variables or attributes."""
_PLAIN = (bool, int, float, str)
_OF_EVERY_MODULE = frozenset(vars(torch.nn.Module()))


@dataclass(frozen=True)
class KeptValue:
    """What a run of a model's own code left in an attribute of a module, or in a variable of its file."""

    file: str
    name: str
    is_attribute: bool

    def __str__(self) -> str:
        return f"self.{self.name}" if self.is_attribute else self.name


@contextlib.contextmanager
def preserved(model: object, tensors: Iterable[torch.Tensor] = ()) -> Iterator[None]:
    """Put the model, the input tensors, the random generators and torch's global flags back on the way out."""
    restores = [*_globals(), *_generators(), *_markers(tensors)]
    with attributes_preserved(model), undone_after(lambda: [restore() for restore in restores]):
        yield


@contextlib.contextmanager
def attributes_preserved(model: object, kept: set[KeptValue] | None = None) -> Iterator[None]:
    """Put back what the model's modules and files hold: what a run of its code leaves there is not for the next.

    ``kept`` is given what code outside of torch left behind in attributes, and the user's own in variables.
    """
    kept = set() if kept is None else kept
    restores = [*_modules(model, kept), *_files(model, kept)] if isinstance(model, torch.nn.Module) else []
    with undone_after(lambda: [restore() for restore in restores]):
        yield


@contextlib.contextmanager
def buffers_preserved(model: object) -> Iterator[None]:
    """Put back the values of buffers that a real run of forward updates."""
    buffers = list(model.buffers()) if isinstance(model, torch.nn.Module) else []
    before = [(buffer, buffer._version, buffer.detach().clone()) for buffer in buffers]

    def undo() -> None:
        for buffer, version, value in before:
            if buffer._version != version:
                buffer.data.copy_(value)

    with undone_after(undo):
        yield


def _globals() -> Iterator[Restore]:
    # Loading torch._dynamo takes seconds: the first capture pays, not the import of the package.
    from onnxport.torch_internals.exporting import dynamo_config, functorch_config

    grad = torch.is_grad_enabled()
    yield lambda: torch.set_grad_enabled(grad)
    dtype = torch.get_default_dtype()
    yield lambda: torch.set_default_dtype(dtype)
    cache = torch.is_autocast_cache_enabled()
    yield lambda: torch.set_autocast_cache_enabled(cache)
    for device in ("cpu", "cuda"):
        yield _autocast(device)
    deterministic = torch.are_deterministic_algorithms_enabled()
    warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    yield lambda: torch.use_deterministic_algorithms(deterministic, warn_only=warn_only)
    for config in (dynamo_config, functorch_config, symbolic_config):
        yield _config(config)
    jit_isinstance = torch.jit.isinstance
    yield lambda: setattr(torch.jit, "isinstance", jit_isinstance)


def _autocast(device: str) -> Restore:
    enabled, dtype = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)

    def restore() -> None:
        torch.set_autocast_enabled(device, enabled)
        torch.set_autocast_dtype(device, dtype)

    return restore


def _config(config: Any) -> Restore:
    before = config.get_config_copy()

    def restore() -> None:
        now = config.get_config_copy()
        for key, value in before.items():
            if now.get(key) is not value and now.get(key) != value:
                setattr(config, key, value)

    return restore


def _generators() -> Iterator[Restore]:
    state = torch.get_rng_state()
    yield lambda: torch.set_rng_state(state)
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        states = torch.cuda.get_rng_state_all()
        yield lambda: torch.cuda.set_rng_state_all(states)
    python = random.getstate()
    yield lambda: random.setstate(python)
    if "numpy" in sys.modules:
        numpy = sys.modules["numpy"]
        numbers = numpy.random.get_state()
        yield lambda: numpy.random.set_state(numbers)


def _markers(tensors: Iterable[torch.Tensor]) -> Iterator[Restore]:
    """Dynamic axes are marked by attributes on the example tensors, which a failed export leaves there."""
    for tensor in tensors:
        yield _table(tensor.__dict__)


def _modules(model: torch.nn.Module, kept: set[KeptValue]) -> Iterator[Restore]:
    """Everything a module holds lives in its dictionary: mode, hooks, parameters, buffers, plain attributes."""
    for module in model.modules():
        path = getattr(sys.modules.get(type(module).__module__), "__file__", None)
        if is_users_file(path):
            yield _noting(vars(module), path or "", kept, is_attribute=True)
        yield _module(module)
    flags = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    # Only a leaf may be switched, and only a changed one needs it.
    yield lambda: [p.requires_grad_(flag) for p, flag in flags if p.requires_grad != flag]


def _files(model: torch.nn.Module, kept: set[KeptValue]) -> Iterator[Restore]:
    """What the files of the model's own classes remember: in their variables, and results of functions."""
    for name in sorted({type(module).__module__ for module in model.modules()}):
        own = _users_file(name)
        if own is None:
            continue
        path, variables = own
        yield _noting(variables, path, kept, is_attribute=False)
        yield _without_changes(variables, _other_numbers)
        for value in list(variables.values()):
            if type(value) is dict:
                yield _without_changes(value, _changed_numbers)
            elif type(value) is list:
                yield _without_new_results(value)
            elif callable(getattr(type(value), "cache_clear", None)):
                yield _forgetting(value)


def _users_file(name: str) -> tuple[str, Variables] | None:
    """The path and the variables of a module of Python that the user wrote; None of a library's."""
    file = sys.modules.get(name)
    path = getattr(file, "__file__", None)
    if file is None or not is_users_file(path) or (path is not None and is_librarys_file(path)):
        return None
    return path or "", vars(file)


def _noting(table: Variables, file: str, kept: set[KeptValue], *, is_attribute: bool) -> Restore:
    """Note, before it is put back, which names hold what a run has left there.

    What is assigned to an attribute is put back by torch.export already, and noted where it is assigned; the same
    containers hold what was put into them.
    """
    before = table.copy()
    containers = {
        name: (value, value.copy())
        for name, value in table.items()
        if isinstance(value, dict | list) and type(value) in (dict, list)
        if not (is_attribute and name in _OF_EVERY_MODULE)
    }

    def note() -> None:
        names = {name for name, (value, held) in containers.items() if _gained_results(value, held)}
        if not is_attribute:
            names |= {name for name, value in table.items() if value is not before.get(name) and _is_result(value)}
            names |= _other_numbers(table, before)
        kept.update(KeptValue(file, name, is_attribute) for name in names)

    return note


def _is_another_number(value: object, before: object) -> bool:
    return type(value) in _PLAIN and type(before) in _PLAIN and value != before


def _gained_results(value: Any, before: Any) -> bool:
    held = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    known = {id(item) for item in (before.values() if isinstance(before, dict) else before)}
    return any(id(item) not in known and _is_result(item) for item in held)


def _without_changes(table: Variables, changed: Callable[[Variables, Variables], set[str]]) -> Restore:
    before = table.copy()

    def restore() -> None:
        numbers = changed(table, before)
        for name, value in list(table.items()):
            if name not in before and _is_result(value):
                del table[name]
            elif name in numbers or (name in before and value is not before[name] and _is_result(value)):
                table[name] = before[name]

    return restore


def _changed_numbers(table: Variables, before: Variables) -> set[str]:
    return {name for name, value in list(table.items()) if _is_another_number(value, before.get(name))}


def _other_numbers(variables: Variables, before: Variables) -> set[str]:
    """The variables of a file that hold other numbers, of those that a function of the file assigns to.

    No code of the model has changed the others: another thread has, or who asked for the export.
    """
    changed = _changed_numbers(variables, before)
    return changed and changed & {name for code in _codes(variables) for name in _assigned(code, changed)}


def _codes(variables: Variables) -> Iterator[types.CodeType]:
    """The code of the functions of a file, and of the methods of its classes."""
    for value in list(variables.values()):
        own = isinstance(value, type) and value.__module__ == variables.get("__name__")
        for function in (value, *(vars(value).values() if own else ())):
            # Methods of the class, properties, and what decorators put in a function's place.
            for inner in (function, *(getattr(function, name, None) for name in ("__func__", "fget", "__wrapped__"))):
                code = getattr(inner, "__code__", None)
                if isinstance(code, types.CodeType):
                    yield code


def _assigned(code: types.CodeType, names: set[str]) -> Iterator[str]:
    if not names.isdisjoint(code.co_names):
        yield from (step.argval for step in dis.get_instructions(code) if step.opname == "STORE_GLOBAL")
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            yield from _assigned(inner, names)


def _without_new_results(items: list[object]) -> Restore:
    before = items.copy()

    def restore() -> None:
        if _gained_results(items, before):
            items[:] = before

    return restore


def _forgetting(function: Any) -> Restore:
    """What lru_cache or cache made of a function is emptied where it has other results than before."""
    size = function.cache_info().currsize
    return lambda: function.cache_clear() if function.cache_info().currsize != size else None


def _is_result(value: object) -> bool:
    """Whether a value is one that a run computes, or holds some; of a capture it means nothing outside of that."""
    if isinstance(value, tuple | list):
        return any(map(_is_result, value))
    return isinstance(value, torch.Tensor | torch.SymInt | torch.SymFloat | torch.SymBool)


def _module(module: torch.nn.Module) -> Restore:
    tables = [_table(module.__dict__)]
    tables += [_table(value) for value in module.__dict__.values() if isinstance(value, dict)]
    tables += [_list(value) for value in module.__dict__.values() if isinstance(value, list)]
    return lambda: [restore() for restore in tables]


def _list(items: list[object]) -> Restore:
    before = items.copy()

    def restore() -> None:
        if len(items) != len(before) or any(one is not other for one, other in zip(items, before, strict=True)):
            items[:] = before

    return restore


def _table(table: Variables) -> Restore:
    before = table.copy()

    def restore() -> None:
        if len(table) != len(before) or any(table.get(name, table) is not value for name, value in before.items()):
            table.clear()
            table.update(before)

    return restore
