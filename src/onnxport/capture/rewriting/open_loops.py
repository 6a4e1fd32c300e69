"""Loops whose length only run time knows, captured as ``scan`` or ``while_loop``.

The body is a function of the variables that it changes. It is run once without being recorded, to see which tensors and
sizes it reads from around it and what becomes of each variable (``variables.py``); then it is captured on stand-ins for
them. Where a variable is another kind of thing after the first iteration (None and then a tensor), the first iteration
runs before the loop.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

import sympy  # type: ignore[import-untyped]
import torch
import torch.fx.traceback
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from torch.overrides import TorchFunctionMode

from onnxport.capture.diagnosis.user_lines import line_of_caller, line_of_error
from onnxport.capture.forks.decisions import AskedInLoop, learning, unasked
from onnxport.capture.patches.replacing import attributes_replaced
from onnxport.capture.replay.control.closures import sampling
from onnxport.capture.rewriting.effects import Place, Surroundings
from onnxport.capture.rewriting.open_lists import OpenItems, Size
from onnxport.capture.rewriting.open_numbers import as_tensor
from onnxport.capture.rewriting.variables import UNDEFINED, Unlike, Variable, Watch, variable_of
from onnxport.errors import CaptureError, Problem
from onnxport.marks import COUNTED_LOOP, marking
from onnxport.torch_internals import pytree
from onnxport.torch_internals.fake_tensors import detect_fake_mode
from onnxport.torch_internals.operators import scan_module, scan_op, while_loop_op
from onnxport.torch_internals.symbolic_sizes import constrain_range_for_size, get_proxy_mode, is_recorded

Tensors = Sequence[torch.Tensor]
Operand = torch.Tensor | torch.SymInt


class LoopRefused(CaptureError):
    """A loop of the model's code can't be captured; its problem says why and what to write."""


class _Reading(TorchFunctionMode):
    """Notes the tensors and sizes that operators are given, by identity, and were not made meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.operands: dict[int, Operand] = {}
        self._made: dict[int, object] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for leaf in pytree.tree_leaves((args, kwargs)):
            if isinstance(leaf, torch.Tensor | torch.SymInt) and id(leaf) not in self._made:
                self.operands.setdefault(id(leaf), leaf)
        result = _called(func, args, {} if kwargs is None else kwargs)
        for leaf in pytree.tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and id(leaf) not in self.operands:
                self._made[id(leaf)] = leaf
        return result


class _Substituting(TorchFunctionMode):
    """Gives operators other tensors and sizes in the place of some, by identity."""

    def __init__(self, substitutes: Mapping[int, Operand]) -> None:
        super().__init__()
        self.substitutes = substitutes

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def own(leaf: Any) -> Any:
            return self.substitutes.get(id(leaf), leaf)

        own_args, own_kwargs = pytree.tree_map(own, (args, {} if kwargs is None else kwargs))
        return _called(func, own_args, own_kwargs)


def _called(func: Any, args: Any, kwargs: Any) -> Any:
    """Call a function with indices that only run time knows: torch's own mode for that is not in force in a body."""
    from onnxport.torch_internals.exporting import with_open_indices

    if func is torch.Tensor.__setitem__:
        return _written(*args)
    func, args, kwargs = with_open_indices(func, args, kwargs)  # type: ignore[no-untyped-call]
    return func(*args, **kwargs)


def _written(tensor: torch.Tensor, index: Any, value: Any) -> None:
    """``tensor[index] = value`` by way of the view, where the index is one of numbers and slices."""
    parts = index if isinstance(index, tuple) else (index,)
    if any(isinstance(part, torch.Tensor | list) and not _is_number(part) for part in parts):
        torch.Tensor.__setitem__(tensor, index, value)
        return
    from onnxport.torch_internals.exporting import with_open_indices

    func, args, kwargs = with_open_indices(torch.Tensor.__getitem__, (tensor, index), {})  # type: ignore[no-untyped-call]
    view = func(*args, **kwargs)
    view.copy_(value) if isinstance(value, torch.Tensor) else view.fill_(value)


def _is_number(part: Any) -> bool:
    return isinstance(part, torch.Tensor) and part.dim() == 0 and part.dtype is not torch.bool


