"""The user's dynamic axes, in every form, as one list of declarations and as the nested form torch.export takes."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch.export import Dim

from onnxport.capture.request.input_names import named_tensors
from onnxport.capture.request.inputs import Inputs, Model
from onnxport.capture.request.trees import Branch, Leaf, branch
from onnxport.errors import DynamicShapeError, InputError, Problem, warn
from onnxport.torch_internals import pytree
from onnxport.torch_internals.symbolic_sizes import DimHint, DimHintType

_UNBOUNDED = 2**31
"""Dims without an upper end have a larger one than this."""

Kind = Literal["name", "dim", "dynamic", "auto", "static"]


@dataclass(frozen=True)
class DerivedSize:
    """What a Dim derived from another says, as ``2 * half + 1`` does: the other's name, a factor and what is added."""

    root: str
    factor: int
    offset: int


@dataclass(frozen=True)
class Axis:
    """One declared axis: of which input leaf, which axis (None for an integer input), and what was declared."""

    leaf: Leaf
    index: int
    axis: int | None
    kind: Kind
    name: str | None = None
    derived: DerivedSize | None = None

    @property
    def must_vary(self) -> bool:
        """Whether the user requires this axis to be dynamic."""
        return self.kind in ("name", "dim", "dynamic")

    def __str__(self) -> str:
        if self.axis is None:
            return f"the integer input '{self.leaf.path}'"
        return f"axis {self.axis} of input '{self.leaf.path}'"


@dataclass
class Declarations:
    """All declared axes, the form for torch.export, and the axis names asked for on outputs."""

    axes: list[Axis] = field(default_factory=list)
    for_torch: Any = None
    output_dim_names: dict[str, dict[int, str]] = field(default_factory=dict)
    _specs: Sequence[object] = ()
    _arguments: Mapping[str, object] = field(default_factory=dict)

    @property
    def has_dims(self) -> bool:
        """Whether any axis was declared with a ``Dim`` object, whose range torch checks against the model."""
        return any(axis.kind == "dim" for axis in self.axes)

    @property
    def of_size_one(self) -> list[Axis]:
        """The axes that should vary and have size 1 in the example."""
        return [a for a in self.axes if a.must_vary and a.axis is not None and a.leaf.value.shape[a.axis] == 1]

    def allow_static(self) -> None:
        """Let every axis that should vary be fixed where the model forces it."""
        self.axes = [replace(axis, kind="auto") if axis.must_vary else axis for axis in self.axes]
        self.for_torch = pytree.tree_map(_softened, self.for_torch)

    @contextlib.contextmanager
    def fixing(self, fixed: Sequence[Axis]) -> Iterator[None]:
        """Leave out some axes; if the block raises, what was declared is as before."""
        before = self.axes, self.for_torch, self._specs
        self.axes = [axis for axis in self.axes if axis not in fixed]
        self.lay_out([_without(spec, index, fixed) for index, spec in enumerate(self._specs)], self._arguments)
        try:
            yield
        except BaseException:
            self.axes, self.for_torch, self._specs = before
            raise

    def lay_out(self, specs: Sequence[object], arguments: Mapping[str, object]) -> None:
        """Take what is declared for each leaf, in the structure of the arguments."""
        self._specs, self._arguments = specs, arguments
        remaining = iter(specs)
        if any(spec is not None for spec in specs):
            self.for_torch = {name: nest(value, remaining) for name, value in arguments.items()}


def _without(spec: object, index: int, fixed: Sequence[Axis]) -> object:
    if not isinstance(spec, dict):
        return spec
    places = {axis.axis for axis in fixed if axis.index == index}
    return {at: Dim.STATIC if at in places else dim for at, dim in spec.items()}


def _softened(dim: object) -> object:
    varies = isinstance(dim, Dim) or (isinstance(dim, DimHint) and dim.type is DimHintType.DYNAMIC)
    return Dim.AUTO if varies else dim


