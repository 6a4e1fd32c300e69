"""Inputs for an ONNX file, by its own names, types and sizes, and running it with them."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import onnx_ir as ir
import torch

from onnxport.command_line.examples import Example, random_tensor
from onnxport.command_line.usage import UsageError
from onnxport.errors import InputError, OnnxExporterError, Problem
from onnxport.inspection import type_name
from onnxport.weights.dtypes import to_torch_dtype

Sizes = Mapping[str, int]
_FIRST_SIZE = 2
# For a second run: sizes that differ from each other and from those of the first.
_OTHER_SIZES = (3, 5, 7, 4, 6, 9, 8, 11)
_MOST_RUNS = 16


def varying_sizes(model: ir.Model) -> list[str]:
    """The names of the sizes that the inputs leave open."""
    dims = [dim for value in open_inputs(model) for dim in value.shape or () if isinstance(dim, ir.SymbolicDim)]
    return list(dict.fromkeys(name for dim in dims for name in sorted(dim.free_symbols())))


def open_inputs(model: ir.Model) -> list[ir.Value]:
    """The inputs that have to be given."""
    return [value for value in model.graph.inputs if value.name not in model.graph.initializers]


def parse_sizes(texts: Sequence[str], model: ir.Model, examples: Sequence[Example] = ()) -> list[dict[str, int]]:
    """The sizes to run at: all combinations of ``--size name=1,2,7``, and two of our own where there is none.

    What the examples say of a size goes for the inputs that are made beside them.

    Raises:
        InputError: It is no size of the model, or the examples have another.
        UsageError: It is not in its form, or there are too many.
    """
    known = varying_sizes(model)
    fixed = _sizes_of_examples(model, examples)
    given: dict[str, list[int]] = {}
    for text in texts:
        name, _, numbers = text.partition("=")
        if name not in known:
            raise UsageError(
                f"--size {text}: the inputs have no size {name!r}; they have {', '.join(known) or 'none'}."
            )
        if not all(number.isdecimal() for number in numbers.split(",")):
            raise UsageError(f"--size {text}: write name=number, or name=number,number to run at several.")
        given[name] = [int(number) for number in numbers.split(",")]
        if name in fixed and given[name] != [fixed[name]]:
            raise InputError(f"--size {text}: the inputs that are given have {name}={fixed[name]}.")
    first = {**dict.fromkeys(known, _FIRST_SIZE), **fixed}
    if not given:
        second = {**dict(zip(known, itertools.cycle(_OTHER_SIZES), strict=False)), **fixed}
        return [first, second] if second != first else [first]
    combined = [{**first, **dict(zip(given, sizes, strict=True))} for sizes in itertools.product(*given.values())]
    if len(combined) > _MOST_RUNS:
        raise UsageError(f"--size asks for {len(combined)} combinations, and {_MOST_RUNS} are run at most.")
    return combined


def _sizes_of_examples(model: ir.Model, examples: Sequence[Example]) -> dict[str, int]:
    """What examples say of sizes by their own; two that contradict each other are told when they are run."""
    return {
        dim.value: size
        for value, example in _matched(model, examples)
        if example is not None
        for dim, size in zip(value.shape or (), example.sizes, strict=False)
        if isinstance(dim, ir.SymbolicDim) and dim.value is not None and dim.value.isidentifier()
    }


def _matched(model: ir.Model, examples: Sequence[Example]) -> list[tuple[ir.Value, Example | None]]:
    """The inputs with the examples that are for them, by name or else in order."""
    unnamed = iter([example for example in examples if example.name is None])
    named = {example.name: example for example in examples if example.name is not None}
    return [(value, named.get(str(value.name)) or next(unnamed, None)) for value in open_inputs(model)]


def feeds_for(model: ir.Model, examples: Sequence[Example], sizes: Sizes) -> dict[str, torch.Tensor]:
    """A tensor for each input: the one that was described, or a random one of the input's own shape and type."""
    inputs = _matched(model, examples)
    names = [str(value.name) for value, _ in inputs]
    problems = [
        Problem(f"{example.name} is not an input", remedy=f"Inputs are {', '.join(names)}.")
        for example in examples
        if example.name is not None and example.name not in names
    ]
    generator = torch.Generator().manual_seed(0)
    feeds: dict[str, torch.Tensor] = {}
    for value, example in inputs:
        try:
            feeds[str(value.name)] = (
                _made(value, sizes, generator) if example is None else _typed(value, example, generator)
            )
        except InputError as error:
            problems.append(Problem(str(error)))
    taken = [example for _, example in inputs if example is not None and example.name is None]
    if len(taken) < sum(example.name is None for example in examples):
        problems.append(Problem(f"more inputs are given than the {len(inputs)} that there are"))
    if problems:
        raise InputError("The inputs do not fit the file.", problems)
    return feeds


def _typed(value: ir.Value, example: Example, generator: torch.Generator) -> torch.Tensor:
    """An example of the input's own type, where it was described by its shape alone."""
    if example.values is not None or example.dtype != torch.float32 or value.dtype is None:
        return example.tensor(generator)
    return random_tensor(example.sizes, to_torch_dtype(value.dtype), generator)


def _made(value: ir.Value, sizes: Sizes, generator: torch.Generator) -> torch.Tensor:
    if not isinstance(value.type, ir.TensorType) or value.type.dtype is ir.DataType.STRING:
        raise InputError(f"{value.name} is a {type_name(value.type)}, of which none can be made")
    if value.shape is None or any(isinstance(dim, ir.SymbolicDim) and dim.value is None for dim in value.shape):
        raise InputError(f"the shape of {value.name} is not known: give it with --input {value.name}=size,size,...")
    found: list[int] = []
    for dim in value.shape:
        size = dim if isinstance(dim, int) else dim.evaluate(sizes)
        if not isinstance(size, int) or size < 0:
            raise InputError(f"the size {dim} of {value.name} is not a number at {dict(sizes)}")
        found.append(size)
    return random_tensor(found, to_torch_dtype(value.type.dtype), generator)


@contextlib.contextmanager
def in_onnxruntime(file: Path) -> Iterator[None]:
    """Run a file in the block; what onnxruntime raises becomes one sentence."""
    try:
        yield
    except OnnxExporterError:
        raise
    except Exception as error:
        # onnxruntime has no base class of its own.
        (*_, last) = [line for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
        raise OnnxExporterError(f"onnxruntime can't run {file}: {last.strip()}") from error