class OpenLoop:
    """A loop of the model's code: its body as a function of variables, and what these hold before it.

    ``needed`` names the variables that are read outside of the loop, ``attributes`` what the body assigns to besides
    variables, and ``text`` is the head of the loop.
    """

    def __init__(
        self,
        body: Callable[..., tuple[Any, ...]],
        names: Sequence[str],
        needed: Sequence[str],
        attributes: Sequence[str],
        text: str,
        around: Mapping[str, Any],
    ) -> None:
        self.body = body
        self.names, self.needed, self.attributes, self.text = names, needed, attributes, text
        self.values = [around.get(name, UNDEFINED) for name in names]
        #: What the body changes besides variables; their values follow those of the variables.
        self.places: list[Place] = []
        self.variables: list[Variable] = []
        self.operands: list[Operand] = []
        self.where = line_of_caller()
        #: How many iterations ran before the loop.
        self.done = 0

    def _iterate(self, place: Any, values: Sequence[Any]) -> tuple[Any, ...]:
        raise NotImplementedError

    def learn(self) -> None:
        """See what an iteration does with the variables, and what it reads."""
        while True:
            try:
                changed = self._watch_iteration()
                if not changed:
                    break
                self.places += changed
                self.values += [place.read() for place in changed]
            except AskedInLoop as asked:
                # What sizes decide in the body is decided before the loop, the outermost if there are several.
                if get_proxy_mode() is None:
                    raise
                asked.decide(self._sizes())
        if self.attributes and not self.places:
            raise Unlike(f"it assigns to {', '.join(self.attributes)}")

    def _iteration(self, place: Any, values: Sequence[Any]) -> tuple[Any, ...]:
        """One iteration: what it leaves of the variables, and in the places besides."""
        count = len(self.names)
        with self._put(values[count:]):
            after = self._iterate(place, values[:count])
            return (*after, *(place.read() for place in self.places))

    @contextlib.contextmanager
    def _put(self, values: Sequence[Any]) -> Iterator[None]:
        """While the block runs, the places besides the variables hold these values."""
        before = [place.read() for place in self.places]
        try:
            for one, value in zip(self.places, values, strict=True):
                one.write(value)
            yield
        finally:
            for one, value in zip(self.places, before, strict=True):
                one.write(value)

    def _leave(self, values: Sequence[Any]) -> list[Any]:
        """Write to the places besides the variables what a loop leaves there; return what it leaves of these."""
        count = len(self.names)
        for place, value in zip(self.places, values[count:], strict=True):
            place.write(value)
        return list(values[:count])

    def _watch_iteration(self) -> list[Place]:
        """Watch an iteration; return what it changes besides what is known to be changed."""
        with sampling(), _Reading() as self._reading:
            watch = Watch(self.values)
            known = _symbols()
            around = Surroundings(self.body, self.places)
            try:
                with learning():
                    after = self._iteration(_any_place() + self.done, watch.own)
            finally:
                changed = around.changed()
            if changed:
                return changed
            seen = [leaf for leaf in self._reading.operands.values() if not watch.gave(leaf)]
            names = [*self.names, *(place.name for place in self.places)]
            needed = {*self.needed, *names[len(self.names) :]}
            self.variables = [
                variable_of(name, before, own, left, watch, needed=name in needed)
                for name, before, own, left in zip(names, self.values, watch.own, after, strict=True)
            ]
            pairs = zip(self.variables, self.values, strict=True)
            seen += [leaf for variable, value in pairs for leaf in variable.passed_on(value)]
        sizes = [leaf for leaf in seen if isinstance(leaf, torch.SymInt)]
        own = {id(leaf) for leaf in sizes if _is_fresh(leaf, known) or not is_recorded(leaf)}
        self.operands = [leaf for leaf in seen if id(leaf) not in own]
        return []

    def _sizes(self) -> dict[sympy.Symbol, torch.SymInt]:
        """The sizes of what the body read so far, by their symbols."""
        read = self._reading.operands.values()
        sizes = [size for leaf in read for size in (leaf.shape if isinstance(leaf, torch.Tensor) else [leaf])]
        return {size.node.expr: size for size in sizes if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol}

    def _started(self) -> list[torch.Tensor]:
        return [
            tensor
            for variable, value in zip(self.variables, self.values, strict=True)
            for tensor in variable.start(value)
        ]

    def _step(self, place: Any, states: Tensors, operands: Sequence[Operand]) -> tuple[tuple[Any, ...], Any]:
        """One iteration on states: what it leaves of the variables, and the mode in which it ran."""
        values = iter(states)
        mode = _Substituting({id(one): other for one, other in zip(self.operands, operands, strict=True)})
        with mode:
            given = [variable.given(values, value) for variable, value in zip(self.variables, self.values, strict=True)]
            after = self._iteration(place(), given)
        return after, mode

    def _states(self, after: Sequence[Any]) -> list[torch.Tensor]:
        pairs = zip(self.variables, after, strict=True)
        return [tensor for variable, value in pairs for tensor in variable.state(value)]

    def _results(self, states: Tensors, stacks: Tensors = ()) -> list[Any]:
        ends, contributions = iter(states), iter(stacks)
        return self._leave(
            [
                variable.result(value, ends, contributions)
                for variable, value in zip(self.variables, self.values, strict=True)
            ]
        )

    def refused(self, error: Exception) -> LoopRefused:
        """Say why the loop can't be captured, and what to write."""
        what = f"How often `{self.text}` runs only run time knows, and it is no loop of ONNX's as it stands: "
        return LoopRefused(
            "A loop can't be captured:", [Problem(what + self._reason(error), self.where, self._remedy())]
        )

    def _reason(self, error: Exception) -> str:
        if isinstance(error, Unlike):
            return f"{error}."
        where = line_of_error(error)
        place = f" ({where})" if where and where != self.where else ""
        if isinstance(error, GuardOnDataDependentSymNode):
            return f"its body decides by what only the iteration knows{place}."
        text = str(error).strip()
        reason = text.splitlines()[0] if text else type(error).__name__
        return f"its body can't be captured: {reason}{place}."

    def _remedy(self) -> str:
        names = [name for name in self.names if name in self.needed]
        states = ", ".join(names) if names else "state"
        if self.text.startswith("while"):
            steps, begin, condition = states, states, self.text.removeprefix("while ")
        else:
            steps, begin, condition = f"step, {states}", f"torch.tensor(0), {states}", "step < the number of iterations"
        return (
            f"Write `{steps} = torch.while_loop(condition, body, ({begin},))`, where condition({steps}) is "
            f"`{condition}` as a tensor and body({steps}) returns what they are after an iteration, in the same "
            "shapes. What iterations add to a list is written into a tensor of the full size instead."
        )


