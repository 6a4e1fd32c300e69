"""Sizes the model itself forces on an axis that was declared dynamic: which axis, which value, which line."""

from __future__ import annotations

import contextlib
import re
import weakref
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from onnxport.capture.diagnosis.caught_errors import is_caught
from onnxport.capture.diagnosis.user_lines import (
    Asker,
    asker,
    is_asked_by_broadcast,
    line_of_caller,
    line_of_error,
    line_of_summary,
)
from onnxport.capture.patches.replacing import attributes_replaced, items_replaced
from onnxport.capture.request.dynamic_shapes import Axis, DerivedSize
from onnxport.capture.request.resizing import AxisSizes
from onnxport.errors import DynamicShapeError, Problem
from onnxport.torch_internals.fake_tensors import op_implementations_dict
from onnxport.torch_internals.symbolic_sizes import TracingContext, example_sizes
from onnxport.torch_internals.sympy_functions import ValueRanges

_STEP = re.compile(r"\['([^']*)'\]|\[(\d+)\]|\.(\w+)")
_SIZE = re.compile(r"(?:L|inputs)((?:\['[^']*'\]|\[\d+\]|\.(?!size\b|shape\b)\w+)+)\.(?:size\(\)|shape)\[(\d+)\]")
_CONSTANT = re.compile(r"constant \((\d+)\)|static shape of (\d+)")
_UNBOUNDED = re.compile(r" and [^,;]* <= IntInfinity\(\)")
_EQUAL = re.compile(r"The values of (\w+) = (\S+) and (\w+) = (\S+) must always be equal")
_RANGE = re.compile(
    r"Not all values of (?P<dim>\w+) = (?P<size>\S+) in the specified range(?P<range>.*?) satisfy the generated guard "
    r"(?P<guard>.*)"
)
_SLICE = torch.ops.aten.slice.Tensor
_CONFLICT = "Found the following conflicts between user-specified ranges"
_BROADCAST_TO_A_COUNT = (
    "The size of tensor a must match the size of tensor b: "
    "one is computed and 1 in the example, the other a count of data."
)
_OR_STATIC = "or declare the axis static (leave it out) or Dim.AUTO (dynamic if possible)."


@dataclass(frozen=True)
class Forced:
    """A symbol that became a number while the model was traced."""

    sources: tuple[str, ...]
    value: int
    where: str


@dataclass(frozen=True)
class Asked:
    """Who asked for the truth of a condition on sizes, and on which line."""

    by: Asker
    where: str


@dataclass
class Recorder:
    """Keeps, for each size that became a number and each guard on sizes, the line that was running."""

    forced: list[Forced] = field(default_factory=list)
    guarded: dict[object, Asked] = field(default_factory=dict)
    #: Counts of data that were taken for the size of an axis which they meet in a broadcast.
    counts_as_sizes: dict[sympy.Basic, str] = field(default_factory=dict)

    def clear(self) -> None:
        """Forget what was recorded, before another attempt."""
        self.forced.clear()
        self.guarded.clear()
        self.counts_as_sizes.clear()

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Record while the block runs. torch keeps the guard but, outside bytecode tracing, not the user's line."""
        set_replacement, log_guard = ShapeEnv._set_replacement, ShapeEnv._log_guard
        require = ShapeEnv.guard_or_defer_runtime_assert
        recorder = self

        def line() -> str:
            return line_of_summary(TracingContext.extract_stack()) or line_of_caller()

        def record(env: ShapeEnv, symbol: sympy.Symbol, target: sympy.Basic, reason: str) -> None:
            if getattr(target, "is_Integer", False) and env.replacements.get(symbol) != target:
                sources = tuple(_text(source) for source in env.var_to_sources.get(symbol, ()))
                recorder.forced.append(Forced(sources, int(target), line()))
            set_replacement(env, symbol, target, reason)

        def record_guard(env: ShapeEnv, prefix: str, guard: object, forcing_spec: bool) -> None:
            by = asker()
            # Where a check of an operator fails, code that catches what it raises goes on, otherwise.
            recorder.guarded.setdefault(guard, Asked("library" if by == "torch" and is_caught() else by, line()))
            log_guard(env, prefix, guard, forcing_spec)

        def record_requirement(env: ShapeEnv, expression: sympy.Basic, *rest: Any, **named: Any) -> bool:
            if _is_count_of_an_axis(env, expression) and is_asked_by_broadcast():
                if _example_has_one(env, expression):
                    raise RuntimeError(_BROADCAST_TO_A_COUNT)
                recorder.counts_as_sizes.setdefault(expression, line())
            return bool(require(env, expression, *rest, **named))

        listeners = [("_set_replacement", record), ("_log_guard", record_guard)]
        listeners.append(("guard_or_defer_runtime_assert", record_requirement))
        # Until torch 2.10 a slice has no rule of its own for fake tensors, but one for any tensor.
        rules = {_SLICE: op_implementations_dict[_SLICE]} if _SLICE in op_implementations_dict else {}
        cut = {operator: _noting_parts(rule) for operator, rule in rules.items()}
        with (
            attributes_replaced([(ShapeEnv, name, listener) for name, listener in listeners]),
            items_replaced(op_implementations_dict, cut),
        ):
            yield

    def line(self, axis: Axis, value: int) -> str:
        """Return the line that forced an axis, or ''."""
        for forced in self.forced:
            if any(_names(source, axis) for source in forced.sources):
                return forced.where
        # An axis tied to another by an equality has no record of its own; the other's value gives it away.
        same = {forced.where for forced in self.forced if forced.value == value}
        return same.pop() if len(same) == 1 else ""


