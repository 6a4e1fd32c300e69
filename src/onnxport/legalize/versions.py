"""Which IR version goes with which opset, and what old IR versions ask of a model."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import onnx
import onnx_ir as ir

from onnxport.errors import OpsetError, Problem
from onnxport.graphs import graphs
from onnxport.onnx_build.opsets import NEWEST_OPSET, OLDEST_OPSET
from onnxport.weights.kinds import is_weight

# Files said nothing about opsets before IR version 3.
OLDEST_IR = 3
NEWEST_IR: int = onnx.IR_VERSION
FIRST_IR_WITH_FUNCTIONS = 8

# First opset of each IR version, newest first. From 18 to 23 the version is 10 although the releases said 8 to 11:
# 10 is what torch.onnx writes there and what every onnxruntime since 1.18 reads, and nothing but four-bit floats
# needs more.
_IR_VERSIONS = ((28, 14), (25, 13), (24, 12), (18, 10), (15, 8), (12, 7), (11, 6), (10, 5), (9, 4), (0, 3))

# Element types that a file could not name before the IR version that brought them.
_D = ir.DataType
_FIRST_IR_OF_TYPE = {
    **dict.fromkeys((_D.FLOAT8E4M3FN, _D.FLOAT8E4M3FNUZ, _D.FLOAT8E5M2, _D.FLOAT8E5M2FNUZ), 9),
    **dict.fromkeys((_D.INT4, _D.UINT4), 10),
    _D.FLOAT4E2M1: 11,
    _D.FLOAT8E8M0: 12,
    **dict.fromkeys((_D.INT2, _D.UINT2), 13),
}
_FIRST_IR_WITH_OPTIONALS = 8

Kind = tuple[type, ir.DataType | None]
"""What an IR version may have no place for: the class of a value's type, and its element type."""


def check_opset(opset: object) -> int:
    """Return the opset if a model of it can be written.

    >>> from onnxport.legalize import check_opset
    >>> check_opset(17)
    17
    """
    if not isinstance(opset, int) or isinstance(opset, bool):
        raise OpsetError(f"opset_version must be an int, not {opset!r}.")
    if not OLDEST_OPSET <= opset <= NEWEST_OPSET:
        raise OpsetError(
            f"Opset {opset} cannot be written; pass an opset_version from {OLDEST_OPSET} to {NEWEST_OPSET}."
        )
    return opset


def check_ir_version(version: object, functions: object = False) -> int | None:
    """Return the IR version if files of it can be written, with ``functions`` if these are asked for.

    None, for the one that matches the opset, is passed on.

    >>> from onnxport.legalize import check_ir_version
    >>> check_ir_version(8)
    8
    """
    if version is None:
        return None
    if not isinstance(version, int) or isinstance(version, bool):
        raise OpsetError(f"ir_version must be an int or None, not {version!r}.")
    if not OLDEST_IR <= version <= NEWEST_IR:
        raise OpsetError(
            f"IR version {version} cannot be written; pass an ir_version from {OLDEST_IR} to {NEWEST_IR}, or None for "
            "the one that matches the opset."
        )
    if functions and version < FIRST_IR_WITH_FUNCTIONS:
        raise OpsetError(
            f"Functions (export_modules_as_functions) came with IR version {FIRST_IR_WITH_FUNCTIONS}, not {version}. "
            f"Pass ir_version={FIRST_IR_WITH_FUNCTIONS}, or export without functions."
        )
    return version


def chosen_ir_version(inside: Sequence[ir.Graph], kinds: Collection[Kind], opset: int, version: int | None) -> int:
    """The IR version of a finished model by the kinds of its values: the one asked for if it can hold them.

    Where none is asked for, the least that can. What is asked for and cannot is an :class:`OpsetError` that names
    everything in the model's graphs, ``inside``, that came later.
    """
    lowest = max([ir_version_for(opset), *(_since(*kind) for kind in kinds)])
    if version is None:
        return lowest
    needs = _later_than(inside, version) if lowest > version else {}
    if needs:
        lowest = max(since for since, _ in needs.values())
        remedy = f"Pass ir_version={lowest}, or leave ir_version out for the one that matches the opset."
        problems = [
            Problem(f"{what} came with IR version {since}", where=f"the value {name}", remedy=remedy)
            for what, (since, name) in needs.items()
        ]
        raise OpsetError(f"The model cannot be written with IR version {version}:", problems)
    return version


def _since(kind: type, dtype: ir.DataType | None) -> int:
    of_type = 0 if dtype is None else _FIRST_IR_OF_TYPE.get(dtype, 0)
    return max(of_type, _FIRST_IR_WITH_OPTIONALS if kind is ir.OptionalType else 0)


def _later_than(inside: Sequence[ir.Graph], version: int) -> dict[str, tuple[int, str]]:
    """What the model has that files of an IR version have no place for: since when, and the first value of it."""
    found: dict[str, tuple[int, str]] = {}
    for value in _values(inside):
        kind = value.type
        if kind is None:
            continue
        if isinstance(kind, ir.OptionalType) and version < _FIRST_IR_WITH_OPTIONALS:
            found.setdefault("optional values", (_FIRST_IR_WITH_OPTIONALS, value.name or ""))
        since = _FIRST_IR_OF_TYPE.get(kind.dtype, 0)
        if since > version:
            found.setdefault(f"the element type {kind.dtype.name.lower()}", (since, value.name or ""))
    return found


def _values(inside: Sequence[ir.Graph]) -> Iterator[ir.Value]:
    for graph in inside:
        yield from graph.inputs
        yield from graph.initializers.values()
        for node in graph:
            yield from node.outputs


def ir_version_for(opset: int) -> int:
    """The IR version a model of ``opset`` is written with.

    >>> from onnxport.legalize.versions import ir_version_for
    >>> ir_version_for(20), ir_version_for(13)
    (10, 7)
    """
    return next(version for since, version in _IR_VERSIONS if opset >= since)


def place_initializers(model: ir.Model) -> None:
    """Meet IR version 3, where an initializer is only the default of an input.

    Weights become inputs, as that version's readers expect. Literals become ``Constant`` nodes where these can hold
    them, because an input that nobody should set is noise in the signature; before opset 9 they hold floats only.
    """
    for graph in graphs(model):
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
