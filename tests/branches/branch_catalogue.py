"""The programs, by what their code decides on: data, sizes, both; with writes, early returns, loops of layers."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from branches.branch_rows import PROGRAMS, data, program, rows

__all__ = ["PROGRAMS"]

SIGNS = data([1, 2, 3], [-1, -2, -3], [5, -5, 1], [-0.1, 0.0, 0.2])
SIZES = rows(8, 1, 2, 3, 5, 7, 14, 65, 100)


@program(rows(6, 1, 3, 4, 9))
def count_of_a_shape(self: Any, x: Any) -> Any:
    return x * 2 if x.shape.numel() > 10 else x - 1


def _padded_to_whole_windows(x: Any, kernel: int, stride: int) -> Any:
    """As audio codecs do before each of their layers."""
    before = kernel - stride
    windows = (x.shape[-1] - kernel + before) / stride + 1
    after = (math.ceil(windows) - 1) * stride + kernel - before - x.shape[-1]
    assert before >= 0 and after >= 0, (before, after)
    return F.pad(x, (before, after))


@program([(torch.rand(1, 1, n),) for n in (192, 100, 37, 193, 255)], axes=({2: "t"},))
def asserted_in_each_layer(self: Any, x: Any) -> Any:
    for kernel, stride in [(7, 1), (3, 1), (4, 2), (3, 1), (4, 2), (3, 1), (8, 4), (3, 1)]:
        x = F.avg_pool1d(_padded_to_whole_windows(x, kernel, stride), kernel, stride)
    return x


@program(rows(4, 3, 5, 6, 7, 9, 10))
def asserted_and_caught(self: Any, x: Any) -> Any:
    assert x.shape[0] > 2
    try:
        assert x.shape[0] % 2 == 0
        return x * 2
    except AssertionError:
        return x * 3


@program([(torch.rand(h, w),) for h, w in ((10, 12), (7, 8), (4, 5), (9, 10), (13, 6))], axes=({0: "h", 1: "w"},))
def cropped_at_the_centre(self: Any, x: Any) -> Any:
    top, left = int(round((x.shape[0] - 4) / 2.0)), int(round((x.shape[1] - 5) / 2.0))  # noqa: RUF046 - as models do
    return x[top : top + 4, left : left + 5]


_IMAGES = [(torch.linspace(0, 1, h * w).reshape(1, 1, h, w),) for h, w in ((16, 20), (20, 16), (9, 40), (7, 7))]


@program(_IMAGES, axes=({2: "h", 3: "w"},))
def resized_by_a_quotient_of_sizes(self: Any, x: Any) -> Any:
    factor = min(16.0 / min(x.shape[2:]), 24.0 / max(x.shape[2:]))
    x = F.interpolate(x, scale_factor=factor, mode="bilinear", recompute_scale_factor=True)
    height, width = (int(math.ceil(float(size) / 8.0) * 8.0) for size in x.shape[2:])
    whole = x.new_full((1, 1, height, width), 0.5)
    whole[:, :, : x.shape[2], : x.shape[3]].copy_(x)
    for _ in range(2):
        whole = F.batch_norm(F.avg_pool2d(whole, 3, 2, 1), torch.zeros(1), torch.ones(1))
    long = int(x.shape[3] * (20.0 / x.shape[2]))
    return whole, F.interpolate(x, size=(20, long))


@program([(torch.ones(h, w),) for h, w in ((4, 6), (6, 4), (5, 5), (1, 9))], axes=({0: "h", 1: "w"},))
def truth_that_differs_from_a_known_one(self: Any, x: Any) -> Any:
    if (x.dim() == 2) ^ (x.shape[0] / x.shape[1] < 1.0):
        return x * 2
    return x + 1


@program([(torch.ones(h, w),) for h, w in ((4, 6), (9, 3), (3, 3), (3, 4), (5, 5), (1, 1))], axes=({0: "h", 1: "w"},))
def one_size_then_two_equal_ones(self: Any, x: Any) -> Any:
    h, w = x.shape
    if w == 3:
        row = torch.ones(3)
    elif w == h:
        row = torch.arange(h) * 1.0
    else:
        row = torch.ones(w) * 7
    return x + row


@program(rows(6, 1, 3, 4, 8, 9))
def refused_where_it_is_empty(self: Any, x: Any) -> Any:
    if x.shape[0] % 4 != 0:
        if not all(x.shape):
            raise ValueError("empty")
        x = x.cumsum(0)
    if 0 in x.shape:
        raise ValueError("empty")
    return x + 1


_PAIRS = [(torch.ones(h, w),) for h, w in ((4, 6), (2, 2), (5, 3), (3, 5), (2, 7), (8, 3), (1, 1), (3, 3), (9, 8))]


@program(_PAIRS, axes=({0: "h", 1: "w"},))
def sizes_that_only_change_together(self: Any, x: Any) -> Any:
    h, w = x.shape
    if h > w:
        if h in (2, 5):
            return x + 1
        if h == w + 1 or w % 3 == 2:
            return x * 3
        return x * 2
    if h + w < 6:
        if w == 2:
            return x + 4
        return x - 5 if h == 1 else x - 6
    if h * 2 == w + 2 and w > 6:
        return x / h
    return x + w


@program([(torch.ones(h, w),) for h, w in ((4, 6), (1, 1), (5, 5), (0, 0))], axes=({0: "h", 1: "w"},))
def a_way_for_nothing(self: Any, x: Any) -> Any:
    h, w = x.shape
    if h != w:
        return x + 9
    return x + 8 if h // 2 == w else x + 4


_LONGER = lambda x: torch.cat([x, x])[: int(len(x) * 1.5)]  # noqa: E731


class _WithHooks(torch.nn.Linear):
    def __init__(self) -> None:
        super().__init__(3, 3)
        self.register_forward_pre_hook(lambda module, given: (given[0].view(len(given[0]), 3),))
        self.register_forward_hook(lambda module, given, made: made * len(made) if len(made) > 3 else made)


_HOOKED = _WithHooks()


@program(rows(6, 1, 2, 3, 4, 8))
def lambdas_made_before(self: Any, x: Any) -> Any:
    return _LONGER(_HOOKED(x))


class _Batch:
    def __init__(self, x: torch.Tensor) -> None:
        self.x = x

    def __len__(self) -> int:
        return len(self.x)


@program(rows(6, 1, 2, 3, 4, 8))
def length_of_ones_own(self: Any, x: Any) -> Any:
    batch = _Batch(x)
    return x * torch.ones(len(batch), 1) * (2 if len(batch) > 3 else len(batch))


_TABLES: dict[Any, torch.Tensor] = {}


@program([(torch.ones(h, w),) for h, w in ((4, 6), (1, 1), (5, 5), (2, 9), (9, 2))], axes=({0: "h", 1: "w"},))
def tables_by_size(self: Any, x: Any) -> Any:
    h, w = x.shape
    if h not in _TABLES:
        _TABLES[h] = torch.tril(torch.ones(h, h))
    if (h, w, x.dtype) not in _TABLES:
        _TABLES[h, w, x.dtype] = torch.arange(h * w).reshape(h, w)
    return _TABLES[h] @ x + _TABLES[h, w, x.dtype]


@program([(torch.ones(h, w),) for h, w in ((4, 6), (1, 1), (5, 5), (2, 9), (9, 3))], axes=({0: "h", 1: "w"},))
def sizes_as_keys(self: Any, x: Any) -> Any:
    h, w = x.shape
    found = {3: torch.ones(3)}
    found[h] = torch.arange(h) * 1.0
    found.setdefault(w, torch.ones(w) * 7)
    try:
        return x + found[w], found[h], found.get(2, x[0])
    except KeyError:
        return x, x[0], x[0]


# Data


@program(rows(6, 1, 2, 4, 5, 8))
def values_of_and_and_or(self: Any, x: Any) -> Any:
    factor = (x.shape[0] > 4 and 2) or 3
    return x * factor + (x.shape[0] > 5 or 7)


@program(rows(6, 1, 2, 3, 4, 8, 12))
def one_size_by_two_conditions(self: Any, x: Any) -> Any:
    if x.shape[0] % 4 == 0 and x.shape[0] < 8:
        return x.view(4, 3) + self.table[:4]
    return x


@program(rows(8, 1, 2, 3, 4, 5, 12))
def view_or_what_except_says(self: Any, x: Any) -> Any:
    try:
        return x.view(-1, 4, 3).sum(1)
    except RuntimeError:
        return x * 2


@program(
    [(torch.ones(2, h, w),) for h, w in ((4, 6), (6, 4), (5, 5), (1, 9), (9, 1), (7, 7))], axes=({1: "h", 2: "w"},)
)
def sizes_cut_one_after_another(self: Any, x: Any) -> Any:
    for axis, size in enumerate(x.shape):
        if size > 5:
            x = x.narrow(axis, 0, 5)
    return x * 2


@program([(torch.ones(h, w),) for h, w in ((4, 4), (2, 8), (8, 3), (5, 5), (1, 9))], axes=({0: "h", 1: "w"},))
def table_where_it_fits(self: Any, x: Any) -> Any:
    h, w = x.shape
    rows = torch.cat([torch.ones(1, 3), x.reshape(-1, 1) * torch.arange(3.0)])
    if rows.shape[0] - 1 == 16 and h == w:
        return rows + self.table[:17]
    return rows + self.table[1] * h - w


@program(rows(8, 1, 3, 4, 5, 12))
def divided_or_what_except_says(self: Any, x: Any) -> Any:
    try:
        x = x / (1 / (x.shape[0] // 4)) + 100 % (x.shape[0] - 5)
    except ZeroDivisionError:
        return x * 2
    return x


@program(rows(8, 1, 3, 4, 5, 7, 12))
def halves_or_what_except_says(self: Any, x: Any) -> Any:
    try:
        return torch.stack([x[:4], x[4:]]).sum(0)
    except RuntimeError:
        return x * 2


@program(rows(6, 1, 2, 3, 4, 5, 9))
def view_or_what_follows(self: Any, x: Any) -> Any:
    with contextlib.suppress(RuntimeError):
        return x.view(-1, 3, 3).sum(1)
    return x * 2


@program(rows(8, 1, 2, 3, 5, 6, 12))
def row_or_what_except_says(self: Any, x: Any) -> Any:
    def chosen(row: int) -> Any:
        return x[row]

    try:
        y = chosen(5)
    except (IndexError, KeyError):
        y = self.one(x[0])
    return y


@program(SIGNS, ifs=1)
def truth_of_a_sum(self: Any, x: Any) -> Any:
    if x.sum() > 0:
        x = x * 2
    return x + 1


@program(SIGNS, ifs=1)
def either_side(self: Any, x: Any) -> Any:
    if x.sum() > 0:
        y = self.one(x)
    else:
        y = self.two(x)
    return y.relu() + x


@program(SIGNS)
def item_compared(self: Any, x: Any) -> Any:
    return x * 3 if x[0, 0].item() > 0.5 else x - 3


@program(SIGNS)
def bool_called(self: Any, x: Any) -> Any:
    flag = bool((x < 0).any())
    return x.abs() + 1 if flag else x + 2


@program(SIGNS)
def truth_of_a_float(self: Any, x: Any) -> Any:
    if x[0, 1]:
        return x + 1
    return x - 1


@program(SIGNS)
def truth_of_an_item(self: Any, x: Any) -> Any:
    if x[0, 1].item():
        return x + 1
    return x - 1


@program(SIGNS)
def nested(self: Any, x: Any) -> Any:
    if x.sum() > 0:
        x = x + 1
        if x[0, 0] > 2:
            x = x * 3
    else:
        x = x - 1
    return x * 2


@program(SIGNS)
def both_asked(self: Any, x: Any) -> Any:
    if x.sum() > 0 and x[0, 0] > 2:
        return x + 1
    return x - 1


@program(SIGNS)
def either_asked(self: Any, x: Any) -> Any:
    if x.sum() > 100 or x[0, 0] > 2:
        return x + 1
    return x - 1


@program(SIGNS)
def negated(self: Any, x: Any) -> Any:
    if not (x > 0).all():
        x = x.clamp(min=0.5)
    return x


@program(SIGNS)
def early_return(self: Any, x: Any) -> Any:
    y = self.one(x)
    if y.sum() < x.sum():
        return y
    y = y + self.two(x)
    if (y > 1).any():
        return y * 2
    return y - 1


@program(SIGNS)
def elif_chain(self: Any, x: Any) -> Any:
    total = x.sum()
    if total > 5:
        return x + 1
    elif total > 0.2:
        return x + 2
    elif total > -3:
        return x + 3
    return x + 4


@program(SIGNS)
def same_asked_twice(self: Any, x: Any) -> Any:
    positive = bool(x.sum() > 0)
    if positive:
        x = x + 1
    y = self.one(x)
    if positive:
        y = y * 2
    return y


@program(data([1, 2, 3], [2, 2, 2]))
def asserted(self: Any, x: Any) -> Any:
    assert (x > 0).all()
    return x.log() + 1


@program(data([1, 2, 3], [2, 2, 2]))
def raised(self: Any, x: Any) -> Any:
    if (x < 0).any():
        raise ValueError("negative")
    return x.sqrt() + 1


@program(data([1, 2, 3], [2, 2, 2]))
def raised_unless(self: Any, x: Any) -> Any:
    if torch.isfinite(x).all():
        return x + 1
    raise ValueError("not finite")


@program(SIGNS)
def any_of_some(self: Any, x: Any) -> Any:
    if any(row.sum() > 1 for row in (x[0], x[1])):
        return x + 1
    return x - 1


@program(SIGNS)
def all_of_some(self: Any, x: Any) -> Any:
    if all(row.sum() > 0 for row in (x[0], x[1])):
        return x + 1
    return x - 1


@program(SIGNS)
def larger_of_two(self: Any, x: Any) -> Any:
    return max(x[0].sum(), x[1].sum()) + x


@program(SIGNS)
def larger_of_items(self: Any, x: Any) -> Any:
    return x * (2.0 if x[0, 0].item() >= x[0, 1].item() else 3.0)


@program(SIGNS)
def written_in_a_branch(self: Any, x: Any) -> Any:
    y = x.clone()
    if x.sum() > 0:
        y[0] = 7
    else:
        y[:, 1] += 5
    return y * 2, y.sum(0)


@program(SIGNS)
def written_in_place(self: Any, x: Any) -> Any:
    y = x + 1
    if x.sum() > 0:
        y.mul_(3)
    y.add_(1)
    return y


@program(SIGNS)
def written_through_a_view(self: Any, x: Any) -> Any:
    y = x * 1.5
    view = y[0]
    if (x < 0).any():
        view.zero_()
    return y + 1


@program(SIGNS)
def result_unused(self: Any, x: Any) -> Any:
    if x.sum() > 0:
        x.neg()
    return x + 1


@program(SIGNS)
def two_results(self: Any, x: Any) -> Any:
    if x.sum() > 0:
        return x + 1, x.sum()
    return x * 2, x.mean()


@program(SIGNS)
def other_size(self: Any, x: Any) -> Any:
    if x.sum() > 0:
        return x[:1] + 1
    return torch.cat([x, x])


@program(SIGNS)
def weights_of_layers(self: Any, x: Any) -> Any:
    layer = self.layers[0] if x.sum() > 0 else self.layers[1]
    return self.layers[2](layer(x))


@program(SIGNS)
def in_a_loop_of_layers(self: Any, x: Any) -> Any:
    for layer in self.layers:
        y = layer(x)
        x = y if y.sum() > 0 else y * 2 + 1
    return x


@program(SIGNS)
def skipped_layers(self: Any, x: Any) -> Any:
    for layer in self.layers[:3]:
        if x.abs().sum() < 2:
            continue
        x = layer(x) + x
    return x


@program(SIGNS)
def left_loop(self: Any, x: Any) -> Any:
    for layer in self.layers[:3]:
        x = layer(x)
        if x.sum() > 0.5:
            break
    return x + 1


@program(SIGNS)
def try_and_except(self: Any, x: Any) -> Any:
    try:
        if x.sum() < 0:
            raise ValueError
        return x + 1
    except ValueError:
        return x - 1


@program(SIGNS)
def number_from_data(self: Any, x: Any) -> Any:
    step = 2 if x.sum() > 0 else 1
    return x[:, ::step].sum() + x


@program(SIGNS)
def string_from_data(self: Any, x: Any) -> Any:
    mode = "relu" if x.sum() > 0 else "tanh"
    return getattr(F, mode)(x) + 1


@program(SIGNS)
def dictionary_of_branches(self: Any, x: Any) -> Any:
    return {True: self.one, False: self.two}[bool(x.sum() > 0)](x)


@program(SIGNS)
def counted(self: Any, x: Any) -> Any:
    count = (x > 0).sum()
    if count > 4:
        return x / count
    return x * count + 1


@program(SIGNS)
def empty_selection(self: Any, x: Any) -> Any:
    chosen = x[x > 0.5]
    if chosen.numel() == 0:
        return x.sum()
    return chosen.mean()


@program(SIGNS)
def size_of_selection(self: Any, x: Any) -> Any:
    found = (x > 0).nonzero()
    if found.shape[0] > 3:
        return found.sum() + x
    return x - found.shape[0]


@program(SIGNS)
def numbers_of_another_branch(self: Any, x: Any) -> Any:
    a = 1.0
    if x.sum() > 0:
        a = 2.0
    b = 3.0 if x[0, 0] > 2 else 4.0
    return x * a + b


@program([(torch.tensor([1, 2, 3]),), (torch.tensor([3, 3, 3]),), (torch.tensor([0, 0, 0]),)])
def whole_numbers(self: Any, x: Any) -> Any:
    if x.max() >= 3:
        return x // 2
    return x + 1


@program([(torch.tensor([True, False]),), (torch.tensor([False, False]),), (torch.tensor([True, True]),)])
def of_bools(self: Any, x: Any) -> Any:
    if x.all():
        return x.float() + 5
    if x.any():
        return x.float() + 3
    return x.float() + 1


@program([(torch.ones(2, 3), torch.tensor(True)), (torch.ones(2, 3), torch.tensor(False))], axes=({0: "n"}, None))
def flag_given(self: Any, x: Any, flag: Any) -> Any:
    return self.one(x) if flag else self.two(x)


@program([(torch.ones(2, 3), torch.tensor(n)) for n in (0, 1, 2, 3)], axes=({0: "n"}, None))
def mode_given(self: Any, x: Any, mode: Any) -> Any:
    for number, layer in enumerate(self.layers[:3]):
        if mode == number:
            return layer(x)
    return x + 9


@program(SIGNS, axes=None)
def of_fixed_sizes(self: Any, x: Any) -> Any:
    return x.relu() + 1 if x.sum() > 0 else x.tanh() - 1


@program(SIGNS)
def normalised_if_large(self: Any, x: Any) -> Any:
    norm = x.norm()
    if norm > 3:
        x = x / norm
    return F.layer_norm(x, (3,)) + x


@program(SIGNS)
def matrix_in_a_branch(self: Any, x: Any) -> Any:
    y = x @ x.T
    if y.trace() > 10:
        y = y.softmax(-1)
    return y @ x


@program(SIGNS)
def asked_in_a_layer(self: Any, x: Any) -> Any:
    def gate(y: Any) -> Any:
        return y * 2 if y.mean() > 0 else y * 3

    return gate(self.one(gate(x)))


# Sizes


@program(SIZES, ifs=1)
def long_and_short(self: Any, x: Any) -> Any:
    if x.shape[0] > 64:
        x = x * 2
    return x + 1


@program(SIZES)
def at_least(self: Any, x: Any) -> Any:
    return x * 2 if x.size(0) >= 4 else x - 1


@program(SIZES)
def one_size(self: Any, x: Any) -> Any:
    if x.shape[0] == 5:
        return x + 1
    return x - 1


@program(SIZES, example=rows(5)[0])
def one_size_and_it_is_the_example(self: Any, x: Any) -> Any:
    if x.shape[0] == 5:
        return x + 1
    return x - 1


@program(SIZES)
def one(self: Any, x: Any) -> Any:
    if x.shape[0] == 1:
        return x * 10
    return x - x.mean(0)


@program(SIZES, example=rows(1)[0])
def one_and_it_is_the_example(self: Any, x: Any) -> Any:
    if x.shape[0] == 1:
        return x * 10
    return x - x.mean(0)


@program([*SIZES, *rows(0)])
def empty(self: Any, x: Any) -> Any:
    if x.shape[0] == 0:
        return x.new_ones(2, 3)
    return x + 1


@program([*SIZES, *rows(0)], example=rows(0)[0])
def empty_and_it_is_the_example(self: Any, x: Any) -> Any:
    if x.shape[0] == 0:
        return x.new_ones(2, 3)
    return x + 1


@program([*SIZES, *rows(0)])
def empty_by_number(self: Any, x: Any) -> Any:
    return x.amax(0, keepdim=True) if x.shape[0] > 0 else x.new_full((1, 3), -1.0)


@program([*SIZES, *rows(0)])
def empty_by_truth(self: Any, x: Any) -> Any:
    if x.shape[0]:
        return x + 1
    return x.new_ones(1, 3)


@program([*SIZES, *rows(0)])
def empty_by_elements(self: Any, x: Any) -> Any:
    return x.new_ones(1, 3) if x.numel() == 0 else x - 1


@program(SIZES)
def even_and_odd(self: Any, x: Any) -> Any:
    return x[::2] if x.shape[0] % 2 == 0 else x[1:]


@program(SIZES)
def padded_to_a_window(self: Any, x: Any) -> Any:
    if x.shape[0] % 7 != 0:
        x = F.pad(x, (0, 0, 0, 7 - x.shape[0] % 7))
    windows = x.reshape(x.shape[0] // 7, 7, 3)
    return (windows - windows.mean(1, keepdim=True)).reshape(-1, 3)


@program(SIZES, example=rows(14)[0])
def padded_to_a_window_that_fits(self: Any, x: Any) -> Any:
    if x.shape[0] % 7 != 0:
        x = F.pad(x, (0, 0, 0, 7 - x.shape[0] % 7))
    windows = x.reshape(x.shape[0] // 7, 7, 3)
    return (windows - windows.mean(1, keepdim=True)).reshape(-1, 3)


@program(SIZES, ifs=0)
def padded_and_cut_back(self: Any, x: Any) -> Any:
    n = x.shape[0]
    missing = (4 - n % 4) % 4
    if missing:
        x = F.pad(x, (0, 0, 0, missing), value=1.0)
    x = x.reshape(-1, 4, 3).cumsum(0).reshape(-1, 3)
    if missing > 0:
        x = x[:n].contiguous()
    return x


@program(SIZES, ifs=0)
def cut_to_a_length(self: Any, x: Any) -> Any:
    if x.shape[0] > 6:
        x = x[:6]
    return x.cumsum(0)


@program(SIZES, ifs=1)
def padded_by_what_is_read_later(self: Any, x: Any) -> Any:
    missing = 9
    if x.shape[0] % 4 != 0:
        missing = 4 - x.shape[0] % 4
        x = F.pad(x, (0, 0, 0, missing))
    return x + missing


@program(SIZES, ifs=1)
def padded_by_a_fixed_number(self: Any, x: Any) -> Any:
    if x.shape[0] % 4 != 0:
        x = F.pad(x, (0, 0, 0, 3))
    return x * 2


@program(SIZES, ifs=1)
def written_to_after_padding(self: Any, x: Any) -> Any:
    y = x * 1
    before = y
    if y.shape[0] % 4 != 0:
        y = F.pad(y, (0, 0, 0, 4 - y.shape[0] % 4))
    y += 1
    return y, before


@program(SIZES, ifs=1)
def written_to_what_was_padded(self: Any, x: Any) -> Any:
    before = x = x * 1
    if x.shape[0] % 4 != 0:
        x = F.pad(x, (0, 0, 0, 4 - x.shape[0] % 4))
    return before.add_(1).sum() + x


@program([(torch.ones(h, w),) for h, w in ((8, 8), (7, 8), (8, 7), (5, 21))], axes=({0: "h", 1: "w"}))
def padded_whole_where_another_axis_asks(self: Any, x: Any) -> Any:
    h, w = x.shape
    if h % 4 != 0 or w % 4 != 0:
        x = F.pad(x, (0, 4 - w % 4, 0, 4 - h % 4))
    return x * 2


@program(SIZES)
def cut_where_shapes_differ(self: Any, x: Any) -> Any:
    y = x.repeat_interleave(2, 0)[::2]
    y = torch.cat([y, y[:1]]) if x.shape[0] > 3 else y
    if y.shape != x.shape:
        y = y[: x.shape[0]]
    return x + y


@program(rows(9, 1, 3, 5, 6, 7, 8, 12))
def below_a_size(self: Any, x: Any) -> Any:
    steps = (x.shape[0] - 8) // 2
    return x * 2 if steps == -1 else x * 3 if steps < -2 else x


@program(SIZES)
def between(self: Any, x: Any) -> Any:
    if 3 < x.shape[0] < 20:
        return x + 1
    return x - 1


@program(SIZES)
def sizes_in_a_chain(self: Any, x: Any) -> Any:
    n = x.shape[0]
    if n < 3:
        return x + 1
    elif n < 9:
        return x + 2
    elif n < 70:
        return x + 3
    return x + 4


@program(SIZES)
def smaller_number(self: Any, x: Any) -> Any:
    return x[: min(x.shape[0], 6)] + 1


@program(SIZES)
def larger_number(self: Any, x: Any) -> Any:
    return x.sum() / max(x.shape[0], 6) + x


def padded_as_in_tensorflow(x: Any, kernel: int, stride: int) -> Any:
    n = x.shape[0]
    if n % stride == 0:
        pad = max(kernel - stride, 0)
    else:
        pad = max(kernel - n % stride, 0)
    return F.pad(x, (0, 0, pad // 2, pad - pad // 2))


@program(SIZES, ifs=0)
def layers_padded_as_in_tensorflow(self: Any, x: Any) -> Any:
    for kernel, stride in ((3, 2), (3, 1), (7, 4), (1, 2)):
        x = padded_as_in_tensorflow(x, kernel, stride).unfold(0, kernel, stride).mean(-1) + 1
    return x


def same_padding(size: Any, kernel: int, stride: int) -> Any:
    return max((math.ceil(size / stride) - 1) * stride + kernel - size, 0)


@program(SIZES, ifs=0)
def padded_to_the_same(self: Any, x: Any) -> Any:
    for kernel, stride in ((3, 2), (5, 2)):
        pad = same_padding(x.shape[0], kernel, stride)
        x = F.pad(x, (0, 0, pad // 2, pad - pad // 2)).unfold(0, kernel, stride).amax(-1)
    return x


@program(SIZES, ifs=0)
def numbers_chosen_by_a_size(self: Any, x: Any) -> Any:
    n = x.shape[0]
    if n > 64:
        scale, shift = 3, n - 1
    elif n % 2 == 0 and n != 14 and not n < 2:
        scale, shift = 2, 7
    else:
        scale, shift = 5, n // 2
    rate = 0.25 if n > 4 else 1.5
    return x * scale + shift - rate


@program(SIZES)
def axis_chosen_by_a_size(self: Any, x: Any) -> Any:
    axis = 0 if x.shape[0] > 4 else 1
    return x.cumsum(axis)


@program(SIZES, ifs=0)
def kernel_chosen_by_a_remainder(self: Any, x: Any) -> Any:
    kernel = 3 if x.shape[0] % 2 else 5
    return F.avg_pool1d(x.t(), kernel, 1, kernel // 2)


@program(SIZES)
def rows_chosen_by_a_size(self: Any, x: Any) -> Any:
    count = 4 if x.shape[0] > 5 else 1
    return x[:count] + x[-1:]


@program(
    [(torch.ones(2, 3), 3), (torch.ones(4, 3), 0), (torch.ones(2, 3), -2)], axes=({0: "n"}, torch.export.Dim.DYNAMIC)
)
def number_that_may_be_negative(self: Any, x: Any, k: Any) -> Any:
    if k >= 0:
        return x + k
    return x * k


@program(rows(0, 8, 1, 2, 5), example=rows(8)[0])
def divided_by_a_size(self: Any, x: Any) -> Any:
    n = x.shape[0]
    share = 100 // n if n > 2 else 7
    return x + share


@program(SIZES)
def cut_to_a_limit(self: Any, x: Any) -> Any:
    if x.shape[0] > 10:
        x = x[:10]
    return self.one(x)


@program(SIZES)
def table_or_computed(self: Any, x: Any) -> Any:
    n = x.shape[0]
    table = self.table[:n] if n <= 50 else torch.arange(3.0 * n).reshape(n, 3)
    return x + table


@program(rows(8, 1, 2, 30), example=rows(8)[0])
def limit_of_the_model(self: Any, x: Any) -> Any:
    if x.shape[0] > 50:
        raise ValueError("too long")
    return x + self.table[: x.shape[0]]


@program(rows(8, 2, 30))
def asserted_size(self: Any, x: Any) -> Any:
    assert x.shape[0] > 1, "at least two rows"
    return x - x[1]


@program(
    [(torch.ones(n, 3), torch.ones(m, 3)) for n, m in ((4, 6), (6, 4), (5, 5), (1, 9), (9, 1))],
    axes=({0: "n"}, {0: "m"}),
)
def two_sizes(self: Any, x: Any, y: Any) -> Any:
    if x.shape[0] > y.shape[0]:
        return x * 2
    return y * 3


@program(
    [(torch.ones(n, 3), torch.ones(m, 3)) for n, m in ((4, 6), (6, 4), (60, 50), (1, 9), (99, 1))],
    axes=({0: "n"}, {0: "m"}),
)
def sum_of_sizes(self: Any, x: Any, y: Any) -> Any:
    if x.shape[0] + y.shape[0] > 64:
        return torch.cat([x, y]) * 2
    return torch.cat([y, x])


@program(
    [(torch.ones(n, 3), torch.ones(m, 3)) for n, m in ((1, 6), (6, 0), (2, 5), (1, 0), (4, 1))],
    axes=({0: "n"}, {0: "past"}),
)
def cache_or_none(self: Any, x: Any, past: Any) -> Any:
    if past.shape[0] == 0:
        keys = x
    else:
        keys = torch.cat([past, x])
    return (x @ keys.T).softmax(-1) @ keys, keys


@program(SIZES)
def layers_by_size(self: Any, x: Any) -> Any:
    for number, layer in enumerate(self.layers):
        if x.shape[0] > 4 * number:
            x = layer(x)
    return x


@program(SIZES)
def window_that_may_be_full(self: Any, x: Any) -> Any:
    if x.shape[0] > 6:
        x = x[-6:]
    return x.cumsum(0)


@program(SIZES)
def written_by_size(self: Any, x: Any) -> Any:
    y = x.clone()
    if y.shape[0] > 3:
        y[3:] = 0
    y += 1
    return y


@program([(torch.ones(1, 2, h, w),) for h, w in ((8, 8), (7, 9), (14, 13), (5, 21))], axes=({2: "h", 3: "w"},))
def image_padded_to_windows(self: Any, x: Any) -> Any:
    h, w = x.shape[-2:]
    if h % 4 != 0 or w % 4 != 0:
        x = F.pad(x, (0, -w % 4, 0, -h % 4))
    b, c, h, w = x.shape
    x = x.view(b, c, h // 4, 4, w // 4, 4).permute(0, 2, 4, 1, 3, 5).reshape(-1, c * 16)
    return x.cumsum(0)


@program([(torch.ones(1, 2, h, w),) for h, w in ((8, 8), (7, 9), (9, 7), (3, 20))], axes=({2: "h", 3: "w"},))
def portrait_or_landscape(self: Any, x: Any) -> Any:
    if x.shape[2] > x.shape[3]:
        x = x.transpose(2, 3)
    return x.cumsum(-1)


# Both


@program([*SIGNS, *SIZES])
def size_and_data(self: Any, x: Any) -> Any:
    if x.shape[0] > 4 and x.sum() > 0:
        return x + 1
    if x[0, 0] > 0:
        return x + 2
    return x + 3


@program([*SIGNS, *SIZES])
def data_then_size(self: Any, x: Any) -> Any:
    if x.sum() > 0:
        x = torch.cat([x, x])
    if x.shape[0] % 3 == 0:
        x = x * 2
    return x + 1


@program([*SIGNS, *SIZES])
def trained_or_not(self: Any, x: Any) -> Any:
    if self.training:
        x = F.dropout(x)
    if x.shape[0] > 3 and not self.training:
        x = self.one(x)
    return x


@torch.jit.script
def scripted(x: torch.Tensor) -> torch.Tensor:
    if x.sum() > 0:
        x = x * 2
    return x + 1


@program([*SIGNS, *SIZES])
def script_inside(self: Any, x: Any) -> Any:
    if x.shape[0] > 4:
        x = scripted(x)
    return x - 1


@program([*SIGNS, *SIZES])
def cond_inside(self: Any, x: Any) -> Any:
    if x.shape[0] > 4:
        return torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (x,))
    return x * 2


# What sizes are to Python


def _is_whole(number: object) -> bool:
    return isinstance(number, int)


@functools.singledispatch
def _kind(number: object) -> int:
    return 4


@_kind.register
def _(number: int) -> int:
    return 3


@program(SIZES)
def sizes_are_instances_of_int(self: Any, x: Any) -> Any:
    match x.shape[0]:
        case int():
            x = x + 1
    if _is_whole(x.shape[0]) and isinstance(x.shape[0] / 2, float) and isinstance(x.shape[0] > 2, bool):
        x = x * _kind(x.shape[0])
    return x - 1 if isinstance(x.shape[0], torch.Tensor) else x * x.shape[0]


@program(SIZES)
def types_by_identity(self: Any, x: Any) -> Any:
    x = x * 2 if type(x.shape[0]) is int and type(x.shape[0]) in (int, float) else x - 1
    return x * 3 if (x.shape[0] > 5) is True else x + 1


@program(SIZES)
def truths_compared(self: Any, x: Any) -> Any:
    return x * 3 if (x.shape[0] > 5) == True else x + 1  # noqa: E712


@program(SIZES)
def bits_of_a_size(self: Any, x: Any) -> Any:
    n = x.shape[0]
    x = x * (n & 3) + (n | 1)
    return x * 2 if n & (n - 1) == 0 else x - 1


@program(SIZES)
def logarithms_of_a_size(self: Any, x: Any) -> Any:
    n = x.shape[0]
    x = x * math.log(n) + math.exp(-n)
    return x * 2 if math.log2(n).is_integer() else x - 1


@program(rows(12, 1, 4, 5, 8, 30))
def windows_of_a_whole_quotient(self: Any, x: Any) -> Any:
    count = x.shape[0] / 4
    if not count.is_integer():
        x = F.pad(x, (0, 0, 0, math.ceil(count) * 4 - x.shape[0]))
    windows = x.shape[0] // 4
    if x.shape[0] % windows != 0:
        raise ValueError("no whole windows")
    x = x.reshape(windows, x.shape[0] // windows, -1)
    return x.masked_fill(torch.ones(4, 1).cumsum(0) > 2, 0)


_WINDOWED = [
    (torch.arange(b * h * w * 8).reshape(b, 2, h, w * 4) * 1.0,)
    for b, h, w in ((2, 64, 16), (1, 28, 7), (3, 20, 30), (2, 120, 5), (2, 56, 3))
]


def _in_windows(x: Any, shift: list[int]) -> Any:
    b, h, w, c = x.shape
    x = F.pad(x, (0, 0, 0, (7 - w % 7) % 7, 0, (7 - h % 7) % 7))
    _, rows, columns, _ = x.shape
    shift = shift.copy()
    if rows <= 7:
        shift[0] = 0
    if columns <= 7:
        shift[1] = 0
    if sum(shift) > 0:
        x = torch.roll(x, (-shift[0], -shift[1]), (1, 2))
    down, across = rows // 7, columns // 7
    windows = x.view(b, down, 7, across, 7, c).permute(0, 1, 3, 2, 4, 5).reshape(b * down * across, 49, c)
    windows = windows * torch.arange(49)[:, None]
    x = windows.view(b, down, across, 7, 7, c).permute(0, 1, 3, 2, 4, 5).reshape(b, rows, columns, c)
    return x[:, :h, :w]


@program(_WINDOWED, axes=({0: "b", 2: "h", 3: "w"},))
def windows_shifted_where_there_are_more(self: Any, x: Any) -> Any:
    x = F.avg_pool2d(x, 4).permute(0, 2, 3, 1)
    return _in_windows(_in_windows(x, [0, 0]), [3, 3])


@program([(torch.ones(h, w),) for h, w in ((4, 6), (1, 1), (300, 400), (200, 501))], axes=({0: "h", 1: "w"},))
def many_elements(self: Any, x: Any) -> Any:
    return x * 2 if x.numel() > 100_000 else x + 1


@program(SIZES)
def a_write_before_a_size_is_asked(self: Any, x: Any) -> Any:
    x = x + 0
    x[:, 1] += 0.5
    if x.shape[0] > 1:
        x = F.pad(x, (0, 0, 0, 1))
    return x


@program(SIZES)
def shapes_compared(self: Any, x: Any) -> Any:
    match tuple(x.shape):
        case (8, 3):
            return x * 2
        case (1, columns):
            return x * columns
    return x - 1 if x.shape in [torch.Size([7, 3]), torch.Size([2, 3])] else x + x.shape[0]


@program(SIGNS)
def tensors_compared(self: Any, x: Any) -> Any:
    x = x + 1 if torch.equal(x[0], x[0].abs()) else x - 1
    x = x * 2 if x.allclose(x.abs()) else x * 3
    return x + 5 if 4 in x else x


@program(SIGNS)
def arithmetic_of_an_item(self: Any, x: Any) -> Any:
    value = x.max().item()
    x = x * math.exp(-value) if isinstance(value, float) else x - 1
    return x * 2 if value * 2 + 1 > 3.5 else x


PAIRS = [(x, y) for (x,) in rows(2, 5) for (y,) in rows(2, 5, 7)]


@program(PAIRS, axes=({0: "n"}, {0: "m"}))
def equal_lengths_added(self: Any, x: Any, y: Any) -> Any:
    x = x.sin()
    if x.shape == y.shape:
        return x + y
    return x * 2


@program([(x, y, z) for x, y in PAIRS for (z,) in rows(2, 7)], axes=({0: "n"}, {0: "m"}, {0: "k"}))
def lengths_compared_twice(self: Any, x: Any, y: Any, z: Any) -> Any:
    if x.shape[0] == y.shape[0]:
        x = x + y
    return (x.sum(0) + (z * y).sum(0)) if z.shape[0] == y.shape[0] else x.sum(0)


@program([(x, x + 1) for (x,) in rows(3)] + PAIRS, axes=({0: "n"}, {0: "m"}))
def equal_lengths_in_cond(self: Any, x: Any, y: Any) -> Any:
    return torch.cond(x.shape[0] == y.shape[0], lambda x, y: (x.sum(1) + y.sum(1)).sum(), lambda x, y: x.sum(), (x, y))


# Sizes and data as keys, literals, and to libraries


@program([*SIZES, *rows(0)])
def literals_by_identity(self: Any, x: Any) -> Any:
    n = x.shape[0]
    x = x + 1 if n is 8 else x - 1  # noqa: F632
    x = x * 3 if n is not 7 else x  # noqa: F632
    return x if (x.sum() > 0).item() is True else x + 9


@program(SIZES)
def truths_matched(self: Any, x: Any) -> Any:
    match (x.shape[0] > 5, x.shape[0] % 2):
        case (True, 0):
            return x + 1
        case (True, 1):
            return x + 2
        case (False, _):
            return x + 3


@program([*SIZES, *rows(0)])
def keys_of_sets_and_dicts(self: Any, x: Any) -> Any:
    n, table = x.shape[0], {1: 10.0, 8: 20.0}
    if n in {1, 2, 65}:
        x = x * 2
    x = x + table[n] if n in table else x
    return x * table.get(n, 3.0)


@program(PAIRS, axes=({0: "n"}, {0: "m"}))
def sets_of_sizes(self: Any, x: Any, y: Any) -> Any:
    shapes, seen = {one.shape for one in (x, y)}, set()
    for one in (x, y, x):
        seen.add(one.shape[0])
    if len(shapes) > 1:
        return torch.cat([x, y]) * len({x.shape[0], y.shape[0]} & {5, 7})
    return (x + y) * (3 if seen == {5} else len(seen))


@program(rows(6, 1, 2, 3, 5, 8, 9, 16, 31, 32, 33))
def bits_and_powers_of_two(self: Any, x: Any) -> Any:
    n = x.shape[0]
    above = 1 << (n - 1).bit_length()
    return F.pad(x, (0, 0, 0, above - n)) * n.bit_length(), x * (n ^ 3) + (n >> 1)


@program([*SIZES, *rows(0)])
def items_of_lists(self: Any, x: Any) -> Any:
    scales = [1.0, 2.0, 4.0]
    try:
        x = x * scales[x.shape[0] // 2]
    except IndexError:
        x = x - 1
    return self.layers[x.shape[0] % 4](x)


@program(SIGNS)
def item_of_a_truth(self: Any, x: Any) -> Any:
    return [self.one, self.two][int(x.sum() > 0)](x) * {0: 2.0, 1: 5.0}.get(int(x[0, 0] > 2), 1.0)


@functools.lru_cache(maxsize=8)
def _remembered(size: int) -> torch.Tensor:
    return torch.arange(size).float() if size > 5 else torch.zeros(size)


@program(SIZES)
def function_with_a_memory(self: Any, x: Any) -> Any:
    return x + _remembered(x.shape[0])[:, None]


@program(SIZES)
def whole_numbers_of_math(self: Any, x: Any) -> Any:
    n = x.shape[0]
    return x * math.gcd(n, 12) + math.isqrt(n) + math.fmod(n, 4) + round(n / 7, 2)


NANS = [*SIGNS, *data([math.nan, 1, 2], [1, math.nan, -2], [math.inf, 1, 1])]


@program(NANS)
def numbers_that_are_none(self: Any, x: Any) -> Any:
    value = x[0, 0].item()
    y = x[1] + 1 if value != value else x[1]
    y = y * 2 if math.isnan(value) or not math.isfinite(x[0, 1].item()) else y
    return y - 1 if np.isnan(value) else y


@program(NANS)
def numbers_given_to_numpy(self: Any, x: Any) -> Any:
    value = x[0, 0].item()
    return x[1] * np.maximum(value, 2.0) + float(np.minimum(value, -1.0)) + float(np.clip(value, -1, 1))


@program(SIGNS)
def numbers_joined_by_numpy(self: Any, x: Any) -> Any:
    largest = np.hstack([x.max().item(), x.min().item()]).max()
    return x * 2 if largest > 2.5 else x - 1


@program(SIGNS)
def how_many_differ(self: Any, x: Any) -> Any:
    return x + 1 if len(torch.unique(x)) > 5 else x * len(x.unique())


@program([*SIZES, *rows(0)])
def order_of_memory(self: Any, x: Any) -> Any:
    y = x.t()
    return y + 1 if y.is_contiguous() else y.contiguous() * 2


@program(
    [(torch.ones(n, 3), torch.ones(m, 3)) for n, m in ((4, 4), (4, 5), (5, 4), (1, 4), (4, 1), (1, 1))],
    axes=({0: "n"}, {0: "m"}),
)
def two_shapes_that_operators_make_one(self: Any, x: Any, y: Any) -> Any:
    if x.shape == y.shape:
        return x + y
    return x * 2 if x.shape[0] > y.shape[0] else y - 1


@program([(torch.ones(1, 2, h, w),) for h, w in ((8, 8), (7, 8), (8, 9), (4, 4))], axes=({2: "h", 3: "w"},))
def table_for_one_size(self: Any, x: Any) -> Any:
    table = self.table[:64, 0].reshape(1, 1, 8, 8)
    if tuple(x.shape[-2:]) != (8, 8):
        table = F.interpolate(table, size=x.shape[-2:], mode="bilinear")
    return x + table


@program(SIZES)
def shared_by_a_way_for_one_size(self: Any, x: Any) -> Any:
    y = x[None]
    return y * 2 if y.shape[-2:] != (8, 3) else y + self.table[:8]


@torch.jit.script
def scripted_by_size(x: torch.Tensor, n: int) -> torch.Tensor:
    if n > 4:
        return x * 2
    if x.size(0) == 1:
        return x * 3
    return x


@program(SIZES)
def script_of_sizes(self: Any, x: Any) -> Any:
    return scripted_by_size(x, x.shape[0])


@program(SIZES)
def asked_without_gradients(self: Any, x: Any) -> Any:
    with torch.no_grad():
        if x.shape[0] > 4:
            x = x @ x.t() @ x
    with torch.autocast("cpu", enabled=False):
        return x.float() + 1 if x.sum() > 0 else x * 2


PICTURES = [(torch.linspace(-1, 1.5, h * w).reshape(1, 1, h, w),) for h, w in ((8, 8), (7, 8), (8, 9), (5, 3), (4, 12))]


@program(PICTURES, axes=({2: "h", 3: "w"},), ifs=1)
def several_truths_that_are_one(self: Any, x: Any) -> Any:
    h, w = x.shape[2:]
    if h % 4 != 0 or w % 4 != 0:
        return x + x.mean()
    return x.view(1, h // 4, 4, w // 4, 4).amax((2, 4))[None]


@program(PICTURES, axes=({2: "h", 3: "w"},), ifs=0)
def padding_that_a_variable_remembers(self: Any, x: Any) -> Any:
    h, w = x.shape[2:]
    amounts = (0, (4 - w % 4) % 4, 0, (4 - h % 4) % 4)
    padded = amounts[1] > 0 or amounts[3] > 0
    x = F.pad(x, amounts)
    x = x.view(1, 1, x.shape[2] // 4, 4, x.shape[3] // 4, 4).flip(3).reshape(x.shape) + 1
    if padded:
        x = x[:, :, :h, :w].contiguous()
    return x


@program([*SIZES, *rows(0)])
def truths_of_which_the_second_may_fail(self: Any, x: Any) -> Any:
    n = x.shape[0]
    return x + 1 if n > 0 and 12 % n == 0 else x * 2


@program(PICTURES, axes=({2: "h", 3: "w"},))
def truths_of_sizes_and_data(self: Any, x: Any) -> Any:
    odd = x.shape[2] % 2 == 1 and x.shape[3] % 2 == 1
    either = not (odd or x.shape[2] > 7)
    if either or x.sum() > 0:
        x = x * 2
    return x + 1 if odd and either else x - 1


@program(SIZES, ifs=0)
def mask_that_the_model_makes_is_causal(self: Any, x: Any) -> Any:
    causal = torch.triu(torch.full((x.shape[0], x.shape[0]), float("-inf"), dtype=torch.float32), diagonal=1)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(x.shape[0])
    return (causal.exp() @ x) * 2 if (mask == causal).all() else x


@program(SIZES, ifs=0)
def truth_of_numbers_in_the_code(self: Any, x: Any) -> Any:
    weights = torch.arange(4).float() / 4
    return x * 2 if weights.sum() > 2 else x + weights[1]


@program(SIZES)
def tensor_that_was_written_to_is_compared(self: Any, x: Any) -> Any:
    marks, plain = torch.zeros(3), torch.zeros(3)
    marks[1:].add_(x.shape[0] - 2)
    if (marks == plain).all():
        return x * 2
    return x + 1


@program(SIZES)
def number_that_is_none_does_not_equal_itself(self: Any, x: Any) -> Any:
    table = torch.full((x.shape[0],), float("nan"))
    return x * 2 if (table == table).all() else x + 1


@program(
    [*PICTURES, (torch.linspace(-1, 1.5, 480).reshape(1, 1, 24, 20),)],
    example=(torch.linspace(-1, 1.5, 400).reshape(1, 1, 20, 20),),
    axes=({2: "h", 3: "w"},),
    ifs=6,
)
def resized_in_layers_and_back(self: Any, x: Any) -> Any:
    for _ in range(3):
        h, w = x.shape[2:]
        resized, size = False, (math.ceil(h / 2) * 2, math.ceil(w / 2) * 2)
        if size[0] != h or size[1] != w:
            x = F.interpolate(x, size=size, mode="bilinear")
            resized = True
        x = x.reshape(1, 1, size[0] // 2, 2, size[1] // 2, 2).flip(3).reshape(1, 1, *size)
        if resized:
            x = F.interpolate(x, size=(h, w), mode="bilinear")
        x = F.avg_pool2d(x, 3, 2, 1)
    return x


@program(SIGNS, ifs=4)
def data_in_each_of_many_layers(self: Any, x: Any) -> Any:
    count = 0
    for layer in self.layers:
        y = layer(x)
        if y.mean() > 0:
            x = x + y
            count += 1
        else:
            x = x - 0.5 * y
    return x * count


@program([*SIZES, *SIGNS])
def written_to_after_many_branches(self: Any, x: Any) -> Any:
    y = z = x * 1
    if x.shape[0] > 3:
        z = y * 2
    if x.sum() > 0:
        z = z + 1
    if x.shape[0] % 2:
        z = z - 1
    z.add_(1)
    return y, z


@program(SIZES)
def ways_that_define_and_keep(self: Any, x: Any) -> Any:
    self.window, held = 3, {"x": x, "parts": [x]}
    if x.shape[0] > 3:
        extra = x.mean(0)
        self.window = 5
        held["parts"].append(x + 1)
    if x.shape[0] > 6:
        held["x"] = held["x"] * 2
        if x.shape[0] % 2:
            held["x"] = held["x"] - 1
    if x.shape[0] > 3:
        held["x"] = held["x"] + extra
    return held["x"] * self.window, torch.cat(held["parts"])


@program(rows(12, 4, 8, 20), ifs=0)
def sizes_held_in_tensors(self: Any, x: Any) -> Any:
    count = torch.div(x.shape[0], 4, rounding_mode="trunc")
    means = x.view(count, 4, 3).mean(1) + x[: x.shape[0] // 4]
    pairs = x.new_zeros((count * 2 + 1, 2, 3))
    pairs[1:] = x.view(x.shape[0] // 2, 2, 3)
    count -= 1
    return means, pairs, x.new_ones((count, 2)) * count


@program(rows(12, 9, 16, 21), ifs=0)
def back_to_the_length_that_came(self: Any, x: Any) -> Any:
    window = torch.hann_window(4)
    spectrum = torch.stft(x.T, 4, 2, window=window, return_complex=True)
    return torch.istft(spectrum, 4, 2, window=window, length=x.shape[0]), spectrum.istft(4, window=window, length=5)


@program(SIGNS)
def a_layer_by_its_name(self: Any, x: Any) -> Any:
    layers = torch.nn.ModuleDict({"layer_0": self.one, "layer_1": torch.nn.Tanh(), "layer_2": self.two})
    return layers[f"layer_{int(x[0].argmax())}"](x)


@program(rows(6, 1, 2, 3, 4, 5, 7, 8))
def names_and_lists_by_a_remainder(self: Any, x: Any) -> Any:
    layers = {"layer_0": self.one, "layer_1": self.two, "layer_2": torch.nn.Tanh()}
    columns = [x[:, 0], x[:, 1], x[:, 2]]
    turn = x.shape[0] % 3
    return layers[f"layer_{turn}"](x), torch.stack(columns[turn:] + columns[:turn], 1)


@program(SIGNS)
def name_and_layer_by_data(self: Any, x: Any) -> Any:
    named = {"sign_0": self.one, "sign_1": self.two}
    place = x.sum(0).argmax().item()
    return named["sign_%d" % int(x.sum() > 0)](x), [self.one, self.two, *self.layers][place - 3](x)  # noqa: UP031


@program(SIGNS)
def one_of_many_layers(self: Any, x: Any) -> Any:
    return torch.nn.ModuleList([*self.layers, self.one, self.two, self.one, *self.layers])[x[0].argmax() * 4](x)


@program(rows(4, 1, 3, 5, 7, 8, 12))
def tensors_and_lists_changed_beside_numbers(self: Any, x: Any) -> Any:
    n, y, weights = x.shape[0], x * 2, [1, 2]
    view = y[0]
    if n > 6:
        y += 1
    if n > 4:
        weights += [3]
    if n > 3:
        y *= int(n / 2)
    return y * sum(weights), view


@program(rows(4, 1, 3, 5, 7, 8, 12))
def list_of_numbers_changed_by_size_and_data(self: Any, x: Any) -> Any:
    n = x.shape[0]
    places = list(range(n))
    if n % 2:
        places.append(0)
    if n > 4:
        places.insert(0, n - 1)
    if x.sum() > 3:
        places.pop()
    if n > 6:
        places += [0, 1]
    if n % 3 == 0:
        places.reverse()
    if n == 5:
        places[0] = 2
    return x[places], torch.tensor(places[::-1])


@program([(torch.arange(n * 2.0).reshape(n, 2),) for n in (12, 1, 3, 4, 8, 13, 30)])
def windows_of_which_the_last_may_overlap(self: Any, x: Any) -> Any:
    n = x.shape[0]
    starts = list(range(0, max(n - 4, 0) + 1, 2))
    if starts[-1] + 4 < n:
        starts.append(n - 4)
    return torch.stack([x[start : start + 4].mean(0) for start in starts])


@program(rows(8, 1, 4, 5, 3, 7, 9, 12))
def unpacked_or_what_except_says(self: Any, x: Any) -> Any:
    try:
        first, second = x.split(4)
    except ValueError:
        return x.sum(0) * 2
    return first.sum(0) - second.sum(0)


@program(
    [(torch.ones(h, w),) for h, w in ((16, 24), (9, 30), (33, 17), (5, 5), (40, 10), (16, 16))],
    axes=({0: "h", 1: "w"},),
)
def cropped_or_padded_to_a_square(self: Any, x: Any) -> Any:
    h, w = x.shape
    if h < 16 or w < 16:
        left, top = (16 - w) // 2 if w < 16 else 0, (16 - h) // 2 if h < 16 else 0
        right, bottom = (16 - w + 1) // 2 if w < 16 else 0, (16 - h + 1) // 2 if h < 16 else 0
        x = F.pad(x, [left, right, top, bottom])
        h, w = x.shape
        if w == 16 and h == 16:
            return x
    top, left = round((h - 16) / 2.0), round((w - 16) / 2.0)
    return x[top : top + 16, left : left + 16]


@program([(torch.ones(h, w),) for h, w in ((4, 6), (1, 1), (5, 5), (2, 9), (9, 2))], axes=({0: "h", 1: "w"},))
def shapes_in_keys(self: Any, x: Any) -> Any:
    for size in (x.shape, x.shape[::-1], (2, x.shape[0])):
        if (tuple(size), "cpu") not in _TABLES:
            _TABLES[tuple(size), "cpu"] = torch.arange(size[0] * size[1]).reshape(*size)
    if x.shape not in _TABLES:
        _TABLES[x.shape] = _TABLES[tuple(x.shape), "cpu"] * 2
    return x * _TABLES[x.shape] + _TABLES[(2, x.shape[0]), "cpu"].sum()


@program(rows(8, 1, 2, 3, 4, 5, 16, 40))
def as_many_layers_as_the_size_has_bits(self: Any, x: Any) -> Any:
    for layer in self.layers[: int(math.log2(len(x)))]:
        x = layer(x).tanh()
    return x


@program(rows(6, 1, 2, 4, 5, 9))
def arrays_of_numpy(self: Any, x: Any) -> Any:
    n = x.shape[0]
    later = torch.from_numpy(np.triu(np.ones((n, n)), k=1).astype("uint8"))
    places = np.arange(n)[:, None] / np.power(100, 2 * (np.arange(3) // 2) / 3)
    places[:, 0::2], places[:, 1::2] = np.sin(places[:, 0::2]), np.cos(places[:, 1::2])
    between = torch.tensor(np.linspace(0, 1, n) + np.full(n, 2, dtype=np.float32) + np.eye(n).sum(0))
    if n > 4:
        places = places * 2
    x = (x @ x.T).masked_fill(later == 1, -1e9).softmax(-1) @ x
    return x * (3 if n % 2 else 4) + torch.from_numpy(places).float(), between


@program(SIGNS)
def data_in_arrays_of_numpy(self: Any, x: Any) -> Any:
    held = x.detach().cpu().numpy()
    least = np.maximum(held[np.argsort(-held[:, 0])], 0).astype(np.float32)
    least[least > 1] = 1
    if held.max() > 2.5 or np.any(held[1] < 0):
        return torch.from_numpy(np.concatenate([least, held])), np.asarray(x).mean() + x
    return torch.tensor(np.where(held > 0.15, 1.0, held)), x * float(held.mean()) * len(held)


@program([(torch.ones(h, w),) for h, w in ((8, 10), (4, 4), (7, 9), (16, 5), (30, 29))], axes=({0: "h", 1: "w"},))
def image_in_the_middle_of_a_frame(self: Any, x: Any) -> Any:
    h, w = x.shape
    factor = min(12 / h, 12 / w)
    high, wide = round(h * factor), round(w * factor)
    top, left = (12 - high) // 2, (12 - wide) // 2
    frame = torch.full((12, 12), 0.5)
    frame[top : top + high, left : left + wide] = F.interpolate(x[None, None], size=(high, wide))[0, 0]
    return frame * round(h / 3, 2) + round(h * 5, -1) + round(w * 1.7, -1)


@program(
    [(torch.ones(n, 3), torch.ones(m, 3) * 2) for n, m in ((3, 5), (5, 3), (4, 4), (1, 7))],
    axes=({0: "n"}, {0: "m"}),
)
def tensors_by_their_lengths(self: Any, x: Any, y: Any) -> Any:
    short, long = sorted([x, y], key=len)
    same = max(x, y, key=len)
    return torch.cat([long, short]) + max(map(len, (x, y))), same * 2


@program(rows(6, 1, 2, 3, 5, 8))
def truths_in_turn_that_become_one(self: Any, x: Any) -> Any:
    n = x.shape[0]
    if n % 2 and n > 1:
        x = x[:-1]
    if x.shape[0] % 2 == 0:
        return x.view(-1, 2, 3).mean(1)
    return x


@program(SIGNS)
def more_layers_than_runs(self: Any, x: Any) -> Any:
    for bound, layer in zip((0, 1, -1, 2, -2, 3, -3, 4), [*self.layers, *self.layers], strict=True):
        x = layer(x) if x.sum() > bound else x + 0.1
        if x.max() > 1:
            x = x / 2
    return x


_STEPS = torch.tensor([0.0, 0.25, 0.5, 0.75, 1.0])


@program(rows(4, 1, 7), ifs=0)
def steps_of_a_solver(self: Any, x: Any) -> Any:
    # Truths of a buffer and of a tensor of the file's, however many: the model's values answer them.
    assert (self.table[1:, 0] > self.table[:-1, 0]).all()
    seen = torch.empty(4, *x.shape)
    seen[0], reached = x, 1
    for start, end in itertools.pairwise(_STEPS):
        x = x + (end - start) * self.one(x)
        while reached < 4 and end >= _STEPS[reached] + 0.1:
            seen[reached], reached = x, reached + 1
        for row in self.table[:7]:
            x = x + row if row[0] > 8 else x
    return seen[:reached], x


@program(rows(4, 1, 7), ifs=1)
def a_buffer_that_was_written_to(self: Any, x: Any) -> Any:
    own = self.table[0] * 1
    own += x.sum()
    return x + 1 if own[0] > 0 else x - 1


@program(rows(4, 1))
def states_of_no_rows(self: Any, x: Any) -> Any:
    # onnxruntime ends the process over a layer of no rows, which it would run while it loads the file.
    if x.shape[0] == 0:
        none = torch.zeros(0, 3)
        return self.cell(none, self.cell(none, (none, none)))[0] - 1
    return self.cell(x, (x, x))[0] + x


@program(
    [(x.reshape(-1, 3, 3), x.reshape(-1, 9)[:, :6].contiguous()) for (x,) in rows(6, 9, 12)], axes=({0: "n"}, {0: "m"})
)
def rows_as_many_as_those_of_another(self: Any, x: Any, y: Any) -> Any:
    # Each of x has one row of y as far as the example shows: broadcast, and told of.
    scale, shift = y.reshape(x.shape[0], -1, 2, 3).unbind(2)
    return torch.addcmul(shift, x, 1 + scale)


@program(rows(4, 1, 7))
def a_size_that_is_read_by_two_names(self: Any, x: Any) -> Any:
    last, most = x.shape[0] - 1, x.shape[0] - 1
    for layer in self.layers:
        if x.sum() > last * 0.1:
            x = layer(x) * most + last
    return x


def _waves(*periods: int) -> list[Any]:
    return [(torch.sin(torch.arange(24.0) * 2 * math.pi / period).repeat(2, 3, 1).mT,) for period in periods]


@program(_waves(6, 5, 8, 3), axes=({0: "b"},))
def folded_by_periods_that_data_have(self: Any, x: Any) -> Any:
    batch, length, columns = x.shape
    spectrum = torch.fft.rfft(x, dim=1).abs()
    strongest = spectrum.mean((0, 2))[1:].topk(2).indices.add(1).detach().cpu().numpy()
    period = (length // strongest)[0]
    if length % period != 0:
        missing = (length // period + 1) * period - length
        x = torch.cat([x, torch.zeros([batch, missing, columns])], dim=1)
    folded = x.reshape(batch, x.shape[1] // period, period, columns).cumsum(1)
    return folded.reshape(batch, -1, columns)[:, :length] + spectrum[:, strongest].sum()


@program([(x, x + 1) for (x,) in rows(5, 3, 7)], axes=({0: "n"}, {0: "m"}))
def a_part_written_over_all_rows(self: Any, x: Any, y: Any) -> Any:
    # The last part has one row in the example, which is broadcast.
    part = y.chunk(3)[-1]
    z = x + part * 2
    z.copy_(part)
    return z
