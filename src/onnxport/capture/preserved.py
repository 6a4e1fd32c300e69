"""Leaving the model and the process as they were."""

from __future__ import annotations

import contextlib
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch

from onnxport.source_files import is_librarys_file, is_users_file
from onnxport.torch_internals.fake_tensors import FakeTensor
from onnxport.torch_internals.symbolic_sizes import config as symbolic_config

Restore = Callable[[], object]


@contextlib.contextmanager
def preserved(model: object, tensors: Iterable[torch.Tensor] = ()) -> Iterator[None]:
    """Put the model, the input tensors, the random generators and torch's global flags back on the way out."""
    restores = [*_globals(), *_generators(), *_markers(tensors)]
    with attributes_preserved(model):
        try:
            yield
        finally:
            for restore in restores:
                restore()


@contextlib.contextmanager
def attributes_preserved(model: object) -> Iterator[None]:
    """Put back what the model's modules and files hold: what a run of its code leaves there is not for the next."""
    restores = [*_modules(model), *_files(model)] if isinstance(model, torch.nn.Module) else []
    try:
        yield
    finally:
        for restore in restores:
            restore()


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


def _modules(model: torch.nn.Module) -> Iterator[Restore]:
    """Everything a module holds lives in its dictionary: mode, hooks, parameters, buffers, plain attributes."""
    for module in model.modules():
        yield _module(module)
    flags = [(parameter, parameter.requires_grad) for parameter in model.parameters()]
    # Only a leaf may be switched, and only a changed one needs it.
    yield lambda: [p.requires_grad_(flag) for p, flag in flags if p.requires_grad != flag]


def _files(model: torch.nn.Module) -> Iterator[Restore]:
    """What the files of the model's own classes remember: tensors in their variables, and results of functions."""
    for name in sorted({type(module).__module__ for module in model.modules()}):
        file = sys.modules.get(name)
        path = getattr(file, "__file__", None)
        if file is None or not is_users_file(path) or (path is not None and is_librarys_file(path)):
            continue
        variables = vars(file)
        yield _without_traces(variables)
        for value in list(variables.values()):
            if type(value) is dict:
                yield _without_traces(value)
            elif type(value) is list:
                yield _without_new_traces(value)
            elif callable(getattr(type(value), "cache_clear", None)):
                yield _forgetting(value)


def _without_traces(table: dict[Any, Any]) -> Restore:
    before = table.copy()

    def restore() -> None:
        for name in [name for name, value in table.items() if value is not before.get(name) and _is_traced(value)]:
            if name in before:
                table[name] = before[name]
            else:
                del table[name]

    return restore


def _without_new_traces(items: list[object]) -> Restore:
    before = items.copy()

    def restore() -> None:
        known = {id(item) for item in before}
        if any(id(item) not in known and _is_traced(item) for item in items):
            items[:] = before

    return restore


def _forgetting(function: Any) -> Restore:
    """What lru_cache or cache made of a function is emptied where it has other results than before."""
    size = function.cache_info().currsize
    return lambda: function.cache_clear() if function.cache_info().currsize != size else None


def _is_traced(value: object) -> bool:
    """Whether a value is one of a capture, or holds some: it means nothing outside of that."""
    if isinstance(value, tuple | list):
        return any(map(_is_traced, value))
    return isinstance(value, FakeTensor | torch.SymInt | torch.SymFloat | torch.SymBool)


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


def _table(table: dict[Any, Any]) -> Restore:
    before = table.copy()

    def restore() -> None:
        if len(table) != len(before) or any(table.get(name, table) is not value for name, value in before.items()):
            table.clear()
            table.update(before)

    return restore
