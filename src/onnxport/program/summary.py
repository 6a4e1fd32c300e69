"""What a program is in a few figures: as an object, as text, and as HTML for a notebook."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

import onnx_ir as ir

from onnxport.events import EventLog
from onnxport.graphs import graphs
from onnxport.provenance import origin_of
from onnxport.rendering.graph_data import value_type
from onnxport.weights.kinds import is_weight

if TYPE_CHECKING:
    from onnxport.verification import Verification

_SHOWN_OPERATORS = 8
_SHOWN_VALUES = 4


@dataclass(frozen=True)
class Summary:
    """The figures of a program; printed, a few lines of text.

    Attributes:
        name: The class of the model, or the name of the graph where that is not known.
        inputs: Names, element types and axes of the inputs, in order: ``{"x": "FLOAT[batch,16]"}``.
        outputs: The same of the outputs.
        opsets: Versions by domain; ``""`` is ONNX's own.
        ir_version: The version of the file format.
        operators: How often each operator stands in the graph and those inside it, most frequent first.
        parameters: How many numbers the weights hold.
        weight_bytes: How many bytes they take.
        seconds: How long each stage of the export took.
        verified: What the verification came to, or an empty text.
    """

    name: str
    inputs: Mapping[str, str]
    outputs: Mapping[str, str]
    opsets: Mapping[str, int]
    ir_version: int
    operators: Mapping[str, int]
    parameters: int
    weight_bytes: int
    seconds: Mapping[str, float] = field(default_factory=dict)
    verified: str = ""

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return sum(self.operators.values())

    def facts(self) -> Iterator[tuple[str, str]]:
        """Labels and texts of the figures."""
        yield "opset", str(self.opsets.get("", "none"))
        if others := [f"{domain} {opset}" for domain, opset in self.opsets.items() if domain]:
            yield "domains", ", ".join(others)
        yield "IR version", str(self.ir_version)
        yield "nodes", f"{self.nodes:,}"
        yield "parameters", f"{self.parameters:,}"
        yield "weights", bytes_text(self.weight_bytes)
        if self.seconds:
            yield "exported in", f"{sum(self.seconds.values()):.2f} s"
        if self.verified:
            yield "verified", self.verified

    def __str__(self) -> str:
        lines = [self.name]
        width = max((len(name) for name in (*self.inputs, *self.outputs)), default=0)
        for label, values in (("input", self.inputs), ("output", self.outputs)):
            lines += [f"  {label:<12}{name:<{width}}  {kind}" for name, kind in values.items()]
        lines += [f"  {label:<12}{text}" for label, text in self.facts() if label != "exported in"]
        lines += [f"  {'operators':<12}{_operators(self.operators)}"]
        if self.seconds:
            stages = ", ".join(f"{stage} {seconds:.2f}" for stage, seconds in self.seconds.items())
            lines.append(f"  {'seconds':<12}{stages}")
        return "\n".join(lines)

    def one_line(self) -> str:
        """The shortest form: what it takes and gives, and how large it is."""
        return (
            f"{self.name}: {_signature(self.inputs)} -> {_signature(self.outputs)}; "
            f"opset {self.opsets.get('', '?')}, {self.nodes:,} node{'' if self.nodes == 1 else 's'}, "
            f"{self.parameters:,} parameters"
        )

    def _repr_html_(self) -> str:
        # Notebooks give tables their own style; scripts would run in trusted ones only.
        rows = [
            f"<tr><td>{label}</td><td><code>{escape(name)}</code></td><td><code>{escape(kind)}</code></td></tr>"
            for label, values in (("input", self.inputs), ("output", self.outputs))
            for name, kind in values.items()
        ]
        facts = " · ".join(f"{escape(label)} <b>{escape(text)}</b>" for label, text in self.facts())
        most = max(self.operators.values(), default=1)
        bars = "".join(
            f"<tr><td><code>{escape(name)}</code></td><td>{count}</td><td style='text-align:left'><div style='"
            f"background:#2f6fb2;height:.7em;width:{max(1, round(160 * count / most))}px'></div></td></tr>"
            for name, count in self.operators.items()
        )
        return (
            f"<div><b style='font-size:1.15em'>{escape(self.name)}</b><div>{facts}</div>"
            f"<table>{''.join(rows)}</table>"
            f"<details><summary>{self.nodes:,} nodes by operator</summary><table>{bars}</table></details></div>"
        )


def summarize(
    model: ir.Model, events: EventLog | None = None, verification: Verification | None = None, name: str = ""
) -> Summary:
    """Count what there is in a model.

    >>> import onnx_ir as ir
    >>> x = ir.val("x", ir.DataType.FLOAT, ["batch"])
    >>> relu = ir.node("Relu", [x])
    >>> graph = ir.Graph([x], relu.outputs, nodes=[relu], opset_imports={"": 20}, name="main_graph")
    >>> summarize(ir.Model(graph, ir_version=10)).one_line()
    'main_graph: x[batch] -> val_0; opset 20, 1 node, 0 parameters'
    """
    operators: Counter[str] = Counter()
    parameters = size = 0
    for graph in graphs(model):
        operators.update(f"{node.domain}::{node.op_type}" if node.domain else node.op_type for node in graph)
    for value in model.graph.initializers.values():
        if value.const_value is not None and is_weight(value):
            parameters += value.const_value.size
            size += value.const_value.nbytes
    return Summary(
        name=name or model_name(model),
        inputs={str(value.name): value_type(value) for value in model.graph.inputs},
        outputs={str(value.name): value_type(value) for value in model.graph.outputs},
        opsets=dict(model.opset_imports),
        ir_version=model.ir_version,
        operators=dict(operators.most_common()),
        parameters=parameters,
        weight_bytes=size,
        seconds={} if events is None else stage_seconds(events),
        verified="" if verification is None or not verification.was_run else verification.verdict,
    )


def model_name(model: ir.Model) -> str:
    """The class of the model that a graph comes from, where its nodes know; else the graph's name."""
    for node in model.graph:
        origin = origin_of(node)
        if origin is not None and origin.modules and not origin.modules[0].path:
            return origin.modules[0].kind.rsplit(".", 1)[-1]
    return model.graph.name or "model"


def stage_seconds(events: EventLog) -> dict[str, float]:
    """How long each stage took; one that ran several times, all of them."""
    seconds: dict[str, float] = {}
    for event in events.of("stage"):
        seconds[event.stage] = seconds.get(event.stage, 0.0) + event.seconds
    return seconds


def bytes_text(count: float) -> str:
    """A number of bytes as one reads it.

    >>> bytes_text(437_000_000), bytes_text(12)
    ('437 MB', '12 B')
    """
    for unit in ("B", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def _signature(values: Mapping[str, str]) -> str:
    shown = [f"{name}{kind[kind.index('[') :] if '[' in kind else ''}" for name, kind in values.items()]
    more = [f"… {len(shown) - _SHOWN_VALUES} more"] if len(shown) > _SHOWN_VALUES else []
    return ", ".join([*shown[:_SHOWN_VALUES], *more])


def _operators(operators: Mapping[str, int]) -> str:
    shown: Sequence[str] = [f"{name} {count}" for name, count in operators.items()]
    more = f" and {len(shown) - _SHOWN_OPERATORS} more" if len(shown) > _SHOWN_OPERATORS else ""
    return ", ".join(shown[:_SHOWN_OPERATORS]) + more
