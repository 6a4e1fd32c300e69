"""Which IR version goes with which opset, and what old IR versions ask of a model."""

from __future__ import annotations

import onnx.defs
import onnx_ir as ir

from onnxport.errors import OpsetError

OLDEST = 7
NEWEST = onnx.defs.onnx_opset_version()

# First opset of each IR version, newest first. From 18 to 23 the version is 10 although the releases said 8 to 11:
# 10 is what torch.onnx writes there and what every onnxruntime since 1.18 reads, and nothing but four-bit floats
# needs more.
_IR_VERSIONS = ((28, 14), (25, 13), (24, 12), (18, 10), (15, 8), (12, 7), (11, 6), (10, 5), (9, 4), (0, 3))

_KIND = "pkg.torch.export.graph_signature.InputSpec.kind"
_WEIGHT_KINDS = frozenset({"PARAMETER", "BUFFER"})


def check_opset(opset: object) -> int:
    """Return the opset if a model of it can be written.

    >>> from onnxport.legalize import check_opset
    >>> check_opset(17)
    17
    """
    if not isinstance(opset, int) or isinstance(opset, bool):
        raise OpsetError(f"opset_version must be an int, not {opset!r}.")
    if not OLDEST <= opset <= NEWEST:
        raise OpsetError(f"Opset {opset} cannot be written; pass an opset_version from {OLDEST} to {NEWEST}.")
    return opset


def ir_version_for(opset: int) -> int:
    """The IR version a model of ``opset`` is written with.

    >>> from onnxport.legalize.versions import ir_version_for
    >>> ir_version_for(20), ir_version_for(13)
    (10, 7)
    """
    return next(version for since, version in _IR_VERSIONS if opset >= since)


def is_weight(value: ir.Value) -> bool:
    """Whether an initializer is one of the user's parameters or buffers rather than a literal of the graph."""
    return value.metadata_props.get(_KIND) in _WEIGHT_KINDS


def place_initializers(model: ir.Model) -> None:
    """Meet IR version 3, where an initializer is only the default of an input.

    Weights become inputs, as that version's readers expect. Literals become ``Constant`` nodes where these can hold
    them, because an input that nobody should set is noise in the signature; before opset 9 they hold floats only.
    """
    for graph in model.graphs():
        inputs = {id(value) for value in graph.inputs}
        constants: list[ir.Node] = []
        for name, value in list(graph.initializers.items()):
            tensor = value.const_value
            if tensor is None or id(value) in inputs:
                continue
            if graph is not model.graph:
                # A subgraph's inputs are fixed by the operator that owns it; the main graph's are seen from there.
                del graph.initializers[name]
                model.graph.initializers.add(value)
            if is_weight(value) or not tensor.dtype.is_floating_point():
                model.graph.inputs.append(value)
                continue
            node = ir.node("Constant", [], {"value": tensor}, name=f"{name}_constant")
            output = node.outputs[0]
            output.shape, output.type = value.shape, value.type
            value.replace_all_uses_with(output, replace_graph_outputs=True)
            del model.graph.initializers[name]
            output.name = name
            constants.append(node)
        first = next(iter(model.graph), None)
        if first is None:
            model.graph.extend(constants)
        else:
            model.graph.insert_before(first, constants)
