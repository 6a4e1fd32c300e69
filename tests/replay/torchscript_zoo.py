"""Modules as code for the TorchScript exporter has them: 60 to be traced, 50 to be scripted.

``PYTHONPATH=src:tests/replay python tests/replay/torchscript_zoo.py`` compares, row by row and at each opset,
what this exporter and torch.onnx's ``dynamo=False`` make of them.
"""

# TorchScript reads annotations when it compiles, so they have to be types and not their text.
import dataclasses
import io
import math
import sys
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

OPSETS = (11, 13, 17, 20)


@dataclasses.dataclass(frozen=True)
class Row:
    """A module, example inputs, the same at other sizes, and how far off results may be."""

    name: str
    make: Callable[[], nn.Module]
    examples: tuple[tuple[Any, ...], ...]
    tolerance: float = 1e-4
    # Of some code `torch.jit.trace` records what is not what the code does; only the module itself tells.
    recorded_right: bool = True
    # Branches and loops pass on lists whose length only run time knows from opset 13 on.
    lowest: int = 11
    # What the export says of it.
    warns: str = ""

    @property
    def opsets(self) -> tuple[int, ...]:
        """The opsets to export at."""
        return tuple(opset for opset in OPSETS if opset >= self.lowest)

    def dynamic_axes(self) -> dict[str, dict[int, str]]:
        """The axes whose size differs between the examples."""
        axes: dict[str, dict[int, str]] = {}
        for position, tensors in enumerate(zip(*self.examples, strict=True)):
            shapes = [tensor.shape for tensor in tensors if isinstance(tensor, Tensor)]
            varying = {
                axis: f"size_{position}_{axis}"
                for axis in range(len(shapes[0]) if shapes else 0)
                if len({shape[axis] for shape in shapes}) > 1
            }
            if varying:
                axes[f"in_{position}"] = varying
        return axes


TRACED: list[Row] = []
SCRIPTED: list[Row] = []


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


def _tensors(shapes: tuple[Any, ...], seed: int) -> tuple[Any, ...]:
    generator = torch.Generator().manual_seed(seed)
    return tuple(shape if isinstance(shape, Tensor) else torch.randn(shape, generator=generator) for shape in shapes)


def traced(*shapes: Any, others: tuple[Any, ...] = (), **options: Any) -> Callable[[Any], Any]:
    """Add a function or module class to be traced on inputs of these shapes and run at others too."""
    return _row(TRACED, shapes, others, options)


def scripted(*shapes: Any, others: tuple[Any, ...] = (), **options: Any) -> Callable[[Any], Any]:
    """Add a function or module class to be scripted."""
    return _row(SCRIPTED, shapes, others, options)


def _row(table: list[Row], shapes: tuple[Any, ...], others: tuple[Any, ...], options: Any) -> Callable[[Any], Any]:
    def add(item: Any) -> Any:
        is_class = isinstance(item, type)
        make = (lambda: item()) if is_class else (lambda: item if table is SCRIPTED else Function(item))
        examples = [shapes, others] if others else [shapes]
        table.append(Row(item.__name__, make, tuple(_tensors(s, i) for i, s in enumerate(examples)), **options))
        return item

    return add


def I(*values: Any) -> Tensor:  # noqa: E743
    """A tensor of integers."""
    return torch.tensor(values)


# --- traced: elementwise, shapes ------------------------------------------------------------------------------------


@traced((2, 3), others=((5, 3),))
def arithmetic(x):
    return (x * 2 + 1 - x / 3) ** 2 % 1.5


@traced((2, 3), (3,), others=((4, 3), (3,)))
def broadcasting(x, y):
    return x + y, x > y, torch.where(x > 0, x, y)


@traced((2, 3, 4), others=((3, 3, 5),))
def flatten_by_size(x):
    return x.view(x.size(0), -1)


@traced((2, 3, 4), others=((3, 6, 4),))
def merge_axes(x):
    b, n, c = x.shape
    return x.reshape(b * n, c), x.reshape(b, n * c)


