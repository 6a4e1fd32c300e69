"""What the file calls outputs and axes: as the user says, else as the model does, else by place; never by a symbol."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

import torch
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind

from onnxport.capture.request.caches import KEYS, VALUES, layers_of_states
from onnxport.capture.request.dynamic_shapes import Axis
from onnxport.capture.request.trees import steps_of
from onnxport.events import EventLog
from onnxport.onnx_build.names import UniqueNames
from onnxport.torch_internals import pytree

_OUTPUT = "output"
_CACHE = "present"
_STATES = {KEYS: "key", VALUES: "value"}
_PARTS_OF_CACHE = {"self_attention_cache": "decoder", "cross_attention_cache": "encoder"}
_ENTRIES_OF_TUPLES = {2: ("key", "value"), 4: ("decoder.key", "decoder.value", "encoder.key", "encoder.value")}
"""What the tensors of one layer are in a cache of plain tuples, by their number."""

_PAST = "past"
"""Every layer of a cache has such an axis; where they are not known to be equal, they are numbered."""

_KNOWN_AXES: tuple[tuple[re.Pattern[str], tuple[str, ...]], ...] = (
    (re.compile(r"input_ids|inputs_embeds"), ("batch", "sequence")),
    (re.compile(r"decoder_input_ids|decoder_inputs_embeds"), ("batch", "decoder_sequence")),
    (re.compile(r"pixel_values"), ("batch", "channels", "height", "width")),
    (re.compile(r"past_key_values[\w.]*"), ("batch", "heads", _PAST, "")),
)
"""Inputs by whose names, which all libraries for such models share, one knows what their axes are."""


def returned_names(program: torch.export.ExportedProgram) -> list[str]:
    """The names that a model has for what it returns, in order; what is None has none, as it is left out.

    >>> import torch
    >>> class Both(torch.nn.Module):
    ...     def forward(self, x):
    ...         return {"logits": x + 1, "states": (x + 2, x + 3)}
    >>> returned_names(torch.export.export(Both(), (torch.ones(2),)))
    ['logits', 'states.0', 'states.1']
    """
    user = [spec.arg for spec in program.graph_signature.output_specs if spec.kind == OutputKind.USER_OUTPUT]
    returned = [not (isinstance(arg, ConstantArgument) and arg.value is None) for arg in user]
    spec = program.call_spec.out_spec
    called = [""] * len(user) if spec is None else list(_called(spec, ""))
    names = [name or _OUTPUT for name in itertools.compress(called, returned)]
    if len(names) == 1 and re.fullmatch(rf"{_OUTPUT}_\d+", names[0]):
        return [_OUTPUT]
    return names


def _called(spec: pytree.TreeSpec, name: str) -> Iterator[str]:
    """The names of the leaves below a container that is called ``name``."""
    if spec.is_leaf():
        yield name
        return
    children = pytree.children_of(spec)
    steps = list(steps_of(spec))
    if {KEYS, VALUES} <= set(steps):
        yield from _states(spec, _cache_name(name))
    elif set(steps) == set(_PARTS_OF_CACHE):
        base = _cache_name(name)
        for step, child in zip(steps, children, strict=True):
            # The number of the layer stands before the part, as in a cache of tuples.
            names = _called(child, base)
            yield from (re.sub(r"^(.*?\.\d+)\.", rf"\1.{_PARTS_OF_CACHE[str(step)]}.", called) for called in names)
    elif name == "past_key_values" and children and _is_cache_of_tuples(spec):
        entries = _ENTRIES_OF_TUPLES[children[0].num_leaves]
        yield from (f"{_CACHE}.{layer}.{entry}" for layer in range(len(children)) for entry in entries)
    else:
        for step, child in zip(steps, children, strict=True):
            yield from _called(child, _below(name, step))


def _below(name: str, step: object) -> str:
    shown = re.sub(r"\s+", "_", str(step).strip())
    if not shown:
        shown = "empty"
    if name:
        return f"{name}.{shown}"
    return f"{_OUTPUT}_{shown}" if isinstance(step, int) else shown


def _cache_name(name: str) -> str:
    unnamed = not name or name == "past_key_values" or re.fullmatch(rf"{_OUTPUT}_\d+", name)
    return _CACHE if unnamed else name


def _states(spec: pytree.TreeSpec, name: str) -> Iterator[str]:
    """The states of a cache by layer: ``present.0.key``."""
    layers = layers_of_states(spec.context)
    for step, child in zip(steps_of(spec), pytree.children_of(spec), strict=True):
        state = _STATES.get(str(step), str(step))
        numbers = layers.get(str(step), range(child.num_leaves))
        yield from (f"{name}.{layer}.{state}" for layer in numbers)


def _is_cache_of_tuples(spec: pytree.TreeSpec) -> bool:
    layers = pytree.children_of(spec)
    counts = {layer.num_leaves for layer in layers}
    flat = all(not layer.is_leaf() and all(leaf.is_leaf() for leaf in pytree.children_of(layer)) for layer in layers)
    return flat and len(counts) == 1 and counts <= set(_ENTRIES_OF_TUPLES)


@dataclasses.dataclass
class AxisNames:
    """What the sizes of a program are called.

    ``dims`` maps a symbol to its name; ``same`` maps a symbol to the one it equals because the user gave both one name.
    """

    dims: dict[str, str] = dataclasses.field(default_factory=dict)
    same: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def by_symbol(self) -> dict[str, str]:
        """The name of each symbol; those with one name have one size."""
        return {**self.dims, **{symbol: self.dims[other] for symbol, other in self.same.items()}}


def name_axes(
    program: torch.export.ExportedProgram,
    sizes: Sequence[tuple[Axis, object]],
    input_names: Sequence[str],
    events: EventLog | None = None,
) -> AxisNames:
    """Name the sizes that vary: by the user's names, in signature order, the others by what they are axes of."""
    names = AxisNames()
    for axis, size in sizes:
        if axis.name is not None and isinstance(size, torch.SymInt):
            _take_users_name(names, axis, axis.name, size, events)
    free = UniqueNames(taken=lambda: names.dims.values())
    given = itertools.chain(input_names, itertools.repeat(None))
    inputs = [(name or node.name, node) for name, node in zip(given, _user_inputs(program), strict=False)]
    uses: dict[str, list[tuple[str, int | None]]] = {}
    for name, node in inputs:
        value = node.meta.get("val")
        shape: Sequence[object] = value.shape if isinstance(value, torch.Tensor) else (value,)
        for axis_number, size in enumerate(shape):
            if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                at = axis_number if isinstance(value, torch.Tensor) else None
                uses.setdefault(str(size.node.expr), []).append((name, at))
    for symbol, places in uses.items():
        if symbol not in names.dims and symbol not in names.same:
            names.dims[symbol] = free.unique(_readable(places, names.dims.values()))
    for symbol, name in unbacked_names(program).items():
        names.dims.setdefault(symbol, free.unique(name))
    return names


