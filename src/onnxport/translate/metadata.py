"""Provenance: the metadata of nodes, values and graph, in the keys and formats that PyTorch's exporter uses."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping

import torch

INPUT_PERSISTENT = "pkg.torch.export.graph_signature.InputSpec.persistent"
OUTPUT_KIND = "pkg.torch.export.graph_signature.OutputSpec.kind"
ORIGINAL_NAME = "pkg.torch.onnx.original_node_name"
GRAPH_SIGNATURE = "pkg.torch.export.ExportedProgram.graph_signature"
RANGE_CONSTRAINTS = "pkg.torch.export.ExportedProgram.range_constraints"

_TORCH = os.path.dirname(torch.__file__) + os.sep
_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)\n?\s*(?P<code>[^\n]*)')


Stacks = dict[tuple[str, ...], tuple[str, str, str]]


def node_metadata(node: torch.fx.Node, stacks: Stacks) -> dict[str, str]:
    """What each ONNX node made for ``node`` carries. ``stacks`` caches module stacks, which many nodes share."""
    stack = node.meta.get("nn_module_stack") or {}
    path, classes, scopes = _module_path(tuple(stack), stack, stacks)
    name = node.name
    target, shown = _target_texts(node.target)
    return {
        "namespace": f"{path}{name}: {target}",
        "pkg.torch.onnx.class_hierarchy": f"{classes}{target!r}]",
        "pkg.torch.onnx.fx_node": _call_text(node, name, shown),
        "pkg.torch.onnx.name_scopes": f"{scopes}{name!r}]",
        "pkg.torch.onnx.stack_trace": stack_trace(node),
    }


@functools.cache
def _target_texts(target: object) -> tuple[str, str]:
    return str(target), str(torch.fx.Node._pretty_print_target(target))


def _call_text(node: torch.fx.Node, name: str, target: str) -> str:
    """A call as ``Node.format_node`` shows it, which takes several times as long."""
    head = f"%{name} : [num_users={len(node.users)}] = {node.op}[target={target}]"
    kwargs = node.kwargs
    return f"{head}(args = {_argument_text(node.args)}, kwargs = {_argument_text(kwargs) if kwargs else '{}'})"


def _argument_text(argument: object) -> str:
    if isinstance(argument, torch.fx.Node):
        return f"%{argument.name}"
    kind = type(argument)
    if kind is int or kind is float or kind is str or argument is None:
        return str(argument)
    if isinstance(argument, tuple):
        texts = ", ".join(
            [f"%{item.name}" if type(item) is torch.fx.Node else _argument_text(item) for item in argument]
        )
        return f"({texts},)" if len(argument) == 1 else f"({texts})"
    if isinstance(argument, list):
        return f"[{', '.join([_argument_text(item) for item in argument])}]"
    if isinstance(argument, dict):
        return f"{{{', '.join([f'{name}: {_argument_text(item)}' for name, item in argument.items()])}}}"
    return str(argument)


def _module_path(
    keys: tuple[str, ...], stack: Mapping[str, tuple[str, str | type]], stacks: Stacks
) -> tuple[str, str, str]:
    """Namespace, classes and scopes of the modules around a call, each text open for the call itself."""
    found = stacks.get(keys)
    if found is not None:
        return found
    if not keys:
        return "", "[", "["
    path, classes, scopes = _module_path(keys[:-1], stack, stacks)
    name, module = stack[keys[-1]]
    kind = module if isinstance(module, str) else f"{module.__module__}.{module.__qualname__}"
    head = f"{name}: " if name else ""
    found = stacks[keys] = f"{path}{head}{kind}/", f"{classes}{kind!r}, ", f"{scopes}{name!r}, "
    return found


def stack_trace(node: torch.fx.Node) -> str:
    """The frames of the user's code that a node comes from, without those of this package that it passed through."""
    text: str = node.meta.get("stack_trace") or ""
    if _PACKAGE not in text:
        return text
    theirs = [frame[0] for frame in _FRAME.finditer(text) if not frame["file"].startswith(_PACKAGE)]
    return "\n  ".join(theirs) if theirs else text


def source_line(node: torch.fx.Node) -> str:
    """Where in the user's code a node comes from: ``model.py:12 in forward: y = self.fc(x)``.

    The innermost frame outside installed packages; where all are inside, the innermost outside torch.
    """
    frames = list(_FRAME.finditer(stack_trace(node)))
    if not frames:
        return f"the call {node.name} = {node.target}"
    own = [frame for frame in frames if "site-packages" not in frame["file"]]
    libraries = [frame for frame in frames if not frame["file"].startswith(_TORCH)]
    frame = (own or libraries or frames)[-1]
    code = f": {frame['code']}" if frame["code"] else ""
    return f"{frame['file']}:{frame['line']} in {frame['function']}{code}"