@traced((2, 6, 4), others=((3, 9, 4),))
def split_axis(x):
    return x.view(x.shape[0], x.shape[1] // 3, 3, x.shape[2])


@traced((2, 3), others=((4, 5),))
def size_arithmetic(x):
    return x * (x.shape[0] + x.shape[1] * 2 - 1) / x.shape[1]


@traced((2, 3), others=((4, 5),), recorded_right=False)
def in_place_on_sizes(x):
    rows, _ = x.shape
    more = rows
    more += 2
    return x + more + rows


@traced((2, 3), others=((4, 5),))
def new_tensors(x):
    return torch.zeros(x.shape[0], 4) + torch.ones_like(x).sum(1, keepdim=True) + torch.full((x.size(0), 1), 2.5)


@traced((2, 5), others=((4, 7),))
def ranges(x):
    return x + torch.arange(x.size(1)), torch.arange(x.size(0), dtype=torch.float32) * 0.5


@traced((3, 4), others=((5, 4),))
def expand_like(x):
    return x[:, None].expand(-1, 2, -1), x[:1].expand_as(x), x.repeat(1, 2)


@traced((2, 3), others=((4, 3),))
def mask_of_shape(x):
    return torch.tril(torch.ones(x.size(0), x.size(0))) @ x


@traced((2, 8, 4), others=((3, 6, 4),), warns="It is right only where")
def chunks(x):
    a, b = x.chunk(2, dim=1)
    c, d = x.split([1, 3], dim=2)
    return a - b, c * d


@traced((2, 3, 4), others=((2, 5, 4),))
def permutations(x):
    return x.permute(2, 0, 1), x.transpose(1, 2).contiguous(), x.t() if x.dim() == 2 else x.mT


@traced((2, 3), (2, 3), others=((4, 3), (4, 3)))
def joins(x, y):
    return torch.cat([x, y], 1), torch.stack((x, y), -1), torch.cat([x, x, y])


@traced((3, 4), others=((6, 4),))
def reductions(x):
    values, indices = x.max(dim=1)
    return x.mean(0), x.sum(), values, indices, x.std(1), x.norm(), x.argmin(), x.logsumexp(1)


@traced((3, 4), others=((6, 4),))
def casts(x):
    return x.long(), x.double().sum(1), (x > 0).float(), x.to(torch.int32), x.half().float(), x.to("cpu", torch.bool)


@traced((3, 4), others=((6, 4),))
def clamps(x):
    return x.clamp(-0.5, 0.5), x.clamp(min=0), torch.relu(x), F.hardtanh(x), x.abs().sqrt()


@traced((3, 4), others=((6, 5),))
def numel_of_it(x):
    return x.sum() / x.numel(), x.view(-1) * len(x.shape)


@traced((2, 3), I(3), others=((4, 3), I(2)))
def repeat_by_tensor(x, n):
    return x * n, x + n.float()


@traced((2, 6), others=((4, 6),))
def einsums(x):
    return torch.einsum("bi,bj->bij", x, x), torch.einsum("bi->b", x)


@traced((2, 3), others=((4, 3),))
def numbers_of_python(x):
    scale = math.sqrt(x.shape[1])
    return x * scale + math.pi


# --- traced: reads by index ------------------------------------------------------------------------------------------


@traced((5, 6, 3), others=((7, 6, 3),))
def reads_by_number(x):
    return x[0], x[-1], x[1, 2], x[..., 1], x[:, -2]


@traced((5, 6, 3), others=((7, 8, 3),))
def reads_by_slice(x):
    return x[1:], x[:-1], x[1:4:2], x[:, 2:5], x[..., ::2], x[-3:-1, 1:]


@traced((5, 6, 3), others=((7, 8, 3),))
def reads_by_slice_of_size(x):
    return x[: x.size(0) // 2], x[:, x.size(1) - 2 :]


@traced((5, 6), others=((7, 6),))
def reads_by_none(x):
    return x[None], x[:, None, :], x[..., None]


@traced((5, 6, 3), others=((7, 6, 3),))
def reads_by_tensor(x):
    return x[torch.tensor([0, 2])], x[:, torch.tensor([1, 3])], x[torch.tensor([[1, 2], [0, 3]])]


@traced((5, 6, 3), others=((7, 6, 3),))
def reads_by_negative_tensor(x):
    return x[torch.tensor([[1, 2], [2, -3]]), torch.tensor([-2, 3])], x[torch.tensor([-1])]


@traced((5, 6, 3), others=((7, 6, 3),))
def reads_by_several_tensors(x):
    return x[torch.tensor([0, 1]), torch.tensor([2, 3])], x[torch.tensor([0, 1]), :, torch.tensor([2, 0])]


@traced((5, 6), others=((7, 6),))
def reads_by_mask(x):
    return x[x > 0], x[x[:, 0] > 0], x.masked_select(x < 0)


@traced((5, 6), I(3, 1, 4), others=((7, 6), I(5, 0, 2, 4)))
def reads_by_input(x, index):
    return x[index], x.index_select(0, index), x[:, index[:2]], x.gather(0, index[:, None].expand(-1, 6))


@traced((5, 6, 3), I(1, 2), others=((7, 6, 3), I(2, 0)))
def reads_mixed(x, index):
    return x[index, 1:4], x[1:3, index], x[..., index], x[index, None]


# --- traced: writes by index -----------------------------------------------------------------------------------------


@traced((5, 6), others=((7, 6),))
def writes_by_number(x):
    y = x.clone()
    y[0] = 1
    y[1, 2] = 5.0
    y[-1] += 2
    return y


@traced((5, 6), others=((7, 8),))
def writes_by_slice(x):
    y = x.clone()
    y[1:3] = 0
    y[:, 2:4] = y[:, :2]
    y[::2, 1] *= 3
    return y


@traced((5, 6), others=((7, 6),))
def writes_by_tensor(x):
    y = x.clone()
    y[torch.tensor([0, 2])] = torch.ones(6)
    y[:, torch.tensor([1, -1])] = 7.0
    return y


@traced((5, 6), others=((7, 6),))
def writes_by_several_tensors(x):
    y = x.clone()
    y[torch.tensor([0, 2]), torch.tensor([3, 4])] = torch.tensor([9.0, 8.0])
    return y


@traced((5, 6), others=((7, 6),))
def writes_by_mask(x):
    y = x.clone()
    y[y > 0] = 0
    y[x < -1] = -1.0
    return y.masked_fill(y == 0, 3)


@traced((5, 6), I(3, 1), (2, 6), others=((7, 6), I(6, 0), (2, 6)))
def writes_by_input(x, index, source):
    y = x.clone()
    y[index] = source
    return y, x.scatter(0, index[:, None].expand(-1, 6), source), x.index_add(0, index, source)


@traced((5, 6), others=((7, 6),))
def writes_through_views(x):
    y = x.clone()
    row = y[1]
    row.add_(10)
    y.t()[2].mul_(2)
    y.view(-1)[0] = 100
    return y, row


@traced((5, 6), others=((7, 6),))
def writes_in_steps(x):
    out = torch.zeros(x.size(0), 3, 6)
    for i in range(3):
        out[:, i] = x * i
    return out


# --- traced: modules -------------------------------------------------------------------------------------------------


@traced((2, 3, 16, 16), others=((4, 3, 16, 16),))
class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2))
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        return self.head(F.adaptive_avg_pool2d(self.body(x), 1).flatten(1))


