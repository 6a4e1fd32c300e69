"""Weights that are wrappers: a tensor subclass that computes with tensors inside it, as quantized weights do.

Each such weight becomes the tensors that it is made of (``weight.qdata``, ``weight.scale``), and each call that is
given a wrapper becomes the calls that the subclass makes of it: they are traced alone, as those of an unknown operator.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.export.graph_signature import ExportGraphSignature, InputSpec, TensorArgument

from onnxport.errors import Problem, TranslationError
from onnxport.prepare.emit import PROVENANCE_META
from onnxport.prepare.trace import Attach, splice, substitute, trace_call
from onnxport.provenance import source_line
from onnxport.torch_internals import pytree
from onnxport.torch_internals.operators import OpOverload
from onnxport.torch_internals.subclasses import access_inner_tensor, plain_tensors, wraps_tensors

Rebuild = Callable[[Iterator[torch.Tensor]], torch.Tensor]
"""Makes a wrapper of the innermost tensors it consists of, which it takes from an iterator in order."""


@dataclass(frozen=True)
class _Parts:
    """A wrapper in the graph: the nodes of its innermost tensors, and what it looks like around fake ones."""

    nodes: list[torch.fx.Node]
    value: torch.Tensor


_Result = Any
"""What a call gives: a node, a number, the parts of a wrapper, or a list of these."""


def _rebuilder(tensor: torch.Tensor) -> Rebuild:
    if not wraps_tensors(tensor):
        return next
    attributes, context = tensor.__tensor_flatten__()  # type: ignore[attr-defined]
    inner = {attribute: _rebuilder(getattr(tensor, attribute)) for attribute in attributes}
    kind: Any = type(tensor)
    size, stride = tensor.size(), tensor.stride()
    return lambda parts: kind.__tensor_unflatten__(
        {attribute: rebuild(parts) for attribute, rebuild in inner.items()}, context, size, stride
    )


def wrapped_weights(signature: ExportGraphSignature, state: Mapping[str, torch.Tensor]) -> dict[str, str]:
    """The placeholders of weights that are wrappers, with the weights' names."""
    return {
        spec.arg.name: spec.target
        for spec in signature.input_specs
        if spec.target is not None
        and isinstance(state.get(spec.target), torch.Tensor)
        and wraps_tensors(state[spec.target])
    }


def unwrapped_signature(
    signature: ExportGraphSignature, state: Mapping[str, torch.Tensor], wrapped: Mapping[str, str]
) -> tuple[ExportGraphSignature, dict[str, torch.Tensor]]:
    """The signature and the weights after :func:`unwrap`: in the place of each wrapper what it consists of."""
    specs: list[InputSpec] = []
    weights = {name: tensor for name, tensor in state.items() if name not in wrapped.values()}
    for spec in signature.input_specs:
        if spec.arg.name not in wrapped:
            specs.append(spec)
            continue
        assert spec.target is not None
        for name, tensor in plain_tensors(state[spec.target], spec.target):
            argument = TensorArgument(name=_placeholder(spec.arg.name, name.removeprefix(spec.target)))
            specs.append(replace(spec, arg=argument, target=name))
            weights[name] = tensor
    return replace(signature, input_specs=specs), weights


def _placeholder(wrapper: str, path: str) -> str:
    return wrapper + path.replace(".", "_")


def unwrap(graph: torch.fx.Graph, wrapped: Mapping[str, str], attach: Attach) -> None:
    """Replace, in place, wrappers by what they consist of and calls on them by what the subclasses do."""
    if not wrapped:
        return
    known: dict[torch.fx.Node, _Parts] = {}
    replaced: set[torch.fx.Node] = set()
    for node in list(graph.nodes):
        if node.op == "placeholder" and node.name in wrapped:
            known[node] = _placeholders(node)
            replaced.add(node)
        elif any(source in known for source in node.all_input_nodes):
            result = _inside(node, known) if node.target is access_inner_tensor else _computed(node, known, attach)
            _assign(node, result, known)
            replaced.add(node)
    for node in reversed(list(graph.nodes)):
        if node in known or node in replaced:
            graph.erase_node(node)


