"""How much a file says of where its nodes and values come from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias, cast, get_args

import onnx

from onnxport.errors import InputError
from onnxport.provenance import ALIASES, ARRANGED, FOLDED, NAMESPACE

Metadata: TypeAlias = Literal["full", "names", "none"]

_NAMES = frozenset({NAMESPACE, ARRANGED, FOLDED, ALIASES})
"""What stays with ``names``: the modules that a node lies in, and what tells how weights follow from the state dict."""


def check_metadata(metadata: str) -> Metadata:
    """Return an amount of metadata, or raise if it is none.

    >>> from onnxport.weights.metadata import check_metadata
    >>> check_metadata("names")
    'names'
    """
    if metadata not in get_args(Metadata):
        raise InputError(f"`metadata` is {metadata!r}; it can be {', '.join(map(repr, get_args(Metadata)))}.")
    return cast("Metadata", metadata)


def trim_metadata(proto: onnx.ModelProto, metadata: Metadata) -> None:
    """Leave out of a serialized model what was not asked for."""
    if metadata == "full":
        return
    for message in _described(proto):
        kept = [] if metadata == "none" else [entry for entry in message.metadata_props if entry.key in _NAMES]
        if len(kept) < len(message.metadata_props):
            message.ClearField("metadata_props")
            message.metadata_props.extend(kept)


_Described: TypeAlias = "onnx.NodeProto | onnx.GraphProto | onnx.FunctionProto | onnx.ValueInfoProto | onnx.TensorProto"


def _described(proto: onnx.ModelProto) -> Iterator[_Described]:
    pending: list[onnx.GraphProto | onnx.FunctionProto] = [proto.graph, *proto.functions]
    while pending:
        graph = pending.pop()
        yield graph
        yield from graph.value_info
        if isinstance(graph, onnx.GraphProto):
            yield from graph.input
            yield from graph.output
            yield from graph.initializer
        for node in graph.node:
            yield node
            pending.extend(inner_graphs(node))


def inner_graphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    """The graphs in the attributes of a serialized node."""
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == onnx.AttributeProto.GRAPHS:
            yield from attribute.graphs
