"""Branches that one run captures: both ways of an ``if`` as functions of the variables that it changes.

A run for each way of each decision costs as many captures as there are ways through the model, which multiply. Where
a model decides often, an ``if`` whose ways do no more than to leave other values in variables is captured as ``cond``
in the run itself, as in the body of a loop (``choices.py``). Of a condition on sizes more is known than in a loop:
a size after the branch is that of one way or of the other, and often the same expression where the condition says so.

Both ways run at the example's sizes. One that can't, or of which an operator takes something of these sizes for granted
(``x.view(n // 4, 4)`` where ``n % 4 == 0``), is a decision as before: the line is noted, and the run begins anew.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch

from onnxport.capture.forks.choosing import Choosing, line_of_frame
from onnxport.capture.forks.decisions import AskedInLoop
from onnxport.capture.forks.fitting import memory_base
from onnxport.capture.forks.searching import never, plain_parts
from onnxport.capture.replay.values.sequences import handle_operator
from onnxport.capture.rewriting.choices import OpenChoice, Way
from onnxport.capture.rewriting.open_numbers import is_open_truth, truth_of
from onnxport.capture.rewriting.variables import Variable, Varying
from onnxport.capture.rewriting.watching import Unlike, Watch, certainly_same_shape, is_plain
from onnxport.errors import OnnxExporterError
from onnxport.torch_internals.fake_tensors import detect_fake_mode
from onnxport.torch_internals.operators import OpOverload, cond_op
from onnxport.torch_internals.symbolic_sizes import truth_in_range

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


class StartAgain(OnnxExporterError):
    """A branch can't be captured within the run, and looking at it left something behind."""


@dataclass
class OpenedBranches:
    """The branches of one export that one run captures both ways of."""

    choosing: Choosing
    #: Whether there are any: not as long as a model decides little.
    allowed: bool = False
    #: Whether the run that was broken off is to begin anew.
    starts_again: bool = False
    #: Whether there may be none, because tensors are written to that a branch may have made one.
    refused: bool = False
    _closed: set[tuple[str, int]] = field(default_factory=set)

    @property
    def withdrawn(self) -> int:
        """How many branches are Python's to take after all."""
        return len(self._closed) + self.refused

    def taken(
        self,
        test: object,
        ways: tuple[Way, Way],
        names: Sequence[str],
        needed: Sequence[str],
        around: Mapping[str, object],
    ) -> Sequence[object] | None:
        """What a branch leaves of variables; None where it is Python's to take."""
        line = line_of_frame()
        if not self.allowed or line is None or line in self._closed or not self.choosing.may():
            return None
        condition = _condition(test)
        if condition is None:
            return None
        described = ways, names, needed, around
        by_data = is_open_truth(condition)
        choice = OpenChoice(condition, *described) if by_data else _BySize(self.choosing, condition, *described)
        before, learnt = _checks(), False
        try:
            choice.learn()
            if _checks() != before:
                raise StartAgain("Operators of one way take something of the example's sizes for granted.")
            learnt = True
            return choice.run()
        except AskedInLoop:
            raise
        except Exception as error:
            self._closed.add(line)
            if isinstance(error, Unlike) and not learnt and _checks() == before:
                # Nothing was recorded yet.
                return None
            self.starts_again = True
            raise StartAgain("A branch is to be captured in a run of its own.") from error

    def stands(self, program: torch.export.ExportedProgram) -> bool:
        """Whether what was captured is right so; where it isn't, no more branches are captured in one run.

        What a way leaves may be one tensor with another from before the branch, and is none after ``cond``. So nothing
        of either may be written to from then on.
        """
        if not self.allowed:
            return True
        shared: set[torch.fx.Node] = set()
        for node in program.graph.nodes:
            if node.target is cond_op:
                shared |= {node, *map(memory_base, node.all_input_nodes)}
            elif node.target is operator.getitem or node.target is handle_operator("of_any_size"):
                shared |= {node} if node.args[0] in shared else set()
            elif isinstance(node.target, OpOverload) and node.target._schema.is_mutable:
                self.refused = self.refused or any(memory_base(one) in shared for one in node.all_input_nodes)
        self.allowed = not self.refused
        return self.allowed


