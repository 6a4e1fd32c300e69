"""Branches of scripts and traces: on sizes and on data, 0 and 1 among the sizes, and what they leave behind.

``PYTHONPATH=src:tests/replay python tests/replay/branch_zoo.py`` compares, row by row, what
this exporter and torch.onnx's ``dynamo=False`` make of them.
"""

# TorchScript reads annotations when it compiles, so they have to be types and not their text. It does not know all
# forms that the linter asks for.
# ruff: noqa: UP045
import sys
from typing import Optional

import torch
import torch.nn.functional as F
from language_zoo import Table
from torch import Tensor, nn

BRANCHES = Table()
scripted, traced, made = BRANCHES.scripted, BRANCHES.traced, BRANCHES.made


# --- on sizes --------------------------------------------------------------------------------------------------------


@scripted((0, 4), (3, 4), others=((2, 4), (3, 4)), further=[((1, 4), (3, 4))])
def empty_state_example(state: Tensor, x: Tensor) -> Tensor:
    if state.size(0) == 0:
        return x * 2
    return x + state.sum(0)


@scripted((2, 4), (3, 4), others=((0, 4), (3, 4)), further=[((1, 4), (5, 4))])
def full_state_example(state: Tensor, x: Tensor) -> Tensor:
    if state.size(0) == 0:
        return x * 2
    return x + state.sum(0)


@scripted((0, 4), (3, 4), others=((2, 4), (5, 4)))
class ConvolutionState(nn.Module):
    """A cache that is empty at the first call, as streaming models have it."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(4, 4, 3)

    def forward(self, cache: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
        if cache.size(0) == 0:
            full = F.pad(x, (0, 0, 2, 0))
        else:
            full = torch.cat([cache, x])
        return self.conv(full.t().unsqueeze(0))[0].t(), full[-2:]


@scripted((0, 0, 0), (2, 3), others=((1, 2, 3), (2, 3)), further=[((1, 4, 5), (4, 5)), ((2, 4, 5), (4, 5))])
def state_that_fits_nothing_yet(state: Tensor, x: Tensor) -> Tensor:
    """The example's state has no element, so that what later calls do with theirs fails at its sizes."""
    full = torch.zeros(2, x.size(0), x.size(1))
    if state.size(0) == 0:
        full[:] = x * 2
    elif state.size(0) == 1:
        full[:] = state + full * x
    else:
        full[:] = state * x
    return full


@scripted((0, 0), (2, 3), others=((2, 3), (2, 3)), further=[((5, 3), (2, 3)), ((1, 4), (6, 4))])
def empty_cache_of_any_width(cache: Tensor, x: Tensor) -> Tensor:
    if cache.size(0) == 0:
        full = x
    else:
        full = torch.cat([cache, x])
    return full.cumsum(0)


@scripted((2, 4, 6), others=((2, 3, 6),), warns="right only where .* differs from 1")
def squeezed_axis_is_read_later(x: Tensor) -> Tensor:
    x = x.squeeze(1)
    return x.argmax(2) * x.shape[2]


@scripted((1, 4), others=((3, 4),), further=[((2, 4),), ((0, 4),)])
def size_one_example(x: Tensor) -> Tensor:
    if x.size(0) == 1:
        y = x * 3
    else:
        y = x - x.mean(0)
    return y + 1


@scripted((1, 4), others=((3, 4),), further=[((8, 4),)])
def size_one_compared(x: Tensor) -> Tensor:
    if x.size(0) > 2:
        x = x[:2] * 10
    elif x.size(0) > 1:
        x = x - 1
    return x


@scripted((8, 4), others=((3, 4),), further=[((100, 4),), ((1, 4),)])
def thresholds(x: Tensor) -> Tensor:
    if x.shape[0] > 64:
        x = x * 2
    if x.shape[0] > 4:
        x = x + 1
    if x.shape[0] % 2 == 0:
        x = -x
    return x


