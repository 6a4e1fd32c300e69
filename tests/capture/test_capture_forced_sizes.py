"""An axis declared dynamic stays dynamic, also at size 1; a model that forces a size is told which line does."""

from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch
from torch import nn
from torch.export import Dim

from comparison import assert_close
from onnxport.capture import capture
from onnxport.errors import CaptureError, DynamicShapeError, OnnxExporterWarning
from onnxport.events import EventLog


class Reshape(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.reshape(3, 4) + 1  # here


class Branch(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] == 3:  # here
            return x + 1
        return x - 1


class Loop(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for step in range(int(x.shape[0])):  # here
            x = x + step
        return x


class Buffer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mask", torch.ones(3, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.mask  # here


class BesideBuffer(Buffer):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:  # type: ignore[override]
        return x * self.mask, y + 1


class Inside(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = Reshape()

    def forward(self, x: dict[str, Any]) -> torch.Tensor:
        return self.inner(x["k"][0])


class Range(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if x.shape[0] > 2:
            return x * 2
        return x


class Add(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y


class General(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x.reshape(x.shape[0], -1) @ torch.ones(4, 5), -1).sum(0)


def here(kind: type) -> str:
    """file:line of the marked line of a class."""
    lines, start = inspect.getsourcelines(kind)
    return f"{__file__}:{start + next(i for i, line in enumerate(lines) if '# here' in line)} in forward"


@pytest.mark.parametrize("kind", [Reshape, Branch, Loop, Buffer])
@pytest.mark.parametrize(
    ("dim", "named"), [("batch", " as 'batch'"), (Dim("batch"), " as 'batch'"), (Dim.DYNAMIC, "")], ids=str
)
def test_the_axis_the_value_and_the_line(kind: type, dim: Any, named: str) -> None:
    with pytest.raises(DynamicShapeError) as caught:
        capture(kind(), (torch.ones(3, 4),), dynamic_shapes=({0: dim},), branches="follow", events=EventLog())
    said = str(caught.value)
    assert f"Axis 0 of input 'x' was declared dynamic{named}, but the model forces it to be 3." in said
    assert here(kind) in said
    assert "declare the axis static (leave it out) or Dim.AUTO" in said


def test_a_nested_input_and_a_submodule() -> None:
    with pytest.raises(DynamicShapeError) as caught:
        spec = ({"k": [{0: "batch"}]},)
        capture(Inside(), ({"k": [torch.ones(3, 4)]},), dynamic_shapes=spec, events=EventLog())
    assert "Axis 0 of input 'x['k'][0]' was declared dynamic as 'batch'" in str(caught.value)
    assert here(Reshape) in str(caught.value)


@pytest.mark.filterwarnings("ignore:The exported model follows the example")
@pytest.mark.parametrize("kind", [Reshape, Branch, Buffer])
def test_dim_auto_may_be_forced(kind: type) -> None:
    captured = capture(kind(), (torch.ones(3, 4),), dynamic_shapes=({0: Dim.AUTO},), events=EventLog())
    shape = next(n for n in captured.program.graph.nodes if n.name == "x").meta["val"].shape
    assert list(shape) == [3, 4]
    x = torch.rand(3, 4)
    assert_close(captured.program.module()(x), kind()(x))


@pytest.mark.parametrize("dim", ["batch", Dim("batch"), Dim.DYNAMIC], ids=str)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_an_example_of_size_one_stays_dynamic(dim: Any, size: int) -> None:
    captured = capture(General(), (torch.ones(size, 4),), dynamic_shapes=({0: dim},), events=EventLog())
    shape = next(n for n in captured.program.graph.nodes if n.name == "x").meta["val"].shape
    assert isinstance(shape[0], torch.SymInt)
    if size > 1:
        return
    assert torch.equal(captured.program.module()(torch.ones(5, 4)), General()(torch.ones(5, 4)))


def test_broadcasting_at_size_one_is_pointed_out() -> None:
    with pytest.raises(CaptureError, match="The example has size 1 at axis 0 of input 'x': if the model broadcasts"):
        capture(Buffer(), (torch.ones(1, 4),), dynamic_shapes=({0: "batch"},), events=EventLog())


def test_broadcasting_at_size_one_is_fixed_where_the_example_is_followed() -> None:
    events = EventLog()
    example = (torch.ones(1, 4), torch.ones(1, 4))
    shapes = ({0: "batch"}, {0: "rows"})
    with pytest.warns(OnnxExporterWarning, match=r"Axis 0 of input 'x' .* 'batch', but the example has size 1 there"):
        captured = capture(BesideBuffer(), example, dynamic_shapes=shapes, follows_example=True, events=events)
    # Only the axis that is in the way.
    shown = {node.name: node.meta["val"].shape for node in captured.program.graph.nodes if node.op == "placeholder"}
    assert shown["x"][0] == 1 and isinstance(shown["y"][0], torch.SymInt)
    assert "broadcasts" in events.of("warning")[0].message
    x, y = torch.rand(1, 4), torch.rand(5, 4)
    assert_close(captured.program.module()(x, y), BesideBuffer()(x, y))


DIMS = [
    (
        Range(),
        (torch.ones(3, 4),),
        ({0: Dim("n")},),
        ["needs 3 <= n for axis 0 of input 'x' (Dim 'n')", "Dim('n', min=3)"],
    ),
    (
        Add(),
        (torch.ones(3, 4), torch.ones(3, 4)),
        ({0: Dim("n")}, {0: Dim("m")}),
        ["axis 0 of input 'x' (Dim 'n') and axis 0 of input 'y' (Dim 'm') to be equal", "one Dim for both, Dim('n')"],
    ),
]


@pytest.mark.parametrize(("model", "args", "spec", "said"), DIMS)
def test_a_dim_whose_range_the_model_does_not_allow(model: Any, args: Any, spec: Any, said: list[str]) -> None:
    with pytest.raises(DynamicShapeError) as caught:
        capture(model, args, dynamic_shapes=spec, branches="follow", events=EventLog())
    for words in said:
        assert words in str(caught.value)
    assert "IntInfinity" not in str(caught.value)


def test_an_exported_program_that_is_static_there() -> None:
    program = torch.export.export(General(), (torch.ones(3, 4),))
    with pytest.raises(DynamicShapeError, match="program has axis 0 of input 'x' fixed at 3, but it was"):
        capture(program, dynamic_shapes=({0: "n"},), events=EventLog())
