"""The user's own translations: which operator a key of the table means, and how a value is called.

A value is a function of ours (its first parameter is ``op``), an ONNX Script function, or a list of such from which
each call takes the first that fits its arguments.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch

from onnxport.capture.diagnosis.user_lines import line_of_error, line_of_function
from onnxport.errors import ArgumentTypeError, OnnxExporterError, Problem, TranslationError
from onnxport.torch_internals.operators import CustomOpDef, OpOverload, OpOverloadPacket
from onnxport.translate.binding import signature_to_write
from onnxport.translate.builder import Builder
from onnxport.translate.dims import Dim
from onnxport.translate.emitted_nodes import fault_of_nodes
from onnxport.translate.registry import (
    REGISTRY,
    STORAGE_ARGUMENTS,
    Lookup,
    Translation,
    annotations_of,
    wants_static_int,
)
from onnxport.translate.script import element_types, is_script, script_function, traced_function
from onnxport.translate.tensor import Tensor

_NUMBERS = {int: torch.int64, float: torch.float64, bool: torch.bool}
_PLAIN = {int, float, bool, str}


def lookup(
    custom: Mapping[object, object] | None = None, registered: Lookup | None = None, kept: Lookup | None = None
) -> Lookup:
    """A look-up of translations by call target, with the user's own before the built-in ones.

    Those passed for this export come first, then those ``registered`` for all of them. Operators that none of them
    knows are ``kept`` as they are, if that was asked for.

    A key is an operator (``torch.ops.mylib.op``), one overload of it, what ``torch.library.custom_op`` made, or
    the Python function in the graph.
    """
    own: dict[object, Translation] = {}
    table = {} if custom is None else custom
    # One overload is more to the point than its operator, wherever in the table it stands.
    for key in sorted(table, key=lambda key: not isinstance(key, OpOverloadPacket)):
        value = table[key]
        several = isinstance(value, list | tuple) and len(value) > 1
        variants = [_variant(one, several) for one in (value if isinstance(value, list | tuple) else [value])]
        for target in _targets(key):
            own[target] = _translation(target, variants)

    @functools.cache
    def find(target: object, of_complex: bool = False) -> Translation | None:
        found = own.get(target)
        if found is None and registered is not None:
            found = registered(target, of_complex)
        if found is None:
            found = REGISTRY.find(target, of_complex)
        return kept(target, of_complex) if found is None and kept is not None else found

    return find


def _targets(key: object) -> Iterator[object]:
    if isinstance(key, OpOverloadPacket):
        yield from (getattr(key, overload) for overload in key.overloads())
    elif isinstance(key, CustomOpDef):
        yield key._opoverload
    elif callable(key):
        yield key
    else:
        raise ArgumentTypeError(
            f"A key of `custom_translation_table` is an operator such as torch.ops.mylib.op, not {key!r}."
        )


@dataclass(frozen=True)
class Variant:
    """One translation: what it is called, the parameters behind the builder, and how to call it."""

    name: str
    function: object
    parameters: tuple[inspect.Parameter, ...]
    emit: Callable[..., object]
    refuses: Callable[[str, object], str | None]


@dataclass(frozen=True)
class Argument:
    """An argument of a call: its name in the schema, and whether it is what it is by default."""

    name: str
    value: object
    is_default: bool


def _variant(value: object, is_one_of_several: bool) -> Variant:
    if not callable(value):
        raise ArgumentTypeError(f"A value of `custom_translation_table` is a function that emits ONNX, not {value!r}.")
    name = getattr(value, "__name__", repr(value))
    if is_script(value):
        script = script_function(value)
        return Variant(name, value, tuple(script.parameters), script.emit, script.refuses)
    try:
        parameters = tuple(inspect.signature(value).parameters.values())
    except ValueError as error:
        raise ArgumentTypeError(
            f"The parameters of {name} in `custom_translation_table` can't be told: {error}"
        ) from error
    if parameters and parameters[0].name == "op":
        return Variant(name, value, parameters[1:], value, _refusal(value, is_one_of_several))
    return Variant(name, value, parameters, traced_function(value), _refusal(value, is_one_of_several))


def _refusal(function: Callable[..., object], by_element_type: bool) -> Callable[[str, object], str | None]:
    """Why a value can't be given to a parameter, by the annotations of the function.

    Element types choose among several functions. Of a function that stands alone they are taken as a remark, as in
    torch.onnx: people write FLOAT for whatever comes.
    """
    annotations = annotations_of(function)

    def refuses(name: str, value: object) -> str | None:
        annotation = annotations.get(name)
        if annotation in (Tensor, torch.Tensor) and not isinstance(value, Tensor):
            return f"`{name}` is a tensor, but here it is {value!r}"
        if isinstance(annotation, type) and annotation in _PLAIN and (isinstance(value, Tensor) or value is None):
            return f"`{name}` is of type {annotation.__name__}, but here it is {value!r}"
        if wants_static_int(annotation) and _has_dim(value):
            return f"`{name}` must be a fixed number, but here it depends on a run-time size ({value})"
        allowed = element_types(annotation) if by_element_type else None
        if allowed and isinstance(value, Tensor) and value.value.dtype not in allowed:
            return f"`{name}` may not be of {value.dtype}"
        return None

    return refuses


def _has_dim(value: object) -> bool:
    return isinstance(value, Dim) or (isinstance(value, list) and any(isinstance(item, Dim) for item in value))


def _translation(target: object, variants: Sequence[Variant]) -> Translation:
    if not isinstance(target, OpOverload):

        def call(op: Builder, *args: object, **kwargs: object) -> object:
            values = [*(("", value) for value in args), *kwargs.items()]
            return _call(op, variants, [Argument(name, _as_tensor(op, value), False) for name, value in values])

        return Translation(call)

    defaults = {a.name: a.default_value if a.has_default_value() else None for a in target._schema.arguments}

    def call_by_schema(op: Builder, **bound: object) -> object:
        return _call(op, variants, [Argument(k, v, _same(v, defaults[k])) for k, v in bound.items()])

    return Translation(call_by_schema, parameters=frozenset(defaults))


def _as_tensor(op: Builder, value: object) -> object:
    """A run-time number of the graph as a 0-d tensor: a function that stands for arithmetic gets its operands."""
    return op.scalar(value, _NUMBERS[value.kind]) if isinstance(value, Dim) else value


def _same(value: object, default: object) -> bool:
    return type(value) is type(default) and value == default


def _call(op: Builder, variants: Sequence[Variant], arguments: Sequence[Argument]) -> object:
    reasons = []
    for variant in variants:
        fitted = _fit(variant, arguments)
        if not isinstance(fitted, str):
            args, kwargs = fitted
            return _emitted(op, variant, args, kwargs)
        reasons.append(f"{variant.name}: {fitted}")
    assert op.translated is not None
    subject = "the custom translation does not fit" if len(reasons) == 1 else "none of the custom translations fits"
    what = f"{op.translated.target}: {subject} this call. {'; '.join(reasons)}."
    remedy = f"Such a function begins with `{signature_to_write(op.translated.target)}`; fewer parameters will do."
    raise TranslationError.about(Problem(what, line_of_function(variants[0].function), remedy))


def _emitted(op: Builder, variant: Variant, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
    """What the user's function emits. What is wrong with it is said with its own line."""
    assert op.translated is not None
    remedy = "The model is not to blame: correct the function in `custom_translation_table`."
    start = len(op.nodes)
    try:
        result = variant.emit(op, *args, **kwargs)
    except OnnxExporterError:
        raise
    except Exception as error:
        told = f"{error}" if isinstance(error, AssertionError) else f"{type(error).__name__}: {error}"
        what = f"The translation `{variant.name}` of {op.translated.target} failed: {told}"
        if "must be Tensor, not Tensor" in told:
            remedy = "Its arguments are values of the ONNX graph: compute with `op`, as op.Mul(x, y), not with torch."
        raise TranslationError.about(Problem(what, line_of_error(error), remedy)) from error
    expected = op.translated.meta.get("val")
    results = result if isinstance(result, list | tuple) else [result]
    values = expected if isinstance(expected, list | tuple) else [expected]
    count, wanted = len(results), len(values)
    if wanted and (result is None or count != wanted):
        returned = "None" if result is None else f"{count} value(s)"
        what = f"The translation `{variant.name}` of {op.translated.target} returned {returned}"
        remedy = f"It has to return {'the tensor' if wanted == 1 else f'the {wanted} tensors'} that it makes with `op`."
        raise TranslationError.about(Problem(what, line_of_function(variant.function), remedy))
    fault = fault_of_nodes(op.nodes[start:], results, values)
    if fault is not None:
        what = f"The translation `{variant.name}` of {op.translated.target} emits what ONNX does not take: {fault}"
        raise TranslationError.about(Problem(what, line_of_function(variant.function), remedy))
    return result if isinstance(expected, list | tuple) else results[0]


