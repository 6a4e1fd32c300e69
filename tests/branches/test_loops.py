"""Loops that run as often as a size or data says are right at every length, or refused with the line and the reason."""

from __future__ import annotations

import gc
import itertools
import re
from collections import deque
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch

import onnxport
from branches.branch_rows import Program
from branches.loop_catalogue import LOOPS
from comparison import assert_close


@pytest.mark.filterwarnings("error::onnxport.errors.OnnxExporterWarning")
@pytest.mark.parametrize("row", LOOPS.values(), ids=lambda row: row.name)
def test_every_length(row: Program) -> None:
    program = onnxport.export(row.module, row.example, dynamic_shapes=row.axes, verbose=False)
    for inputs in row.others:
        expected = torch.utils._pytree.tree_leaves(row.module(*inputs))
        for one, other in zip(program(*inputs), expected, strict=True):
            assert one.shape == other.shape
            assert_close(one, other)


class Left(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(x.shape[0]):  # culprit
            x = x * 1.5
            with torch.no_grad():
                if x.sum() > 5:
                    break
        return x


class Chooses(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        best = None
        for row in x:  # culprit
            if row.sum() > 4:
                best = row
        return x if best is None else best


class Grows(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x[0]
        for _ in range(x.shape[0]):  # culprit
            y = y[None]
        return y.flatten()


class Pairs(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        outs = []
        for row in x:  # culprit
            outs.append(SimpleNamespace(row=row))
        return torch.stack([one.row for one in outs])


class Collects(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        outs = []
        while x.sum() < 99:  # culprit
            x = x + 1
            outs.append((x.sum(), x.min()))
        return x * sum(a for a, _ in outs)


class Shows(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total, seen = torch.zeros(3), torch.zeros(3)
        begin = total[:2]
        for row in x:  # culprit
            total += row
            seen = seen + begin.sum()
        return seen


class TwoNames(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        one = other = []  # type: ignore[var-annotated]
        for row in x:  # culprit
            one.append(row)
            other.append(row * 2)
        return torch.stack(one)


class ReadByAFunction(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = out = torch.zeros(3)

        def twice() -> torch.Tensor:
            return total * 2

        for row in x:  # culprit
            total = total + row
            out = out + twice()
        return out


class Catches(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(3)
        for row in x:  # culprit
            try:
                if row.sum() > 3:
                    raise ValueError
                total = total + row
            except ValueError:
                total = total - row
        return total


class FoundByRaising(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        try:
            for row in x:  # culprit
                if row.sum() > 3:
                    raise StopIteration
        except StopIteration:
            return x * 2
        return x


class Least(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        best: Any = float("inf")
        for row in x:  # culprit
            if row.argmin() < best:
                best = row.argmin()
        return best


class Numbers(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        seen: dict[int, torch.Tensor] = {}
        while x.sum() < 100:  # culprit
            seen[len(seen)] = x
            x = x * 2 + 1
        return x * len(seen)


class Remembers(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        last, total = deque[torch.Tensor](maxlen=2), torch.zeros(3)
        for row in x:  # culprit
            last.append(row)
            total = total + row
        return total * len(last)


class Marks(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        marked, total = set[str](), torch.zeros(3)
        for row in x:  # culprit
            if row.sum() > 3:
                marked.add("large")
            total = total + row
        return total * len(marked)


MEMO: dict[int, torch.Tensor] = {}


class Memoizes(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        MEMO.clear()
        while x.sum() < 100:  # culprit
            MEMO[len(MEMO)] = x
            x = x * 2 + 1
        return x * len(MEMO)


class Multiplies(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return x + sum([1.0] * x.shape[0])  # culprit


class Splits(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] == 1:  # culprit
            return x
        half = x.shape[0] // 2
        return self.forward(x[:half]) + self.forward(x[half:]).relu()


class Counts(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        numbers, outs = itertools.count(1), []
        for row in x:  # culprit
            outs.append(row * next(numbers))
        return torch.stack(outs)


class Sends(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        def halves(past: torch.Tensor) -> Any:
            while True:
                past = past * 0.5 + (yield past)

        means = halves(torch.zeros(3))
        next(means)
        return torch.stack([means.send(row) for row in x])  # culprit


class CountsInAList(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        numbers = [itertools.count(1), itertools.cycle((1, 2))]
        return sum(row * next(numbers[0]) + next(numbers[1]) for row in x)  # culprit


class CountsInAPartial(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        number = partial(lambda held, row: held.append(row) or len(held), [])
        total = torch.zeros(3)
        for row in x:  # culprit
            total = total + row * number(row)
        return total


class CountsInItsClass(torch.nn.Module):
    calls = 0

    def layer(self, x: torch.Tensor) -> torch.Tensor:
        CountsInItsClass.calls += 1
        return x * 2

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        CountsInItsClass.calls = 0
        outs = []
        for row in x:  # culprit
            outs.append(self.layer(row))
        return torch.stack(outs) * CountsInItsClass.calls


class Asserts(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert (x > -9).all()
        outs = []
        for row in x:  # culprit
            outs.append(SimpleNamespace(row=row))
        return torch.stack([one.row for one in outs])


REFUSED: dict[type[torch.nn.Module], str] = {
    CountsInAPartial: "it changes what is in `number`, a tuple",
    CountsInAList: r"it changes what is in `numbers`, a (count|cycle)",
    CountsInItsClass: r"it changes what is in `CountsInItsClass\.calls`, an int",
    Asserts: "it appends to `outs` what is no tensor",
    Counts: "it changes what is in `numbers`, a count",
    Sends: "it changes what is in `means`, a generator",
    Left: "it may be left before its end",
    Chooses: "`best` is a tensor after one way and None after the other",
    Grows: r"`y` has \d axes before an iteration and \d after it",
    Pairs: "it appends to `outs` what is no tensor",
    Collects: r"it appends to `outs` what is no tensor(.|\n)*`outs, x = torch.while_loop\(condition",
    Shows: "it writes to `total` in place, and has the same memory by another name",
    TwoNames: "it changes `one`, which has another name too",
    ReadByAFunction: "a function made before it reads `total`, which it changes",
    Catches: "it has an `except`",
    FoundByRaising: "what it raises may be caught",
    Least: "`best` is the number inf or a tensor of torch.int64",
    Numbers: "it changes what is in `seen`, a dict",
    Remembers: "it changes what is in `last`, a deque",
    Marks: "it changes what is in `marked`, a set",
    Memoizes: "it changes what is in `MEMO`, a dict",
    Multiplies: "the model forces it to be 3",
    Splits: "asks of sizes more than 6 times in one run",
}


@pytest.mark.parametrize("kind", REFUSED, ids=lambda kind: kind.__name__)
def test_what_is_no_loop_is_refused_with_the_line_and_the_reason(kind: type[torch.nn.Module]) -> None:
    with pytest.raises(onnxport.errors.OnnxExporterError) as caught:
        onnxport.export(kind(), (torch.ones(3, 3),), dynamic_shapes=({0: "n"},), verbose=False)
    assert re.search(REFUSED[kind], str(caught.value))
    assert "# culprit" in str(caught.value)


class Halves(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] > 4:  # culprit
            return self.forward(x[: x.shape[0] // 2])
        return x * 2


def test_a_recursion_that_sizes_end_and_that_changes_them_is_warned_of() -> None:
    model = Halves()
    with pytest.warns(onnxport.errors.OnnxExporterWarning, match=r"computed of sizes again and again.*# culprit"):
        program = onnxport.export(model, (torch.ones(6, 3),), dynamic_shapes=({0: "n"},), verbose=False)
    for size in (1, 4, 5, 8, 17, 100):
        x = torch.randn(size, 3)
        assert_close(program(x)[0], model(x))


class Diverges(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        steps = 0
        while x.sum() < 10:
            while x.max() < 1:
                x = x + x.abs() / 2 - 0.1
                steps += 1
                if steps > 30:
                    raise ValueError("no end")
            x = x * 1.3
        return x


def test_a_loop_ends_where_it_raises_in_eager_mode() -> None:
    model = Diverges()
    program = onnxport.export(model, (torch.ones(3, 3),), dynamic_shapes=({0: "n"},), verbose=False)
    assert_close(program(torch.full((2, 3), 0.7))[0], model(torch.full((2, 3), 0.7)))
    with pytest.raises(ValueError, match="no end"):
        model(-torch.ones(2, 3))
    assert program(-torch.ones(2, 3))[0].shape == (2, 3)


def test_the_code_is_as_it_was() -> None:
    row = LOOPS["recurrence"]
    before = row.module.function.__code__
    onnxport.export(row.module, row.example, dynamic_shapes=row.axes, verbose=False)
    assert row.module.function.__code__ is before
    assert not any("onnxport_helpers" in name for name in row.module.function.__globals__)


def test_functions_are_found_among_frozen_objects() -> None:
    row = LOOPS["recurrence"]
    gc.freeze()
    try:
        program = onnxport.export(row.module, row.example, dynamic_shapes=row.axes, verbose=False)
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
    assert_close(program(*row.others[0]), row.module(*row.others[0]))


@pytest.mark.filterwarnings("ignore:The exported model follows the example")
def test_an_axis_that_may_be_fixed_is() -> None:
    """What can't be a loop is unrolled where the axis need not vary."""
    auto = torch.export.Dim.AUTO
    program = onnxport.export(Pairs(), (torch.ones(3, 3),), dynamic_shapes=({0: auto},), verbose=False)
    assert program(torch.ones(3, 3))[0].shape == (3, 3)


class Tells(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        assert x.dim() == 2, f"{x.shape[0]} rows"
        if f"{x.shape[0]}" == "5":
            return x + 1
        return x - 1


def test_the_digits_of_a_size_are_warned_of() -> None:
    with pytest.warns(onnxport.errors.OnnxExporterWarning, match="n equals 3: its digits are read as text") as told:
        onnxport.export(Tells(), (torch.ones(3, 3),), dynamic_shapes=({0: "n"},), verbose=False)
    assert str(told[0].message).count("equals 3") == 1


@pytest.mark.filterwarnings("error::onnxport.errors.OnnxExporterWarning")
@pytest.mark.parametrize("name", ["recurrence", "while_small_and_few"])
def test_loops_are_verified(name: str) -> None:
    row = LOOPS[name]
    program = onnxport.export(row.module, row.example, dynamic_shapes=row.axes, verify=True, verbose=False)
    assert program.verification is not None
    assert program.verification.matches


class Stops(torch.nn.Module):
    """In the methods of a class Python has other names for what begins with two underscores."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        total, i = torch.zeros(3), 0
        for row in x:
            if row.sum() < -1:
                continue
            total = torch.tanh(total + row)
            if total.abs().max() > 0.9:
                return total * 2
        while i < x.shape[0]:
            total = total + x[i]
            if total.sum() > 1:
                break
            i += 1
        return total


def test_methods_leave_loops() -> None:
    program = onnxport.export(Stops(), (torch.ones(4, 3),), dynamic_shapes=({0: "n"},), verbose=False)
    for n, scale in ((1, 0.1), (3, 0.3), (6, 0.2), (8, 2.0)):
        x = scale * torch.randn(n, 3, generator=torch.Generator().manual_seed(n))
        assert_close(program(x)[0], Stops()(x))
