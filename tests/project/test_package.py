"""The wheel and the source distribution: built, installed where nothing else of the project is, and whole."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ("src", "pyproject.toml", "README.md", "LICENSE", "setup.cfg")


def python(*arguments: str, cwd: Path, **environment: str) -> str:
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command, cwd=cwd, env={**kept, **environment}, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both, built from a copy: building leaves files beside the sources."""
    pytest.importorskip("setuptools", minversion="77")
    folder = tmp_path_factory.mktemp("built")
    copy = folder / "copy"
    copy.mkdir()
    for name in SOURCES:
        path = ROOT / name
        ignored = shutil.ignore_patterns("__pycache__", "*.egg-info")
        shutil.copytree(path, copy / name, ignore=ignored) if path.is_dir() else shutil.copy(path, copy / name)
    code = f"from setuptools import build_meta as b; b.build_sdist({str(folder)!r}); b.build_wheel({str(folder)!r})"
    python("-c", code, cwd=copy)
    shutil.rmtree(copy)
    return folder


def package_files() -> set[str]:
    """What of the package is in the repository, but for what Python makes."""
    files = (path for path in (ROOT / "src" / "onnxport").rglob("*") if path.is_file())
    return {path.relative_to(ROOT / "src").as_posix() for path in files if "__pycache__" not in path.parts}


def test_the_wheel_has_every_file_of_the_package(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        inside = {name for name in archive.namelist() if name.startswith("onnxport/")}
    assert inside == package_files()
    assert "onnxport/py.typed" in inside


def test_the_source_distribution_has_them_too(built: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as content:
        inside = {name.split("/src/")[1] for name in content.getnames() if "/src/onnxport/" in name}
    assert {name for name in inside if Path(name).suffix} >= package_files()


def test_the_wheel_is_installed_and_runs(built: Path, tmp_path: Path) -> None:
    (wheel,) = built.glob("*.whl")
    python(
        "-m",
        "pip",
        "install",
        "-q",
        "--no-deps",
        "--no-index",
        "--target",
        str(tmp_path / "there"),
        str(wheel),
        cwd=tmp_path,
    )
    code = (
        "import importlib.metadata as m, onnxport, onnxport.command_line\n"
        "print(onnxport.__file__, onnxport.__version__ == m.version('onnxport'))\n"
        "print([e.value for e in m.entry_points(group='console_scripts') if e.name == 'onnxport'][0])"
    )
    there = str(tmp_path / "there")
    place, entry = python("-c", code, cwd=tmp_path, PYTHONPATH=there).splitlines()
    assert place == f"{there}/onnxport/__init__.py True"
    assert entry == "onnxport.command_line:app"
    shown = python("-m", "onnxport", "export", "--help", cwd=tmp_path, PYTHONPATH=there)
    assert "--opset" in shown
