"""Real architectures: exported once, equal to eager at the traced size and at others."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import onnxport
from zoo import ZOO, ZooModel


def _leaves(result: Any) -> list[torch.Tensor]:
    leaves = torch.utils._pytree.tree_leaves(result.to_tuple() if hasattr(result, "to_tuple") else result)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("zoo", ZOO, ids=lambda model: model.name)
def test_equals_eager(zoo: ZooModel, dynamic: bool) -> None:
    torch.manual_seed(0)
    model = zoo.build().eval()
    program = onnxport.export(
        model, kwargs=zoo.inputs(*zoo.traced), dynamic_shapes=zoo.dynamic_shapes if dynamic else None
    )
    names = {
        str(size) for value in program.model.graph.inputs for size in value.shape or () if not isinstance(size, int)
    }
    assert names == ({axis for axes in zoo.dynamic_shapes.values() for axis in axes.values()} if dynamic else set())
    for size in (zoo.traced, *zoo.others) if dynamic else (zoo.traced,):
        inputs = zoo.inputs(*size)
        with torch.no_grad():
            expected = _leaves(model(**inputs))
        found = program(**inputs)
        assert len(found) == len(expected)
        for ours, eager in zip(found, expected, strict=True):
            torch.testing.assert_close(ours, eager, rtol=zoo.tolerance, atol=zoo.tolerance)
