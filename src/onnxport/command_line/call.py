"""The call that a model is exported with: the model in the element type that was asked for, and its arguments."""

from __future__ import annotations

import inspect
import json
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from onnxport.command_line.examples import Example, parse_dtype, read_examples
from onnxport.command_line.models import TorchModel
from onnxport.command_line.usage import UsageError
from onnxport.errors import InputError


@dataclass(frozen=True)
class ExampleCall:
    """A model and the arguments of one call of it."""

    model: TorchModel
    args: tuple[object, ...]
    kwargs: dict[str, object]
    dynamic_shapes: dict[str, object] | tuple[object, ...] | None


def example_call(
    model: TorchModel,
    reference: str,
    inputs: Sequence[str],
    dynamic: Sequence[str],
    kwargs: str | None,
    dtype_name: str | None,
) -> ExampleCall:
    """Put a call together from what the options say.

    Raises:
        InputError: The model needs arguments that are not given, or takes others.
        UsageError: An option is not in its form.
    """
    dtype = None if dtype_name is None else parse_dtype(dtype_name, f"--dtype {dtype_name}")
    examples = read_examples(inputs, dynamic, dtype)
    generator = torch.Generator().manual_seed(0)
    tensors = [(example.name, example.tensor(generator)) for example in examples]
    named: dict[str, object] = {name: tensor for name, tensor in tensors if name is not None}
    args = tuple(tensor for name, tensor in tensors if name is None)
    named.update(_parsed(kwargs))
    if isinstance(model, torch.nn.Module):
        _check_given(model, reference, len(args), named)
        model = model if dtype is None else model.to(dtype)
    elif dtype is not None:
        raise InputError(f"--dtype {dtype_name}: {reference} is a captured program, whose element types are fixed.")
    return ExampleCall(model, args, named, _dynamic_shapes(model, reference, examples, named))


def _dynamic_shapes(
    model: TorchModel, reference: str, examples: Sequence[Example], named: dict[str, object]
) -> dict[str, object] | tuple[object, ...] | None:
    """The axes that vary, as ``export`` takes them: in order where no input has a name, else by name."""
    if not any(example.labels for example in examples):
        return None
    unnamed = [example for example in examples if example.name is None]
    if not named:
        return tuple(example.labels for example in unnamed)
    if unnamed and (not isinstance(model, torch.nn.Module) or isinstance(model, torch.jit.ScriptModule)):
        raise UsageError("Name all inputs or none of them: the axes that vary are declared by name, or in order.")
    parameters = _parameters(model) if isinstance(model, torch.nn.Module) and unnamed else []
    shapes: dict[str, object] = {one.name: example.labels for one, example in zip(parameters, unnamed, strict=False)}
    twice = [name for name in named if name in shapes]
    if twice:
        raise InputError(f"{reference}: {', '.join(twice)} is given twice, by its name and in order.")
    labels = {example.name: example.labels for example in examples}
    return {**shapes, **{name: labels.get(name) for name in named}}


def _parameters(model: torch.nn.Module) -> list[inspect.Parameter]:
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [one for one in inspect.signature(model.forward).parameters.values() if one.kind not in variable]


def _parsed(text: str | None) -> dict[str, object]:
    try:
        found = {} if text is None else json.loads(text)
    except ValueError as error:
        raise UsageError(f"--kwargs {text}: not JSON: {error}.") from error
    if not isinstance(found, dict):
        raise UsageError(f'--kwargs {text}: write an object, as in {{"use_cache": false}}.')
    return found


def _check_given(model: torch.nn.Module, reference: str, positional: int, named: dict[str, object]) -> None:
    """Say which inputs are missing before torch fails at the call."""
    if isinstance(model, torch.jit.ScriptModule):
        return
    missing = [
        one.name for one in _parameters(model)[positional:] if one.default is one.empty and one.name not in named
    ]
    variable = any(one.kind is one.VAR_KEYWORD for one in inspect.signature(model.forward).parameters.values())
    known = [one.name for one in _parameters(model)]
    unknown = [name for name in named if name not in known]
    if unknown and not variable:
        raise InputError(f"{reference} takes {', '.join(known)}; {', '.join(unknown)} is none of its inputs.")
    if missing:
        examples = " ".join(f"--input {name}=batch@2,3" for name in missing)
        raise InputError(f"{reference} takes {', '.join(missing)}, of which there is no example: {examples}")
