"""The statements that programs are made of: each row draws an expression over names that are there."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

import torch

Statement = Callable[[random.Random, Sequence[str], Mapping[str, object]], str]

#: ``{a}`` and ``{b}`` are tensors, ``{p}`` truth values, ``{d}`` an axis of ``{a}``, ``{i}`` and ``{s}`` small numbers.
VIEWS = [
    *("{a}[{i}:]", "{a}[..., ::2]", "{a}[-3:-1]", "{a}[None]", "{a}.select({d}, -1)", "{a}.narrow({d}, 0, 1)"),
    *(
        "{a}.transpose({d}, -1)",
        "{a}.flip({d})",
        "{a}.unsqueeze({d})",
        "{a}.squeeze({d})",
        "{a}.t()",
        "{a}.reshape(-1)",
    ),
    *("{a}.flatten()", "{a}.unfold({d}, 2, 1)", "{a}.diagonal()", "{a}.expand(2, *{a}.shape)", "{a}.contiguous()"),
    *("{a}.unflatten(-1, (2, -1))", "{a}.movedim(0, -1)", "{a}.view(*{a}.shape, 1)", "{a}.permute(-1, 0)"),
    *("{a}.chunk(2, -1)[0]", "{a}.split(2, -1)[0]", "{a}.unbind(-1)[0]", "{a}.tensor_split(2, {d})[1]"),
]
WRITES = [
    *("{a}.add_({s})", "{a}.mul_({b})", "{a}.clamp_(-{i}, {i})", "{a}.fill_({s})", "{a}.zero_()", "{a}.neg_()"),
    *("{a}.copy_({b})", "{a}.masked_fill_({a} > {s}, {i})", "{a}.index_fill_({d}, torch.tensor([0]), {s})"),
    *("{a}.sub_({b}.sum())", "{a}[:1].add_({i})", "{a}[..., ::2].mul_({s})", "{a}.index_put_(({a} > 1,), {a}.sum())"),
    *(
        "{a}.index_add_({d}, torch.tensor([0, 0]), torch.ones_like({a}).narrow({d}, 0, 2))",
        "{a}.select({d}, 0).zero_()",
    ),
]
READS = [
    *(
        "{a} + {b}",
        "{a} - {b}",
        "{a} * {b}",
        "{a} * {s}",
        "{a} + {s}.5",
        "{a} / ({b}.abs() + 1)",
        "{a} // 3",
        "{a} % 5",
    ),
    *(
        "{a} > {b}",
        "{a} == {b}",
        "~{p}",
        "{a}.to(torch.{t})",
        "{a}.abs()",
        "torch.tanh({a})",
        "torch.relu({a})",
        "-{a}",
    ),
    *("torch.maximum({a}, {b})", "torch.where({p}, {a}, {b})", "torch.where({a} > 0, {a}, {s})", "{a}.clone()"),
    *(
        "{a}.masked_fill({p}, {s})",
        "{a} << 1",
        "{a} & 3",
        "{a} ^ {b}",
        "torch.exp(-{a}.abs())",
        "{a}.float().sigmoid()",
    ),
]
REDUCTIONS = [
    *(
        "{a}.sum()",
        "{a}.sum({d})",
        "{a}.sum({d}, keepdim=True)",
        "{a}.float().mean({d})",
        "{a}.prod({d})",
        "{a}.any({d})",
    ),
    *("{a}.amax(-1)", "{a}.max(-1).values", "{a}.argmax(-1)", "{a}.cumsum({d})", "{a}.float().var({d}, correction=0)"),
    *("{a}.sort({d}).values", "{a}.argsort(-1, stable=True)", "{a}.topk(1, -1).values", "torch.logsumexp({a}, -1)"),
    *("{a}.float().softmax(-1)", "{a}.count_nonzero()", "{a}.float().norm(dim={d})", "torch.all({a})", "{a}.amin(-1)"),
]
INDEXING = [
    *(
        "{a}[{b}.long().clamp(0, 1)]",
        "{a}[..., {i} % 2]",
        "{a}[:, torch.tensor([0, -1])]",
        "{a}.index_select({d}, torch.tensor([0]))",
    ),
    *(
        "{a}.gather(-1, torch.zeros_like({a}, dtype=torch.long))",
        "{a}[{p}]",
        "{a}.masked_select({a} > 0)",
        "{a}.take_along_dim({a}.argsort(-1, stable=True), -1)",
    ),
    *("{a}.scatter(-1, torch.zeros_like({a}, dtype=torch.long)[..., :1], {i})", "{a}.roll(1, {d})", "{a}.tril()"),
]
JOINS = [
    *(
        "torch.cat([{a}, {b}])",
        "torch.cat([{a}, {b}], -1)",
        "torch.stack([{a}, {a}], {d})",
        "torch.cat({a}.split(2, -1)[::-1], -1)",
    ),
    *("torch.cat({a}.chunk(3, -1), 0)", "{a}.repeat_interleave(2, {d})", "{a}.repeat(2, 1)", "F.pad({a}, (1, 0))"),
]
LAYERS = [
    *("self.linear({a}.float())", "self.norm({a})", "self.block({a})", "self.conv({a}.unsqueeze(-2)).sum(-2)"),
    *("{a} @ {b}.t()", "{a}.t() @ {b}", "{a} * self.scale", "{a} + self.counts", "F.layer_norm({a}, {a}.shape[-1:])"),
    *(
        "torch.addmm({b}.float().sum(), {a}, {a}.t() @ {a}, beta=0.5)",
        "F.gelu({a})",
        "F.max_pool1d({a}.unsqueeze(0), 2).squeeze(0)",
    ),
]
TYPES = ("float32", "int64", "int32", "uint8", "bool", "float64", "float16")


def _row(templates: Sequence[str]) -> Statement:
    def drawn(draw: random.Random, names: Sequence[str], scope: Mapping[str, object]) -> str:
        a, b = draw.choice(names), draw.choice(names)
        masks = [name for name in names if getattr(scope[name], "dtype", None) == torch.bool]
        tensor = scope[a]
        assert isinstance(tensor, torch.Tensor)
        numbers = {"d": draw.randrange(max(1, tensor.dim())), "i": draw.randint(0, 3), "s": draw.randint(-3, 5)}
        return draw.choice(templates).format(a=a, b=b, p=draw.choice(masks), t=draw.choice(TYPES), **numbers)

    return drawn


CHOICES = [_row(rows) for rows in (VIEWS, VIEWS, WRITES, READS, READS, REDUCTIONS, INDEXING, JOINS, LAYERS)]