def user_inputs(program: torch.export.ExportedProgram) -> list[str]:
    """What the capture calls the tensors and numbers that the program takes."""
    return [node.name for node in _user_inputs(program)]


def _user_inputs(program: torch.export.ExportedProgram) -> Iterator[torch.fx.Node]:
    placeholders = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    for spec in program.graph_signature.input_specs:
        if spec.kind is InputKind.USER_INPUT and not isinstance(spec.arg, ConstantArgument):
            yield placeholders[spec.arg.name]


def _take_users_name(names: AxisNames, axis: Axis, name: str, size: torch.SymInt, events: EventLog | None) -> None:
    expression = size.node.expr
    if not expression.is_Symbol:
        # A Dim derived from another, 2 * half, says the other's name.
        words = set(re.findall(r"[^\W\d]\w*", name))
        if axis.kind == "dim" and len(words) == len(expression.free_symbols) == 1:
            names.dims.setdefault(str(*expression.free_symbols), *words)
        elif events is not None:
            events.add("note", "capture", f"The model ties {axis} ('{name}') to other axes.")
        return
    symbol = str(expression)
    given = names.dims.get(names.same.get(symbol, symbol))
    owner = next((other for other, known in names.dims.items() if known == name), None)
    if given == name:
        return
    if given is not None and events is not None:
        message = f"The model requires '{name}' ({axis}) to equal '{given}'; the name '{given}' is kept."
        events.add("note", "capture", message)
    elif given is None and owner is not None:
        names.same[symbol] = owner
    elif given is None:
        names.dims[symbol] = name


def _readable(places: Sequence[tuple[str, int | None]], taken: Collection[str]) -> str:
    """A name for a size that inputs have at these axes (None for an integer, which is the size itself)."""
    for name, axis in places:
        known = next((axes for pattern, axes in _KNOWN_AXES if pattern.fullmatch(name)), ())
        if axis is not None and axis < len(known) and (known[axis] == _PAST or known[axis] not in ("", *taken)):
            return known[axis]
    if len(places) > 1 and all(axis == 0 for _, axis in places) and "batch" not in taken:
        return "batch"
    name, axis = next(((name, axis) for name, axis in places if axis is None), places[0])
    return name if axis is None else f"{name}_dim{axis}"


def unbacked_names(program: torch.export.ExportedProgram) -> Mapping[str, str]:
    """Names for sizes and numbers that only running the model gives: by the call that gives them."""
    found: dict[str, str] = {}
    unique = UniqueNames()
    graphs = (module for module in program.graph_module.modules() if isinstance(module, torch.fx.GraphModule))
    for node in itertools.chain.from_iterable(module.graph.nodes for module in graphs):
        for symbol, path in (node.meta.get("unbacked_bindings") or {}).items():
            if str(symbol) not in found:
                found[str(symbol)] = unique.unique(node.name.lstrip("_") + _place(path))
    return found


def _place(path: Sequence[object]) -> str:
    """The part of a result that a path of keys leads to: ``_dim0`` for its first size, ``_1_dim0`` for the second's."""
    steps = ""
    for before, key in itertools.pairwise((None, *path)):
        if isinstance(key, pytree.SequenceKey):
            steps += f"_dim{key.idx}" if getattr(before, "name", None) == "size" else f"_{key.idx}"
    return steps
