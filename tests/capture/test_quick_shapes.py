"""Shapes told at once are those that torch's reference implementations give, strides included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import onnxport
from onnxport.capture import capture, patches
from onnxport.capture.patches.quick_shapes import shapes_told_at_once
from onnxport.events import EventLog
from onnxport.torch_internals.fake_tensors import FakeTensorMode

Function = Callable[[torch.Tensor], Any]
X = torch.randn(2, 4, 6, 5)
LAYOUTS: dict[str, Function] = {
    "contiguous": lambda x: x,
    "channels last": lambda x: x.to(memory_format=torch.channels_last),
    "transposed": lambda x: x.transpose(1, 3),
    "sliced": lambda x: x[:, ::2, 1:],
    "expanded": lambda x: x[:, :1].expand(-1, 4, -1, -1),
    "of rank two": lambda x: x.flatten(1),
    "of whole numbers": lambda x: x.to(torch.int64),
    "half": lambda x: x.half(),
}
OPERATORS: dict[str, Function] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "silu": F.silu,
    "elu": F.elu,
    "leaky_relu": F.leaky_relu,
    "hardtanh": F.hardtanh,
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "batch_norm": lambda x: F.batch_norm(x, *(torch.ones(x.shape[1], dtype=x.dtype) for _ in range(4))),
}
# Eager has no kernel for these.
ABSENT = {(name, "of whole numbers") for name in OPERATORS if name not in ("relu", "hardtanh")}


class Applied(torch.nn.Module):
    """An operator on a layout."""

    def __init__(self, layout: Function, function: Function) -> None:
        super().__init__()
        self.layout = layout
        self.function = function

    def forward(self, x: torch.Tensor) -> Any:
        return self.function(self.layout(x))


def _results(model: torch.nn.Module) -> list[tuple[str, ...]]:
    captured = capture(model, (X,), dynamic_shapes=({0: "batch", 2: "height"},), events=EventLog())
    values = [node.meta["val"] for node in captured.program.graph.nodes if node.op == "call_function"]
    return [(str(x.shape), str(x.stride()), str(x.dtype), str(x.device)) for x in values if isinstance(x, torch.Tensor)]


@pytest.mark.parametrize(
    ("operator", "layout"), [(name, layout) for name in OPERATORS for layout in LAYOUTS if (name, layout) not in ABSENT]
)
def test_same_as_the_reference(operator: str, layout: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = Applied(LAYOUTS[layout], OPERATORS[operator])
    quick = _results(model)
    others = tuple(patch for patch in patches.PATCHES if patch.enter is not shapes_told_at_once)
    monkeypatch.setattr(patches, "PATCHES", others)
    torch._subclasses.fake_tensor.FakeTensorMode.cache.clear()
    assert quick == _results(model)


def test_references_are_spared(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    reference = torch._decomp.decomposition_table[torch.ops.aten.relu.default]

    def counted(*args: Any, **kwargs: Any) -> Any:
        asked.append(args)
        return reference(*args, **kwargs)

    monkeypatch.setitem(torch._decomp.decomposition_table, torch.ops.aten.relu.default, counted)
    torch._subclasses.fake_tensor.FakeTensorMode.cache.clear()
    _results(Applied(LAYOUTS["contiguous"], F.relu))
    assert not asked


def test_unbind_of_an_axis_whose_size_is_a_sum() -> None:
    """torch's reference keeps the axis of slices whose size it can't simplify to 1; the slices are taken in a loop."""

    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return torch.stack(torch.cat([x, y], 1).unbind(1), 0)

    axes = {1: torch.export.Dim.DYNAMIC}
    program = onnxport.export(Model(), (torch.ones(2, 3), torch.ones(2, 5)), dynamic_shapes=(axes, axes), verbose=False)
    for sizes in ((6, 2), (1, 1), (4, 7)):
        given = torch.randn(2, sizes[0]), torch.randn(2, sizes[1])
        assert torch.equal(torch.as_tensor(program(*given)[0]), Model()(*given))


class Halved(torch.nn.Module):
    """Asks for many shapes, no two of them alike."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(5):
            x = (x[:, ::2] + 1).transpose(0, 1).contiguous().transpose(0, 1)
        return x


def test_results_are_not_made_twice_to_be_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []
    make: Callable[..., Any] = FakeTensorMode._output_from_cache_entry

    def counted(mode: object, *args: object) -> object:
        made.append(args)
        return make(mode, *args)

    monkeypatch.setattr(FakeTensorMode, "_output_from_cache_entry", counted)
    model = Halved()
    program = onnxport.export(model, (torch.randn(3, 80),), dynamic_shapes=({0: "rows", 1: "length"},))
    # Once for each kind of tensor, where five times as many results are remembered.
    assert len(made) < 20
    for rows, length in ((1, 1), (4, 33), (2, 100)):
        x = torch.randn(rows, length)
        torch.testing.assert_close(program(x)[0], model(x))
