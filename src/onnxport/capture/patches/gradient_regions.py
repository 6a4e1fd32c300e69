"""What lies between the inputs and the outputs of a gradient, in the graph that is being recorded.

Gradients flow along calls that give numbers with a fraction, under enabled gradients, and not through ``detach``. A
tensor that is written to has one memory under several names: who reads it depends on the last write.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from onnxport.errors import CaptureError
from onnxport.torch_internals import pytree
from onnxport.torch_internals.gradients import enter_autocast, set_grad_enabled
from onnxport.torch_internals.operators import (
    OpOverload,
    add_batch_dim,
    aliased_arguments,
    remove_batch_dim,
    vmap_decrement_nesting,
    vmap_increment_nesting,
)
from onnxport.torch_internals.transforms import transform_under_way

_Node = torch.fx.Node
_DETACHING = (torch.ops.aten.detach.default, torch.ops.aten.detach_.default)
# Where calls that map state how many mappings they are in.
_LEVELS: dict[object, int] = {add_batch_dim: 2, remove_batch_dim: 1}


@dataclass(frozen=True)
class DifferentiatedCalls:
    """The calls to run again, in order, and the results of others that they read.

    ``enabled`` has those of the calls that run with gradients, ``used`` the outputs that depend on an input.
    """

    calls: Sequence[_Node]
    enabled: frozenset[_Node]
    read: Sequence[_Node]
    used: frozenset[_Node]
    around: Mapping[_Node, int]

    def arguments(self, node: _Node) -> tuple[Any, ...]:
        """The arguments of a call. The mappings around these calls, whose number is ``around``, are not entered."""
        place = _LEVELS.get(node.target)
        if place is None or not isinstance(node.args[place], int):
            return node.args
        level = node.args[place] - self.around[node]  # type: ignore[operator]
        return (*node.args[:place], level, *node.args[place + 1 :])


def calls_between(
    graph: torch.fx.Graph, inputs: Sequence[_Node], outputs: Sequence[_Node], *, grad: bool
) -> DifferentiatedCalls:
    """The calls through which outputs depend on inputs. ``grad`` is whether gradients were enabled at first."""
    facts = _Facts(graph, inputs, grad)
    wanted = {node for node in outputs if node in facts.flowing}
    calls = _ancestors(wanted, facts) - {node for node in inputs if facts.sources[node].isdisjoint(facts.flowing)}
    calls |= set(_mapped_with(calls, facts.order))
    calls |= _written_anew(calls, facts)
    read = dict.fromkeys(source for node in facts.order if node in calls for source in node.all_input_nodes)
    outside = [node for node in read if node not in calls]
    _check(calls, [*outside, *(node for node in inputs if node not in calls)], facts)
    return DifferentiatedCalls(
        [node for node in facts.order if node in calls],
        frozenset(facts.enabled & calls),
        outside,
        frozenset(wanted),
        dict(_mappings_around(calls, facts.order)),
    )


class _Facts:
    """One walk over the graph: whose memory a result is, on what it depends, and whether a gradient flows to it."""

    def __init__(self, graph: torch.fx.Graph, inputs: Iterable[_Node], grad: bool) -> None:
        self.order = list(graph.nodes)
        self.place = {node: index for index, node in enumerate(self.order)}
        self.memory: dict[_Node, _Node] = {}
        self.writes: dict[_Node, list[_Node]] = {}
        self.sources: dict[_Node, set[_Node]] = {}
        self.flowing = set(inputs)
        self.enabled: set[_Node] = set()
        for node in self.order:
            if node.target is set_grad_enabled:
                grad = bool(node.args[0])
            self._note(node, grad)

    def _note(self, node: _Node, grad: bool) -> None:
        self.sources[node] = set(node.all_input_nodes)
        for source in node.all_input_nodes:
            self.sources[node].update(self.writes.get(self.memory[source], ())[-1:])
        shared, written = _aliased(node)
        self.memory[node] = self.memory[shared] if shared is not None else node
        for changed in written:
            self.writes.setdefault(self.memory[changed], []).append(node)
        if grad:
            self.enabled.add(node)
            if _has_fractions(node) and node.target not in _DETACHING and self.sources[node] & self.flowing:
                self.flowing.add(node)


def _aliased(node: _Node) -> tuple[_Node | None, list[_Node]]:
    """The argument whose memory the result has, and the arguments that the call writes to."""
    if node.target is operator.getitem:
        first = node.args[0]
        return (first if isinstance(first, _Node) else None), []
    if not isinstance(node.target, OpOverload):
        return None, []
    return next(iter(aliased_arguments(node)), None), aliased_arguments(node, written=True)


def is_write(node: _Node) -> bool:
    """Whether a call writes to one of its arguments."""
    return bool(_aliased(node)[1])


def _has_fractions(node: _Node) -> bool:
    value = node.meta.get("val")
    return _is_fractional(value) if isinstance(value, torch.Tensor) else isinstance(value, list | tuple)


def _is_fractional(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _ancestors(nodes: Iterable[_Node], facts: _Facts) -> set[_Node]:
    """All calls to which a gradient flows and on which these depend, with these."""
    found, waiting = set(nodes), list(nodes)
    while waiting:
        for source in facts.sources[waiting.pop()]:
            if source in facts.flowing and source not in found:
                found.add(source)
                waiting.append(source)
    return found


def _mapped_with(calls: set[_Node], order: Sequence[_Node]) -> Iterator[_Node]:
    """All calls of the mappings (``torch.vmap``) that were entered and left since, and have a call of these inside."""
    entered: list[list[_Node]] = []
    for node in order:
        if node.target is vmap_increment_nesting:
            entered.append([])
        for mapping in entered:
            mapping.append(node)
        if node.target is vmap_decrement_nesting and entered:
            mapping = entered.pop()
            if not calls.isdisjoint(mapping):
                # What torch notes of results leaves calls behind that nobody reads.
                yield from (one for one in mapping if one.op == "call_function" and not _is_unread_detach(one))


def _is_unread_detach(node: _Node) -> bool:
    return node.target in _DETACHING and not node.users


def _mappings_around(calls: set[_Node], order: Sequence[_Node]) -> Iterator[tuple[_Node, int]]:
    """How many mappings that are not among the calls each of them stands in."""
    entered: list[bool] = []
    for node in order:
        if node.target is vmap_increment_nesting:
            entered.append(node in calls)
        yield node, entered.count(False)
        if node.target is vmap_decrement_nesting and entered:
            entered.pop()


def _written_anew(calls: set[_Node], facts: _Facts) -> set[_Node]:
    """What made the tensors that these calls write to: run again, the calls write to others."""
    found: set[_Node] = set()
    waiting = list(calls)
    while waiting:
        node = waiting.pop()
        for source in node.all_input_nodes:
            known = source in calls or source in found
            if not known and any(write in calls for write in facts.writes.get(facts.memory[source], ())):
                if source.op != "call_function":
                    raise CaptureError(
                        "A gradient is taken through a write into an input or a weight of the model. Write into a "
                        "copy: `x = x.clone()` before it."
                    )
                found.add(source)
                waiting.append(source)
    return found


def _draws(node: _Node) -> bool:
    """Whether a call draws numbers: one that drops at random does where it is told to."""
    if not isinstance(node.target, OpOverload) or torch.Tag.nondeterministic_seeded not in node.target.tags:
        return False
    arguments = node.target._schema.arguments
    given = {argument.name: argument.default_value for argument in arguments}
    given.update(zip(given, node.args, strict=False))
    given.update(node.kwargs)
    told = (given.get("train"), given.get("training"), given.get("dropout_p"))
    return not any(one == 0 for one in told if one is not None)


def check_differentiable(node: _Node, values: Mapping[_Node, Any]) -> None:
    """Refuse a call that torch knows no gradient of, where one flows into it."""
    if transform_under_way() is not None:
        # What a mapping wraps does not say whether a gradient flows beneath.
        return
    results = [one for one in pytree.tree_leaves(values[node]) if isinstance(one, torch.Tensor)]
    if any(one.requires_grad for one in results) or not any(_is_fractional(one) for one in results):
        return
    name = node.target._schema.name if isinstance(node.target, OpOverload) else ""
    if not _has_fractions(node) or name.endswith("_like") or name.startswith("aten::new_"):
        return
    through = node.all_input_nodes[0] if node.target is operator.getitem else node
    given = [values[one] for one in node.all_input_nodes]
    if through is not node and isinstance(through.target, OpOverload) and len(through.target._schema.returns) > 1:
        # What a function computes on the way and gives beside its results has no gradient, though its results have.
        given = pytree.tree_leaves(given)
    if any(isinstance(one, torch.Tensor) and one.requires_grad for one in given):
        raise CaptureError(
            f"A gradient is taken through {through.target}, of which none is exported. Leave the gradient out, or "
            "write that part of the model with other operators."
        )


def _check(calls: set[_Node], outside: Sequence[_Node], facts: _Facts) -> None:
    if any(node.target is enter_autocast for node in facts.order):
        raise CaptureError("A gradient is taken where torch.autocast is on, which is not exported. Leave autocast out.")
    for node in calls:
        if node.target in _DETACHING:
            raise CaptureError("A gradient is taken of what torch.vmap maps, and `detach` is in it: detach it before.")
        if _draws(node):
            raise CaptureError(
                f"A gradient is taken through {node.target}, which draws numbers. Draw them before, from sizes alone."
            )
    for node in outside:
        readers = [facts.place[user] for user in node.users if user in calls]
        writes = [facts.place[write] for write in facts.writes.get(facts.memory[node], ()) if write not in calls]
        if readers and writes and max(writes) > min(readers):
            raise CaptureError(
                "A gradient is taken through a tensor that was written to since. Write into a copy, `x.clone()`."
            )
