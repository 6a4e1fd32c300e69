"""Outlining: the nodes of module calls become functions, the innermost modules first."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import onnx_ir as ir

from onnxport.events import EventLog
from onnxport.functions.lifting import SharedFunction
from onnxport.functions.modules import Chain, ModuleCalls, split_class
from onnxport.functions.region import Region, read_from_outside, read_values, with_nested
from onnxport.functions.sizes import LocalSizes, SizeNodes
from onnxport.provenance import INPUT_KIND, OUTPUT_KIND, attach, pass_on, provenance_of


def outline(model: ir.Model, calls: ModuleCalls, events: EventLog) -> None:
    """Make functions of the module calls, in place; equal calls share one.

    ``Mul(Relu(Mul(Relu(x), a.w)), b.w)`` becomes ``Block(Block(x, a.w), b.w)`` with ``Block(x, w) = Mul(Relu(x), w)``
    """
    for name in calls.missing():
        events.add("warning", "functions", f"No module of class {name} is called: there is no function of it.")
    outliner = _Outliner(model, calls, events)
    for depth in range(outliner.depth(), 0, -1):
        outliner.run(depth)
    outliner.drop_literals()


class _Outliner:
    def __init__(self, model: ir.Model, calls: ModuleCalls, events: EventLog) -> None:
        self._model = model
        self._graph = model.graph
        self._calls = calls
        self._events = events
        self._sizes = SizeNodes(model.graph)
        self._owners = _owners(model.graph, calls, self._sizes)
        self._known: dict[Hashable, SharedFunction] = {}
        self._candidates = list(model.graph.initializers.values())

    def depth(self) -> int:
        """How deep the calls nest."""
        return max((len(chain) for chain in self._owners.values()), default=0)

    def run(self, depth: int) -> None:
        """Outline the calls at one depth, whose inner calls are functions already."""
        order = list(self._graph)
        places = {node: place for place, node in enumerate(order)}
        regions: dict[Chain, Region] = {}
        for node in order:
            chain = self._owners.get(node, ())
            if len(chain) >= depth:
                regions.setdefault(chain[:depth], Region(chain[:depth])).nodes.append(node)
        for region in regions.values():
            span = order[places[region.nodes[0]] : places[region.nodes[-1]] + 1]
            after = self._to_come_after(region, span)
            if after is None:
                call = region.chain[-1]
                self._events.add(
                    "note", "functions", f"{call.path} ({call.kind}) is interleaved with others; no function"
                )
                continue
            self._outline(region, after)

    def _to_come_after(self, region: Region, span: Sequence[ir.Node]) -> list[ir.Node] | None:
        """The nodes among those of a region that need its results; None if it needs theirs in turn."""
        own = set(region.nodes)
        if len(own) == len(span):
            return []
        made: set[ir.Value] = set()
        tainted: set[ir.Value] = set()
        after: list[ir.Node] = []
        for node in span:
            if node.graph is not self._graph:
                return None
            read = set(self._sizes.sources(read_values(node)))
            if node in own:
                if read & tainted:
                    return None
                made.update(node.outputs)
            elif read & made or read & tainted:
                after.append(node)
                if not self._sizes.is_size(node):
                    tainted.update(node.outputs)
        return after

    def _outline(self, region: Region, after: list[ir.Node]) -> None:
        last = region.nodes[-1]
        self._localize_sizes(region)
        region.settle()
        if not region.outputs:
            return
        call = self._call(region)
        self._graph.insert_after(last, call)
        if after:
            self._graph.remove(after)
            self._graph.insert_after(call, after)
        self._owners[call] = region.chain[:-1]
        inside = {inner for node in region.nodes for inner in with_nested(node)}
        for value, result in zip(region.outputs, call.outputs, strict=True):
            for use in list(value.uses()):
                if use.node not in inside:
                    use.node.replace_input_with(use.idx, result)
            for index, output in enumerate(self._graph.outputs):
                if output is value:
                    self._graph.outputs[index] = result
        self._graph.remove(region.nodes)
        self._bind(region, call)

    def _localize_sizes(self, region: Region) -> None:
        """Let the region compute its sizes from values of its own."""
        produced = {value for node in region.nodes for value in node.outputs}
        outside = dict.fromkeys(read_from_outside(region.nodes, produced))
        if not any(value in self._sizes for value in outside):
            return
        data = [value for value in outside if not value.is_initializer() and value not in self._sizes]
        local = LocalSizes(self._sizes, data)
        nodes: list[ir.Node] = []
        for node in region.nodes:
            for inner in with_nested(node):
                for index, value in enumerate(inner.inputs):
                    if value is not None and value in self._sizes:
                        inner.replace_input_with(index, local.local(value))
            if local.made:
                self._graph.insert_before(node, local.made)
                nodes += local.made
                local.made = []
            nodes.append(node)
            for value in node.outputs:
                local.see(value)
        region.nodes = nodes

    def _call(self, region: Region) -> ir.Node:
        key = (region.chain[-1].kind, region.key())
        shared = self._known.get(key)
        if shared is None:
            shared = self._known[key] = SharedFunction.of(self._declare(region), region)
        function = shared.function
        for known, value in zip(shared.values, [*region.inputs, *region.results()], strict=True):
            _generalize(known, value)
        results = [
            ir.Value(name=value.name, type=value.type, shape=value.shape, metadata_props=dict(value.metadata_props))
            for value in region.outputs
        ]
        variables = self._calls.variables(region.chain[-1])
        attributes = [ir.convenience.convert_attribute(name, value) for name, value in variables.items()]
        for attribute in attributes:
            function.attributes.setdefault(attribute.name, ir.Attr(attribute.name, attribute.type, None))
        name = f"node_{results[0].name}"
        call = ir.Node(function.domain, function.name, region.inputs, attributes, outputs=results, name=name)
        _attribute_to_module(call, region)
        shared.add(call, region)
        return call

    def _declare(self, region: Region) -> ir.Function:
        """A function of its own name, with inputs; the nodes follow when the call has taken their place."""
        domain, name = split_class(region.chain[-1].kind)
        number, unique = 0, name
        while (domain, unique, "") in self._model.functions:
            number += 1
            unique = f"{name}.{number}"
        graph = ir.Graph(_formal_inputs(region), [], nodes=[], opset_imports={}, name=unique)
        function = ir.Function(domain, unique, graph=graph, attributes=[])
        self._model.functions[function.identifier()] = function
        self._model.opset_imports.setdefault(domain, 1)
        return function

    def _bind(self, region: Region, call: ir.Node) -> None:
        """Move the nodes into the function if it has none yet; those of a second call are given up."""
        function = self._model.functions[call.op_identifier()]
        nodes = [inner for node in region.nodes for inner in with_nested(node)]
        if len(function) > 0:
            for node in nodes:
                for index in range(len(node.inputs)):
                    node.replace_input_with(index, None)
            return
        constants = [_constant(value) for value in region.literals]
        inner = dict(zip(region.inputs, function.inputs, strict=True))
        inner.update((value, node.outputs[0]) for value, node in zip(region.literals, constants, strict=True))
        for node in nodes:
            for index, value in enumerate(node.inputs):
                if value in inner:
                    node.replace_input_with(index, inner[value])
        function.extend([*constants, *region.nodes])
        function.outputs.extend(region.outputs)
        for value in region.outputs:
            value.metadata_props.pop(OUTPUT_KIND, None)
        for domain in dict.fromkeys(node.domain for node in (*constants, *nodes)):
            function.opset_imports[domain] = self._model.opset_imports.get(domain, 1)
        function.opset_imports.setdefault("", self._model.opset_imports[""])

    def drop_literals(self) -> None:
        """Take out what only the outlined nodes read: literals, and sizes that each function computes for itself."""
        for node in reversed(self._graph):
            if self._sizes.is_size(node) and not node.outputs[0].uses():
                self._graph.remove(node, safe=True)
        for value in self._candidates:
            unread = not value.uses() and not value.is_graph_output() and not value.is_graph_input()
            if unread and INPUT_KIND not in value.metadata_props:
                self._graph.initializers.pop(str(value.name), None)


def _owners(graph: ir.Graph, calls: ModuleCalls, sizes: SizeNodes) -> dict[ir.Node, Chain]:
    """The calls each node lies in. A node of unknown origin goes with its readers if they are of one call."""
    owners: dict[ir.Node, Chain] = {}
    for node in reversed(graph):
        if sizes.is_size(node):
            continue
        chain = calls.chain(node)
        if chain is None:
            readers = {owners.get(use.node) for value in node.outputs for use in value.uses()}
            chain = readers.pop() if len(readers) == 1 else ()
        if chain:
            owners[node] = chain
    return owners


def _formal_inputs(region: Region) -> list[ir.Value]:
    """Inputs named after the module's own weights, and ``input_0`` … for the data."""
    taken = {str(value.name) for node in region.nodes for value in node.outputs}
    taken.update(str(value.name) for value in region.literals)
    prefix = f"{region.chain[-1].path}."
    formals = []
    data = 0
    for value in region.inputs:
        if value.is_initializer():
            base = str(value.name).removeprefix(prefix)
        else:
            base = f"input_{data}"
            data += 1
        name, number = base, 0
        while name in taken:
            number += 1
            name = f"{base}_{number}"
        taken.add(name)
        formals.append(ir.Value(name=name, type=value.type, shape=value.shape))
    return formals


def _constant(value: ir.Value) -> ir.Node:
    assert value.const_value is not None
    output = ir.Value(name=value.name, type=value.type, shape=value.shape)
    return ir.Node(
        "", "Constant", [], [ir.AttrTensor("value", value.const_value)], outputs=[output], name=f"node_{value.name}"
    )


def _generalize(shared: ir.Value, value: ir.Value) -> None:
    """Leave open the sizes in which two calls of a function differ."""
    if shared.shape is None or shared.shape == value.shape:
        return
    if value.shape is None or len(value.shape) != len(shared.shape):
        shared.shape = None
        return
    shared.shape = ir.Shape(
        [mine if mine == other else None for mine, other in zip(shared.shape, value.shape, strict=True)]
    )


def _attribute_to_module(call: ir.Node, region: Region) -> None:
    """Give a call of a function the provenance of the node which makes its first result, up to the module."""
    producer = region.outputs[0].producer()
    assert producer is not None
    pass_on(producer, call)
    provenance = provenance_of(producer)
    if provenance is not None:
        attach(call, provenance.of_function(f"{call.domain}::{call.op_type}", region.chain[-1].path))
