"""Effects: what the body of a loop changes besides the variables of its function.

``self.steps += 1``, ``self.cell(x)`` that keeps its state, ``add(h)`` that appends to a list around it: no syntax
of the loop shows all of these. So the places that a body can reach are looked at before an iteration and after it, and
those that changed are variables of the loop too.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import CellType, CodeType, FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

import torch

from onnxport.capture.patches.tensor_numbers import ListedTensor
from onnxport.capture.rewriting.contents import contents_of, has_contents, same_contents
from onnxport.capture.rewriting.variables import UNDEFINED
from onnxport.capture.rewriting.watching import Unlike, kind_of
from onnxport.source_files import is_users_file

_PACKAGE = __name__.partition(".")[0]
# What every module has, and no code of a model changes in a loop.
_OF_MODULES = frozenset(vars(torch.nn.Module()))


@dataclass(frozen=True)
class Place:
    """An attribute of an object, a buffer, a variable of a function around or of the file; ``name`` is for messages."""

    owner: MutableMapping[str, Any] | CellType
    key: str
    name: str

    @property
    def identity(self) -> tuple[int, str]:
        """What tells it from other places."""
        return id(self.owner.held if isinstance(self.owner, _Attributes) else self.owner), self.key

    def read(self) -> Any:
        """What is there now."""
        if not isinstance(self.owner, CellType):
            return self.owner.get(self.key, UNDEFINED)
        try:
            return self.owner.cell_contents
        except ValueError:
            return UNDEFINED

    def write(self, value: object) -> None:
        """Put something there."""
        if value is UNDEFINED:
            if isinstance(self.owner, CellType):
                del self.owner.cell_contents
            else:
                self.owner.pop(self.key, None)
        elif isinstance(self.owner, CellType):
            self.owner.cell_contents = value
        else:
            self.owner[self.key] = value


class _Attributes(MutableMapping[str, Any]):
    """The attributes of an object that has no dict of its own, by their names."""

    def __init__(self, held: object, names: Sequence[str]) -> None:
        self.held, self.names = held, names

    def __getitem__(self, name: str) -> Any:
        if name not in self:
            raise KeyError(name)
        return getattr(self.held, name)

    def __setitem__(self, name: str, value: object) -> None:
        object.__setattr__(self.held, name, value)

    def __delitem__(self, name: str) -> None:
        object.__delattr__(self.held, name)

    def __contains__(self, name: object) -> bool:
        return hasattr(self.held, str(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


class _OfClass(_Attributes):
    """The attributes of a class."""

    def __setitem__(self, name: str, value: object) -> None:
        setattr(self.held, name, value)

    def __delitem__(self, name: str) -> None:
        delattr(self.held, name)


class _Given(dict[str, Any]):
    """What a function was given beforehand, which nothing else can be put in the place of."""


class Surroundings:
    """What the places that a function can reach hold, at one moment."""

    def __init__(self, function: object, known: Sequence[Place], variables: Mapping[str, object]) -> None:
        skipped = {place.identity for place in known}
        found = (place for place in _reachable(function, variables) if place.identity not in skipped)
        self._held = [(place, value := place.read(), list(_contents(value, set()))) for place in found]

    def changed(self) -> list[Place]:
        """The places that hold something else by now, which is undone."""
        changed: list[Place] = []
        kept: list[tuple[Place, object]] = []
        for place, value, contents in self._held:
            others = [pair for pair in contents if not same_contents(_content(pair[0]), pair[1])]
            if place.read() is value and not others:
                continue
            gone_on = next((one for one, _ in others if isinstance(one, Iterator)), None)
            if gone_on is not None or isinstance(place.owner, _OfClass | _Given):
                kept.append((place, value if gone_on is None else gone_on))
            else:
                changed.append(place)
            place.write(value)
            for container, content in others:
                _refill(container, content)
        if kept:
            # No loop carries these: what is after the export would be what one iteration left there.
            place, value = kept[0]
            raise Unlike(f"it changes what is in `{place.name}`, {kind_of(value)}")
        return changed


def _reachable(function: object, variables: Mapping[str, object]) -> Iterator[Place]:
    waiting: list[tuple[object, str]] = [(function, ""), *((value, name) for name, value in variables.items())]
    seen: set[int] = set()
    while waiting:
        owner, path = waiting.pop()
        if id(owner) in seen:
            continue
        seen.add(id(owner))
        for place in _places(owner, path):
            yield place
            waiting.append((place.read(), place.name))
        if isinstance(owner, partial):
            waiting.append((owner.func, path))
        if isinstance(owner, MethodType):
            waiting += [(owner.__self__, path), (owner.__func__, path)]
        elif isinstance(owner, torch.nn.Module):
            waiting += [(child, f"{path}.{name}") for name, child in owner.named_children()]
        elif isinstance(owner, list | tuple | dict | set | deque):
            waiting += [(part, path) for part in _content(owner)[1:]]
        if isinstance(owner, torch.nn.Module) or _is_users_object(owner):
            waiting.append((type(owner), type(owner).__name__))


def _places(owner: object, path: str) -> Iterator[Place]:
    if isinstance(owner, FunctionType):
        for name, cell in zip(owner.__code__.co_freevars, owner.__closure__ or (), strict=True):
            yield Place(cell, name, name)
        if is_users_file(owner.__code__.co_filename):
            held = owner.__globals__
            yield from (Place(held, name, name) for name in sorted(_names_in(owner.__code__)) if name in held)
    elif isinstance(owner, torch.nn.Module):
        for table in (vars(owner), owner._buffers):
            yield from (Place(table, name, f"{path}.{name}") for name in table if name not in _OF_MODULES)
    elif isinstance(owner, type) and _is_of_user(owner):
        names = [name for name, value in vars(owner).items() if _is_data(name, value)]
        yield from (Place(_OfClass(owner, names), name, f"{path}.{name}") for name in names)
    elif isinstance(owner, partial):
        yield Place(_Given({path: (owner.args, owner.keywords)}), path, path)
    elif _is_users_object(owner):
        own = vars(owner) if hasattr(owner, "__dict__") else _Attributes(owner, _slots_of(type(owner)))
        yield from (Place(own, name, f"{path}.{name}") for name in own)


def _names_in(code: CodeType) -> set[str]:
    """The names in code that may be global ones, those of functions in it as well."""
    inner = (part for part in code.co_consts if isinstance(part, CodeType))
    return set(code.co_names).union(*map(_names_in, inner))


def _is_users_object(owner: object) -> bool:
    if isinstance(owner, type | FunctionType | ModuleType | tuple):
        return False
    is_users = _is_of_user(type(owner)) or isinstance(owner, SimpleNamespace)
    return is_users and (hasattr(owner, "__dict__") or bool(_slots_of(type(owner))))


def _is_of_user(kind: type) -> bool:
    module = sys.modules.get(kind.__module__)
    return module is not None and is_users_file(getattr(module, "__file__", ""))


def _slots_of(kind: type) -> list[str]:
    found = [vars(base).get("__slots__", ()) for base in kind.__mro__]
    return [name for names in found for name in ((names,) if isinstance(names, str) else names)]


def _is_data(name: str, value: object) -> bool:
    """Whether an attribute of a class is one that code may count in, and none that says what its objects do."""
    if name.startswith("__"):
        return False
    return value is None or isinstance(value, int | float | str | torch.Tensor | list | dict | set | deque | tuple)


def _contents(value: object, seen: set[int]) -> Iterator[tuple[object, list[Any]]]:
    """A value and the containers in it, with what is in each."""
    if id(value) in seen:
        return
    seen.add(id(value))
    content = _content(value)
    yield value, content
    if isinstance(value, list | tuple | dict):
        for part in content[1:]:
            if isinstance(part, list | tuple | dict) or has_contents(part):
                yield from _contents(part, seen)


def _content(value: object) -> list[Any]:
    """What is in a container, and how often a tensor was written to."""
    if isinstance(value, torch.Tensor):
        return [value._version]
    if isinstance(value, list):
        return [list, *(list.__getitem__(value, place) for place in range(list.__len__(value)))]
    if isinstance(value, tuple):
        # Those of this package make their items when they are first asked for.
        return [] if type(value).__module__.startswith(_PACKAGE) else [tuple, *value]
    if isinstance(value, dict):
        return [dict, *value.values(), *value]
    return [type(value), *contents_of(value)] if has_contents(value) else []


def _refill(value: object, content: Sequence[Any]) -> None:
    if isinstance(value, list):
        value[:] = content[1:]
    elif isinstance(value, dict):
        count = (len(content) - 1) // 2
        value.clear()
        value.update(zip(content[1 + count :], content[1 : 1 + count], strict=True))
    elif isinstance(value, set):
        value.clear()
        value.update(content[1:])
    elif isinstance(value, ListedTensor):
        value.refill(content[1:])
    elif isinstance(value, deque | bytearray):
        value.clear()
        value.extend(content[1:])
