"""The project around the code: what importing costs, what the README says, what the sources look like."""

import ast
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))


def python(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=300,
    )


HEAVY = ("torch", "onnx", "onnx_ir", "sympy", "numpy", "rich", "onnxruntime", "onnxscript", "transformers", "pytest")


def test_import_loads_nothing_heavy() -> None:
    """Nor does help, or the version; the public call adds torch, and what it works with comes with the first export."""
    code = (
        "import sys, onnxport, onnxport.command_line\nfrom typer.testing import CliRunner\nrun = CliRunner().invoke\n"
        "assert run(onnxport.command_line.app, ['--help']).exit_code == 0\n"
        "assert run(onnxport.command_line.app, ['export', '--help']).exit_code == 0\n"
        "print(*sys.modules)\nimport torch\nbefore = set(sys.modules)\nfrom onnxport import export\n"
        "print(*set(sys.modules) - before)"
    )
    done = python("-c", code)
    assert done.returncode == 0, done.stderr
    loaded, added = (line.split() for line in done.stdout.splitlines())
    assert [name for name in HEAVY if name in loaded] == []
    assert sorted(added) == ["onnxport.errors", "onnxport.export_call", "onnxport.export_types"]


def test_type_checkers_see_the_names_that_python_loads() -> None:
    import onnxport

    (checked,) = (
        node for node in ast.parse((ROOT / "src/onnxport/__init__.py").read_text()).body if isinstance(node, ast.If)
    )
    imports = [node for node in checked.body if isinstance(node, ast.ImportFrom)]
    seen = {alias.name: node.module for node in imports for alias in node.names}
    assert seen == onnxport._late_names.places
    assert sorted(seen) == sorted(onnxport.__all__)
    assert set(onnxport.__all__) <= set(dir(onnxport))
    assert all(getattr(onnxport, name) is not None for name in seen)


def test_names_that_are_modules_elsewhere() -> None:
    import onnxport.symbolic_opset9
    import onnxport.utils

    from onnxport.torch_onnx import utils

    assert onnxport.utils is utils and utils.__spec__.name == utils.__name__ == "onnxport.torch_onnx.utils"
    assert onnxport.symbolic_opset9.relu.__name__ == "relu"
    assert callable(onnxport.export)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("onnxport.Target")
    with pytest.raises(AttributeError, match="no attribute 'other'"):
        _ = onnxport.other


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_source_file(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 500
    assert not re.search(r"\b(TODO|FIXME|XXX)\b", text)
    assert path.stem not in {"utils", "helpers", "misc", "common"} or path.parent.name == "torch_onnx"


def _length(function: ast.FunctionDef) -> int:
    """The lines of a function from its signature to its end, without those of its docstring."""
    first = function.body[0]
    documented = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    docstring = (first.end_lineno or 0) - first.lineno + 1 if documented else 0
    return (function.end_lineno or 0) - function.lineno + 1 - docstring


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_functions_are_short(path: Path) -> None:
    functions = [n for n in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(n, ast.FunctionDef)]
    # The public call and its command have a line for each argument, and for each stage that is loaded late.
    limit = 92 if path.name in ("export_call.py", "export.py") else 60
    assert {function.name: _length(function) for function in functions if _length(function) > limit} == {}


def test_readme_is_short() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 100
    assert "make demo" in text and "make test" in text


def test_readme_compares_with_measured_figures_only() -> None:
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## How it compares")[1].split("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    measured = (ROOT / "benchmarks" / "RESULTS.md").read_text(encoding="utf-8").splitlines()
    assert len(rows) > 2
    assert [row for row in rows if row not in measured] == []


def test_demo_leaves_a_file_behind(tmp_path: Path) -> None:
    done = python("-X", "utf8", str(ROOT / "examples" / "mlp.py"), cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "failed" not in done.stdout
    assert (tmp_path / "mlp.onnx").stat().st_size > 0


def test_torch_pin_is_the_one_the_makefile_installs() -> None:
    pins = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    (torch_pin,) = [line for line in pins if line.startswith("torch==")]
    assert f"install -q {torch_pin}\n" in (ROOT / "Makefile").read_text(encoding="utf-8")
    assert not [line for line in pins if "@" in line or "/" in line or "+" in line.split("#")[0]]
