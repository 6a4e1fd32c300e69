"""Blocks of the model's code that only run time knows how to go through: a loop's body, the ways of a choice.

A block is a function of the variables that it changes. It is run once without being recorded, to see which tensors and
sizes it reads from around it, what becomes of each variable (``variables.py``) and what else it changes
(``effects.py``); then it is captured on stand-ins for them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch.overrides import TorchFunctionMode

from onnxport.capture.diagnosis.user_lines import line_of_caller
from onnxport.capture.forks.decisions import AskedInLoop
from onnxport.capture.patches.tensor_numbers import item_in_two_steps, takes_two_steps, write_in_two_steps
from onnxport.capture.rewriting.effects import Place
from onnxport.capture.rewriting.variables import UNDEFINED, Variable, WatchedList, leaves_of
from onnxport.capture.rewriting.watching import Unlike
from onnxport.torch_internals import pytree
from onnxport.torch_internals.fake_tensors import detect_fake_mode
from onnxport.torch_internals.module_calls import ended_by_errors
from onnxport.torch_internals.symbolic_sizes import example_sizes, get_proxy_mode, is_recorded
from onnxport.undoing import pushed

Operand = torch.Tensor | torch.SymInt

_running: list[None] = []


def is_in_block() -> bool:
    """Whether what runs is part of a block."""
    return bool(_running)


class Reading(TorchFunctionMode):
    """Notes the tensors and sizes that operators are given, by identity, and were not made meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.operands: dict[int, Operand] = {}
        #: Those since a block began: before it and behind it variables are copied and looked at.
        self.in_block: dict[int, Operand] = {}
        #: The symbols in the numbers and truths that operators are given.
        self.symbols: dict[sympy.Symbol, torch.SymInt] = {}
        self._made: dict[int, object] = {}

    def __torch_function__(self, func: object, types: object, args: object = (), kwargs: object = None) -> object:
        for leaf in _leaves((args, kwargs)):
            if isinstance(leaf, torch.SymInt | torch.SymFloat | torch.SymBool):
                self.symbols.update(_symbols_of(leaf))
            if isinstance(leaf, slice):
                # Bounds are mostly computed where they stand: of numbers their symbols are what is read.
                self._note_bounds(leaf)
            if isinstance(leaf, torch.Tensor | torch.SymInt) and id(leaf) not in self._made:
                self.operands.setdefault(id(leaf), leaf)
                self.in_block[id(leaf)] = leaf
        result = _called(func, args, {} if kwargs is None else kwargs)
        for leaf in pytree.tree_leaves(result):
            if isinstance(leaf, torch.Tensor) and id(leaf) not in self.operands:
                self._made[id(leaf)] = leaf
        return result

    def _note_bounds(self, part: slice) -> None:
        for bound in (part.start, part.stop, part.step):
            if isinstance(bound, torch.SymInt):
                self.symbols.update(_symbols_of(bound))
            elif isinstance(bound, torch.Tensor) and id(bound) not in self._made:
                self.operands.setdefault(id(bound), bound)
                self.in_block[id(bound)] = bound


def _symbols_of(number: torch.SymInt | torch.SymFloat | torch.SymBool) -> dict[sympy.Symbol, torch.SymInt]:
    env = number.node.shape_env
    known = example_sizes(env)
    hints = {symbol: int(known[symbol]) if symbol in known else None for symbol in number.node.expr.free_symbols}
    return {symbol: env.create_symintnode(symbol, hint=hint) for symbol, hint in hints.items()}


def _leaves(arguments: object) -> Iterator[object]:
    """What operators are given, also in lists of which they read all."""
    for leaf in pytree.tree_leaves(arguments):
        if isinstance(leaf, WatchedList):
            leaf.read = True
            yield from leaves_of(leaf)
        else:
            yield leaf


class Substituting(TorchFunctionMode):
    """Gives operators other tensors and sizes in the place of some, by identity."""

    def __init__(self, substitutes: Mapping[int, Operand]) -> None:
        super().__init__()
        self.substitutes = substitutes

    def __torch_function__(self, func: object, types: object, args: object = (), kwargs: object = None) -> object:
        def own(leaf: object) -> object:
            if isinstance(leaf, slice):
                return slice(own(leaf.start), own(leaf.stop), own(leaf.step))
            return self.substitutes.get(id(leaf), leaf)

        own_args, own_kwargs = pytree.tree_map(own, (args, {} if kwargs is None else kwargs))
        return _called(func, own_args, own_kwargs)


