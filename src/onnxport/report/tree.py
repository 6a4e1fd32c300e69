"""Operators by module: the nesting of the model, with how many of which operator each module holds."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape

import onnx_ir as ir

from onnxport.report.account import Account

_SCOPES = "pkg.torch.onnx.name_scopes"
_CLASSES = "pkg.torch.onnx.class_hierarchy"
_OPEN_LEVELS = 2


@dataclass
class Module:
    """A module, its own operators and those of the modules in it."""

    name: str
    kind: str = ""
    operators: Counter[str] = field(default_factory=Counter)
    children: dict[str, Module] = field(default_factory=dict)

    def total(self) -> Counter[str]:
        """All operators below this module."""
        return sum((child.total() for child in self.children.values()), self.operators.copy())


def module_tree(account: Account) -> Module:
    """Lay out the operators of the ONNX model, or of the captured graph where there is none yet."""
    root = Module(account.model_name)
    for path, kinds, operator in _placed(account):
        here = root
        for name, kind in zip(path, kinds, strict=False):
            if name:
                here = here.children.setdefault(name, Module(name))
            here.kind = kind.rsplit(".", 1)[-1]
        here.operators[operator] += 1
    return root


def _placed(account: Account) -> Iterator[tuple[list[str], list[str], str]]:
    if account.onnx_model is not None:
        for node in account.onnx_model.graph:
            yield from _node(node, account.onnx_model, *_provenance(node))
    elif account.captured is not None:
        graph = account.captured.program.graph if account.functional is None else account.functional.graph
        for fx_node in graph.nodes:
            if fx_node.op == "call_function":
                stack = list((fx_node.meta.get("nn_module_stack") or {}).values())
                yield [name for name, _ in stack], [str(kind) for _, kind in stack], str(fx_node.target)


def _provenance(node: ir.Node) -> tuple[list[str], list[str]]:
    scopes, classes = node.metadata_props.get(_SCOPES), node.metadata_props.get(_CLASSES)
    path = ast.literal_eval(scopes)[:-1] if scopes else []
    return path, ast.literal_eval(classes)[:-1] if classes else []


def _node(
    node: ir.Node, model: ir.Model, path: list[str], kinds: list[str]
) -> Iterator[tuple[list[str], list[str], str]]:
    """A node at its place, or the nodes of the function it calls at theirs."""
    function = model.functions.get(node.op_identifier())
    if function is None or not path:
        yield path, kinds, f"{node.domain}::{node.op_type}" if node.domain else node.op_type
        return
    depth = len(path)
    for inner in function:
        # The body was made for one module; here it stands for the one that is called.
        own, own_kinds = _provenance(inner)
        below = [path[-1] + name.removeprefix(own[depth - 1]) for name in own[depth:]]
        yield from _node(inner, model, [*path, *below], [*kinds, *own_kinds[depth:]])


def render(module: Module, level: int = 0) -> str:
    """A module as nested lists that open and close."""
    total = module.total()
    kind = f' <span class="quiet">{escape(module.kind)}</span>' if module.kind and module.kind != module.name else ""
    shown = ", ".join(f"{escape(name)} {count}" for name, count in total.most_common(6))
    more = f" and {len(total) - 6} more" if len(total) > 6 else ""
    opened = " open" if level < _OPEN_LEVELS else ""
    own = "".join(f"<li><code>{escape(name)}</code> {count}</li>" for name, count in module.operators.most_common())
    inner = "".join(f"<li>{render(child, level + 1)}</li>" for child in module.children.values())
    return (
        f"<details{opened}><summary><b>{escape(module.name)}</b>{kind} "
        f'<span class="quiet">{sum(total.values())}: {shown}{more}</span></summary><ul>{own}{inner}</ul></details>'
    )
