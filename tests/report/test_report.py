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
from onnxport.rendering import graph_data

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
    for part in ("exported</span>", "<svg", "elements by absolute difference", "Sin", "Add", "<td>input</td>"):
        assert part in page
    # Nothing is to be seen in plots of differences that are none.
    assert "<details><summary>How the differences are spread" in page


def test_the_page_shows_decisions_before_figures(tmp_path: Path) -> None:
    class Branching(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if x.sum() > 0 else x - 1

    onnxport.export(Branching(), (X,), tmp_path / "model.onnx", report=True, artifacts_dir=tmp_path)
    page = check_page(only(tmp_path, "*.html"))
    places = [page.index(part) for part in ("<dt>file</dt>", "<h2>Inputs and outputs", "<h2>Branches", "<h2>Graph")]
    assert places == sorted(places)
    size = (tmp_path / "model.onnx").stat().st_size
    assert f"model.onnx, {size / 1000:.3g} kB" in page
    assert re.search(r">capture</text>.*?\d s(, \+[\d.]+ [kM]?B)?<", page)


def test_a_failure_shows_the_code_around_its_line(tmp_path: Path) -> None:
    with pytest.raises(OnnxExporterError):
        onnxport.export(Untraceable(), (X, X), report=True, artifacts_dir=tmp_path)
    page = check_page(only(tmp_path, "*.html"))
    marked = re.findall(r'<span class="here"><i>.*?</i>(.*?)</span>', page)
    assert [line.strip() for line in marked] == ["return x @ torch.ones(7, 2)  # does not fit"]
    assert "class Untraceable(nn.Module):" in page.split("<details>")[0]


def test_the_graph_view_has_every_node_with_its_line(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(10, 10), nn.Sequential(nn.ReLU(), nn.Linear(10, 2)))
    program = onnxport.export(model, (X,), dynamic_shapes=({0: "n"},))
    data: Any = graph_data(program.model, "Sequential")
    shown = [(node["op"], data["groups"][node["group"]]["name"]) for node in data["nodes"]]
    assert shown == [("input", "Sequential"), ("Gemm", "0"), ("Relu", "1.0"), ("Gemm", "1.1"), ("output", "Sequential")]
    (first,) = [node for node in data["nodes"] if node["group"] == 1]
    assert [data["values"][value][:3] for value in first["in"][1:]] == [
        ["0.weight", "FLOAT[10,10]", "weight"],
        ["0.bias", "FLOAT[10]", "weight"],
    ]
    assert data["lines"][first["line"]] == "the module '0', a Linear"


def test_branches_and_functions_are_groups_of_the_graph_view() -> None:
    class Branching(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * 2 if x.sum() > 0 else x - 1

    data: Any = graph_data(onnxport.export(Branching(), (X,)).model)
    (whole,) = [number for number, group in enumerate(data["groups"]) if group["kind"] == "If"]
    sides = [number for number, group in enumerate(data["groups"]) if group["parent"] == whole]
    assert [data["groups"][side]["name"] for side in sides] == ["then_branch", "else_branch"]
    (given,) = [node["in"][0] for node in data["nodes"] if node["op"] == "output"]
    assert {node["group"] for node in data["nodes"] if given in node["out"]} <= set(sides)
    with warnings.catch_warnings(action="ignore"):
        program = onnxport.export(
            nn.Sequential(*(nn.Sequential(nn.ReLU()) for _ in range(2))), (X,), export_modules_as_functions={nn.ReLU}
        )
    data = graph_data(program.model)
    relus = [node for node in data["nodes"] if node["op"] == "Relu"]
    # What the first call gives is what the second takes.
    assert len(relus) == 2 and relus[0]["out"] == relus[1]["in"]


def test_a_module_with_many_calls_is_shown_in_parts() -> None:
    class Long(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(300):
                x = torch.sin(x)
            return x

    data: Any = graph_data(onnxport.export(Long(), (X,)).model)
    assert [group["name"] for group in data["groups"]][1:] == ["calls from 241"]
    assert sum(node["group"] == 0 for node in data["nodes"]) == 240


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
    assert "`output` (n=11): `max_abs_diff=" in text
    assert "`output` (exported program): `max_abs_diff=" in text
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
    flames = check_page(only(tmp_path, "*_flame.html"))
    name, samples, _, calls = json.loads(flames.split('id="flame-data">')[1].split("</script>")[0])
    assert name == "export" and samples == sum(call[1] for call in calls)
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
