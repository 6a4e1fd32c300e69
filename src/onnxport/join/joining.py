"""From two graphs and a condition to one graph: what both share, an If with what differs, and what follows in both."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import onnx_ir as ir

from onnxport.errors import Problem, TranslationError
from onnxport.graphs import detach, graphs
from onnxport.join.anatomy import Anatomies, Slot, values_made
from onnxport.join.matching import Matching, Pair
from onnxport.onnx_build.names import UniqueNames, names_in
from onnxport.provenance import Provenance, attach

Size: TypeAlias = "int | ir.SymbolicDim"
Merge: TypeAlias = Callable[[Size, Size], Size]


@dataclass(frozen=True)
class Condition:
    """What a decision asks, where in the graph it is computed (a bool where it is settled), and where the code asks.

    ``taken`` says how many sizes are taken for others on the way that it is computed on: of those it asks for, of all.
    """

    value: ir.Value | bool
    asked: Provenance
    where: str
    taken: tuple[int, int] = (0, 0)


@dataclass
class Side:
    """One way through a model, or several joined, and the conditions that were asked on it, by their numbers."""

    model: ir.Model
    conditions: Mapping[int, Condition] = field(default_factory=dict)


def join(if_true: Side, if_false: Side, index: int) -> Side:
    """Join two ways that the decision ``index`` tells apart; both models are used up.

    ``y = Relu(Mul(x, 2))`` and ``y = Relu(Add(x, 1))`` become ``z = If(c, Mul(x, 2), Add(x, 1)); y = Relu(z)``.
    """
    kept = {
        number: _settled(if_true.conditions[number], if_false.conditions[number])
        for number in sorted(if_true.conditions.keys() & if_false.conditions.keys())
        if number <= index
    }
    _check_outputs(if_true, if_false, kept[index])
    apart = [condition.value for condition in kept.values() if isinstance(condition.value, ir.Value)]
    matching = Matching(if_true.model.graph, if_false.model.graph, apart)
    Joining(if_true.model, if_false.model, matching).write(kept[index])
    same = matching.same
    conditions = {
        number: replace(c, value=same.get(c.value, c.value)) if isinstance(c.value, ir.Value) else c
        for number, c in kept.items()
        if number < index
    }
    return Side(if_true.model, conditions)


def _settled(one: Condition, other: Condition) -> Condition:
    """The condition of the way on which it is still one: a way for one size alone may know the answer.

    A way for equal sizes computes of one of them what was asked of the other before, so that it holds on no other way.
    """
    if isinstance(one.value, bool) or isinstance(other.value, bool):
        return other if isinstance(one.value, bool) else one
    return other if other.taken < one.taken else one


def _check_outputs(if_true: Side, if_false: Side, condition: Condition) -> None:
    ones, others = if_true.model.graph.outputs, if_false.model.graph.outputs
    if len(ones) != len(others):
        what = f"The model returns {len(ones)} values if this is true and {len(others)} if not"
        raise _refusal([Problem(what, condition.where, "Return as many on either side.")])
    problems = []
    for a, b in zip(ones, others, strict=True):
        if a.type != b.type:
            what = f"Output {a.name} is {a.type} if this is true and {b.type} if not"
            problems.append(Problem(what, condition.where, "Give both sides one dtype."))
        elif a.shape is not None and b.shape is not None and len(a.shape) != len(b.shape):
            what = f"Output {a.name} has {len(a.shape)} axes if this is true and {len(b.shape)} if not"
            problems.append(Problem(what, condition.where, "Give both sides as many axes, by unsqueeze or reshape."))
    if problems:
        raise _refusal(problems)


def _refusal(problems: Sequence[Problem]) -> TranslationError:
    return TranslationError("A branch in Python gives results that no one ONNX output can be:", problems)


class Joining:
    """Writes the joined graph into the first model."""

    def __init__(self, one: ir.Model, other: ir.Model, matching: Matching) -> None:
        self.one, self.other, self.matching = one, other, matching
        self.anatomies: Anatomies = matching.anatomies
        taken = list(names_in(graphs(one)))
        self.names = UniqueNames(taken=lambda: taken)

    def write(self, condition: Condition) -> None:
        """Write it."""
        choices = list(self.matching.choices())
        graph, other = self.one.graph, self.other.graph
        mates = list(self.matching.mates)
        ahead = self.matching.before
        inside_one = self.matching.ancestors(a for a, _ in choices) - ahead
        inside_other = self.matching.ancestors(b for _, b in choices) - ahead
        shared = [node for node in graph if node in self.matching.shared or node in ahead]
        borrowed = [node for node in other if node in ahead]
        then_nodes = [node for node in graph if node in inside_one]
        else_nodes = [node for node in other if node in inside_other]
        prefer = _more_general if _sizes_told_apart(other) <= _sizes_told_apart(graph) else _more_general_of_other
        _merge_shapes(self.matching.same.values(), self.matching.same.keys(), prefer)
        for node, mate in mates:
            _merge_shapes(values_made(node), values_made(mate), _common)
        mated = [node for node, _ in mates]
        slots = self._slots_of_choices(mates)
        results = list(zip(graph.outputs, other.outputs, strict=True))
        nodes = [*graph, *other]
        for side in (graph, other):
            side.outputs.clear()
            side.remove(list(side))
        for node in (*borrowed, *else_nodes):
            self._move(node)
        outputs: list[ir.Value] = []
        if choices:
            assert isinstance(condition.value, ir.Value), "a decision with two ways has a condition"
            value = self.matching.same.get(condition.value, condition.value)
            branch = self._branch(value, choices, then_nodes, else_nodes, condition)
            outputs = list(branch.outputs)
            borrowed = [*borrowed, branch]
        chosen = dict(zip(choices, outputs, strict=True))
        for slot, pair in slots:
            slot.read(chosen[pair])
        graph.outputs.extend(self._output(pair, chosen.get(pair)) for pair in results)
        graph.extend([*shared, *borrowed, *mated])
        for node in nodes:
            if node.graph is None:
                # What no result needs is left out, and what it reads may be needed by nothing else.
                detach(node)
        self._adopt()

    def _slots_of_choices(self, mates: Iterable[tuple[ir.Node, ir.Node]]) -> list[tuple[Slot, Pair]]:
        found = []
        for node, mate in mates:
            for slot, its in zip(self.anatomies.of(node).slots, self.anatomies.of(mate).slots, strict=True):
                a, b = slot.value, its.value
                if a is not None and b is not None and not self.matching.is_same(a, b):
                    found.append((slot, (a, b)))
        return found

    def _move(self, node: ir.Node) -> None:
        """Let a node of the other graph read what the first graph has, under names of its own."""
        for slot in self.anatomies.of(node).slots:
            value = slot.value
            if value is not None and value in self.matching.same:
                slot.read(self.matching.same[value])
        for value in values_made(node):
            if value.name:
                value.name = self.names.unique(value.name)
        if node.name:
            node.name = self.names.unique(node.name)

    def _branch(
        self,
        value: ir.Value,
        choices: Sequence[Pair],
        then_nodes: Sequence[ir.Node],
        else_nodes: Sequence[ir.Node],
        condition: Condition,
    ) -> ir.Node:
        same = self.matching.same
        regions = [
            self._region("then_branch", then_nodes, [a for a, _ in choices], condition),
            self._region("else_branch", else_nodes, [same.get(b, b) for _, b in choices], condition),
        ]
        node = ir.Node(
            "",
            "If",
            inputs=[value],
            attributes=[ir.AttrGraph(str(region.name), region) for region in regions],
            num_outputs=len(choices),
            name=self.names.unique("node_branch"),
        )
        attach(node, condition.asked)
        for region in regions:
            region.name = self.names.unique(f"{node.name}_{region.name}")
        for (a, b), output in zip(choices, node.outputs, strict=True):
            output.type = a.type
            output.name = self.names.unique(f"{a.name}_or_{b.name}" if a.name != b.name else f"{a.name}_chosen")
            output.shape = a.shape
            _merge_shapes([output], [b], _common)
        return node

    def _region(
        self, name: str, nodes: Sequence[ir.Node], results: Sequence[ir.Value], condition: Condition
    ) -> ir.Graph:
        made = {value for node in nodes for value in node.outputs}
        nodes = list(nodes)
        outputs: list[ir.Value] = []
        for value in results:
            if value not in made or value in outputs:
                copy = ir.Node("", "Identity", inputs=[value], name=self.names.unique("node_same"))
                attach(copy, condition.asked)
                copy.outputs[0].name = self.names.unique(f"{value.name}_same")
                copy.outputs[0].type, copy.outputs[0].shape = value.type, value.shape
                nodes.append(copy)
                value = copy.outputs[0]
            outputs.append(value)
        return ir.Graph([], outputs, nodes=nodes, name=name)

    def _output(self, pair: Pair, chosen: ir.Value | None) -> ir.Value:
        """An output of both graphs; where they differ it is the If's, with the name and notes of the first."""
        before = pair[0]
        if chosen is None:
            return before
        chosen.metadata_props.update(before.metadata_props)
        name = before.name
        before.name = self.names.unique(f"{name}_then")
        chosen.name = name
        return chosen

    def _adopt(self) -> None:
        """Take over the initializers that only the other graph has, its operator sets and functions."""
        used = {value for graph in graphs(self.one) for node in graph for value in node.inputs}
        for value in list(self.other.graph.initializers.values()):
            if value in used:
                del self.other.graph.initializers[str(value.name)]
                value.name = self.names.unique(str(value.name))
                self.one.graph.initializers[value.name] = value
        for domain, version in self.other.graph.opset_imports.items():
            self.one.graph.opset_imports.setdefault(domain, version)
        for key, function in self.other.functions.items():
            self.one.functions.setdefault(key, function)


def _more_general(one: Size, other: Size) -> Size:
    return other if isinstance(one, int) else one


def _more_general_of_other(one: Size, other: Size) -> Size:
    return _more_general(other, one)


def _sizes_told_apart(graph: ir.Graph) -> int:
    """How many sizes the inputs leave open: a way for equal sizes takes two of them for one."""
    dims = (dim for value in graph.inputs for dim in value.shape or ())
    return len({dim.value for dim in dims if isinstance(dim, ir.SymbolicDim)})


def _common(one: Size, other: Size) -> Size:
    return one if one == other else ir.SymbolicDim(None)


def _merge_shapes(ones: Iterable[ir.Value], others: Iterable[ir.Value], merged: Merge) -> None:
    for a, b in zip(ones, others, strict=True):
        if a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
            a.shape = None
        else:
            a.shape = ir.Shape([merged(one, other) for one, other in zip(a.shape, b.shape, strict=True)])
