"""What a draft export took for granted, in our words."""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator, Mapping
from typing import Any

from onnxport.capture.diagnosis.user_lines import condition_of, line_of_summary
from onnxport.errors import Problem


def assumptions(report: Any, names: Mapping[str, str]) -> Iterator[Problem]:
    """Say in our words, with these names of sizes, what a draft export took for granted."""
    from onnxport.torch_internals.exporting import INTERN_TABLE, FailureType

    # File names are logged once a process and as numbers after that, so the report's own table may lack them.
    files = {number: name for name, number in INTERN_TABLE.items()}
    for failure in report.failures if report is not None else ():
        data = failure.data
        frames = [
            (files.get(f["filename"], ""), f["line"], f["name"])
            for f in data.get("user_stack") or data.get("stack") or ()
        ]
        where = line_of_summary(traceback.FrameSummary(*frame) for frame in frames)
        if failure.failure_type == FailureType.DATA_DEPENDENT_ERROR:
            asked = condition_of(where)
            # Until torch 2.11 the truth of a condition is 1 or 0 here.
            decided = str(data["result"]) in ("True", "False") or asked != condition_of("")
            taken = "goes the example's way" if decided else f"assumes {data['result']}"
            what = f"{asked} depends on the data; the export {taken}."
            yield Problem(what, where, "State the fact with torch._check(...), or use torch.where or torch.cond.")
        elif failure.failure_type == FailureType.GUARD_ADDED:
            assumed = re.sub(r"\b[su]\d+\b", lambda symbol: names.get(symbol[0], symbol[0]), str(data["expr"]))
            yield Problem(f"The export assumes {assumed}.", where, "The model is only right where this holds.")
        elif failure.failure_type == FailureType.MISSING_FAKE_KERNEL:
            what = f"The operator {data['op']} has no fake kernel; its output was taken from one real run."
            yield Problem(what, where, "Register one with torch.library.register_fake.")
        else:
            what = f"The fake kernel of {data['op']} disagrees with the real one: {data['reason']}"
            yield Problem(what, where, "Correct it with torch.library.register_fake.")
