"""Runs a core selection of the tests with other versions of torch, each in an environment of its own.

    python tools/versions.py                       all of VERSIONS, one after another
    python tools/versions.py 2.9.0 2.15.0          these
    python tools/versions.py oldest --env .venv-oldest --keep --only capture prepare program

An environment is built, used and removed before the next; ``--keep`` leaves it for the next run. What was counted takes
its place in the table of docs/compatibility.md, where the rows of versions that weren't run stay as they are.

``oldest`` is torch's oldest version with the oldest of everything else that pyproject.toml declares.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "compatibility.md"
VERSIONS = ("2.9.0", "2.10.0", "2.11.0", "2.12.1", "2.13.0", "2.14.1", "2.15.0")
# What is run, by the heading of its column. Of the operators, every third test.
SELECTION = {
    "capture": "tests/capture",
    "prepare": "tests/prepare",
    "program": "tests/program",
    "operators": "tests/ops/test_cases.py",
    "models": "tests/models/test_zoo.py",
}
OPERATORS = "tests/ops/test_cases.py"
PACKAGES = ("torch", "python", "onnx", "onnx_ir", "onnxruntime")


@dataclass(frozen=True)
class Count:
    """How many tests of one part passed, of those that were run, and the names of the others."""

    passed: int
    run: int
    failed: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.passed} of {self.run}" if self.run else "–"


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Keep every third test of the operators that this torch has; this module is a plugin of the runs it starts."""
    from onnxport.translate.registry import torch_schema

    operators = [item for item in items if item.nodeid.startswith(OPERATORS)]
    left_out = {
        id(item)
        for index, item in enumerate(operators)
        if index % 3 or not all(torch_schema(name) for name in item.callspec.params["row"].covers if "aten::" in name)
    }
    config.hook.pytest_deselected(items=[item for item in items if id(item) in left_out])
    items[:] = [item for item in items if id(item) not in left_out]


def declared() -> list[str]:
    """What pyproject.toml says the package needs, and its tests, without torch."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    return [requirement for requirement in needed if re.split(r"[<>=]", requirement)[0] != "torch"]


def oldest(requirements: Iterable[str]) -> list[str]:
    """The lowest version that each requirement allows, where it names one."""
    return [requirement.replace(">=", "==") for requirement in requirements]


def build(environment: Path, torch: str, requirements: Sequence[str], constraints: Path | None) -> Path:
    """Make an environment and return its interpreter; one that is there already is used as it is."""
    python = environment / "bin" / "python"
    done = environment / ".onnxport-installed"
    wanted = "\n".join([torch, *requirements])
    if done.exists() and done.read_text(encoding="utf-8") == wanted:
        return python
    venv.create(environment, clear=True, with_pip=True)
    quietly = ["-q", "--no-cache-dir", "--no-compile", "--disable-pip-version-check"]
    install = [str(python), "-m", "pip", "install", *quietly]
    subprocess.run([*install, f"torch=={torch}"], check=True)
    pins = [] if constraints is None else ["-c", str(constraints)]
    subprocess.run([*install, *pins, *requirements], check=True)
    done.write_text(wanted, encoding="utf-8")
    return python


def run(python: Path, parts: Sequence[str], workers: int) -> dict[str, Count]:
    """Run the parts and count."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        arguments = [*("-m", "pytest", "-q", "-p", "versions", "-p", "no:cacheprovider")]
        arguments += ["-n", str(workers), "--tb=short", f"--junitxml={report}"]
        paths = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([f"{ROOT}/src", f"{ROOT}/tools"])}
        subprocess.run([python, *arguments, *(SELECTION[part] for part in parts)], cwd=ROOT, env=paths)
        cases = list(ElementTree.parse(report).iter("testcase"))
    return {part: _count(case for case in cases if _is_in(case, SELECTION[part])) for part in parts}


def _is_in(case: ElementTree.Element, path: str) -> bool:
    return case.get("classname", "").startswith(path.removesuffix(".py").replace("/", "."))


def _count(cases: Iterable[ElementTree.Element]) -> Count:
    outcomes = {f"{case.get('classname')}.{case.get('name')}": {child.tag for child in case} for case in cases}
    ran = {name: tags for name, tags in outcomes.items() if "skipped" not in tags}
    failed = tuple(name for name, tags in ran.items() if tags & {"failure", "error"})
    return Count(len(ran) - len(failed), len(ran), failed)


def installed(python: Path) -> list[str]:
    """The versions of what matters, as an environment has them."""
    code = "import sys, importlib.metadata as m; print(sys.version.split()[0], *map(m.version, sys.argv[1:]))"
    told = subprocess.run(
        [python, "-c", code, *(name for name in PACKAGES if name != "python")],
        check=True,
        capture_output=True,
        text=True,
    )
    interpreter, torch, *others = told.stdout.split()
    return [torch.partition("+")[0], interpreter, *others]


def write_row(versions: Sequence[str], counts: dict[str, Count]) -> None:
    """Put the counts in the table, in the place of the row for the same versions."""
    cells = [str(counts[part]) if part in counts else "–" for part in SELECTION]
    row = f"| {' | '.join([*versions, *cells])} |"
    text = PAGE.read_text(encoding="utf-8")
    head, start, rest = text.partition("<!-- rows of tools/versions.py -->\n")
    table, end, tail = rest.partition("<!-- end of rows -->")
    title, rule, *rows = table.splitlines()
    kept = [old for old in rows if _cells(old)[: len(versions)] != list(versions)]
    ordered = sorted([*kept, row], key=lambda one: [_number(cell) for cell in _cells(one)[: len(versions)]])
    PAGE.write_text(head + start + "\n".join([title, rule, *ordered]) + "\n" + end + tail, encoding="utf-8")


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split("|")]


def _number(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


def main(arguments: Sequence[str]) -> int:
    """Run what was asked for; 1 if a test failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("versions", nargs="*", default=VERSIONS, help="of torch; or 'oldest'")
    parser.add_argument("--env", type=Path, default=ROOT / ".venv-versions", help="where to build environments")
    parser.add_argument("--keep", action="store_true", help="leave the environment for the next run")
    parser.add_argument("--only", nargs="+", choices=SELECTION, default=list(SELECTION), help="parts of the selection")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args(arguments)
    pins = [
        line for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines() if not line.startswith("torch==")
    ]
    failed = 0
    for version in options.versions:
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as constraints:
            constraints.write("\n".join(pins))
            constraints.flush()
            if version == "oldest":
                python = build(options.env, VERSIONS[0], oldest(declared()), None)
            else:
                python = build(options.env, version, declared(), Path(constraints.name))
        counts = run(python, options.only, options.workers)
        for part, count in counts.items():
            print(f"torch {version}, {part}: {count}", *count.failed, sep="\n  ")
            failed += len(count.failed)
        if list(options.only) == list(SELECTION):
            write_row(installed(python), counts)
        if not options.keep:
            shutil.rmtree(options.env)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