def declare(
    model: Model,
    inputs: Inputs,
    *,
    dynamic_shapes: Any = None,
    dynamic_axes: Mapping[str, object] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
) -> Declarations:
    """Read ``dynamic_shapes``, or ``dynamic_axes`` where it is not given, against the inputs."""
    declared = Declarations()
    if dynamic_axes is not None:
        by_leaf = _from_axes(inputs, dynamic_axes, input_names, output_names, declared)
        if dynamic_shapes is not None and any(spec is not None for spec in by_leaf):
            warn(
                "dynamic_axes says nothing of inputs where dynamic_shapes is given, and is left out. Pass one of them."
            )
    if dynamic_shapes is not None:
        if hasattr(dynamic_shapes, "dynamic_shapes"):
            dynamic_shapes = dynamic_shapes.dynamic_shapes(model, inputs.args, inputs.kwargs)
        named = named_tensors(inputs, input_names)
        if _is_by_input_names(dynamic_shapes, inputs, named):
            by_leaf = [None] * len(inputs.leaves)
            for name, spec in dynamic_shapes.items():
                by_leaf[named[name]] = spec
        else:
            by_leaf = _Matcher(inputs).match(dynamic_shapes)
    elif dynamic_axes is None:
        return declared
    problems: list[Problem] = []
    specs = [
        _read_leaf(index, leaf, by_leaf[index], declared.axes, problems) for index, leaf in enumerate(inputs.leaves)
    ]
    _check_sizes(declared.axes, problems)
    _raise("The dynamic shapes do not fit the inputs:", problems)
    declared.lay_out(specs, inputs.arguments)
    return declared


def _is_by_input_names(dynamic_shapes: object, inputs: Inputs, named: Mapping[str, int]) -> bool:
    """Whether shapes are given by the names of inputs in the file, where these are not those of the parameters."""
    if not isinstance(dynamic_shapes, Mapping) or not dynamic_shapes:
        return False
    return not set(dynamic_shapes) <= set(inputs.arguments) and set(dynamic_shapes) <= set(named)


def _raise(headline: str, problems: list[Problem]) -> None:
    if problems:
        raise DynamicShapeError(headline, problems)


def nest(value: object, specs: Iterator[object]) -> object:
    """Lay specifications, one for each leaf, out in the structure that torch.export wants for a value."""
    here = branch(value)
    if here is None:
        return next(specs)
    children = [nest(child, specs) for child in here.children]
    if here.flattens_to is not None:
        return here.flattens_to(children)
    if isinstance(value, Mapping):
        named = dict(zip(value, children, strict=True))
        return OrderedDict(named) if isinstance(value, OrderedDict) else named
    # Not by calling the class, which may look at what it is given.
    kind: Any = type(value)
    return kind._make(children) if hasattr(value, "_fields") else kind(children)


