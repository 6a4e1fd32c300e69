"""``flex_attention`` with its functions and masks, at the traced and at other sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import onnxport
from comparison import assert_agrees

# What torch 2.9 and 2.10 say of every call that isn't compiled, and of the argument that later ones keep.
pytestmark = [
    pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile:UserWarning"),
    pytest.mark.filterwarnings("ignore:You are calling torch.compile inside torch.export:UserWarning"),
    pytest.mark.filterwarnings("ignore:return_lse is deprecated:FutureWarning"),
]


class Flex(nn.Module):
    """Attention with a score function (``self`` is its first argument), a mask function, and other options."""

    def __init__(self, score: Callable[..., Any] | None = None, mask: Callable[..., Any] | None = None, **options: Any):
        super().__init__()
        torch.manual_seed(0)
        self.slopes = nn.Parameter(torch.rand(4))
        self.score, self.mask, self.options = score, mask, options

    def forward(self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> Any:
        score = None if self.score is None else lambda *arguments: self.score(self, *arguments)
        mask = None
        if self.mask is not None:
            mask = create_block_mask(self.mask, None, None, query.shape[2], key.shape[2], device="cpu")
        return flex_attention(query, key, value, score_mod=score, block_mask=mask, **self.options)


ROWS = {
    "plain": (Flex(), 4, torch.float32),
    "scale": (Flex(scale=0.7), 4, torch.float32),
    "bfloat16": (Flex(), 4, torch.bfloat16),
    "distance": (Flex(lambda self, score, b, h, i, j: score + (j - i)), 4, torch.float32),
    "slopes": (Flex(lambda self, score, b, h, i, j: score + (j - i) * self.slopes[h]), 4, torch.float32),
    "softcap": (Flex(lambda self, score, b, h, i, j: 3 * torch.tanh(score / 3)), 4, torch.float32),
    "causal": (Flex(mask=lambda b, h, i, j: i >= j), 4, torch.float32),
    "nothing-to-attend-to": (Flex(mask=lambda b, h, i, j: i > j), 4, torch.float32),
    "both": (
        Flex(lambda self, score, b, h, i, j: score * (h + 1), lambda b, h, i, j: (i - j).abs() < 3),
        4,
        torch.float32,
    ),
    "groups": (Flex(enable_gqa=True), 2, torch.float32),
}


def operands(heads: int, dtype: torch.dtype, batch: int, queries: int, keys: int) -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    shapes = ((batch, 4, queries, 8), (batch, heads, keys, 8), (batch, heads, keys, 6))
    return tuple(torch.randn(shape, generator=generator).to(dtype) for shape in shapes)


@pytest.mark.parametrize(("module", "heads", "dtype"), ROWS.values(), ids=ROWS)
def test_equals_eager(module: Flex, heads: int, dtype: torch.dtype) -> None:
    given = operands(heads, dtype, 2, 5, 7)
    tolerance = {"rtol": 3e-2, "atol": 3e-2} if dtype == torch.bfloat16 else {}
    assert_agrees(onnxport.export(module.eval(), given), module, given, **tolerance)


@pytest.mark.filterwarnings("ignore:The exported model follows the example")
@pytest.mark.parametrize("name", ["plain", "slopes"])
def test_other_sizes(name: str) -> None:
    module, heads, dtype = ROWS[name]
    shapes = ({0: "b", 2: "n"}, {0: "b", 2: "m"}, {0: "b", 2: "m"})
    program = onnxport.export(module.eval(), operands(heads, dtype, 2, 5, 7), dynamic_shapes=shapes)
    assert_agrees(program, module, *(operands(heads, dtype, *sizes) for sizes in ((2, 5, 7), (3, 4, 9))))


def test_logsumexp() -> None:
    module = Flex(return_lse=True)
    given = operands(4, torch.float32, 2, 5, 7)
    assert_agrees(onnxport.export(module.eval(), given), module, given)
