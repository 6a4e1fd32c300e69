"""Results that should follow an input, and in the captured graph follow none.

A recording of one run holds what torch saw. What code outside of torch made of an input's values, in NumPy or in plain
Python, stands in it as a constant: such a file would give the example's result for every input.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import torch
from torch.export.graph_signature import OutputKind

from onnxport.capture.request.eager_calls import called_eagerly
from onnxport.capture.request.inputs import Inputs
from onnxport.errors import CaptureError, Problem
from onnxport.quantized_parts import taken_apart
from onnxport.torch_internals import pytree
from onnxport.torch_internals.fake_tensors import storage_of


def check_links(
    program: torch.export.ExportedProgram,
    model: torch.nn.Module,
    inputs: Inputs,
    where: Sequence[str],
    *,
    each_output: bool,
) -> None:
    """Raise if eager's results change with an input that those of the program don't depend on.

    With ``each_output``, also if one result depends on no input and eager's does. ``where`` are lines on which the
    capture left the graph. Eager is asked only where the program lacks a link, which for a good reason few do.
    """
    user = [spec.arg for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    names = [getattr(arg, "name", "") for arg in user]
    reached = _dependencies(program, names)
    linked = set().union(*reached) if reached else set()
    lost = [index for index, leaf in enumerate(inputs.leaves) if names[index] not in linked and _varies(leaf.value)]
    constant = [index for index, links in enumerate(reached) if not links] if each_output else []
    if not lost and not constant:
        return
    before = _run(model, inputs, ())
    problems = [
        Problem(f"The result does not depend on input '{inputs.leaves[index].path}', but that of the model does.")
        for index in lost
        if _differ(before, _run(model, inputs, (index,)))
    ]
    if constant and not problems:
        everything = tuple(index for index, leaf in enumerate(inputs.leaves) if _varies(leaf.value))
        after = _run(model, inputs, everything)
        problems = [
            Problem(f"Output {index} does not depend on any input, but that of the model does.")
            for index in constant
            if before is not None and after is not None and _differ(before[index : index + 1], after[index : index + 1])
        ]
    if problems:
        remedy = "Compute it with torch operators: what NumPy or plain Python makes of values is no part of a graph."
        line = next(iter(where), "")
        told = [Problem(problem.what, line, remedy) for problem in problems]
        raise CaptureError(f"{type(model).__name__} computes results outside of torch:", told)


def _dependencies(program: torch.export.ExportedProgram, names: Sequence[str]) -> list[set[str]]:
    """Of each result, the inputs that it depends on."""
    links: dict[torch.fx.Node, set[str]] = {}
    # What was written to a memory, which every view of it shows.
    written: dict[int | None, set[str]] = {}
    for node in program.graph.nodes:
        own = {node.name} & set(names) if node.op == "placeholder" else set()
        sources = node.all_input_nodes
        links[node] = own.union(*(links[one] for one in sources), *(written.get(_memory(one), ()) for one in sources))
        if "!" in str(getattr(node.target, "_schema", "")) and node.args and isinstance(node.args[0], torch.fx.Node):
            # What is written to depends on what is written.
            links[node.args[0]] = links[node.args[0]] | links[node]
            memory = _memory(node.args[0])
            if memory is not None:
                written.setdefault(memory, set()).update(links[node])
    for node, found in links.items():
        found.update(written.get(_memory(node), ()))
    by_name = {node.name: found for node, found in links.items()}
    specs = [spec.arg for spec in program.graph_signature.output_specs if spec.kind == OutputKind.USER_OUTPUT]
    return [by_name.get(getattr(arg, "name", ""), set()) for arg in specs]


def _memory(node: torch.fx.Node) -> int | None:
    value = node.meta.get("val")
    return storage_of(value) if isinstance(value, torch.Tensor) else None


def _varies(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.numel() > 0 and not value.is_meta


def _run(model: torch.nn.Module, inputs: Inputs, changed: Sequence[int]) -> list[object] | None:
    """The model's results on the example with other values in some inputs; None where it does not take those."""
    arguments, spec = pytree.tree_flatten(copy.deepcopy((inputs.args, inputs.kwargs)))
    tensors = [leaf.value for leaf in inputs.leaves]
    for index in changed:
        at = next(
            i for i, value in enumerate(pytree.tree_leaves((inputs.args, inputs.kwargs))) if value is tensors[index]
        )
        arguments[at] = _other(arguments[at])
    args, kwargs = pytree.tree_unflatten(arguments, spec)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        try:
            return pytree.tree_leaves(taken_apart(called_eagerly(model, args, kwargs)))
        except Exception:  # noqa: BLE001
            # Other values may be none that the model takes; then nothing is known of them.
            return None


def _other(tensor: torch.Tensor) -> torch.Tensor:
    """Other values of the kind that the example has: the same in another order, and another sum where that is free."""
    if tensor.dtype == torch.bool:
        return ~tensor
    reordered = tensor.flatten().flip(0).reshape(tensor.shape)
    return reordered * 1.25 + 0.125 if tensor.is_floating_point() or tensor.is_complex() else reordered


def _differ(one: list[object] | None, other: list[object] | None) -> bool:
    if one is None or other is None:
        return False
    pairs = zip(one, other, strict=False)
    tensors = [(a, b) for a, b in pairs if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)]
    return len(one) != len(other) or any(not _equal(a, b) for a, b in tensors)


def _equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and torch.allclose(a, b, rtol=0.0, atol=0.0, equal_nan=True)
