"""Which module call each node belongs to, as the captured graph tells it."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import onnx_ir as ir
import torch

from onnxport.errors import InputError, OpsetError
from onnxport.prepare import REGIONS, SharedRegion
from onnxport.provenance import class_name, module_stack, provenance_of

# The first opset whose files (IR version 8) have a place for functions.
FIRST_OPSET = 15
# The domain of functions that stand for no class: regions the user declared to be one body for all their calls.
_REGION = "onnxport."


@dataclass(frozen=True)
class ModuleCall:
    """One call of a module: ``key`` tells it from other calls of the same module."""

    key: str
    path: str
    kind: str


Chain = tuple[ModuleCall, ...]
Variable = int | float | str | list[int] | list[float] | list[str]


def check_request(request: object, opset: int) -> Collection[type[torch.nn.Module]] | bool:
    """Return which modules shall become functions: True for all, or classes; False for none.

    >>> import torch
    >>> from onnxport.functions import check_request
    >>> check_request({torch.nn.Linear}, 20)
    {<class 'torch.nn.modules.linear.Linear'>}
    >>> check_request({torch.nn.Linear}, 14)
    Traceback (most recent call last):
        ...
    onnxport.errors.OpsetError: Functions (export_modules_as_functions) need opset 15 or newer, not 14...
    """
    if isinstance(request, bool):
        wanted: Collection[type[torch.nn.Module]] | bool = request
    elif isinstance(request, set | frozenset | list | tuple):
        if other := [item for item in request if not (isinstance(item, type) and issubclass(item, torch.nn.Module))]:
            raise InputError(f"`export_modules_as_functions` takes True or a set of module classes, not {other[0]!r}.")
        wanted = request
    else:
        raise InputError(f"`export_modules_as_functions` takes True or a set of module classes, not {request!r}.")
    if wanted and opset < FIRST_OPSET:
        raise OpsetError(
            f"Functions (export_modules_as_functions) need opset {FIRST_OPSET} or newer, not {opset}. "
            f"Pass opset_version={FIRST_OPSET}, or export without functions."
        )
    return wanted


class ModuleCalls:
    """The module calls that shall become functions, by the FX node a node of the model stands for.

    ``model`` is the model itself, whose modules tell their annotated variables; an exported program has none.
    """

    def __init__(
        self, graph: torch.fx.Graph, wanted: Collection[type[torch.nn.Module]] | bool, model: object = None
    ) -> None:
        self._modules = dict(model.named_modules(remove_duplicate=False)) if isinstance(model, torch.nn.Module) else {}
        self.names = None if wanted is True else _class_names(wanted)
        self._chains: dict[torch.fx.Node, Chain] = {}
        known: dict[tuple[object, ...], Chain] = {}
        for node in graph.nodes:
            stack = module_stack(node)
            regions: tuple[SharedRegion, ...] = node.meta.get(REGIONS, ())
            key = (*stack, *regions)
            if key not in known:
                known[key] = self._chain(stack, regions)
            self._chains[node] = known[key]

    def _chain(self, stack: Mapping[str, tuple[str, object]], regions: tuple[SharedRegion, ...]) -> Chain:
        calls = self._module_calls(stack)
        for region in regions:
            # Behind the modules that call the region, before those that it calls.
            around = {key for key, _ in region.modules}
            place = sum(call.key in around or call.key == call.path for call in calls)
            calls.insert(place, ModuleCall(region.call, region.call, f"{_REGION}{region.name}"))
        return tuple(calls)

    def _module_calls(self, stack: Mapping[str, tuple[str, object]]) -> list[ModuleCall]:
        calls: list[ModuleCall] = []
        for key, (path, kind) in stack.items():
            name = class_name(kind)
            # The model itself has no path: it is the graph.
            if path and path != key and (self.names is None or name in self.names):
                calls.append(ModuleCall(key, path, name))
        return calls

    def chain(self, node: ir.Node) -> Chain | None:
        """The calls a node lies in, from the outermost to the innermost; None where that isn't known."""
        provenance = provenance_of(node)
        return None if provenance is None else self._chains.get(provenance.node)

    def variables(self, call: ModuleCall) -> dict[str, Variable]:
        """The annotated variables of the module that is called, as far as ONNX has attributes of their type.

        Nothing in the function reads them: they tell a consumer which kernel could take its place.
        """
        module = self._modules.get(call.path)
        found: dict[str, Variable] = {}
        for kind in reversed(type(module).__mro__):
            if issubclass(kind, torch.nn.Module) and kind is not torch.nn.Module:
                for name in vars(kind).get("__annotations__", {}):
                    value = _as_attribute(getattr(module, name, None))
                    if value is not None:
                        found[name] = value
        return found

    def missing(self) -> list[str]:
        """The classes that were asked for and are nowhere called."""
        if self.names is None:
            return []
        called = {call.kind for chain in self._chains.values() for call in chain}
        return sorted(self.names - called)


def function_calls(
    graph: torch.fx.Graph, wanted: Collection[type[torch.nn.Module]] | bool, opset: int, model: object
) -> ModuleCalls | None:
    """The calls to make functions of: modules where asked for, shared regions where the opset has functions."""
    regions = opset >= FIRST_OPSET and any(REGIONS in node.meta for node in graph.nodes)
    return ModuleCalls(graph, wanted, model) if wanted or regions else None


def _as_attribute(value: object) -> Variable | None:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, int | float | str):
        return value
    if isinstance(value, tuple | list) and value:
        for kind in (int, float, str):
            if all(type(item) is kind for item in value):
                return list(value)
    return None


def _class_names(wanted: Collection[type[torch.nn.Module]] | bool) -> frozenset[str]:
    return frozenset() if isinstance(wanted, bool) else frozenset(class_name(kind) for kind in wanted)


def split_class(kind: str) -> tuple[str, str]:
    """The Python module a class is defined in, and its own name.

    >>> from onnxport.functions.modules import split_class
    >>> split_class("torch.nn.modules.linear.Linear")
    ('torch.nn.modules.linear', 'Linear')
    """
    parts = kind.split(".")
    end = len(parts) - 1
    # A class in a function or in another class has more dots after the module's path.
    while end > 1 and ".".join(parts[:end]) not in sys.modules:
        end -= 1
    if ".".join(parts[:end]) not in sys.modules:
        end = len(parts) - 1
    return ".".join(parts[:end]), parts[-1]
