"""Paths: the runs of a model that its decisions lead to, as a tree with a fork at each decision that has two ways."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import sympy  # type: ignore[import-untyped]
import torch

from onnxport.capture.diagnosis.forced_sizes import FirstSymbols, is_violation
from onnxport.capture.diagnosis.guards import Followed, limit_of, shape_env_of
from onnxport.capture.diagnosis.stand_in_errors import is_by_stand_in
from onnxport.capture.diagnosis.user_lines import line_of_error, raised_by_model, raised_on_purpose
from onnxport.capture.forks.decisions import DECIDED, MOST_AT_ONE_LINE, Decision, LoopOnData, Schedule
from onnxport.capture.forks.searching import is_tangled
from onnxport.capture.forks.witnesses import Limits, settled, witness
from onnxport.capture.request.resizing import Arguments, ResizableInputs
from onnxport.errors import CaptureError, OnnxExporterError, Problem
from onnxport.events import EventLog
from onnxport.size_limits import SizeLimit
from onnxport.torch_internals.operators import WRAPPERS, HigherOrderOperator
from onnxport.torch_internals.symbolic_sizes import example_sizes

_MOST_TRIES = 4


@dataclass
class Path:
    """One run of the model: the program that was captured, the decisions on the way and the arguments it ran with."""

    program: torch.export.ExportedProgram
    decisions: Sequence[Decision]
    arguments: Arguments

    @property
    def paths(self) -> Iterator[Path]:
        """This path."""
        yield self

    def sizes_taken_for_others(self, decision: Decision) -> tuple[int, int]:
        """How many sizes are one with another on this way, or a number: of what a decision asks, and of all.

        What was asked before that was found is computed of either size here, which is wrong on other ways.
        """
        environment = shape_env_of(self.program)
        if environment is None:
            return 0, 0
        now = {symbol.name: environment.replace(symbol) for symbol in example_sizes(environment)}
        often = Counter(now.values())
        taken = {name for name, size in now.items() if often[size] > 1 or not size.is_Symbol}
        return len(taken & {symbol.name for symbol in decision.expression.free_symbols}), len(taken)


@dataclass
class Fork:
    """A decision, what follows if it is true and what follows if it is not."""

    decision: Decision
    if_true: Tree
    if_false: Tree

    @property
    def paths(self) -> Iterator[Path]:
        """All paths of both ways."""
        yield from self.if_true.paths
        yield from self.if_false.paths


Tree: TypeAlias = "Path | Fork"
Run: TypeAlias = Callable[[Schedule, Arguments], torch.export.ExportedProgram]


class AskedOtherwise(OnnxExporterError):
    """A function was rewritten since the first run and asks other conditions on the same line: all runs are void."""


@dataclass
class Explorer:
    """Runs the model for the other answer to each decision, as long as there are not too many.

    ``run`` captures the model with a schedule and arguments, ``raises`` tells whether it raises in eager mode with
    arguments, and ``first_symbols`` gives the symbols that the axes of a program began with. ``names`` are the user's
    names of symbols and ``limits`` the ranges declared for them; ``is_rewritten`` tells whether functions were
    rewritten since the first run. ``followed`` collects the decisions that only the example's answer was captured for,
    and why.
    """

    run: Run
    raises: Callable[[Arguments], bool]
    first_symbols: Callable[[torch.export.ExportedProgram], FirstSymbols]
    names: Mapping[str, str]
    limits: Limits
    events: EventLog
    limit: int
    is_rewritten: Callable[[], bool]
    count: int = 1
    followed: list[Followed] = field(default_factory=list)
    #: Beyond these the model raises.
    size_limits: list[SizeLimit] = field(default_factory=list)

    def grow(self, path: Path, depth: int = 0) -> Tree:
        """Return the tree of all paths that share the first ``depth`` decisions with this one."""
        if depth == len(path.decisions):
            return path
        decision = path.decisions[depth]
        mine = self.grow(path, depth + 1)
        if self.count >= self.limit:
            if decision.of_data:
                raise _too_many(mine, self.limit)
            self._follow(decision, f"there are more than {self.limit} ways through the model")
            return mine
        sibling = self._sibling(path, depth)
        if sibling is None:
            return mine
        self.count += 1
        self.events.add("note", "capture", f"Way {self.count} through the model is captured.", where=decision.where)
        other = self.grow(sibling, depth + 1)
        return Fork(decision, mine, other) if decision.outcome else Fork(decision, other, mine)

    def _sibling(self, path: Path, depth: int) -> Path | None:
        """The run that goes the other way at a decision; None where there is none, which is noted."""
        decision = path.decisions[depth]
        if not decision.of_data and (is_tangled(decision.expression) or _is_repeated(path.decisions[: depth + 1])):
            if not decision.asserted and (lines := _lines_without_end(path.decisions)):
                raise _without_end(lines)
            self._follow(decision, "what it asks is computed of sizes again and again, as in a loop")
            return None
        if not _is_marked(path.program, decision):
            self._follow(decision, "it is asked within another graph (torch.cond, a loop's body, vmap)")
            return None
        arguments = path.arguments if decision.of_data else self._arguments_beyond(path, depth)
        if arguments is None:
            return None
        answers = [*(taken.outcome for taken in path.decisions[:depth]), not decision.outcome]
        for _ in range(_MOST_TRIES):
            runs: list[Schedule] = []
            try:
                program, schedule = completed(partial(self._noted, runs), answers, arguments)
            except LoopOnData:
                raise
            except Exception as error:  # noqa: BLE001 - it is the model's, which may raise anything; it is reported
                others = self._arguments_after_raising(path, depth, runs[-1].decisions, error)
                if others is None:
                    self._report(path.decisions[: depth + 1], error, arguments)
                    return None
                arguments = others
                continue
            if not _agrees(schedule.decisions, path.decisions, depth):
                self._follow(decision, "the code did not ask the same again when it was run anew")
                return None
            if self.is_rewritten() and not _asks_the_same(schedule.decisions, path.decisions, depth):
                raise AskedOtherwise("The code asks otherwise since it was rewritten.")
            return Path(program, schedule.decisions, arguments)
        self._follow(decision, "the model raised at all sizes that were tried for the other way")
        return None

    def _noted(self, runs: list[Schedule], schedule: Schedule, arguments: Arguments) -> torch.export.ExportedProgram:
        runs.append(schedule)
        return self.run(schedule, arguments)

    def _arguments_after_raising(
        self, path: Path, depth: int, taken: Sequence[Decision], error: Exception
    ) -> Arguments | None:
        """Other sizes for a way on which the model raised: perhaps for those only that the way was tried at."""
        further = [one for one in taken[depth + 1 :] if not one.of_data]
        if not further or not raised_by_model(error):
            return None
        example = ResizableInputs(path.program, *path.arguments)
        asked = [_current(one, example.environment) for one in taken if not one.of_data]
        asked = asked[: asked.index(_current(further[-1], example.environment)) + 1]
        sizes = witness(example, asked, self.names, self.limits) if example.usable else None
        return None if sizes is None or not example.has_room(sizes) else example.at(sizes)

    def _arguments_beyond(self, path: Path, depth: int) -> Arguments | None:
        """Arguments at sizes at which a decision comes out otherwise; None where there are none."""
        example = ResizableInputs(path.program, *path.arguments)
        names = self.names
        raw = [one for one in path.decisions[: depth + 1] if not one.of_data]
        asked = [_current(one, example.environment) for one in raw]
        if asked[-1].expression in (sympy.true, sympy.false):
            # Operators on this way take two sizes for one, which does not settle what was asked before them. What was
            # declared of sizes does.
            first = self.first_symbols(path.program)
            example, names = ResizableInputs(path.program, *path.arguments, first.sizes), first.names
            asked = [replace(one, expression=first.as_declared(one.expression)) for one in raw]
        if settled(asked, names, self.limits):
            return None
        sizes = witness(example, asked, names, self.limits) if example.usable else None
        if sizes is None:
            self._follow(path.decisions[depth], "no sizes were found at which it comes out otherwise")
            return None
        if not example.has_room(sizes):
            self._follow(path.decisions[depth], "the sizes at which it comes out otherwise are too large to try")
            return None
        return example.at(sizes)

    def _follow(self, decision: Decision, reason: str) -> None:
        if decision.asserted:
            # On the other way the model raises, wherever that is: no value of the file is another.
            note = f"What is asserted is not checked by the file: {reason}."
            self.events.add("note", "capture", note, where=decision.where)
            return
        followed = Followed(decision.expression, decision.outcome, decision.by, decision.where, reason)
        self.followed.append(followed)

    def _is_models_own(self, decisions: Sequence[Decision], error: Exception, arguments: Arguments) -> bool:
        """Whether the model raises on a way by itself, and not only as it is captured."""
        if not raised_by_model(error) or is_by_stand_in(error):
            return False
        # Which way data lead these arguments do not tell.
        return raised_on_purpose(error) or any(one.of_data for one in decisions) or self.raises(arguments)

    def _report(self, decisions: Sequence[Decision], error: Exception, arguments: Arguments) -> None:
        """Note why the other way at the last of the decisions is left out."""
        *before, decision = decisions
        told = error.problems[0].what if isinstance(error, OnnxExporterError) and error.problems else str(error)
        lines = told.strip().splitlines()
        what = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
        if self._is_models_own(decisions, error, arguments):
            way = "false" if decision.outcome else "true"
            message = f"Where the condition is {way} the model raises {what}; that way is left out."
            self.events.add("assumption", "capture", message, where=decision.where)
            if not any(one.of_data for one in decisions):
                unless = [_fact(one, not one.outcome) for one in before]
                raises = f"it raises {what}"
                limit = limit_of(_fact(decision, decision.outcome), unless, self.names, raises, decision.where)
                self.size_limits.append(limit)
            return
        where = line_of_error(error)
        reason = f"the other way could not be captured: {what}"
        self._follow(decision, f"{reason} at {where}" if where else reason)


def _fact(decision: Decision, outcome: bool) -> sympy.Basic:
    return decision.expression if outcome else sympy.Not(decision.expression)


def _current(decision: Decision, environment: Any) -> Decision:
    """A decision in the symbols that are left: operators may have found since that two sizes are one."""
    if environment is None:
        return decision
    return replace(decision, expression=environment.replace(decision.expression))


def completed(run: Run, answers: Sequence[bool], arguments: Arguments) -> tuple[torch.export.ExportedProgram, Schedule]:
    """Run the model with the answers given; where its code raises after another that was made up, change that one."""
    while True:
        schedule = Schedule(answers)
        try:
            return run(schedule, arguments), schedule
        except Exception as error:
            taken = schedule.decisions
            made_up = len(taken) > len(answers) and taken[-1].of_data and taken[-1].outcome
            if not made_up or not raised_by_model(error) or isinstance(error, OnnxExporterError):
                raise
        answers = [*(decision.outcome for decision in taken[:-1]), False]


def _agrees(made: Sequence[Decision], model: Sequence[Decision], depth: int) -> bool:
    if len(made) <= depth:
        return False
    return all(mine.same_question(other) for mine, other in zip(made[: depth + 1], model, strict=False))


def _asks_the_same(made: Sequence[Decision], model: Sequence[Decision], depth: int) -> bool:
    """Whether two runs asked the same conditions on sizes: one ``if`` may ask for several truths, or for one of all."""
    pairs = zip(made[: depth + 1], model, strict=False)
    return all(mine.of_data or str(mine.expression) == str(other.expression) for mine, other in pairs)


def _is_repeated(decisions: Sequence[Decision]) -> bool:
    """Whether the last of the decisions asks of sizes what its line has asked often, which leads to larger sizes."""
    last = decisions[-1]
    return sum(one.where == last.where and not one.of_data for one in decisions) > MOST_AT_ONE_LINE


def _lines_without_end(decisions: Sequence[Decision]) -> list[str]:
    """The lines of a recursion, or of a loop that is none of ONNX's, with more ways through it than can be captured.

    Where one line asks again and again, each time is a way out. Where two do, or one does in each of two calls, they
    multiply.
    """
    asked = Counter(decision.where for decision in decisions if not (decision.of_data or decision.asserted))
    often = [where for where, count in asked.most_common() if count > MOST_AT_ONE_LINE]
    return often if len(often) > 1 or any(asked[where] > 2 * MOST_AT_ONE_LINE for where in often) else []


def _without_end(lines: Sequence[str]) -> CaptureError:
    what = f"This line asks of sizes more than {MOST_AT_ONE_LINE} times in one run, each time of what it led to before"
    remedy = (
        "Write a recursion as a `while` that only changes variables, which becomes a Loop, or pass branches='follow' "
        "to take the example's way."
    )
    headline = "Python repeats decisions on sizes, and how often depends on the sizes:"
    return CaptureError(headline, [Problem(what, where, remedy) for where in lines])


def _is_marked(program: torch.export.ExportedProgram, decision: Decision) -> bool:
    return any(mark.args[1] == decision.index for mark in _marks(program.graph_module))


def _marks(module: torch.fx.GraphModule) -> Iterator[torch.fx.Node]:
    """The marks of a graph, and of regions in it that run once: those without gradients, or with other types."""
    for node in module.graph.nodes:
        if node.target is DECIDED:
            yield node
        elif isinstance(node.target, HigherOrderOperator) and node.target.name() in WRAPPERS:
            region = node.args[WRAPPERS[node.target.name()]]
            inner = getattr(module, str(region.target)) if isinstance(region, torch.fx.Node) else None
            if isinstance(inner, torch.fx.GraphModule) and node.target.name() != "invoke_subgraph":
                yield from _marks(inner)


def without_marks(program: torch.export.ExportedProgram) -> None:
    """Take the marks of decisions out of a program whose decisions lead nowhere else."""
    for module in program.graph_module.modules():
        if not isinstance(module, torch.fx.GraphModule):
            continue
        marks = module.graph.find_nodes(op="call_function", target=DECIDED)
        for mark in marks:
            module.graph.erase_node(mark)
        if marks:
            module.graph.eliminate_dead_code()
            module.recompile()


def _too_many(tree: Tree, limit: int) -> CaptureError:
    lines = Counter(decision.where for path in tree.paths for decision in path.decisions)
    remedy = (
        "Write torch.where or torch.cond there, pass branches='follow' to take the example's way, or a branch_limit."
    )
    problems = [
        Problem(f"{count} times in these runs it decides how the model goes on", where, remedy)
        for where, count in lines.most_common()
    ]
    return CaptureError(f"Branches in Python lead to more than {limit} ways through the model:", problems)


def violates(error: BaseException, schedule: Schedule) -> bool:
    """Whether a run failed because a branch that was taken for certain sizes holds for no others."""
    return is_violation(error) and any(not decision.of_data for decision in schedule.decisions)
