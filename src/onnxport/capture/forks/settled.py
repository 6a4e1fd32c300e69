"""Truths of tensors that no input changes, and which are no decisions therefore.

``nn.TransformerDecoder`` compares the mask that it is given with a causal one: ``if (mask == causal).all()``. A mask
that the model makes itself is computed of numbers in the code. Where its sizes are known, so is the truth; where they
vary, both sides may still be computed alike. A buffer of the model is what it is when the model is exported
(``while self.steps[i] < 0.5``).
"""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.fx import Node

from onnxport.capture.patches.weight_attributes import stand_ins_told
from onnxport.torch_internals.fake_tensors import FakeTensor, disable_current_modes
from onnxport.torch_internals.operators import OpOverload, aliased_arguments
from onnxport.torch_internals.symbolic_sizes import recorded_call, recorded_constant, recorded_tensor

aten = torch.ops.aten

# Beyond this, computing a truth while capturing is not for nothing.
_MOST_ELEMENTS = 1 << 20
_MOST_CALLS = 64

# What a truth passes through unchanged on its way to Python, but for the form it has.
_FORMS: frozenset[object] = frozenset(
    {aten.item.default, aten._local_scalar_dense.default, aten._to_copy.default, aten.clone.default, aten.alias.default}
)
# From numbers without NaN these make tensors without.
_PLACING: frozenset[object] = frozenset(
    {
        *(aten.full.default, aten.zeros.default, aten.ones.default, aten.scalar_tensor.default),
        *(aten.arange.default, aten.arange.start, aten.arange.start_step),
        *(aten.triu.default, aten.tril.default, aten.unsqueeze.default, aten.squeeze.dim, aten.expand.default),
        *(aten.view.default, aten.reshape.default, aten.transpose.int, aten.permute.default, aten.t.default),
        *(aten.slice.Tensor, aten.select.int, aten.clone.default, aten._to_copy.default, aten.alias.default),
    }
)

_OF_THE_TENSOR = ("dtype", "layout", "device", "pin_memory")

#: What stands in for the buffers of the model in the run, with the buffers.
_buffers: list[tuple[torch.Tensor, torch.Tensor]] = []


@contextlib.contextmanager
def buffers_known(model: object) -> Iterator[None]:
    """While this is open, truths may be computed of the buffers that a model has."""
    held = [
        (module, name, buffer)
        for module in (model.modules() if isinstance(model, torch.nn.Module) else ())
        for name, buffer in module._buffers.items()
        if type(buffer) is torch.Tensor and buffer.device.type != "meta"
    ]
    if not held:
        yield
        return

    def note() -> None:
        stand_ins = [(module._buffers.get(name), buffer) for module, name, buffer in held]
        _buffers[:] = [(one, buffer) for one, buffer in stand_ins if isinstance(one, FakeTensor)]

    with stand_ins_told(note):
        try:
            yield
        finally:
            _buffers.clear()


def settled_truth(condition: torch.SymBool) -> bool | None:
    """The truth of a condition on data that is the same for all inputs; None where they may change it."""
    node = recorded_call(condition)
    if node is None:
        return None
    known = _known_values(node)
    computed = _computed_of_numbers(node, known)
    if not (computed or _equals_itself(node)) or _is_written_to(node):
        return None
    return bool(_value(node, known)) if computed else True


def _known_values(node: Node) -> dict[Node, Any]:
    """The buffers among the inputs of the graph, and tensors that the model's code holds."""
    given = [each for each in _leading_to(node) if each.op in ("placeholder", "get_attr")]
    known = {each: constant for each in given if (constant := recorded_constant(each)) is not None}
    if len(known) < len(given):
        found = ((recorded_tensor(stand_in), buffer) for stand_in, buffer in _buffers)
        known |= {input: buffer for input, buffer in found if input is not None and input.op == "placeholder"}
    return known


def _leading_to(node: Node) -> set[Node]:
    """A call and all that leads to it."""
    seen = {node}
    left = [node]
    while left:
        fresh = set(left.pop().all_input_nodes) - seen
        seen |= fresh
        left += fresh
    return seen


