"""Where nodes and values of an ONNX model come from, and every key of metadata that says so.

While a model is made, provenance is one object that hangs on ``ir.Node.meta``: stages pass it on, and whoever asks for
the call, its modules or its line asks the object. The texts in ``metadata_props``, in the keys and formats of PyTorch's
exporter, are written from it once, at the end, by :func:`write_texts`. A model that was loaded from a file has only the
texts; :func:`origin_of` and :func:`line_of` read those where there is no object.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import onnx_ir as ir
import torch

from onnxport.errors import with_article
from onnxport.graphs import bodies
from onnxport.source_files import PACKAGE_FOLDER, TORCH_FOLDER, is_librarys_file
from onnxport.torch_internals.layers import pretty_print_target
from onnxport.torch_internals.operators import OpOverload

# Of nodes.
NAMESPACE = "namespace"
CLASS_HIERARCHY = "pkg.torch.onnx.class_hierarchy"
FX_NODE = "pkg.torch.onnx.fx_node"
NAME_SCOPES = "pkg.torch.onnx.name_scopes"
STACK_TRACE = "pkg.torch.onnx.stack_trace"
# Of values.
INPUT_KIND = "pkg.torch.export.graph_signature.InputSpec.kind"
INPUT_PERSISTENT = "pkg.torch.export.graph_signature.InputSpec.persistent"
OUTPUT_KIND = "pkg.torch.export.graph_signature.OutputSpec.kind"
ORIGINAL_NAME = "pkg.torch.onnx.original_node_name"
NARROWED = "onnxport.narrowed"
"""Of an input: the element type that the model takes there, where the file has a narrower one."""
# Of the graph.
GRAPH_SIGNATURE = "pkg.torch.export.ExportedProgram.graph_signature"
RANGE_CONSTRAINTS = "pkg.torch.export.ExportedProgram.range_constraints"
SIZE_LIMITS = "onnxport.size_limits"
"""Of the graph: what the model's code demands of the sizes of axes, in words, and what it raises else."""
# Of the model.
CACHE_BUFFERS = "onnxport.cache_buffers"
"""Of the model: inputs that may be longer than what they hold, with the outputs that follow them in the same memory."""
HEARD_WHOLE = "onnxport.heard_whole"
"""Of the model: the masks that an encoder of sound does without, since it hears all of a recording."""
ANEW_FROM = "onnxport.states_anew_from"
"""Of the model: with how many tokens its states are computed anew, of all of them: other frequencies begin there."""
# Of weights: the normalisation that one holds as well, how its elements follow from the state dict's where a file has
# them in another order, and the other names of the state dict that one stands for.
FOLDED = "onnxport.folded"
ARRANGED = "onnxport.arranged"
ALIASES = "onnxport.aliases"

_PROVENANCE = "onnxport.provenance"
"""The key in ``ir.Node.meta``."""

_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
# A frame whose code is not known is followed by the next frame.
_FRAME = re.compile(
    r'File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>\S+)(?:\n?\s*+(?!File ")(?P<code>[^\n]*))?'
)


class EnclosingModule(NamedTuple):
    """A module around a call: its path in the model, empty for the model itself, and the name of its class."""

    path: str
    kind: str


