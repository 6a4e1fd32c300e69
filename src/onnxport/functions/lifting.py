"""Attributes that the calls of a function differ in: the function takes them, and each call states its own.

Two ``CELU`` with other ``alpha`` are one function, whose node reads the attribute ``inferred::alpha`` of the call. The
prefix tells what the nodes read from the annotated variables of the module, which only tell consumers about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from onnxport.functions.region import Region
from onnxport.onnx_build.literals import attribute_key

PREFIX = "inferred::"


@dataclass
class SharedFunction:
    """A function, the values and attributes of its body in the order of the first call, and its calls so far.

    ``lifted`` has the names of those attributes that calls state, by their places among ``attributes``.
    """

    function: ir.Function
    values: list[ir.Value]
    attributes: list[tuple[ir.Node, ir.Attr]]
    calls: list[ir.Node] = field(default_factory=list)
    lifted: dict[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, function: ir.Function, region: Region) -> SharedFunction:
        """The function of a region whose nodes are going to be its body."""
        return cls(function, [*function.inputs, *region.results()], region.liftable())

    def add(self, call: ir.Node, region: Region) -> None:
        """Add a call, which states what it doesn't have in common with those before it."""
        own = [attribute for _, attribute in region.liftable()]
        if self.calls:
            for place, (_, attribute) in enumerate(self.attributes):
                if place not in self.lifted and attribute_key(attribute) != attribute_key(own[place]):
                    self._lift(place)
            _state(call, own, self.lifted)
        self.calls.append(call)

    def _lift(self, place: int) -> None:
        node, attribute = self.attributes[place]
        base = name = PREFIX + attribute.name.removeprefix(PREFIX)
        number = 0
        while name in self.function.attributes:
            number += 1
            name = f"{base}.{number}"
        self.lifted[place] = name
        self.function.attributes[name] = ir.Attr(name, attribute.type, None)
        node.attributes[attribute.name] = ir.RefAttr(attribute.name, name, attribute.type)
        for call in self.calls:
            _state(call, [attribute for _, attribute in self.attributes], {place: name})


def _state(call: ir.Node, attributes: Sequence[ir.Attr], names: dict[int, str]) -> None:
    for place, name in names.items():
        call.attributes[name] = ir.Attr(name, attributes[place].type, attributes[place].value)
