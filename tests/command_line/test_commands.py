"""Every command: how it ends, the document that it writes, what it says when it can't."""

from __future__ import annotations

import contextlib
import json
import shlex
from pathlib import Path

import foreign_files
import numpy as np
import onnx
import pytest
import torch
from click.testing import Result
from typer.testing import CliRunner

from onnxport.command_line import app

SOURCE = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, x):
        return self.linear(x).relu()

def build():
    torch.manual_seed(0)
    print("building")
    return Net()

def changed():
    model = build()
    model.linear.bias.data += 1
    return model

def raising():
    return build() + undefined

class Raising(torch.nn.Module):
    def forward(self, x):
        raise ValueError("no such x")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("files")
    foreign_files.write_models(folder)
    foreign_files.write_hostile(folder)
    (folder / "net.py").write_text(SOURCE)
    np.savez(folder / "x.npz", x=np.ones((3, 4), np.float32))
    np.savez(folder / "wrong.npz", x=np.ones((3, 5), np.float32))
    torch.save({"x": torch.ones(3, 4)}, folder / "x.pt")
    torch.save(torch.nn.Linear(4, 2), folder / "pickled.pt")
    with contextlib.chdir(folder):
        assert run("export net.py:build net.onnx -i x=batch@3,4").exit_code == 0
    return folder


@pytest.fixture(autouse=True)
def there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def run(line: str) -> Result:
    return CliRunner().invoke(app, shlex.split(line))


def document(result: Result) -> dict[str, object]:
    found = json.loads(result.stdout)
    assert isinstance(found, dict) and isinstance(found["warnings"], list)
    return found


def at(value: object, path: str) -> object:
    """What stands at a path such as ``outputs.0.shape`` of a document."""
    for part in path.split("."):
        value = value[int(part)] if isinstance(value, list) else value[part]  # type: ignore[index]
    return value


