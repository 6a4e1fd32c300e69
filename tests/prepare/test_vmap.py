"""Functions mapped with torch.vmap, at sizes not traced."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import onnxport


def _nested(x: torch.Tensor) -> torch.Tensor:
    return torch.vmap(torch.vmap(lambda a, b: a * b + a.sum(), in_dims=(0, None)), in_dims=(0, 0))(
        x.unsqueeze(-1).expand(-1, -1, 3), x[:, :1].expand(-1, 3)
    )


ROWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "row_products": lambda x: torch.vmap(torch.dot)(x, x * 2),
    "columns": lambda x: torch.vmap(lambda row: row / row.norm(), in_dims=1, out_dims=1)(x),
    "closure": lambda x: torch.vmap(lambda row: x @ row)(x),
    "nested": _nested,
    "scan": lambda x: torch.vmap(lambda row: row.cumsum(0).flip(0))(x),
}


class Mapped(torch.nn.Module):
    def __init__(self, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x) + 1


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", ROWS)
def test_equals_eager(name: str, dynamic: bool) -> None:
    model = Mapped(ROWS[name])
    program = onnxport.export(model, (torch.randn(4, 5),), dynamic_shapes=({0: "n"},) if dynamic else None)
    for rows in (4, 2, 7) if dynamic else (4,):
        x = torch.randn(rows, 5)
        torch.testing.assert_close(program(x)[0], model(x), rtol=1e-5, atol=1e-5)


def test_a_mask_that_reads_a_tensor_by_its_indices() -> None:
    from torch._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex

    class Masked(torch.nn.Module):
        def forward(self, groups: torch.Tensor) -> torch.Tensor:
            places = torch.arange(groups.shape[0])
            with TransformGetItemToIndex():
                row = torch.vmap(lambda q, k: groups[q] == groups[k], in_dims=(None, 0))
                return torch.vmap(row, in_dims=(0, None))(places, places)

    groups = torch.tensor([0, 0, 1, 1, 2])
    program = onnxport.export(Masked(), (groups,), dynamic_shapes=({0: "n"},))
    for given in (groups, torch.tensor([3, 1, 3])):
        torch.testing.assert_close(program(given)[0], Masked()(given))
