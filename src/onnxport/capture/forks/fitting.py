"""Branches that only fit tensors: ``if n % 4: x = pad(x, (0, 4 - n % 4))`` and ``if padded: x = x[:, :n]``.

Where the condition is false they may as well pad by nothing and cut nothing off, and then there is one way through the
model in the place of two: in models with windows there are dozens of such branches, and ways multiply. That it comes
to the same is proven of the sizes before the branch is taken; where it can't be, the branch is a decision like others.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, TypeAlias

import sympy  # type: ignore[import-untyped]
import torch

from onnxport.capture.diagnosis.user_lines import frame_of_caller
from onnxport.capture.forks.choosing import without_condition
from onnxport.capture.forks.expressions import is_within, place_of, span_of
from onnxport.capture.forks.residues import Wanted
from onnxport.capture.forks.searching import never, plain_parts
from onnxport.source_files import nodes_of_file
from onnxport.torch_internals.operators import OpOverload
from onnxport.torch_internals.sympy_functions import FloorDiv, PythonMod

_Size: TypeAlias = "int | torch.SymInt"
_Amounts = tuple[_Size, ...]
#: Evaluating these runs no code of the model's, changes nothing and asks for no truth.
_PURE = (
    *(ast.Name, ast.Attribute, ast.Subscript, ast.Constant, ast.Compare, ast.BinOp, ast.UnaryOp, ast.Tuple, ast.List),
    *(ast.Load, ast.USub, ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.cmpop),
)
_PAD: Callable[..., torch.Tensor] = torch.nn.functional.pad
_PADDING = ("aten::pad", "aten::constant_pad_nd")
_COPYING = ("aten::contiguous", "aten::clone")


@dataclass
class Fitting:
    """The branches of one export that are taken at all sizes."""

    #: Whether any is. What is written in place to a tensor that was not padded is seen in what it was made of, and the
    #: other way round; a padded one is a copy.
    allowed: bool = True
    #: Whether a branch is looked at. What asks for a truth meanwhile, as comparing shapes does, ends that.
    is_proving: bool = False
    _has_taken: bool = False
    #: What calls of pad, by frame and line, are to pad by: nothing where the condition is false.
    _amounts: dict[tuple[int, int], _Amounts] = field(default_factory=dict)

    def takes(self, frame: FrameType) -> bool:
        """Whether the truth that a frame asks for is the condition of such a branch."""
        # A run that was broken off may have left some, and this frame may have the place of that one's.
        self._amounts.clear()
        branch = _branch_at(frame) if self.allowed else None
        if branch is None:
            return False
        self.is_proving = True
        try:
            amounts = _Proof(branch, {**frame.f_globals, **frame.f_locals}).amounts()
        finally:
            self.is_proving = False
        if amounts is None:
            return False
        self._has_taken = True
        self._amounts.update(((id(frame), line), padding) for line, padding in amounts.items())
        return True

    def stands(self, program: torch.export.ExportedProgram) -> bool:
        """Whether what was captured is right so; where it isn't, no more such branches are taken."""
        if not self.allowed or not self._has_taken or not _writes_to_padded(program):
            return True
        self.allowed = False
        return False

    def given(self, func: object, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Sequence[object], Any]:
        """The arguments of a call of torch, with what pads in such a branch.

        What pads to a multiple is said in the form that torch reasons about with least effort, in and out of branches.
        """
        if func is not _PAD or not args or not isinstance(args[0], torch.Tensor):
            return args, kwargs
        frame = frame_of_caller() if self._amounts else None
        amounts = None if frame is None else self._amounts.pop((id(frame), frame.f_lineno), None)
        if amounts is None:
            amounts = kwargs["pad"] if len(args) < 2 else args[1]
        if not isinstance(amounts, tuple | list) or not any(isinstance(amount, torch.SymInt) for amount in amounts):
            return args, kwargs
        pairs = zip(amounts[::2], amounts[1::2], reversed(args[0].shape), strict=False)
        plain = tuple(amount for before, behind, size in pairs for amount in _pair_to_multiple(before, behind, size))
        return (args[0], plain, *args[2:]), {name: value for name, value in kwargs.items() if name != "pad"}


