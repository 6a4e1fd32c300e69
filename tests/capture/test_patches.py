"""What is replaced in torch: each row of the table does what it says, alone, and leaves nothing behind."""

from __future__ import annotations

import ast
import copy
import importlib
import io
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch

import onnxport
from comparison import assert_agrees
from onnxport.capture import capture
from onnxport.capture.patches import PATCHES, Patch, patched_torch
from onnxport.events import EventLog
from onnxport.torch_internals.fake_tensors import op_implementations_dict
from onnxport.torch_internals.layers import device_constructors

SOURCE = Path(onnxport.__file__).parent
SHARED = [patch for patch in PATCHES if patch.enter is not None]
OTHERS = [patch for patch in PATCHES if patch.enter is None]


def looked_up(path: str) -> Any:
    """What a dotted path leads to; a table as a copy of it."""
    call = path.endswith("()")
    parts = path.removesuffix("()").split(".")
    found: Any = None
    for end in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            found = vars(found).get(part, found) if isinstance(found, type) else getattr(found, part)
        break
    found = found() if call else found
    return dict(found) if isinstance(found, Mapping) else found


def states(patches: list[Patch]) -> dict[str, Any]:
    return {path: looked_up(path) for patch in patches for path in patch.replaces}


def differ(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() != other.keys() or any(one[key] is not other[key] for key in one)
    return one is not other


@pytest.mark.parametrize("patch", SHARED, ids=lambda patch: next(iter(patch.replaces), patch.why))
def test_a_row_replaces_what_it_names_and_nothing_else(patch: Patch) -> None:
    assert patch.enter is not None
    before = states(SHARED)
    with patch.enter():
        inside = states(SHARED)
    after = states(SHARED)
    assert {path for path in before if differ(before[path], inside[path])} == set(patch.replaces)
    assert not [path for path in before if differ(before[path], after[path])]


def test_every_row_says_why_and_until_when() -> None:
    for patch in PATCHES:
        assert patch.why.endswith(".") and patch.known and patch.until
        assert (patch.enter is None) == bool(patch.entered_in)


@pytest.mark.parametrize("patch", OTHERS, ids=lambda patch: next(iter(patch.replaces), patch.why))
def test_a_row_that_takes_arguments_is_entered_where_it_says(patch: Patch) -> None:
    module = importlib.import_module(patch.entered_in)
    assert "onnxport.capture.patches.replacing" in Path(module.__file__ or "").read_text(encoding="utf-8")


# These replace a method of the model that is exported or watched, and nothing of torch.
_OF_THE_MODEL = {"onnxport.capture.request.inputs", "onnxport.observing.observer", "onnxport.pretrained.parts"}


def test_nobody_else_replaces_anything() -> None:
    rows = {patch.enter.__module__ for patch in SHARED if patch.enter is not None}
    rows |= {patch.entered_in for patch in OTHERS}
    users = set()
    for path in sorted(SOURCE.rglob("*.py")):
        name = "onnxport." + ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            imported = isinstance(node, ast.ImportFrom) and node.module == "onnxport.capture.patches.replacing"
            if imported and any(alias.name.endswith("_replaced") for alias in node.names):
                users.add(name)
            targets = node.targets if isinstance(node, ast.Assign) else []
            assert not [t for t in targets if isinstance(t, ast.Attribute) and _root(t) == "torch"], (name, node.lineno)
    tables = {"onnxport.capture.patches.table"}  # rows whose `enter` is a function of the table itself
    assert users == (rows - tables) | _OF_THE_MODEL


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


class Interrupting(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise KeyboardInterrupt


class ExportsWithin(torch.nn.Module):
    """A forward that exports something else."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        onnxport.export(torch.nn.ReLU(), (torch.ones(2),))
        return x


def test_an_interrupt_leaves_torch_as_it_was() -> None:
    before = states(SHARED)
    with pytest.raises(KeyboardInterrupt):
        onnxport.export(Interrupting(), (torch.ones(2),))
    after = states(SHARED)
    assert not [path for path in before if differ(before[path], after[path])]
    assert not onnxport.is_in_onnx_export() and not torch.onnx.is_in_onnx_export()


def test_an_export_within_a_capture_is_refused() -> None:
    before = states(SHARED)
    with pytest.raises(onnxport.OnnxExporterError, match="while another model is being captured"):
        onnxport.export(ExportsWithin(), (torch.ones(4),))
    after = states(SHARED)
    assert not [path for path in before if differ(before[path], after[path])]


def test_patches_are_entered_once() -> None:
    with patched_torch():
        once = torch.linspace
        with patched_torch():
            assert torch.linspace is once
        assert torch.linspace is once


class Spaced(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) + torch.linspace(0, 1, x.shape[0]).unsqueeze(1)


class Recurrent(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.lstm = torch.nn.LSTM(width, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.lstm(x)[0]


MODELS: list[Callable[[int], torch.nn.Module]] = [
    Spaced,
    Recurrent,
    lambda width: torch.nn.Sequential(torch.nn.Linear(width, 5), torch.nn.AdaptiveMaxPool1d(2)),
    lambda width: torch.nn.Sequential(torch.nn.Linear(width, 6), torch.nn.GELU(), torch.nn.LayerNorm(6)),
]


def _exported(make: Callable[[int], torch.nn.Module], width: int) -> bytes:
    model = make(width).eval()
    for parameter in model.parameters():
        torch.nn.init.constant_(parameter, 0.5)
    file = io.BytesIO()
    onnxport.export(model, (torch.ones(3, width),), file, dynamic_shapes=({0: "n"},))
    return file.getvalue()


def test_exports_in_threads_give_what_they_give_one_after_another() -> None:
    work = [(MODELS[number % len(MODELS)], 3 + number // len(MODELS)) for number in range(40)]
    alone = [_exported(*row) for row in work]
    before = states(SHARED)
    found: dict[int, bytes] = {}

    def some(first: int) -> None:
        for number in range(first, len(work), 4):
            found[number] = _exported(*work[number])

    threads = [threading.Thread(target=some, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    after = states(SHARED)
    assert not [path for path in before if differ(before[path], after[path])]
    assert sorted(found) == list(range(len(work)))
    different = [number for number in found if found[number] != alone[number]]
    assert not different, onnx.printer.to_text(onnx.load_from_string(found[different[0]]))


def test_default_devices_still_reach_what_was_replaced() -> None:
    """torch remembers by identity which functions make tensors, from the first time that it is asked."""
    device_constructors.cache_clear()

    class Makes(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.device("cpu"):
                return x + torch.linspace(0, 1, 3)

    capture(Makes(), torch.ones(3), events=EventLog())
    with torch.device("meta"):
        assert torch.linspace(0, 1, 3).is_meta


def test_counts_have_their_own_type_whatever_the_fake_kernel_says(monkeypatch: pytest.MonkeyPatch) -> None:
    class Counts(torch.nn.Module):
        def forward(self, x: torch.Tensor, weights: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return torch.bincount(x) // 2, torch.bincount(x, weights) / 3

    told = op_implementations_dict[torch.ops.aten.bincount.default]

    def of_older_versions(mode: Any, operator: Any, inputs: Any, *rest: Any, **options: Any) -> Any:
        return inputs.new_empty(told(mode, operator, inputs, *rest, **options).shape)

    monkeypatch.setitem(op_implementations_dict, torch.ops.aten.bincount.default, of_older_versions)
    x, weights = torch.tensor([1, 2, 2, 5], dtype=torch.int32), torch.tensor([0.5, 1.0, 2.0, 4.0])
    program = onnxport.export(Counts(), (x, weights), dynamic_shapes=({0: "n"}, {0: "n"}))
    assert_agrees(program, Counts(), (x[1:], weights[1:]))


class Copying(torch.nn.Module):
    """A deep copy of what holds a weight and an input."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(4))
        self.register_buffer("steps", torch.arange(4.0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        held = copy.deepcopy({"x": x.detach(), "steps": self.steps})
        held["x"].mul_(2)
        return held["x"] + x * self.weight + held["steps"]


def test_deep_copies_of_tensors() -> None:
    model = Copying()
    program = onnxport.export(model, (torch.randn(3, 4),), dynamic_shapes=({0: "rows"},))
    assert_agrees(program, model, [torch.randn(5, 4)])
