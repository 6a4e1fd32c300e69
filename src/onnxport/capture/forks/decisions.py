"""Decisions: the truths that Python code asks for while it is captured, answered by a schedule.

``if x.shape[0] > 64`` and ``if y.sum() > 0`` end in one place of torch, where the truth of an expression is asked. For
an expression of sizes torch answers as the example has it and leaves a guard; for one of data it raises. While a
schedule is in force, a truth asked by Python code outside of torch is a decision instead: it is answered, noted, and
marked in the graph by a call of ``onnxport::decided``, whose operand is the condition.
"""

from __future__ import annotations

import contextlib
import itertools
import operator
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, Protocol

import sympy  # type: ignore[import-untyped]
import torch

from onnxport.capture.diagnosis.caught_errors import OF_ASSERTIONS, catching_frame
from onnxport.capture.diagnosis.empty_axes import note_size_read
from onnxport.capture.diagnosis.guards import Followed
from onnxport.capture.diagnosis.user_lines import Asker, asked_by, asker, frame_of_caller, line_of_caller
from onnxport.capture.diagnosis.zero_sizes import example_with_zero_allowed, is_otherwise_at_zero, zero_allowed
from onnxport.capture.forks.array_functions import functions_of_numbers
from onnxport.capture.forks.caught_checks import CaughtChecks
from onnxport.capture.forks.choice_syntax import is_choice_of_numbers, is_joined
from onnxport.capture.forks.choosing import Choosing, refuse_truth
from onnxport.capture.forks.cutting import cuts_left_open
from onnxport.capture.forks.data_truths import comparisons_of_data, conditions_compared, unordered_numbers
from onnxport.capture.forks.expressions import (
    frame_of_source,
    is_assertion,
    is_condition_of_while,
    is_for_message,
    is_in_counted_loop,
    is_outvoted,
)
from onnxport.capture.forks.few_values import one_of_few
from onnxport.capture.forks.fitting import Fitting, Unproven
from onnxport.capture.forks.listed_numbers import lists_left_open
from onnxport.capture.forks.memory_order import orders_of_memory
from onnxport.capture.forks.reshaped_inputs import keep_shape_of_input
from onnxport.capture.forks.settled import settled_truth
from onnxport.capture.forks.squeezing import squeezed_as_known
from onnxport.capture.forks.whole_quotients import quotients_made_whole, with_images_noted
from onnxport.capture.patches.pieces import given
from onnxport.capture.patches.replacing import attributes_replaced
from onnxport.errors import CaptureError, OnnxExporterError, Problem
from onnxport.torch_internals.symbolic_sizes import get_proxy_mode, note_remainder, truth_in_range
from onnxport.torch_internals.sympy_functions import PythonReferenceAnalysis, sympy_interp
from onnxport.undoing import pushed

# Kernels in C++ ask as well, in files of their own; Python's questions come without a file, bool(tensor) from here.
_TRUTH_OF_TENSORS = "pybind_utils.cpp"
# And from here where nothing is recorded, as in a loop's body while it is looked at.
_TRUTH_OF_NUMBERS = "Scalar.h"
MOST_AT_ONE_LINE = 6
"""So many decisions at one line double the paths as often: more of them are a loop, or too many branches."""

_RELATIONS: dict[str, Callable[..., sympy.Basic]] = {
    "eq": sympy.Eq,
    "ne": sympy.Ne,
    "lt": sympy.StrictLessThan,
    "le": sympy.LessThan,
    "gt": sympy.StrictGreaterThan,
    "ge": sympy.GreaterThan,
}

_LIBRARY = torch.library.Library("onnxport", "FRAGMENT")
_LIBRARY.define("decided(SymBool condition, int index, bool outcome) -> ()")
torch.library.register_fake("onnxport::decided", lambda condition, index, outcome: None, lib=_LIBRARY)
DECIDED: Any = torch.ops.onnxport.decided.default
torch.fx.node.has_side_effect(DECIDED)