class CountedLoop(OpenLoop):
    """A ``for`` over items of which only run time knows how many."""

    def __init__(self, items: OpenItems, *described: Any) -> None:
        super().__init__(*described)
        self.items = items
        self.length: Size = items.length
        #: Why the loop can't be captured from its first iteration on.
        self.unlike: Exception | None = None
        try:
            self.learn()
        except AskedInLoop:
            raise
        except Exception as error:  # noqa: BLE001 - after the first iteration variables may be other things; then it is told
            self.unlike = error

    @property
    def needs_first(self) -> bool:
        """Whether the first iteration has to run before the loop."""
        return self.unlike is not None

    @property
    def surely_runs(self) -> bool:
        """Whether there is an iteration wherever no axis is empty."""
        if isinstance(self.length, int):
            return self.length > 0
        expression = self.length.node.expr
        return bool(expression.xreplace(dict.fromkeys(expression.free_symbols, sympy.S.One)) >= 1)

    def _iterate(self, place: Any, values: Sequence[Any]) -> tuple[Any, ...]:
        return self.body(self.items.at(place), *values)

    def take_first(self) -> None:
        """Run the first iteration before the loop."""
        self.values = list(self._iteration(0, self.values))
        self._leave(self.values)
        self.done, self.unlike = 1, None
        try:
            self.learn()
        except AskedInLoop:
            raise
        except Exception as error:
            raise self.refused(error) from error

    def run(self) -> list[Any]:
        """Capture the loop; return what the variables hold after it."""
        if self.needs_first:
            # There is none: that was asked.
            return self._leave(self.values)
        try:
            return self._scanned() if any(variable.contributes for variable in self.variables) else self._repeated()
        except LoopRefused:
            raise
        except Exception as error:
            raise self.refused(error) from error

    def _place(self, step: torch.Tensor) -> Callable[[], Any]:
        return lambda: _counted(step) + self.done

    def _scanned(self) -> list[Any]:
        start = self._started()
        count = len(start)

        def combine(*given: torch.Tensor) -> list[torch.Tensor]:
            with marking(COUNTED_LOOP, on=False):
                after, _ = self._step(self._place(given[count]), given[:count], given[count + 1 :])
                pairs = zip(self.variables, after, strict=True)
                pieces = [piece.clone() for variable, value in pairs for piece in variable.contribution(value)]
                return [*self._states(after), *pieces]

        steps = torch.arange(self.length - self.done)  # type: ignore[arg-type]
        first = attributes_replaced([(scan_module, "first_slice_copy", _first)])
        with torch.fx.traceback.preserve_node_meta(), marking(COUNTED_LOOP), first:
            outcome = cast(Tensors, scan_op(combine, start, [steps], tuple(self.operands)))
        return self._results(outcome[:count], outcome[count:])

    def _repeated(self) -> list[Any]:
        start = self._started()
        count = len(start)
        limit = as_tensor(self.length - self.done)

        def test(step: torch.Tensor, *rest: Any) -> torch.Tensor:
            return torch.lt(step, rest[count])

        def body(step: torch.Tensor, *rest: Any) -> Tensors:
            after, _ = self._step(self._place(step), rest[:count], rest[count + 1 :])
            return (step + 1, *self._states(after))

        states = (torch.scalar_tensor(0, dtype=torch.int64), *start)
        outcome = cast(Tensors, while_loop_op(test, body, states, (limit, *self.operands)))  # type: ignore[arg-type]
        return self._results(outcome[1:])


