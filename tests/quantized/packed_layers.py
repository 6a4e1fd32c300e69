"""Linear layers whose weights are packed as checkpoints have them, written out as the libraries unpack them."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

NF4 = [-1.0, -0.6961928, -0.52507305, -0.39491749, -0.28444138, -0.18477343, -0.09105004, 0.0]
NF4 += [0.0795803, 0.1609302, 0.2461123, 0.33791524, 0.44070983, 0.562617, 0.72295684, 1.0]
FP4 = [0.0, 0.0052083333, 0.6666667, 1.0, 0.33333333, 0.5, 0.16666667, 0.25]
E2M1 = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def packed_words(integers: Tensor, order: list[int] | None = None) -> Tensor:
    """Eight 4-bit integers of the last axis in a word of 32 bits, in this order."""
    places = range(8) if order is None else order
    parts = integers.to(torch.int64).unflatten(-1, (-1, 8))
    words = sum((parts[..., place] << (4 * at)) for at, place in enumerate(places))
    assert isinstance(words, Tensor)
    return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)


class GPTQ(nn.Module):
    """Eight integers of a column in a word, a group for each row (``g_idx``), zero points less one."""

    def __init__(self, inputs: int, outputs: int, group: int = 32, *, ordered: bool = True, bias: bool = True) -> None:
        super().__init__()
        groups = inputs // group
        self.register_buffer("qweight", packed_words(torch.randint(0, 16, (outputs, inputs))).T.contiguous())
        self.register_buffer("qzeros", packed_words(torch.randint(0, 15, (groups, outputs))))
        self.register_buffer("scales", torch.rand(groups, outputs) * 0.02 + 0.01)
        order = torch.arange(inputs) if ordered else torch.randperm(inputs)
        self.register_buffer("g_idx", (order // group).to(torch.int32))
        self.register_buffer("wf", torch.arange(0, 32, 4, dtype=torch.int32).unsqueeze(0), persistent=False)
        self.bias = nn.Parameter(torch.randn(outputs)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        zeros = torch.bitwise_right_shift(self.qzeros.unsqueeze(2), self.wf.unsqueeze(0)).to(torch.int8)
        zeros = torch.bitwise_and(zeros + 1, 15).reshape(self.scales.shape)
        weight = torch.bitwise_right_shift(self.qweight.unsqueeze(1), self.wf.unsqueeze(-1)).to(torch.int8)
        weight = torch.bitwise_and(weight, 15).reshape(-1, self.scales.shape[1])
        index = self.g_idx.long()
        weight = self.scales[index] * (weight - zeros[index])
        y = torch.matmul(x, weight)
        return y if self.bias is None else y + self.bias


class AWQ(nn.Module):
    """Eight integers of a row in a word, in an order of their own."""

    def __init__(self, inputs: int, outputs: int, group: int = 32) -> None:
        super().__init__()
        groups = inputs // group
        self.group = group
        self.register_buffer("qweight", packed_words(torch.randint(0, 16, (inputs, outputs)), AWQ_ORDER))
        self.register_buffer("qzeros", packed_words(torch.randint(0, 16, (groups, outputs)), AWQ_ORDER))
        self.register_buffer("scales", torch.rand(groups, outputs) * 0.02 + 0.01)

    def forward(self, x: Tensor) -> Tensor:
        shifts = torch.arange(0, 32, 4)
        back = torch.tensor([AWQ_ORDER.index(place) for place in range(8)])
        weight = torch.bitwise_right_shift(self.qweight[:, :, None], shifts[None, None, :]).to(torch.int8)
        zeros = torch.bitwise_right_shift(self.qzeros[:, :, None], shifts[None, None, :]).to(torch.int8)
        weight = torch.bitwise_and(weight[:, :, back].flatten(1), 15)
        zeros = torch.bitwise_and(zeros[:, :, back].flatten(1), 15)
        scales = self.scales.repeat_interleave(self.group, dim=0)
        zeros = zeros.repeat_interleave(self.group, dim=0)
        return torch.matmul(x, (weight - zeros) * scales)


class HQQ(nn.Module):
    """Two integers in a byte, one of each half; zero points are real numbers."""

    def __init__(self, inputs: int, outputs: int, group: int = 32, bits: int = 4) -> None:
        super().__init__()
        self.shape, self.bits = (outputs, inputs), bits
        blocks = inputs * outputs // group
        integers = torch.randint(0, 2**bits, (blocks, group), dtype=torch.uint8)
        half = blocks // 2
        self.register_buffer("W_q", (integers[:half] << 4) | integers[half:] if bits == 4 else integers)
        self.register_buffer("scale", torch.rand(blocks, 1) * 0.02 + 0.01)
        self.register_buffer("zero", torch.rand(blocks, 1) * 2**bits)

    def forward(self, x: Tensor) -> Tensor:
        integers = self.W_q
        if self.bits == 4:
            integers = torch.cat([(self.W_q & 0b11110000) >> 4, self.W_q & 0b00001111], dim=0)
        weight = ((integers.to(self.scale.dtype) - self.zero) * self.scale).reshape(self.shape)
        return torch.matmul(x, weight.t())


class PlacedHQQ(HQQ):
    """The same, with the integers converted before each half of them is put in its place."""

    def forward(self, x: Tensor) -> Tensor:
        rows = self.W_q.shape[0]
        integers = torch.empty([2 * rows, self.W_q.shape[1]], dtype=self.scale.dtype)
        integers[:rows] = (self.W_q & 0b11110000) >> 4
        integers[rows:] = self.W_q & 0b00001111
        return torch.matmul(x, ((integers - self.zero) * self.scale).reshape(self.shape).t())


class Shifted(nn.Module):
    """Two integers in a byte, a scale for each block and the number that stands for 0 (GGUF's Q4_1)."""

    def __init__(self, inputs: int, outputs: int, *, taken_off: bool = False) -> None:
        super().__init__()
        self.taken_off = taken_off
        self.register_buffer("qs", torch.randint(0, 256, (outputs, inputs // 32, 16), dtype=torch.uint8))
        self.register_buffer("d", torch.rand(outputs, inputs // 32) * 0.02 + 0.001)
        self.register_buffer("m", torch.randn(outputs, inputs // 32) * 0.1)

    def forward(self, x: Tensor) -> Tensor:
        scaled = torch.cat([self.qs & 0xF, self.qs >> 4], -1).float() * self.d[..., None]
        shift = self.m[..., None]
        return functional.linear(x, (scaled - shift if self.taken_off else scaled + shift).flatten(1))


class Int4ForCPU(nn.Module):
    """Weights in the order that torch's kernel for this processor reads them."""

    def __init__(self, inputs: int, outputs: int, group: int = 32) -> None:
        super().__init__()
        self.group = group
        integers = torch.randint(0, 16, (outputs, inputs), dtype=torch.int32)
        self.register_buffer("weight", torch.ops.aten._convert_weight_to_int4pack_for_cpu(integers, 1))
        scale, zero = torch.rand(inputs // group, outputs) * 0.02, torch.randn(inputs // group, outputs) * 0.05
        self.register_buffer("scales_and_zeros", torch.stack([scale, zero], -1).contiguous())

    def forward(self, x: Tensor) -> Tensor:
        kernel = torch.ops.aten._weight_int4pack_mm_for_cpu
        product: Tensor = kernel(x, self.weight, self.group, self.scales_and_zeros)
        return product


class BitsAndBytes(nn.Module):
    """Places in a table of 16 numbers, two in a byte, times the largest magnitude of each block."""

    def __init__(self, inputs: int, outputs: int, table: list[float], block: int = 64) -> None:
        super().__init__()
        self.shape = (outputs, inputs)
        self.block = block
        count = inputs * outputs
        self.register_buffer("weight", torch.randint(0, 256, (count // 2, 1), dtype=torch.uint8))
        self.register_buffer("absmax", torch.rand(count // block) * 0.1 + 0.01)
        signed = table if len(table) == 16 else [*table, *(-number for number in table)]
        self.register_buffer("code", torch.tensor(signed))

    def forward(self, x: Tensor) -> Tensor:
        places = torch.stack([self.weight >> 4, self.weight & 15], dim=-1).reshape(-1).long()
        weight = self.code[places].reshape(-1, self.block) * self.absmax[:, None]
        return functional.linear(x, weight.reshape(self.shape))


class Float8Blocks(nn.Module):
    """Numbers of 8 bits with a scale for each square of 128 × 128."""

    def __init__(self, inputs: int, outputs: int, block: int = 128) -> None:
        super().__init__()
        self.block = block
        self.register_buffer("weight", torch.randn(outputs, inputs).to(torch.float8_e4m3fn))
        self.register_buffer("weight_scale_inv", torch.rand(-(-outputs // block), -(-inputs // block)) * 0.1 + 0.05)

    def forward(self, x: Tensor) -> Tensor:
        rows, columns = self.weight.shape
        scale = self.weight_scale_inv.repeat_interleave(self.block, 0).repeat_interleave(self.block, 1)
        return functional.linear(x, self.weight.to(torch.float32) * scale[:rows, :columns])


class MXFP4(nn.Module):
    """Numbers of 4 bits in blocks of 32, each with a power of two as its scale."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.register_buffer("blocks", torch.randint(0, 256, (outputs, inputs // 32, 16), dtype=torch.uint8))
        self.register_buffer("scales", torch.randint(118, 126, (outputs, inputs // 32), dtype=torch.uint8))
        self.register_buffer("table", torch.tensor([*E2M1, *(-number for number in E2M1)]))

    def forward(self, x: Tensor) -> Tensor:
        exponents = self.scales.to(torch.int32) - 127
        low, high = self.table[(self.blocks & 15).int()], self.table[(self.blocks >> 4).int()]
        weight = torch.stack([low, high], dim=-1).flatten(2)
        return functional.linear(x, torch.ldexp(weight, exponents.unsqueeze(-1)).flatten(1))


class NVFP4(nn.Module):
    """Numbers of 4 bits in blocks of 16, each with an 8-bit number as its scale, and one scale for all."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.register_buffer("weight_packed", torch.randint(0, 256, (outputs, inputs // 2), dtype=torch.uint8))
        self.register_buffer("weight_scale", (torch.rand(outputs, inputs // 16) + 0.5).to(torch.float8_e4m3fn))
        self.register_buffer("weight_global_scale", torch.tensor([11.0]))
        self.register_buffer("table", torch.tensor([*E2M1, *(-number for number in E2M1)]))

    def forward(self, x: Tensor) -> Tensor:
        places = torch.stack([self.weight_packed & 15, self.weight_packed >> 4], dim=-1).flatten(1)
        scale = self.weight_scale.to(torch.float32) / self.weight_global_scale
        weight = self.table[places.long()].unflatten(1, (-1, 16)) * scale.unsqueeze(-1)
        return functional.linear(x, weight.flatten(1))


class Int8Channels(nn.Module):
    """One scale for each output (LLM.int8, SmoothQuant)."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.register_buffer("CB", torch.randint(-127, 128, (outputs, inputs), dtype=torch.int8))
        self.register_buffer("SCB", torch.rand(outputs) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.CB.to(x.dtype) * (self.SCB / 127).unsqueeze(1))
