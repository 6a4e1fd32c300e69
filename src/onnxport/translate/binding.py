"""Binding: a call's arguments by the names of its operator's schema, defaults filled in."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

from onnxport.torch_internals.operators import SCALAR_TYPES, Argument, OpOverload

Parameter = tuple[int, str, object]


@functools.cache
def parameters_of(target: OpOverload, wanted: frozenset[str]) -> list[Parameter]:
    """The wanted parameters of an operator: position, name and default of each."""
    return [
        (position, argument.name, _default(argument) if argument.has_default_value() else None)
        for position, argument in enumerate(target._schema.arguments)
        if argument.name in wanted
    ]


def _default(argument: Argument) -> object:
    value: object = argument.default_value
    # Schemas that a library infers from Python functions state a dtype by its number.
    if type(value) is int and str(argument.real_type) == "ScalarType":
        return SCALAR_TYPES[value]
    return value


def signature_to_write(target: object) -> str:
    """The first line of a function that translates an operator.

    >>> import torch
    >>> from onnxport.translate.binding import signature_to_write
    >>> signature_to_write(torch.ops.aten.add.Tensor)
    'def add(op, self, other, alpha=1):'
    """
    if not isinstance(target, OpOverload):
        return "def translation(op, *args):"
    parameters = ["op"]
    for argument in target._schema.arguments:
        default = f"={_default(argument)!r}" if argument.has_default_value() else ""
        parameters.append(argument.name + default)
    return f"def {target._schema.name.partition('::')[2]}({', '.join(parameters)}):"


def bind_parameters(
    parameters: Sequence[Parameter],
    args: tuple[object, ...],
    kwargs: Mapping[str, object],
    read: Callable[[object], object],
) -> dict[str, object]:
    """The arguments of a call by name, each read by ``read``; what was not passed has its default.

    >>> import torch
    >>> from onnxport.translate.binding import bind_parameters, parameters_of
    >>> parameters = parameters_of(torch.ops.aten.add.Tensor, frozenset({"self", "alpha"}))
    >>> bind_parameters(parameters, (1, 2), {}, lambda value: value)
    {'self': 1, 'alpha': 1}
    """
    bound: dict[str, object] = {}
    given = len(args)
    for position, name, default in parameters:
        if position < given:
            bound[name] = read(args[position])
        elif name in kwargs:
            bound[name] = read(kwargs[name])
        else:
            bound[name] = default
    return bound
