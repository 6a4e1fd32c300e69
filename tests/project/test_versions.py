"""What is declared of versions is what is checked, and what is too old is refused with a sentence."""

import tomllib
from pathlib import Path

import onnx_ir
import pytest
import torch

import onnxport
from onnxport import versions

ROOT = Path(__file__).parents[2]


def test_oldest_versions_are_those_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == versions.VERSION == onnxport.__version__
    declared = [requirement.split(">=") for requirement in project["dependencies"] if ">=" in requirement]
    assert dict(declared) == versions.OLDEST
    page = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
    assert all(f"{name} {version}" in page for name, version in versions.OLDEST.items())


@pytest.mark.parametrize(
    ("module", "version"), [(torch, "2.8.0+cpu"), (torch, "1.13.1"), (onnx_ir, "0.2.1")], ids=["2.8", "1.13", "onnx_ir"]
)
def test_older_is_refused(module: object, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "__version__", version)
    name = module.__name__  # type: ignore[attr-defined]
    sentence = rf"works with {name} [\d.]+ and later, but {version.replace('+', '.')} is installed.*pip install"
    with pytest.raises(ImportError, match=sentence):
        versions.require([name])


@pytest.mark.parametrize("version", ["2.9.0", "2.10.0a0+git1234567", "2.15.1+cu130", "3.0"])
def test_later_is_not(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "__version__", version)
    versions.require(["torch"])
