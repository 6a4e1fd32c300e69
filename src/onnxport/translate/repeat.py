"""Calls that repeat: the layers of a model ask for the same nodes again and again, and a translation writes them twice.

The second time, what it wrote is kept as a recipe for calls of the same description: operator, numbers, and the dtypes
and shapes of tensors. That is all a translation sees as long as it looks at nothing else, and the builder notices if
it does: at the value behind a tensor, at run-time sizes, at the call itself. Such a translation is asked every time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import onnx_ir as ir
import torch

from onnxport.provenance import Provenance, provenance_of
from onnxport.translate.builder import Builder
from onnxport.translate.dims import Dim, Int
from onnxport.translate.tensor import Tensor

Slots = dict[ir.Value, int]
Reference = int | ir.Value | None
"""Where a value comes from: the arguments and then the outputs of earlier nodes, counted; or a literal; or nothing."""

_PLAIN = frozenset({int, bool, str, torch.dtype, Dim, type(None)})
_SHAREABLE = frozenset(
    {
        ir.AttributeType.INT,
        ir.AttributeType.INTS,
        ir.AttributeType.FLOAT,
        ir.AttributeType.FLOATS,
        ir.AttributeType.STRING,
    }
)


@dataclass(frozen=True, slots=True)
class Step:
    """One node of a recipe."""

    op_type: str
    domain: str
    version: int | None
    inputs: tuple[Reference, ...]
    attributes: tuple[ir.Attr, ...]
    outputs: tuple[tuple[ir.DataType, ir.Shape | None], ...]


@dataclass(frozen=True, slots=True)
class RecipeResult:
    """A tensor that a recipe gives."""

    value: Reference
    dtype: torch.dtype
    shape: tuple[Int, ...] | None


@dataclass(frozen=True, slots=True)
class Recipe:
    """The nodes of a call, and what it gives: one result, or a list with None for what is not computed."""

    steps: tuple[Step, ...]
    results: tuple[RecipeResult | None, ...]
    several: bool

    def follow(self, op: Builder, slots: Slots) -> Tensor | list[Tensor | None]:
        """Write the nodes for other arguments of the same description."""
        values: list[ir.Value] = list(slots)
        for step in self.steps:
            inputs = [values[x] if type(x) is int else x for x in step.inputs]
            outputs = [op.fresh_value(step.op_type, dtype, shape) for dtype, shape in step.outputs]
            node = op.append(step.op_type, inputs, step.attributes, outputs, step.domain)  # type: ignore[arg-type]
            if step.version is not None:
                node.version = step.version
            values += outputs
        results = [None if one is None else self._tensor(op, one, values) for one in self.results]
        return results if self.several else results[0]  # type: ignore[return-value]

    @staticmethod
    def _tensor(op: Builder, result: RecipeResult, values: Sequence[ir.Value]) -> Tensor:
        value = values[result.value] if type(result.value) is int else result.value
        assert isinstance(value, ir.Value)
        return Tensor(op, value, result.dtype, result.shape)


def seen_arguments(arguments: Iterable[object], slots: Slots) -> tuple[Hashable, ...] | None:
    """All that a translation may see of its arguments, or None where that is not known to be all.

    ``slots`` is filled with the values of the tensors among them. Two tensors of one value are told from two values.
    """
    parts: list[Hashable] = []
    for argument in arguments:
        kind = type(argument)
        if isinstance(argument, Tensor):
            value = argument._value
            stored = value.type
            # Sequences are seen by their type alone, and element types torch lacks by what stands for them in torch.
            if type(stored) is not ir.TensorType:
                return None
            slot = slots.setdefault(value, len(slots))
            parts.append((slot, stored.dtype, argument.dtype, argument.known_shape))
        elif kind in _PLAIN:
            # With its type, for 1 == True.
            parts.append((kind, argument))
        elif kind is float:
            # By its digits, for 0.0 == -0.0.
            parts.append((kind, repr(argument)))
        elif isinstance(argument, list):
            inner = seen_arguments(argument, slots)
            if inner is None:
                return None
            parts.append((kind, inner))
        else:
            return None
    return tuple(parts)


def record(slots: Slots, nodes: Sequence[ir.Node], provenance: Provenance | None, result: object) -> Recipe | None:
    """The recipe of a call that has just been translated to ``nodes``, if there can be one."""
    places = dict(slots)
    steps = []
    for node in nodes:
        step = _step(node, places)
        if step is None or node.metadata_props or provenance_of(node) is not provenance:
            return None
        steps.append(step)
        for output in node.outputs:
            places[output] = len(places)
    several = isinstance(result, list | tuple)
    results: list[RecipeResult | None] = []
    for one in result if isinstance(result, list | tuple) else [result]:
        if one is None:
            results.append(None)
            continue
        reference = _reference(one._value, places) if isinstance(one, Tensor) else None
        if not isinstance(one, Tensor) or reference is None:
            return None
        results.append(RecipeResult(reference, one.dtype, one.known_shape))
    return Recipe(tuple(steps), tuple(results), several)


def _step(node: ir.Node, places: Slots) -> Step | None:
    inputs = tuple([_reference(value, places) for value in node.inputs])
    attributes = tuple(node.attributes.values())
    outputs: list[tuple[ir.DataType, ir.Shape | None]] = []
    for output in node.outputs:
        kind, shape = output.type, output.shape
        if not isinstance(kind, ir.TensorType) or (shape is not None and not shape.frozen):
            return None
        outputs.append((kind.dtype, shape))
    lost = any(one is None and value is not None for one, value in zip(inputs, node.inputs, strict=True))
    if lost or any(attribute.type not in _SHAREABLE or attribute.is_ref() for attribute in attributes):
        return None
    return Step(node.op_type, node.domain, node.version, inputs, attributes, tuple(outputs))


def _reference(value: ir.Value | None, places: Slots) -> Reference:
    """Where a value is found again; None for one that another call has computed."""
    if value is None:
        return None
    if value in places:
        return places[value]
    return value if value.producer() is None and value.const_value is not None else None
