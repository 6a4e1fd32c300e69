"""Replace calls that write to their arguments by calls that return new values.

Every tensor knows the tensor it is a view of. A write makes a new value for the tensor written to and, through the
inverses of the views that lead there, for everything above it; other views of the same memory are stale from then on
and are taken again when next read::

    y = x.clone()                 y = x.clone()
    row = y[0]                    row = y[0]
    row.add_(1)          ->       row_1 = row + 1
                                  y_1 = y.select_scatter(row_1, 0, 0)
    return y * 2                  return y_1 * 2
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import getitem
from typing import Any

import torch

from onnxport.errors import Problem, TranslationError
from onnxport.events import EventLog
from onnxport.prepare.copies import report_uncertain_copies, report_uncertain_returns
from onnxport.prepare.effects import COMPOSED, NONE, effects, memory_key, shares_memory, updates_statistics
from onnxport.prepare.emit import Emitter, bind_node, same_shape
from onnxport.prepare.trace import Attach, splice, trace_kernel
from onnxport.prepare.views import NoInverseError, View, Write, shows_each_once, write_by_position
from onnxport.prepare.writes import (
    IDEMPOTENT,
    OVERWRITING,
    RESIZING,
    SPECIAL,
    WriteDestination,
    call_functional,
    functional_overload,
    keeps_dtype,
    new_statistics,
)
from onnxport.provenance import operator_name, source_line
from onnxport.torch_internals import pytree
from onnxport.torch_internals.operators import OpOverload

Node = torch.fx.Node
aten = torch.ops.aten


@dataclass(eq=False)
class Memory:
    """A piece of memory that several tensors may show; the version counts its writes."""

    version: int = 0


@dataclass(eq=False)
class Alias:
    """A tensor: the memory it shows, the view that leads to it, and the node that holds its value as of a version."""

    memory: Memory
    value: Node
    val: torch.Tensor
    version: int
    parent: Alias | None = None
    view: View | None = None


@dataclass
class ViewList:
    """The views that one call returned as a list."""

    parent: Alias
    view: View
    version: int
    pieces: dict[int, Alias] = field(default_factory=dict)


def writes(graph: torch.fx.Graph) -> bool:
    """Whether any call in a graph writes to its arguments."""
    return any(
        node.op == "call_function" and (_writes(node.target) or updates_statistics(node)) for node in graph.nodes
    )


def _writes(target: object) -> bool:
    known = effects(target)
    return bool(known.writes) or known.as_view is not None


def functionalize(graph: torch.fx.Graph, attach: Attach, events: EventLog | None = None) -> dict[Node, Node]:
    """Rewrite a graph in place; return the final value of each placeholder that was written to.

    With ``events`` the graph is the user's, and what the example decided in it is reported.
    """
    shared = _shared(graph)
    if events is not None:
        report_uncertain_returns(graph, shared, events)
    for node in _composed_views(graph, shared):
        splice(node, trace_kernel(node), attach)
    shared = _shared(graph)
    if events is not None:
        report_uncertain_copies(graph, shared, events)
    rewriting = _Rewriting(graph, shared)
    final = rewriting.run()
    if rewriting.problems:
        raise TranslationError("The model writes to tensors in ways that ONNX cannot express:", rewriting.problems)
    return final


def _shared(graph: torch.fx.Graph) -> dict[Node, Node]:
    """All nodes that may show memory which is written to, with one of them for each memory: only these need care."""
    leader: dict[Node, Node] = {}

    def find(node: Node) -> Node:
        while (above := leader.setdefault(node, node)) is not node:
            leader[node] = leader[above]
            node = above
        return node

    written: list[Node] = []
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        if node.target is getitem:
            leader[find(node)] = find(node.args[0])
            continue
        known = effects(node.target)
        composed = _is_composed(node)
        if known is NONE and not composed and not updates_statistics(node):
            continue
        bound = bind_node(node)
        names = list(bound) if composed else [name for name in known.returns if name is not None]
        for source in _nodes([bound[name] for name in names]):
            leader[find(node)] = find(source)
        targets = ("running_mean", "running_var") if updates_statistics(node) else known.writes
        written += _nodes([bound[name] for name in targets])
        if known.as_view is not None:
            written.append(node)
    touched = {find(node) for node in written}
    return {node: memory for node in list(leader) if (memory := find(node)) in touched}


def _nodes(arguments: Any) -> list[Node]:
    found: list[Node] = []
    torch.fx.node.map_arg(arguments, found.append)
    return found


def _is_composed(node: Node) -> bool:
    return isinstance(node.target, OpOverload) and node.target._schema.name.split("::")[-1] in COMPOSED


def _composed_views(graph: torch.fx.Graph, shared: Mapping[Node, Node]) -> list[Node]:
    def is_view(node: Node) -> bool:
        memory = {memory_key(value) for value in _tensors([other.meta["val"] for other in node.all_input_nodes])}
        return any(memory_key(value) in memory for value in _tensors(node.meta["val"]))

    return [node for node in graph.nodes if node in shared and _is_composed(node) and is_view(node)]


def _tensors(values: object) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, torch.Tensor)]


class _Rewriting:
    def __init__(self, graph: torch.fx.Graph, shared: Mapping[Node, Node]) -> None:
        self.graph = graph
        self.shared = shared
        self.problems: list[Problem] = []
        self._aliases: dict[Node, Alias] = {}
        self._several: dict[Node, ViewList] = {}
        self._results: dict[Node, dict[int, Alias]] = {}

    def run(self) -> dict[Node, Node]:
        replaced: list[Node] = []
        final: dict[Node, Node] = {}
        for node in list(self.graph.nodes):
            if node.op == "output":
                self._refresh(node)
                final = self._final_values(node)
            elif node.op != "call_function":
                self._new(node)
            elif node.target is getitem:
                self._item(node)
            elif updates_statistics(node):
                self._update_statistics(node)
            elif effects(node.target).writes:
                if self._write_call(node):
                    replaced.append(node)
            elif _is_view(node) and node in self.shared:
                self._view_call(node)
            else:
                self._refresh(node)
                self._new(node)
        for node in reversed(replaced):
            if not node.users:
                self.graph.erase_node(node)
        return final

    def _final_values(self, output: Node) -> dict[Node, Node]:
        emit = Emitter(output, output)
        final = {}
        for node, alias in list(self._aliases.items()):
            if node.op == "placeholder" and alias.memory.version > 0:
                value = self._read(alias, emit)
                if value is not node:
                    final[node] = value
        return final

    def _new(self, node: Node) -> None:
        if node in self.shared and isinstance(node.meta.get("val"), torch.Tensor):
            self._aliases[node] = Alias(Memory(), node, node.meta["val"], 0)

    def _refresh(self, node: Node, keep: tuple[Node, ...] = ()) -> None:
        """Let a call read the present values of its arguments."""
        for source in node.all_input_nodes:
            if source in keep:
                continue
            current = source
            if source in self._aliases:
                current = self._read(self._aliases[source], Emitter(node, source))
            elif source in self._several:
                current = self._read_several(source, Emitter(node, source))
            if current is not source:
                node.replace_input_with(source, current)

    def _read(self, alias: Alias, emit: Emitter) -> Node:
        # Views can be stacked deep, and only the part above the first fresh one has to be taken again.
        stale = []
        while alias.version != alias.memory.version:
            assert alias.parent is not None and alias.view is not None
            stale.append(alias)
            alias = alias.parent
        for view in reversed(stale):
            assert view.parent is not None and view.view is not None
            view.value = view.view.replay(Emitter(emit.anchor, view.view.node), view.parent.value)
            view.version = view.memory.version
        return stale[0].value if stale else alias.value

    def _read_several(self, node: Node, emit: Emitter) -> Node:
        several = self._several[node]
        if several.version == several.parent.memory.version:
            return node
        return several.view.replay_all(emit, self._read(several.parent, emit))

    def _store(self, alias: Alias, value: Node, emit: Emitter, same_twice: bool = False) -> None:
        """Give a tensor a new value, and with it every tensor it is a view of.

        ``same_twice`` says that writing an element once more changes nothing.
        """
        value = emit.fit(value, alias.value, alias.val)
        updates = [(alias, value)]
        if (above := _repeating(alias)) is not None:
            alias, value = self._store_by_position(alias, above, value, emit, same_twice)
            updates = [(alias, value)]
        while alias.parent is not None:
            assert alias.view is not None
            parent = alias.parent
            value = alias.view.invert(self._write(parent, value, emit))
            updates.append((parent, value))
            alias = parent
        alias.memory.version += 1
        for updated, value in updates:
            updated.value, updated.version = value, alias.memory.version

    def _write(self, to: Alias, value: Node, emit: Emitter) -> Write:
        return Write(emit, value, lambda: self._read(to, emit), to.value, to.val)

    def _store_by_position(
        self, alias: Alias, above: Alias, value: Node, emit: Emitter, same_twice: bool
    ) -> tuple[Alias, Node]:
        """Write to the tensor below which elements are shown several times, past all views of it at once."""
        if not same_twice and not shows_each_once(alias.val, above.val):
            raise NoInverseError(
                "it writes through a view that shows an element several times, as those of unfold and expand do",
            )
        views = []
        while alias is not above:
            assert alias.parent is not None and alias.view is not None
            views.append(alias.view)
            alias = alias.parent
        return above, write_by_position(views[::-1], self._write(above, value, emit))

    def _view_call(self, node: Node) -> None:
        known = effects(node.target)
        assert known.returns[0] is not None
        source = bind_node(node)[known.returns[0]]
        aliased = source in self._aliases and (known.several or shares_memory(node, source))
        self._refresh(node)
        if not aliased:
            self._new(node)
            return
        if known.as_view is not None:
            node.target = known.as_view
        parent = self._aliases[source]
        view = View.of(node)
        if view.name == "as_strided":
            parent, view = self._strided(parent, view, node)
        if known.several:
            self._several[node] = ViewList(parent, view, parent.memory.version)
            return
        if "size" in view.args and view.name in ("view", "_reshape_alias"):
            # What a write leaves behind need not have the strides that `view` insists on.
            node.target = aten.reshape.default
            node.args = (node.args[0], view.args["size"])
        self._aliases[node] = Alias(parent.memory, node, node.meta["val"], parent.memory.version, parent, view)

    def _strided(self, parent: Alias, view: View, node: Node) -> tuple[Alias, View]:
        """Strides and offsets count in memory, so such a view is one of the tensor that owns the memory."""
        if view.args["storage_offset"] is None:
            view.args["storage_offset"] = parent.val.storage_offset()
        while parent.parent is not None:
            parent = parent.parent
        if not parent.val.is_contiguous() or parent.val.storage_offset() != 0:
            remedy = "Use slicing and permute instead of as_strided, or make the tensor contiguous first."
            self.problems.append(
                Problem(
                    "aten.as_strided of a tensor that is not contiguous",
                    source_line(node),
                    remedy,
                    operator="aten::as_strided",
                )
            )
        node.args = (self._read(parent, Emitter(node, node)), *node.args[1:3], view.args["storage_offset"])
        node.kwargs = {}
        return parent, View(node, view.target, view.parameter, view.args, view.val)

    def _item(self, node: Node) -> None:
        source, index = node.args
        assert isinstance(source, Node) and isinstance(index, int)
        if source in self._results and index in self._results[source]:
            self._aliases[node] = self._results[source][index]
        elif source in self._several:
            several = self._several[source]
            view = several.view.piece_of(index)
            fresh = Alias(several.parent.memory, node, view.val, several.version, several.parent, view)
            self._aliases[node] = several.pieces.setdefault(index, fresh)
        else:
            self._new(node)
            if node in self._aliases:
                self._results.setdefault(source, {})[index] = self._aliases[node]

    def _update_statistics(self, node: Node) -> None:
        bound = bind_node(node)
        written = [self._aliases[bound["running_mean"]], self._aliases[bound["running_var"]]]
        self._refresh(node)
        emit = Emitter(node, node)
        for alias, value in zip(written, new_statistics(node, emit), strict=True):
            self._store(alias, value, emit)
        self._new(node)

    def _write_call(self, node: Node) -> bool:
        """Rewrite one call that writes; whether the call itself is no longer needed."""
        bound = bind_node(node)
        known = effects(node.target)
        written = [self._aliases[source] for name in known.writes for source in _nodes(bound[name])]
        self._name_results(node, bound)
        assert isinstance(node.target, OpOverload)
        try:
            if node.target._schema.name in SPECIAL:
                return self._write_special(node, written[0], bound)
            return self._write_form(node, written)
        except NoInverseError as error:
            self.problems.append(
                Problem(f"{node.target}: {error}", source_line(node), error.remedy, operator=operator_name(node.target))
            )
            return False

    def _name_results(self, node: Node, bound: dict[str, Any]) -> None:
        """The results of a writing call are the tensors it wrote to, under another name."""
        known = effects(node.target)
        for index, name in enumerate(known.returns):
            if name is None or not isinstance(bound[name], Node):
                continue
            if len(known.returns) == 1:
                self._aliases[node] = self._aliases[bound[name]]
            else:
                self._results.setdefault(node, {})[index] = self._aliases[bound[name]]

    def _write_special(self, node: Node, alias: Alias, bound: dict[str, Any]) -> bool:
        assert isinstance(node.target, OpOverload)
        name = node.target._schema.name
        source = bound.get("src")
        if isinstance(source, Node) and self._aliases.get(source) is alias:
            return True  # a tensor copied onto itself
        if name == "aten::set_" and self._share(alias, bound):
            return True
        self._refresh(node, keep=(bound["self"],) if name in OVERWRITING else ())
        emit = Emitter(node, node)
        value = SPECIAL[name](node, WriteDestination(alias.val, alias.value), emit)
        if name in RESIZING:
            if alias.parent is not None or any(other.parent is alias for other in self._aliases.values()):
                raise NoInverseError("it resizes a view, or a tensor that has views")
            alias.val, alias.value = value.meta["val"], value
        self._store(alias, value, emit, name in IDEMPOTENT)
        return True

    def _share(self, alias: Alias, bound: dict[str, object]) -> bool:
        """A tensor that is set to another is that other from here on, unless its old memory outlives the graph."""
        source = bound.get("source")
        names = [known for known, found in self._aliases.items() if found is alias]
        if len(bound) != 2 or not isinstance(source, Node) or any(known.op == "placeholder" for known in names):
            return False
        if source not in self._aliases:
            self._aliases[source] = Alias(Memory(), source, source.meta["val"], 0)
        self._aliases |= dict.fromkeys(names, self._aliases[source])
        return True

    def _write_form(self, node: Node, written: list[Alias]) -> bool:
        target = node.target
        assert isinstance(target, OpOverload)
        form = functional_overload(target)
        self._refresh(node)
        if form is None:
            return self._write_opaque(node, written)
        args, kwargs = call_functional(node, form)
        emit = Emitter(node, node)
        if len(written) == 1 and _returns_tensor(form):
            alias = written[0]
            if self._resized(alias, node):
                alias.val = node.meta["val"]
            if len(target._schema.returns) == 1 and keeps_dtype(form, args, kwargs, alias.val.dtype):
                same_twice = target._schema.name in IDEMPOTENT
                node.target, node.args, node.kwargs = form, args, kwargs
                # ONNX values are named after nodes, and nodes after what they compute: add, not add_.
                node._rename(form._schema.name.split("::")[-1])
                self._store(alias, node, Emitter(node.next, node), same_twice)
                return False
            self._store(alias, emit.call(form, *args, **kwargs), emit)
            return True
        result = emit.call(form, *args, **kwargs)
        values = result.meta["val"]
        first = len(values) - len(written)
        for index, alias in enumerate(written):
            piece = emit.call(getitem, result, first + index, val=values[first + index])
            self._store(alias, piece, emit)
        own = [index for index, name in enumerate(effects(target).returns) if name is None]
        if not own:
            return True
        if len(target._schema.returns) == 1:
            replacement = emit.call(getitem, result, 0, val=values[0])
            node.replace_all_uses_with(replacement)
        else:
            node.replace_all_uses_with(result)
            self._results[result] = self._results.get(node, {})
        return True

    def _resized(self, alias: Alias, node: Node) -> bool:
        result = node.meta["val"]
        assert isinstance(node.target, OpOverload)
        if not node.target._schema.arguments[-1].is_out or same_shape(result, alias.val):
            return False
        if alias.parent is not None:
            raise NoInverseError("it resizes a view")
        return True

    def _write_opaque(self, node: Node, written: list[Alias]) -> bool:
        """An operator without functional form returns what it wrote: its translation computes just that."""
        if len(written) != 1 or node not in self._aliases:
            raise NoInverseError(
                "it writes to its arguments, does not return them, and has no functional form",
                "Let the operator return the tensor it writes to, or a new tensor.",
            )
        self._store(written[0], node, Emitter(node.next, node))
        return False


def _repeating(alias: Alias) -> Alias | None:
    """The last tensor on the way up whose elements a view below it may show several times."""
    found = None
    while alias.parent is not None:
        assert alias.view is not None
        if alias.view.repeats_elements:
            found = alias.parent
        alias = alias.parent
    return found


def _returns_tensor(form: OpOverload) -> bool:
    return [str(result.type) for result in form._schema.returns] == ["Tensor"]


def _is_view(node: Node) -> bool:
    known = effects(node.target)
    return known.as_view is not None or known.view_of is not None