def _writes_to_padded(program: torch.export.ExportedProgram) -> bool:
    """Whether a graph writes in place to what may be one tensor with another: padded by nothing, or copied whole."""
    shared: set[torch.fx.Node] = set()
    for node in program.graph.nodes:
        if not isinstance(node.target, OpOverload) or not node.all_input_nodes:
            continue
        given = node.all_input_nodes[0]
        if node.target._schema.name in _PADDING or (node.target._schema.name in _COPYING and _is_cut(given)):
            shared |= {node, memory_base(given)}
        elif node.target._schema.is_mutable and any(
            memory_base(argument) in shared for argument in node.all_input_nodes
        ):
            return True
    return False


def _is_cut(node: torch.fx.Node) -> bool:
    return isinstance(node.target, OpOverload) and node.target._schema.name == "aten::slice"


def memory_base(node: torch.fx.Node) -> torch.fx.Node:
    """The tensor whose memory another shows."""
    while isinstance(node.target, OpOverload) and node.all_input_nodes and _shows_memory(node.target):
        node = node.all_input_nodes[0]
    return node


def _shows_memory(operator: OpOverload) -> bool:
    return bool(operator.is_view) or bool(operator._schema.is_mutable)


def _branch_at(frame: FrameType) -> ast.If | None:
    """The ``if`` without ``else`` whose condition a frame asks for, if all it does looks like padding and cutting."""
    place = place_of(frame)
    if place is None:
        return None
    # A jump has the place of what is asked or, where that is a name, of the whole statement.
    branches = _branches(frame.f_code.co_filename)
    found = next((one for one in branches if is_within(place, one.test) or place == span_of(one)), None)
    return found if found is not None and _runs(frame.f_code, found.body[0]) else None


def _runs(code: CodeType, statement: ast.stmt) -> bool:
    """Whether a statement is of this code: in a loop that is captured the ways of a branch are functions."""
    return any(
        line is not None
        and last_line is not None
        and column is not None
        and last_column is not None
        and is_within((line, last_line, column, last_column), statement)
        for line, last_line, column, last_column in code.co_positions()
    )


@functools.lru_cache(maxsize=64)
def _branches(filename: str) -> tuple[ast.If, ...]:
    functions = [node for node in nodes_of_file(filename) if isinstance(node, ast.FunctionDef)]
    return tuple({id(branch): branch for function in functions for branch in _branches_in(function)}.values())


def _branches_in(function: ast.FunctionDef) -> Iterator[ast.If]:
    for node in ast.walk(function):
        if isinstance(node, ast.If) and not node.orelse and _is_fitting(node, function):
            yield node


def _is_fitting(branch: ast.If, function: ast.FunctionDef) -> bool:
    fits = False
    for statement in branch.body:
        name = _target(statement)
        if name is None or not isinstance(statement, ast.Assign):
            return False
        if _padding(name, statement.value) is not None or _cutting(name, statement.value) is not None:
            fits = True
        elif not _is_pure(statement.value) or not _is_of_body(name, branch, function):
            return False
    return fits and all(map(_is_pure, _parts_of(branch.test)))


def _target(statement: ast.stmt) -> str | None:
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        return target.id if isinstance(target, ast.Name) else None
    return None


def _padding(name: str, value: ast.expr) -> ast.expr | None:
    """What ``pad(name, ...)`` pads by; None where a value is no such call."""
    if not isinstance(value, ast.Call) or not value.args or not _is_name(value.args[0], name):
        return None
    called = value.func.attr if isinstance(value.func, ast.Attribute) else getattr(value.func, "id", None)
    if called != "pad" or not all(map(_is_pure, [*value.args, *(one.value for one in value.keywords)])):
        return None
    given = [*value.args[1:2], *(one.value for one in value.keywords if one.arg == "pad")]
    return given[0] if given else None