def _computed_of_numbers(node: Node, known: dict[Node, Any]) -> bool:
    """Whether all that leads to a call is known or computed of plain numbers, and little enough to compute it now."""
    calls = _leading_to(node)
    if len(calls) > _MOST_CALLS:
        return False
    return all((call in known or _is_repeatable(call)) and _is_small(call) for call in calls)


def _is_written_to(node: Node) -> bool:
    """Whether a call has written to anything that leads to a truth, perhaps through a view of it."""
    parts = _leading_to(node)
    writes = (call for call in node.graph.nodes if call.op == "call_function" and _is_write(call))
    return any(
        not parts.isdisjoint(_leading_to(into)) for call in writes for into in aliased_arguments(call, written=True)
    )


def _is_write(call: Node) -> bool:
    schema = getattr(call.target, "_schema", None)
    return schema is not None and bool(schema.is_mutable)


def _is_repeatable(call: Node) -> bool:
    """Whether a call is an operator that gives the same each time."""
    target = call.target
    if target is operator.getitem:
        return True
    if call.op != "call_function" or not isinstance(target, OpOverload) or target.namespace != "aten":
        return False
    return not _is_write(call) and torch.Tag.nondeterministic_seeded not in target.tags


def _is_small(call: Node) -> bool:
    value = call.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return True
    return all(isinstance(size, int) for size in value.shape) and math.prod(value.shape) <= _MOST_ELEMENTS


def _value(node: Node, known: dict[Node, Any]) -> Any:
    """Compute a call and what leads to it."""
    for each in node.all_input_nodes:
        if each not in known:
            known[each] = _value(each, known)
    args, kwargs = torch.fx.map_arg((node.args, dict(node.kwargs)), lambda one: known[one])
    compute: Callable[..., Any] = node.target  # type: ignore[assignment]
    with disable_current_modes():
        return compute(*args, **kwargs)


def _equals_itself(node: Node) -> bool:
    """Whether a call tells that all elements of two tensors are equal which are computed alike, and are no NaN."""
    node = _without_forms(node)
    if node.target is not aten.all.default or not isinstance(node.args[0], Node):
        return False
    compared = _without_forms(node.args[0])
    return (
        compared.target is aten.eq.Tensor
        and _is_same(compared.args[0], compared.args[1])
        and _is_without_nan(compared.args[0])
    )


def _without_forms(node: Node) -> Node:
    while True:
        is_truth = node.target is aten.ne.Scalar and node.args[1] == 0
        if not (is_truth or node.target in _FORMS) or not isinstance(node.args[0], Node):
            return node
        node = node.args[0]


def _is_same(one: object, other: object) -> bool:
    """Whether two arguments of calls are equal, or computed by equal calls."""
    if isinstance(one, Node) and isinstance(other, Node):
        if one is other or _is_same_size(one.meta.get("val"), other.meta.get("val")):
            return True
        called = one.op == other.op == "call_function" and one.target is other.target and _is_repeatable(one)
        return called and _dtype(one) == _dtype(other) and _is_same(_given(one), _given(other))
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_is_same, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_is_same(value, other[name]) for name, value in one.items())
    return type(one) is type(other) and one == other


def _dtype(node: Node) -> object:
    return getattr(node.meta.get("val"), "dtype", None)


def _given(node: Node) -> tuple[object, ...]:
    """The arguments of a call, without those that say of which type a tensor is made, and where."""
    others = {name: value for name, value in node.kwargs.items() if name not in _OF_THE_TENSOR}
    return (*node.args, others)


def _is_same_size(one: object, other: object) -> bool:
    return isinstance(one, torch.SymInt) and isinstance(other, torch.SymInt) and bool(one.node.expr == other.node.expr)


def _is_without_nan(argument: object) -> bool:
    if isinstance(argument, Node):
        if isinstance(argument.meta.get("val"), torch.SymInt):
            return True
        return argument.target in _PLACING and all(map(_is_without_nan, [*argument.args, *argument.kwargs.values()]))
    if isinstance(argument, list | tuple):
        return all(map(_is_without_nan, argument))
    return not isinstance(argument, float) or not math.isnan(argument)