@dataclass(frozen=True)
class Decision:
    """A truth that Python code asked for: of which expression, how it was answered, by whom and on which line.

    ``index`` counts the decisions of one run; the call of ``onnxport::decided`` that marks it has the same.
    ``checks`` is how many guards operators had left by then. Where it is ``asserted``, the model raises on the other
    way.
    """

    index: int
    expression: sympy.Basic
    outcome: bool
    of_data: bool
    by: Asker
    where: str
    checks: int
    asserted: bool = False

    def same_question(self, other: Decision) -> bool:
        """Whether another run asked the same at this point."""
        return self.where == other.where and self.of_data == other.of_data


class Diverged(OnnxExporterError):
    """A run did not ask what the run that it repeats had asked."""


class OtherWay(OnnxExporterError):
    """A program that was captured for one outcome of a decision was run on inputs for which it comes out otherwise."""


def _decided(condition: bool, index: int, outcome: bool) -> None:
    if bool(condition) != outcome:
        raise OtherWay(
            f"This program is one of several ways through the model, and decision {index} leads to another for these "
            "inputs. The ONNX model holds them all."
        )


_LIBRARY.impl("decided", _decided, "CompositeExplicitAutograd")


class PlainNumber(OnnxExporterError):
    """A function makes a plain number of a size, or repeats something as data says; rewritten it may not."""

    def __init__(self, code: CodeType, *, in_loop: bool = False) -> None:
        super().__init__(f"{code.co_qualname} is to be rewritten.")
        #: Whether the body of a loop that is captured calls it, and it decides by data.
        self.code, self.in_loop = code, in_loop


class Opening(Protocol):
    """What knows the branches that one run captures."""

    allowed: bool


class Rewritten(Protocol):
    """What knows the functions that run from a rewritten source."""

    asks_at_once: bool
    choosing: Choosing

    @property
    def branches(self) -> Opening:
        """The branches that one run captures."""

    def may_help(self, code: CodeType, *, in_loop: bool = False) -> bool:
        """Whether to rewrite a function is still to be tried."""


_learning: list[None] = []


@contextlib.contextmanager
def learning() -> Iterator[None]:
    """While the block runs, the body of a loop does, only to see what it does."""
    with pushed(_learning, None):
        yield


_unasked: list[list[torch.SymBool]] = []


@contextlib.contextmanager
def unasked() -> Iterator[Sequence[torch.SymBool]]:
    """While the block runs, comparisons that only sizes of 0 turn are conditions, which are told, and no decisions."""
    with pushed(_unasked, []) as asked:
        yield asked


class AskedInLoop(OnnxExporterError):
    """The body of a loop asks for the truth of a condition on sizes; it is to be asked before the loop."""

    def __init__(self, schedule: Schedule, expression: sympy.Basic, by: Asker) -> None:
        super().__init__(f"{expression} is asked in a loop.")
        self.schedule, self.expression, self.by = schedule, expression, by

    def decide(self, sizes: Mapping[sympy.Symbol, torch.SymInt]) -> None:
        """Ask for it, outside of the loop, as a condition on these sizes."""
        condition = sympy_interp(PythonReferenceAnalysis, dict(sizes), self.expression)
        self.schedule.answer(condition, self.by)


class LoopOnData(CaptureError):
    """Python repeats something as long as data says so."""


