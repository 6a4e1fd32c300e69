"""Attention over a cache: which models are written with onnxruntime's operator, and the values of eager with each."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import onnxport
from onnxport.provenance import CACHE_BUFFERS

HEADS, KEPT, SIZE = 4, 2, 16


class Cached(nn.Module):
    """One layer of a decoder, with something about it that may stand in the way."""

    def __init__(
        self,
        window: int | None = None,
        kind: str = "causal",
        turned: str = "",
        bias: bool = True,
        joined: bool = False,
        size: int = SIZE,
    ) -> None:
        super().__init__()
        widths = [heads * size for heads in (HEADS, KEPT, KEPT)]
        if joined:
            self.qkv = nn.Linear(16, sum(widths), bias=bias)
        else:
            self.q, self.k, self.v = (nn.Linear(16, width, bias=bias) for width in widths)
        self.window, self.kind, self.turned, self.widths, self.size = window, kind, turned, widths, size

    def projected(self, x: Tensor) -> list[Tensor]:
        joined = hasattr(self, "qkv")
        parts = self.qkv(x).split(self.widths, -1) if joined else [layer(x) for layer in (self.q, self.k, self.v)]
        return [part.unflatten(2, (-1, self.size)).transpose(1, 2) for part in parts]

    def forward(self, x: Tensor, mask: Tensor, past_k: Tensor, past_v: Tensor) -> tuple[Tensor, ...]:
        seen, new = past_k.shape[2], x.shape[1]
        torch._check(mask.shape[1] == seen + new)
        q, k, v = self.projected(x)
        if self.turned == "waves":
            q, k = q.sin(), k.cos()
        elif self.turned:
            rows = mask.cumsum(1)[:, -new:] if self.turned == "by row" else (torch.arange(new) + seen)[None]
            half = rows[..., None] * torch.arange(1.0, SIZE // 2 + 1) / 7
            cosine, sine = (wave(torch.cat([half, half], -1))[:, None] for wave in (torch.cos, torch.sin))
            q = q * cosine + crossed(q) * sine
            k = k * cosine + crossed(k) * sine if self.turned != "queries" else k
        keys, values = torch.cat([past_k, k], 2), torch.cat([past_v, v], 2)
        at, place = torch.arange(seen + new)[None, None, None], (torch.arange(new) + seen)[None, None, :, None]
        allowed = mask.bool()[:, None, None]
        if self.kind == "causal":
            allowed = (at <= place) & allowed
        elif self.kind == "one later":
            allowed = (at <= place + 1) & allowed
        elif self.kind == "behind nothing":
            allowed = (at <= torch.arange(new)[None, None, :, None]) & allowed
        if self.window is not None:
            allowed = (at > place - self.window) & allowed
        found = functional.scaled_dot_product_attention(q, keys, values, attn_mask=allowed, enable_gqa=True)
        # What is masked as a whole gives zeros.
        found = found.masked_fill(~allowed.any(-1, keepdim=True), 0.0)
        total = keys.sum() if self.kind == "read again" else keys
        return found.transpose(1, 2).flatten(2), total, values


def crossed(heads: Tensor) -> Tensor:
    return torch.cat([-heads[..., SIZE // 2 :], heads[..., : SIZE // 2]], -1)


class Row(NamedTuple):
    model: Cached
    written: int
    window: int | None = None
    turns: bool = False
    """Whether the operator turns queries and keys itself."""
    products: int = 1
    """How many products give queries, keys and values."""


ROWS = {
    "cache": Row(Cached(), 1),
    "window": Row(Cached(window=3), 1, 3),
    "half precision": Row(Cached().half(), 1),
    "operations on heads": Row(Cached(turned="waves"), 1, products=3),
    "turned by row": Row(Cached(turned="by row"), 1, products=3),
    "turned by place": Row(Cached(turned="by place", bias=False), 1, turns=True),
    "turned queries": Row(Cached(turned="queries"), 1, products=3),
    "one product": Row(Cached(joined=True, turned="by place"), 1, turns=True),
    "no order": Row(Cached(kind="any"), 0, products=3),
    "one later position": Row(Cached(kind="one later"), 0, products=3),
    "positions that leave out the past": Row(Cached(kind="behind nothing"), 0, products=3),
    "window without order": Row(Cached(window=3, kind="any"), 0, products=3),
    "heads of a size that is no multiple of 8": Row(Cached(size=12), 0, products=3),
}


def inputs(
    batch: int, new: int, seen: int, padding: int = 0, dtype: torch.dtype = torch.float32, size: int = SIZE
) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(new)
    mask = torch.ones(batch, seen + new, dtype=torch.int64)
    mask[0, :padding] = 0
    past = [torch.randn(batch, KEPT, seen, size, generator=generator) for _ in range(2)]
    x, *past = (tensor.to(dtype) for tensor in (torch.randn(batch, new, 16, generator=generator), *past))
    return x, mask, *past


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
def test_cache(row: Row) -> None:
    model = row.model.eval()
    axes = ({0: "batch", 1: "new"}, {0: "batch", 1: "seen + new"}, *[{0: "batch", 2: "seen"}] * 2)
    dtype = next(model.parameters()).dtype
    example = inputs(2, 4, 3, dtype=dtype, size=model.size)
    program = onnxport.export(model, example, dynamic_shapes=axes, target="onnxruntime")
    fused = [node for node in program.model.graph if node.op_type == "GroupQueryAttention"]
    assert len(fused) == row.written
    if row.window is not None:
        assert fused[0].attributes.get_int("local_window_size", 0) == row.window
    assert sum(node.attributes.get_int("do_rotary", 0) for node in fused) == row.turns
    if fused:
        assert [node.op_type for node in program.model.graph].count("MatMul") == row.products
    names = [str(value.name) for value in program.model.graph.inputs[2:]]
    assert program.model.metadata_props.get(CACHE_BUFFERS, "").split() == (names if fused else [])
    for sizes in ((2, 5, 0, 2), (3, 1, 9, 4), (1, 4, 6, 7), (2, 1, 0, 0)):
        given = inputs(*sizes, dtype, model.size)
        with torch.no_grad():
            expected = model(*given)
        near = 2e-5 if dtype == torch.float32 else 2e-3
        for wanted, found in zip(expected, program(*given), strict=True):
            torch.testing.assert_close(found, wanted, atol=near, rtol=max(near, 1e-4))


@pytest.mark.parametrize("new", [1, 4])
@pytest.mark.parametrize("name", ["cache", "window", "positions that leave out the past"])
def test_so_many_new_positions_at_a_time(name: str, new: int) -> None:
    row = ROWS[name]
    seen = torch.export.Dim("seen", min=2)
    axes = ({0: "batch"}, {0: "batch", 1: seen + new}, *[{0: "batch", 2: seen}] * 2)
    program = onnxport.export(row.model.eval(), inputs(2, new, 3), dynamic_shapes=axes, target="onnxruntime")
    kinds = [node.op_type for node in program.model.graph]
    assert kinds.count("GroupQueryAttention") == row.written and "If" not in kinds
    assert len(program.model.metadata_props.get(CACHE_BUFFERS, "").split()) == 2 * row.written
    given = inputs(3 if new == 1 else 1, new, 9, padding=2)
    with torch.no_grad():
        expected = row.model(*given)
    for wanted, found in zip(expected, program(*given), strict=True):
        torch.testing.assert_close(found, wanted, atol=2e-5, rtol=1e-4)


def test_a_buffer_is_longer_than_what_it_holds() -> None:
    model = ROWS["window"].model.eval()
    axes = ({0: "batch", 1: "new"}, {0: "batch", 1: "seen + new"}, *[{0: "batch", 2: "seen"}] * 2)
    program = onnxport.export(model, inputs(2, 4, 3), dynamic_shapes=axes, target="onnxruntime")
    x, mask, keys, values = inputs(2, 1, 5, padding=3)
    with torch.no_grad():
        expected = model(x, mask, keys, values)
    rest = torch.full((2, KEPT, 7, SIZE), torch.nan)
    found = program(x, mask, torch.cat([keys, rest], 2), torch.cat([values, rest], 2))
    torch.testing.assert_close(found[0], expected[0], atol=2e-5, rtol=1e-4)
    for wanted, whole in zip(expected[1:], found[1:], strict=True):
        assert whole.shape[2] == 12
        torch.testing.assert_close(whole[:, :, :6], wanted, atol=2e-5, rtol=1e-4)


def test_keys_that_something_else_reads_are_joined_as_before() -> None:
    model = Cached(kind="causal").eval()
    again = Cached(kind="read again").eval()
    axes = ({0: "batch", 1: "new"}, {0: "batch", 1: "seen + new"}, *[{0: "batch", 2: "seen"}] * 2)
    for module, count in ((model, 1), (again, 0)):
        program = onnxport.export(module, inputs(2, 4, 3), dynamic_shapes=axes, target="onnxruntime")
        assert [node.op_type for node in program.model.graph].count("GroupQueryAttention") == count
