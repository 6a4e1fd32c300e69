"""Scripts and traces in all of TorchScript's language, and as users write them: equal to the script at other sizes."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
from idiom_zoo import IDIOMS
from language_zoo import LANGUAGE, OPSET, ScriptRow
from torch.utils import _pytree

import onnxport

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")


def check(row: ScriptRow, script: Any) -> None:
    """Export at one opset and compare with the script at each size."""
    names = [f"in_{position}" for position in range(len(row.examples[0]))]
    options: Any = {"input_names": names, "dynamic_axes": row.dynamic_axes(), "opset_version": OPSET}
    program = onnxport.export(script, row.examples[0], dynamo=False, **options)
    for example in row.examples:
        with torch.no_grad():
            expected = _pytree.tree_leaves(row.run(*(x.clone() for x in example)))
        found = _pytree.tree_leaves(program(*example))
        for ours, theirs in zip(found, expected, strict=True):
            theirs = torch.as_tensor(theirs)
            torch.testing.assert_close(ours, theirs, rtol=row.tolerance, atol=row.tolerance)


@pytest.mark.parametrize("row", [*LANGUAGE, *IDIOMS], ids=lambda row: row.name)
def test_scripts_and_traces(row: ScriptRow) -> None:
    check(row, row.make())


# Of a graph that is made for oneDNN no file can be loaded.
LOADED = [row for row in LANGUAGE if row.name != "optimized_for_inference"][::3]


@pytest.mark.parametrize("row", LOADED, ids=lambda row: row.name)
def test_files(row: ScriptRow) -> None:
    file = io.BytesIO()
    torch.jit.save(row.make(), file)
    file.seek(0)
    check(row, torch.jit.load(file))
