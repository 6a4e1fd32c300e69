"""The command line: what it reads, what it writes, what it says when it can't."""

from __future__ import annotations

import functools
import json
import sys
import types
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from safetensors.torch import save_file
from typer.testing import CliRunner

import onnxport
from onnxport.command_line import app

SOURCE = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 2)

    def forward(self, x):
        return self.linear(x).relu()

def number():
    return 3

CONSTANT = "net"

def sized(inner, *, outer=2):
    return torch.nn.Linear(inner, outer)

class Chosen(torch.nn.Module):
    def forward(self, x, *, twice=False):
        return x * 2 if twice else x

class Branching(torch.nn.Module):
    def forward(self, x):
        return x * 2 if x.shape[0] > 8 else x

class Failing(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fail()

    def fail(self):
        raise ValueError("no weights here")
"""
CONFIG = """
model = "net.py:Net"
output = "configured.onnx"
input = ["x=batch@3,4"]
opset = 15
external-data = true
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "net.py").write_text(SOURCE)
    module = torch.nn.Linear(4, 2)
    torch.jit.trace(module, torch.randn(3, 4)).save(str(tmp_path / "net.pt"))
    torch.export.save(torch.export.export(module, (torch.randn(3, 4),)), tmp_path / "net.pt2")
    torch.save(module.state_dict(), tmp_path / "weights.pt")
    wrapped = {f"module.{name}": weight for name, weight in module.state_dict().items()}
    torch.save({"epoch": 3, "state_dict": wrapped, "optimizer": {"state": {}, "param_groups": []}}, tmp_path / "run.pt")
    torch.save({"model": wrapped, "average": wrapped}, tmp_path / "two.pt")
    torch.save(module, tmp_path / "pickled.pt")
    save_file(module.state_dict(), tmp_path / "weights.safetensors")
    save_file({"weight": module.weight.detach()}, tmp_path / "half.safetensors")
    torch.save((torch.randn(5, 4),), tmp_path / "x.pt")
    np.savez(tmp_path / "x.npz", x=np.ones((5, 4), np.float32))
    (tmp_path / "only.py").write_text("import torch\nmodel = torch.nn.Linear(4, 2)\n")
    (tmp_path / "nothing.py").write_text("x = 3\n")
    (tmp_path / "builder.py").write_text("import torch\ndef build(width):\n    return torch.nn.Linear(width, 2)\n")
    (tmp_path / "broken.py").write_text("import torch\ndef build(:\n")
    (tmp_path / "junk.pt").write_bytes(b"junk")
    (tmp_path / "text.pt").write_bytes(b"x")
    (tmp_path / "export.toml").write_text(CONFIG)
    (tmp_path / "wrong.toml").write_text("opsett = 15")
    monkeypatch.chdir(tmp_path)
    return tmp_path


ROWS = [
    ("net.py:Net out.onnx -i x=batch@3,4 --opset 13 --verify", "out.onnx", 13, "batch"),
    ("net.py:Net -i batch@3,4:float32", "net.onnx", 20, "batch"),
    ("net.pt script.onnx -i rows@3,4 --opset 11", "script.onnx", 11, "rows"),
    ("net.pt2 captured.onnx", "captured.onnx", 20, 3),
    ("torch.nn:Identity same.onnx -i 5 --quiet", "same.onnx", 20, 5),
    ("only.py -i batch@3,4", "only.onnx", 20, "batch"),
    ("net.py:sized(4,outer=3) sized.onnx -i 3,4 --dtype float64 --verify", "sized.onnx", 20, 3),
    ("weights.safetensors w.onnx --arch net.py:sized(4) -i 3,4", "w.onnx", 20, 3),
    ("weights.pt w.onnx --arch net.py:sized(4) -i 3,4", "w.onnx", 20, 3),
    ("run.pt w.onnx --arch net.py:sized(4) -i 3,4", "w.onnx", 20, 3),
    ("pickled.pt p.onnx --allow-pickle -i 3,4", "p.onnx", 20, 3),
    ("net.py:Net x.onnx -i x=x.pt --dynamic x:0=rows --verify", "x.onnx", 20, "rows"),
    ("net.py:Net x.onnx -i x.npz", "x.onnx", 20, 5),
    ('net.py:Chosen x.onnx -i n@3,4 --kwargs {"twice":true}', "x.onnx", 20, "n"),
    ("net.py:Branching b.onnx -i x=n@3,4 --strict --verify", "b.onnx", 20, "n"),
    ("--config export.toml", "configured.onnx", 15, "batch"),
    ("--config export.toml net.py:Net other.onnx --opset 16", "other.onnx", 16, "batch"),
]


