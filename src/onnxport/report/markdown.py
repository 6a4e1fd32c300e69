"""The report of an export as markdown."""

from __future__ import annotations

import re
from collections.abc import Iterator

from onnxport.report.account import Account
from onnxport.report.analysis import analysis, decomposition_comparison, printed_program
from onnxport.report.branches import decision_tree
from onnxport.verification import Verification

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_SIGNS = {True: "✅", False: "❌", None: "⚪"}


def markdown(account: Account) -> str:
    """Return the report. Where the model could not be captured there is nothing to analyse: only what went wrong."""
    return _ANSI.sub("", "".join(_sections(account)))


def _sections(account: Account) -> Iterator[str]:
    captured = account.captured
    yield f"# PyTorch ONNX Conversion {'Report' if captured is not None else 'Error Report'}\n\n"
    lines = "\n".join(f"{_SIGNS[ok]} {step}" for step, ok in account.status().items())
    yield f"```\n{lines}\n```\n\n"
    errors = account.errors()
    yield "## Error messages\n\n" if captured is not None else "Error message:\n\n"
    yield _fenced("pytb", "\n\n".join(errors) if errors else "No errors")
    if captured is not None and captured.forks is not None:
        yield f"## Branches\n\n{_fenced('', decision_tree(captured.forks))}"
    if captured is not None:
        yield f"## Exported program\n\n{_fenced('python', printed_program(captured, account.functional))}"
        if account.onnx_model is not None:
            yield f"## ONNX model\n\n{_fenced('python', str(account.onnx_model))}"
        yield f"## Analysis\n\n{analysis(captured, account.functional, account.find)}"
        if account.functional is not None:
            yield f"\n## Decomposition comparison\n\n{decomposition_comparison(captured, account.functional)}\n"
    if account.verification is not None and account.verification.runs:
        yield f"\n## Verification results\n\n{_verification(account.verification)}\n"
    if account.profile:
        yield f"\n## Profiling result\n\n{_fenced('', account.profile)}"


def _fenced(language: str, text: str) -> str:
    return f"```{language}\n{text}\n```\n\n"


def _verification(verification: Verification) -> str:
    # The exported program matters where the model does not match: it tells an error of capture from one of translation.
    shown = [run for run in verification.runs if run.reference == verification.runs[0].reference or not run.matches]
    lines = []
    for run in shown:
        against = "" if run.reference == verification.runs[0].reference else "exported program"
        label = ", ".join(part for part in (against, run.label) if part)
        suffix = f" ({label})" if label else ""
        if run.error:
            lines.append(f"Not run{suffix}: {run.error.strip().splitlines()[-1]}")
        lines += [
            f"`{info.name}`{suffix}: `max_abs_diff={info.max_abs_diff:e}`, `max_rel_diff={info.max_rel_diff:e}`, "
            f"`abs_diff_hist={info.abs_diff_hist}`, `rel_diff_hist={info.rel_diff_hist}`"
            for info in run.infos
        ]
    return "\n".join(lines)
