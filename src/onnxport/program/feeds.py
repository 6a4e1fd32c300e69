"""From the arguments of a call to the inputs of the graph, as the model's own signature lays them out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind

from onnxport.capture.request.tensor_keys import keys_as_inputs, takes_keys
from onnxport.errors import InputError, Problem
from onnxport.provenance import NARROWED, line_of
from onnxport.quantized_parts import taken_apart
from onnxport.size_limits import SizeLimit
from onnxport.torch_internals import pytree
from onnxport.weights.dtypes import from_torch_dtype, to_torch_dtype


def bind_inputs(
    model: ir.Model,
    exported_program: ExportedProgram | None,
    args: Sequence[object],
    kwargs: Mapping[str, object],
) -> dict[str, torch.Tensor]:
    """Return a tensor for each graph input, or raise ``InputError`` with everything that does not fit."""
    args, kwargs = tuple(args), dict(kwargs)
    if exported_program is None or takes_keys(exported_program.call_spec.in_spec):
        args, kwargs = keys_as_inputs((args, kwargs))
    args, kwargs = taken_apart((args, kwargs))
    graph = model.graph
    inputs = [value for value in graph.inputs if value.name not in graph.initializers]
    problems: list[Problem] = []
    if exported_program is None:
        leaves = _flatten_freely(inputs, args, kwargs, problems)
    else:
        leaves = _flatten_as_exported(exported_program, args, kwargs, problems)
    if not problems and len(leaves) != len(inputs):
        names = ", ".join(str(value.name) for value in inputs)
        problems.append(Problem(f"The graph has {len(inputs)} inputs ({names}), but {len(leaves)} tensors were given."))
    feeds: dict[str, torch.Tensor] = {}
    if not problems:
        for value, leaf in zip(inputs, leaves, strict=True):
            feeds[str(value.name)] = _fit(value, leaf, problems)
    if problems:
        raise InputError("The inputs do not fit the model.", problems)
    return feeds


_READS_SIZES_ONLY = frozenset(
    f"aten::{name}"
    for name in (
        *(
            "new_zeros",
            "new_ones",
            "new_full",
            "new_empty",
            "new_empty_strided",
            "zeros_like",
            "ones_like",
            "full_like",
        ),
        *(
            "empty_like",
            "zero",
            "zero_",
            "fill",
            "fill_",
            "set",
            "set_",
            "sym_size",
            "sym_numel",
            "sym_stride",
            "_dim_arange",
        ),
    )
)
"""Operators that take nothing of their first tensor but its sizes and its type."""


def inputs_of_values(model: ir.Model, paths: Sequence[ExportedProgram]) -> set[str]:
    """The names of inputs whose values the results are computed from, also where the graph needs none any more."""
    inputs = [str(value.name) for value in model.graph.inputs if value.name not in model.graph.initializers]
    taken: set[str] = set()
    for program in paths:
        nodes = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
        specs = [spec.arg for spec in program.graph_signature.input_specs if spec.kind == InputKind.USER_INPUT]
        given = [nodes[str(arg.name)] for arg in specs if not isinstance(arg, ConstantArgument)]
        if len(given) != len(inputs):
            return set(inputs)
        reached = _reached_by_values(program.graph)
        taken.update(name for name, node in zip(inputs, given, strict=True) if node in reached)
    return taken


def _reached_by_values(graph: torch.fx.Graph) -> set[torch.fx.Node]:
    """The nodes whose values, not just sizes, the results depend on."""
    waiting = list(graph.output_node().all_input_nodes)
    reached: set[torch.fx.Node] = set()
    while waiting:
        node = waiting.pop()
        if node in reached:
            continue
        reached.add(node)
        schema = getattr(node.target, "_schema", None)
        by_sizes = schema is not None and schema.name in _READS_SIZES_ONLY
        waiting.extend(given for given in node.all_input_nodes if not (by_sizes and given is node.args[0]))
    return reached


def _sizes_of_axes(graph: ir.Graph, feeds: Mapping[str, torch.Tensor]) -> dict[str, int]:
    """The sizes that inputs give to axes, by the names of these."""
    return {
        str(dim.value): size
        for value in graph.inputs
        if value.name in feeds and value.shape is not None
        for dim, size in zip(value.shape, feeds[str(value.name)].shape, strict=False)
        if isinstance(dim, ir.SymbolicDim)
    }


def check_batches(graph: ir.Graph, feeds: Mapping[str, torch.Tensor]) -> None:
    """Refuse an empty batch where onnxruntime's kernel of a recurrent layer would end the process (1.31)."""
    if all(tensor.numel() for tensor in feeds.values()):
        return
    sizes = _sizes_of_axes(graph, feeds)
    for node in ir.traversal.RecursiveGraphIterator(graph):
        shape = node.inputs[0].shape if node.op_type in ("LSTM", "GRU") and node.inputs[0] is not None else None
        batch = None if shape is None else shape[1]
        if batch == 0 or (isinstance(batch, ir.SymbolicDim) and sizes.get(str(batch.value)) == 0):
            problem = Problem(f"The batch of {node.op_type} {node.name!r} is empty", line_of(node), _FOR_EMPTY)
            raise InputError("onnxruntime can't run the model on an empty batch, it would end the process:", [problem])


