"""Runs a core selection of the tests with other versions of torch, each in an environment of its own.

    python tools/versions.py                       all of VERSIONS, one after another
    python tools/versions.py 2.9.0 2.15.0          these
    python tools/versions.py 2.13.0+oldest         2.13 with the oldest of everything else that pyproject.toml declares
    python tools/versions.py 2.14.1 --python python3.13 --env .venv-313 --keep --only capture prepare

    python tools/versions.py 2.9.0 --again         only what failed when 2.9.0 was run last

An environment is built, used and removed before the next; ``--keep`` leaves it for the next run. What was counted takes
its place in the table of docs/compatibility.md, with the commit it was counted on; rows of versions that weren't run
and columns of parts that weren't stay as they are.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "compatibility.md"
RESULTS = ROOT / "build" / "versions"
CONSTRAINTS = ROOT / "constraints.txt"
VERSIONS = ("2.9.0", "2.10.0", "2.11.0", "2.12.1", "2.13.0", "2.14.1", "2.15.0")
# What is run, by the heading of its column.
SELECTION = {
    "capture": "tests/capture",
    "prepare": "tests/prepare",
    "program": "tests/program",
    "operators": "tests/ops/test_cases.py",
    "models": "tests/models/test_zoo.py",
}
STAGES = ("tests/capture", "tests/prepare", "tests/program")
OPERATORS = "tests/ops/test_cases.py"
OF_TORCH = ("aten::", "torch_nn::")
PACKAGES = ("torch", "python", "onnx", "onnx_ir", "onnxruntime")


@dataclass(frozen=True)
class Count:
    """How many tests of one part passed, of those that were run, and the names of the others."""

    passed: int
    run: int
    failed: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.passed} of {self.run}" if self.run else "–"


def pytest_addoption(parser: Any) -> None:
    """This module is a plugin of the runs it starts."""
    parser.addoption("--every", type=int, default=1, help="keep every so many tests of the stages")
    parser.addoption("--again", default="", help="keep the tests that failed, by this file of results")


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Keep every third row of the operators and every so many tests of the stages, or what failed last time."""
    if config.getoption("--again"):
        before = json.loads(Path(config.getoption("--again")).read_text(encoding="utf-8"))
        items[:] = [item for item in items if before.get(_name_in_reports(item.nodeid)) is False]
        return
    stages = [item for item in items if item.nodeid.startswith(STAGES)]
    operators = _in_one_form(item for item in items if item.nodeid.startswith(OPERATORS))
    sampled = {item.nodeid for item in items if item.nodeid.startswith((*STAGES, OPERATORS))}
    kept = {item.nodeid for item in [*stages[:: config.getoption("--every")], *operators[::3]]}
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in sampled - kept])
    items[:] = [item for item in items if item.nodeid not in sampled - kept]


def _name_in_reports(nodeid: str) -> str:
    path, _, name = nodeid.partition("::")
    return f"{path.removesuffix('.py').replace('/', '.')}.{name}"


def _in_one_form(items: Iterable[Any]) -> list[Any]:
    """One test of each row that this torch has the operators of: in its first dtype, the last.

    That is the one with sizes that vary, where the row has such a form, and at all opsets.
    """
    from onnxport.translate.registry import torch_schema

    tests: dict[int, Any] = {}
    for item in items:
        row, dtype = item.callspec.params["row"], item.callspec.params["dtype"]
        if dtype == row.dtypes[0] and all(torch_schema(name) for name in row.covers if name.startswith(OF_TORCH)):
            tests[id(row)] = item
    return list(tests.values())


