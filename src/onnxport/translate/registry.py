"""The registry: which function translates which operator, checked against the operator's schema.

A translation is a plain function whose first parameter is the builder and whose other parameters are named as
in the ATen schema. Arguments that say where or how a tensor is stored mean nothing in ONNX and
may be left out; leaving out anything else is refused at import, so that no argument is ever silently ignored.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

from onnxport.torch_internals.operators import FunctionSchema, HigherOrderOperator, OpOverload, get_schema
from onnxport.translate.complex_parts import by_parts
from onnxport.translate.dims import Dim
from onnxport.translate.tensor import Tensor

Function = Callable[..., Any]
ForComplex = Literal["no", "same", "by_parts", "only"]
"""What a formula says of complex tensors: not for them, as it stands, once for each part, or for them alone."""
F = TypeVar("F", bound=Function)

STORAGE_ARGUMENTS = frozenset({"layout", "device", "pin_memory", "memory_format", "non_blocking", "generator", "copy"})


@dataclass(frozen=True)
class Translation:
    """A translation function and what the engine does before calling it.

    One of our ``own`` writes the same nodes whenever it sees the same; of a user's function that is not known.
    """

    function: Function
    promote: tuple[str, ...] = ()
    to_float: bool = False
    parameters: frozenset[str] = frozenset()
    own: bool = False

    @functools.cached_property
    def static(self) -> frozenset[str]:
        """The parameters that take fixed numbers only, by their annotations; resolved when first asked for."""
        annotations = annotations_of(self.function)
        return frozenset(name for name in self.parameters if wants_static_int(annotations.get(name)))


class Lookup(Protocol):
    """How the engine asks for a translation."""

    def __call__(self, target: object, of_complex: bool = False) -> Translation | None: ...


@dataclass
class Registry:
    """Translations by qualified operator name, ``aten::add.Tensor``; those for complex tensors apart."""

    translations: dict[str, Translation] = field(default_factory=dict)
    complex_translations: dict[str, Translation] = field(default_factory=dict)

    def add(self, names: Sequence[str], translation: Translation, complex: ForComplex = "no") -> None:
        """Register one translation for several overloads; each may have only one."""
        translation = dataclasses.replace(translation, own=True)
        for name in names:
            _check_against_schema(name, translation)
            if complex != "only":
                _add_once(self.translations, name, translation)
            if complex == "by_parts":
                _add_once(self.complex_translations, name, _by_parts(translation))
            elif complex != "no":
                _add_once(self.complex_translations, name, translation)

    def find(self, target: object, of_complex: bool = False) -> Translation | None:
        """The translation of an FX call target, for complex tensors if there are any among its arguments or results."""
        table = self.complex_translations if of_complex else self.translations
        if isinstance(target, OpOverload):
            return table.get(qualified_name(target))
        if isinstance(target, HigherOrderOperator):
            return self.translations.get(f"higher_order::{target.name()}")
        return None


def _add_once(table: dict[str, Translation], name: str, translation: Translation) -> None:
    if name in table:
        raise ValueError(f"{name} has two translations.")
    table[name] = translation


def _by_parts(translation: Translation) -> Translation:
    return Translation(by_parts(translation.function), parameters=translation.parameters, own=True)


REGISTRY = Registry()


def qualified_name(target: OpOverload) -> str:
    """``aten::add.Tensor``, and ``aten::relu`` for the default overload."""
    schema = target._schema
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name


def make_translation(function: Function, promote: Sequence[str] = (), to_float: bool = False) -> Translation:
    """Describe a function once, so that calls need not inspect it."""
    parameters = list(inspect.signature(function).parameters)[1:]
    return Translation(function, tuple(promote), to_float, frozenset(parameters))


def translates(
    *names: str, promote: Sequence[str] = (), to_float: bool = False, complex: ForComplex = "no"
) -> Callable[[F], F]:
    """Register the decorated function as the translation of the named overloads.

    ``promote`` names the parameters that are brought to their common dtype as tensors before the call;
    with ``to_float`` integers among them become floats. ``complex`` says whether the formula holds for complex
    tensors too ("same"), holds for each of their parts ("by_parts"), is the one for them ("only"), or is for real
    ones ("no").
    """

    def register(function: F) -> F:
        REGISTRY.add(names, make_translation(function, promote, to_float), complex)
        return function

    return register


def is_translated(find: Lookup, target: object, of_complex: bool = False) -> bool:
    """Whether a call of this target can be translated, with complex tensors among its own or without."""
    return find(target, of_complex) is not None


def one_node(op_type: str, *names: str, promote: Sequence[str] = (), to_float: bool = False) -> None:
    """Register operators that are one ONNX node of their tensor arguments, in order."""

    def emit(op: object, **arguments: Tensor) -> Tensor:
        return getattr(op, op_type)(*arguments.values())  # type: ignore[no-any-return]

    for name in names:
        schema = torch_schema(name)
        if schema is None:
            continue
        parameters = frozenset(argument.name for argument in schema.arguments)
        REGISTRY.add([name], Translation(emit, tuple(promote), to_float, parameters))


def torch_schema(name: str) -> FunctionSchema | None:
    """The schema of ``aten::add.Tensor`` if this torch has it (and the library that defines it is loaded)."""
    operator, _, overload = name.partition(".")
    try:
        return get_schema(operator, overload)
    except RuntimeError:
        # Absent in this version of torch, or defined by a library that is not imported: the look-up
        # by target can then never ask for it.
        return None


def _check_against_schema(name: str, translation: Translation) -> None:
    schema = torch_schema(name)
    if schema is None:
        return
    known = {argument.name for argument in schema.arguments}
    signature = inspect.signature(translation.function)
    if any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values()):
        return
    optional = {p.name for p in signature.parameters.values() if p.default is not p.empty}
    if unknown := translation.parameters - known - optional:
        raise TypeError(f"The translation of {name} has parameters its schema lacks: {sorted(unknown)}. {schema}")
    if ignored := known - translation.parameters - STORAGE_ARGUMENTS:
        raise TypeError(f"The translation of {name} ignores {sorted(ignored)}. {schema}")


def annotations_of(function: Function) -> dict[str, object]:
    """The annotations of a function as the types they name; those that only a type checker can read are left out."""
    while isinstance(function, functools.partial):
        function = function.func
    module = inspect.unwrap(function).__module__
    found: dict[str, object] = {}
    for name, annotation in inspect.get_annotations(function).items():
        resolved = _resolved(annotation, module) if isinstance(annotation, str) else annotation
        if resolved is not None:
            found[name] = resolved
    return found


@functools.cache
def _resolved(annotation: str, module: str) -> object | None:
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    try:
        resolved: object = typing.get_type_hints(holder, vars(sys.modules[module]))["it"]
    except (NameError, AttributeError, SyntaxError, TypeError):
        # A name that is imported for the type checker alone, or a sentence where a type is expected.
        return None
    return resolved


def wants_static_int(annotation: object) -> bool:
    """Whether a parameter's annotation says that run-time sizes can't be passed: of all numbers, it names int alone."""
    kinds = set(_types_in(annotation))
    return int in kinds and kinds.isdisjoint((Dim, Tensor, Any, float, complex))


def _types_in(annotation: object) -> Iterator[object]:
    inner = typing.get_args(annotation)
    if typing.get_origin(annotation) is Literal or not inner:
        yield annotation
    else:
        for part in inner:
            yield from _types_in(part)
