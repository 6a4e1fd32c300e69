"""From a captured program to a functional graph of translatable calls: inline, functionalize, decompose."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind, TensorArgument

from onnxport.capture.patches import patched_torch
from onnxport.capture.request.contexts import autocast_around
from onnxport.errors import Problem, TranslationError
from onnxport.events import EventLog
from onnxport.prepare.autocast import Autocast
from onnxport.prepare.decompose import HasTranslation, decompose, undecomposed
from onnxport.prepare.flex_attention import expand_flex_attention, has_flex_attention
from onnxport.prepare.functional import FunctionalProgram, Mutation, MutationKind
from onnxport.prepare.functionalize import functionalize, writes
from onnxport.prepare.inline import REGIONS, SharedRegion, inline, needs_inlining
from onnxport.prepare.rebind import has_assignments, rebind_data
from onnxport.prepare.subclasses import unwrap, unwrapped_signature, wrapped_weights
from onnxport.prepare.vmap import expand_vmaps, has_vmaps
from onnxport.prepare.workspace import Workspace
from onnxport.provenance import operator_name, source_line
from onnxport.torch_internals.operators import HigherOrderOperator

__all__ = ["REGIONS", "FunctionalProgram", "Mutation", "SharedRegion", "prepare", "prepare_body"]

_MUTATIONS: dict[InputKind, MutationKind] = {
    InputKind.USER_INPUT: "USER_INPUT_MUTATION",
    InputKind.PARAMETER: "PARAMETER_MUTATION",
    InputKind.BUFFER: "BUFFER_MUTATION",
    InputKind.CONSTANT_TENSOR: "BUFFER_MUTATION",
}
_MUTATED_OUTPUTS: dict[str, MutationKind] = {
    "BUFFER_MUTATION": "BUFFER_MUTATION",
    "PARAMETER_MUTATION": "PARAMETER_MUTATION",
    "USER_INPUT_MUTATION": "USER_INPUT_MUTATION",
}


def prepare(exported_program: ExportedProgram, has_translation: HasTranslation, events: EventLog) -> FunctionalProgram:
    """Make a captured program functional and made of calls that have a translation, as far as they can be had.

    The program itself is never changed; when nothing needs to change, its graph is used as it is.

    >>> import torch
    >>> from onnxport.events import EventLog
    >>> class Count(torch.nn.Module):
    ...     def forward(self, x):
    ...         return x.clone().add_(1)
    >>> program = torch.export.export(Count(), (torch.zeros(2),))
    >>> prepared = prepare(program, lambda target, of_complex: True, EventLog())
    >>> [str(node.target) for node in prepared.graph.nodes if node.op == "call_function"]
    ['aten.clone.default', 'aten.add.Tensor']
    """
    _refuse_kernels(exported_program.graph_module)
    signature = exported_program.graph_signature
    returned = [spec.kind.name for spec in signature.output_specs]
    functional_outputs = any(kind != OutputKind.USER_OUTPUT.name for kind in returned)
    constants = exported_program.constants.items()
    state = {**exported_program.state_dict, **{k: v for k, v in constants if isinstance(v, torch.Tensor)}}
    wrapped = wrapped_weights(signature, state)
    noted = autocast_around(exported_program)
    graph, owner, final = _prepare_module(
        exported_program.graph_module,
        has_translation,
        events,
        must_copy=functional_outputs,
        wrapped=wrapped,
        around=None if noted is None else Autocast(*noted, enabled=True),
    )
    if wrapped:
        signature, state = unwrapped_signature(signature, state, wrapped)
    mutations = []
    for spec in signature.input_specs:
        name = spec.arg.name
        if name in final:
            kind = _MUTATIONS[spec.kind]
            mutations.append(Mutation(kind, name if spec.target is None else spec.target, final[name]))
    output = next(node for node in reversed(graph.nodes) if node.op == "output")
    if functional_outputs:
        values = list(output.args[0])
        for spec, value in zip(signature.output_specs, values, strict=True):
            if spec.kind.name in _MUTATED_OUTPUTS:
                mutations.append(Mutation(_MUTATED_OUTPUTS[spec.kind.name], str(spec.target), value))
        output.args = (tuple(value for kind, value in zip(returned, values, strict=True) if kind == "USER_OUTPUT"),)
    return FunctionalProgram(
        graph=graph,
        owner=owner,
        signature=signature if graph is exported_program.graph else _renamed(signature, output.args[0]),
        state=state,
        range_constraints=exported_program.range_constraints,
        mutations=mutations,
    )


def _refuse_kernels(module: torch.fx.GraphModule) -> None:
    """Refuse launches of Triton kernels: one that writes has no result, and would be dropped without a word."""
    remedy = "Make the kernel an operator with torch.library.triton_op and pass its translation, or use torch's own."
    problems = [
        Problem(
            f"{node.target} launches a Triton kernel, which is machine code and has no ONNX form",
            source_line(node),
            remedy,
            operator=operator_name(node.target),
        )
        for part in module.modules()
        if isinstance(part, torch.fx.GraphModule)
        for node in part.graph.nodes
        if isinstance(node.target, HigherOrderOperator) and node.target.name().startswith("triton_kernel_wrapper")
    ]
    if problems:
        raise TranslationError("The model launches kernels of its own:", problems)


def _renamed(signature: Any, values: Any) -> Any:
    """The signature with the names that user outputs have in the new graph."""
    users = [spec for spec in signature.output_specs if spec.kind is OutputKind.USER_OUTPUT]
    specs = []
    for spec, value in zip(users, values, strict=True):
        if isinstance(value, torch.fx.Node) and isinstance(value.meta.get("val"), torch.Tensor):
            spec = replace(spec, arg=TensorArgument(name=value.name))
        elif isinstance(value, torch.fx.Node) and not isinstance(spec.arg, ConstantArgument):
            spec = replace(spec, arg=type(spec.arg)(name=value.name))
        specs.append(spec)
    return replace(signature, output_specs=specs)


def _prepare_module(
    module: torch.fx.GraphModule,
    has_translation: HasTranslation,
    events: EventLog,
    must_copy: bool = False,
    wrapped: Mapping[str, str] = MappingProxyType({}),
    around: Autocast | None = None,
) -> tuple[torch.fx.Graph, torch.fx.GraphModule, dict[str, torch.fx.Node]]:
    """Prepare one graph and those it calls; the graph itself comes back when it needs nothing."""
    if not (must_copy or wrapped or around is not None or _needs_change(module, has_translation)):
        return module.graph, module, {}
    with patched_torch():
        return _changed(module, has_translation, events, wrapped, around)


def _changed(
    module: torch.fx.GraphModule,
    has_translation: HasTranslation,
    events: EventLog,
    wrapped: Mapping[str, str],
    around: Autocast | None,
) -> tuple[torch.fx.Graph, torch.fx.GraphModule, dict[str, torch.fx.Node]]:
    workspace = Workspace(module)
    graph = workspace.graph
    under_autocast = inline(workspace, module.graph, around)
    unwrap(graph, wrapped, workspace.attach)
    rebind_data(graph)
    expand_flex_attention(graph, workspace.attribute, workspace.attach)
    expand_vmaps(graph, workspace.attribute, workspace.attach)
    final = functionalize(graph, workspace.attach, events) if writes(graph) else {}
    output = next(node for node in reversed(graph.nodes) if node.op == "output")
    results = output.args[0]
    # As results they outlive the clean-up, and follow when the call that computes them is decomposed.
    output.args = (results, tuple(final.values()))
    workspace.remove_dead_code()
    decompose(graph, has_translation, workspace.attach, events)
    workspace.remove_dead_code()
    for name, branch in _branches(graph, workspace.attribute).items():
        autocast = under_autocast.get(name)
        if autocast is not None or _needs_change(branch, has_translation):
            workspace.replace(name, prepare_body(name, branch, has_translation, events, autocast))
    results, values = output.args
    output.args = (results,)
    named = {node.name: value for node, value in zip(final, values, strict=True)}
    return graph, workspace.owner(), named


def prepare_body(
    name: str,
    body: torch.fx.GraphModule,
    has_translation: HasTranslation,
    events: EventLog,
    around: Autocast | None = None,
) -> torch.fx.GraphModule:
    """The same for a graph inside another: a branch, a loop body, or what one call is written as."""
    graph, owner, final = _prepare_module(body, has_translation, events, around=around)
    if final:
        problems = [
            Problem(f"{name} writes to its input {written}", source_line(value)) for written, value in final.items()
        ]
        raise TranslationError("A branch or loop body may not write to tensors from outside:", problems)
    return body if graph is body.graph else torch.fx.GraphModule(owner, graph)


def _needs_change(module: torch.fx.GraphModule, has_translation: HasTranslation) -> bool:
    graph = module.graph
    if needs_inlining(graph) or has_assignments(graph) or has_flex_attention(graph) or has_vmaps(graph):
        return True
    if writes(graph) or undecomposed(graph, has_translation):
        return True
    branches = _branches(graph, module.get_submodule).values()
    return any(_needs_change(branch, has_translation) for branch in branches)


def _branches(graph: torch.fx.Graph, attribute: Callable[[str], object]) -> dict[str, torch.fx.GraphModule]:
    """The submodules that a graph passes to higher-order operators."""
    found = {}
    for node in graph.find_nodes(op="get_attr"):
        if any(isinstance(user.target, HigherOrderOperator) for user in node.users):
            value = attribute(node.target)
            if isinstance(value, torch.fx.GraphModule):
                found[node.target] = value
    return found
