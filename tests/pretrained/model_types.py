"""Every type of model that transformers has for a task, small: exported, compared with eager, generating.

``python tests/pretrained/model_types.py --out build/model_types.json --write docs/transformers.md`` goes on where the
last run ended; a type that takes longer than ``--seconds`` is set aside. With ``--types`` these are tried again, and
the other rows stay as the page has them. Models that generate text alone have a page of their own
(``tools/language_models.py``).
"""

from __future__ import annotations

import argparse
import json
import logging
import re
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import onnxruntime
import small_models
import transformers
from own_process import in_own_process
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from onnxport.errors import OnnxExporterError, OnnxExporterWarning
from onnxport.onnx_build.opsets import DEFAULT_OPSET
from onnxport.pretrained.parts import Part, differences, export_widest
from onnxport.pretrained.tasks import TASKS, Task, find_task
from onnxport.pretrained.tasks.text_generation import TEXT_GENERATION

MEANING = {
    "equal": "exported, and equal to eager at three sizes of every axis",
    "generating": "the same, and greedy tokens equal to those of `generate`",
    "refused": "not exported; the error says why, with the line where there is one",
    "differs": "exported, and not equal to eager somewhere: verifying makes that an error",
    "fails": "exported, and onnxruntime does not run it at some size: verifying makes that an error",
    "late": "not done in the time that was set, or crashed",
    "no inputs": "not tried: the small model does not run with what its configuration describes",
    "not built": "not tried: the configuration with small sizes builds no model, or a library is missing",
}
RIGHT = ("equal", "generating")


@dataclass(frozen=True)
class Outcome:
    """What became of one type."""

    task: str
    kind: str
    outcome: str
    axes: str = ""
    note: str = ""
    seconds: float = 0.0


def built(task: Task, kind: str) -> tuple[Any, Sequence[Part]] | Outcome:
    """A small model and its parts, built in the first way in which it runs; or why there is none."""
    outcome = Outcome(task.name, kind, "not built")
    for way in small_models.WAYS:
        try:
            model = small_models.small_model(kind, task, way)
        except Exception as error:  # noqa: BLE001 - the row says what went wrong, here and below
            if outcome.note == "":
                outcome = Outcome(task.name, kind, "not built", note=first_line(error))
            continue
        if task.check is not None:
            small_models.spread(model, 0.2 if way == "narrow" else 0.05)
        try:
            return model, task.parts(model)
        except Exception as error:  # noqa: BLE001
            # What is not of the task's form is refused; what raises for the inputs that it asks for is not tried.
            is_refusal = isinstance(error, OnnxExporterError) and "takes none of the" not in str(error)
            outcome = Outcome(task.name, kind, "refused" if is_refusal else "no inputs", note=first_line(error))
            if is_refusal:
                break
    return outcome


def tried(task: Task, kind: str) -> Outcome:
    """Build, export and compare one type."""
    found = built(task, kind)
    if isinstance(found, Outcome):
        return found
    model, parts = found
    told: list[warnings.WarningMessage]
    stage, axes = "refused", ""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", OnnxExporterWarning)
        try:
            exported = [export_widest(part, opset_version=DEFAULT_OPSET, target="onnx") for part in parts]
            axes = ", ".join(
                sorted({axis for part, _ in exported for by in part.axes.values() for axis in by.values()})
            )
            for part, program in exported:
                program.save(Path(folder) / part.file, external_data=True)
            stage = "fails"
            problems = [problem for part, _ in exported for problem in differences(part, Path(folder))]
            if task.check is not None and not problems:
                problems += task.check(model, Path(folder))
        except Exception as error:  # noqa: BLE001
            return Outcome(task.name, kind, stage, axes, located(error))
    said = [str(one.message) for one in told if issubclass(one.category, OnnxExporterWarning)]
    if problems:
        return Outcome(task.name, kind, "differs", axes, str(problems[0]).splitlines()[0] + warned(said))
    return Outcome(task.name, kind, "equal" if task.check is None else "generating", axes, warned(said).strip(" ;"))


def warned(said: list[str]) -> str:
    """The first line of the first warning, without the folders before a file."""
    return f"; warned: {re.sub(r'(?<=[ (])/[^ ]*/', '', said[0].splitlines()[0])}" if said else ""


def first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200]


def located(error: Exception) -> str:
    """The first problem of an error and the line that it names, without the folders before the file."""
    problem = error.problems[0] if isinstance(error, OnnxExporterError) and error.problems else None
    if problem is None:
        return first_line(error)
    what = problem.what.splitlines()[0]
    return f"{what[:150]} at {problem.where.rpartition('/')[2][:120]}" if problem.where else what[:200]


