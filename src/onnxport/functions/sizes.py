"""Sizes: small integers computed from shapes, which every function works out from its own inputs.

The translation computes a size once, wherever it is first needed, so the second of two equal layers reads what the
first one computed, and the two no longer look alike. A size is cheap; a copy of its computation in each function, from
the shapes of values the function has, makes equal layers equal again and keeps sizes out of their signatures.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import onnx_ir as ir

from onnxport.graphs import bodies
from onnxport.onnx_build.operators import RANDOM
from onnxport.optimize.scope import comparable_dims
from onnxport.provenance import pass_on

_FEW_ELEMENTS = 16


class SizeNodes:
    """The nodes of a graph that compute sizes from shapes and literals, and nothing else."""

    def __init__(self, graph: ir.Graph) -> None:
        self._sources: dict[ir.Value, tuple[ir.Value, ...]] = {}
        for node in graph:
            sources = self._computed_from(node)
            if sources is not None:
                self._sources[node.outputs[0]] = sources

    def _computed_from(self, node: ir.Node) -> tuple[ir.Value, ...] | None:
        if node.domain or len(node.outputs) != 1 or node.op_type in RANDOM or bodies(node):
            return None
        output = node.outputs[0]
        if output.is_graph_output() or not _is_small(output):
            return None
        if node.op_type == "Shape":
            source = node.inputs[0]
            return None if source is None or source.is_initializer() else (source,)
        found: dict[ir.Value, None] = {}
        for value in node.inputs:
            if value in self._sources:
                found.update(dict.fromkeys(self._sources[value]))
            elif value is not None and not (value.is_initializer() and _is_small(value)):
                return None
        return tuple(found) if found else None

    def __contains__(self, value: ir.Value | None) -> bool:
        return value in self._sources

    def is_size(self, node: ir.Node) -> bool:
        """Whether a node computes a size."""
        return len(node.outputs) == 1 and node.outputs[0] in self._sources

    def sources(self, values: Iterable[ir.Value]) -> Iterator[ir.Value]:
        """The values, with the tensors that were measured in the place of sizes."""
        for value in values:
            if value in self._sources:
                yield from self._sources[value]
            else:
                yield value


def _is_small(value: ir.Value) -> bool:
    if value.shape is None or len(value.shape) > 1:
        return False
    return all(isinstance(dim, int) and dim <= _FEW_ELEMENTS for dim in value.shape)


class LocalSizes:
    """Copies of sizes for one region, measured at the first value of the region that has the dimension."""

    def __init__(self, sizes: SizeNodes, inputs: Iterable[ir.Value]) -> None:
        self._sizes = sizes
        self._copies: dict[ir.Value, ir.Value] = {}
        self._at: dict[str, tuple[ir.Value, int]] = {}
        self._own: set[ir.Value] = set()
        self.made: list[ir.Node] = []
        for value in inputs:
            self.see(value)

    def see(self, value: ir.Value) -> None:
        """Let sizes be read off this value from now on."""
        self._own.add(value)
        for axis, dim in enumerate(comparable_dims(value) or ()):
            if not isinstance(dim, int):
                self._at.setdefault(str(dim.value), (value, axis))

    def local(self, value: ir.Value) -> ir.Value:
        """The size as the region computes it; the nodes for it are added to ``made``."""
        if value not in self._sizes:
            return value
        if value not in self._copies:
            self._copies[value] = self._copy(value)
        return self._copies[value]

    def _copy(self, value: ir.Value) -> ir.Value:
        node = value.producer()
        assert node is not None
        if node.op_type == "Shape":
            return self._measure(node)
        return self._emit(node, [None if one is None else self.local(one) for one in node.inputs], node.attributes)

    def _measure(self, node: ir.Node) -> ir.Value:
        source = node.inputs[0]
        assert source is not None
        dims = comparable_dims(source)
        if dims is not None:
            start, end = node.attributes.get_int("start", 0), node.attributes.get_int("end", len(dims))
            span = dims[start:end]
            if len(span) == 1 and not isinstance(span[0], int) and str(span[0].value) in self._at:
                known, axis = self._at[str(span[0].value)]
                return self._emit(node, [known], [ir.AttrInt64("start", axis), ir.AttrInt64("end", axis + 1)])
        return self._emit(node, [source], node.attributes) if source in self._own else node.outputs[0]

    def _emit(
        self, node: ir.Node, inputs: list[ir.Value | None], attributes: Iterable[ir.Attr] | Mapping[str, ir.Attr]
    ) -> ir.Value:
        old = node.outputs[0]
        copy = ir.Node(
            node.domain,
            node.op_type,
            inputs,
            attributes,
            outputs=[ir.Value(name=old.name, type=old.type, shape=old.shape)],
            version=node.version,
            name=node.name,
        )
        pass_on(node, copy)
        self.made.append(copy)
        return copy.outputs[0]