_FOR_EMPTY = "Pass at least one sequence, or return without running the model where there is none."


def check_limits(graph: ir.Graph, limits: Sequence[SizeLimit], feeds: Mapping[str, torch.Tensor]) -> None:
    """Refuse inputs of sizes at which the model's own code raises, or that the file does not hold at."""
    if not limits:
        return
    sizes = _sizes_of_axes(graph, feeds)
    told = ", ".join(f"{name} is {size}" for name, size in sizes.items())
    problems = [
        Problem(f"It takes inputs where {limit.words}; here {told}, and {limit.otherwise}", limit.where)
        for limit in limits
        if not limit.is_kept(sizes)
    ]
    if problems:
        raise InputError("The model does not take inputs of these sizes:", problems)


def as_called(exported_program: ExportedProgram | None, results: Sequence[Any], arguments: object) -> Sequence[Any]:
    """Results as they are for such arguments: complex where torch's are, if complex tensors were given."""
    given = (leaf for leaf in pytree.tree_leaves(arguments) if isinstance(leaf, torch.Tensor))
    if exported_program is None or not any(tensor.is_complex() for tensor in given):
        return results
    values = {node.name: node.meta.get("val") for node in exported_program.graph.nodes}
    specs = [spec.arg for spec in exported_program.graph_signature.output_specs if spec.kind == OutputKind.USER_OUTPUT]
    kept = [arg for arg in specs if not (isinstance(arg, ConstantArgument) and arg.value is None)]
    expected = [values.get(getattr(arg, "name", "")) for arg in kept]
    return [
        as_complex(result) if isinstance(value, torch.Tensor) and value.is_complex() else result
        for result, value in zip(results, expected, strict=True)
    ]


def as_complex(pairs: torch.Tensor) -> torch.Tensor:
    """Complex numbers of pairs along the last axis; torch's view of them wants strides that an empty array lacks."""
    return torch.complex(pairs[..., 0], pairs[..., 1])


def _flatten_freely(
    inputs: Sequence[ir.Value], args: Sequence[object], kwargs: Mapping[str, object], problems: list[Problem]
) -> list[object]:
    """Without the captured program only the graph's own names are known: keywords are looked up among them."""
    leaves = [leaf for leaf in pytree.tree_leaves(tuple(args)) if leaf is not None]
    rest = [str(value.name) for value in inputs[len(leaves) :]]
    problems += [
        Problem(f"{name}: not an input that is still open ({', '.join(rest) or 'none is'}).")
        for name in kwargs
        if name not in rest
    ]
    return leaves + [kwargs[name] for name in rest if name in kwargs]


def _flatten_as_exported(
    program: ExportedProgram, args: Sequence[object], kwargs: Mapping[str, object], problems: list[Problem]
) -> list[object]:
    """Flatten the arguments in the structure of the export, without those that became part of the graph."""
    specs = [spec.arg for spec in program.graph_signature.input_specs if spec.kind == InputKind.USER_INPUT]
    leaves: list[object] = []
    for name, spec, argument in _arguments(program, args, kwargs, problems):
        if argument is _MISSING:
            here = specs[len(leaves) : len(leaves) + spec.num_leaves]
            if not all(isinstance(arg, ConstantArgument) for arg in here):
                problems.append(Problem(f"{name}: missing."))
            # What became part of the graph need not be given again.
            leaves += [arg.value if isinstance(arg, ConstantArgument) else None for arg in here]
            continue
        try:
            leaves += spec.flatten_up_to(argument)
        except ValueError as error:
            what, remedy = f"{name}: not of the structure it was exported with. {error}", ""
            if isinstance(argument, list | tuple) and len(argument) != spec.num_children and not spec.is_leaf():
                what = f"{name}: a list of {len(argument)} items, but it was exported with {spec.num_children}."
                remedy = (
                    "Its items are inputs of the ONNX model, so that their number is fixed; stack them if it varies."
                )
            problems.append(Problem(what, remedy=remedy))
            leaves += [None] * spec.num_leaves
    if problems:
        return []
    kept = []
    for leaf, arg in zip(leaves, specs, strict=True):
        if isinstance(leaf, torch.Generator):
            continue  # one that is read is refused by the export, so that this one is no input of the graph
        if not isinstance(arg, ConstantArgument):
            kept.append(leaf)
        elif type(leaf) is not type(arg.value) or leaf != arg.value:
            problems.append(
                Problem(
                    f"{arg.name}: exported as {arg.value!r}, which is part of the graph now; got {_brief(leaf)}.",
                    remedy="Export again with this value.",
                )
            )
    return kept


