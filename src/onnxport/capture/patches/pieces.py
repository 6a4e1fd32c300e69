"""What ``split``, ``chunk`` and ``unbind`` give for an axis that varies: as many pieces as run time says.

torch makes a list of as many as the example has. Mostly one piece is taken out of it, or all are joined again, and
neither needs their number: a piece is where it is, and joined pieces are the tensor itself in another order. What does
need it (a loop, an unpacking) has the list that torch makes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, SupportsIndex

import torch

from onnxport.capture.patches.replacing import items_replaced
from onnxport.torch_internals import pytree
from onnxport.torch_internals.fake_tensors import FakeTensorMode, get_fast_op_impls

Size = int | torch.SymInt


@dataclass(frozen=True)
class Cut:
    """How an axis is cut: ``size`` is that of a piece, of which the last may be smaller; rows have no size.

    ``most`` is the number of pieces that was asked for, where one was.
    """

    tensor: torch.Tensor
    dim: int
    count: Size
    size: Size | None
    most: int | None = None

    def piece(self, place: int) -> torch.Tensor:
        """One of the pieces, a view."""
        # torch takes the size of a part for unknown where it can't tell by the expressions that it lies inside.
        told = {torch.ops.aten.slice.Tensor: _sliced} if self._is_backed else {}
        with self._unguarded(), items_replaced(get_fast_op_impls(), told):
            return self._piece(place)

    @property
    def _is_backed(self) -> bool:
        """Whether the example has the size of the axis; otherwise data decides it."""
        length = self.tensor.shape[self.dim]
        return isinstance(length, torch.SymInt) and length.node.hint is not None

    def _unguarded(self) -> contextlib.AbstractContextManager[None]:
        """What torch checks of places is so at every size at which there is the piece, and need not be on record.

        A size that data decides has no guards; what is checked of it is all that is known of it.
        """
        length: Any = self.tensor.shape[self.dim]
        quiet: contextlib.AbstractContextManager[None]
        quiet = length.node.shape_env.suppress_guards() if self._is_backed else contextlib.nullcontext()
        return quiet

    def _piece(self, place: int) -> torch.Tensor:
        if self.size is None:
            return self.tensor.select(self.dim, place)
        length = self.tensor.shape[self.dim]
        start = (place if place >= 0 else self.count + place) * self.size
        if place == -1 or (self.most is not None and place == self.most - 1):
            size = length - start
        elif place < 0 or (self.most is not None and place == 0):
            size = self.size
        else:
            size = torch.sym_min(self.size, length - start)
        return self.tensor.narrow(self.dim, start, size)

    def rows(self) -> torch.Tensor:
        """The pieces, which must be of one size, along an axis before their own; rows are in the place of theirs."""
        if self.size is None:
            return self.tensor
        length = self.tensor.shape[self.dim]
        with self._unguarded():
            rows: torch.Tensor = self.tensor.unflatten(self.dim, (self.count, length // self.count))
        return rows

    def backwards(self) -> torch.Tensor:
        """The pieces one after another, the last first."""
        assert self.size is not None
        # Sizes are numbers to operators; their stubs know plain ones only.
        length: Any = self.tensor.shape[self.dim]
        last = length - (self.count - 1) * self.size
        place = torch.arange(length, device=self.tensor.device)
        behind = place - last
        size: Any = at_least_one(self.size)
        count: Any = self.count
        before_last = count - 2 - torch.div(behind, size, rounding_mode="floor")
        moved = before_last * size + torch.remainder(behind, size)
        return self.tensor.index_select(self.dim, torch.where(behind < 0, length + behind, moved))


def _sliced(mode: FakeTensorMode, self: torch.Tensor, dim: int, start: int, end: int, step: int = 1) -> torch.Tensor:
    """The shape of a part that is known to lie inside."""
    shape = [end - start if axis == dim else size for axis, size in enumerate(self.shape)]
    with mode:
        return self.as_strided(shape, self.stride(), self.storage_offset() + start * self.stride(dim))


def is_any(length: Size) -> Size:
    """1 for a size that is at least 1 and 0 for none, as an expression that torch leaves as it is.

    torch takes every size for positive, and simplifies what asks whether one is.
    """
    return (2 * length) // (length + 1)


def at_least_one(length: Size) -> Size:
    """A size to divide by."""
    return length if isinstance(length, int) else length + 1 - is_any(length)


def split_of(tensor: torch.Tensor, size: Size, dim: int) -> Cut:
    """Pieces of a size; there is one even of nothing."""
    length = tensor.shape[dim]
    return Cut(tensor, dim, (length - is_any(length)) // at_least_one(size) + 1, size)


def chunks_of(tensor: torch.Tensor, chunks: int, dim: int) -> Cut:
    """At most a number of pieces, of which the last may be smaller; of nothing there are as many as were asked for."""
    length = tensor.shape[dim]
    size = (length + (chunks - 1)) // chunks
    divisor = at_least_one(size)
    return Cut(tensor, dim, (length + divisor - 1) // divisor + chunks * (1 - is_any(length)), size, chunks)


class Pieces(tuple[torch.Tensor, ...]):
    """The tuple of pieces. It is empty to C, so that functions of torch are given what ``given`` makes of it."""

    cut: Cut
    plain: Callable[[], Sequence[torch.Tensor]]
    is_reversed: bool

    def __new__(cls, cut: Cut, plain: Callable[[], Sequence[torch.Tensor]], is_reversed: bool = False) -> Pieces:
        """``plain`` makes as many pieces as the example has."""
        made = super().__new__(cls)
        made.cut, made.plain, made.is_reversed = cut, plain, is_reversed
        return made

    @property
    def has_open_length(self) -> bool:
        """Whether there are as many as the axis is long; of larger pieces there may be one number at most sizes."""
        return self.cut.size is None

    def _listed(self) -> list[torch.Tensor]:
        pieces = list(self.plain())
        return pieces[::-1] if self.is_reversed else pieces

    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(self._listed())

    def __len__(self) -> int:
        return len(self._listed())

    def __bool__(self) -> bool:
        return self.cut.size is not None or len(self) > 0

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, int):
            return self.cut.piece(-1 - place if self.is_reversed else place)
        if place in (slice(None), slice(None, None, -1)):
            return Pieces(self.cut, self.plain, self.is_reversed != (place.step == -1))
        return tuple(self._listed()[place])

    def __reversed__(self) -> Iterator[torch.Tensor]:
        return iter(self[::-1])

    def __contains__(self, item: object) -> bool:
        return item in self._listed()

    def __add__(self, others: Iterable[object]) -> tuple[object, ...]:  # type: ignore[override]
        return tuple(self) + tuple(others)

    def __radd__(self, others: Iterable[object]) -> tuple[object, ...]:
        return tuple(others) + tuple(self)

    def __mul__(self, times: SupportsIndex) -> tuple[torch.Tensor, ...]:
        return tuple(self) * times

    __rmul__ = __mul__

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return repr(tuple(self))


# Code of models that flattens results by torch's pytree finds the tensors, as in a tuple.
pytree.register_pytree_node(Pieces, lambda pieces: (list(pieces), None), lambda pieces, _: tuple(pieces))


def _joined(pieces: Pieces, dim: int = 0) -> torch.Tensor:
    """``torch.cat`` of pieces."""
    cut = pieces.cut
    axis = dim % (cut.tensor.dim() - (cut.size is None))
    if cut.size is not None and axis == cut.dim:
        return cut.backwards() if pieces.is_reversed else cut.tensor.clone()
    return _stacked(pieces, axis).flatten(axis, axis + 1)


def _stacked(pieces: Pieces, dim: int = 0) -> torch.Tensor:
    """``torch.stack`` of pieces, in memory of its own."""
    cut = pieces.cut
    moved = cut.rows().movedim(cut.dim, dim)
    return moved.flip(dim) if pieces.is_reversed else moved.clone(memory_format=torch.contiguous_format)


_JOINS: dict[object, Callable[..., torch.Tensor]] = {
    torch.stack: _stacked,
    **dict.fromkeys((torch.cat, torch.concat, torch.concatenate), _joined),
}


def given(
    func: object, args: Sequence[object], kwargs: Mapping[str, object]
) -> tuple[Any, Sequence[object], Mapping[str, object]]:
    """A call of torch with pieces among its arguments: one that joins them as it is, any other with the plain list."""
    if any(type(value) is Pieces for value in args) or any(type(value) is Pieces for value in kwargs.values()):
        if func in _JOINS and type(args[0] if args else None) is Pieces and "out" not in kwargs and len(args) < 3:
            return _JOINS[func], args, dict.fromkeys(["dim"][: len(kwargs)], *kwargs.values())
        args = tuple(tuple(value) if type(value) is Pieces else value for value in args)
        kwargs = {name: tuple(value) if type(value) is Pieces else value for name, value in kwargs.items()}
    return func, args, kwargs
