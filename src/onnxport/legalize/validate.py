"""The last step: every node against the schema of the target opset, with casts where only the type is missing."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import replace

import onnx_ir as ir

from onnxport.errors import OpsetError, Problem
from onnxport.events import EventLog
from onnxport.graphs import bodies
from onnxport.legalize.casts import Casts, is_same, nearest, nearest_exact
from onnxport.legalize.runtime_gaps import gaps, missing
from onnxport.legalize.versions import Kind
from onnxport.onnx_build.literals import Literals
from onnxport.onnx_build.names import UniqueNames
from onnxport.onnx_build.opsets import NEWEST_OPSET, ONNX_DOMAINS
from onnxport.onnx_build.schemas import Schema, schema_of
from onnxport.provenance import line_of, provenance_of


def form_fault(node: ir.Node, schema: Schema | None, opset: int) -> str | None:
    """What is wrong with the node's shape as a call: existence, arity, attributes, and the types it alone chooses."""
    if schema is None:
        return f"{node.op_type} does not exist in opset {opset}"
    count = len(node.inputs)
    if not schema.min_inputs <= count <= schema.max_inputs:
        return f"{node.op_type} takes {schema.min_inputs} to {schema.max_inputs} inputs in opset {opset}, not {count}"
    if len(node.outputs) > schema.max_outputs:
        return f"{node.op_type} has {schema.max_outputs} outputs in opset {opset}, not {len(node.outputs)}"
    for name, attribute in node.attributes.items():
        kind = schema.attributes.get(name)
        if kind is None:
            return f"{node.op_type} has no attribute {name!r} in opset {opset}"
        if kind != int(attribute.type):
            return f"attribute {name!r} of {node.op_type} has another type in opset {opset}"
    for name in schema.required:
        if name not in node.attributes:
            return f"{node.op_type} needs the attribute {name!r} in opset {opset}"
    taken = {variable for variable, _ in schema.inputs}
    for position, output in enumerate(node.outputs):
        variable = schema.output(position)
        # What has the type of an input is checked, and cast, with that input.
        legal = None if variable in taken else schema.types.get(variable)
        if legal and isinstance(output.type, ir.TensorType) and output.type.dtype not in legal:
            return f"{node.op_type} gives no {output.type.dtype.name.lower()} in opset {opset}"
    return None


def _illegal_types(node: ir.Node, schema: Schema) -> dict[str, ir.DataType]:
    """Type variables (or ``#position`` for an input of its own) bound to a type the schema does not allow."""
    illegal: dict[str, ir.DataType] = {}
    for position, value in enumerate(node.inputs):
        if value is None or not isinstance(value.type, ir.TensorType):
            continue
        variable, allowed = schema.input(position)
        if value.type.dtype not in allowed:
            illegal[variable or f"#{position}"] = value.type.dtype
    bound = {variable for variable, _ in schema.inputs}
    for position, output in enumerate(node.outputs):
        variable = schema.output(position)
        # An attribute says the type, such as that of a cast.
        states = variable not in bound and variable in schema.types and isinstance(output.type, ir.TensorType)
        if states and output.dtype is not None and output.dtype not in schema.types[variable]:
            illegal[variable] = output.dtype
    return illegal


def _form(node: ir.Node) -> Hashable:
    """All that a schema and the table of kernels look at: nodes of one form are right or wrong together."""
    attributes = node.attributes.data
    return (
        node.op_type,
        tuple([None if value is None else (type(value.type), value.dtype) for value in node.inputs]),
        tuple([output.dtype for output in node.outputs]),
        tuple([(name, attribute.type) for name, attribute in attributes.items()]),
        attributes["reduction"].value if "reduction" in attributes else None,
    )


def _substitute(
    node: ir.Node, schema: Schema, opset: int, variable: str, dtype: ir.DataType, for_runtime: bool = False
) -> ir.DataType | None:
    """The nearest legal type in which the operator gives the same result, one that onnxruntime has if it is asked."""
    cast = schema_of("Cast", opset)
    if variable not in schema.types or cast is None or dtype not in cast.input(0)[1]:
        return None
    legal = schema.types[variable]
    there = legal - gaps(node, schema.since).get(variable, frozenset()) if for_runtime else legal
    found = nearest_exact(node.op_type, dtype, there)
    return nearest_exact(node.op_type, dtype, legal) if found is None else found