@dataclass
class Schedule:
    """The answers for one run: those of an earlier run first, then the example's for sizes and True for data."""

    answers: Sequence[bool] = ()
    rewritten: Rewritten | None = None
    fitting: Fitting = field(default_factory=Fitting)
    decisions: list[Decision] = field(default_factory=list)
    #: Sizes whose text was read, as facts that were taken for granted.
    texts: list[Followed] = field(default_factory=list)
    #: What was raised into the model's code, which may have caught it.
    refusal: OnnxExporterError | None = None
    #: What was asked in this run, and the answers.
    known: dict[sympy.Basic, bool] = field(default_factory=dict)
    _at_line: Counter[str] = field(default_factory=Counter)

    @property
    def asks_at_once(self) -> bool:
        """Whether a comparison of sizes asks for its truth itself, because something takes it as a plain bool."""
        return self.rewritten is not None and self.rewritten.asks_at_once

    def takes(self, frame: FrameType) -> bool:
        """Whether the branch that a frame asks about is taken at all sizes, as one that only fits tensors."""
        with unasked():
            return self.fitting.takes(frame)

    def chooses(self, frame: FrameType) -> bool:
        """Whether what a frame asks only chooses between numbers, or is one of several truths that it asks for one."""
        if self.rewritten is None or not self.rewritten.choosing.may():
            return False
        return is_choice_of_numbers(frame) or is_joined(frame)

    def answer(self, condition: torch.SymBool, by: Asker) -> bool:
        """Decide, note the decision and mark it in the graph."""
        expression = condition.node.expr
        of_data = is_of_data(expression)
        return self._answer(condition, expression, by, None if of_data else bool(condition.node.hint))

    def answer_comparison(
        self, name: str, one: torch.SymInt, other: int | torch.SymInt, by: Asker
    ) -> bool | torch.SymBool:
        """Decide a comparison of sizes that torch takes for settled, because it takes sizes for positive."""
        refuse_truth()
        sides = [zero_allowed(side) for side in (one, other)]
        compare = getattr(operator, name)
        example = [side.xreplace(dict(example_with_zero_allowed(one))) for side in sides]
        # As tensors the two are compared at run time, whatever is known of their symbols.
        tensors = [torch.scalar_tensor(side, dtype=torch.int64) for side in (one, other)]  # type: ignore[arg-type]
        condition: torch.SymBool = getattr(torch, name)(*tensors).item()
        if _unasked:
            _unasked[-1].append(condition)
            return condition
        return self._answer(condition, _RELATIONS[name](*sides), by, bool(compare(*map(int, example))))

    def answer_in_loop(self, expression: sympy.Basic, by: Asker) -> bool:
        """The answer for a condition on sizes in the body of a loop, which must be asked before the loop."""
        if expression not in self.known:
            raise AskedInLoop(self, expression, by)
        return self.known[expression]

    def _answer(self, condition: torch.SymBool, expression: sympy.Basic, by: Asker, example: bool | None) -> bool:
        """``example`` is how the example answers; None for what only data answers."""
        if expression in self.known:
            return self.known[expression]
        of_data = example is None
        if of_data and (settled := settled_truth(condition)) is not None:
            return settled
        index = len(self.decisions)
        outcome = True if example is None else example
        where = line_of_caller()
        if index < len(self.answers):
            if not of_data and self.answers[index] != outcome:
                raise self._refuse(Diverged(f"A run at other sizes took another way at {where}."))
            outcome = self.answers[index]
        self.rewrite(self._may_help(of_data))
        if of_data:
            self._at_line[where] += 1
            if self._at_line[where] > MOST_AT_ONE_LINE:
                raise self._refuse(_repeated(where))
        checks = len(condition.node.shape_env.guards)
        frame = frame_of_caller()
        asserted = frame is not None and is_assertion(frame) and catching_frame(OF_ASSERTIONS) is None
        self.decisions.append(Decision(index, expression, outcome, of_data, by, where, checks, asserted))
        self.known[expression] = outcome
        note_remainder(condition.node.shape_env, expression, outcome)
        DECIDED(condition, index, outcome)
        return outcome

    def _may_help(self, of_data: bool) -> Callable[[FrameType], bool]:
        """Where rewriting the function that asks may spare a decision."""
        if self.rewritten is not None and self.rewritten.branches.allowed:
            return lambda frame: True
        return is_in_counted_loop if of_data else is_condition_of_while

    def text_of(self, size: torch.SymInt, by: Asker) -> str:
        """The example's size as text. Unless it is for a message, what is done with it goes the example's way."""
        frame, number = frame_of_caller(), size.node.hint
        if frame is None or is_for_message(frame):
            return str(number)
        few = one_of_few(size.node)
        if few is not None:
            return str(few)
        fact = sympy.Eq(size.node.expr, number)
        self.texts.append(Followed(fact, True, by, line_of_caller(), "its digits are read as text there"))
        return str(number)

    def rewrite(self, helps: Callable[[FrameType], bool] = lambda frame: True, *, in_loop: bool = False) -> None:
        """Have the function that is running rewritten, if that may help and was not tried yet."""
        frame = frame_of_caller()
        if frame is None or self.rewritten is None or not helps(frame):
            return
        frame = frame_of_source(frame, outermost=not in_loop)
        if self.rewritten.may_help(frame.f_code, in_loop=in_loop):
            raise self._refuse(PlainNumber(frame.f_code, in_loop=in_loop))

    def start_again(self) -> None:
        """Forget the run, for another with the same answers."""
        self.decisions.clear()
        self.known.clear()
        self._at_line.clear()
        self.texts.clear()
        self.refusal = None

    def take_over(self, other: Schedule) -> None:
        """Be the account of another run, which went the same way."""
        self.decisions, self.known, self.texts = other.decisions, other.known, other.texts

    def _refuse(self, error: OnnxExporterError) -> OnnxExporterError:
        self.refusal = error
        return error


