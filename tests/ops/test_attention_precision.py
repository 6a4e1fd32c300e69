"""Half precision in attention: computed in float32 and rounded once, whatever the rank of the operands."""

from __future__ import annotations

import pytest
import torch
from torch.nn.attention.flex_attention import flex_attention

import onnxport
from cases import Wrapped
from onnxport import ops

HALVES = [torch.float16, torch.bfloat16]


class Attention(torch.nn.Module):
    def forward(self, *operands: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.scaled_dot_product_attention(*operands)


def operands(dtype: torch.dtype, rank: int) -> list[torch.Tensor]:
    # Numbers large enough for the rounding of scores to be seen in the result.
    generator = torch.Generator().manual_seed(0)
    whole = [(3 * torch.randn(1, 4, 32, 16, generator=generator)).to(dtype) for _ in range(3)]
    return whole if rank == 4 else [x[0] for x in whole]


def exact(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    return Attention()(query.double(), key.double(), value.double())


def rounded_once(result: torch.Tensor, expected: torch.Tensor) -> bool:
    """Whether the result is no further off than a rounding of the right one, but for ties that fall the other way."""
    unavoidable = (expected.to(result.dtype).double() - expected).abs().max()
    return bool((result.double() - expected).abs().max() <= unavoidable * 1.01)


@pytest.mark.parametrize("opset", [13, 20])
@pytest.mark.parametrize("rank", [3, 4])
@pytest.mark.parametrize("dtype", HALVES)
def test_the_result_alone_is_rounded(dtype: torch.dtype, rank: int, opset: int) -> None:
    given = operands(dtype, rank)
    (result,) = onnxport.export(Attention(), tuple(given), opset_version=opset)(*given)
    assert result.dtype == dtype and rounded_once(result, exact(*given))


@pytest.mark.parametrize("opset", [13, 20])
@pytest.mark.parametrize("mask", ["", "bool", "added"])
@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
def test_three_axes_give_what_four_do(dtype: torch.dtype, mask: str, opset: int) -> None:
    allowed = torch.ones(32, 32, dtype=torch.bool).tril(-1)  # the first query attends to nothing
    masks = {"": [], "bool": [allowed], "added": [torch.zeros(32, 32).masked_fill(~allowed, -torch.inf).to(dtype)]}
    results = []
    for rank in (3, 4):
        given = [*operands(dtype, rank), *masks[mask]]
        (result,) = onnxport.export(Attention(), tuple(given), opset_version=opset)(*given)
        results.append(result.reshape(4, 32, 16))
    assert not mask or not results[0][:, 0].any()
    torch.testing.assert_close(*results, rtol=0, atol=2e-6 if dtype == torch.float32 else 0)


@pytest.mark.parametrize("dtype", HALVES)
def test_flex_attention_alone_is_rounded(dtype: torch.dtype) -> None:
    given = operands(dtype, 4)
    (result,) = onnxport.export(Wrapped(flex_attention), tuple(given), opset_version=20)(*given)
    assert result.dtype == dtype and rounded_once(result, exact(*given))


@pytest.mark.parametrize("dtype", HALVES)
def test_the_operator_of_onnx_in_torch(dtype: torch.dtype) -> None:
    given = operands(dtype, 4)
    output, _, _, scores = ops.attention(*given)
    assert output.dtype == scores.dtype == dtype
    assert rounded_once(output, exact(*given))