class Validator:
    """Checks all nodes, inserts casts, and gathers every problem before it speaks.

    With ``for_runtime``, also the types that onnxruntime does not compute an operator in are computed in others.
    """

    def __init__(
        self,
        names: UniqueNames,
        literals: Literals,
        opset: int,
        source: int,
        refusals: dict[ir.Node, tuple[str, int]],
        events: EventLog | None,
        for_runtime: bool,
    ) -> None:
        self._opset = opset
        self._source = source
        self._refusals = refusals
        self._events = events
        self._for_runtime = for_runtime
        self._problems: dict[str, Problem] = {}
        self._remedies: set[int | None] = set()
        self._fits: set[Hashable] = set()
        self._casts = Casts(names, literals)
        #: What was met on the way: every graph, and every kind of value (its class of types and its element type).
        self.graphs: list[ir.Graph] = []
        self.kinds: set[Kind] = set()

    def check(self, graph: ir.Graph | ir.Function) -> None:
        """Check a graph and its subgraphs."""
        self.graphs.append(graph.graph if isinstance(graph, ir.Function) else graph)
        self._meet(graph.inputs)
        self._meet(self.graphs[-1].initializers.data.values())
        # Casts that are put around a node are not met: they are right by themselves.
        for node in list(graph):
            if node.domain in ONNX_DOMAINS:
                self._check_node(node)
            else:
                self._meet(node.outputs)
            for body in bodies(node):
                self.check(body)

    def raise_problems(self) -> None:
        """Raise an error that lists all problems, if there are any."""
        if self._problems:
            advice = ""
            if len(self._remedies) > 1 and None not in self._remedies:
                best = max((one for one in self._remedies if one is not None), key=lambda one: abs(one - self._opset))
                advice = f"Opset {best} takes all of these: pass opset_version={best}."
            raise OpsetError(
                f"The model cannot be written in opset {self._opset}:", list(self._problems.values()), advice
            )

    def _meet(self, values: Iterable[ir.Value]) -> None:
        self.kinds.update([(type(value.type), value.dtype) for value in values])

    def _check_node(self, node: ir.Node) -> None:
        refusal = self._refusals.get(node)
        if refusal is not None:
            reason, works_from = refusal
            self._report(node, f"{node.op_type} cannot be expressed in opset {self._opset}: {reason}", works_from)
            return
        form = _form(node)
        if form in self._fits:
            return
        self._meet(node.outputs)
        schema = schema_of(node.op_type, self._opset)
        fault = form_fault(node, schema, self._opset)
        if fault is not None or schema is None:
            self._report(node, fault or "", self._first_valid(node))
            return
        illegal = _illegal_types(node, schema)
        if not illegal and not (self._for_runtime and missing(node, schema)):
            self._fits.add(form)
            return
        for variable, dtype in illegal.items():
            legal = _substitute(node, schema, self._opset, variable, dtype, self._for_runtime)
            if legal is None:
                what = f"{node.op_type} does not take {dtype.name.lower()} in opset {self._opset}"
                self._report(node, what, self._first_valid(node))
                return
            self._casts.around(node, schema, variable, dtype, legal)
            self._log(node, f"{node.op_type} takes no {dtype.name.lower()} in opset {self._opset}", legal)
        if self._for_runtime:
            self._fill_gaps(node, schema)

    def _fill_gaps(self, node: ir.Node, schema: Schema) -> None:
        """Compute the node in types that onnxruntime has an implementation for, as near as there are."""
        for variable, dtype in missing(node, schema).items():
            there = schema.types[variable] - gaps(node, schema.since)[variable]
            other = nearest_exact(node.op_type, dtype, there)
            if other is None:
                other = nearest(node.op_type, dtype, there)
            if other is None:
                continue
            self._casts.around(node, schema, variable, dtype, other)
            self._log(node, f"{node.op_type} has no {dtype.name.lower()} in onnxruntime", other)
            if self._events is not None and not is_same(node.op_type, dtype, other):
                message = (
                    f"{node.op_type} of {dtype.name.lower()} is rounded: {other.name.lower()} does not hold all values"
                )
                self._events.add("warning", "legalize", message, where=line_of(node))

    def _log(self, node: ir.Node, why: str, other: ir.DataType) -> None:
        if self._events is not None:
            message = f"{why} and is computed in {other.name.lower()}"
            self._events.add("cast", "legalize", message, where=line_of(node))

    def _first_valid(self, node: ir.Node) -> int | None:
        """The opset nearest to the target at which the node is valid as it stands."""
        if max(self._source, node.version if node.version is not None else 0) > self._opset:
            candidates: Iterator[int] = iter(range(self._opset + 1, NEWEST_OPSET + 1))
        else:
            candidates = iter(range(self._opset - 1, 0, -1))
        for opset in candidates:
            schema = schema_of(node.op_type, opset)
            if schema is None or form_fault(node, schema, opset) is not None:
                continue
            illegal = _illegal_types(node, schema).items()
            if all(_substitute(node, schema, opset, *one) is not None for one in illegal):
                return opset
        return None

    def _report(self, node: ir.Node, what: str, works_from: int | None) -> None:
        self._remedies.add(works_from)
        if works_from is None and not any(schema_of(node.op_type, opset) for opset in range(1, NEWEST_OPSET + 1)):
            remedy = (
                f"ONNX has no such operator: check its name, or give it a domain of your own, mydomain::{node.op_type}."
            )
        elif works_from is None:
            remedy = "No opset takes it in this form."
        elif works_from > self._opset:
            remedy = f"The lowest opset that works is {works_from}: pass opset_version={works_from}."
        else:
            remedy = f"The highest opset that works is {works_from}: pass opset_version={works_from}."
        known = self._problems.get(what)
        if known is None:
            provenance = provenance_of(node)
            operator = "" if provenance is None else provenance.operator
            self._problems[what] = Problem(what, where=line_of(node), remedy=remedy, operator=operator)
        else:
            self._problems[what] = replace(known, count=known.count + 1)