DOCUMENTS: list[tuple[str, int, dict[str, object]]] = [
    ("export net.py:build again.onnx -i x=batch@3,4", 0, {"opset": 20, "file": "again.onnx", "nodes": 2}),
    (
        "inspect plain.onnx",
        0,
        {
            "parameters": 12,
            "opsets": {"ai.onnx": 17},
            "ir_version": 8,
            "producer": "somebody",
            "inputs.0": {"name": "x", "type": "float32", "shape": ["batch", 4]},
            "operators": {"MatMul": 1, "Relu": 1},
            "weights.0.module": "layer.block",
            "modules.1": {"path": "layer.block", "kind": "", "nodes": 2, "parameters": 12},
            "nodes.0.module": "layer.block",
        },
    ),
    ("inspect functions.onnx", 0, {"functions": {"mine::outer": 2, "mine::inner": 1}, "operators.mine::inner": 1}),
    ("inspect branches.onnx", 0, {"operators": {"If": 1, "Neg": 1, "Constant": 1, "Add": 1}, "parameters": 1}),
    ("inspect data.onnx", 0, {"parameters": 400, "weights.0.bytes": 1600}),
    ("inspect net.onnx", 0, {"modules.0.kind": "Linear", "nodes.1.operator": "Relu"}),
    ("run plain.onnx", 0, {"sizes": {"batch": 2}, "outputs.0.shape": [2, 3], "outputs.0.least": 0.0}),
    ("run plain.onnx --size batch=5", 0, {"outputs.0.shape": [5, 3]}),
    ("run plain.onnx -i x.npz -o out.npz", 0, {"outputs.0.greatest": 30.0, "saved": "out.npz"}),
    ("run plain.onnx -i x=x.pt -o out.pt", 0, {"outputs.0.mean": 26.0}),
    ("run branches.onnx", 0, {"outputs.0.shape": [2]}),
    ("run functions.onnx", 0, {"sizes": {"n": 2}}),
    ("run data.onnx -i 7,4", 0, {"sizes": {"batch": 7}, "outputs.0.shape": [7, 100]}),
    ("compare plain.onnx plain.onnx -i 7,4", 0, {"runs.0.sizes": {"batch": 7}, "runs.0.matches": True}),
    ("verify net.onnx --against net.py:build", 0, {"matches": True, "runs.1.sizes": {"batch": 3}}),
    (
        "verify net.onnx --against net.py:changed --size batch=1,6",
        3,
        {"matches": False, "runs.1.sizes": {"batch": 6}, "first_wrong_node.operator": "Gemm"},
    ),
    ("verify net.onnx --against net.py:changed --tolerance 2", 0, {"runs.0.matches": True}),
    ("verify plain.onnx --against net.py:build", 3, {"first_wrong_node.found": False}),
    ("compare plain.onnx plain.onnx", 0, {"runs.0.matches": True, "graph.operators": {}}),
    ("compare plain.onnx net.onnx", 3, {"graph.operators.Gemm": [0, 1], "graph.weights.weight": "in the first only"}),
    (
        "compare plain.onnx branches.onnx",
        3,
        {
            "graph.operators.If": [0, 1],
            "runs": [],
            "not_compared": "plain.onnx has 1 inputs (x), branches.onnx has 2 inputs (x, flag).",
        },
    ),
    (
        "compare plain.onnx functions.onnx",
        3,
        {"not_compared": "x of plain.onnx is float32 [batch, 4], x of functions.onnx is float32 [n, 2]."},
    ),
    ("compare plain.onnx fixed.onnx", 0, {"runs.0.sizes": {"batch": 5}, "graph.ports.0.2": "float32 [5, 4]"}),
    (
        "convert plain.onnx to13.onnx --opset 13 --verify",
        0,
        {"before.opset": 17, "after.opset": 13, "runs.1.matches": True},
    ),
    (
        "convert old.onnx to20.onnx --opset 20 --verify",
        0,
        {"before.opset": 9, "after.opset": 20, "runs.1.matches": True},
    ),
    ("convert old.onnx same.onnx", 0, {"after.opset": 9, "after.nodes": 5}),
    ("convert branches.onnx branches7.onnx --opset 11 --verify", 0, {"after.opset": 11, "after.ir_version": 6}),
    ("convert functions.onnx f6.onnx --opset 13 --ir-version 7 --verify", 0, {"after.ir_version": 7, "after.nodes": 2}),
    ("convert plain.onnx plain7.onnx --ir-version 7", 0, {"after.ir_version": 7, "after.opset": 17}),
    ("convert data.onnx small.onnx --opset 20 --external-data --verify", 0, {"after.operators.MatMul": 1}),
    ("convert plain.onnx openvino.onnx --target openvino", 0, {"after.opset": 17}),
    ("optimize wasteful.onnx lean.onnx --verify", 0, {"before.nodes": 6, "after.operators": {"Relu": 1, "Add": 1}}),
    ("optimize functions.onnx lean.onnx --verify", 0, {"after.opset": 17}),
    ("optimize branches.onnx lean.onnx --verify", 0, {"runs.0.matches": True}),
    ("optimize old.onnx lean.onnx --verify", 0, {"after.opset": 9, "after.ir_version": 4}),
    ("report plain.onnx page.html", 0, {"report": "page.html"}),
    ("report net.onnx", 0, {"report": "net.html"}),
    ("doctor", 0, {"healthy": True, "packages.0.name": "torch", "checks.4.what": "export of a layer"}),
    ("compare plain.onnx data.onnx --runs 0", 0, {"graph.operators": {}, "runs": [], "milliseconds": None}),
]


@pytest.mark.parametrize(("line", "code", "facts"), DOCUMENTS, ids=[row[0] for row in DOCUMENTS])
def test_documents(line: str, code: int, facts: dict[str, object]) -> None:
    result = run(f"{line} --json")
    assert result.exit_code == code, result.output
    found = document(result)
    assert {path: at(found, path) for path in facts} == facts
    # The same for people: as long a story, and no JSON.
    told = run(line)
    assert told.exit_code == code and told.stdout and "{" not in told.stdout
    assert "\x1b" not in told.stdout, "no colours where nobody looks"


REFUSALS = [
    ("inspect absent.onnx", "absent.onnx can't be read as an ONNX model: No such file"),
    ("inspect hostile/cut.onnx", "cut.onnx can't be read as an ONNX model"),
    ("inspect hostile/junk.onnx", "junk.onnx can't be read as an ONNX model"),
    ("run hostile/empty.onnx", "empty.onnx can't be read as an ONNX model"),
    ("inspect hostile/parent.onnx", "'../secret.bin', which is no place below its own folder"),
    ("run hostile/absolute.onnx", "secret.bin', which is no place below its own folder"),
    ("compare hostile/link.onnx plain.onnx", "a link that leads out of its folder"),
    ("verify hostile/parent.onnx --against net.py:build", "no place below its own folder"),
    ("run plain.onnx -i y=3,4", "y is not an input"),
    ("run plain.onnx -i 3,4 -i 3,4", "more inputs are given than the 1"),
    ("run plain.onnx -i wrong.npz", "x: dimension 1 is fixed at 4, got 5"),
    ("run plain.onnx -i pickled.pt", "pickled.pt holds a pickle of more than tensors"),
    ("run plain.onnx -i 3,4 --size batch=7", "the inputs that are given have batch=3"),
    ("convert hostile/parent.onnx out.onnx --opset 20", "no place below its own folder"),
    ("optimize hostile/link.onnx out.onnx", "a link that leads out of its folder"),
    ("convert hostile/cut.onnx out.onnx", "cut.onnx can't be read as an ONNX model"),
    ("convert plain.onnx out.onnx --target rknn", "the input x has sizes that vary: batch"),
    ("convert plain.onnx out.onnx --target rknn --opset 20", "reads opsets 12 to 19, not 20"),
    ("convert plain.onnx absent/out.onnx", "absent"),
    ("report hostile/parent.onnx", "no place below its own folder"),
    ("report plain.onnx absent/page.html", "absent/page.html can't be written: No such file"),
    ("verify plain.onnx --against net.py:raising", "net.py:raising raises NameError: name 'undefined' is not defined"),
    ("verify plain.onnx --against net.py:Raising", "net.py:27 in forward: raise ValueError"),
]


