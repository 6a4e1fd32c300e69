"""verify=True: the ONNX model against the model itself, on the example and at other sizes."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

import onnxport
from onnxport.errors import OnnxExporterError, OnnxExporterWarning
from onnxport.verification import verify_onnx_program

X = torch.arange(12.0).reshape(4, 3)
SIN = torch.ops.aten.sin.default


class Sin(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x)


class Pair(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> Any:
        return {"sum": (x @ y).sum(0), "none": None, "rows": x.shape[0]}


class Pairs(nn.Module):
    """Takes an even number of rows only."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(-1, 2, 3) * 2


class Counter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return x + self.count


class Different(nn.Module):
    """Another model while it is captured."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + (1 if torch.compiler.is_exporting() else 2)


class Noise(nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        return x + torch.rand_like(x), x * 2


def export(model: nn.Module, *args: Any, **options: Any) -> onnxport.ONNXProgram:
    return onnxport.export(model, args, verify=True, verbose=False, **options)


def sizes(program: onnxport.ONNXProgram) -> list[dict[str, int]]:
    assert program.verification is not None
    return [dict(run.sizes) for run in program.verification.runs if run.sizes]


@pytest.mark.parametrize(
    ("model", "args", "shapes", "tried"),
    [
        pytest.param(Sin(), (X,), None, [], id="static"),
        pytest.param(Sin(), (X,), ({0: "n"},), [{"n": 5}], id="one axis"),
        pytest.param(Sin(), (X,), ({0: Dim("n", min=2, max=4)},), [{"n": 3}], id="within its range"),
        pytest.param(Pairs(), (X,), ({0: "n"},), [{"n": 6}], id="as the capture assumes"),
        pytest.param(
            Pair(), (X, X.T), ({0: "n", 1: "k"}, {0: "k", 1: "m"}),
            [{"n": 5}, {"k": 4}, {"m": 5}, {"n": 7, "k": 6, "m": 7}], id="each axis, then all",
        ),
    ],
)  # fmt: skip
def test_sizes(model: nn.Module, args: Any, shapes: Any, tried: list[dict[str, int]]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", OnnxExporterWarning)
        warnings.filterwarnings("ignore", message=".*None.*", category=OnnxExporterWarning)
        program = export(model, *args, dynamic_shapes=shapes)
    assert sizes(program) == tried
    assert program.verification is not None
    assert program.verification.matches
    assert [run.reference for run in program.verification.runs[:2]] == ["model", "exported program"]
    assert all(info.max_abs_diff < 1e-4 for run in program.verification.runs for info in run.infos)


def wrong(op: Any, self: Any) -> Any:
    return op.Cos(self)


def only_four_rows(op: Any, self: Any) -> Any:
    return op.Add(op.Sin(self), op.const(torch.zeros(4, 3).numpy(), torch.float32))


def test_a_wrong_result_is_a_warning_with_figures() -> None:
    with pytest.warns(OnnxExporterWarning, match="Output output: the largest difference is .* absolute") as caught:
        program = export(Sin(), X, custom_translation_table={SIN: wrong})
    assert "against that of the model." in str(caught[-1].message)
    assert "find_mismatch" in str(caught[-1].message)
    assert program.verification is not None
    assert not program.verification.matches
    assert program.verification.infos[0].max_abs_diff > 0.5


def test_what_fails_at_another_size_is_told() -> None:
    with pytest.warns(OnnxExporterWarning, match="onnxruntime cannot run the model at n=5"):
        program = export(Sin(), X, dynamic_shapes=({0: "n"},), custom_translation_table={SIN: only_four_rows})
    assert program.verification is not None
    assert [run.matches for run in program.verification.runs] == [True, True, False]


def test_the_model_itself_is_the_measure() -> None:
    with pytest.warns(OnnxExporterWarning, match="against that of the model"):
        program = export(Different(), X)
    assert program.verification is not None
    assert [(run.reference, run.matches) for run in program.verification.runs] == [
        ("model", False),
        ("exported program", True),
    ]


@pytest.mark.filterwarnings("ignore:Each run of the file starts")
def test_the_model_is_left_as_it_was() -> None:
    model = Counter()
    program = export(model, X)
    assert model.count.item() == 0
    assert program.verification is not None
    assert program.verification.matches


def test_random_outputs_are_not_compared() -> None:
    program = export(Noise(), X)
    assert program.verification is not None
    assert program.verification.matches
    assert [info.is_random for info in program.verification.infos] == [True, False]


def test_a_model_without_weights_is_not_verified() -> None:
    with pytest.warns(OnnxExporterWarning, match="cannot be verified before it has its weights"):
        program = export(nn.Linear(3, 2, device="meta"), torch.ones(4, 3, device="meta"))
    assert program.verification is not None
    assert program.verification.runs == []


class Decides(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] > 20:
            x = x + 1
        return x * 2 if x.sum() > 500 else x * 3 if x.sum() < -2 else x


class Unlikely(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x - 7 if (x == 7).all() else x  # unlikely


def test_every_way_is_compared_with_sizes_beside_decisions_and_data_that_leads_there() -> None:
    sizes = ({0: torch.export.Dim("n", min=1, max=40)},)
    program = onnxport.export(Decides(), (torch.ones(8, 3),), dynamic_shapes=sizes, verify=True)
    assert program.verification is not None
    assert program.verification.matches
    runs = program.verification.runs
    assert {run.way for run in runs} == {f"way {n} of 6" for n in range(1, 7)}
    assert {1, 20, 21, 40} <= {run.sizes.get("n") for run in runs}
    assert "data large, way 4 of 6" in str(program.verification)


def test_a_way_that_no_data_led_is_told_of() -> None:
    program = onnxport.export(Unlikely(), (torch.ones(2, 3),), verify=True)
    assert program.verification is not None
    assert {run.way for run in program.verification.runs} == {"way 2 of 2"}
    (note,) = (event for event in program.events.of("note") if "way 1 of 2" in event.message)
    assert note.where.endswith("# unlikely")


def test_verify_onnx_program() -> None:
    model = nn.Linear(3, 2)
    program = onnxport.export(model, (X,), dynamic_shapes=({0: "n"},))
    assert [info.name for info in verify_onnx_program(program)] == ["output"]
    assert [info.expected_shape for info in verify_onnx_program(program, (X[:2],))] == [(2, 2)]
    with torch.no_grad():
        model.weight.zero_()
        other = nn.Linear(3, 2)
    assert not verify_onnx_program(program, model=other)[0].matches


def test_a_program_without_its_origin_cannot_be_verified() -> None:
    program = onnxport.export(Sin(), (X,))
    program.exported_program = None
    with pytest.raises(OnnxExporterError, match="has no exported program to compare with"):
        verify_onnx_program(program)