def _repeated(where: str) -> OnnxExporterError:
    what = f"This line asks for the truth of data more than {MOST_AT_ONE_LINE} times in one run, each time anew."
    loops = "A loop that runs as long as data says so is torch.while_loop(condition, body, (the tensors it changes,))"
    remedy = f"{loops}; a branch in each of many layers is torch.where or torch.cond."
    headline = "Python repeats a decision on data, which has no end as far as a capture can see:"
    return LoopOnData(headline, [Problem(what, where, remedy)])


def is_of_data(expression: sympy.Basic) -> bool:
    """Whether an expression has a symbol that only running the model gives a value."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    return bool(free_unbacked_symbols(expression))


def _comparisons(schedule: Schedule) -> Iterator[tuple[object, str, object]]:
    """Comparisons of sizes that ask: ``x.shape[0] == 0`` is false to torch, which takes every size for positive."""

    def asking(name: str, compare: Callable[..., object]) -> Callable[..., object]:
        def apply(one: torch.SymInt | torch.SymFloat, other: object) -> object:
            found = compare(one, other)
            if schedule.asks_at_once and not _unasked and get_proxy_mode() is not None and asker() != "torch":
                return bool(found)
            if isinstance(one, torch.SymFloat) or not isinstance(other, int | torch.SymInt):
                return found
            if get_proxy_mode() is None or not _is_settled(found):
                return found
            by = asker()
            if by == "torch" or not is_otherwise_at_zero(getattr(operator, name), one, other, found):
                return found
            return schedule.answer_comparison(name, one, other, by)

        return apply

    for kind, name in itertools.product((torch.SymInt, torch.SymFloat), _RELATIONS):
        method = f"__{name}__"
        yield kind, method, asking(name, getattr(kind, method))


def _numbers(schedule: Schedule) -> Iterator[tuple[object, str, object]]:
    """What makes plain numbers of sizes, and lists of the rows of tensors: the function that asks is rewritten."""
    from torch.fx.experimental.sym_node import SymNode

    guard_int, guard_float = SymNode.guard_int, SymNode.guard_float
    rows: Callable[..., object] = torch.Tensor.__iter__
    shown: Callable[..., str] = torch.SymInt.__repr__
    hash_of: Callable[..., int] = torch.SymInt.__hash__

    def is_asked_by_model() -> bool:
        return get_proxy_mode() is not None and asker() != "torch"

    def asking(original: Callable[..., object]) -> Callable[..., object]:
        def number(node: Any, file: str, line: int) -> object:
            if file == "" and not node.expr.is_number and is_asked_by_model():
                schedule.rewrite()
                few = one_of_few(node)
                if few is not None:
                    return few
            return original(node, file, line)

        return number

    def iterated(tensor: torch.Tensor) -> object:
        if tensor.dim() > 0 and isinstance(tensor.shape[0], torch.SymInt) and is_asked_by_model():
            schedule.rewrite()
        return rows(tensor)

    def read(original: Callable[..., object]) -> Callable[..., object]:
        def number(tensor: torch.Tensor, *options: object, **named: object) -> object:
            if is_asked_by_model():
                schedule.rewrite()
            return original(tensor, *options, **named)

        return number

    def hashed(size: torch.SymInt) -> int:
        if is_asked_by_model():
            schedule.rewrite()
        return hash_of(size)

    def text(size: torch.SymInt) -> str:
        by = asker() if get_proxy_mode() is not None and size.node.has_hint() else "torch"
        return shown(size) if by == "torch" else schedule.text_of(size, by)

    yield SymNode, "guard_int", asking(guard_int)
    yield torch.SymInt, "__repr__", text
    yield torch.SymInt, "__hash__", hashed
    yield SymNode, "guard_float", asking(guard_float)
    for name in ("__int__", "__float__", "__index__", "__array__"):
        yield torch.Tensor, name, read(getattr(torch.Tensor, name))
    yield torch.Tensor, "__iter__", iterated
    yield from cuts_left_open(schedule.rewrite)
    yield from lists_left_open(schedule.rewrite)
    yield torch.SymInt, "__divmod__", lambda one, other: (one // other, one % other)


def _operations(schedule: Schedule, checks: CaughtChecks) -> Iterator[tuple[object, str, object]]:
    """What torch.export calls for an operation of the model's code, with ours for pieces that are joined."""
    # Loaded when it is used: it takes seconds.
    from onnxport.torch_internals.exporting import FunctionHandler

    override: Callable[..., Any] = FunctionHandler._override

    def _override(self: object, func: object, args: Any, kwargs: Any) -> object:
        note_size_read(func, args)
        keep_shape_of_input(func, args)
        squeezed = squeezed_as_known(schedule.known, func, args)
        made, *arguments = override(self, *given(squeezed, *schedule.fitting.given(squeezed, args, kwargs)))
        return checks.noted_after(with_images_noted(func, made)), *arguments

    yield FunctionHandler, "_override", _override
    yield from checks.replacements()


