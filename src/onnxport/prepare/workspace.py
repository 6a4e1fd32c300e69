"""A graph of our own to edit, beside the captured program, which stays as it was."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from onnxport.capture.forks.decisions import DECIDED


class Workspace:
    """A graph under construction and the attributes it reads: the source module's, and those added here."""

    def __init__(self, source: torch.fx.GraphModule) -> None:
        self.source = source
        self.graph = torch.fx.Graph()
        self._added: dict[str, object] = {}
        self._names: dict[int, str] = {}

    def attach(self, hint: str, value: object) -> str:
        """Make a value readable by ``get_attr`` and return its name; the same value is attached once."""
        if id(value) not in self._names:
            name, count = hint, 0
            while name in self._added or hasattr(self.source, name):
                count += 1
                name = f"{hint}_{count}"
            self._added[name] = value
            self._names[id(value)] = name
        return self._names[id(value)]

    def replace(self, name: str, value: object) -> None:
        """Let an attribute of the source stand for something else in this graph."""
        self._added[name] = value

    def attribute(self, name: str) -> Any:
        """What ``get_attr`` reads under a name."""
        if name in self._added:
            return self._added[name]
        value: object = self.source
        for part in name.split("."):
            value = getattr(value, part)
        return value

    def owner(self) -> torch.fx.GraphModule:
        """The module to read attributes from: the source itself when nothing was added."""
        if not self._added:
            return self.source
        # An empty graph: this module is read, not run, and generating code for the whole graph would take longer
        # than everything else in this stage.
        owner = torch.fx.GraphModule(torch.nn.Module(), torch.fx.Graph())
        for name, child in self.source.named_children():
            setattr(owner, name, child)
        for names in (self.source._parameters, self.source._buffers):
            for name, tensor in names.items():
                setattr(owner, name, tensor)
        for node in self.graph.nodes:
            if node.op == "get_attr" and "." not in node.target:
                setattr(owner, node.target, self.attribute(node.target))
        return owner

    def remove_dead_code(self, keep: Iterable[torch.fx.Node] = ()) -> None:
        """Erase calls that nothing uses; a functional graph has calls for no other end, but for marks of decisions."""
        roots = set(keep)
        for node in reversed(list(self.graph.nodes)):
            if node.op not in ("call_function", "get_attr") or node.users or node in roots:
                continue
            if node.target is not DECIDED:
                self.graph.erase_node(node)
