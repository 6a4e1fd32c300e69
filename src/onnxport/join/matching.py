"""Matching: which nodes of two graphs are the same before the decision that tells them apart, and which after it.

*Shared* nodes of both graphs compute the same of the same: they are found from the inputs on. *Mates* compute the same
of values that may differ: they are found from the outputs back. What lies between belongs to one graph alone, and
where it is read by a mate, or is an output, the two values are a *choice*.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence

import onnx_ir as ir

from onnxport.join.anatomy import Anatomies, same_tensor, values_made

Pair = tuple[ir.Value, ir.Value]
_LARGEST_CHOSEN = 64


class Matching:
    """How two graphs, with the same inputs and as many outputs, correspond. Neither is changed."""

    def __init__(self, one: ir.Graph, other: ir.Graph, apart: Iterable[ir.Value]) -> None:
        """``apart`` are values that no choice may come before: the condition, and those of earlier decisions."""
        self.one, self.other = one, other
        self.anatomies = Anatomies()
        #: Of values of the other graph, those of the first that are the same.
        self.same: dict[ir.Value, ir.Value] = dict(zip(other.inputs, one.inputs, strict=True))
        self.shared: set[ir.Node] = set()
        self._mates: dict[ir.Node, ir.Node] = {}
        self._mated: dict[ir.Node, ir.Node] = {}
        self._match_initializers()
        self._match_forwards()
        self.before = self.ancestors(apart)
        self._match_backwards()
        self._part_cycles()

    @property
    def mates(self) -> Iterator[tuple[ir.Node, ir.Node]]:
        """The pairs of nodes that compute the same after the decision, in order."""
        return ((node, self._mates[node]) for node in self.one if node in self._mates)

    def is_same(self, a: ir.Value, b: ir.Value) -> bool:
        """Whether two values are the same whichever way was taken: shared, or made by mates."""
        if self.same.get(b) is a:
            return True
        made_a, made_b = a.producer(), b.producer()
        return (
            made_a is not None and made_b is not None and self._mates.get(made_a) is made_b and a.index() == b.index()
        )

    def choices(self) -> dict[Pair, None]:
        """The pairs of values of which the decision chooses one, in order of use."""
        found: dict[Pair, None] = {}
        for node, mate in self.mates:
            for a, b in zip(self.anatomies.of(node).operands, self.anatomies.of(mate).operands, strict=True):
                if a is not None and b is not None and not self.is_same(a, b):
                    found[a, b] = None
        for a, b in zip(self.one.outputs, self.other.outputs, strict=True):
            if not self.is_same(a, b):
                found[a, b] = None
        return found

    def ancestors(self, values: Iterable[ir.Value]) -> set[ir.Node]:
        """The nodes, other than shared ones, that values are computed by."""
        found: set[ir.Node] = set()
        pending = [value.producer() for value in values]
        while pending:
            node = pending.pop()
            if node is None or node in found or node in self.shared:
                continue
            found.add(node)
            pending += [operand.producer() for operand in self.anatomies.of(node).operands if operand is not None]
        return found

    def _match_initializers(self) -> None:
        names = self.one.initializers
        by_content: dict[Hashable, list[ir.Value]] = {}
        for value in names.values():
            by_content.setdefault(_description(value), []).append(value)
        for name, value in self.other.initializers.items():
            candidates = [*([names[name]] if name in names else []), *by_content.get(_description(value), ())]
            found = next((one for one in candidates if same_tensor(one, value)), None)
            if found is not None:
                self.same[value] = found

    def _match_forwards(self) -> None:
        known: dict[Hashable, ir.Node] = {}
        for node in self.one:
            key = self._key(node, {})
            if key is not None:
                known.setdefault(key, node)
        for node in self.other:
            key = self._key(node, self.same)
            found = None if key is None else known.get(key)
            if found is not None:
                self.same.update(zip(values_made(node), values_made(found), strict=True))
                self.shared |= {node, found}

    def _key(self, node: ir.Node, same: dict[ir.Value, ir.Value]) -> Hashable | None:
        anatomy = self.anatomies.of(node)
        if anatomy.kind is None:
            return None
        operands = [None if value is None else id(same.get(value, value)) for value in anatomy.operands]
        return (anatomy.kind, *operands)

    def _match_backwards(self) -> None:
        pending: list[Pair] = list(zip(self.one.outputs, self.other.outputs, strict=True))[::-1]
        while pending:
            a, b = pending.pop()
            node, mate = a.producer(), b.producer()
            if self.is_same(a, b) or node is None or mate is None or a.index() != b.index():
                continue
            if node in self._mates or mate in self._mated or not self._may_mate(node, mate):
                continue
            self._mates[node], self._mated[mate] = mate, node
            pending += reversed(self._operand_pairs(node, mate))

    def _operand_pairs(self, node: ir.Node, mate: ir.Node) -> Sequence[Pair]:
        pairs = zip(self.anatomies.of(node).operands, self.anatomies.of(mate).operands, strict=True)
        return [(a, b) for a, b in pairs if a is not None and b is not None]

    def _may_mate(self, node: ir.Node, mate: ir.Node) -> bool:
        if {node, mate} & (self.shared | self.before):
            return False
        mine, its = self.anatomies.of(node), self.anatomies.of(mate)
        if mine.kind is None or mine.kind != its.kind:
            return False
        return all(self.same.get(b) is a or _may_choose(a, b) for a, b in self._operand_pairs(node, mate))

    def _part_cycles(self) -> None:
        """Part mates that a choice is computed from: the choice is made before all of them."""
        while True:
            choices = self.choices()
            nodes = self.ancestors(a for a, _ in choices) & self._mates.keys()
            nodes |= {self._mated[mate] for mate in self.ancestors(b for _, b in choices) & self._mated.keys()}
            if not nodes:
                return
            for node in nodes:
                del self._mated[self._mates.pop(node)]


def _description(value: ir.Value) -> Hashable:
    tensor = value.const_value
    return None if tensor is None else (tensor.dtype, tuple(tensor.shape))


def _may_choose(a: ir.Value, b: ir.Value) -> bool:
    """Whether one value may stand for two: of one type and rank, and not two weights, which a choice would copy."""
    if a.type != b.type:
        return False
    if a.shape is not None and b.shape is not None and len(a.shape) != len(b.shape):
        return False
    weights = [value.const_value for value in (a, b) if value.const_value is not None]
    return not any(weight.size > _LARGEST_CHOSEN for weight in weights)