# What tensors that loops and lists hold have for sizes, by the environment of the capture.
_sizes_of_items: weakref.WeakKeyDictionary[ShapeEnv, set[sympy.Symbol]] = weakref.WeakKeyDictionary()


def note_size_of_item(size: torch.SymInt) -> None:
    """Note that a number which only run time knows is a size of what a loop or a list holds, and no count of data."""
    _sizes_of_items.setdefault(size.node.shape_env, set()).add(size.node.expr)


# How many elements were asked for where a part was cut of an axis, by the symbol that torch has for how many there are.
_asked_for: weakref.WeakKeyDictionary[ShapeEnv, dict[sympy.Symbol, sympy.Basic]] = weakref.WeakKeyDictionary()


def _noting_parts(rule: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """The rule for ``x[start:end]``, of which torch knows nothing where it can't tell that the part lies inside."""

    def cut(mode: object, func: object, self: torch.Tensor, dim: int = 0, *bounds: Any, **named: Any) -> torch.Tensor:
        part = rule(mode, func, self, dim, *bounds, **named)
        if len(bounds) == 2 and not named and all(isinstance(one, int | torch.SymInt) for one in bounds):
            size, length = part.shape[dim], bounds[1] - bounds[0]
            if isinstance(size, torch.SymInt) and not size.node.has_hint():
                number = length.node.expr if isinstance(length, torch.SymInt) else sympy.Integer(length)
                _asked_for.setdefault(size.node.shape_env, {})[size.node.expr] = number
        return part

    return cut


def _is_part_asked_for(env: ShapeEnv, equality: sympy.Eq) -> bool:
    """Whether an equality says that a part has as many elements as were asked for: never more, and eager checks it."""
    asked_for = _asked_for.get(env, {})
    return any(asked_for.get(one) == other for one, other in (equality.args, equality.args[::-1]))


def _is_count_of_an_axis(env: ShapeEnv, expression: sympy.Basic) -> bool:
    """Whether an equality says that a count of data is the size of an axis, which may be a number."""
    if not isinstance(expression, sympy.Eq) or not expression.free_symbols.isdisjoint(_sizes_of_items.get(env, ())):
        return False
    if _is_part_asked_for(env, expression):
        return False
    known = example_sizes(env)
    sides = [{symbol in known for symbol in side.free_symbols} for side in expression.args]
    # What was cut to the size of the axis itself is no count that meets it.
    return {False} in sides and any(side in ({True}, set()) for side in sides) and 1 not in expression.args


def _example_has_one(env: ShapeEnv, equality: sympy.Eq) -> bool:
    """Whether the count would have to be 1 for the example, where a computed size is: that is broadcast.

    Of an axis itself an example of size 1 says nothing: the count may be as many.
    """
    if equality.lhs.is_Symbol and equality.rhs.is_Symbol:
        return False
    rest = (equality.lhs - equality.rhs).xreplace(dict(example_sizes(env)))
    return len(rest.free_symbols) == 1 and rest.subs(dict.fromkeys(rest.free_symbols, 1)) == 0


def _text(source: Any) -> str:
    name = source.name
    return str(name() if callable(name) else name)


def _names(source: str, axis: Axis) -> bool:
    if axis.axis is None:
        steps = tuple(next(filter(None, groups)) for groups in _STEP.findall(source))
        return steps == tuple(map(str, axis.leaf.steps))
    match = _SIZE.search(source)
    if match is None or int(match[2]) != axis.axis:
        return False
    steps = tuple(next(filter(None, groups)) for groups in _STEP.findall(match[1]))
    if steps[0] == "flat_args":
        return steps[1:] == (str(axis.index),)
    return steps == tuple(map(str, axis.leaf.steps))


def problem(axis: Axis, value: int, where: str) -> Problem:
    """Say which axis the model forces, to which value, on which line, and what to do."""
    named = f" as '{axis.name}'" if axis.name is not None else ""
    what = f"{str(axis)[0].upper()}{str(axis)[1:]} was declared dynamic{named}, but the model forces it to be {value}."
    return Problem(what, where, f"Make {'that line' if where else 'the model'} work for any size, {_OR_STATIC}")


def error_of(problems: Sequence[Problem]) -> DynamicShapeError:
    """Make the one error for all forced axes."""
    return DynamicShapeError("The model does not allow the declared dynamic shapes:", problems)


def is_violation(error: BaseException) -> bool:
    """Whether torch refused the declared dynamic shapes (and not the model)."""
    from torch.fx.experimental.symbolic_shapes import ConstraintViolationError

    from onnxport.torch_internals.exporting import UserError, UserErrorType

    if isinstance(error, ConstraintViolationError):
        return True
    if isinstance(error, UserError):
        # Bytecode tracing files data-dependent failures under the same type; those are the model's.
        declared = error.error_type == UserErrorType.CONSTRAINT_VIOLATION and "data-dependent" not in str(error)
        return declared or "Constraints violated" in str(error)
    return isinstance(error, ValueError) and _CONFLICT in str(error)


def forced_size_error(error: BaseException, axes: Sequence[Axis], recorder: Recorder) -> DynamicShapeError:
    """Turn torch's refusal into sentences about the user's axes."""
    complaints = [line.strip()[2:] for line in str(error).splitlines() if line.strip().startswith("- ")]
    problems: list[Problem] = []
    told: set[str] = set()
    for forced in recorder.forced:
        for axis in axes:
            if axis.must_vary and str(axis) not in told and any(_names(source, axis) for source in forced.sources):
                told.add(str(axis))
                problems.append(problem(axis, forced.value, forced.where))
    for complaint in complaints:
        axis_of = next((a for a in axes if a.must_vary and _mentions(complaint, a)), None)
        value = _CONSTANT.search(complaint)
        if axis_of is not None and str(axis_of) in told:
            continue
        if axis_of is not None and value is not None:
            told.add(str(axis_of))
            size = int(value[1] or value[2])
            problems.append(problem(axis_of, size, recorder.line(axis_of, size) or line_of_error(error)))
        else:
            found = _contradiction(complaint, axes, str(error), line_of_error(error))
            # One suggestion says all of what torch asks for, of whichever axis it complains.
            if not found.remedy or all(found.remedy != other.remedy for other in problems):
                problems.append(found)
    return error_of(problems or [Problem(_readable(str(error).split("\n")[0], axes), line_of_error(error))])


def _contradiction(complaint: str, axes: Sequence[Axis], text: str, where: str) -> Problem:
    """Say of which input and axis the model asks other sizes than the Dim stands for."""
    if match := _EQUAL.search(complaint):
        said = [(match[1], match[2]), (match[3], match[4])]
        pairs = [(axis, name) for axis in axes for name, size in said if _names(size, axis)]
        if len(pairs) == len(said):
            both = " and ".join(f"{axis} (Dim '{name}')" for axis, name in pairs)
            remedy = f"Declare one Dim for both, Dim({pairs[0][1]!r}), or make the model work where they differ."
            return Problem(f"The model needs {both} to be equal.", where, remedy)
    if match := _RANGE.search(complaint):
        axis = next((axis for axis in axes if _names(match["size"], axis)), None)
        if axis is not None:
            declared = f", {_UNBOUNDED.sub('', match['range']).strip()}" if match["range"] else ""
            needed = _UNBOUNDED.sub("", _SIZE.sub(match["dim"], match["guard"]))
            what = f"The model needs {needed} for {axis} (Dim '{match['dim']}'{declared})."
            return Problem(what, where, _suggestion(text))
    return Problem(_readable(complaint, axes), where, _suggestion(text))


def _mentions(complaint: str, axis: Axis) -> bool:
    if _names(complaint, axis):
        return True
    return axis.kind == "dim" and axis.name is not None and complaint.startswith(f"You marked {axis.name} as dynamic")


def _readable(text: str, axes: Sequence[Axis]) -> str:
    def replace(match: re.Match[str]) -> str:
        axis = next((axis for axis in axes if _names(match[0], axis)), None)
        return str(axis) if axis is not None else match[0]

    return _UNBOUNDED.sub("", _SIZE.sub(replace, text)).strip()


def _suggestion(text: str) -> str:
    _, found, fixes = text.partition("Suggested fixes:\n")
    lines = []
    for line in fixes.splitlines() if found else ():
        if not line.startswith("  "):
            break
        lines.append(line.strip())
    return f"Declare instead: {'; '.join(lines)}." if lines else ""


def fixed_value(size: object) -> int | None:
    """The number that a size is, or None if it varies. A size that was fixed late is still symbolic, of one value."""
    if isinstance(size, torch.SymInt):
        known: int | None = size.node.maybe_as_int()
        return known
    return size if isinstance(size, int) else None


def placeholder_sizes(program: torch.export.ExportedProgram, axes: Sequence[Axis]) -> list[tuple[Axis, Any]]:
    """Return each declared axis with its size in the program."""
    placeholders = {node.name: node for node in program.graph.nodes if node.op == "placeholder"}
    user = [spec.arg for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    sizes: list[tuple[Axis, Any]] = []
    for axis in axes:
        node = placeholders.get(user[axis.index].name)
        value = node.meta.get("val") if node is not None else axis.leaf.value
        sizes.append((axis, value if axis.axis is None else value.shape[axis.axis]))
    return sizes


def declared_ranges(
    program: torch.export.ExportedProgram, sizes: Sequence[tuple[Axis, object]]
) -> dict[sympy.Symbol, ValueRanges[sympy.Expr]]:
    """The ranges of symbols for which the user declared one; torch narrows the others to where a program holds."""
    symbols = [size.node.expr for axis, size in sizes if axis.kind == "dim" and isinstance(size, torch.SymInt)]
    return {symbol: program.range_constraints[symbol] for symbol in symbols if symbol.is_Symbol}


@dataclass(frozen=True)
class FirstSymbols:
    """The symbols that axes began with, and their names: operators may find two of them equal.

    ``sizes`` are those of axes by leaf and axis, and ``derived`` what the user declared of a size, by the name of its
    symbol: the symbol that it follows, and how.
    """

    sizes: AxisSizes
    names: dict[str, str]
    derived: dict[str, tuple[str, DerivedSize]]

    def as_declared(self, expression: sympy.Basic) -> sympy.Basic:
        """An expression without symbols whose size follows from another's by what was declared."""
        found = {one: self._declared(one) for one in expression.free_symbols if one.name in self.derived}
        return expression.xreplace(found) if found else expression

    def _declared(self, symbol: sympy.Symbol) -> sympy.Expr:
        root, how = self.derived[symbol.name]
        return how.factor * sympy.Symbol(root, **symbol.assumptions0) + how.offset


def first_symbols(program: torch.export.ExportedProgram, axes: Sequence[Axis]) -> FirstSymbols:
    """Return the symbols that the declared axes of a program began with."""
    sizes = [size for _, size in placeholder_sizes(program, axes) if isinstance(size, torch.SymInt)]
    table = sizes[0].node.shape_env.var_to_sources if sizes else {}
    sources = [(_text(source), symbol) for symbol, found in table.items() for source in found]
    found = [(axis, symbol) for axis in axes for text, symbol in sources if _names(text, axis)]
    roots = {axis.name: symbol.name for axis, symbol in found if axis.kind == "dim" and axis.derived is None}
    first = FirstSymbols(
        sizes={},
        names={symbol.name: axis.name for axis, symbol in found if axis.name is not None},
        derived={
            symbol.name: (roots[axis.derived.root], axis.derived)
            for axis, symbol in found
            if axis.derived is not None and axis.derived.root in roots
        },
    )
    return replace(first, sizes={(axis.index, axis.axis): first.as_declared(symbol) for axis, symbol in found})


def check_placeholders(
    program: torch.export.ExportedProgram, axes: Sequence[Axis], recorder: Recorder, *, given: bool = False
) -> list[tuple[Axis, Any]]:
    """Return each declared axis with its size in the program; one that had to vary and does not is an error.

    A program that was given, not captured here, is to be exported anew; there is no line to point at.
    """
    sizes = placeholder_sizes(program, axes)
    problems: list[Problem] = []
    for axis, size in sizes:
        fixed = fixed_value(size)
        if not axis.must_vary or fixed is None:
            continue
        if given:
            what = f"The exported program has {axis} fixed at {fixed}, but it was declared dynamic."
            problems.append(
                Problem(what, remedy="Export the program with that axis dynamic, or leave the axis out here.")
            )
        else:
            problems.append(problem(axis, fixed, recorder.line(axis, fixed)))
    if problems:
        raise error_of(problems)
    return sizes
