"""Copy a captured graph without its wrappers and assertions.

``with torch.no_grad():`` and ``with torch.autocast(...):`` are captured as calls to a submodule; the nodes of that
submodule take the place of the call. Assertions about shapes and dtypes held during the capture and are dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import getitem
from typing import Any

import torch

from onnxport.prepare.autocast import Autocast, apply_autocast
from onnxport.prepare.effects import effects, updates_statistics
from onnxport.prepare.workspace import Workspace
from onnxport.torch_internals.operators import WRAPPERS, HigherOrderOperator, OpOverload, set_grad_enabled

Node = torch.fx.Node

REGIONS = "onnxport_regions"
"""The key of a node's metadata for the shared regions (``nested_compile_region``) whose calls it was inlined from."""

_WRAPPER = "_export_root"

_ASSERTIONS = {
    "aten::_assert_tensor_metadata",
    "aten::_assert_scalar",
    "aten::_assert_async",
    "aten::_functional_assert_async",
    "aten::_functional_assert_scalar",
    "aten::sym_constrain_range",
    "aten::sym_constrain_range_for_size",
    "aten::_functional_sym_constrain_range",
    "aten::_functional_sym_constrain_range_for_size",
}


def is_wrapper(node: Node) -> bool:
    """Whether a call only runs a submodule."""
    return isinstance(node.target, HigherOrderOperator) and node.target.name() in WRAPPERS


def _is_assertion(node: Node) -> bool:
    target = node.target
    if isinstance(target, OpOverload):
        return target._schema.name in _ASSERTIONS and not node.users
    return target in (torch._check, set_grad_enabled, torch.sym_constrain_range_for_size)


def needs_inlining(graph: torch.fx.Graph) -> bool:
    """Whether a copy of a graph would have fewer nodes, or the nodes of submodules."""
    return any(
        is_wrapper(node) or _is_assertion(node) or (not node.users and not _acts(node))
        for node in graph.nodes
        if node.op == "call_function"
    )


def _acts(node: Node) -> bool:
    return bool(effects(node.target).writes) or updates_statistics(node)


def inline(workspace: Workspace, graph: torch.fx.Graph, around: Autocast | None) -> dict[str, Autocast]:
    """Copy ``graph`` into a workspace, wrappers replaced by what they run; tell which attributes are in autocast."""
    copying = _Copying(workspace)
    result = copying.body(graph, workspace.source, {}, around)
    outputs = next(node for node in reversed(graph.nodes) if node.op == "output")
    workspace.graph.output(result).meta.update(outputs.meta)
    for node, autocast in copying.under_autocast:
        apply_autocast(node, autocast, workspace.attach)
    return copying.attributes_under_autocast


@dataclass(frozen=True)
class SharedRegion:
    """One call of a region that the user declared to be one body for all its calls."""

    call: str
    name: str
    modules: tuple[tuple[str, object], ...]


class _Copying:
    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.regions: tuple[SharedRegion, ...] = ()
        self.under_autocast: list[tuple[Node, Autocast]] = []
        self.attributes_under_autocast: dict[str, Autocast] = {}

    def body(
        self, graph: torch.fx.Graph, owner: torch.nn.Module, copies: dict[Node, Any], autocast: Autocast | None
    ) -> Any:
        """Copy the nodes of one graph and return what it returns, in terms of the copies."""
        for node in graph.nodes:
            if node in copies or (_is_assertion(node) and node.op == "call_function"):
                continue
            if node.op == "output":
                return torch.fx.node.map_arg(node.args[0], copies.__getitem__)
            if node.op == "get_attr":
                if all(is_wrapper(user) for user in node.users):
                    continue
                copies[node] = self._attribute(node, owner, copies, autocast)
            elif is_wrapper(node):
                copies[node] = self._unwrap(node, owner, copies, autocast)
            elif node.target is getitem and is_wrapper(node.args[0]):
                copies[node] = copies[node.args[0]][node.args[1]]
            else:
                copy = self.workspace.graph.node_copy(node, copies.__getitem__)
                copies[node] = copy
                if self.regions:
                    self._place(copy)
                if autocast is not None and node.op == "call_function":
                    self.under_autocast.append((copy, autocast))
        raise AssertionError("a captured graph ends with an output node")

    def _place(self, copy: Node) -> None:
        """Say which call of a region a node is of: the body knows only the modules around its first call."""
        around = self.regions[-1].modules
        # In a body, torch.export counts the wrapper it runs the model in as a module.
        stack = [
            (key, (path.removeprefix(f"{_WRAPPER}."), kind))
            for key, (path, kind) in (copy.meta.get("nn_module_stack") or {}).items()
            if path != _WRAPPER
        ]
        copy.meta["nn_module_stack"] = dict([*around, *stack[len(around) :]])
        copy.meta[REGIONS] = self.regions

    def _attribute(
        self, node: Node, owner: torch.nn.Module, copies: dict[Node, Any], autocast: Autocast | None
    ) -> Node:
        copy = self.workspace.graph.node_copy(node, copies.__getitem__)
        if owner is not self.workspace.source:
            copy.target = self.workspace.attach(str(node.target).replace(".", "_"), _lookup(owner, str(node.target)))
        if autocast is not None:
            self.attributes_under_autocast[str(copy.target)] = autocast
        return copy

    def _unwrap(self, node: Node, owner: torch.nn.Module, copies: dict[Node, Any], autocast: Autocast | None) -> object:
        assert isinstance(node.target, HigherOrderOperator)
        name = node.target.name()
        position = WRAPPERS[name]
        attribute = node.args[position]
        assert isinstance(attribute, Node)
        submodule = _lookup(owner, str(attribute.target))
        operands = node.args[position + (2 if name == "invoke_subgraph" else 1) :]
        if name == "wrap_with_autocast":
            autocast = Autocast(*node.args[:3])  # type: ignore[arg-type]
        inner = [placeholder for placeholder in submodule.graph.nodes if placeholder.op == "placeholder"]
        values = [torch.fx.node.map_arg(operand, copies.__getitem__) for operand in operands]
        outer = self.regions
        if name == "invoke_subgraph":
            around = (node.meta.get("nn_module_stack") or {}).items()
            self.regions = (*outer, SharedRegion(node.name, str(attribute.target), tuple(around)))
        # The result of a wrapper is always a tuple; a submodule with one result may return it bare.
        result = self.body(submodule.graph, submodule, dict(zip(inner, values, strict=True)), autocast)
        self.regions = outer
        return tuple(result) if isinstance(result, (list, tuple)) else (result,)


def _lookup(owner: torch.nn.Module, name: str) -> Any:
    value: object = owner
    for part in name.split("."):
        value = getattr(value, part)
    return value
