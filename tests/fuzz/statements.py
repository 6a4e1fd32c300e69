"""The statements that programs are made of: each row draws one over names that are there.

``{a}``, ``{b}`` and ``{c}`` are tensors, ``{p}`` truth values, ``{d}`` an axis of ``{a}``, ``{i}`` and ``{s}`` small
numbers, ``{t}`` a dtype. ``{v}`` is the name that the statement defines; a row without it is what ``{v}`` is.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence

import torch

Statement = Callable[[random.Random, str, Sequence[str], Mapping[str, object]], str]

VIEWS = """
{a}[{i}:]
{a}[..., ::2]
{a}[-3:-1]
{a}[None]
{a}[..., None, :]
{a}.select({d}, -1)
{a}.narrow({d}, 0, 1)
{a}.transpose({d}, -1)
{a}.flip({d})
{a}.unsqueeze({d})
{a}.squeeze({d})
{a}.t()
{a}.mT
{a}.reshape(-1)
{a}.reshape(-1, 2)
{a}.flatten()
{a}.unfold({d}, 2, 1)
{a}.unfold({d}, 2, 2)
{a}.diagonal()
{a}.expand(2, *{a}.shape)
{a}.expand_as({b})
{a}.contiguous()
{a}.unflatten(-1, (2, -1))
{a}.movedim(0, -1)
{a}.view(*{a}.shape, 1)
{a}.permute(-1, 0)
{a}.chunk(2, -1)[0]
{a}.chunk(3, {d})[-1]
{a}.split(2, -1)[0]
{a}.split(2, {d})[-1]
{a}.unbind(-1)[0]
{a}.tensor_split(2, {d})[1]
{a}.swapaxes(0, -1)
{a}.view_as({b})
torch.broadcast_tensors({a}, {b})[0]
""".strip().splitlines()
WRITES = """
{a}.add_({s})
{a}.add_({b}, alpha=2)
{a}.mul_({b})
{a}.div_(2)
{a}.clamp_(-{i}, {i})
{a}.fill_({s})
{a}.zero_()
{a}.neg_()
{a}.relu_()
{a}.copy_({b})
{a}.masked_fill_({a} > {s}, {i})
{a}.masked_fill_({p}, {s})
{a}.index_fill_({d}, torch.tensor([0]), {s})
{a}.sub_({b}.sum())
{a}[:1].add_({i})
{a}[..., ::2].mul_({s})
{a}.index_put_(({a} > 1,), {a}.sum())
{a}.index_add_({d}, torch.tensor([0, 0]), torch.ones_like({a}).narrow({d}, 0, 2))
{a}.select({d}, 0).zero_()
{a}[{i}:] = {b}; {v} = {a}
{a}[..., -1] = {s}; {v} = {a}
{a}[..., 1::2] += {i}; {v} = {a}
{a}[{p}] = {s}; {v} = {a}
{a}[{a} < {s}] *= 2; {v} = {a}
{a}[:, torch.tensor([0, -1])] = {b}; {v} = {a}
{a}[torch.tensor([0])] += {b}; {v} = {a}
{a} += {b}; {v} = {a}
{a}.scatter_(-1, torch.zeros_like({a}, dtype=torch.long)[..., :1], {i})
{a}.scatter_add_(-1, torch.zeros_like({a}, dtype=torch.long), {a}.clone())
{a}.index_copy_({d}, torch.tensor([0]), {a}.narrow({d}, 0, 1).clone())
{a}.fill_diagonal_({i})
{a}.tril_()
{a}.cumsum_({d})
{a}.transpose_(0, -1)
{a}.unsqueeze_(0)
self.scale.mul_(2); {v} = {a} * self.scale
self.counts[{i}:].add_({s}); {v} = {a} + self.counts
""".strip().splitlines()
READS = """
{a} + {b}
{a} - {b}
{a} * {b}
{a} * {s}
{a} + {s}.5
{s} - {a}
{a} / ({b}.abs() + 1)
{a} // 3
{a} % 5
{a} % ({b}.float().abs() + 1)
{a} > {b}
{a} == {b}
({a} != {b}) | {p}
~{p}
{a}.to(torch.{t})
{a}.type_as({b})
{a}.abs()
{a}.sign()
{a}.round()
{a}.floor()
{a}.square()
{a} ** 2
torch.tanh({a})
torch.relu({a})
-{a}
torch.maximum({a}, {b})
torch.minimum({a}, {b})
{a}.clamp(min={s})
torch.where({p}, {a}, {b})
torch.where({a} > 0, {a}, {s})
{a}.clone()
{a}.masked_fill({p}, {s})
{a} << 1
{a} >> 1
{a} & 3
{a} ^ {b}
torch.logical_and({a}, {b})
torch.exp(-{a}.abs())
{a}.float().sigmoid()
{a}.nan_to_num()
torch.lerp({a}, {b}, 0.5)
torch.full_like({a}, {s})
torch.arange({a}.shape[0]) + {s}
{a}.new_zeros({a}.shape[-1], 2)
{a} * {a}.shape[0]
{a}.new_full({b}.shape, {i})
torch.addcmul({a}, {b}, {c}, value=2)
{a}.double() + {b}
{a}.half() * 2
""".strip().splitlines()
REDUCTIONS = """
{a}.sum()
{a}.sum({d})
{a}.sum({d}, keepdim=True)
{a}.sum((0, -1))
{a}.float().mean({d})
{a}.prod({d})
{a}.any({d})
{a}.all({d})
{a}.amax(-1)
{a}.max(-1).values
{a}.min({d}).indices
{a}.argmax(-1)
{a}.argmin({d})
{a}.cumsum({d})
{a}.cumprod(-1)
{a}.cummax({d}).values
{a}.float().var({d}, correction=0)
{a}.float().std({d})
{a}.sort({d}).values
{a}.sort({d}, descending=True, stable=True).indices
{a}.argsort(-1, stable=True)
{a}.topk(1, -1).values
{a}.median({d}).values
{a}.kthvalue(1, -1).values
torch.logsumexp({a}, -1)
{a}.float().softmax(-1)
{a}.float().log_softmax({d})
{a}.count_nonzero()
{a}.float().norm(dim={d})
torch.all({a})
{a}.amin(-1)
{a}.unique()
""".strip().splitlines()
INDEXING = """
{a}[{b}.long().clamp(0, 1)]
{a}[..., {i} % 2]
{a}[:, torch.tensor([0, -1])]
{a}[torch.tensor([0, -1]), ..., :1]
{a}[:, None, [0, -1]]
{a}.index_select({d}, torch.tensor([0]))
{a}.gather(-1, torch.zeros_like({a}, dtype=torch.long))
{a}[{p}]
{a}.masked_select({a} > 0)
{a}.take_along_dim({a}.argsort(-1, stable=True), -1)
{a}.scatter(-1, torch.zeros_like({a}, dtype=torch.long)[..., :1], {i})
{a}.scatter_reduce(-1, torch.zeros_like({a}, dtype=torch.long), {a}, "amax")
{a}.masked_scatter({a} > 0, {a}.abs())
{a}.index_put((torch.tensor([0, 0]),), {a}[:1] * 0 + {s}, accumulate=True)
{a}.roll(1, {d})
{a}.tril()
{a}.triu(1)
{a}.nonzero()
{a}.take(torch.zeros(2, dtype=torch.long))
torch.searchsorted({a}.sort(-1).values, {a})
""".strip().splitlines()
JOINS = """
torch.cat([{a}, {b}])
torch.cat([{a}, {b}], -1)
torch.cat([{a}, {b}, {c}], {d})
torch.stack([{a}, {a}], {d})
torch.hstack([{a}, {b}])
torch.cat({a}.split(2, -1)[::-1], -1)
torch.cat({a}.chunk(3, -1), 0)
torch.stack({a}.unbind(-1), 0)
{a}.repeat_interleave(2, {d})
{a}.repeat(2, 1)
{a}.tile(2)
F.pad({a}, (1, 0))
F.pad({a}, (0, 1, 1, 0), value={s})
F.pad({a}.unsqueeze(0), (1, 1), mode="replicate").squeeze(0)
torch.meshgrid({a}.flatten(), {b}.flatten(), indexing="ij")[0]
""".strip().splitlines()
LAYERS = """
self.linear({a}.float())
self.norm({a})
self.block({a})
self.conv({a}.unsqueeze(-2)).sum(-2)
self.image(torch.stack([{a}, {a}])).flatten(1)
self.batch({a})
self.group({a})
self.embedding({a}.long().clamp(0, 4)).sum(-1)
{a} @ {b}.t()
{a}.t() @ {b}
{a} @ {b}
torch.einsum("ij,kj->ik", {a}, {b})
torch.einsum("ij,ij->j", {a}, {b})
torch.bmm({a}[None], {b}.t()[None])
{a} * self.scale
{a} + self.counts
F.layer_norm({a}, {a}.shape[-1:])
F.normalize({a}, dim=-1)
torch.addmm({b}.float().sum(), {a}, {a}.t() @ {a}, beta=0.5)
F.scaled_dot_product_attention({a}[None], {a}[None], {a}[None])[0]
F.gelu({a})
F.silu({a})
F.leaky_relu({a}, 0.1)
F.glu({a})
F.one_hot({a}.long().clamp(0, 3), 4)
F.max_pool1d({a}.unsqueeze(0), 2).squeeze(0)
F.avg_pool1d({a}.unsqueeze(0), 2, stride=1).squeeze(0)
F.adaptive_avg_pool1d({a}.unsqueeze(0), 2).squeeze(0)
F.interpolate({a}[None], scale_factor=2, mode="nearest")[0]
F.interpolate({a}[None], size=3, mode="linear")[0]
torch.cdist({a}, {b})
""".strip().splitlines()
TYPES = ("float32", "int64", "int32", "uint8", "bool", "float64", "float16", "int8")


def _row(templates: Sequence[str]) -> Statement:
    def drawn(draw: random.Random, name: str, names: Sequence[str], scope: Mapping[str, object]) -> str:
        a, b, c = (draw.choice(names) for _ in range(3))
        masks = [other for other in names if getattr(scope[other], "dtype", None) == torch.bool]
        tensor = scope[a]
        assert isinstance(tensor, torch.Tensor)
        numbers = {"d": draw.randrange(max(1, tensor.dim())), "i": draw.randint(0, 3), "s": draw.randint(-3, 5)}
        template = draw.choice(templates)
        text = template if "{v}" in template else f"{{v}} = {template}"
        return text.format(v=name, a=a, b=b, c=c, p=draw.choice(masks), t=draw.choice(TYPES), **numbers)

    return drawn


CHOICES = [_row(rows) for rows in (VIEWS, VIEWS, WRITES, READS, READS, REDUCTIONS, INDEXING, JOINS, LAYERS)]
