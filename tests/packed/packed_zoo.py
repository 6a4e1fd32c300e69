"""The zoo of programs over packed sequences: how each is built, its inputs at four sizes, and the axes that vary."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import packed_programs as programs
import torch
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence

OPSETS = (11, 13, 17, 20)
WAYS = ("module", "trace", "script")

# Lengths of the example and of the calls after it; the padded input may be longer than the longest of them.
SORTED = ([5, 3, 1], [6, 6, 2, 1], [2], [7, 4, 4, 3, 2])
UNSORTED = ([2, 5, 3], [1, 6, 2, 6], [3], [2, 4, 7, 4, 1])
SPARE = (1, 0, 2, 3)
# The same of batches that stay as large as they are.
THREE_SORTED = ([5, 3, 1], [6, 6, 2], [3, 2, 2], [1, 1, 1])
THREE = ([2, 5, 3], [1, 6, 6], [9, 2, 3], [1, 1, 1])
Example = tuple[Any, ...]


@dataclass(frozen=True)
class Row:
    """One program: what makes it, what it is called with, and the names of the axes that vary."""

    name: str
    build: Callable[[], torch.nn.Module]
    examples: tuple[Example, ...]
    axes: tuple[dict[int, str], ...]
    ways: tuple[str, ...] = WAYS

    def model(self) -> torch.nn.Module:
        """The module, the same every time."""
        torch.manual_seed(len(self.name))
        return self.build().eval()

    def names(self) -> list[str]:
        """A name for each tensor that is given."""
        return [f"in_{position}" for position in range(len(self.axes))]

    def dynamic_axes(self) -> dict[str, dict[int, str]]:
        """The axes that vary, for the legacy call."""
        return dict(zip(self.names(), self.axes, strict=True))

    def shapes(self) -> tuple[Any, ...]:
        """The axes that vary, in the structure of the inputs."""
        if not isinstance(self.examples[0][0], PackedSequence):
            return self.axes
        absent = [None] * (len(PackedSequence._fields) - len(self.axes))
        return ((*self.axes, *absent),)


def _padded(lengths: Sequence[int], spare: int, first: bool, behind: Sequence[int], tokens: bool = False) -> Any:
    shape = (len(lengths), max(lengths) + spare, *behind)
    x = torch.randint(1, 10, shape) if tokens else torch.randn(shape)
    return x if first else x.transpose(0, 1).contiguous()


def _calls(enforce_sorted: bool, make: Callable[[list[int], int], Example]) -> tuple[Example, ...]:
    torch.manual_seed(7)
    table = SORTED if enforce_sorted else UNSORTED
    return tuple(make(lengths, spare) for lengths, spare in zip(table, SPARE, strict=True))


def _axes(first: bool, batch: str = "batch", time: str = "time") -> dict[int, str]:
    return {0: batch, 1: time} if first else {0: time, 1: batch}


def over(
    name: str,
    build: Callable[..., torch.nn.Module],
    first: bool = False,
    enforce_sorted: bool = True,
    behind: Sequence[int] = (programs.FEATURES,),
    tokens: bool = False,
    ways: tuple[str, ...] = WAYS,
    **packing: Any,
) -> Row:
    """A program over (x, lengths)."""
    own = {**packing, "batch_first": first, "enforce_sorted": enforce_sorted}
    return Row(
        name,
        lambda: build(**own),
        _calls(
            enforce_sorted,
            lambda lengths, spare: (_padded(lengths, spare, first, behind, tokens), torch.tensor(lengths)),
        ),
        (_axes(first), {0: "batch"}),
        ways,
    )


def layer(cell: str, options: dict[str, Any], first: bool, enforce_sorted: bool, state: bool, **padding: Any) -> Row:
    """A recurrent layer between packing and padding."""
    kind = ("FromStates" if state else "Through") + ("LSTM" if cell == "lstm" else "One")
    build = getattr(programs, kind)
    own = {"batch_first": first, "enforce_sorted": enforce_sorted, **padding}
    count = options.get("num_layers", 1) * (2 if options.get("bidirectional") else 1)
    widths = [options.get("proj_size", programs.HIDDEN), programs.HIDDEN][: 2 if cell == "lstm" else 1]

    def call(lengths: list[int], spare: int) -> Example:
        states = [torch.randn(count, len(lengths), width) for width in widths] if state else []
        return (_padded(lengths, spare, first, [programs.FEATURES]), torch.tensor(lengths), *states)

    shown = [f"{key}={value}" for key, value in {**options, **padding}.items()]
    flags = [flag for flag, on in (("first", first), ("unsorted", not enforce_sorted), ("state", state)) if on]
    return Row(
        "-".join([cell, *flags, *shown]),
        lambda: build(cell, options, **own),
        _calls(enforce_sorted, call),
        (_axes(first), {0: "batch"}, *({1: "batch"} for _ in widths if state)),
    )


LAYOUTS = (
    {},
    {"num_layers": 2},
    {"bidirectional": True},
    {"num_layers": 2, "bidirectional": True, "dropout": 0.5},
    {"num_layers": 3, "bias": False},
)
PADDINGS = ({}, {"padding_value": -1.5}, {"total": 10}, {"total": 12, "padding_value": 2.0}, {"pad_first": True})


def _layers() -> list[Row]:
    """Every cell with every layout; batch first, order, state and padding take turns."""
    turns = itertools.product((False, True), (True, False), (False, True))
    turned = itertools.cycle(turns)
    paddings = itertools.cycle(PADDINGS)
    rows = []
    for cell, options in itertools.product(programs.CELLS, LAYOUTS):
        for _ in range(2):
            first, enforce_sorted, state = next(turned)
            rows.append(layer(cell, dict(options), first, enforce_sorted, state, **next(paddings)))
    for options in ({}, {"bidirectional": True}, {"num_layers": 2, "bidirectional": True}):
        for _ in range(2):
            first, enforce_sorted, state = next(turned)
            rows.append(layer("lstm", {**options, "proj_size": 2}, first, enforce_sorted, state, **next(paddings)))
    return rows


def _counted(first: bool, enforce_sorted: bool) -> Row:
    def call(lengths: list[int], spare: int) -> Example:
        tokens = _padded(lengths, spare, first, [], tokens=True)
        steps = torch.arange(max(lengths) + spare)
        outside = steps.unsqueeze(0) >= torch.tensor(lengths).unsqueeze(1)
        return (tokens.masked_fill(outside if first else outside.t(), 0),)

    return Row(
        f"counted-lengths-{first}-{enforce_sorted}",
        lambda: programs.CountedLengths(batch_first=first, enforce_sorted=enforce_sorted),
        _calls(enforce_sorted, call),
        (_axes(first),),
    )


def _two(first: bool, enforce_sorted: bool) -> Row:
    def call(lengths: list[int], spare: int) -> Example:
        others = [length + 1 for length in lengths]
        if not enforce_sorted:
            others.reverse()
        pair = [(_padded(own, spare, first, [programs.FEATURES]), torch.tensor(own)) for own in (lengths, others)]
        return (*pair[0], *pair[1])

    return Row(
        f"two-packings-{first}-{enforce_sorted}",
        lambda: programs.TwoPackings(batch_first=first, enforce_sorted=enforce_sorted),
        _calls(enforce_sorted, call),
        (_axes(first), {0: "batch"}, _axes(first, time="time_of_others"), {0: "batch"}),
    )


def _one_by_one(name: str, build: Callable[[], torch.nn.Module], enforce_sorted: bool, ways: tuple[str, ...]) -> Row:
    table = (
        ([5, 3, 1], [6, 6, 2], [3, 2, 2], [1, 1, 1]) if enforce_sorted else ([2, 5, 3], [1, 6, 6], [9, 2, 3], [1, 1, 1])
    )
    torch.manual_seed(7)
    return Row(
        name,
        build,
        tuple(tuple(torch.randn(length, programs.FEATURES) for length in lengths) for lengths in table),
        ({0: "a"}, {0: "b"}, {0: "c"}),
        ways,
    )


def _fixed() -> Row:
    torch.manual_seed(7)
    return Row(
        "lengths-in-the-code",
        lambda: programs.FixedLengths(batch_first=True),
        tuple((torch.randn(3, steps, width),) for steps, width in ((5, 3), (4, 2), (7, 5), (6, 1))),
        ({1: "time", 2: "width"},),
    )


def _unpacked(first: bool, enforce_sorted: bool) -> Row:
    table = (
        ([5, 3, 1], [6, 6, 2], [3, 2, 2], [1, 1, 1]) if enforce_sorted else ([2, 5, 3], [1, 6, 6], [9, 2, 3], [1, 1, 1])
    )
    torch.manual_seed(7)
    return Row(
        f"unpacked-{first}-{enforce_sorted}",
        lambda: programs.Unpacked(batch_first=first, enforce_sorted=enforce_sorted),
        tuple((_padded(own, 1, first, [programs.FEATURES]), torch.tensor(own)) for own in table),
        ({1 if first else 0: "time"}, {}),
    )


def _given(cell: str, enforce_sorted: bool, ways: tuple[str, ...]) -> Row:
    def call(lengths: list[int], spare: int) -> Example:
        x = _padded(lengths, spare, False, [programs.FEATURES])
        return (pack_padded_sequence(x, torch.tensor(lengths), enforce_sorted=enforce_sorted),)

    indices = [] if enforce_sorted else [{0: "batch"}, {0: "batch"}]
    return Row(
        f"given-{cell}-{enforce_sorted}",
        lambda: programs.GivenPacked(cell),
        _calls(enforce_sorted, call),
        ({0: "rows"}, {0: "steps"}, *indices),
        ways,
    )


BOTH = ((False, True), (True, False))
PYTHON = ("module", "trace")
OF_SIZES = ("module", "script")


def _programs() -> list[Row]:
    rows = []
    for first, enforce_sorted in BOTH:
        end = f"{first}-{enforce_sorted}"
        packing: dict[str, Any] = {"first": first, "enforce_sorted": enforce_sorted}
        rows += [
            over(f"to-input-length-{end}", programs.ToInputLength, padding_value=0.5, **packing),
            over(f"classifier-{end}", programs.Classifier, behind=(), tokens=True, **packing),
            _counted(first, enforce_sorted),
            over(f"listed-lengths-{end}", programs.ListedLengths, ways=("module",), **packing),
            over(f"on-data-{end}", programs.OnData, padding_value=-2.0, **packing),
            over(f"on-data-tanh-{end}", programs.OnData, cell="rnn", total=11, **packing),
            over(f"replaced-{end}", programs.Replaced, ways=PYTHON, **packing),
            over(f"rows-{end}", programs.Rows, **packing),
            over(f"counts-{end}", programs.Counts, ways=OF_SIZES, **packing),
            over(f"stacked-{end}", programs.Stacked, **packing),
            _two(first, enforce_sorted),
            over(f"flat-{end}", programs.Flat, behind=(), padding_value=9.0, **packing),
            over(f"matrices-{end}", programs.Flat, behind=(2, 3), total=10, **packing),
            _unpacked(first, enforce_sorted),
            over(f"gives-packed-{end}", programs.GivesPacked, ways=OF_SIZES, **packing),
            _given("gru" if first else "relu", enforce_sorted, OF_SIZES),
            _one_by_one(
                f"of-list-{end}", lambda f=first, s=enforce_sorted: programs.OfList(s, f), enforce_sorted, OF_SIZES
            ),
        ]
    for enforce_sorted in (True, False):
        rows += [
            over(f"attended-{enforce_sorted}", programs.Attended, first=True, enforce_sorted=enforce_sorted),
            over(f"last-step-{enforce_sorted}", programs.LastStep, first=True, enforce_sorted=enforce_sorted),
            over(f"repacked-{enforce_sorted}", programs.Repacked, first=True, enforce_sorted=enforce_sorted),
        ]
    for first, value, side in ((False, 0.0, "right"), (True, -1.0, "right"), (True, 1.5, "left")):
        rows.append(_one_by_one(f"padded-{first}-{side}", partial(programs.Padded, first, value, side), False, WAYS))
    rows.append(_fixed())
    return rows


ROWS = [*_layers(), *_programs()]