@pytest.mark.parametrize(("line", "written", "opset", "first"), ROWS, ids=[row[0].split()[0] for row in ROWS])
def test_export(folder: Path, line: str, written: str, opset: int, first: int | str) -> None:
    result = CliRunner().invoke(app, ["export", *line.split()])
    assert result.exit_code == 0, result.output
    model = onnx.load(folder / written)
    assert model.opset_import[0].version == opset
    size = model.graph.input[0].type.tensor_type.shape.dim[0]
    assert (size.dim_param or size.dim_value) == first
    assert ("--quiet" in line) == (written not in result.stdout)


REFUSALS = [
    ("absent.pt", "There is no file or folder absent.pt"),
    ("absent.py:Net", "There is no file absent.py"),
    ("absent_module:Net", "There is no Python module absent_module"),
    ("net.py:Other", "net.py has no Other"),
    ("net.py:number", "gives an object of type int, not a torch.nn.Module"),
    ("net.py:CONSTANT", "gives an object of type str, not a torch.nn.Module"),
    (
        "weights.pt",
        "holds a state dict: 2 weights, and no model. Name the code that builds the model: --arch",
    ),
    (
        "pickled.pt",
        "holds a pickled module, and loading it would run code from the file. Pass --allow-pickle",
    ),
    ("weights.safetensors", "weights.safetensors holds 2 tensors and no model"),
    ("text.pt", "text.pt is neither a TorchScript file nor one of torch.save"),
    ("junk.pt", "junk.pt is neither a TorchScript file nor one of torch.save"),
    ("absent.pt --arch net.py:sized(4)", "There is no file or folder absent.pt"),
    ("half.safetensors --arch net.py:sized(4)", "the model's bias is not in the file"),
    ("weights.safetensors --arch net.py:sized(5)", "weight: the model has the shape [2, 5], the file [2, 4]"),
    ("weights.safetensors --arch net.py:Net", "weight are in the file and not in the model"),
    ("weights.safetensors --arch net.pt2", "--arch names a captured program"),
    ("net.py", "net.py has several models; name one of net.py:Net, net.py:Chosen"),
    ("nothing.py", "nothing.py has no module, and no function or class that makes one"),
    ("builder.py", "Write 'builder.py:build(...)' with its arguments."),
    ("broken.py:build", "broken.py:2: def build(:"),
    ("net.py:Failing", "net.py:Failing raises ValueError: no weights here"),
    ("net.py:Failing", "in fail: raise ValueError"),
    ("net.py:sized", "missing 1 required positional argument: 'inner'"),
    ("timm:resnet18", "timm is not installed: pip install timm"),
    (".", "has no config.json, so it is no checkpoint of transformers"),
    ("net.py:Net", "net.py:Net takes x, of which there is no example: --input x="),
    ("net.pt2 --dtype float16", "whose element types are fixed"),
    (
        "net.py:Branching -i x=n@3,4 --branches follow --strict",
        "since there are warnings (--strict)",
    ),
    ("net.py:Net absent/net.onnx -i x=3,4", "absent"),
    ("net.py:Net -i x=b@3,4 -i 3", "x is given twice, by its name and in order"),
    ("run.pt", "holds a state dict under 'state_dict': 2 weights, and no model"),
    ("two.pt --arch net.py:sized(4)", "two.pt holds several state dicts (model, average)"),
]


@pytest.mark.parametrize(("line", "message"), REFUSALS, ids=[row[0] for row in REFUSALS])
def test_refused_exports(folder: Path, line: str, message: str) -> None:
    result = CliRunner().invoke(app, ["export", *line.split()])
    assert result.exit_code == 1
    assert message in result.stderr
    assert "Traceback" not in result.stderr and "/onnxport/" not in result.stderr
    assert not list(folder.glob("*.onnx"))


