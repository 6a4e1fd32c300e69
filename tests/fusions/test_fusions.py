"""Each fusion: a model, the operators that are written, and the values of eager at other sizes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import onnx
import onnxruntime
import pytest
import torch
from test_cache import ROWS as CACHE_ROWS
from torch import Tensor, nn
from torch.nn import functional

import onnxport
from comparison import exported_and_compared
from onnxport.errors import InputError, TargetError
from onnxport.fusions import FUSIONS


class Residual(nn.Module):
    """A normalisation behind a residual, whose sum may be read once more."""

    def __init__(self, shows_sum: bool = False) -> None:
        super().__init__()
        self.fc, self.norm, self.shows_sum = nn.Linear(8, 8), nn.LayerNorm(8), shows_sum

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        total = x + self.fc(x)
        return (self.norm(total), total) if self.shows_sum else self.norm(total)


class Heads(nn.Module):
    """Attention of four heads, with something about it that may stand in the way of one operator for all of it."""

    def __init__(self, keys: int = 4, scale: float | None = None, causal: bool = False, apart: bool = False) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(16, 16), nn.Linear(16, 4 * keys), nn.Linear(16, 4 * keys)
        self.keys, self.scale, self.causal, self.apart = keys, scale, causal, apart

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        q = self.q(x).unflatten(2, (4, 4)).transpose(1, 2)
        k, v = (layer(memory).unflatten(2, (self.keys, 4)).transpose(1, 2) for layer in (self.k, self.v))
        found = functional.scaled_dot_product_attention(
            q, k, v, scale=self.scale, is_causal=self.causal, enable_gqa=self.keys != 4
        )
        return found if self.apart else found.transpose(1, 2).flatten(2)


class WrittenHeads(nn.Module):
    """Attention as products and a softmax, the scale at one place or another, or about which something is otherwise."""

    def __init__(self, scaled: str = "scores", masked: bool = False, axis: int = -1, latents: bool = False) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16)
        self.scaled, self.masked, self.axis, self.latents = scaled, masked, axis, latents

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        q, k, v = (
            layer(given).unflatten(2, (4, 4)).transpose(1, 2)
            for layer, given in ((self.q, x[:1] if self.latents else x), (self.k, memory), (self.v, memory))
        )
        turned = k.transpose(-1, -2) * 0.5 if self.scaled == "keys" else k.transpose(-1, -2)
        scores = (q * 0.5 if self.scaled == "queries" else q) @ turned
        if self.scaled == "scores":
            scores = scores / 3
        if self.masked:
            scores = scores.masked_fill(scores < -0.1, -1e9)
        return (scores.softmax(self.axis) @ v).transpose(1, 2).flatten(2)


class PackedHeads(nn.Module):
    """Attention whose queries, keys and values one product gives, parts of it or of each head."""

    def __init__(self, written: bool = False, inside: bool = False) -> None:
        super().__init__()
        self.qkv, self.written, self.inside = nn.Linear(8, 24), written, inside

    def forward(self, x: Tensor) -> Tensor:
        if self.inside:
            q, k, v = self.qkv(x).unflatten(2, (2, 3, 4)).permute(3, 0, 2, 1, 4).unbind(0)
        else:
            q, k, v = self.qkv(x).unflatten(2, (3, 2, 4)).permute(2, 0, 3, 1, 4).unbind(0)
        if self.written:
            found = (q @ k.transpose(-1, -2) * 0.5).softmax(-1) @ v
        else:
            found = functional.scaled_dot_product_attention(q, k, v)
        return found.transpose(1, 2).flatten(2)


class Squeeze(nn.Module):
    """The mean of channels behind a convolution, over the axes of images or others."""

    def __init__(self, axes: tuple[int, ...] = (2, 3), keeps: bool = True, convolves: bool = True) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 1) if convolves else nn.Identity()
        self.axes, self.keeps = axes, keeps

    def forward(self, x: Tensor) -> Tensor:
        images = x.flatten(0, 1).unflatten(1, (2, 2, 2))
        return functional.hardswish(self.conv(images)).mean(self.axes, keepdim=self.keeps)


class Excite(nn.Module):
    """Images multiplied by a factor for each channel, which a convolution or a product makes of their means."""

    def __init__(
        self, channels: int = 8, convolves: bool = True, apart: bool = False, normalises: bool = False
    ) -> None:
        super().__init__()
        self.convolves, self.apart = convolves, apart
        self.norm = nn.BatchNorm2d(channels) if normalises else nn.Identity()
        self.conv, self.linear = nn.Conv2d(1, channels, 1), nn.Linear(channels, channels)
        self.last = nn.Conv2d(channels, 2, 1)
        self.factors = nn.Conv2d(channels, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        images = self.norm(self.conv(x[:, :3, :2].reshape(-1, 1, 2, 3)))
        means = images.mean((2, 3), keepdim=True)
        if self.convolves:
            factors = self.factors(means).sigmoid()
        else:
            factors = self.linear(means[..., 0, 0])[..., None, None].sigmoid()
        return self.last(factors * (images[:, :, :1, :1] if self.apart else images))


class Rotary(nn.Module):
    """Heads whose halves are turned by angles that follow from the input or place, the same in both or not."""

    def __init__(
        self, other: float = 1.0, scale: float = 1.0, sign: float = -1.0, by_place: bool = False, flat: bool = False
    ) -> None:
        super().__init__()
        self.other, self.scale, self.sign, self.by_place, self.flat = other, scale, sign, by_place, flat

    def forward(self, x: Tensor) -> Tensor:
        heads = x.unflatten(2, (2, 4)).transpose(1, 2)
        at = torch.arange(x.shape[1])[None, :, None] if self.by_place else x[..., :1]
        half = at * torch.arange(1.0, 3.0)
        angles = torch.cat([half, half if self.other == 1.0 else half * self.other], dim=-1)
        cosine, sine = (one[:, None] * self.scale for one in (angles.cos(), angles.sin()))
        if self.flat:
            half = torch.outer(torch.arange(x.shape[1]), torch.arange(1.0, 3.0))
            angles = torch.cat([half, half * self.other if self.other != 1.0 else half], dim=-1)
            cosine, sine = angles.cos() * self.scale, angles.sin() * self.scale
        first, second = heads[..., :2], heads[..., 2:]
        crossed = torch.cat([-second if self.sign < 0 else second, first], dim=-1)
        return (heads * cosine + crossed * sine).transpose(1, 2).flatten(2)


class Row(NamedTuple):
    make: Callable[[], nn.Module]
    inputs: int
    written: dict[str, int]


ROWS = {
    "residual": Row(Residual, 1, {"Sum": 1}),
    "residual that is read again": Row(lambda: Residual(shows_sum=True), 1, {"Sum": 0}),
    "heads": Row(Heads, 2, {"MultiHeadAttention": 1, "Softmax": 0, "Transpose": 3}),
    "heads with a scale": Row(lambda: Heads(scale=0.3), 2, {"MultiHeadAttention": 1}),
    "heads that share keys": Row(lambda: Heads(keys=2), 2, {"MultiHeadAttention": 0}),
    "heads of causal attention": Row(lambda: Heads(causal=True), 2, {"MultiHeadAttention": 0}),
    "heads of one product": Row(PackedHeads, 1, {"MultiHeadAttention": 1, "Split": 1, "Transpose": 1}),
    "heads that hold queries, keys and values": Row(lambda: PackedHeads(inside=True), 1, {"MultiHeadAttention": 0}),
    "written heads": Row(WrittenHeads, 2, {"MultiHeadAttention": 1, "Softmax": 0, "Transpose": 3}),
    "written heads with scaled queries": Row(lambda: WrittenHeads("queries"), 2, {"MultiHeadAttention": 1, "Mul": 0}),
    "written heads with scaled keys": Row(lambda: WrittenHeads("keys"), 2, {"MultiHeadAttention": 1, "Mul": 0}),
    "written heads without a scale": Row(lambda: WrittenHeads(""), 2, {"MultiHeadAttention": 1}),
    "written heads with a mask": Row(lambda: WrittenHeads(masked=True), 2, {"MultiHeadAttention": 0}),
    "written heads over queries": Row(lambda: WrittenHeads(axis=-2), 2, {"MultiHeadAttention": 0}),
    "written heads of one row for all": Row(lambda: WrittenHeads(latents=True), 2, {"MultiHeadAttention": 0}),
    "written heads of one product": Row(lambda: PackedHeads(written=True), 1, {"MultiHeadAttention": 1, "Split": 1}),
    "rotary": Row(Rotary, 1, {"RotaryEmbedding": 1, "Neg": 0, "Slice": 1}),
    "rotary by place": Row(lambda: Rotary(by_place=True), 1, {"RotaryEmbedding": 1, "Neg": 0, "Slice": 0}),
    "rotary by place alone": Row(lambda: Rotary(flat=True), 1, {"RotaryEmbedding": 1, "Neg": 0, "Slice": 0}),
    "rotary by place alone, with other angles": Row(lambda: Rotary(2.0, flat=True), 1, {"RotaryEmbedding": 0}),
    "rotary with other angles in the second half": Row(lambda: Rotary(other=2.0), 1, {"RotaryEmbedding": 0}),
    "rotary in the other direction": Row(lambda: Rotary(sign=1.0), 1, {"RotaryEmbedding": 0}),
    "heads that stay apart": Row(lambda: Heads(apart=True), 2, {"MultiHeadAttention": 0}),
    "pool": Row(Squeeze, 1, {"GlobalAveragePool": 1, "ReduceMean": 0}),
    "pool of one axis": Row(lambda: Squeeze((3,)), 1, {"GlobalAveragePool": 0}),
    "pool of channels": Row(lambda: Squeeze((1, 2)), 1, {"GlobalAveragePool": 0}),
    "pool that loses its axes": Row(lambda: Squeeze(keeps=False), 1, {"GlobalAveragePool": 0}),
    "pool of no convolution": Row(lambda: Squeeze(convolves=False), 1, {"GlobalAveragePool": 0}),
    "scale": Row(Excite, 1, {"Resize": 1, "Mul": 1}),
    "scale behind a batch normalisation": Row(lambda: Excite(normalises=True), 1, {"Resize": 1, "Mul": 1}),
    "scale of few channels": Row(lambda: Excite(channels=6), 1, {"Resize": 0, "Mul": 1}),
    "scale of no convolution": Row(lambda: Excite(convolves=False), 1, {"Resize": 0, "Mul": 1}),
    "scale of single pixels": Row(lambda: Excite(apart=True), 1, {"Resize": 0, "Mul": 1}),
}


def example(row: Row, batch: int, length: int) -> list[Tensor]:
    size = 8 if row.inputs == 1 else 16
    return [torch.randn(batch, length + 2 * index, size) for index in range(row.inputs)]


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())
@pytest.mark.parametrize("opset", [17, 20, 23])
def test_fusion(row: Row, opset: int) -> None:
    torch.manual_seed(0)
    axes = [{0: "batch", 1: f"length{index}"} for index in range(row.inputs)]
    program = exported_and_compared(
        row.make().eval(),
        example(row, 2, 3),
        example(row, 3, 7),
        example(row, 1, 5),
        axes=axes,
        target="onnxruntime",
        opset_version=opset,
    )
    kinds = [node.op_type for node in program.model.graph]
    assert {name: kinds.count(name) for name in row.written} == row.written


def test_every_fusion_has_a_row() -> None:
    assert set(FUSIONS) <= {*ROWS, *CACHE_ROWS}
    assert all(fusion.gain and fusion.requires for fusion in FUSIONS.values())


def test_what_was_written_for_onnxruntime_is_refused_for_others(tmp_path: Path) -> None:
    row = ROWS["heads"]
    program = onnxport.export(row.make(), tuple(example(row, 2, 3)), target="onnxruntime")
    with pytest.raises(TargetError, match=r"(?s)com.microsoft.MultiHeadAttention is an operator of onnxruntime alone"):
        program.save(tmp_path / "m.onnx", target="tract")
    program.save(tmp_path / "m.onnx", target="onnxruntime-web")


def test_the_default_target_has_no_operator_of_a_runtime() -> None:
    row = ROWS["heads"]
    program = onnxport.export(row.make(), tuple(example(row, 2, 3)))
    assert {node.domain for node in program.model.graph} == {""}


def test_an_unknown_fusion_is_an_error() -> None:
    target = onnxport.Target("mine", fusions=("everything",))
    with pytest.raises(
        InputError,
        match="no fusion 'everything'; known are 'residual', 'heads', 'written heads', 'pool', "
        "'scale', 'rotary', 'cache'",
    ):
        onnxport.export(nn.ReLU(), (torch.ones(2),), target=target)


def test_scaled_images_stay_in_the_layout_of_convolutions(tmp_path: Path) -> None:
    counts = {}
    for fusions in (("pool",), ("pool", "scale")):
        target = onnxport.Target("mine", fusions=fusions, contributed=True)
        example = (torch.randn(2, 3, 8),)
        # Convolutions of onnxruntime have 8 channels in a block with AVX2, and 16 with AVX-512.
        model = Excite(channels=16).eval()
        program = onnxport.export(model, example, dynamic_shapes=({0: "batch"},), target=target)
        program.save(tmp_path / "m.onnx")
        options = onnxruntime.SessionOptions()
        options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
        options.log_severity_level = 3
        onnxruntime.InferenceSession(tmp_path / "m.onnx", options, providers=["CPUExecutionProvider"])
        kinds = [node.op_type for node in onnx.load(tmp_path / "optimized.onnx").graph.node]
        counts[fusions[-1]] = sum(kind.startswith("Reorder") for kind in kinds)
    assert counts["scale"] < counts["pool"]