def _fit(variant: Variant, arguments: Sequence[Argument]) -> tuple[list[object], dict[str, object]] | str:
    """How to pass a call's arguments, by name if the names are the schema's and by position if not, or why not."""
    named = {argument.name: argument for argument in arguments if argument.name}
    kinds = inspect.Parameter
    plain = [p for p in variant.parameters if p.kind not in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD)]
    all_positional = any(p.kind is kinds.VAR_POSITIONAL for p in variant.parameters)
    all_named = any(p.kind is kinds.VAR_KEYWORD for p in variant.parameters)
    required = [p for p in plain if p.default is p.empty]
    given: list[tuple[str, object]] = []
    args: list[object] = []
    taken: set[int] = set()
    by_name = not all_positional and len(named) == len(arguments) and all(p.name in named for p in required)
    rest = plain
    if not by_name:
        rest = [p for p in plain if p.kind is kinds.KEYWORD_ONLY]
        positional = [p for p in plain if p.kind is not kinds.KEYWORD_ONLY]
        values = [argument for argument in arguments if argument.name not in {p.name for p in rest}]
        needed = [p for p in positional if p.default is p.empty]
        if len(needed) > len(values):
            return f"it takes {len(needed)} arguments, but the operator has {len(values)}"
        if not all_positional:
            values = values[: len(positional)]
        args = [argument.value for argument in values]
        taken.update(id(argument) for argument in values)
        given += [(p.name, argument.value) for p, argument in zip(positional, values, strict=False)]
    if missing := [p.name for p in rest if p.default is p.empty and p.name not in named]:
        return f"it takes {', '.join(f'`{name}`' for name in missing)}, which the operator has not"
    kwargs = {p.name: named[p.name].value for p in rest if p.name in named}
    given += kwargs.items()
    taken.update(id(named[name]) for name in kwargs)
    left = [argument for argument in arguments if id(argument) not in taken]
    if all_named:
        kwargs.update((argument.name, argument.value) for argument in left)
        left = []
    for argument in left:
        if not argument.is_default and argument.name not in STORAGE_ARGUMENTS:
            name = f"`{argument.name}`" if argument.name else "an argument"
            return f"it does not take {name}, which is {argument.value!r} here"
    reasons = (variant.refuses(name, value) for name, value in given)
    return next((reason for reason in reasons if reason is not None), (args, kwargs))