def _is_settled(found: object) -> bool:
    truths = (sympy.true, sympy.false)
    return isinstance(found, bool) or (isinstance(found, torch.SymBool) and found.node.expr in truths)


@contextlib.contextmanager
def deciding(schedule: Schedule | None) -> Iterator[None]:
    """While the block runs, a schedule answers what Python code outside of torch asks; without one, torch does."""
    if schedule is None:
        yield
        return
    from torch.fx.experimental.sym_node import SymNode

    guard_bool = SymNode.guard_bool

    def decide(node: Any, file: str, line: int) -> bool:
        expression = node.expr
        if expression.is_number or expression in (sympy.true, sympy.false):
            return bool(guard_bool(node, file, line))
        if schedule.fitting.is_proving:
            raise Unproven
        refuse_truth()
        in_loop = bool(_learning) and is_of_data(expression) and truth_in_range(node) is None
        if in_loop and (file.endswith(_TRUTH_OF_NUMBERS) or (file == "" and asker(of_data=True) != "torch")):
            schedule.rewrite(in_loop=True)
        if file != "" and not file.endswith(_TRUTH_OF_TENSORS):
            with asked_by(file):
                return bool(guard_bool(node, file, line))
        of_data = is_of_data(expression)
        by = asker(of_data=of_data)
        if by != "torch" and not of_data and _learning and truth_in_range(node) is None:
            return schedule.answer_in_loop(expression, by)
        if by == "torch" or truth_in_range(node) is not None or get_proxy_mode() is None:
            return bool(guard_bool(node, file, line))
        if expression in schedule.known:
            # As a branch or loop found it before, whatever comes to the same at all sizes.
            return schedule.known[expression]
        frame = frame_of_caller()
        if frame is not None and not of_data and is_outvoted(frame):
            return bool(node.hint)
        if frame is not None and not of_data and schedule.takes(frame):
            return True
        if frame is not None and not of_data and schedule.chooses(frame):
            schedule.rewrite()
        condition = torch.SymBool(node) if node.is_bool() else torch.SymFloat(node) != 0
        assert isinstance(condition, torch.SymBool)
        return schedule.answer(condition, by)

    checks = CaughtChecks(schedule.answer, schedule.texts.append)
    sources = (_comparisons(schedule), _numbers(schedule), conditions_compared(), _operations(schedule, checks))
    answering = (comparisons_of_data(), functions_of_numbers(), orders_of_memory(), unordered_numbers())
    rows = [(SymNode, "guard_bool", decide), *itertools.chain(*sources, *answering, quotients_made_whole())]
    with attributes_replaced(rows):
        yield
    if schedule.refusal is not None:
        raise schedule.refusal
