"""Numbers in a model's attributes that its own code changes: the file has the ones of the first call, at every call."""

from __future__ import annotations

import ast
import contextlib
import linecache
import sys
from collections.abc import Callable, Iterator

import torch

from onnxport.capture.diagnosis.user_lines import Place, describe
from onnxport.capture.patches.replacing import attributes_replaced
from onnxport.capture.preserved import KeptValue
from onnxport.errors import Problem, listing, warn
from onnxport.events import EventLog
from onnxport.source_files import is_librarys_file, is_users_file

_PLAIN = (bool, int, float, str)
_CHANGED = (*_PLAIN, torch.SymInt, torch.SymFloat, torch.SymBool)


class ChangedAttributes:
    """The lines of a model that give its attributes another number, text or truth, and what those held before.

    ``kept`` is given the attributes that are assigned a tensor.
    """

    def __init__(self, kept: set[KeptValue]) -> None:
        self._kept = kept
        self._lines: dict[Place, tuple[str, object]] = {}
        #: What was assigned to; what happens to it later is known to the call that did.
        self._assigned: set[tuple[int, str]] = set()

    def noted(self) -> contextlib.AbstractContextManager[None]:
        """While the block runs, whoever changes an attribute is noted."""
        return attributes_replaced([(torch.nn.Module, "__setattr__", self._noting(torch.nn.Module.__setattr__))])

    def _noting(self, assign: Callable[..., None]) -> Callable[..., None]:
        def noting(module: torch.nn.Module, name: str, value: object) -> None:
            frame = sys._getframe(1)
            filename = frame.f_code.co_filename
            before = module.__dict__.get(name)
            if is_users_file(filename) and (id(module), name) not in self._assigned:
                self._assigned.add((id(module), name))
                changed = isinstance(value, _CHANGED) and (not isinstance(value, _PLAIN) or value != before)
                if isinstance(before, _PLAIN) and changed and not is_librarys_file(filename):
                    self._lines[filename, frame.f_lineno, frame.f_code.co_name] = (name, before)
                if isinstance(value, torch.Tensor) and name not in module._buffers | module._parameters:
                    self._kept.add(KeptValue(filename, name, is_attribute=True))
            assign(module, name, value)

        return noting

    def report(self, events: EventLog) -> None:
        """Warn of the attributes that are read too; the others are for who looks at the model from outside."""
        problems = []
        for place, (name, before) in self._lines.items():
            if _is_read(place, name):
                what = f"`self.{name}` is {before!r} at every call of the file"
                events.add("assumption", "capture", what, where=describe(place))
                problems.append(Problem(what, describe(place)))
        if problems:
            headline = "The model changes an attribute and reads it, and the file keeps the value that it had:"
            warn(listing(headline, problems, "Make it an input and an output of forward."))


def _is_read(place: Place, name: str) -> bool:
    """Whether an attribute is read for more than to change it, and with the value that it has before that line.

    Where there is no source it is taken to be.
    """
    filename, line, function = place
    try:
        tree = ast.parse("".join(linecache.getlines(filename)))
    except SyntaxError:
        return True
    reads = list(_reads(tree, name))
    around = [part for part in ast.walk(tree) if _is_definition(part, function, line)]
    inside = [read.lineno for part in around for read in _reads(part, name)]
    if not tree.body or not around:
        return True
    return bool(reads) and (_is_changed_by_itself(tree, name, line) or not inside or min(inside) <= line)


def _is_definition(node: ast.AST, function: str, line: int) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == function and node.lineno <= line <= (node.end_lineno or 0)


def _is_changed_by_itself(tree: ast.AST, name: str, line: int) -> bool:
    """Whether a line computes an attribute of what it was."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Assign | ast.AugAssign) and node.lineno == line]
    return any(isinstance(node, ast.AugAssign) or any(_names(node.value, name)) for node in found)


def _names(node: ast.AST, name: str) -> Iterator[ast.Attribute]:
    for inner in ast.walk(node):
        if isinstance(inner, ast.Attribute) and inner.attr == name and isinstance(inner.ctx, ast.Load):
            yield inner


def _reads(node: ast.AST, name: str) -> Iterator[ast.Attribute]:
    """Where an attribute is read, other than to compute it anew."""
    changed = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AugAssign) else []
    if any(isinstance(target, ast.Attribute) and target.attr == name for target in changed):
        return
    if isinstance(node, ast.Attribute) and node.attr == name and isinstance(node.ctx, ast.Load):
        yield node
    for inner in ast.iter_child_nodes(node):
        yield from _reads(inner, name)