class _Matcher:
    """Spreads a nested specification over the leaves of the inputs, and says where the two differ."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs = inputs
        self.specs: list[object] = []
        self.problems: list[Problem] = []

    def match(self, spec: object) -> list[object]:
        names = list(self.inputs.arguments)
        if isinstance(spec, Mapping):
            entries = self._by_name(spec, names)
        elif isinstance(spec, (tuple, list)):
            entries = self._by_position(list(spec), names)
        else:
            self._problem("dynamic_shapes", f"a dict by parameter name, or a tuple with {len(names)} entries", spec)
            entries = {}
        if not self.problems:
            for name, value in self.inputs.arguments.items():
                self._walk(value, entries[name], name)
        _raise("dynamic_shapes does not have the structure of the inputs:", self.problems)
        return self.specs

    def _by_name(self, spec: Mapping[str, Any], names: list[str]) -> dict[str, Any]:
        entries = dict(spec)
        gathered = self.inputs.var_keyword
        if self.inputs.extra and gathered is not None and isinstance(entries.get(gathered), Mapping):
            entries.update(entries.pop(gathered))
        if not entries:
            return dict.fromkeys(names)
        for name in [name for name in entries if name not in names]:
            # A captured program names what its forward(*args) takes one by one.
            gathered_names = [f"{name}_{position}" for position in range(len(names))]
            if isinstance(entries[name], tuple | list) and set(gathered_names[: len(entries[name])]) <= set(names):
                entries.update(zip(gathered_names, entries.pop(name), strict=False))
        unknown = [name for name in entries if name not in names]
        missing = [name for name in names if name not in entries]
        only = self.inputs.arguments[names[0]] if len(names) == 1 else None
        if unknown:
            remedy = "Use the parameter names of forward, or a tuple with one entry for each input."
            if isinstance(only, dict) and set(unknown) <= set(only):
                remedy = f"These are keys of the input '{names[0]}': write dynamic_shapes={{'{names[0]}': {{...}}}}."
            what = f"dynamic_shapes has {_listed(unknown)}, but the inputs are {_listed(names)}."
            self.problems.append(Problem(what, remedy=remedy))
        elif missing:
            what = f"dynamic_shapes lacks {_listed(missing)}."
            self.problems.append(Problem(what, remedy="Write None for an input that is static."))
        return entries

    def _by_position(self, spec: list[object], names: list[str]) -> dict[str, object]:
        extra = self.inputs.extra
        if extra and spec and isinstance(spec[-1], Mapping) and set(spec[-1]) == set(extra):
            # torch counts **kwargs as one parameter, with a dict; each of its members is an input.
            spec = [*spec[:-1], *(spec[-1][name] for name in extra)]
        rest = self.inputs.var_positional
        if rest in names:
            at, count = names.index(rest), len(self.inputs.arguments[rest])
            # forward(*args) is one parameter to torch; a flat tuple with an entry for each argument means the same.
            flat = len(spec) == len(names) - 1 + count
            if flat and (count != 1 or not isinstance(spec[at], (tuple, list))):
                spec = [*spec[:at], tuple(spec[at : at + count]), *spec[at + count :]]
        if not spec:
            return dict.fromkeys(names)
        if len(spec) == 1 != len(names) == len(self.inputs.args) and isinstance(spec[0], tuple | list):
            # So torch.export takes them for a forward(*args), and a captured program knows these one by one.
            spec = list(spec[0])
        if len(spec) != len(names):
            what = f"dynamic_shapes has {len(spec)} entries, but there are {len(names)} inputs: {_listed(names)}."
            self.problems.append(Problem(what, remedy="Give one entry for each input, None for a static one."))
        return dict(zip(names, spec, strict=False))

    def _walk(self, value: object, spec: object, path: str) -> None:
        here = branch(value)
        if here is None:
            self.specs.append(spec)
            return
        entries = self._entries(value, here, spec, path)
        for child, entry, suffix in zip(here.children, entries, here.suffixes, strict=True):
            self._walk(child, entry, path + suffix)

    def _entries(self, value: object, here: Branch, spec: object, path: str) -> Sequence[object]:
        nothing = [None] * len(here.children)
        if spec is None:
            return nothing
        kind, count = type(value).__name__, len(here.children)
        expected = f"a list or tuple with {count} entries, because the input is a {kind} (whose length is fixed)"
        if here.by_name:
            expected = f"a dict with keys {_listed(here.steps)}, because the input is a {kind}"
        if isinstance(spec, Mapping) and here.by_name:
            keys = {str(step): step for step in here.steps}
            if {str(key) for key in spec} != set(keys):
                self._problem(path, expected, spec)
                return nothing
            by_step = {keys[str(key)]: entry for key, entry in spec.items()}
            return [by_step[step] for step in here.steps]
        same = type(spec) is type(value) and not isinstance(value, Mapping)
        given = branch(spec) if same else None
        # torch itself wants a registered class, a mapping too, as the sequence that it flattens to.
        plain = not isinstance(value, Mapping) or here.flattens_to is not None
        if given is None and isinstance(spec, (tuple, list)) and plain:
            given = branch(list(spec))
        if given is None or len(given.children) != count:
            self._problem(path, expected, spec)
            return nothing
        return given.children

    def _problem(self, path: str, expected: str, spec: object) -> None:
        self.problems.append(Problem(f"At {path}: expected {expected}, got {_shown(spec)}."))


def _listed(names: Sequence[object]) -> str:
    return ", ".join(map(repr, names)) if names else "none"


def _shown(spec: object) -> str:
    if isinstance(spec, Mapping):
        return f"a dict with keys {_listed(list(spec))}"
    if isinstance(spec, (tuple, list)):
        return f"a {type(spec).__name__} with {len(spec)} entries"
    return repr(spec)


def _read_leaf(index: int, leaf: Leaf, spec: object, axes: list[Axis], problems: list[Problem]) -> object:
    if spec is None:
        return None
    if type(leaf.value) in (int, torch.SymInt):
        return _read_dim(Axis(leaf, index, None, "static"), spec, axes, problems)
    if not isinstance(leaf.value, torch.Tensor):
        if spec not in ({}, (), []):
            kind = type(leaf.value).__name__
            problems.append(
                Problem(f"At {leaf.path}: expected None, because the input is a {kind}, got {_shown(spec)}.")
            )
        return None
    rank = leaf.value.dim()
    if isinstance(spec, Mapping):
        entries = dict(spec)
    elif isinstance(spec, (tuple, list)) and len(spec) == rank:
        entries = dict(enumerate(spec))
    else:
        expected = f"a dict from axis to dimension, or a tuple with {rank} dimensions"
        written = f"Write {{0: {spec!r}}} for the first axis." if isinstance(spec, str) else _written_axes(spec, rank)
        problems.append(Problem(f"At {leaf.path}: expected {expected}, got {_shown(spec)}.", remedy=written))
        return None
    read: dict[int, object] = {}
    for axis, dim in entries.items():
        if type(axis) is not int or not -rank <= axis < rank:
            shape = f"the input has {rank} axes (shape {list(leaf.value.shape)})"
            fault = "out of range" if type(axis) is int else "no whole number"
            problems.append(Problem(f"At {leaf.path}: axis {axis!r} is {fault}; {shape}."))
            continue
        at = axis % rank
        if at in read:
            others = [one for one in entries if type(one) is int and one % rank == at]
            what = f"At {leaf.path}: {' and '.join(map(str, others))} are the same axis."
            problems.append(Problem(what, remedy=f"Write {{{at}: {dim!r}}}."))
        read[at] = _read_dim(Axis(leaf, index, at, "static"), dim, axes, problems)
    return read


def _written_axes(spec: object, rank: int) -> str:
    """How a list of the axes that vary is written, where that is what was given."""
    if not isinstance(spec, (tuple, list)) or not all(type(axis) is int and -rank <= axis < rank for axis in spec):
        return ""
    named = ", ".join(f"{axis}: 'name'" for axis in spec)
    return f"Write {{{named}}}, with a name for each axis that varies."


def _read_dim(axis: Axis, dim: object, axes: list[Axis], problems: list[Problem]) -> object:
    kind: Kind = "static"
    name: str | None = None
    derived: DerivedSize | None = None
    result = dim
    if isinstance(dim, str) and dim:
        kind, name, result = "name", dim, Dim.DYNAMIC
    elif isinstance(dim, Dim) and axis.axis is not None:
        kind, name, derived = "dim", dim.__name__, _derived(dim)
        _check_range(axis, dim, derived, problems)
    elif isinstance(dim, DimHint):
        kind = {DimHintType.AUTO: "auto", DimHintType.DYNAMIC: "dynamic"}.get(dim.type, "static")  # type: ignore[assignment]
    elif dim is None:
        # torch still takes None for a static axis but logs that it is deprecated.
        result = Dim.STATIC
    elif type(dim) is int:
        size = axis.leaf.value if axis.axis is None else axis.leaf.value.shape[axis.axis]
        if type(size) is int and size != dim:
            problems.append(
                Problem(
                    f"At {axis.leaf.path}: {axis} is declared to be {dim}, but the example has {size}.",
                    remedy="A size that varies has a name: 'batch'." if dim < 0 else "",
                )
            )
        result = Dim.STATIC
    else:
        expected = "a name, a Dim, Dim.DYNAMIC, Dim.AUTO, Dim.STATIC, an int or None"
        if isinstance(dim, Dim):
            expected = "Dim.DYNAMIC, Dim.AUTO or a name, because a Dim can only stand for the size of a tensor"
        problems.append(Problem(f"At {axis.leaf.path}: expected {expected} for {axis}, got {dim!r}."))
    axes.append(Axis(axis.leaf, axis.index, axis.axis, kind, name, derived))
    return result


def _derived(dim: Any) -> DerivedSize | None:
    root = getattr(dim, "root", None)
    if root is None:
        return None
    # torch allows no more than a multiple of another, plus a number.
    offset = dim.fn(0)
    return DerivedSize(root.__name__, dim.fn(1) - offset, offset)


def _check_range(axis: Axis, dim: Any, derived: DerivedSize | None, problems: list[Problem]) -> None:
    """The example must lie in the range of its Dim, or be such a multiple as a Dim derived from another says."""
    size = axis.leaf.value.shape[axis.axis]
    if type(size) is not int:
        return
    if derived is not None:
        root = dim.root
        whole, rest = divmod(size - derived.offset, derived.factor)
        if rest == 0 and root.min <= whole <= root.max:
            return
        what = f"{_said(axis, dim)}, but the example has {size}."
        allowed = ", ".join(str(dim.fn(max(root.min, 1) + more)) for more in range(3))
        problems.append(Problem(what, remedy=f"Pass an example of such a size ({allowed}, …), or declare another Dim."))
    elif not dim.min <= size <= dim.max:
        upper = "on" if dim.max >= _UNBOUNDED else f"to {dim.max}"
        what = f"{_said(axis, dim)}, from {dim.min} {upper}, but the example has {size}."
        bounds = {"min": min(dim.min, size), **({} if dim.max >= _UNBOUNDED else {"max": max(dim.max, size)})}
        shown = ", ".join(f"{name}={bound}" for name, bound in bounds.items())
        remedy = f"Pass an example within that range, or widen it: Dim({dim.__name__!r}, {shown})."
        problems.append(Problem(what, remedy=remedy))


def _said(axis: Axis, dim: Any) -> str:
    return f"{str(axis)[0].upper()}{str(axis)[1:]} is declared as the Dim '{dim.__name__}'"


def _check_sizes(axes: list[Axis], problems: list[Problem]) -> None:
    """Axes that share a name are declared equal: the example must not say otherwise."""
    first: dict[str, tuple[Axis, int]] = {}
    for axis in axes:
        if axis.kind not in ("name", "dim") or axis.name is None:
            continue
        size = axis.leaf.value if axis.axis is None else axis.leaf.value.shape[axis.axis]
        other, expected = first.setdefault(axis.name, (axis, size))
        if type(size) is int and type(expected) is int and size != expected:
            what = f"'{axis.name}' names two sizes: {other} is {expected}, {axis} is {size}."
            problems.append(Problem(what, remedy="Give axes of different sizes different names."))


def _from_axes(
    inputs: Inputs,
    dynamic_axes: Mapping[str, object],
    input_names: Sequence[str] | None,
    output_names: Sequence[str] | None,
    declared: Declarations,
) -> list[object]:
    """Spread ``dynamic_axes`` over the leaves, and set aside what it says of outputs."""
    known = named_tensors(inputs, input_names)
    outputs = list(output_names or ())
    by_leaf: list[object] = [None] * len(inputs.leaves)
    problems: list[Problem] = []
    unknown = [name for name in dynamic_axes if name not in known and name not in outputs]
    if unknown:
        raise InputError(
            f"dynamic_axes names {_listed(unknown)}, which is no input or output. "
            f"Inputs: {_listed(list(known))}; outputs: {_listed(outputs)}. "
            "Names of outputs must be given in output_names."
        )
    for name, axes in dynamic_axes.items():
        named = _named_axes(name, axes, problems)
        if name in known:
            by_leaf[known[name]] = named
        else:
            declared.output_dim_names[name] = {axis: str(dim) for axis, dim in named.items() if isinstance(dim, str)}
    _raise("dynamic_axes is not of a form that says which axes are dynamic:", problems)
    return by_leaf


def _named_axes(name: str, axes: object, problems: list[Problem]) -> dict[int, object]:
    if axes is None:
        return {}
    if isinstance(axes, Mapping) and all(type(axis) is int for axis in axes):
        return dict(axes)
    if isinstance(axes, (list, tuple)) and all(type(axis) is int for axis in axes):
        return {axis: f"{name}_dynamic_axes_{position}" for position, axis in enumerate(axes, start=1)}
    expected = "a dict from axis to name, or a list of axes"
    problems.append(Problem(f"For '{name}': expected {expected}, got {_shown(axes)}."))
    return {}
