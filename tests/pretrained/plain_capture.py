"""How many types that plain ``torch.export`` captures are exported right: a sample of the page's rows, by chance.

``python tests/pretrained/plain_capture.py docs/transformers.md --sample 60`` captures the same parts with the same
inputs and axes, without anything of this package but what makes these, and prints the share and who falls short.
"""

from __future__ import annotations

import argparse
import inspect
import logging
import random
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from model_types import RIGHT, Outcome, built, rows_of
from own_process import in_own_process

from onnxport.capture.patches.replacing import method_replaced
from onnxport.pretrained.parts import Part, Tensors
from onnxport.pretrained.tasks import find_task

_TRIED = (*RIGHT, "refused", "differs", "fails", "late")


def capture_plainly(part: Part) -> None:
    """Capture a part with all its axes open; raises what torch does."""
    example = part.inputs(part.sizes)
    axes = {name: dict.fromkeys(part.axes.get(name, {}), torch.export.Dim.DYNAMIC) for name in example}

    def forward(tensors: Tensors) -> Tensors:
        return part.forward(tensors)

    with method_replaced(part.module, forward, inspect.signature(forward)), torch.no_grad():
        torch.export.export(part.module, (example,), dynamic_shapes=(axes,), strict=False)


def is_captured(row: Outcome) -> bool:
    """Whether plain ``torch.export`` captures all parts of a type."""
    found = built(find_task(row.task), row.kind)
    if isinstance(found, Outcome):
        return False
    try:
        for part in found[1]:
            capture_plainly(part)
    except Exception:  # noqa: BLE001 - torch says in many ways that it can't
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("page", type=Path)
    parser.add_argument("--sample", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--outcomes", nargs="*", default=list(_TRIED), help="only rows of these outcomes")
    arguments: Any = parser.parse_args()
    transformers.logging.set_verbosity_error()
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    rows = [row for row in rows_of(arguments.page.read_text()) if row.outcome in arguments.outcomes]
    chosen = random.Random(arguments.seed).sample(rows, min(arguments.sample, len(rows)))
    captured = []
    for row in chosen:
        if in_own_process(partial(is_captured, row), arguments.seconds):
            captured.append(row)
        print(f"{row.kind}: {row.outcome}, {'captured' if row in captured[-1:] else 'not captured'}", flush=True)
    right = [row for row in captured if row.outcome in RIGHT]
    print(
        f"{len(captured)} of {len(chosen)} are captured by plain torch.export, of which {len(right)} are exported right"
    )


if __name__ == "__main__":
    main()