@traced((2, 7, 8), others=((3, 5, 8),))
class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out, self.heads = nn.Linear(8, 24), nn.Linear(8, 8), 2

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        weights = (q @ k.transpose(-2, -1) * (c // self.heads) ** -0.5).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(b, n, c))


@traced((2, 7, 8), others=((3, 5, 8),), tolerance=1e-3)
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, x):
        return self.layer(x)


@traced((5, 2, 4), others=((7, 3, 4),))
class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(4, 6, num_layers=2, bidirectional=True)

    def forward(self, x):
        y, (h, c) = self.rnn(x)
        return y, h, c


@traced((2, 5, 4), others=((3, 7, 4),))
class GruOfFirst(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(4, 6, batch_first=True)

    def forward(self, x):
        return self.rnn(x)[0][:, -1]


@traced((3, 4), (3, 6), others=((5, 4), (5, 6)))
class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(4, 6)

    def forward(self, x, h):
        for _ in range(3):
            h, c = self.cell(x, (h, h))
        return h + c


@traced(I([1, 2, 0], [3, 1, 4]), others=(I([1, 2], [3, 1], [0, 0]),))
class Embeddings(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(5, 4), nn.Embedding(9, 4)
        self.register_buffer("ids", torch.arange(9), persistent=False)

    def forward(self, tokens):
        return F.layer_norm(self.words(tokens) + self.places(self.ids[: tokens.size(1)]), (4,))


@traced((2, 4), others=((5, 4),))
class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 4)
        self.b = nn.Linear(4, 4)
        self.b.weight = self.a.weight
        self.scale = torch.tensor([1.0, 2.0, 3.0, 4.0])

    def forward(self, x):
        return self.b(self.a(self.a(x))) * self.scale


@traced((2, 3, 8, 8), others=((3, 3, 10, 6),))
def resizing(x):
    doubled = F.interpolate(x, scale_factor=2, mode="nearest")
    return doubled, F.interpolate(x, size=(5, 7), mode="bilinear", align_corners=False)


@traced((2, 3, 8, 8), (2, 3, 4, 4), others=((3, 3, 12, 10), (3, 3, 6, 5)))
def resizing_to_another(x, y):
    return x + F.interpolate(y, size=x.shape[-2:], mode="nearest")


@traced((2, 3, 8, 8), others=((3, 3, 10, 6),))
def padding(x):
    return F.pad(x, (1, 2)), F.pad(x, (1, 1, 2, 2), mode="reflect"), F.pad(x, (0, 1), value=3.0)


@traced((2, 4), others=((5, 4),))
class Losses(nn.Module):
    def forward(self, x):
        target = F.softmax(x * 2, 1)
        return F.cross_entropy(x, target), F.mse_loss(x, x * 2), F.smooth_l1_loss(x, target), F.log_softmax(x, 1)


# --- traced: containers, branches, functions -----------------------------------------------------------------------


@traced((2, 4), others=((5, 4),))
def nested_results(x):
    return {"a": x, "b": x + 1}


@traced((2, 4), others=((5, 4),))
def lists_of_tensors(x):
    parts = []
    for i in range(3):
        parts.append(x + i)
    return torch.stack(parts), sum(parts)


@traced((2, 4), others=((5, 4),))
def branches_on_rank(x):
    if x.dim() == 2 and x.shape[1] > 3:
        x = x.unsqueeze(1)
    return x.squeeze(1) if x.shape[1] == 1 else x


@torch.jit.script
def _until_large(x: Tensor) -> Tensor:
    while bool(x.abs().sum() < 100):
        x = x * 2
    return x


@traced((2, 4), others=((5, 4),))
def calls_script_with_loop(x):
    return _until_large(x) + 1


@torch.jit.script
def _sign(x: Tensor) -> Tensor:
    if x.sum() > 0:
        y = x * 2
    else:
        y = -x
    return y


@traced((2, 4), others=((5, 4),))
def calls_script_with_branch(x):
    return _sign(x) - 1


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx, grad):
        return grad * ctx.factor, None


@traced((2, 4), others=((5, 4),))
def autograd_function(x):
    return Scaled.apply(x, 3.0) + Scaled.apply(x, 0.5)


torch.library.define("onnxport_ts_zoo::twice", "(Tensor x, float by) -> Tensor")


@torch.library.impl("onnxport_ts_zoo::twice", "CompositeImplicitAutograd")
def _twice(x, by):
    return x * by + x * by


@traced((2, 4), others=((5, 4),))
def custom_operator(x):
    return torch.ops.onnxport_ts_zoo.twice(x, 1.5)


@traced((3, 5), others=((4, 7),))
def sorting(x):
    values, order = x.sort(dim=1)
    top, _ = x.topk(2, dim=1)
    return values, order, top, x.argsort(0), x.cumsum(1)


@traced((2, 5), others=((3, 5),), recorded_right=False)
def data_and_detach(x):
    return x.detach() * 2 + x.data


# --- scripted: branches ----------------------------------------------------------------------------------------------


@scripted((2, 4), others=((5, 4),))
class BranchOnValue(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            return x * 2
        else:
            return -x


@scripted((2, 4), others=((5, 4),))
class BranchOnValueWithWeights(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 3), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        if bool(x.mean() > 0):
            y = self.a(x)
        else:
            y = self.b(x)
        return y + 1


@scripted((2, 4), others=((5, 4),))
class BranchOnSize(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.size(0) > 3:
            y = x + 1
        else:
            y = x - 1
        return y


@scripted((2, 4), others=((5, 4),))
class BranchOnAttribute(nn.Module):
    def __init__(self):
        super().__init__()
        self.mode = "plus"
        self.factor = 3

    def forward(self, x: Tensor) -> Tensor:
        if self.mode == "plus":
            x = x + self.factor
        elif self.mode == "minus":
            x = x - self.factor
        return x


@scripted((2, 4), others=((5, 4),))
class NestedBranches(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            if x.max() > 1:
                y = x * 3
            else:
                y = x * 2
        else:
            y = x + 10
        return y


@scripted((2, 4), others=((5, 4),))
class SeveralResultsOfBranch(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if x.sum() > 0:
            a, b = x, x + 1
        else:
            a, b = x * 2, x - 1
        return a, b


@scripted((2, 4), others=((5, 4),))
class EarlyReturn(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.max() > 5:
            return x
        y = x * 2
        if y.min() < -1:
            return y + 1
        return y


@scripted((2, 4), others=((5, 4),))
class Checks(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        assert x.dim() == 2, "two axes"
        if x.size(1) != 4:
            raise ValueError("four columns")
        return x.exp()


@scripted((2, 4), others=((5, 4),))
class BoolLogic(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if (bool(x.sum() > 0) and not bool(x.max() > 100)) or x.dim() == 3:
            x = x + 1
        return x


@scripted((2, 4), others=((5, 4),))
class NumberOfBranch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        k = 1
        if x.sum() > 0:
            k = 3
        return x * k


# --- scripted: loops -------------------------------------------------------------------------------------------------


@scripted((2, 4), others=((5, 4),))
class LoopOfKnownLength(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        for i in range(4):
            x = x * 0.5 + i
        return x


@scripted((3, 4), others=((6, 4),))
class LoopOverSize(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros(4)
        for i in range(x.size(0)):
            total = total * 0.5 + x[i]
        return total


@scripted((2, 4), I(3), others=((5, 4), I(5)))
class LoopOfGivenLength(nn.Module):
    def forward(self, x: Tensor, n: Tensor) -> Tensor:
        for i in range(int(n)):
            x = x + i
        return x


@scripted((2, 4), others=((5, 4),))
class WhileOnValue(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        while bool(x.abs().sum() < 50):
            x = x * 1.5
        return x


@scripted((2, 4), others=((5, 4),))
class WhileWithCounter(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, int]:
        count = 0
        while bool(x.abs().sum() < 50) and count < 6:
            x = x * 1.5
            count += 1
        return x, count


@scripted((2, 4), others=((5, 4),))
class BreakAndContinue(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        for i in range(6):
            if i == 1:
                continue
            if i == 4:
                break
            x = x + i
        return x


@scripted((2, 4), others=((5, 4),))
class LoopWithBranch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        for i in range(3):
            if x.sum() > i:
                x = x - 1
            else:
                x = x + 2
        return x


@scripted((4, 3), others=((7, 3),))
class Recurrence(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.zeros(3)
        for t in range(x.size(0)):
            h = torch.tanh(self.cell(torch.cat([x[t], h])))
        return h


@scripted((2, 4), others=((5, 4),))
class LoopOverModules(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])

    def forward(self, x: Tensor) -> Tensor:
        for i, layer in enumerate(self.layers):
            x = torch.relu(layer(x)) + i
        return x


@scripted((4, 3), others=((7, 3),))
class ListOverSize(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        rows: list[Tensor] = []
        for i in range(x.size(0)):
            rows.append(x[i] * i)
        return torch.stack(rows)


@scripted((4, 3), others=((7, 3),))
class RecurrenceWithOutputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(3, 5)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.zeros(1, 5)
        outputs: list[Tensor] = []
        for t in range(x.size(0)):
            h = self.cell(x[t].unsqueeze(0), h)
            outputs += [h]
        return torch.cat(outputs), h


# --- scripted: lists of as many tensors as run time tells -------------------------------------------------------------


@scripted((4, 3), others=((7, 3),))
class ReturnsRows(nn.Module):
    def forward(self, x: Tensor) -> list[Tensor]:
        rows: list[Tensor] = []
        for i in range(x.size(0)):
            rows.append(x[i] * i)
        return rows


@scripted((4, 3), others=((7, 3),))
class ReturnsSlices(nn.Module):
    def forward(self, x: Tensor) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        return x.unbind(0), x.split(3), torch.chunk(x * 2, 3)


@scripted((4, 3), others=((7, 3),))
class WindowsOfASignal(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros(2)
        for window in x.split(2):
            total = total * 0.5 + self.linear(window).mean(0)
        return total


@scripted((4, 3), others=((7, 3),))
class EndsOfParts(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, int]:
        parts = x.split(3)
        return parts[0].sum(0) + parts[-1].sum(0) - parts[len(parts) // 2].sum(0), len(parts)


@scripted((4, 3), others=((7, 3),))
class EditedParts(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        parts = list(x.split(1))
        last = parts.pop()
        parts.insert(1, last)
        parts.append(x)
        parts[0] = last * 2
        return torch.cat(parts)


@scripted((2, 3), others=((3, 3),), lowest=13)
class DoublesUntilLarge(nn.Module):
    def forward(self, x: Tensor) -> tuple[list[Tensor], Tensor]:
        y = x.abs() + 0.5
        steps = [y]
        while bool(y.sum() < 100):
            y = y * 2
            steps.append(y)
        return steps, torch.stack(steps).sum(0)


@scripted((4, 3), others=((9, 3),), lowest=13)
class PrefixesOfEachLength(nn.Module):
    def forward(self, x: Tensor) -> list[Tensor]:
        return [x[: i + 1].mean(0, keepdim=True).expand(i + 1, 3) for i in range(x.size(0))]


@scripted((6, 3), others=((9, 3),), lowest=13)
class SortsBySign(nn.Module):
    def forward(self, x: Tensor) -> dict[str, list[Tensor]]:
        positive: list[Tensor] = []
        others: list[Tensor] = []
        for row in x.unbind(0):
            if bool(row.sum() > 0):
                positive.append(row)
            else:
                others.append(row)
        return {"positive": positive, "others": others}


@scripted((5, 3), others=((9, 3),), lowest=13)
class KeepsWhatDiffers(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        kept = [x[0]]
        for i in range(1, x.size(0)):
            new = True
            for j in range(len(kept)):
                if bool((kept[j] - x[i]).abs().sum() < 1.5):
                    new = False
            if new:
                kept.append(x[i])
        return torch.stack(kept)


@scripted((8, 3), others=((13, 3),), lowest=13)
class WorksOffAStack(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        stack = [x]
        total = torch.zeros(3)
        while len(stack) > 0:
            part = stack.pop()
            if part.size(0) > 2:
                stack.append(part[: part.size(0) // 2])
                stack.append(part[part.size(0) // 2 :])
            else:
                total = total * 0.5 + part.sum(0)
        return total


# --- scripted: containers --------------------------------------------------------------------------------------------


@scripted((2, 4), others=((5, 4),))
class Lists(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        parts: list[Tensor] = [x]
        for i in range(3):
            parts.append(parts[-1] * 2 + i)
        parts.pop(0)
        parts.insert(0, x - 1)
        return torch.cat(parts[1:], 1) + len(parts)


@scripted((2, 4), others=((5, 4),))
class Dicts(nn.Module):
    def forward(self, x: Tensor) -> dict[str, Tensor]:
        table: dict[str, Tensor] = {"a": x}
        table["b"] = table["a"] + 1
        if "c" not in table:
            table["c"] = table["b"] * 2
        for key in ["a", "b"]:
            table[key] = table[key] + 1
        return table


class Pair(NamedTuple):
    first: Tensor
    second: Tensor


@scripted((2, 4), others=((5, 4),))
class NamedTuples(nn.Module):
    def forward(self, x: Tensor) -> Pair:
        pair = Pair(x, x + 1)
        return Pair(pair.second, pair.first * pair.second)


@scripted((2, 4), others=((5, 4),))
class Tuples(nn.Module):
    def pair(self, x: Tensor) -> tuple[Tensor, int]:
        return x + 1, x.size(0)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y, n = self.pair(x)
        both = (x, y)
        return both[0] * n, both[1]


@scripted((2, 4), others=((5, 4),))
class Optionals(nn.Module):
    def helper(self, x: Tensor, bias: Tensor | None = None) -> Tensor:
        if bias is not None:
            x = x + bias
        return x

    def forward(self, x: Tensor) -> Tensor:
        return self.helper(x) + self.helper(x, x * 2)


@scripted((2, 4), others=((5, 4),))
class Comprehension(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.stack([x * k for k in [1, 2, 3]]).sum(0)


# --- scripted: indexing, shapes, modules -----------------------------------------------------------------------------


@scripted((5, 6), others=((7, 6),))
class ReadsAndWrites(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = x.clone()
        y[0] = 1.0
        y[1:3, 2:4] = 0.0
        y[y > 1] = 1.0
        y[:, -1] += 2.0
        return y[1:] + x[:-1, :1]


@scripted((5, 6), I(0, -2, 3), others=((7, 6), I(1, -1)))
class ReadsByTensor(nn.Module):
    def forward(self, x: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
        return x[index], x[:, index]


@scripted((2, 3, 4), others=((3, 5, 4),))
class Shapes(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.size()
        y = x.view(b * n, c).reshape([b, -1])
        return y.view(x.shape[0], n, c) + torch.arange(n, device=x.device, dtype=x.dtype).view(1, n, 1)


@scripted((2, 3), others=((4, 3),))
class Types(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x.to(torch.float64) if x.dtype == torch.float32 else x
        return y.type_as(x) + torch.tensor(2), torch.zeros([x.size(0)], dtype=torch.int64)


@scripted((2, 3, 16, 16), others=((4, 3, 16, 16),))
class ScriptedConvolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.AvgPool2d(2))
        self.head = nn.Linear(8, 5)
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.drop(F.adaptive_avg_pool2d(self.body(x), (1, 1)).flatten(1)))


@scripted((5, 2, 4), others=((7, 3, 4),))
class ScriptedLstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(4, 6)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y, state = self.rnn(x)
        return y, state[0]


@scripted((2, 5, 8), others=((3, 7, 8),), tolerance=1e-3)
class ScriptedAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.attention(x, x, x, need_weights=False)[0]


@scripted((2, 3, 8, 8), others=((3, 3, 6, 8),))
class ScriptedResize(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.interpolate(x, scale_factor=2.0, mode="nearest") * 2


@scripted((2, 4), others=((5, 4),))
class Counting(nn.Module):
    calls: Tensor

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros(1))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.calls + 1


@torch.jit.script
def half(x: Tensor, by: float = 0.5) -> Tensor:
    return x * by


@scripted((2, 4), others=((5, 4),))
class CallsFunctions(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return half(half(x), 0.25) + F.gelu(x) + F.softmax(x, dim=-1)


@scripted((2, 4), others=((5, 4),))
class Strings(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        name = "{}_{}".format("a", 3)
        if name.startswith("a") and "3" in name.split("_"):
            x = x + len(name)
        return x


@scripted((2, 4), others=((5, 4),))
class Futures(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        later = torch.jit.fork(half, x)
        return torch.jit.wait(later) + x


@scripted((2, 4), others=((5, 4),))
class WithoutGradient(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            y = x * 2
        return y + x


def model_of(row: Row, table: list[Row]) -> tuple[nn.Module, Any]:
    """The eager module of a row, and its TorchScript."""
    torch.manual_seed(0)
    eager = row.make().eval() if not isinstance(row.make(), torch.jit.ScriptFunction) else row.make()
    if not row.recorded_right:
        return eager, eager
    if table is SCRIPTED:
        return eager, torch.jit.script(eager)
    return eager, torch.jit.trace(eager, row.examples[0], check_trace=False, strict=False)


def main() -> None:
    """Print, for each row and opset, whether each of the exporters writes a model that agrees with eager."""
    import onnxport

    warnings.simplefilter("ignore")
    lacking = 0
    for kind, table in (("traced", TRACED), ("scripted", SCRIPTED)):
        for row in table:
            eager, script = model_of(row, table)
            for opset in [int(argument) for argument in sys.argv[1:]] or row.opsets:
                exporters = (onnxport.export, torch.onnx.export)  # noqa: TID251  what ours is compared with
                verdicts = [verdict(row, eager, script, export, opset) for export in exporters]
                lacking += verdicts[0] != "right" and verdicts[1] == "right"
                if verdicts[0] != "right":
                    print(f"{kind} {row.name} opset {opset}: ours {verdicts[0]}; torch.onnx {verdicts[1]}", flush=True)
    print(f"{len(TRACED)} traced, {len(SCRIPTED)} scripted; torch.onnx alone is right {lacking} times")


def verdict(row: Row, eager: nn.Module, script: Any, export: Callable[..., Any], opset: int) -> str:
    """What becomes of a row with one exporter: ``right``, or what is wrong."""
    import onnxruntime

    names = [f"in_{position}" for position in range(len(row.examples[0]))]
    file = io.BytesIO()
    try:
        export(
            script,
            row.examples[0],
            file,
            dynamo=False,
            input_names=names,
            dynamic_axes=row.dynamic_axes(),
            opset_version=opset,
        )
        session = onnxruntime.InferenceSession(file.getvalue(), providers=["CPUExecutionProvider"])
        known = {value.name for value in session.get_inputs()}
        for example in row.examples:
            feeds = {name: x.numpy() for name, x in zip(names, example, strict=True) if name in known}
            found = torch.utils._pytree.tree_leaves(session.run(None, feeds))
            expected = torch.utils._pytree.tree_leaves(eager(*(x.clone() for x in example)))
            # What is None is left out of the file, or an optional value that is not there.
            found, expected = ([leaf for leaf in leaves if leaf is not None] for leaves in (found, expected))
            if len(found) != len(expected):
                return f"wrong number of results ({len(found)} for {len(expected)})"
            for ours, theirs in zip(found, expected, strict=True):
                torch.testing.assert_close(
                    torch.as_tensor(ours), torch.as_tensor(theirs).detach(), rtol=row.tolerance, atol=row.tolerance
                )
    except AssertionError as error:
        return f"wrong: {' '.join(str(error).split())[:120]}"
    except Exception as error:  # noqa: BLE001  exporters and runtimes raise anything
        return f"fails: {type(error).__name__}: {' '.join(str(error).split())[:400]}"
    return "right"


if __name__ == "__main__":
    main()