class RepeatedLoop(OpenLoop):
    """A ``while`` on data."""

    def __init__(self, test: Callable[..., Any], *described: Any) -> None:
        super().__init__(*described)
        self.test = test
        try:
            self.learn()
            if any(variable.contributes for variable in self.variables):
                raise Unlike("it adds to a list, and ONNX can't tell how much")
        except AskedInLoop:
            raise
        except Exception as error:
            raise self.refused(error) from error

    def _iterate(self, place: Any, values: Sequence[Any]) -> tuple[Any, ...]:
        after = self.body(*values)
        as_tensor(self.test(*after))
        return after

    def _goes_on(self, values: Sequence[Any]) -> torch.Tensor:
        """The truth of the condition with these values of the variables and places."""
        with self._put(values[len(self.names) :]), unasked():
            return as_tensor(self.test(*values[: len(self.names)])).to(torch.bool)

    def run(self) -> list[Any]:
        """Capture the loop; return what the variables hold after it."""
        start = self._started()
        count = len(start)

        def test(going: torch.Tensor, *rest: Any) -> torch.Tensor:
            return going

        def body(going: torch.Tensor, *rest: Any) -> Tensors:
            after, mode = self._step(lambda: None, rest[:count], rest[count:])
            with mode:
                again = self._goes_on(after).clone().reshape([])
            return (again, *self._states(after))

        going = self._goes_on(self.values).reshape([])
        try:
            outcome = cast(Tensors, while_loop_op(test, body, (going, *start), tuple(self.operands)))  # type: ignore[arg-type]
        except Exception as error:
            raise self.refused(error) from error
        return self._results(outcome[1:])


def _first(items: torch.Tensor, dim: int = 0) -> torch.Tensor:
    """What is like the first of some items, of which there may be none."""
    return items.new_empty([size for axis, size in enumerate(items.shape) if axis != dim])


def _any_place() -> Any:
    """The number of an iteration of which no more is known than that it is one."""
    return _counted(torch.empty([], dtype=torch.int64))


def _counted(step: torch.Tensor) -> Any:
    place: Any = step.item()
    constrain_range_for_size(place)
    return place


def _symbols() -> set[object]:
    """The symbols that there are so far."""
    fake = detect_fake_mode()
    return set() if fake is None or fake.shape_env is None else set(fake.shape_env.var_to_range)


def _is_fresh(size: torch.SymInt, known: set[object]) -> bool:
    """Whether a size is one of the iteration's own, or no size that varies."""
    symbols = size.node.expr.free_symbols
    return not symbols or not symbols <= known
