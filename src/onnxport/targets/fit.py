"""Whether a model is one that its target takes: everything in it that is not, by name and line, at once."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from onnxport.errors import Problem, TargetError
from onnxport.graphs import graphs
from onnxport.onnx_build.opsets import CONTRIBUTED_DOMAIN, ONNX_DOMAINS
from onnxport.provenance import line_of
from onnxport.targets.target import Target


def check_target_opset(target: Target, opset: int) -> int:
    """Return an opset, or raise if a target does not read it.

    >>> from onnxport.targets.fit import check_target_opset
    >>> from onnxport.targets.target import Target
    >>> check_target_opset(Target("reader", newest_opset=17), 17)
    17
    """
    if not target.oldest_opset <= opset <= target.newest_opset:
        raise TargetError(
            f"The target {target.name} reads opsets {target.oldest_opset} to {target.newest_opset}, not {opset}. "
            f"Leave out opset_version to write {target.opset}."
        )
    return opset


def check_fit(model: ir.Model, target: Target) -> None:
    """Raise, with all that is in the way, if a target can't hold a model."""
    check_target_opset(target, model.opset_imports[""])
    problems = [*_varying_inputs(model, target)]
    # Where inputs vary, so does most of what is computed: the inputs are what can be mended.
    sizes_matter = target.fixed_sizes and not problems
    for graph in graphs(model):
        for node in graph:
            problems += _misfits(node, target, sizes_matter)
    if problems:
        raise TargetError(f"The target {target.name} can't hold this model.", problems, target.basis)


def _varying_inputs(model: ir.Model, target: Target) -> Iterator[Problem]:
    if not target.fixed_sizes:
        return
    for value in model.graph.inputs:
        axes = [] if value.shape is None else [dim.value for dim in value.shape if isinstance(dim, ir.SymbolicDim)]
        if axes:
            yield Problem(
                f"the input {value.name} has sizes that vary: {', '.join(map(str, axes))}",
                remedy="Export without dynamic_shapes, at the sizes that will be used.",
            )


def _misfits(node: ir.Node, target: Target, sizes_matter: bool) -> Iterator[Problem]:
    if node.domain in ONNX_DOMAINS and node.op_type in target.refused:
        yield Problem(f"{node.op_type} is an operator that it has not", line_of(node), operator=node.op_type)
    for name in node.attributes if node.domain in ONNX_DOMAINS else ():
        if f"{node.op_type}.{name}" in target.unread:
            told = f"{node.op_type} states {name}, an attribute that it does not read: its values would be others"
            yield Problem(told, line_of(node), operator=node.op_type)
    if node.domain == CONTRIBUTED_DOMAIN and not target.contributed:
        name = f"{node.domain}.{node.op_type}"
        remedy = 'A model that was exported with target="onnxruntime" has them; export it with this target.'
        yield Problem(f"{name} is an operator of onnxruntime alone", line_of(node), remedy, operator=name)
    for value in node.outputs:
        if value.dtype in target.refused_types and value.dtype is not None:
            kind = value.dtype.name.lower()
            yield Problem(f"{node.op_type} gives {kind}, an element type that it has not", line_of(node))
        if sizes_matter and _is_open(value):
            yield Problem(f"the sizes that {node.op_type} gives are known at run time only", line_of(node))


def _is_open(value: ir.Value) -> bool:
    return value.shape is not None and any(isinstance(dim, ir.SymbolicDim) for dim in value.shape)
