"""A size that Python turns into a decision is an assumption, and the user hears of it."""

from __future__ import annotations

import math
import warnings

import pytest
import torch

import onnxport
from onnxport.capture import capture
from onnxport.capture.diagnosis.window_sizes import sizes_of_windows
from onnxport.errors import OnnxExporterWarning
from onnxport.events import EventLog


class Truncates(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.new_ones(int((x.shape[0] * 3 + x.shape[1]) / 2))


class AsksParity(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[0] % 2 == 1 else x


class AsksRemainder(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[0] % 3 else x


class AsksSize(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[0] > 3 else x


class States(torch.nn.Module):
    """A fact that is stated is no branch: where it does not hold, eager refuses."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        torch._check(x.shape[0] >= 2)
        return x + 1


class Halves(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(-1, 2)


class PadsToWhole(torch.nn.Module):
    """What attention over windows does with a length that its window does not divide."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        windows = x.shape[1] / 3
        if windows.is_integer():
            return x
        return torch.nn.functional.pad(x, (0, math.ceil(windows) * 3 - x.shape[1]))


class ComparesRatio(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[1] / x.shape[0] == 1.2 else x


class Chunks(torch.nn.Module):
    """An operator of torch's asks here, deep inside."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([part * 2 for part in x.chunk(4)])


class CutsPieces(torch.nn.Module):
    """The size of a piece of a piece of a piece is an expression that takes minutes to reason about."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.chunk(3)[-1].chunk(3)[-1].chunk(3)[-1] + 1


class CutsIntoWindows(torch.nn.Module):
    """What is asked of the memory of padded windows has remainders in it, and is torch's question."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.nn.functional.pad(x, (0, (3 - x.shape[1] % 3) % 3, 0, (3 - x.shape[0] % 3) % 3))
        rows, columns = x.shape
        windows = x.view(rows // 3, 3, columns // 3, 3).permute(0, 2, 1, 3).contiguous().view(-1, 3, 3)
        return windows.softmax(-1).view(rows // 3, columns // 3, 3, 3).permute(0, 2, 1, 3).contiguous()


class Squeezes(torch.nn.Module):
    """Eager drops the axis where it is of size 1, which a capture does not."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.squeeze(0) + 1


def _capture(module: torch.nn.Module, size: tuple[int, int]) -> EventLog:
    events = EventLog()
    shapes = ({0: "rows", 1: "columns"},)
    capture(module, (torch.zeros(size),), dynamic_shapes=shapes, branches="follow", events=events)
    return events


WARNED = {
    AsksSize: "rows is greater than 3",
    Truncates: "equals 10",
    AsksParity: "rows is odd",
    AsksRemainder: "rows is no multiple of 3",
    PadsToWhole: "columns is a multiple of 3",
    ComparesRatio: "equals 1.2",
    Chunks: "equals 3",
    CutsPieces: "comes out as for the example",
    Squeezes: "rows differs from 1, which squeeze would drop",
}


# torch 2.9 leaves int() of a symbolic number to Python.
@pytest.mark.filterwarnings("ignore:The delegation of int:DeprecationWarning")
@pytest.mark.parametrize("module", WARNED, ids=lambda module: module.__name__)
def test_a_value_that_is_fixed_is_a_warning(module: type[torch.nn.Module]) -> None:
    with pytest.warns(OnnxExporterWarning, match=WARNED[module]) as caught:
        _capture(module(), (5, 6))
    (told, *_) = [str(warning.message) for warning in caught if warning.category is OnnxExporterWarning]
    assert f"{__file__}:" in told
    assert " in forward: " in told


@pytest.mark.parametrize(("module", "told"), [(Halves, ""), (States, "rows is at least 2"), (CutsIntoWindows, "")])
def test_others_are_events_only(module: type[torch.nn.Module], told: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", OnnxExporterWarning)
        events = _capture(module(), (4, 6))
    assert told in " ".join(event.message for event in events.of("assumption"))


def test_what_is_asked_of_the_memory_of_an_example_is_no_assumption() -> None:
    """The example is a view of a tensor with one axis more, which torch checks to be of size 2."""
    example = torch.view_as_complex(torch.ones(3, 4, 2))
    with warnings.catch_warnings(action="error", category=OnnxExporterWarning):
        program = onnxport.export(torch.nn.Identity(), (example,), dynamic_shapes=({0: "n"},))
    assert program(torch.ones(5, 4, dtype=torch.complex64))[0].dtype == torch.complex64


def test_guards_of_compiled_functions_are_torchs() -> None:
    """What torch.compile made before asks whether it serves for the sizes of a call."""

    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2 + x.shape[0]

    compiled = torch.compile(double, backend="eager", dynamic=False)
    compiled(torch.ones(4, 3))

    class Calling(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return compiled(x)

    with warnings.catch_warnings(action="error", category=OnnxExporterWarning):
        program = onnxport.export(Calling(), (torch.ones(5, 3),), dynamic_shapes=({0: "n"},))
    torch.testing.assert_close(program(torch.ones(4, 3))[0], double(torch.ones(4, 3)))


@pytest.mark.parametrize(
    ("function", "warns"),
    [
        (lambda x, y: y + x[x > 0], True),
        (lambda x, y: y.copy_(x[x > 0]), True),
        (lambda x, y: torch.full_like(x.unique(), 2) + (x.unique() * torch.ones(8)).sum(), True),
        (lambda x, y: x[x > 0][:, None] * torch.ones(4) + torch.ones(1), False),
        (lambda x, y: x[x > 0].view(y.shape[0], 2), False),
        (lambda x, y: torch.stack([x[x > 0], torch._check(x[x > 0].shape[0] == y.shape[0]) or y]), False),
        (lambda x, y: x.masked_scatter(x > 0, x[x > 0] * 2) + y[:, None], False),
    ],
)
def test_a_count_that_is_broadcast_against_an_axis_is_an_assumption(function, warns):
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> object:
            return function(x, y * 2)

    axes = ({0: torch.export.Dim.DYNAMIC}, {0: torch.export.Dim.DYNAMIC})
    log = EventLog()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        capture(Model(), (torch.ones(4, 2), torch.ones(4)), None, dynamic_shapes=axes, events=log)
    told = [str(one.message) for one in caught if issubclass(one.category, OnnxExporterWarning)]
    assert ["a count of data" in text and __file__ in text for text in told] == [True] * warns


def test_a_count_that_meets_a_size_computed_to_1_follows_the_example() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[x.shape[0] // 2 * 2 :, 0] + x[x > 0]

    with pytest.warns(OnnxExporterWarning, match="x_dim0 is odd"):
        program = onnxport.export(Model(), (torch.ones(5, 2),), dynamic_shapes=({0: torch.export.Dim.DYNAMIC},))
    x = torch.linspace(-1, 2, 14).reshape(7, 2)
    torch.testing.assert_close(program(x)[0], Model()(x))


class AddsUpChunks(torch.nn.Module):
    """Chunks of four, of which there is one in the example: torch asks whether what is turned lies in one piece.

    Without its padding it has three columns times 1, which is computed too, and 1 at all sizes.
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        padded = torch.nn.functional.pad(x, (0, 0, 0, (4 - x.shape[1] % 4) % 4))
        chunks = padded.reshape(x.shape[0], -1, 4, x.shape[-1])
        turned = chunks.transpose(1, 2).contiguous().flatten(1, 2)
        added = turned + torch.arange(4 * chunks.shape[1]).view(1, -1, 1)
        return added[:, : x.shape[1]].reshape(x.shape[0], x.shape[1], -1, 3).flatten(2) @ torch.ones(3, 3)


def test_a_size_that_is_computed_to_1_in_the_example_is_no_assumption() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", OnnxExporterWarning)
        program = onnxport.export(AddsUpChunks(), (torch.randn(2, 3, 3),), dynamic_shapes=({0: "batch", 1: "length"},))
    for length in (1, 4, 5, 13):
        x = torch.randn(3, length, 3)
        torch.testing.assert_close(program(x)[0], AddsUpChunks()(x))


def _grid(x: torch.Tensor) -> torch.Tensor:
    h, w = x.shape[0] // 2, x.shape[1] // 2
    cells = torch.cat([torch.ones(1), x[: 2 * h, : 2 * w].reshape(h, 2, w, 2).sum((1, 3)).flatten()])
    if (h, w) != (3, 4):
        return cells * h
    return cells + torch.arange(13.0)


def _to_eight(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] > 8:
        x = x[-8:]
    elif x.shape[0] < 8:
        x = torch.cat([torch.zeros(8 - x.shape[0], x.shape[1]), x])
    return x + torch.arange(8.0)[:, None]


def _filled(x: torch.Tensor) -> torch.Tensor:
    whole = x.new_zeros(math.ceil(float(x.shape[0]) / 4) * 4, x.shape[1])
    whole[: x.shape[0]] = x
    return whole


def _squeezed(x: torch.Tensor) -> torch.Tensor:
    if len(x) == 1:
        return x.squeeze(0)[:1] * torch.ones(2)
    return x.sum(1).squeeze()[:2]


def _padded_half(x: torch.Tensor) -> torch.Tensor:
    h, w = int(0.5 * x.shape[0]) + 4, int(0.5 * x.shape[1]) + 4
    return x.sum() * torch.ones(x.shape[0], 3, h, w).reshape(-1, 3, h, w)


def _in_windows(x: torch.Tensor) -> torch.Tensor:
    if x.shape[0] % 4 != 0:
        x = x[:1]
    else:
        count = x.shape[0] // 4
        x = x.reshape(count, x.shape[0] // count, x.shape[1])
    return (x + torch.arange(2 * x.shape[-2])[-x.shape[-2] :, None]).flatten(0, -2)


def _centres(x: torch.Tensor) -> torch.Tensor:
    places = torch.arange(0.5, x.shape[0])[:, None] * torch.arange(0.5, x.shape[1])
    return x + places * math.floor((x.shape[1] - 1.5) / 2) + int((x.shape[0] - 2.0).is_integer())


_FUNCTIONS = [_grid, _to_eight, _filled, _squeezed, _padded_half, _in_windows, _centres]


@pytest.mark.parametrize("function", _FUNCTIONS)
def test_what_a_way_says_of_its_sizes_is_no_assumption(function) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return function(x)

    with warnings.catch_warnings():
        warnings.simplefilter("error", OnnxExporterWarning)
        program = onnxport.export(Model(), (torch.ones(6, 8),), dynamic_shapes=({0: "h", 1: "w"},), verbose=False)
    for h, w in ((6, 8), (7, 9), (8, 6), (9, 3), (4, 4), (12, 2), *([(1, 5)] if function is _squeezed else [])):
        x = torch.randn(h, w)
        torch.testing.assert_close(program(x)[0], function(x))


class SplitsPairs(torch.nn.Module):
    """Two batches as one, and two again."""

    def forward(self, one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        first, second = torch.chunk(torch.cat([one, other]) @ torch.ones(3, 2), 2)
        return first * second


def test_halves_of_two_inputs_of_one_size_are_no_assumption() -> None:
    axes = ({0: "n"}, {0: "n"})
    with warnings.catch_warnings(action="error", category=OnnxExporterWarning):
        program = onnxport.export(SplitsPairs(), (torch.ones(2, 3), torch.ones(2, 3)), dynamic_shapes=axes)
    for size in (1, 3, 4, 8):
        inputs = torch.randn(size, 3), torch.randn(size, 3)
        torch.testing.assert_close(program(*inputs)[0], SplitsPairs()(*inputs))


def test_convolutions_and_pools_demand_a_window() -> None:
    model = torch.nn.Sequential(torch.nn.Conv1d(2, 2, 4, stride=4), torch.nn.AvgPool1d(2, 2))
    program = torch.export.export(model, (torch.randn(1, 2, 32),), dynamic_shapes=({2: torch.export.Dim.AUTO},))
    (size,) = {symbol for demand in sizes_of_windows(program.graph) for symbol in demand.free_symbols}
    demands = list(sizes_of_windows(program.graph))
    assert [[bool(one.subs(size, n)) for n in (3, 4, 7, 8)] for one in demands] == [
        [False, True, True, True],
        [False, False, False, True],
    ]
