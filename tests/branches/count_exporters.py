"""Counts what exporters make of the programs: ``python tests/branches/count_exporters.py [onnxport | torch.onnx]``.

A program is right if it gives eager's results on all of its inputs, wrong if not on one of them, or refused.
"""

from __future__ import annotations

import logging
import sys
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

import onnxport
from branches.branch_catalogue import PROGRAMS
from branches.branch_rows import Program
from branches.loop_catalogue import LOOPS

EXPORTERS: dict[str, Callable[..., Any]] = {
    "onnxport": onnxport.export,
    "torch.onnx": torch.onnx.export,  # noqa: TID251  what ours is compared with
}


def outcome(row: Program, export: Callable[..., Any]) -> str:
    """'right', 'wrong' or 'refused'."""
    try:
        program = export(row.module, row.example, dynamic_shapes=row.axes, dynamo=True, verbose=False)
    except Exception:  # noqa: BLE001 - whatever it is, there is no file
        return "refused"
    return "right" if all(_is_right(row, program, inputs) for inputs in (row.example, *row.others)) else "wrong"


def _is_right(row: Program, program: Any, inputs: tuple[Any, ...]) -> bool:
    expected = torch.utils._pytree.tree_leaves(row.module(*inputs))
    try:
        found = program(*inputs)
    except Exception:  # noqa: BLE001 - the file does not take what the model takes
        return False
    pairs = zip(found, expected, strict=True)
    return all(a.shape == b.shape and torch.allclose(a, b, rtol=1e-3, atol=1e-4) for a, b in pairs)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    chosen = EXPORTERS[sys.argv[1] if len(sys.argv) > 1 else "onnxport"]
    for label, table in (("branches", PROGRAMS), ("loops", LOOPS)):
        print(label, len(table), dict(Counter(outcome(row, chosen) for row in table.values())), flush=True)
