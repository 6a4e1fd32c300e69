"""Branches in Python are right whichever way an input leads, or refused, or warned of with the line."""

from __future__ import annotations

import html
import itertools
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import onnxport
from branches.branch_catalogue import PROGRAMS
from branches.branch_rows import Program
from comparison import assert_close


@pytest.mark.filterwarnings("ignore::onnxport.errors.OnnxExporterWarning")
@pytest.mark.parametrize("row", PROGRAMS.values(), ids=lambda row: row.name)
def test_every_way(row: Program) -> None:
    program = onnxport.export(row.module, row.example, dynamic_shapes=row.axes, verbose=False)
    if row.ifs is not None:
        assert sum(node.op_type == "If" for node in program.model.graph.all_nodes()) == row.ifs
    for inputs in (row.example, *row.others):
        expected = row.module(*inputs)
        expected = expected if isinstance(expected, tuple) else (expected,)
        for one, other in zip(program(*inputs), expected, strict=True):
            assert one.shape == other.shape
            assert_close(one, other)


@pytest.mark.filterwarnings("error::onnxport.errors.OnnxExporterWarning")
@pytest.mark.parametrize("name", ["sizes_held_in_tensors"])
def test_what_is_right_everywhere_is_not_warned_of(name: str) -> None:
    row = PROGRAMS[name]
    onnxport.export(row.module, row.example, dynamic_shapes=row.axes, verbose=False)


@pytest.mark.filterwarnings("ignore::onnxport.errors.OnnxExporterWarning")
@pytest.mark.parametrize(
    "name", ["resized_in_layers_and_back", "data_in_each_of_many_layers", "a_size_that_is_read_by_two_names"]
)
def test_one_run_captures_both_ways_of_many_branches(name: str) -> None:
    row = PROGRAMS[name]
    program = onnxport.export(row.module, row.example, dynamic_shapes=row.axes, verbose=False)
    assert len(program.paths) <= 1