class Origin(NamedTuple):
    """What an ONNX node says of itself: the name of the captured call, and the modules around it, outermost first."""

    name: str
    modules: tuple[EnclosingModule, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Provenance:
    """The call of the captured graph that ONNX nodes were made for; all nodes of one call share the object.

    A node that calls a local function has the provenance of the call which makes its first result, with the name of
    the ``function`` and how many of the modules around that call are around the function (``depth``).
    """

    node: torch.fx.Node
    function: str = ""
    depth: int | None = None

    @property
    def origin(self) -> Origin:
        """The name of the call and the modules around it."""
        return Origin(self.node.name, enclosing_modules(self.node)[: self.depth])

    @property
    def operator(self) -> str:
        """The operator that was called."""
        return operator_name(self.node.target)

    def of_function(self, function: str, path: str) -> Provenance:
        """That of a node which calls the function made of the module at ``path``."""
        paths = [module.path for module in self.origin.modules]
        return Provenance(self.node, function, paths.index(path) + 1 if path in paths else len(paths))

    def __deepcopy__(self, memo: object) -> Provenance:
        return self

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        # The captured graph can't be pickled: like a file, a pickled model has the texts only.
        return (type(None), ())


def name_by_modules(model: ir.Model) -> None:
    """Name nodes as the TorchScript exporter does: by the modules around the call, and the operator.

    What is called ``/layer1/layer1.0/conv1/Conv`` is in ``layer1.0.conv1``: a module is called by the last part of its
    path, and one of a list by the list's as well.
    """
    used: Counter[str] = Counter()
    for node in model.graph.all_nodes():
        found = provenance_of(node)
        modules = () if found is None else found.origin.modules
        parts = [_called(module.path) for module in modules if module.path]
        name = "/".join(["", *parts, node.op_type])
        node.name = f"{name}_{used[name]}" if used[name] else name
        used[name] += 1


def _called(path: str) -> str:
    parts = path.split(".")
    first = len(parts) - 1
    while first > 0 and parts[first].isdigit():
        first -= 1
    return ".".join(parts[first:])


def provenance_of(node: ir.Node) -> Provenance | None:
    """The object that hangs on a node; None for a node of a loaded model, or one that stands for no call."""
    # The plain dictionary inside: this is asked of every node.
    found: Provenance | None = node.meta.data.get(_PROVENANCE)
    return found


def attach(node: ir.Node, provenance: Provenance) -> None:
    """Let a node be known to come from a call."""
    node.meta.data[_PROVENANCE] = provenance


def pass_on(node: ir.Node, replacement: ir.Node) -> None:
    """Let a node that takes the place of another, or of a part of it, come from where that one comes from."""
    provenance = node.meta.data.get(_PROVENANCE)
    if provenance is not None:
        replacement.meta.data[_PROVENANCE] = provenance
    if node.metadata_props:
        replacement.metadata_props.update(node.metadata_props)


@contextlib.contextmanager
def passed_to_copies(model: ir.Model) -> Iterator[None]:
    """Let passes of onnx_ir that copy nodes, and know of texts only, carry provenance to the copies as numbers."""
    carried: dict[str, Provenance] = {}
    for node in _nodes(model):
        provenance = provenance_of(node)
        if provenance is not None:
            node.metadata_props[_PROVENANCE] = str(len(carried))
            carried[node.metadata_props[_PROVENANCE]] = provenance
    try:
        yield
    finally:
        for node in _nodes(model):
            number = node.metadata_props.pop(_PROVENANCE, None)
            if number is not None:
                attach(node, carried[number])


def origin_of(node: ir.Node) -> Origin | None:
    """The captured call that a node stands for and the modules around it, from the texts if there is no object."""
    provenance = provenance_of(node)
    if provenance is not None:
        return provenance.origin
    scopes, classes = node.metadata_props.get(NAME_SCOPES), node.metadata_props.get(CLASS_HIERARCHY)
    if not scopes:
        return None
    try:
        *paths, name = ast.literal_eval(scopes)
        kinds = ast.literal_eval(classes)[:-1] if classes else [""] * len(paths)
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        # The text of a stranger, in a form of his own.
        return None
    if not all(isinstance(text, str) for text in (name, *paths, *kinds)):
        return None
    return Origin(name, tuple(map(EnclosingModule, paths, kinds)))


def line_of(node: ir.Node) -> str:
    """The user's line that a node comes from, from the texts if there is no object; empty where it is not known."""
    provenance = provenance_of(node)
    if provenance is not None:
        return source_line(provenance.node)
    return _innermost_line(node.metadata_props.get(STACK_TRACE, ""))


def source_line(node: torch.fx.Node) -> str:
    """Where in the user's code a call comes from: ``model.py:12 in forward: y = self.fc(x)``.

    The innermost frame outside installed packages; where all are inside, the innermost outside torch; where all are
    torch's own, as in a model of torch's layers alone, the module.

    >>> import torch
    >>> from onnxport.provenance import source_line
    >>> node = torch.fx.Graph().placeholder("x")
    >>> source_line(node)
    'the call x = x'
    >>> node.meta["stack_trace"] = 'File "model.py", line 12, in forward\\n    y = self.fc(x)'
    >>> source_line(node)
    'model.py:12 in forward: y = self.fc(x)'
    """
    return _innermost_line(_user_frames(node), node) or f"the call {node.name} = {node.target}"


def _innermost_line(trace: str, node: torch.fx.Node | None = None) -> str:
    frames = list(_FRAME.finditer(trace))
    if not frames:
        return ""
    # Code that torch generated for a branch or body has no file.
    written = [frame for frame in frames if not frame["file"].startswith("<")]
    own = [frame for frame in written if not is_librarys_file(frame["file"])]
    libraries = [frame for frame in frames if not frame["file"].startswith(TORCH_FOLDER)]
    if not own and not libraries and node is not None and (modules := enclosing_modules(node)):
        subject = f"the module {modules[-1].path!r}" if modules[-1].path else "the model"
        return f"{subject}, {with_article(modules[-1].kind.rpartition('.')[2])}"
    frame = (own or libraries or frames)[-1]
    code = f": {frame['code']}" if frame["code"] else ""
    return f"{frame['file']}:{frame['line']} in {frame['function']}{code}"


def _user_frames(node: torch.fx.Node) -> str:
    """The frames that a call comes from, without those of this package that it passed through."""
    text: str = node.meta.get("stack_trace") or ""
    if PACKAGE_FOLDER not in text:
        return text
    theirs = [frame[0] for frame in _FRAME.finditer(text) if not frame["file"].startswith(PACKAGE_FOLDER)]
    return "\n  ".join(theirs) if theirs else text


def operator_name(target: object) -> str:
    """An operator as its schema names it; another callee as it shows itself.

    >>> import torch
    >>> from onnxport.provenance import operator_name
    >>> operator_name(torch.ops.aten.add.Tensor), operator_name(torch.ops.higher_order.cond)
    ('aten::add', 'cond')
    """
    return target._schema.name if isinstance(target, OpOverload) else str(target)


def class_name(kind: object) -> str:
    """A class by its full name, as the captured graph names it; a name that it has already passes."""
    return f"{kind.__module__}.{kind.__qualname__}" if isinstance(kind, type) else str(kind)


def module_stack(node: torch.fx.Node) -> Mapping[str, tuple[str, object]]:
    """The calls of modules that a call lies in, by a key that tells two calls of one module apart: path and class."""
    found: Mapping[str, tuple[str, object]] | None = node.meta.get("nn_module_stack")
    return {} if found is None else found


def enclosing_modules(node: torch.fx.Node) -> tuple[EnclosingModule, ...]:
    """The modules around a call of the captured graph, outermost first."""
    return tuple([EnclosingModule(path, class_name(kind)) for path, kind in module_stack(node).values()])


def aliases(weight: ir.Value) -> list[str]:
    """The other names of the state dict that a weight stands for."""
    text = weight.metadata_props.get(ALIASES)
    return text.split(",") if text else []


def add_aliases(weight: ir.Value, *names: str) -> None:
    """Remember other state-dict names of a weight, by which new values can be applied to it."""
    if names:
        weight.metadata_props[ALIASES] = ",".join([*aliases(weight), *names])


def write_texts(model: ir.Model) -> None:
    """Say in ``metadata_props`` of each node where it comes from; what is said there already stays."""
    known: dict[Provenance, dict[str, str]] = {}
    stacks: dict[torch.fx.Graph, _Stacks] = {}
    for node in _nodes(model):
        provenance: Provenance | None = node.meta.data.get(_PROVENANCE)
        if provenance is None:
            continue
        texts = known.get(provenance)
        if texts is None:
            texts = known[provenance] = _texts(provenance, stacks.setdefault(provenance.node.graph, {}))
        own = node.metadata_props
        own.update({**texts, **own} if own else texts)


def _nodes(model: ir.Model) -> Iterator[ir.Node]:
    """All nodes, those of functions and of graphs inside nodes included, each looked at once."""
    pending = [model.graph, *(function.graph for function in model.functions.values())]
    while pending:
        for node in pending.pop():
            yield node
            pending += bodies(node)


_Stacks = dict[tuple[str, ...], tuple[str, str, str]]
"""Module stacks of one graph as texts, by their keys: many nodes share one."""


def _texts(provenance: Provenance, stacks: _Stacks) -> dict[str, str]:
    node, name = provenance.node, provenance.node.name
    stack = module_stack(node)
    keys = tuple(stack)[: provenance.depth]
    modules = stacks.get(keys)
    path, classes, scopes = _module_texts(keys, stack, stacks) if modules is None else modules
    callee, quoted, shown = _target_texts(node.target)
    if provenance.function:
        callee, quoted = provenance.function, repr(provenance.function)
    return {
        NAMESPACE: f"{path}{name}: {callee}",
        CLASS_HIERARCHY: f"{classes}{quoted}]",
        FX_NODE: _call_text(node, name, shown),
        NAME_SCOPES: f"{scopes}{name!r}]",
        STACK_TRACE: _user_frames(node),
    }


@functools.cache
def _target_texts(target: object) -> tuple[str, str, str]:
    """A callee as it is named, the same in quotes, and as a printed graph shows it."""
    # A Python function shows its address, which differs from process to process.
    named = _ADDRESS.sub("", str(target))
    return named, repr(named), str(pretty_print_target(target))


def _call_text(node: torch.fx.Node, name: str, target: str) -> str:
    """A call as ``Node.format_node`` shows it, which takes several times as long."""
    args, kwargs = node.args, node.kwargs
    texts = [f"%{item.name}" if type(item) is torch.fx.Node else _argument_text(item) for item in args]
    shown = f"({texts[0]},)" if len(texts) == 1 else f"({', '.join(texts)})"
    named = _argument_text(kwargs) if kwargs else "{}"
    return f"%{name} : [num_users={len(node.users)}] = {node.op}[target={target}](args = {shown}, kwargs = {named})"


def _argument_text(argument: object) -> str:
    kind = type(argument)
    if kind is int or kind is float or kind is str or argument is None:
        return str(argument)
    if isinstance(argument, torch.fx.Node):
        return f"%{argument.name}"
    if isinstance(argument, list):
        return f"[{', '.join([_argument_text(item) for item in argument])}]"
    if isinstance(argument, tuple):
        texts = ", ".join([_argument_text(item) for item in argument])
        return f"({texts},)" if len(argument) == 1 else f"({texts})"
    if isinstance(argument, dict):
        return f"{{{', '.join([f'{name}: {_argument_text(item)}' for name, item in argument.items()])}}}"
    return str(argument)


def _module_texts(
    keys: tuple[str, ...], stack: Mapping[str, tuple[str, object]], stacks: _Stacks
) -> tuple[str, str, str]:
    """Namespace, classes and scopes of the modules around a call, each text open for the call itself."""
    if not keys:
        return "", "[", "["
    found = stacks.get(keys)
    if found is not None:
        return found
    path, classes, scopes = _module_texts(keys[:-1], stack, stacks)
    name, module = stack[keys[-1]]
    kind = class_name(module)
    head = f"{name}: " if name else ""
    found = stacks[keys] = f"{path}{head}{kind}/", f"{classes}{kind!r}, ", f"{scopes}{name!r}, "
    return found
