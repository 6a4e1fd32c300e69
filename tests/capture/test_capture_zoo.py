"""The model zoo: with fixed sizes, and with sizes that vary from a batch of 1; exports vary from the usual one."""

from __future__ import annotations

import pytest
import torch

from onnxport.capture import capture
from onnxport.events import EventLog
from zoo import ZOO, ZooModel


@pytest.mark.parametrize("model", ZOO, ids=[model.name for model in ZOO])
@pytest.mark.parametrize(("batch", "dynamic"), [(1, True), (2, False)])
def test_zoo(model: ZooModel, batch: int, dynamic: bool) -> None:
    events = EventLog()
    captured = capture(
        model.build().eval(),
        (),
        model.inputs(batch, model.traced[1]),
        dynamic_shapes=model.dynamic_shapes if dynamic else None,
        events=events,
    )
    assert "strict=False" in captured.strategy
    assert [event for event in events.events if event.kind != "assumption"] == []
    names = [name for axes in model.dynamic_shapes.values() for name in axes.values()] if dynamic else []
    assert list(captured.dim_names.values()) == list(dict.fromkeys(names))
    nodes = {node.name: node for node in captured.program.graph.nodes}
    for name in captured.program.graph_signature.user_inputs:
        for axis, size in enumerate(nodes[name].meta["val"].shape):
            assert isinstance(size, torch.SymInt) == (dynamic and axis in model.dynamic_shapes[name])