@pytest.mark.parametrize(("merges", "runs"), [(True, 2), (False, 1)])
def test_a_condition_beside_a_plain_one_costs_no_run_of_its_own(
    merges: bool, runs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Merges(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.merges = merges

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if x.shape[0] > 64 and self.merges else x + 1

    captured = []
    export = torch.export.export

    def noted(*args: Any, **kwargs: Any) -> torch.export.ExportedProgram:
        captured.append(args)
        return export(*args, **kwargs)

    monkeypatch.setattr(torch.export, "export", noted)
    program = onnxport.export(Merges(), (torch.ones(8),), dynamic_shapes=({0: "n"},), verbose=False)
    assert len(captured) == runs
    for n in (64, 65):
        assert_close(program(torch.ones(n))[0], Merges()(torch.ones(n)))


class Repeats(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for bound in (0, 1, 2, 3, 4, 5, 6, 7, 8):
            x = x * 2
            if x.sum() < bound:  # culprit
                return x
        return x


class Ranks(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.sum() > 0 else x.sum()  # culprit


class Types(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.sum() > 0 else x.long()  # culprit


class Counts(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return (x + 1, x) if x.sum() > 0 else (x,)  # culprit


class Doubles(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        try:  # what is raised there may be caught, so that no run captures both ways
            for bound in range(3):
                x = x + 1 if x.sum() > bound else x  # culprit
                x = x * 2 if x.max() > bound else x
        except ValueError:
            return x * 3
        return x


REFUSED = {
    Repeats: "asks for the truth of data more than 6 times in one run",
    Ranks: "Output .* has 2 axes if this is true and 0 if not",
    Types: "is FLOAT if this is true and INT64 if not",
    Counts: "returns 2 values if this is true and 1 if not",
    Doubles: "lead to more than 32 ways through the model",
}


@pytest.mark.parametrize("kind", REFUSED, ids=lambda kind: kind.__name__)
def test_what_has_no_form_is_refused_with_the_line(kind: type[torch.nn.Module]) -> None:
    with pytest.raises(onnxport.errors.OnnxExporterError) as caught:
        onnxport.export(kind(), (torch.ones(2, 3),), dynamic_shapes=({0: "n"},), verbose=False)
    assert re.search(REFUSED[kind], str(caught.value))
    assert "# culprit" in str(caught.value)


class Asks(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[0] > 3 else x - 1


class Unrolls(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] > 1:
            return torch.stack([b - a for a, b in itertools.permutations(x, 2)])  # culprit
        return x


def test_a_size_that_one_way_fixes_for_others_is_refused_with_the_line() -> None:
    with pytest.raises(onnxport.errors.OnnxExporterError, match=r"the model forces it to be 4\.\n *at .*# culprit"):
        onnxport.export(Unrolls(), (torch.ones(4, 3),), dynamic_shapes=({0: "n"},), verbose=False)


class Multiplies(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for divisor in (2, 3, 5, 7, 11, 13):
            if x.shape[0] % divisor == 0:
                x = x + divisor
        return x


def test_more_sizes_than_there_is_room_for_are_warned_of() -> None:
    told = r"n is odd: there are more than 32 ways through the model \(.*divisor == 0"
    with pytest.warns(onnxport.errors.OnnxExporterWarning, match=told):
        onnxport.export(Multiplies(), (torch.ones(1, 3),), dynamic_shapes=({0: "n"},), verbose=False)


class SparesLargeImages(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.numel() > 2**31 else x * 2


def test_an_example_that_takes_all_memory_is_not_made() -> None:
    with pytest.warns(onnxport.errors.OnnxExporterWarning, match="2147483648: the sizes at which .* too large to try"):
        onnxport.export(SparesLargeImages(), (torch.ones(2, 8, 8, 8),), dynamic_shapes=({0: "b", 2: "h", 3: "w"},))


def test_how_many_ways_there_may_be_is_the_users_to_say() -> None:
    with pytest.warns(onnxport.errors.OnnxExporterWarning, match="there are more than 3 ways through the model"):
        program = onnxport.export(Multiplies(), (torch.ones(1, 3),), dynamic_shapes=({0: "n"},), branch_limit=3)
    assert len(program.paths) == 3
    for size in (1, 11, 13):
        assert_close(program(torch.ones(size, 3))[0], Multiplies()(torch.ones(size, 3)))


class Demands(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] % 2:
            if x.shape[0] < 20:
                raise ValueError("short and odd")
            return x * 2
        assert x.shape[0] <= 50
        return x + 1


@pytest.mark.filterwarnings("error::onnxport.errors.OnnxExporterWarning")
class Parts(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        part = x.shape[0] // 4
        if x.shape[0] % part:
            raise ValueError("no whole parts")
        return x.view(part, -1)


def test_a_limit_that_divides_by_a_size_is_not_kept_where_that_is_0() -> None:
    program = onnxport.export(Parts(), (torch.ones(8),), dynamic_shapes=({0: "n"},), verbose=False)
    assert program(torch.ones(12))[0].shape == (3, 4)
    with pytest.raises(onnxport.errors.InputError, match="n is 3, and it raises ValueError: no whole parts"):
        program(torch.ones(3))


def test_sizes_at_which_the_model_raises_are_limits() -> None:
    model = Demands()
    program = onnxport.export(model, (torch.ones(8, 3),), dynamic_shapes=({0: "n"},), verbose=False)
    for size in (8, 2, 21, 50, 61):
        assert_close(program(torch.ones(size, 3))[0], model(torch.ones(size, 3)))
    with pytest.raises(onnxport.errors.InputError, match=r"n is at least 20, unless .*here n is 7, .*short and odd"):
        program(torch.ones(7, 3))
    with pytest.raises(onnxport.errors.InputError, match=r"n is at most 50, unless .*AssertionError.*\n    at .*<= 50"):
        program(torch.ones(52, 3))
    assert "n is at most 50" in program.model.graph.metadata_props["onnxport.size_limits"]


class Permutes(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] > 5:
            return x[np.random.RandomState(0).permutation(x.shape[0])]  # culprit
        return x


class Formats(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 1:
            return x * int(f"{x.shape[0]:b}")  # culprit
        return x


class Sets(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = list(x)
        if x.sum() > 1:
            rows[1::2] = rows[::2]  # culprit
        return torch.stack(rows)


@pytest.mark.parametrize("kind", [Permutes, Formats, Sets], ids=lambda kind: kind.__name__)
def test_what_only_a_capture_raises_is_no_limit_of_the_model(kind: type[torch.nn.Module]) -> None:
    with pytest.warns(onnxport.errors.OnnxExporterWarning, match=r"the other way could not be captured.*# culprit"):
        program = onnxport.export(kind(), (-torch.ones(4, 3),), dynamic_shapes=({0: "n"},), verbose=False)
    assert "onnxport.size_limits" not in program.model.graph.metadata_props


def test_the_user_says_what_becomes_of_branches() -> None:
    given: Any = ((torch.ones(4, 3),), None)
    shapes = ({0: "n"},)
    with pytest.warns(onnxport.errors.OnnxExporterWarning, match="only where n is greater than 3"):
        program = onnxport.export(Asks(), *given, dynamic_shapes=shapes, branches="follow", verbose=False)
    assert [node.op_type for node in program.model.graph] == ["Add"]
    with pytest.raises(onnxport.errors.OnnxExporterError, match=r"decides by a size that varies\n    at .*> 3"):
        onnxport.export(Asks(), *given, dynamic_shapes=shapes, branches="refuse", verbose=False)
    with pytest.raises(ValueError, match="'export', 'follow', 'refuse'"):
        onnxport.export(Asks(), *given, branches="both", verbose=False)  # type: ignore[arg-type]


def test_checks_whose_failing_is_caught_are_warned_of_where_the_example_is_followed() -> None:
    row = PROGRAMS["halves_or_what_except_says"]
    with pytest.warns(onnxport.errors.OnnxExporterWarning, match=r"only where n equals 8 \(.*torch.stack"):
        onnxport.export(row.module, row.example, dynamic_shapes=row.axes, branches="follow", verbose=False)


def test_weights_are_shared_by_both_sides() -> None:
    class Shares(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.fc = torch.nn.Linear(64, 64)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.sum() > 0:
                return self.fc(self.fc(x))
            return self.fc(x).relu()

    program = onnxport.export(Shares(), (torch.ones(2, 64),), verbose=False)
    sizes = [value.const_value.size for value in program.model.graph.initializers.values() if value.const_value]
    assert sizes.count(64 * 64) == 1


def test_the_same_bytes_every_time() -> None:
    row = PROGRAMS["nested"]
    made = [onnxport.export(row.module, row.example, dynamic_shapes=row.axes, verbose=False) for _ in range(2)]
    assert made[0].model_proto.SerializeToString() == made[1].model_proto.SerializeToString()


@pytest.mark.filterwarnings("error::onnxport.errors.OnnxExporterWarning")
@pytest.mark.parametrize(
    "name", ["nested", "long_and_short", "many_elements", "empty", "two_sizes", "table_where_it_fits"]
)
def test_verification_goes_every_way(name: str) -> None:
    row = PROGRAMS[name]
    program = onnxport.export(row.module, row.example, dynamic_shapes=row.axes, verify=True, verbose=False)
    assert program.verification is not None
    assert program.verification.matches
    assert {run.reference for run in program.verification.runs} == {"model"}
    for inputs in row.others:
        assert all(info.matches for info in onnxport.verification.verify_onnx_program(program, inputs))
        infos = onnxport.verification.verify_onnx_program(program, inputs, compare_intermediates=True)
        assert all(info.matches for info in infos)


def test_sizes_on_both_sides_are_verified() -> None:
    row = PROGRAMS["long_and_short"]
    program = onnxport.export(row.module, row.example, dynamic_shapes=row.axes, verify=True, verbose=False)
    assert program.verification is not None
    sizes = [run.sizes.get("n", 8) for run in program.verification.runs]
    assert min(sizes) <= 64 < max(sizes)


def test_the_report_shows_the_tree(tmp_path: Path) -> None:
    row = PROGRAMS["nested"]
    onnxport.export(
        row.module, row.example, dynamic_shapes=row.axes, report=True, artifacts_dir=tmp_path, verbose=False
    )
    for suffix in ("md", "html"):
        (page,) = tmp_path.glob(f"*.{suffix}")
        text = html.unescape(page.read_text())
        outer, inner = text.index("if x.sum() > 0:"), text.index("true: " + row.module.function.__code__.co_filename)
        assert outer < inner < text.index("if x[0, 0] > 2:")


def test_inputs_keep_their_own_axes_where_one_way_takes_two_sizes_for_one() -> None:
    row = PROGRAMS["equal_lengths_added"]
    program = onnxport.export(row.module, row.example, dynamic_shapes=row.axes)
    graph = program.model.graph
    assert [str(value.shape) for value in graph.inputs] == ["[n,3]", "[m,3]"]
    (sine,) = [node for node in graph if node.op_type == "Sin"]
    assert str(sine.outputs[0].shape) == "[n,3]", "shared by both ways"


class FillsUp(torch.nn.Module):
    def forward(self, past: torch.Tensor, new: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        joined = torch.cat([past, new], dim=1)
        missing = joined.shape[1] - mask.shape[1]
        if missing > 0:
            mask = torch.nn.functional.pad(mask, (0, missing))
        return joined * mask


@pytest.mark.parametrize(("derived", "ifs"), [(True, 0), (False, 1)])
def test_sizes_that_are_declared_to_follow_others_are_no_decision(derived: bool, ifs: int) -> None:
    length = torch.export.Dim("length", min=2)
    axes = ({1: length}, {}, {1: length + 1 if derived else torch.export.Dim("seen", min=1)})
    module, example = FillsUp(), (torch.randn(2, 5), torch.randn(2, 1), torch.randn(2, 6))
    program = onnxport.export(module, example, dynamic_shapes=axes, verbose=False)
    assert sum(node.op_type == "If" for node in program.model.graph) == ifs
    others = [(torch.randn(2, 8), torch.randn(2, 1), torch.randn(2, size)) for size in (9, 9 - 3 * ifs)]
    for inputs in others:
        assert_close(program(*inputs)[0], module(*inputs))


def test_an_axis_behind_one_that_is_empty_on_a_way() -> None:
    class Behind(torch.nn.Module):
        def forward(self, y: torch.Tensor, x: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
            torch._check(y.shape[0] == x.shape[0] + 1)
            if x.shape[0] > 0:
                return y[1:] + x.sum()
            return y * 2 if z.shape[0] > 4 else y + 1

    model = Behind()
    axes = ({0: "n + 1"}, {0: "n"}, {0: "m"})
    program = onnxport.export(model, (torch.randn(4), torch.randn(3), torch.randn(6)), dynamic_shapes=axes)
    for n, m in ((0, 6), (0, 2), (5, 3)):
        inputs = torch.randn(n + 1), torch.randn(n), torch.randn(m)
        assert torch.allclose(program(*inputs)[0], model(*inputs))