@scripted((8, 7), others=((7, 6),), further=[((14, 13),), ((1, 1),)])
def window_padding(x: Tensor) -> Tensor:
    h = x.size(0)
    w = x.size(1)
    bottom = 0
    right = 0
    if h % 7 != 0:
        bottom = 7 - h % 7
    if w % 7 != 0:
        right = 7 - w % 7
    if bottom > 0 or right > 0:
        x = F.pad(x, (0, right, 0, bottom))
    return x.view(x.size(0) // 7, 7, x.size(1) // 7, 7).transpose(1, 2)


@scripted((5, 4), others=((3, 4),), further=[((12, 4),)])
def number_by_size(x: Tensor) -> Tensor:
    scale = 1.0
    steps = 1
    if x.size(0) > 4:
        scale = 0.5
        steps = 2
    return x[::1] * scale + steps


@scripted((1, 4), (2, 4), others=((3, 4), (1, 4)), further=[((2, 4), (2, 4))])
def two_sizes(x: Tensor, y: Tensor) -> Tensor:
    if x.size(0) == y.size(0):
        return x.sum(0) + y.sum(0)
    if x.size(0) < y.size(0):
        return y.mean(0)
    return x.max(0)[0]


@scripted((3, 4), (3, 4), others=((2, 4), (5, 4)), further=[((4, 2), (1, 4)), ((1, 4), (4, 4)), ((4, 2), (4, 2))])
def equal_in_the_example(x: Tensor, y: Tensor) -> Tensor:
    if x.size(0) == y.size(0) and (x.size(1) > 2 or y.size(1) > 2):
        return x.sum(1) + y.sum(1)
    return x.sum(1)[:1]


@scripted((3, 4), (3, 4), others=((4, 2), (1, 4)), further=[((4, 2), (4, 2)), ((5, 4), (1, 4))])
def added_on_one_way_and_compared_later(x: Tensor, y: Tensor) -> Tensor:
    z = (x + y).sum() if x.size(1) > 2 else x.sum()
    return z + 100 if x.size(0) == y.size(0) else z


@scripted((1, 3), others=((4, 3),), further=[((0, 3),)])
def empty_guard(x: Tensor) -> Tensor:
    if x.numel() == 0:
        return torch.zeros(3)
    return x.max(0)[0]


@scripted((0, 3), others=((4, 3),), further=[((1, 3),)])
class EmptyBoxes(nn.Module):
    def forward(self, boxes: Tensor) -> Tensor:
        if boxes.numel() == 0:
            return torch.empty((0, 4), dtype=torch.float32)
        return torch.cat([boxes, boxes[:, :1]], 1)


@scripted((2, 3), others=((5, 3),), further=[((1, 3),), ((9, 3),)])
def nested_by_size(x: Tensor) -> Tensor:
    if x.size(0) > 1:
        if x.size(0) > 4:
            if x.size(0) > 8:
                return x[:8]
            return x[:4]
        return x * 2
    return x - 1


@scripted((2, 3), others=((5, 3),), further=[((1, 3),)])
def early_returns(x: Tensor) -> tuple[Tensor, Tensor]:
    if x.size(0) == 1:
        return x, x * 2
    y = x.cumsum(0)
    if x.size(0) == 2:
        return y, x
    return x - y, y


# --- on data ---------------------------------------------------------------------------------------------------------


@scripted((2, 3), torch.tensor(True), others=((5, 3), torch.tensor(False)))
def by_flag(x: Tensor, flag: Tensor) -> Tensor:
    if flag:
        return x * 2
    return x - 1


@scripted(torch.ones(2, 3), others=(-torch.ones(5, 3),), further=[(torch.zeros(1, 3),)])
def chained_by_data(x: Tensor) -> Tensor:
    if x.sum() > 0:
        y = x * 2
    elif bool(x.min() < 0):
        y = x * x
    else:
        y = x + 7
    return y


@scripted(torch.ones(2, 3), others=(-torch.ones(5, 3),), further=[(torch.ones(1, 3) * 9,)])
def size_and_data(x: Tensor) -> Tensor:
    if x.size(0) > 1 and bool(x.sum() > 0):
        return x * 2
    if x.size(0) == 1 or bool(x.max() < 0):
        return x - 5
    return x


@scripted((4, 3), torch.tensor(2), others=((4, 3), torch.tensor(-1)), further=[((4, 3), torch.tensor(0))])
def by_number(x: Tensor, k: Tensor) -> Tensor:
    n = int(k)
    if n == 0:
        return x[:0]
    elif n < 0:
        return x[n:]
    return x[:n]


# --- what is written inside ------------------------------------------------------------------------------------------


@scripted((3, 4), others=((1, 4),), further=[((6, 4),)])
def written_by_size(x: Tensor) -> Tensor:
    y = x.clone()
    if x.size(0) > 2:
        y[0] = 5.0
        y[1:] += 1
    return y


@scripted((1, 4), others=((3, 4),), further=[((6, 4),)])
def written_from_size_one(x: Tensor) -> Tensor:
    y = torch.zeros_like(x)
    if x.size(0) > 1:
        y[1] = x[0]
    else:
        y.fill_(2.0)
    return y + x


@scripted(torch.ones(3, 4), others=(-torch.ones(2, 4),))
def written_by_data(x: Tensor) -> Tensor:
    y = x.clone()
    row = y[0]
    if x.sum() > 0:
        row.mul_(3.0)
    return y


@scripted(torch.ones(3, 4), others=(-torch.ones(2, 4),))
def written_in_both(x: Tensor) -> Tensor:
    y, z = x.clone(), x * 2
    if x.sum() > 0:
        y.add_(1.0)
        z.zero_()
    else:
        y[:, 1:3] = 0
    return y - z


@scripted(torch.ones(3, 4), others=(-torch.ones(5, 4),))
def written_in_a_nested_branch(x: Tensor) -> Tensor:
    y = x.clone()
    if x.size(0) > 1:
        if x.sum() > 0:
            y[0, 0] = 9.0
        else:
            y[-1] = 4.0
    return y


@scripted(torch.ones(3, 4), others=(-torch.ones(5, 4),), warns="buffers that forward writes to")
class WritesBuffer(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            self.seen += x.sum(0)
        return x + self.seen


@scripted((3, 4), others=((1, 4),), further=[((4, 4),)])
def list_changed_by_size(x: Tensor) -> Tensor:
    parts = [x, x * 2]
    if x.size(0) > 2:
        parts[0] = x - 1
        parts.append(x * 3)
    return torch.cat(parts)


@scripted((3, 4), others=((1, 4),), further=[((4, 4),)])
def dict_changed_by_size(x: Tensor) -> Tensor:
    held = {"a": x, "b": x * 2}
    if x.size(0) > 2:
        held["a"] = x - 1
    return held["a"] + held["b"]


@scripted((4, 3), others=((7, 3),), further=[((1, 3),)])
def written_in_a_loop(x: Tensor) -> Tensor:
    y = x.clone()
    for i in range(x.size(0)):
        if x[i].sum() > 0:
            y[i] = 0
        elif i % 2 == 0:
            y[i] *= 2
    return y


# --- ranks -----------------------------------------------------------------------------------------------------------


@scripted((3, 1, 4), others=((3, 2, 4),), further=[((3, 5, 4),)])
def squeeze_by_size(x: Tensor) -> Tensor:
    return x.squeeze(1) + 1


@scripted((3, 2, 4), others=((3, 1, 4),), further=[((3, 5, 4),)])
def squeeze_kept(x: Tensor) -> Tensor:
    return torch.squeeze(x, 1) * 2


@traced((3, 2, 4), others=((3, 1, 4),))
def squeeze_traced(x: Tensor) -> Tensor:
    return torch.squeeze(x, 1) * 2


@traced((3, 1, 4), others=((3, 2, 4),))
def squeeze_traced_from_one(x: Tensor) -> Tensor:
    return torch.relu(torch.squeeze(x, 1))


@scripted((2, 3), others=((1, 3),), further=[((4, 3),)])
def rank_by_size(x: Tensor) -> Tensor:
    if x.size(0) == 1:
        return x[0]
    return x


@scripted(torch.ones(2, 3), others=(-torch.ones(4, 3),))
def rank_by_data(x: Tensor) -> Tensor:
    if x.sum() > 0:
        y = x
    else:
        y = x.sum(0)
    return y


@scripted((3, 4), others=((5, 4),))
def rank_by_rank(x: Tensor) -> Tensor:
    squeezed = False
    if x.dim() == 2:
        x = x.unsqueeze(0)
        squeezed = True
    y = x.softmax(-1)
    if squeezed:
        y = y.squeeze(0)
    return y


@scripted(torch.ones(2, 3), others=(-torch.ones(4, 3),), further=[(torch.zeros(1, 3),)])
def optional_inside(x: Tensor) -> Tensor:
    mask: Optional[Tensor] = None
    if x.size(0) > 3:
        mask = x > 0
    if mask is not None:
        return x * mask
    return x


class Squeezes(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.squeeze(1)


@traced((3, 2, 4), others=((3, 1, 4),))
class SqueezesLast(nn.Module):
    """What a module inside returns is what the model returns."""

    def __init__(self):
        super().__init__()
        self.fc, self.last = nn.Linear(4, 4), Squeezes()

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.fc(x))


@scripted((3, 1, 4), others=((3, 2, 4),))
class SqueezesLastScripted(SqueezesLast):
    pass


if __name__ == "__main__":
    BRANCHES.compare(sys.argv[1:])
