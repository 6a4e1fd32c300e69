"""Rules that take one operator across one change of opset, and the walk that applies them.

A rule is registered for the version at which its operator changed. ``@lowers("Gelu", below=20)`` takes a node in
the form of opset 20 or later and writes the form of opset 19; what it writes is then legalised from 19 downwards, so
no rule has to know about opsets older than the one before its own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from onnxport.graphs import bodies, graphs
from onnxport.legalize.infer import infer_results
from onnxport.legalize.rule_builder import Refusal, RuleBuilder, SharedValues
from onnxport.onnx_build.literals import Literals, added_name
from onnxport.onnx_build.names import UniqueNames, names_in
from onnxport.onnx_build.opsets import NEWEST_OPSET, ONNX_DOMAINS
from onnxport.onnx_build.schemas import schema_of
from onnxport.targets import names_node
from onnxport.weights.kinds import is_weight

Replacement = ir.Value | Sequence[ir.Value | None] | None
RuleFunction = Callable[[RuleBuilder, ir.Node], Replacement]


@dataclass(frozen=True)
class OpsetRule:
    """One operator across one change: applies to forms from ``reads`` on and writes the form of ``writes``."""

    reads: int
    writes: int
    function: RuleFunction


_LOWERS: dict[str, list[OpsetRule]] = {}
_RAISES: dict[str, list[OpsetRule]] = {}


def lowers(*op_types: str, below: int) -> Callable[[RuleFunction], RuleFunction]:
    """Register how operators are written in opsets before ``below``.

    The rule returns what replaces the node's outputs (None for an output nobody wants), or None if this node
    reads the same in the older form.
    """

    def register(function: RuleFunction) -> RuleFunction:
        for op_type in op_types:
            rules = _LOWERS.setdefault(op_type, [])
            if any(rule.reads == below for rule in rules):
                raise ValueError(f"{op_type} has two rules for opsets below {below}")
            rules.append(OpsetRule(below, below - 1, function))
            rules.sort(key=lambda rule: -rule.reads)
        return function

    return register


def raises(*op_types: str, since: int) -> Callable[[RuleFunction], RuleFunction]:
    """Register how operators are written from opset ``since`` on."""

    def register(function: RuleFunction) -> RuleFunction:
        for op_type in op_types:
            rules = _RAISES.setdefault(op_type, [])
            if any(rule.writes == since for rule in rules):
                raise ValueError(f"{op_type} has two rules for opsets from {since}")
            rules.append(OpsetRule(since - 1, since, function))
            rules.sort(key=lambda rule: rule.writes)
        return function

    return register


def rule_for(op_type: str, form: int, target: int) -> OpsetRule | None:
    """The next rule a node in the form of opset ``form`` meets on its way to ``target``."""
    if target < form:
        for rule in _LOWERS.get(op_type, ()):
            if target < rule.reads <= form:
                return rule
    elif target > form:
        for rule in _RAISES.get(op_type, ()):
            if form < rule.writes <= target:
                return rule
    return None


@functools.cache
def _first_opset(op_type: str) -> int:
    """The opset that brought an operator."""
    first = NEWEST_OPSET + 1
    while (schema := schema_of(op_type, first - 1)) is not None:
        first = schema.since
    return first


@dataclass
class Rewriter:
    """Walks a model and applies the rules, each node on its own way to the target."""

    model: ir.Model
    target: int
    apart: Callable[[ir.Node], Hashable] | None = None
    rewritten: frozenset[str] = frozenset()
    names: UniqueNames = field(init=False)
    literals: Literals = field(init=False)
    refusals: dict[ir.Node, tuple[str, int]] = field(default_factory=dict)
    _orphans: list[ir.Value] = field(default_factory=list)
    _shared: SharedValues = field(init=False)

    def __post_init__(self) -> None:
        self._shared = SharedValues(self.apart)
        self.names = UniqueNames(first=2, taken=lambda: names_in(graphs(self.model)))
        self.literals = Literals(self.names, added_name, self.model.graph)

    def run(self, source: int) -> None:
        """Rewrite the main graph from opset ``source``, and its subgraphs."""
        self._walk(self.model.graph, source, self.literals)
        self._drop_orphans()

    def run_function(self, function: ir.Function, source: int) -> None:
        """Rewrite a function; it has no initializers, so its literals are ``Constant`` nodes."""
        self._walk(function, source, None)
        self._drop_orphans()

    def run_at_target(self, op_type: str, rule: RuleFunction) -> None:
        """Write an operator of the main graph and its subgraphs otherwise, where a rule does, in the target's form."""
        for node in [node for node in self.model.graph.all_nodes() if (node.domain, node.op_type) == ("", op_type)]:
            builder = RuleBuilder(node, self.target, self.target, self.names, self.literals, self._shared)
            result = rule(builder, node)
            if isinstance(result, ir.Value):
                self._splice(node, builder, [result])
        self._drop_orphans()

    def _walk(self, graph: ir.Graph | ir.Function, source: int, literals: Literals | None) -> None:
        # A node may be written for a version of its own, newer than the opset of the model around it.
        work = [(node, source if node.version is None else node.version) for node in reversed(graph)]
        while work:
            node, form = work.pop()
            rule: OpsetRule | None = None
            if node.domain in ONNX_DOMAINS:
                outputs = node.outputs
                if outputs and (outputs[0].shape is None or outputs[0].type is None):
                    infer_results(node)
                rule = rule_for(node.op_type, form, self._goal(node))
            if rule is None:
                for body in bodies(node):
                    self._walk(body, source, literals)
                continue
            # What replaces an operator that the target has is written for the target, not for the opset before its own.
            writes = max(rule.writes, self.target) if names_node(self.rewritten, node) else rule.writes
            builder = RuleBuilder(node, writes, self.target, self.names, literals, self._shared)
            try:
                result = rule.function(builder, node)
            except Refusal as refusal:
                self.refusals[node] = (str(refusal), rule.reads)
                continue
            if result is None:
                work.append((node, rule.writes))
                continue
            self._splice(node, builder, [result] if isinstance(result, ir.Value) else list(result))
            work.extend((emitted, writes) for emitted in reversed(builder.nodes))

    def _goal(self, node: ir.Node) -> int:
        """The opset on the way to which a node is rewritten: one that does not have it, if it is to be replaced."""
        replaced = names_node(self.rewritten, node)
        return min(self.target, _first_opset(node.op_type) - 1) if replaced else self.target

    def _splice(self, node: ir.Node, builder: RuleBuilder, results: list[ir.Value | None]) -> None:
        """Put the emitted nodes in the place of ``node``; its outputs' names, shapes and types go on living."""
        graph = node.graph
        assert graph is not None
        pairs: list[tuple[ir.Value, ir.Value]] = []
        emitted = set(builder.nodes)
        taken: set[ir.Value] = set()
        for old, new in zip(node.outputs, results, strict=False):
            if new is None or not (old.uses() or old.is_graph_output()):
                continue
            # A value that was there before, or stands for two outputs, cannot take the output's name.
            if new.producer() not in emitted or new in taken:
                new = builder.emit("Identity", new)
                emitted.add(builder.nodes[-1])
            taken.add(new)
            pairs.append((old, new))
        graph.insert_before(node, builder.nodes)
        for old, new in pairs:
            new.type = old.type if old.type is not None else new.type
            new.shape = old.shape if old.shape is not None else new.shape
            new.metadata_props.update(old.metadata_props)
            name, old.name = old.name, None
            old.replace_all_uses_with(new, replace_graph_outputs=True)
            new.name = name
            self._shared.replace(new)
        self._orphans.extend(value for value in node.inputs if value is not None)
        graph.remove(node, safe=True)

    def _drop_orphans(self) -> None:
        """Remove what only replaced nodes used: literals, and the nodes that computed what is now not read."""
        while self._orphans:
            value = self._orphans.pop()
            if value.uses() or value.is_graph_output() or value.is_graph_input():
                continue
            producer = value.producer()
            graph = value.graph
            if producer is not None:
                dead = not any(output.uses() or output.is_graph_output() for output in producer.outputs)
                if dead and producer.graph is not None and not producer.op_type.startswith("Random"):
                    self._orphans.extend(read for read in producer.inputs if read is not None)
                    producer.graph.remove(producer, safe=True)
            elif value.is_initializer() and not is_weight(value) and graph is not None and value.name:
                graph.initializers.pop(value.name, None)