def _condition(condition: object) -> Any:
    """What a branch asks, if only run time tells; None where Python knows."""
    condition = truth_of(condition)
    if isinstance(condition, torch.Tensor):
        return condition if all(type(size) is int and size == 1 for size in condition.shape) else None
    if not isinstance(condition, _SYMBOLIC) or truth_in_range(condition.node) is not None:
        return None
    return condition if isinstance(condition, torch.SymBool) else condition != 0


def _checks() -> int:
    """How much operators have found of sizes so far."""
    fake = detect_fake_mode()
    env: Any = None if fake is None else fake.shape_env
    return 0 if env is None else len(env.guards)


class _BySize(OpenChoice):
    """A branch on sizes: what it leaves has sizes that are known, those of one way or the other."""

    def __init__(self, choosing: Choosing, condition: torch.SymBool, *described: Any) -> None:
        super().__init__(condition, *described)
        self._choosing = choosing

    def either(self, name: str, one: object, other: object, watch: Watch) -> Variable:
        """The kind of a variable that is assigned to."""
        if is_plain(one) and is_plain(other):
            _check_known(name, (one, other), watch.known)
            return _Chosen(self, one, other)
        if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor) and not certainly_same_shape(one, other):
            if one.dtype != other.dtype or one.dim() != other.dim():
                raise Unlike(f"`{name}` has another type or number of axes after one way than after the other")
            _check_known(name, (*one.shape, *other.shape), watch.known)
            return _Sized(one.dtype, tuple(zip(one.shape, other.shape, strict=True)), branch=self)  # type: ignore[arg-type]
        return super().either(name, one, other, watch)

    def defined(self, name: str, after: object, watch: Watch) -> Variable:
        """None: what is there after one way only is asked for where that was taken."""
        raise Unlike(f"`{name}` is not defined after one of the ways")

    def between(self, one: object, other: object) -> Any:
        """The number that is one where the condition holds and the other where not."""
        if not isinstance(one, _SYMBOLIC) and not isinstance(other, _SYMBOLIC) and one == other:
            return one
        if isinstance(one, bool | float | torch.SymBool | torch.SymFloat):
            return self._choosing.between(self.test, one, other)
        differ = sympy.Ne(*(side.node.expr if isinstance(side, torch.SymInt) else side for side in (one, other)))
        for outcome, side in ((False, one), (True, other)):
            known = plain_parts([(self.test.node.expr, outcome)])
            told = [part for part in known if part[0].free_symbols <= differ.free_symbols]
            if differ == sympy.false or never([*told, (differ, True)]):
                return side
        return self._choosing.between(self.test, one, other)


def _check_known(name: str, numbers: Sequence[object], known: set[object]) -> None:
    for number in numbers:
        if isinstance(number, _SYMBOLIC) and not number.node.expr.free_symbols <= known:
            raise Unlike(f"what `{name}` is only data tells")


@dataclass
class _Chosen(Variable):
    """A number that is one after one way and another after the other."""

    branch: _BySize
    one: object
    other: object

    def result(self, value: object, states: Iterator[torch.Tensor], stacks: Iterator[torch.Tensor]) -> object:
        """The one that the condition chooses."""
        return self.branch.between(self.one, self.other)


@dataclass
class _Sized(Varying):
    """A tensor of which each size is that of one way or of the other; ``sizes`` has pairs of them."""

    branch: _BySize = field(kw_only=True)

    def result(self, value: object, states: Iterator[torch.Tensor], stacks: Iterator[torch.Tensor]) -> object:
        """The tensor of the way that is taken."""
        pairs: Any = self.sizes
        return self._of_size(next(states), [self.branch.between(*pair) for pair in pairs])
