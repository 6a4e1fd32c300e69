"""Operators by module: the nesting of the model, with how many of which operator each module holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape

import onnx_ir as ir

from onnxport.provenance import EnclosingModule, enclosing_modules, origin_of
from onnxport.report.account import Account

_OPEN_LEVELS = 2

Modules = tuple[EnclosingModule, ...]


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
    for modules, operator in _placed(account):
        here = root
        for path, kind in modules:
            if path:
                here = here.children.setdefault(path, Module(path))
            here.kind = kind.rsplit(".", 1)[-1]
        here.operators[operator] += 1
    return root


def _placed(account: Account) -> Iterator[tuple[Modules, str]]:
    if account.onnx_model is not None:
        for node in account.onnx_model.graph:
            yield from _node(node, account.onnx_model, _modules(node))
    elif account.captured is not None:
        graph = account.captured.program.graph if account.functional is None else account.functional.graph
        for fx_node in graph.nodes:
            if fx_node.op == "call_function":
                yield enclosing_modules(fx_node), str(fx_node.target)


def _modules(node: ir.Node) -> Modules:
    origin = origin_of(node)
    return () if origin is None else origin.modules


def _node(node: ir.Node, model: ir.Model, modules: Modules) -> Iterator[tuple[Modules, str]]:
    """A node at its place, or the nodes of the function it calls at theirs."""
    function = model.functions.get(node.op_identifier())
    if function is None or not modules:
        yield modules, f"{node.domain}::{node.op_type}" if node.domain else node.op_type
        return
    depth = len(modules)
    for inner in function:
        # The body was made for one module; here it stands for the one that is called.
        own = _modules(inner)
        here = modules[-1].path
        below = [EnclosingModule(here + path.removeprefix(own[depth - 1].path), kind) for path, kind in own[depth:]]
        yield from _node(inner, model, (*modules, *below))


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
