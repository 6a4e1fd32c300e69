"""The registry: which function translates which operator, checked against the operator's schema.

A translation is a plain function whose first parameter is the builder and whose other parameters are named as
in the ATen schema. Arguments that say where or how a tensor is stored mean nothing in ONNX and
may be left out; leaving out anything else is refused at import, so that no argument is ever silently ignored.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

from onnxport.torch_internals.operators import FunctionSchema, HigherOrderOperator, OpOverload, get_schema
from onnxport.translate.tensor import Tensor

Function = Callable[..., Any]
ForComplex = Literal["no", "same", "only"]
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
    static: frozenset[str] = frozenset()
    own: bool = False


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
        tables = [] if complex == "only" else [self.translations]
        if complex != "no":
            tables.append(self.complex_translations)
        for name in names:
            _check_against_schema(name, translation)
            translation = dataclasses.replace(translation, own=True)
            for table in tables:
                if name in table:
                    raise ValueError(f"{name} has two translations.")
                table[name] = translation

    def find(self, target: object, of_complex: bool = False) -> Translation | None:
        """The translation of an FX call target, for complex tensors if there are any among its arguments or results."""
        table = self.complex_translations if of_complex else self.translations
        if isinstance(target, OpOverload):
            return table.get(qualified_name(target))
        if isinstance(target, HigherOrderOperator):
            return self.translations.get(f"higher_order::{target.name()}")
        return None


REGISTRY = Registry()


def qualified_name(target: OpOverload) -> str:
    """``aten::add.Tensor``, and ``aten::relu`` for the default overload."""
    schema = target._schema
    return f"{schema.name}.{schema.overload_name}" if schema.overload_name else schema.name


def make_translation(function: Function, promote: Sequence[str] = (), to_float: bool = False) -> Translation:
    """Describe a function once, so that calls need not inspect it."""
    parameters = list(inspect.signature(function).parameters.values())[1:]
    static = {p.name for p in parameters if wants_static_int(p.annotation)}
    return Translation(function, tuple(promote), to_float, frozenset(p.name for p in parameters), frozenset(static))


def translates(
    *names: str, promote: Sequence[str] = (), to_float: bool = False, complex: ForComplex = "no"
) -> Callable[[F], F]:
    """Register the decorated function as the translation of the named overloads.

    ``promote`` names the parameters that are brought to their common dtype as tensors before the call;
    with ``to_float`` integers among them become floats. ``complex`` says whether the formula holds for complex
    tensors too ("same"), is the one for them ("only"), or is for real ones ("no").
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

    def emit(op: Any, **arguments: Tensor) -> Tensor:
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


def wants_static_int(annotation: object) -> bool:
    """Whether a parameter's annotation says that run-time sizes can't be passed."""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return bool(re.search(r"\bint\b", text)) and not re.search(r"\b(Int|Tensor|Any|Number)\b", text)
