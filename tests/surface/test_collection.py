"""The garbage collector rests while a graph is built, and only then."""

from __future__ import annotations

import gc

import pytest
import torch

import onnxport


@pytest.fixture(params=[True, False], ids=["collecting", "not-collecting"])
def collecting(request: pytest.FixtureRequest):
    """Whether the caller has the collector on."""
    (gc.enable if request.param else gc.disable)()
    yield request.param
    gc.enable()


def _export(translation):
    return onnxport.export(
        torch.nn.ReLU(), (torch.randn(2),), custom_translation_table={torch.ops.aten.relu: translation}
    )


def test_rests_in_a_translation_and_is_then_as_before(collecting: bool):
    seen = []

    def relu(op, x):
        seen.append(gc.isenabled())
        return op.Relu(x)

    _export(relu)
    assert seen == [False]
    assert gc.isenabled() is collecting


def test_is_as_before_after_an_error(collecting: bool):
    def refuse(op, x):
        raise ValueError("not today")

    with pytest.raises(onnxport.OnnxExporterError, match="not today"):
        _export(refuse)
    assert gc.isenabled() is collecting