def _called(func: Any, args: Any, kwargs: Any) -> Any:
    """Call a function with indices that only run time knows: torch's own mode for that is not in force in a body."""
    from onnxport.torch_internals.exporting import with_open_indices

    if func is torch.Tensor.__setitem__:
        return _written(*args)
    if func is torch.Tensor.__getitem__ and takes_two_steps(args[1]):
        return item_in_two_steps(*args)
    func, args, kwargs = with_open_indices(func, args, kwargs)  # type: ignore[no-untyped-call]
    return func(*args, **kwargs)


def _written(tensor: torch.Tensor, index: Any, value: Any) -> None:
    """``tensor[index] = value`` by way of the view, where the index is one of numbers and slices."""
    parts = index if isinstance(index, tuple) else (index,)
    if takes_two_steps(index):
        write_in_two_steps(tensor, index, value)
        return
    if any(isinstance(part, torch.Tensor | list) and not _is_number(part) for part in parts):
        torch.Tensor.__setitem__(tensor, index, value)
        return
    from onnxport.torch_internals.exporting import with_open_indices

    func, args, kwargs = with_open_indices(torch.Tensor.__getitem__, (tensor, index), {})  # type: ignore[no-untyped-call]
    view = func(*args, **kwargs)
    view.copy_(value) if isinstance(value, torch.Tensor) else view.fill_(value)


def _is_number(part: object) -> bool:
    return isinstance(part, torch.Tensor) and part.dim() == 0 and part.dtype is not torch.bool