WRONG_FORMS = [
    ("run plain.onnx --size batch=x", "write name=number"),
    ("run plain.onnx --size n=3", "the inputs have no size 'n'; they have batch"),
    ("run plain.onnx -o out.txt", "outputs are saved as an .npz or a .pt file"),
    ("convert plain.onnx out.onnx --target other", "There is no target 'other'"),
    ("run plain.onnx -i x=3,four", "'four' is no size"),
    ("run plain.onnx -i x=3,4 -i x=2,4", "x is given 2 times"),
    ("run plain.onnx -i absent.npz", "There is no file absent.npz."),
    ("convert plain.onnx out.onnx --opset 99", "Opset 99 cannot be written"),
]


@pytest.mark.parametrize(
    ("line", "message", "code"),
    [*((*row, 1) for row in REFUSALS), *((*row, 2) for row in WRONG_FORMS)],
    ids=[row[0] for row in REFUSALS + WRONG_FORMS],
)
def test_refusals(line: str, message: str, code: int) -> None:
    result = run(line)
    assert result.exit_code == code
    assert message in result.stderr
    assert result.stdout == "" and "Traceback" not in result.stderr
    assert "/onnxport/" not in result.stderr, "no frame of the package"
    again = run(f"{line} --json")
    assert again.exit_code == code
    assert message in at(document(again), "error.message")  # type: ignore[operator]


@pytest.mark.parametrize("line", ["", "nonsense", "inspect", "run plain.onnx --nonsense", "verify plain.onnx"])
def test_wrong_calls(line: str) -> None:
    result = run(line)
    assert result.exit_code == 2
    assert "Usage" in result.output


def test_help_keeps_names_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    listed = run("--help").stdout
    for name in [command.name for command in app.registered_commands]:
        assert f"  {name} " in listed
        text = run(f"{name} --help").stdout
        assert max(map(len, text.splitlines())) <= 80
        assert "…" not in text and "--json" in text


def test_version() -> None:
    import onnxport

    assert run("--version").stdout == f"onnxport {onnxport.__version__}\n"


def test_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    from onnxport.command_line import doctor

    versions = {"torch": "2.8.0", "onnxruntime": ""}
    known = doctor._version
    monkeypatch.setattr(doctor, "_version", lambda name: versions.get(name, known(name)))
    result = run("doctor")
    assert result.exit_code == 1
    assert "too old: pip install --upgrade 'torch>=2.9'" in result.stdout
    assert "missing: pip install onnxruntime" in result.stdout


def test_strange_metadata(folder: Path) -> None:
    """Texts in the keys that this exporter reads, in forms of somebody else."""
    model = onnx.load(folder / "plain.onnx")
    for text in ("[", "3", "[1, 2]", "['a']", "(" * 500, "['a', 'b', 'c', 'd']"):
        for key in ("pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy", "pkg.torch.onnx.stack_trace"):
            onnx.helper.set_model_props(model, {key: text})
            model.graph.node[0].metadata_props.add(key=key, value=text)
        onnx.save(model, folder / "strange.onnx")
        for command in ("inspect", "report"):
            assert run(f"{command} strange.onnx").exit_code == 0
        model.graph.node[0].ClearField("metadata_props")


def test_saved_outputs(folder: Path) -> None:
    assert run("run plain.onnx -i x.npz -o saved.npz").exit_code == 0
    with np.load(folder / "saved.npz") as saved:
        assert np.array_equal(saved["y"], np.tile([22.0, 26.0, 30.0], (3, 1)))
    assert not list(folder.glob(".saved*"))