def test_other_arguments_become_part_of_the_graph(folder: Path) -> None:
    line = ["export", "net.py:Chosen", "chosen.onnx", "-i", "x=n@3", "--kwargs", '{"twice": true}', "--json"]
    result = CliRunner().invoke(app, line)
    assert result.exit_code == 0, result.output
    assert [node.op_type for node in onnx.load(folder / "chosen.onnx").graph.node] == ["Mul"]
    found = json.loads(result.stdout)
    assert found["inputs"] == [{"name": "x", "type": "float32", "shape": ["n"]}]
    assert found["bytes"] == {"chosen.onnx": (folder / "chosen.onnx").stat().st_size}
    assert {"capture", "translate", "save"} <= set(found["seconds"])


def test_a_library_of_models(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = types.ModuleType("torchvision.models")
    library.get_model = lambda name, weights=None: {"linear": torch.nn.Linear(4, 2)}[name]  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torchvision", types.ModuleType("torchvision"))
    monkeypatch.setitem(sys.modules, "torchvision.models", library)
    line = ["export", "torchvision:linear(weights='best')", "linear.onnx", "-i", "3,4", "--verify"]
    result = CliRunner().invoke(app, line)
    assert result.exit_code == 0, result.output
    assert "comparisons agree" in result.stdout


WRONG_CALLS = [
    ("--config wrong.toml net.py:Net", "Usage"),
    ("--config absent.toml", "Usage"),
    ("net.py:Net --branches maybe", "Usage"),
    ("net.py:sized(inner)", "arguments are numbers, texts, lists and the like"),
    ("net.py:Net -i x=3,4 --kwargs [1]", "write an object"),
    ("net.py:Net -i x=3,4 --kwargs {", "not JSON"),
    ("net.py:Net -i x=x.npz --dynamic y:0=n", "there is no input y with an axis 0; there is x with 2 axes"),
    ("net.py:Net -i x=x.npz --dynamic n", "write input:axis=label"),
    ("net.py:Net -i x=3,four", "'four' is no size"),
    ("net.py:Net -i x=3,4:float33", "torch has no dtype 'float33'"),
    ("net.py:Net -i x=3,4 --dtype half33", "torch has no dtype 'half33'"),
    ("net.py:Net -i x=3,4 --opset 99", "Opset 99 cannot be written"),
    ("net.py:Net -i absent.npz", "There is no file absent.npz."),
    ("net.py:Net -i x=3,4 --target tracked", "There is no target 'tracked'; did you mean 'tract'?"),
    ("net.py:Net -i x=3,4 --quantize int5", "There is no quantization 'int5'"),
    ("net.py:Net -i x=3,4 --quantize int4:block=32", "'block=32' is no option of a quantization"),
]


@pytest.mark.parametrize(("line", "message"), WRONG_CALLS, ids=[row[0] for row in WRONG_CALLS])
def test_wrong_exports(folder: Path, line: str, message: str) -> None:
    result = CliRunner().invoke(app, ["export", *line.split()])
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr and not list(folder.glob("*.onnx"))


def test_a_wrong_result_has_an_exit_code_of_its_own(folder: Path) -> None:
    def wrong(op: object, x: object) -> object:
        return op.Neg(x)  # type: ignore[attr-defined]

    table = {torch.ops.aten.relu.default: wrong}
    given = functools.partial(onnxport.export, custom_translation_table=table)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("onnxport.export_call.export", given)
        result = CliRunner().invoke(app, ["export", "net.py:Net", "-i", "x=3,4", "--verify"])
    assert result.exit_code == 3
    assert "0 of 2 comparisons agree" in result.stdout


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "raise RuntimeError('operator torchvision::nms does not exist')",
            "(operator torchvision::nms does not exist)",
        ),
        ("import a_package_that_is_not_there", "(No module named 'a_package_that_is_not_there')"),
    ],
)
def test_a_library_that_is_broken(folder: Path, code: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "timm").mkdir()
    (folder / "timm" / "__init__.py").write_text(code)
    monkeypatch.syspath_prepend(folder)
    result = CliRunner().invoke(app, ["export", "timm:resnet18", "-i", "1,3,32,32"])
    assert result.exit_code == 1
    assert f"timm can't be imported {said}. Install what it needs" in result.output
    assert "Traceback" not in result.output


def test_an_input_of_another_name(folder: Path) -> None:
    result = CliRunner().invoke(app, ["export", "net.py:Net", "-i", "y=3,4"])
    assert (result.exit_code, "net.py:Net takes x; y is none of its inputs." in result.output) == (1, True)
