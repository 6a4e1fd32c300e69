"""Weights that are DTensors: over one process they are tensors, over several the model is not whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn

import onnxport
from comparison import exported_and_compared
from onnxport.errors import CaptureError

pytestmark = pytest.mark.skipif(not dist.is_available(), reason="torch without torch.distributed")


@pytest.fixture
def mesh() -> Iterator[Any]:
    from torch.distributed.device_mesh import init_device_mesh

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield init_device_mesh("cpu", (1,))
    finally:
        dist.destroy_process_group()


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.up, self.down = nn.Embedding(10, 8), nn.Linear(8, 16), nn.Linear(16, 4)

    def forward(self, i: Tensor) -> Tensor:
        return self.down(torch.relu(self.up(self.table(i))))


def test_parallel_layers_over_one_process(mesh: Any) -> None:
    from torch.distributed.tensor import DTensor, Replicate
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    table = RowwiseParallel(input_layouts=Replicate())
    plan = {"table": table, "up": ColwiseParallel(), "down": RowwiseParallel()}
    model = parallelize_module(Layers(), mesh, plan)
    numbers = [torch.randint(0, 10, (count, 3)) for count in (2, 5)]
    program = exported_and_compared(model, [numbers[0]], [numbers[1]], axes=[{0: "batch"}])
    weights = {name: list(value.shape or ()) for name, value in program.model.graph.initializers.items()}
    assert weights["table.weight"] == [10, 8] and weights["down.weight"] == [4, 16]
    assert isinstance(model.up.weight, DTensor)
    assert not hasattr(torch.Tensor, "to_local")
    assert onnxport.export(model, (numbers[0],), verify=True).verification.matches


class Gathered(nn.Module):
    """Code that gathers, distributes and asks how a weight lies."""

    def __init__(self, mesh: Any) -> None:
        super().__init__()
        from torch.distributed.tensor import Shard, distribute_tensor

        self.weight = nn.Parameter(distribute_tensor(torch.randn(8, 4), mesh, [Shard(0)]))
        self.register_buffer("offset", distribute_tensor(torch.randn(4), mesh, [Shard(0)]))

    def forward(self, x: Tensor) -> Tensor:
        from torch.distributed.tensor import DTensor, Replicate

        spread: Any = DTensor.from_local(x, self.weight.device_mesh, [Replicate()])
        product = (spread @ self.weight).redistribute(placements=[Replicate()])
        result: Tensor = product.to_local() + x @ self.weight.full_tensor() + self.offset.to_local()
        return result * len(self.weight.placements)


def test_code_that_gathers_and_distributes(mesh: Any) -> None:
    model = Gathered(mesh)
    exported_and_compared(model, [torch.randn(3, 8)], [torch.randn(5, 8)], axes=[{0: "batch"}])


def test_several_processes_are_refused() -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore

    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
    try:
        model = Gathered(init_device_mesh("cpu", (2,)))
        with pytest.raises(CaptureError, match=r"weight is distributed over 2 processes[\s\S]*full_state_dict=True"):
            onnxport.export(model, (torch.randn(3, 8),))
    finally:
        dist.destroy_process_group()
