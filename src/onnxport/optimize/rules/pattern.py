"""A rewrite rule: a name to count its hits under, a pattern, and the function that rewrites."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import onnx_ir as ir

from onnxport.optimize.scope import Scope

#: A value when the node's output always equals it, True when the node was changed in place, None to leave it alone.
Rewrite = Callable[[ir.Node, Scope], ir.Value | Literal[True] | None]


@dataclass(frozen=True)
class Rule:
    """One row of the table.

    >>> rule = Rule("transpose of transpose", "Transpose(Transpose)", lambda node, scope: None)
    >>> rule.op_type, sorted(rule.fed_by)
    ('Transpose', ['Transpose'])
    """

    name: str
    pattern: str
    rewrite: Rewrite
    op_type: str = field(init=False)
    fed_by: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        op_type, _, inner = self.pattern.removesuffix(")").partition("(")
        object.__setattr__(self, "op_type", op_type)
        object.__setattr__(self, "fed_by", frozenset(inner.split("|")) if inner else frozenset())

    def matches(self, node: ir.Node) -> bool:
        """Whether the first input comes from one of the operators the pattern names, if it names any."""
        if not self.fed_by:
            return True
        first = node.inputs[0]
        producer = first.producer() if first is not None else None
        if producer is None or producer.op_type not in self.fed_by or producer.domain != "":
            return False
        if producer.version is not None:
            return False
        # In a function an attribute may stand for whatever the caller passes.
        return not any(attribute.is_ref() for attribute in producer.attributes.values())


def rules_for(name: str, patterns: str, rewrite: Rewrite) -> list[Rule]:
    """The same rewrite for several operators."""
    return [Rule(name, pattern, rewrite) for pattern in patterns.split()]


def producer_of(node: ir.Node) -> ir.Node:
    """The node behind the first input, which the pattern has established."""
    first = node.inputs[0]
    producer = first.producer() if first is not None else None
    assert producer is not None
    return producer


def made_by(value: ir.Value | None, op_type: str) -> ir.Node | None:
    """The node of ONNX's own operator ``op_type`` that makes a value, if that is what makes it."""
    producer = value.producer() if value is not None else None
    return producer if producer is not None and producer.op_type == op_type and producer.domain == "" else None