def _placeholders(node: torch.fx.Node) -> _Parts:
    value = node.meta["val"]
    nodes = []
    with node.graph.inserting_before(node):
        for path, tensor in plain_tensors(value, ""):
            part = node.graph.placeholder(_placeholder(node.name, path))
            part.meta.update({**node.meta, "val": tensor})
            nodes.append(part)
    return _Parts(nodes, value)


def _inside(node: torch.fx.Node, known: Mapping[torch.fx.Node, _Parts]) -> _Result:
    """What a wrapper holds under an attribute."""
    wrapper, name = node.args
    assert isinstance(wrapper, torch.fx.Node)
    assert isinstance(name, str)
    parts = iter(known[wrapper].nodes)
    value = known[wrapper].value
    for attribute in value.__tensor_flatten__()[0]:  # type: ignore[attr-defined]
        found = _result(getattr(value, attribute), parts)
        if attribute == name:
            return found
    raise AssertionError(f"{type(value).__name__} has no tensor {name!r}.")


def _computed(node: torch.fx.Node, known: Mapping[torch.fx.Node, _Parts], attach: Attach) -> _Result:
    """What a call gives, computed by the calls that the subclass makes of it."""
    if not isinstance(node.target, OpOverload):
        raise TranslationError("A tensor subclass leaves the calls it could be unwrapped in:", [_refusal(node, known)])
    leaves, structure = pytree.tree_flatten((list(node.args), dict(node.kwargs)))
    wrappers = [known.get(leaf) if isinstance(leaf, torch.fx.Node) else None for leaf in leaves]
    rebuilders = [next if parts is None else _rebuilder(parts.value) for parts in wrappers]
    flat = [part for leaf, parts in zip(leaves, wrappers, strict=True) for part in (parts.nodes if parts else [leaf])]
    outputs: list[object] = []
    target = node.target

    def run(*given: torch.Tensor) -> list[object]:
        rest = iter(given)
        args, kwargs = pytree.tree_unflatten([rebuild(rest) for rebuild in rebuilders], structure)
        outputs[:] = [target(*args, **kwargs)]
        return [part for leaf in pytree.tree_leaves(outputs) for part in _flat(leaf)]

    with node.graph.inserting_before(node):
        call = node.graph.call_function(run, tuple(flat), name=node.name)
        holder = node.graph.call_function(tuple, (call,))
    call.meta.update({key: node.meta[key] for key in PROVENANCE_META if key in node.meta})
    splice(call, trace_call(call, run), attach)
    nodes = iter(holder.args[0])  # type: ignore[arg-type]
    node.graph.erase_node(holder)
    result: _Result = pytree.tree_map(lambda leaf: _result(leaf, nodes), outputs)[0]
    return result


def _flat(leaf: object) -> list[object]:
    return [part for _, part in plain_tensors(leaf, "")] if isinstance(leaf, torch.Tensor) else [leaf]


def _result(value: object, nodes: Iterator[torch.fx.Node]) -> _Result:
    """The nodes of one result, taken from those of all: a wrapper has several."""
    if isinstance(value, torch.Tensor) and wraps_tensors(value):
        return _Parts([next(nodes) for _ in plain_tensors(value, "")], value)
    return next(nodes)


def _assign(node: torch.fx.Node, result: _Result, known: dict[torch.fx.Node, _Parts]) -> None:
    """Let the users of a node have its result; those of a wrapper are unwrapped when their turn comes."""
    if isinstance(result, _Parts):
        known[node] = result
    elif isinstance(result, list | tuple):
        for user in list(node.users):
            assert user.target is operator.getitem
            position: Any = user.args[1]
            _assign(user, result[position], known)
            if user not in known:
                node.graph.erase_node(user)
    else:
        substitute(node, result)


def _refusal(node: torch.fx.Node, known: Mapping[torch.fx.Node, _Parts]) -> Problem:
    kinds = sorted({type(known[source].value).__name__ for source in node.all_input_nodes if source in known})
    place = "is a result of the model" if node.op == "output" else f"is passed to {node.target}"
    remedy = "Call .dequantize() or the like on it first, so that a plain tensor is passed."
    return Problem(f"A tensor subclass ({', '.join(kinds)}) {place}", source_line(node), remedy)
