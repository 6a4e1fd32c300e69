"""Scripts and traces in all of TorchScript's language, and as users write them: equal to the script at other sizes."""

# No `from __future__ import annotations`: TorchScript reads the annotations of what it compiles.
import io
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from branch_zoo import BRANCHES
from idiom_zoo import IDIOMS
from language_zoo import LANGUAGE, OPSET, BlockA, ScriptRow, clamp_rows
from torch import Tensor, nn
from torch.utils import _pytree
from values_zoo import VALUES

import onnxport
from onnxport.capture import strategies
from onnxport.errors import CaptureError, OnnxExporterWarning

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")


def check(row: ScriptRow, script: Any) -> None:
    """Export at one opset and compare with the script at each size."""
    names = [f"in_{position}" for position in range(len(row.examples[0]))]
    options: Any = {"input_names": names, "dynamic_axes": row.dynamic_axes(), "opset_version": OPSET}
    with pytest.warns(OnnxExporterWarning, match=row.warns) if row.warns else nullcontext():
        program = onnxport.export(script, row.examples[0], dynamo=False, **options)
    for example in row.examples:
        with torch.no_grad():
            expected = _pytree.tree_leaves(row.run(*(x.clone() for x in example)))
        found = _pytree.tree_leaves(program(*example))
        # What is None is left out of the file, or an optional value that is not there.
        found, expected = ([leaf for leaf in leaves if leaf is not None] for leaves in (found, expected))
        for ours, theirs in zip(found, expected, strict=True):
            theirs = torch.as_tensor(theirs)
            torch.testing.assert_close(ours, theirs, rtol=row.tolerance, atol=row.tolerance)


# Of the rows: one warns by itself, others do what torch.jit.script and torch.export warn of.
@pytest.mark.filterwarnings(
    "ignore:careful", "ignore:The TorchScript type system", r"ignore:The tensor attribute self\.\w+ was assigned"
)
@pytest.mark.parametrize("row", [*LANGUAGE, *IDIOMS, *BRANCHES, *VALUES], ids=lambda row: row.name)
def test_scripts_and_traces(row: ScriptRow) -> None:
    check(row, row.make())


# Of a graph that is made for oneDNN no file can be loaded.
LOADED = [row for row in LANGUAGE if row.name != "optimized_for_inference"][::5]


@pytest.mark.parametrize("row", LOADED, ids=lambda row: row.name)
def test_files(row: ScriptRow) -> None:
    file = io.BytesIO()
    torch.jit.save(row.make(), file)
    file.seek(0)
    check(row, torch.jit.load(file))


ELSEWHERE = """
import sys, torch
sys.path[:0] = sys.argv[2:]
import language_zoo
torch.jit.script(language_zoo.HoldsObject()).save(sys.argv[1])
torch.jit.script(language_zoo.EnumIteration()).save(sys.argv[1] + ".enum")
"""


def test_files_whose_classes_are_not_in_this_process(tmp_path: Path) -> None:
    """The process that exports has neither the class of an object that a module holds, nor its enums."""
    saved, tests = str(tmp_path / "model.pt"), str(Path(__file__).parent)
    paths = [tests, str(Path(onnxport.__file__).parents[1])]
    subprocess.run([sys.executable, "-c", ELSEWHERE, saved, *paths], check=True, capture_output=True)
    exporting = f"""
import sys, torch
sys.path.insert(0, {paths[1]!r})
import onnxport
x = torch.ones(3, 4)
model = torch.jit.load({saved!r})
torch.testing.assert_close(onnxport.export(model, (x,))(x)[0], model(x))
try:
    onnxport.export(torch.jit.load({saved + ".enum"!r}), (x,))
except onnxport.errors.CaptureError as error:
    assert "Import the module that defines it" in str(error), error
else:
    raise AssertionError
"""
    outcome = subprocess.run([sys.executable, "-c", exporting], check=False, capture_output=True, text=True)
    assert outcome.returncode == 0, outcome.stderr


# --- scripts in a model that is not one ------------------------------------------------------------------------------


def _loaded(script: Any) -> Any:
    file = io.BytesIO()
    torch.jit.save(script, file)
    file.seek(0)
    return torch.jit.load(file)


class RowsUntil(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros(4)
        for i in range(x.size(0)):
            if bool(x[i].sum() > 0):
                total = total + x[i]
        return x + total


class Holds(nn.Module):
    def __init__(self, child: Any) -> None:
        super().__init__()
        self.fc, self.child = nn.Linear(4, 4), child

    def forward(self, x: Tensor) -> Tensor:
        y = self.child(self.fc(x))
        return y + self.child.scaled(x, by=0.5) if hasattr(self.child, "scaled") else y


EMBEDDED = {
    "script": lambda: torch.jit.script(BlockA()),
    "file": lambda: _loaded(torch.jit.script(BlockA())),
    "trace": lambda: torch.jit.trace(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.randn(2, 4)),
    "control flow": lambda: torch.jit.script(RowsUntil()),
    "function": lambda: Calls(clamp_rows),
}


class Calls(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, limit=2)


@pytest.mark.parametrize("dynamo", [True, False])
@pytest.mark.parametrize("make", EMBEDDED.values(), ids=EMBEDDED.keys())
def test_scripts_inside_a_module(make: Any, dynamo: bool) -> None:
    model = Holds(make()).eval()
    before = dict(model.named_children())
    axes: Any = {"dynamic_shapes": ({0: "n"},)} if dynamo else {"input_names": ["x"], "dynamic_axes": {"x": [0]}}
    program = onnxport.export(model, (torch.randn(3, 4),), dynamo=dynamo, **axes)
    assert dict(model.named_children()) == before
    assert {name for name, _ in model.named_parameters()} <= set(program.model.graph.initializers)
    for x in (torch.randn(5, 4), -torch.ones(2, 4)):
        torch.testing.assert_close(program(x)[0], model(x), rtol=1e-4, atol=1e-5)


def test_a_script_inside_of_what_has_to_be_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strategies, "STRATEGIES", [strategies.Tracing()])

    class ByValue(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.child = torch.jit.script(RowsUntil())

        def forward(self, x: Tensor) -> Tensor:
            return self.child(x) * float(x.max())

    x = torch.randn(3, 4)
    with pytest.warns(OnnxExporterWarning, match="A tensor becomes a Python") as told:
        program = onnxport.export(ByValue(), (x,), dynamo=False)
    torch.testing.assert_close(program(x)[0], ByValue()(x))
    assert any("if bool(x[i].sum() > 0):" in str(warning.message) for warning in told)


class Ignores(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.by = nn.Linear(4, 4), 3

    @torch.jit.ignore
    def in_python(self, x: Tensor) -> Tensor:
        return self.fc(x) * len("ab") + self.by

    def forward(self, x: Tensor) -> Tensor:
        return self.in_python(x) + 1


def test_ignored_methods_are_captured_as_python() -> None:
    model = Ignores()
    program = onnxport.export(torch.jit.script(model), (torch.randn(3, 4),), dynamic_shapes=({0: "n"},))
    x = torch.randn(5, 4)
    torch.testing.assert_close(program(x)[0], model(x), rtol=1e-4, atol=1e-5)


def test_unused_methods_are_refused_when_they_are_called() -> None:
    class Unused(nn.Module):
        @torch.jit.unused
        def dropped(self, x: Tensor) -> Tensor:
            return x

        def forward(self, x: Tensor) -> Tensor:
            return self.dropped(x) + 1

    with pytest.raises(CaptureError, match=r"marked with torch\.jit\.unused, which has no code in the script"):
        onnxport.export(torch.jit.script(Unused()), (torch.randn(3, 4),))