_MISSING = object()


def _arguments(
    program: ExportedProgram, args: Sequence[object], kwargs: Mapping[str, object], problems: list[Problem]
) -> Iterator[tuple[str, pytree.TreeSpec, object]]:
    """Yield each parameter's name, structure and argument, whether it came by position or by keyword."""
    spec = program.call_spec.in_spec
    if spec is None:
        raise InputError("The exported program does not say how it is called, so its inputs cannot be laid out.")
    positional, by_name = pytree.children_of(spec)
    keywords = list(by_name.context)
    structures = [*pytree.children_of(positional), *pytree.children_of(by_name)]
    signature = program.module_call_graph[0].signature
    names = None if signature is None else signature.forward_arg_names
    if names is None or len(names) != len(structures):
        names = [*(f"argument {index}" for index in range(positional.num_children)), *keywords]

    given: dict[str, object] = dict(zip(names, args, strict=False))
    takes = f"The model takes {', '.join(names) or 'none'}."
    if len(args) > len(names):
        problems.append(Problem(f"{len(args)} arguments are too many.", remedy=takes))
    for name, argument in kwargs.items():
        if name in given:
            problems.append(Problem(f"{name}: given twice, by position and by keyword."))
        elif name not in names:
            problems.append(Problem(f"{name}: not an argument of the export.", remedy=takes))
        given[name] = argument
    for name, structure in zip(names, structures, strict=True):
        yield name, structure, given.get(name, _MISSING)


def _fit(value: ir.Value, leaf: object, problems: list[Problem]) -> torch.Tensor:
    """Return the tensor to feed for a leaf; what is wrong with it goes to ``problems``."""
    dtype = None if value.dtype is None else to_torch_dtype(value.dtype)
    if isinstance(leaf, (bool, int, float)):
        tensor = torch.tensor(leaf)
        if dtype is not None and torch.can_cast(tensor.dtype, dtype):
            tensor = tensor.to(dtype)
        if value.shape is not None and all(size == 1 for size in value.shape):
            tensor = tensor.reshape([1] * len(value.shape))
    elif isinstance(leaf, torch.Tensor):
        tensor = torch.view_as_real(leaf.resolve_conj()) if leaf.is_complex() else leaf
        if NARROWED in value.metadata_props and tensor.dtype == torch.int64 and _fits_int32(tensor):
            tensor = tensor.to(torch.int32)
    else:
        remedy = "Pass torch.as_tensor(array)." if isinstance(leaf, np.ndarray) else ""
        problems.append(Problem(f"{value.name}: expected a tensor, got {_brief(leaf)}.", remedy=remedy))
        return torch.empty(0)
    if dtype is not None and tensor.dtype != dtype:
        problems.append(Problem(f"{value.name}: expected {dtype}, got {tensor.dtype}."))
    if value.shape is not None:
        problems.extend(_shape_problems(value, value.shape, tensor))
    return tensor


def _fits_int32(tensor: torch.Tensor) -> bool:
    return bool((tensor == tensor.to(torch.int32)).all())


def _shape_problems(value: ir.Value, shape: ir.Shape, tensor: torch.Tensor) -> Iterator[Problem]:
    got = list(tensor.shape)
    if len(shape) != len(got):
        yield Problem(f"{value.name}: expected {len(shape)} dimensions {shape}, got {len(got)}: {got}.")
        return
    for axis, (expected, size) in enumerate(zip(shape, got, strict=True)):
        if isinstance(expected, int) and expected != size:
            yield Problem(
                f"{value.name}: dimension {axis} is fixed at {expected}, got {size} in {got}.",
                remedy="Declare the dimension dynamic when exporting to give it other sizes.",
            )


def _brief(leaf: object) -> str:
    if isinstance(leaf, torch.Tensor):
        return f"a tensor {from_torch_dtype(leaf.dtype).name} {list(leaf.shape)}"
    if isinstance(leaf, np.ndarray):
        return f"a NumPy array {leaf.dtype} {list(leaf.shape)}"
    return f"{' '.join(repr(leaf).split())[:60]} ({type(leaf).__name__})"
