"""After the first capture: the other ways through a model whose code decides on sizes or data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import sympy  # type: ignore[import-untyped]
import torch

from onnxport.capture.diagnosis import forced_sizes
from onnxport.capture.diagnosis.empty_axes import LimitedPath, note_that_reads_are_noted
from onnxport.capture.diagnosis.guards import Followed, GuardedProgram
from onnxport.capture.diagnosis.stand_in_errors import eager_raises
from onnxport.capture.diagnosis.window_sizes import sizes_of_windows
from onnxport.capture.forks.decisions import Decision
from onnxport.capture.forks.paths import AskedOtherwise, Explorer, Path, Tree, completed, without_marks
from onnxport.capture.forks.witnesses import Limits, follows, implied
from onnxport.capture.naming import name_axes
from onnxport.capture.request.dynamic_shapes import Declarations
from onnxport.capture.strategies import Request, Success, run, run_path
from onnxport.errors import CaptureError, Problem
from onnxport.options import Branches
from onnxport.size_limits import SizeLimit

#: From so many decisions on, one more capture is less than a capture for each of them.
_MANY = 3
_MOST_TRIES = 4


@dataclass(frozen=True)
class Explored:
    """All ways through a model, the program that speaks for them, and the decisions that the example took alone."""

    tree: Tree
    program: torch.export.ExportedProgram
    followed: Sequence[Followed] = ()
    #: What the model's code demands of sizes: it raises elsewhere.
    size_limits: Sequence[SizeLimit] = ()
    #: The user's names of symbols.
    names: Mapping[str, str] = field(default_factory=dict)
    #: The ranges that were declared for symbols.
    limits: Limits = field(default_factory=dict)

    @property
    def guarded(self) -> list[GuardedProgram]:
        """The programs of all ways, with what the decisions on the way imply."""
        return [
            GuardedProgram(
                path.program,
                partial(follows, decisions=path.decisions, names=self.names),
                partial(_implied_on, path, self.names, self.limits),
            )
            for path in self.tree.paths
        ]

    @property
    def limited(self) -> list[LimitedPath]:
        """The programs of all ways, with the conditions on sizes under which the model goes another."""
        return [LimitedPath(path.program, list(_other_ways(path))) for path in self.tree.paths]


def _implied_on(path: Path, names: Mapping[str, str], limits: Limits, fact: sympy.Basic) -> bool:
    return implied(fact, path.decisions, names, limits, known=list(sizes_of_windows(path.program.graph)))


def explore(
    success: Success,
    request: Request,
    recorder: forced_sizes.Recorder,
    branches: Branches,
    branch_limit: int,
    input_names: Sequence[str] = (),
    tries: int = _MOST_TRIES,
) -> Explored:
    """Capture the other ways that the decisions of the first capture lead to."""
    if success.schedule is None:
        first = forced_sizes.first_symbols(success.program, request.declared.axes)
        return Explored(Path(success.program, (), ((), {})), success.program, names=first.names)
    decisions, before = success.schedule.decisions, request.rewriting.state
    if branches == "refuse" and decisions:
        raise _refused(decisions)
    path = Path(success.program, tuple(decisions), (request.inputs.args, request.inputs.kwargs))
    found = forced_sizes.placeholder_sizes(success.program, request.declared.axes)
    names = name_axes(success.program, found, input_names)
    explorer = Explorer(
        run=partial(run_path, success.strategy, request, recorder),
        raises=lambda arguments: eager_raises(request.model, *arguments),
        first_symbols=partial(forced_sizes.first_symbols, axes=request.declared.axes),
        names=names.by_symbol,
        limits=forced_sizes.declared_ranges(success.program, found),
        events=request.events,
        limit=branch_limit,
        is_rewritten=lambda: request.rewriting.state != before,
    )
    try:
        tree = explorer.grow(path)
    except AskedOtherwise:
        if not tries:
            raise
        again, schedule = completed(explorer.run, (), path.arguments)
        anew = replace(success, program=again, schedule=schedule)
        return explore(anew, request, recorder, branches, branch_limit, input_names, tries=tries - 1)
    if problems := list(_fixed_axes(tree, request, recorder, explorer)):
        raise request.rewriting.explained(forced_sizes.error_of(problems))
    if isinstance(tree, Path):
        without_marks(tree.program)
    followed = [*explorer.followed, *success.schedule.texts]
    for one in tree.paths:
        note_that_reads_are_noted(one.program)
    program = _most_general(tree, request.declared)
    return Explored(tree, program, followed, explorer.size_limits, explorer.names, explorer.limits)


def _other_ways(path: Path) -> Iterator[sympy.Basic]:
    """The conditions on sizes under which a path is left."""
    for one in path.decisions:
        if not one.of_data:
            yield sympy.Not(one.expression) if one.outcome else one.expression


def with_fewer_decisions(success: Success, request: Request, recorder: forced_sizes.Recorder) -> Success:
    """Where the code decides often, the first way again, with branches of which one run captures both ways.

    It is kept where it leaves fewer decisions.
    """
    decided = 0 if success.schedule is None else len(success.schedule.decisions)
    rewriting = request.rewriting
    if decided < _MANY or rewriting.branches.allowed or rewriting.branches.refused:
        return success
    before, fits = rewriting.state, request.fitting.allowed
    rewriting.begin_anew(before, opens=True)
    try:
        again = run(request, recorder, [success.strategy], forking=True)
    except CaptureError as error:
        reason = f"Branches could not be captured in one run ({str(error).partition(chr(10))[0]})."
        request.events.add("note", "capture", reason)
        again = success
    if again.schedule is not None and len(again.schedule.decisions) < decided:
        return replace(again, failures=success.failures)
    rewriting.begin_anew(before, opens=False)
    request.fitting.allowed = fits
    return success


def _fixed_axes(tree: Tree, request: Request, recorder: forced_sizes.Recorder, explorer: Explorer) -> Iterator[Problem]:
    """The axes that should vary and have one size on a way that others lead to as well."""
    for path in tree.paths:
        first: forced_sizes.FirstSymbols | None = None
        for axis, size in forced_sizes.placeholder_sizes(path.program, request.declared.axes):
            fixed = forced_sizes.fixed_value(size)
            if fixed is None or not axis.must_vary:
                continue
            first = explorer.first_symbols(path.program) if first is None else first
            symbol = first.sizes.get((axis.index, axis.axis))
            if symbol is None or not implied(sympy.Eq(symbol, fixed), path.decisions, explorer.names, explorer.limits):
                yield forced_sizes.problem(axis, fixed, recorder.line(axis, fixed))


def _most_general(tree: Tree, declared: Declarations) -> torch.export.ExportedProgram:
    """The first program in which most of the axes vary that should, each for itself.

    A branch for one size fixes axes, and one for equal sizes takes two for one.
    """

    def tied(path: Path) -> tuple[int, int]:
        sizes = forced_sizes.placeholder_sizes(path.program, declared.axes)
        fixed = sum(axis.must_vary and forced_sizes.fixed_value(size) is not None for axis, size in sizes)
        return fixed, -len({size.node.expr for _, size in sizes if isinstance(size, torch.SymInt)})

    return min(tree.paths, key=tied).program


def _refused(decisions: Sequence[Decision]) -> CaptureError:
    remedy = "Write torch.where or torch.cond there, or leave `branches` out to have both sides exported."
    places = dict.fromkeys((decision.where, decision.of_data) for decision in decisions)
    problems = [
        Problem(f"The code decides by {'data' if of_data else 'a size that varies'}", where, remedy)
        for where, of_data in places
    ]
    return CaptureError("The model branches in Python, which `branches='refuse'` does not allow:", problems)