def types_of(task: Task) -> list[str]:
    kinds = list(getattr(modeling_auto, f"{task.mapping}_NAMES"))
    if task.encoder_decoder is None:
        return kinds
    return [kind for kind in kinds if task.takes(CONFIG_MAPPING[kind]())]


def sweep(
    wanted: Sequence[tuple[Task, str]], out: Path, seconds: int, limit: float, before: Sequence[Outcome] = ()
) -> list[Outcome]:
    """Try each type for its task, and keep what is known after each."""
    found = [Outcome(**row) for row in json.loads(out.read_text())] if out.is_file() else list(before)
    known = {row.kind for row in found}
    end = time.monotonic() + limit
    for task, kind in wanted:
        if kind in known or time.monotonic() > end:
            continue
        known.add(kind)
        start = time.perf_counter()
        outcome = in_own_process(partial(tried, task, kind), seconds) or Outcome(task.name, kind, "late")
        found.append(Outcome(**{**asdict(outcome), "seconds": round(time.perf_counter() - start, 1)}))
        print(f"{task.name} {kind}: {outcome.outcome} {found[-1].seconds} s {outcome.note}", flush=True)
        out.parent.mkdir(parents=True, exist_ok=True)
        # Whole or not at all: a run may be ended at any time.
        new = out.with_suffix(".new")
        new.write_text(json.dumps([asdict(row) for row in found], indent=1))
        new.replace(out)
    return found


def page(found: list[Outcome]) -> str:
    """The table as a page."""
    counts = Counter(row.outcome for row in found)
    lines = [
        "# Types of models in transformers",
        "",
        f"Written by `make model-types`: each type as transformers {transformers.__version__} has it for a task,",
        "built small from its configuration, whole and without a patch, exported as by `onnxport.export_pretrained`,",
        "and compared with eager in onnxruntime at three sizes of every axis that varies.",
        "",
        "| outcome | types | meaning |",
        "|---|---:|---|",
        *(f"| {name} | {counts[name]} | {meaning} |" for name, meaning in MEANING.items() if counts[name]),
        "",
        "| type | task | outcome | axes that vary | note |",
        "|---|---|---|---|---|",
    ]
    for row in sorted(found, key=lambda row: (row.task, row.kind)):
        # Brackets beside each other would be a link.
        note = row.note.replace("|", "\\|").replace("\n", " ").replace("](", "] (")
        lines.append(f"| {row.kind} | {row.task} | {row.outcome} | {row.axes} | {note} |")
    return "\n".join(lines) + "\n"


def rows_of(text: str) -> list[Outcome]:
    """The rows of a page."""
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in text.splitlines()]
    return [
        Outcome(task, kind, outcome, axes, note.replace("\\|", "|"))
        for kind, task, outcome, axes, note in (row for row in cells if len(row) == 5)
        if outcome in MEANING
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("build/model_types.json"))
    parser.add_argument("--write", type=Path)
    parser.add_argument("--tasks", nargs="*", default=[task.name for task in TASKS if task is not TEXT_GENERATION])
    parser.add_argument("--types", nargs="*", help="try these again, and keep the other rows of the page")
    parser.add_argument("--seconds", type=int, default=120)
    parser.add_argument("--limit", type=float, default=1e9, help="seconds after which no other type is begun")
    arguments: Any = parser.parse_args()
    transformers.logging.set_verbosity_error()
    onnxruntime.set_default_logger_severity(4)
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    wanted = [(task, kind) for task in map(find_task, arguments.tasks) for kind in types_of(task)]
    before: list[Outcome] = []
    if arguments.types is not None:
        rows = rows_of(arguments.write.read_text())
        before = [row for row in rows if row.kind not in arguments.types]
        # For the task in which the page has it right; else for the first that knows it.
        right = [(find_task(row.task), row.kind) for row in rows if row.outcome in RIGHT]
        wanted = right + wanted
        wanted = [(task, kind) for task, kind in wanted if kind in arguments.types]
    found = sweep(wanted, arguments.out, arguments.seconds, arguments.limit, before)
    if arguments.types is not None:
        # What the time was too short for stays as it was.
        tried_again = {row.kind for row in found}
        found += [row for row in rows if row.kind not in tried_again]
    if arguments.write is not None:
        arguments.write.write_text(page(found), encoding="utf-8")
    print(dict(Counter(row.outcome for row in found)))


if __name__ == "__main__":
    main()