def _cutting(name: str, value: ast.expr) -> Sequence[ast.expr] | None:
    """The indices of ``name[:, :n]``, also with ``.contiguous()``; None where a value is none."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and not value.args and not value.keywords:
        value = value.func.value if value.func.attr == "contiguous" else value
    if not isinstance(value, ast.Subscript) or not _is_name(value.value, name):
        return None
    indices = value.slice.elts if isinstance(value.slice, ast.Tuple) else [value.slice]
    return indices if all(map(_is_start, indices)) else None


def _is_start(index: ast.expr) -> bool:
    if not isinstance(index, ast.Slice):
        return isinstance(index, ast.Constant) and index.value is ...
    return index.lower is None and index.step is None and (index.upper is None or _is_pure(index.upper))


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _is_pure(node: ast.expr) -> bool:
    return all(
        isinstance(part, _PURE) and not (isinstance(part, ast.Compare) and len(part.ops) > 1) for part in ast.walk(node)
    )


def _parts_of(test: ast.expr) -> Sequence[ast.expr]:
    return test.values if isinstance(test, ast.BoolOp) else [test]


def _is_of_body(name: str, branch: ast.If, function: ast.FunctionDef) -> bool:
    """Whether a number that a branch computes is read in it alone, or in others that compute it anew."""
    shared = (node.names for node in ast.walk(function) if isinstance(node, ast.Global | ast.Nonlocal))
    if any(name in names for names in shared):
        return False
    others = [node for node in ast.walk(function) if isinstance(node, ast.If) and node is not branch]
    own = {id(node) for statement in branch.body for node in ast.walk(statement)}
    for other in others:
        stored = next((n for n, statement in enumerate(other.body) if _target(statement) == name), None)
        if stored is not None:
            own |= {id(node) for statement in other.body[stored + 1 :] for node in ast.walk(statement)}
    reads = (node for node in ast.walk(function) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
    return all(id(node) in own for node in reads if node.id == name)


class _Proof:
    """That a branch may be taken where its condition is false too, with the values that names have there."""

    def __init__(self, branch: ast.If, values: dict[str, Any]) -> None:
        self.branch, self.values = branch, values
        self._made: set[str] = set()
        self._taken: sympy.Basic = sympy.false

    def amounts(self) -> dict[int, _Amounts] | None:
        """What calls of pad, by their lines, are to pad by; None where there is no proof."""
        found: dict[int, _Amounts] = {}
        try:
            self._taken = self._condition()
            for statement in self.branch.body:
                name = _target(statement)
                assert name is not None and isinstance(statement, ast.Assign)
                if (padding := _padding(name, statement.value)) is not None:
                    assert isinstance(statement.value, ast.Call)
                    amounts = self._padding(statement.value, padding)
                    lines = range(statement.lineno, (statement.end_lineno or 0) + 1)
                    if not found.keys().isdisjoint(lines):
                        # Calls are told apart by their lines.
                        return None
                    found.update(dict.fromkeys(lines, amounts))
                elif (indices := _cutting(name, statement.value)) is not None:
                    self._check_cut(self._value(ast.Name(name, ast.Load())), indices)
                else:
                    self.values[name] = self._value(statement.value)
                    continue
                self._made.add(name)
        except Unproven:
            return None
        return found

    def _condition(self) -> sympy.Basic:
        test = self.branch.test
        parts = [_truth(self._value(part)) for part in _parts_of(test)]
        return (sympy.And if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And) else sympy.Or)(*parts)

    def _value(self, node: ast.expr) -> object:
        if any(isinstance(part, ast.Name) and part.id in self._made for part in ast.walk(node)):
            raise Unproven
        expression = ast.fix_missing_locations(ast.Expression(node))
        try:
            return eval(compile(expression, "<part>", "eval"), self.values)
        except Exception as error:
            # It raises in the model too, once it is asked there.
            raise Unproven from error

    def _padding(self, call: ast.Call, padding: ast.expr) -> _Amounts:
        if self._value(call.func) is not _PAD:
            raise Unproven
        amounts = self._value(padding)
        if not isinstance(amounts, tuple | list) or not isinstance(self._value(call.args[0]), torch.Tensor):
            raise Unproven
        return tuple(self._nothing_if_false(amount) for amount in amounts)

    def _nothing_if_false(self, amount: _Size) -> _Size:
        expression = _expression(amount)
        if self._is_never(sympy.Ne(expression, 0), taken=False):
            return amount
        for number in sorted(int(part) for part in expression.atoms(sympy.Integer) if part > 1):
            # Of 4 - n % 4 it is the remainder that is padded where n % 4 is not 0, and nothing where it is.
            within = sympy.And(expression >= 0, expression < number)
            if self._is_never(sympy.Ne(PythonMod(expression, number), 0), taken=False) and self._is_never(
                sympy.Not(within), taken=True
            ):
                return amount % number
        raise Unproven

    def _check_cut(self, tensor: object, indices: Sequence[ast.expr]) -> None:
        if not isinstance(tensor, torch.Tensor):
            raise Unproven
        dots = next((n for n, index in enumerate(indices) if not isinstance(index, ast.Slice)), len(indices))
        for n, index in enumerate(indices):
            if isinstance(index, ast.Slice) and index.upper is not None:
                axis = n if n < dots else n - len(indices) + tensor.dim()
                beyond = _expression(tensor.shape[axis]) - _expression(self._value(index.upper))
                if not self._is_never(sympy.StrictGreaterThan(beyond, 0), taken=False):
                    raise Unproven

    def _is_never(self, condition: sympy.Basic, *, taken: bool) -> bool:
        """Whether a condition is never true where that of the branch is, or is not."""
        if condition in (sympy.true, sympy.false):
            return bool(condition == sympy.false)
        asked = condition.free_symbols
        known: Wanted = [one for one in plain_parts([(self._taken, taken)]) if one[0].free_symbols <= asked]
        return never([*known, (condition, True)])


def _pair_to_multiple(before: _Size, behind: _Size, size: _Size) -> _Amounts:
    """What a size is padded by on both sides, so that what it is padded to is said most simply."""
    if not isinstance(before, torch.SymInt) or not isinstance(behind, torch.SymInt):
        return _to_multiple(before, size), _to_multiple(behind, size)
    first = _to_multiple(before, size)
    return first, _to_multiple(before + behind, size) - first


def _to_multiple(amount: _Size, size: _Size) -> _Size:
    """What a size is padded by: where that makes it the next multiple of a number, the difference to that."""
    if not isinstance(amount, torch.SymInt) or not isinstance(size, torch.SymInt):
        return amount
    number = _multiple(amount.node.expr, size.node.expr)
    if number is not None:
        to_next: torch.SymInt = number * ((size + (number - 1)) // number) - size
        return to_next
    simple = without_condition(amount)
    return amount if simple is None else simple


@functools.lru_cache(maxsize=256)
def _multiple(amount: sympy.Basic, size: sympy.Basic) -> int | None:
    for number in sorted({int(part) for part in amount.atoms(sympy.Integer) if part > 1}):
        multiple = number * FloorDiv(size + (number - 1), number)
        if never([(sympy.Ne(amount, multiple - size), True)]):
            return number
    return None


class Unproven(Exception):
    """A branch is not known to come to the same at all sizes."""


def _truth(value: object) -> sympy.Basic:
    if isinstance(value, torch.SymBool):
        return value.node.expr
    if isinstance(value, torch.SymInt):
        return sympy.Ne(value.node.expr, 0)
    if value is None or isinstance(value, bool | int):
        return sympy.true if value else sympy.false
    raise Unproven


def _expression(size: object) -> sympy.Basic:
    if isinstance(size, bool) or not isinstance(size, int | torch.SymInt):
        raise Unproven
    return size.node.expr if isinstance(size, torch.SymInt) else sympy.Integer(size)