def declared() -> list[str]:
    """What pyproject.toml says the package needs, and its tests, without torch."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    return [requirement for requirement in needed if re.split(r"[<>=]", requirement)[0] != "torch"]


def oldest(requirements: Iterable[str]) -> list[str]:
    """The lowest version that each requirement allows, where it names one."""
    return [requirement.replace(">=", "==") for requirement in requirements]


def build(environment: Path, interpreter: str, version: str) -> Path:
    """Make an environment with a version of torch and return its interpreter; one that is there is used as it is."""
    torch, _, others = version.partition("+")
    python = environment / "bin" / "python"
    done = environment / ".onnxport-installed"
    pins = [line for line in CONSTRAINTS.read_text("utf-8").splitlines() if not line.startswith("torch==")]
    requirements = oldest(declared()) if others == "oldest" else declared()
    wanted = "\n".join([interpreter, torch, *requirements])
    if done.exists() and done.read_text(encoding="utf-8") == wanted:
        return python
    subprocess.run([interpreter, "-m", "venv", "--clear", str(environment)], check=True)
    quietly = ["-q", "--no-cache-dir", "--no-compile", "--disable-pip-version-check"]
    install = [str(python), "-m", "pip", "install", *quietly]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as constraints:
        constraints.write("" if others == "oldest" else "\n".join(pins))
        constraints.flush()
        subprocess.run([*install, f"torch=={torch}"], check=True)
        subprocess.run([*install, "-c", constraints.name, *requirements], check=True)
    done.write_text(wanted, encoding="utf-8")
    return python


def run(python: Path, parts: Sequence[str], results: Path, asked: Sequence[str]) -> dict[str, Count]:
    """Run the parts, with what is asked of pytest beside them, and count; what an earlier run found is kept with it."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        arguments = [*("-m", "pytest", "-q", "-p", "versions", "-p", "no:cacheprovider"), *asked]
        arguments += ["--tb=short", f"--junitxml={report}"]
        paths = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([f"{ROOT}/src", f"{ROOT}/tools"])}
        subprocess.run([python, *arguments, *(SELECTION[part] for part in parts)], cwd=ROOT, env=paths)
        outcomes = read_report(report)
    if "--again" in " ".join(asked):
        # What failed and is no longer there is a test that this torch no longer gets.
        before = json.loads(results.read_text(encoding="utf-8"))
        asked_for = tuple(SELECTION[part].removesuffix(".py").replace("/", ".") for part in parts)
        kept = {name: passed for name, passed in before.items() if passed or not name.startswith(asked_for)}
        outcomes = {**kept, **outcomes}
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_text(json.dumps(outcomes, indent=0), encoding="utf-8")
    return {part: _count(outcomes, SELECTION[part]) for part in parts}


def read_report(report: Path) -> dict[str, bool]:
    """Of each test that was not skipped, whether it passed."""
    tags = {
        f"{case.get('classname')}.{case.get('name')}": {child.tag for child in case}
        for case in ElementTree.parse(report).iter("testcase")
    }
    return {name: not found & {"failure", "error"} for name, found in tags.items() if "skipped" not in found}


def _count(outcomes: Mapping[str, bool], path: str) -> Count:
    prefix = path.removesuffix(".py").replace("/", ".")
    own = {name: passed for name, passed in outcomes.items() if name.startswith(prefix)}
    return Count(sum(own.values()), len(own), tuple(name for name, passed in own.items() if not passed))


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
    """Put the counts in the table, in the place of those for the same versions."""
    text = PAGE.read_text(encoding="utf-8")
    head, start, rest = text.partition("<!-- rows of tools/versions.py -->\n")
    table, end, tail = rest.partition("<!-- end of rows -->")
    title, rule, *lines = table.splitlines()
    rows = {tuple(cells[: len(versions)]): cells[len(versions) :] for cells in map(_cells, lines)}
    before = dict(zip(SELECTION, rows.get(tuple(versions), ()), strict=False))
    cells = [str(counts[part]) if part in counts else before.get(part, "–") for part in SELECTION]
    rows[tuple(versions)] = [*cells, _commit()]
    ordered = sorted(rows, key=lambda key: [_number(version) for version in key])
    lines = [f"| {' | '.join([*key, *rows[key]])} |" for key in ordered]
    PAGE.write_text(head + start + "\n".join([title, rule, *lines]) + "\n" + end + tail, encoding="utf-8")


def _commit() -> str:
    """The commit that is checked out, marked where files of the package or its tests differ from it."""
    git = ["git", "-C", str(ROOT)]
    commit = subprocess.run([*git, "rev-parse", "--short=9", "HEAD"], check=True, capture_output=True, text=True)
    changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", "src", "tests"], check=False).returncode
    return commit.stdout.strip() + ("+" if changed else "")


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip("|").split("|")]


def _number(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


def main(arguments: Sequence[str]) -> int:
    """Run what was asked for; 1 if a test failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "versions", nargs="*", default=VERSIONS, help="of torch; '2.13.0+oldest': the oldest of all else"
    )
    parser.add_argument("--env", type=Path, default=ROOT / ".venv-versions", help="where to build environments")
    parser.add_argument("--python", default=sys.executable, help="the interpreter to build environments with")
    parser.add_argument("--keep", action="store_true", help="leave the environment for the next run")
    parser.add_argument("--only", nargs="+", choices=SELECTION, default=list(SELECTION), help="parts of the selection")
    parser.add_argument("--every", type=int, default=3, help="so many-th test of the stages is run; 1: all")
    parser.add_argument("--again", action="store_true", help="run what failed last time, and count it with the rest")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args(arguments)
    failed = 0
    for version in options.versions:
        python = build(options.env, options.python, version)
        results = RESULTS / f"{'-'.join(installed(python))}.json"
        asked = ["-n", str(options.workers), f"--again={results}" if options.again else f"--every={options.every}"]
        counts = run(python, options.only, results, asked)
        for part, count in counts.items():
            print(f"torch {version}, {part}: {count}", *count.failed, sep="\n  ")
            failed += len(count.failed)
        write_row(installed(python), counts)
        if not options.keep:
            shutil.rmtree(options.env)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