class OpenBlock:
    """A block of the model's code: the names of the variables that it changes, and what these hold before it.

    ``needed`` names the variables that are read outside of the block.
    """

    def __init__(self, names: Sequence[str], needed: Sequence[str], around: Mapping[str, object]) -> None:
        self.names, self.needed = names, needed
        self.values = [around.get(name, UNDEFINED) for name in names]
        #: What the block changes besides variables; their values follow those of the variables.
        self.places: list[Place] = []
        self.variables: list[Variable] = []
        self.operands: list[Operand] = []
        #: What the block reads, and which of the operands that is.
        self._read_at: list[tuple[Operand, int]] = []
        self.where = line_of_caller()
        self._reading = Reading()

    def watch(self) -> list[Place]:
        """Run the block unrecorded; return what it changes besides what is known to be changed."""
        raise NotImplementedError

    def learn(self) -> None:
        """See what the block does with the variables, and what it reads."""
        while True:
            try:
                with ended_by_errors():
                    changed = self.watch()
                if not changed:
                    break
                self.places += changed
                self.values += [place.read() for place in changed]
            except AskedInLoop as asked:
                # What sizes decide in the block is decided before it, before the outermost if there are several.
                if get_proxy_mode() is None:
                    raise
                asked.decide(self._sizes())

    @property
    def all_names(self) -> list[str]:
        """The names of the variables, and of the places besides."""
        return [*self.names, *(place.name for place in self.places)]

    def is_needed(self, name: str) -> bool:
        """Whether what a variable or place holds after the block is read."""
        return name not in self.names or name in self.needed

    @contextlib.contextmanager
    def put(self, values: Sequence[object]) -> Iterator[None]:
        """While the block runs, the places besides the variables hold these values."""
        before = [place.read() for place in self.places]
        try:
            for one, value in zip(self.places, values, strict=True):
                one.write(value)
            yield
        finally:
            for one, value in zip(self.places, before, strict=True):
                one.write(value)

    def leave(self, values: Sequence[object]) -> list[Any]:
        """Write to the places besides the variables what the block leaves there; return what it leaves of these."""
        count = len(self.names)
        for place, value in zip(self.places, values[count:], strict=True):
            place.write(value)
        return list(values[:count])

    def in_block(self, run: Callable[..., tuple[object, ...]], values: Sequence[object]) -> tuple[object, ...]:
        """Run code on the variables: what it leaves of them, and in the places besides."""
        count = len(self.names)
        with self.put(values[count:]), pushed(_running, None):
            after = run(values[:count])
            return (*after, *(place.read() for place in self.places))

    def note_operands(self, seen: Sequence[Operand], known: set[object]) -> None:
        """Note what the block reads from around it; ``known`` are the symbols that there were before it."""
        sizes = [leaf for leaf in seen if isinstance(leaf, torch.SymInt)]
        own = {id(leaf) for leaf in sizes if _is_fresh(leaf, known) or not is_recorded(leaf)}
        self.operands = [leaf for leaf in seen if id(leaf) not in own]
        # What is computed of sizes and of numbers of data is computed of their symbols.
        there = {leaf.node.expr for leaf in self.operands if isinstance(leaf, torch.SymInt)}
        around = [number for symbol, number in self._reading.symbols.items() if symbol in known and symbol not in there]
        self.operands += [number for number in around if is_recorded(number)]
        # A size that was read twice is one operand: torch names the two of a graph alike, and refuses the graph then.
        places: dict[object, int] = {}
        self._read_at = [
            (leaf, places.setdefault(leaf.node.expr if isinstance(leaf, torch.SymInt) else id(leaf), len(places)))
            for leaf in self.operands
        ]
        first = {place: leaf for leaf, place in reversed(self._read_at)}
        self.operands = [first[place] for place in range(len(places))]

    def check_shared(self, read: Sequence[Operand]) -> None:
        """Check that what the block changes in place has no other name in it: it gets a copy of each variable."""
        held = list(zip(self.all_names, self.variables, self.values, strict=True))
        for position, (name, variable, value) in enumerate(held):
            others = [other for n, (_, _, other) in enumerate(held) if n != position]
            if (
                type(variable) is not Variable
                and isinstance(value, list | dict)
                and any(value is one for one in others)
            ):
                raise Unlike(f"it changes `{name}`, which has another name too")
            memory = {tensor.untyped_storage()._cdata for tensor in variable.written_to(value)}
            leaves = [*leaves_of(others), *read] if memory else []
            if any(isinstance(leaf, torch.Tensor) and leaf.untyped_storage()._cdata in memory for leaf in leaves):
                raise Unlike(f"it writes to `{name}` in place, and has the same memory by another name")

    def substituting(self, operands: Sequence[Operand]) -> Substituting:
        """What lets the block read these operands in the place of its own."""
        return Substituting({id(leaf): operands[place] for leaf, place in self._read_at})

    def states(self, after: Sequence[object]) -> list[torch.Tensor]:
        """What is carried of the values that the block leaves."""
        pairs = zip(self.variables, after, strict=True)
        return [tensor for variable, value in pairs for tensor in variable.state(value)]

    def results(self, states: Sequence[torch.Tensor], stacks: Sequence[torch.Tensor] = ()) -> list[Any]:
        """What the variables hold after the block."""
        ends, contributions = map(_writable, states), map(_writable, stacks)
        return self.leave(
            [
                variable.result(value, ends, contributions)
                for variable, value in zip(self.variables, self.values, strict=True)
            ]
        )

    def _sizes(self) -> dict[sympy.Symbol, torch.SymInt]:
        """The sizes of what the block read so far, by their symbols."""
        read = self._reading.operands.values()
        sizes = [size for leaf in read for size in (leaf.shape if isinstance(leaf, torch.Tensor) else [leaf])]
        return {size.node.expr: size for size in sizes if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol}


def _writable(state: torch.Tensor) -> torch.Tensor:
    """A tensor that code may write to: what operators that take graphs return it may not, where it has a gradient."""
    return state.clone() if state.requires_grad else state


def symbols_so_far() -> set[object]:
    """The symbols that there are so far."""
    fake = detect_fake_mode()
    return set() if fake is None or fake.shape_env is None else set(fake.shape_env.var_to_range)


def _is_fresh(size: torch.SymInt, known: set[object]) -> bool:
    """Whether a size is one of the block's own, or no size that varies."""
    symbols = size.node.expr.free_symbols
    return not symbols or not symbols <= known
