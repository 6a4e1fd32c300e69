"""The report: as documented on success, and complete at every stage of failure."""

from __future__ import annotations

import itertools
import json
import re
import sys
import warnings
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch
from spec_example import Model
from torch import nn

import onnxport
from onnxport.errors import OnnxExporterError, OnnxExporterWarning, OpsetError, SaveError

GOLDEN = Path(__file__).with_name("golden_report.md")
X = torch.linspace(-3, 3, 100).reshape(10, 10)
SIN = torch.ops.aten.sin.default

torch.library.define("onnxport_report::opaque", "(Tensor x) -> Tensor")
torch.library.impl("onnxport_report::opaque", "cpu", lambda x: x.clone())
torch.library.register_fake("onnxport_report::opaque", lambda x: torch.empty_like(x))


class Opaque(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.ops.onnxport_report.opaque(x) + y  # unknown


class Untraceable(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x @ torch.ones(7, 2)  # does not fit


class OnlyStrict(nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if not torch.compiler.is_dynamo_compiling():
            raise RuntimeError("only bytecode tracing can do this")
        return x + y


def masked(text: str) -> str:
    """Without versions, paths, figures, and the blanks at line ends that torch's printing leaves."""
    text = re.sub(r"# File: \S+ in", "# File: spec_example.py in", text)
    text = re.sub(r"producer_version='[^']*'", "producer_version='VERSION'", text)
    text = re.sub(r"(max_(?:abs|rel)_diff)=[0-9.e+-]+", r"\1=FIGURE", text)
    text = re.sub(r"^hist=tensor.*$", "hist=FIGURES,", text, flags=re.M)
    return re.sub(r"[ ]+$", "", text, flags=re.M)


def only(folder: Path, pattern: str) -> Path:
    (path,) = folder.glob(pattern)
    return path


def status(report: str) -> str:
    """The signs in front of the eight steps."""
    return "".join(line[0] for line in report.split("```")[1].strip().splitlines())


class Checker(HTMLParser):
    """Finds elements that are not closed, and anything the page would load."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [f"{tag} {value}" for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "rect", "line"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.loads += [f"{tag} {value}" for name, value in attrs if name in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("rect", "line"):
            assert self.open.pop() == tag


def check_page(path: Path) -> str:
    text = path.read_text(encoding="utf-8")
    checker = Checker()
    checker.feed(text)
    checker.close()
    assert checker.open == []
    assert checker.loads == []
    assert "@import" not in text
    assert "url(" not in text
    return text


def test_the_documented_report(tmp_path: Path) -> None:
    onnxport.export(Model(), (X, X), opset_version=18, verify=True, report=True, artifacts_dir=tmp_path)
    report = only(tmp_path, "*.md")
    assert re.fullmatch(r"onnx_export_\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d-\d{6}_success\.md", report.name)
    assert masked(report.read_text(encoding="utf-8")) == GOLDEN.read_text(encoding="utf-8")
    page = check_page(only(tmp_path, "*_success.html"))
    for part in ("exported</span>", "<svg", "elements by absolute difference", "Sin", "Add"):
        assert part in page


@pytest.mark.parametrize("stage", ["prepare", "translate", "optimize", "legalize"])
def test_a_stage_that_fails(stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise OpsetError("this cannot be had")

    monkeypatch.setattr(sys.modules["onnxport.pipeline"], stage, fail)
    with pytest.raises(OpsetError, match="this cannot be had\nSee ") as caught:
        onnxport.export(Model(), (X, X), report=True, artifacts_dir=tmp_path)
    word = "decomp" if stage == "prepare" else "conversion"
    report = only(tmp_path, f"*_{word}.md")
    assert str(report) in str(caught.value)
    text = report.read_text(encoding="utf-8")
    assert status(text) == ("✅⚪⚪❌⚪⚪⚪⚪" if stage == "prepare" else "✅⚪⚪✅❌⚪⚪⚪")
    assert "OpsetError: this cannot be had" in text
    assert "## Exported program" in text
    assert ("## ONNX model" in text) == (stage in ("optimize", "legalize"))
    assert "this cannot be had" in check_page(only(tmp_path, f"*_{word}.html"))


def test_a_capture_that_fails(tmp_path: Path) -> None:
    with pytest.raises(OnnxExporterError, match="could not be captured") as caught:
        onnxport.export(Untraceable(), (X, X), report=True, artifacts_dir=tmp_path / "new")
    report = only(tmp_path / "new", "*_pt_export.md")
    text = report.read_text(encoding="utf-8")
    assert str(report) in str(caught.value)
    assert text.startswith("# PyTorch ONNX Conversion Error Report\n\n```\n❌")
    assert status(text) == "❌❌❌❌⚪⚪⚪⚪⚪"
    assert text.count("Traceback (most recent call last)") >= 3
    page = check_page(only(tmp_path / "new", "*_pt_export.html"))
    assert "return x @ torch.ones(7, 2)  # does not fit" in page


def test_functions_that_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise OpsetError("this cannot be had")

    monkeypatch.setattr(sys.modules["onnxport.pipeline"], "outline", fail)
    with pytest.raises(OpsetError), pytest.warns(DeprecationWarning):
        onnxport.export(Model(), (X, X), report=True, artifacts_dir=tmp_path, export_modules_as_functions=True)
    assert status(only(tmp_path, "*_conversion.md").read_text(encoding="utf-8")) == "✅⚪⚪✅❌⚪⚪⚪"
    check_page(only(tmp_path, "*_conversion.html"))


def test_verification_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("no runtime here")

    monkeypatch.setattr(sys.modules["onnxport.exporter"], "verify_program", fail)
    with pytest.raises(RuntimeError, match="no runtime here"):
        onnxport.export(Model(), (X, X), report=True, verify=True, artifacts_dir=tmp_path)
    text = only(tmp_path, "*_failed.md").read_text(encoding="utf-8")
    assert status(text) == "✅⚪⚪✅✅⚪⚪⚪"
    assert "RuntimeError: no runtime here" in text
    assert "no runtime here" in check_page(only(tmp_path, "*_failed.html"))


def test_an_operator_without_translation(tmp_path: Path) -> None:
    with pytest.raises(OnnxExporterError, match="has no translation"):
        onnxport.export(Opaque(), (X, X), report=True, artifacts_dir=tmp_path)
    text = only(tmp_path, "*_conversion.md").read_text(encoding="utf-8")
    assert "- `onnxport_report.opaque.default`: no translation; first at " in text
    page = check_page(only(tmp_path, "*_conversion.html"))
    assert "Operators without a translation" in page
    assert "# unknown" in page


def test_a_strategy_that_failed_before_one_that_did_not(tmp_path: Path) -> None:
    onnxport.export(OnlyStrict(), (X, X), report=True, artifacts_dir=tmp_path)
    text = only(tmp_path, "*_strategies.md").read_text(encoding="utf-8")
    assert status(text) == "❌✅⚪✅✅⚪⚪⚪"
    assert "RuntimeError: only bytecode tracing can do this" in text


def test_a_wrong_model(tmp_path: Path) -> None:
    with pytest.warns(OnnxExporterWarning, match="does not give what the model gives"):
        onnxport.export(
            Model(),
            (X, X),
            dynamic_shapes=({0: "n"}, {0: "n"}),
            verify=True,
            report=True,
            artifacts_dir=tmp_path,
            custom_translation_table={SIN: lambda op, self: op.Cos(self)},
        )
    text = only(tmp_path, "*_accuracy.md").read_text(encoding="utf-8")
    assert status(text) == "✅⚪⚪✅✅✅✅❌"
    assert "`add` (n=11): `max_abs_diff=" in text
    assert "`add` (exported program): `max_abs_diff=" in text
    page = check_page(only(tmp_path, "*_accuracy.html"))
    assert "does not agree" in page
    assert 'class="bar bad"' in page


def test_a_file_that_cannot_be_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **kwargs: Any) -> None:
        raise SaveError("no space left")

    monkeypatch.setattr("onnxport.program.onnx_program.save_model", fail)
    with pytest.raises(SaveError, match=r"no space left\nSee .*_save.md"):
        onnxport.export(Model(), (X, X), tmp_path / "model.onnx", report=True, artifacts_dir=tmp_path)
    assert status(only(tmp_path, "*_save.md").read_text(encoding="utf-8")) == "✅⚪⚪✅✅⚪⚪⚪"


def test_modules_are_a_tree(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(10, 10), nn.Sequential(nn.ReLU(), nn.Linear(10, 2)))
    onnxport.export(model, (X,), report=True, artifacts_dir=tmp_path)
    page = check_page(only(tmp_path, "*.html"))
    assert "<b>Sequential</b>" in page
    assert '<b>1.1</b> <span class="quiet">Linear</span>' in page


def test_functions_are_opened_in_the_tree(tmp_path: Path) -> None:
    model = nn.Sequential(*(nn.Sequential(nn.Linear(10, 10), nn.ReLU()) for _ in range(2)))
    pages = []
    for folder, functions in (("flat", False), ("functions", {nn.Sequential, nn.Linear})):
        with warnings.catch_warnings(action="ignore"):
            onnxport.export(
                model, (X,), report=True, artifacts_dir=tmp_path / folder, export_modules_as_functions=functions
            )
        page = check_page(only(tmp_path / folder, "*.html"))
        pages.append(re.findall(r"<b>([\d.]+)</b>|<code>(Gemm|MatMul|Add|Relu)</code>", page))
    assert pages[0] == pages[1] and len(pages[0]) >= 6


def test_an_axis_that_the_capture_took_for_granted_is_on_the_page(tmp_path: Path) -> None:
    class Even(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x[:, 0].reshape(-1, 2)

    onnxport.export(Even(), (X,), dynamic_shapes=({0: "n"},), report=True, artifacts_dir=tmp_path)
    assert "<h2>Assumptions</h2>" in check_page(only(tmp_path, "*.html"))


def test_profile(tmp_path: Path) -> None:
    onnxport.export(Model(), (X, X), profile=True, report=True, artifacts_dir=tmp_path)
    assert "cumulative" in only(tmp_path, "*_profile.txt").read_text(encoding="utf-8")
    assert "## Profiling result" in only(tmp_path, "*.md").read_text(encoding="utf-8")
    trace = json.loads(only(tmp_path, "*_trace.json").read_text(encoding="utf-8"))["traceEvents"]
    stages = [entry for entry in trace if entry["ph"] == "X"]
    assert [entry["name"] for entry in stages] == ["capture", "prepare", "translate", "optimize", "legalize"]
    assert all(one["ts"] + one["dur"] <= other["ts"] for one, other in itertools.pairwise(stages))


def test_the_exported_program_can_be_loaded(tmp_path: Path) -> None:
    onnxport.export(Model(), (X, X), dump_exported_program=True, artifacts_dir=tmp_path)
    program = torch.export.load(only(tmp_path, "*.pt2"))
    assert torch.equal(program.module()(X, X), torch.sin(X) + X)


def test_nothing_is_written_unless_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnxport.export(Model(), (X, X))
    assert list(tmp_path.iterdir()) == []


def test_a_report_that_cannot_be_written_does_not_cost_the_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(account: object) -> str:
        raise ValueError("no report today")

    monkeypatch.setattr("onnxport.artifacts.markdown", fail)
    with pytest.warns(OnnxExporterWarning, match="could not be written: ValueError: no report today"):
        program = onnxport.export(Model(), (X, X), report=True, artifacts_dir=tmp_path)
    assert program(X, X)[0].shape == (10, 10)


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OnnxExporterError, match=r"file/x \(artifacts_dir\) cannot be made"):
        onnxport.export(Model(), (X, X), report=True, artifacts_dir=tmp_path / "file" / "x")
