"""What scripts and traces compute beside tensors: numbers, optional tensors, lists, and operators that take sizes.

``PYTHONPATH=src:tests/replay python tests/replay/values_zoo.py`` compares, row by row, what
this exporter and torch.onnx's ``dynamo=False`` make of them.
"""

# TorchScript reads annotations when it compiles, so they have to be types and not their text. It does not know all
# forms that the linter asks for.
# ruff: noqa: UP006, UP035, UP045
import sys
from typing import Dict, List, Optional, Tuple

import torch
import torch.nn.functional as F
from language_zoo import Table
from torch import Tensor, nn

VALUES = Table()
scripted, traced, made = VALUES.scripted, VALUES.traced, VALUES.made


def bytes_of(*values: int) -> Tensor:
    """A mask as old code has it."""
    return torch.tensor(values, dtype=torch.uint8)


# --- numbers that branches and loops read --------------------------------------------------------------------------


@scripted((3, 4), others=((5, 4),))
def scaled_where_positive(x: Tensor) -> Tensor:
    scale = float(x.mean())
    if bool(x.sum() > 0):
        x = x * scale
    return x + scale


@scripted((3, 4), others=((5, 4),))
def scaled_in_a_loop(x: Tensor) -> Tensor:
    scale = float(x.mean())
    for i in range(x.size(0)):
        x = x * scale + i
    return x


# --- numbers as results ----------------------------------------------------------------------------------------------


@scripted((3, 4), others=((5, 2),))
def returns_sizes(x: Tensor) -> Tuple[Tensor, int, int]:
    return x + 1, x.size(0), x.numel()


@scripted((3, 4), others=((5, 4),))
def returns_a_size(x: Tensor) -> int:
    return x.size(0) * 2


@scripted((3, 4), others=((5, 4),))
def returns_constants(x: Tensor) -> Tuple[Tensor, int, float, bool]:
    return x * 2, 3, 0.5, True


@scripted((3, 4), others=((5, 4),))
def returns_item(x: Tensor) -> Tuple[int, float, bool]:
    return int(x.sum()), float(x.mean()), bool(x.max() > 0)


@scripted((3, 4), others=((5, 4),), further=[((1, 4),)])
def returns_a_chosen_number(x: Tensor) -> Tuple[float, int]:
    scale, count = 0.5, 1
    if x.size(0) > 3:
        scale, count = 2.0, x.size(0)
    return scale, count


@scripted((3, 4), others=((5, 4),))
def returns_a_ratio(x: Tensor) -> float:
    return x.size(0) / 2


@scripted((3, 4), others=((5, 4),))
def returns_a_list_of_sizes(x: Tensor) -> List[int]:
    return [x.size(0), x.size(1), 7]


# --- optional tensors ------------------------------------------------------------------------------------------------


@scripted(torch.ones(3, 4), others=(-torch.ones(5, 4),))
def optional_by_data(x: Tensor) -> Optional[Tensor]:
    y: Optional[Tensor] = None
    if x.sum() > 0:
        y = x * 2
    return y


@scripted((3, 4), others=((5, 4),), further=[((1, 4),)])
def optional_by_size(x: Tensor) -> Tuple[Tensor, Optional[Tensor]]:
    mask: Optional[Tensor] = None
    if x.size(0) > 3:
        mask = x > 0
    return x + 1, mask


@scripted(torch.ones(3, 4), others=(-torch.ones(5, 4),))
def optional_used_later(x: Tensor) -> Tensor:
    y: Optional[Tensor] = None
    if x.sum() > 0:
        y = x.cumsum(0)
    z = x * 3
    if y is not None:
        z = z + y
    return z


@scripted(torch.tensor([1.0, 2.0, -1.0]), others=(torch.tensor([-1.0, -2.0]),), further=[(torch.ones(4),)])
def optional_by_loop(x: Tensor) -> Tensor:
    found: Optional[Tensor] = None
    for i in range(x.size(0)):
        if bool(x[i] > 0):
            found = x[i] * i
    if found is None:
        return x.sum()
    return found + 1


@scripted((3, 4), others=((5, 4),))
class NoneAmongResults(nn.Module):
    def forward(self, x: Tensor) -> Tuple[Tensor, Optional[Tensor], Tensor]:
        return x + 1, None, x * 2


# --- lists of numbers ------------------------------------------------------------------------------------------------


@scripted(torch.tensor([3, 1, 2]), others=(torch.tensor([5, 4]),))
def tolist_of_tensor(x: Tensor) -> Tensor:
    numbers: List[int] = x.tolist()
    return torch.tensor(numbers) * 2


@scripted(torch.tensor([3, 1, 2]), others=(torch.tensor([5, 4]),))
def tolist_summed(x: Tensor) -> Tensor:
    numbers: List[int] = x.tolist()
    total = 0
    for number in numbers:
        total += number
    return x + total + len(numbers)


@scripted((3, 4), others=((5, 4),))
def growing_numbers(x: Tensor) -> Tensor:
    numbers: List[int] = []
    for i in range(x.size(0)):
        numbers.append(i * 2)
    return torch.tensor(numbers) + 1


@scripted((3, 4), others=((5, 4),))
def growing_floats(x: Tensor) -> Tensor:
    values: List[float] = []
    for i in range(x.size(0)):
        values.append(float(x[i].sum()))
    return torch.tensor(values).cumsum(0)


@scripted((3, 4), others=((5, 4),))
def returns_growing_numbers(x: Tensor) -> List[int]:
    numbers: List[int] = []
    for i in range(x.size(0)):
        numbers.append(i * i)
    return numbers


@scripted((3, 4), others=((5, 4),), further=[((1, 4),)])
def grows_by_data(x: Tensor) -> Tensor:
    kept: List[int] = []
    for i in range(x.size(0)):
        if bool(x[i].sum() > 0):
            kept.append(i)
    return torch.tensor(kept, dtype=torch.int64)


@scripted(torch.tensor([3, 1, 2]), others=(torch.tensor([5, 4]),))
def sizes_from_tolist(x: Tensor) -> Tensor:
    sizes: List[int] = x.tolist()
    return torch.ones(sizes[0], sizes[1])


@scripted(torch.randn(6, 2), torch.tensor([2, 4]), others=(torch.randn(7, 2), torch.tensor([3, 4])))
def split_by_tolist(x: Tensor, sizes: Tensor) -> Tensor:
    numbers: List[int] = sizes.tolist()
    first, second = torch.split(x, [numbers[0], numbers[1]])
    return first.sum(0) - second.sum(0)


@scripted((3, 4), others=((5, 4),))
def sorted_run_time_list(x: Tensor) -> Tensor:
    numbers: List[float] = []
    for i in range(x.size(0)):
        numbers.append(float(x[i, 0]))
    numbers.sort()
    return torch.tensor(numbers)


@scripted((3, 4), others=((5, 4),))
def sorted_backwards(x: Tensor) -> Tensor:
    numbers: List[float] = []
    for i in range(x.size(0)):
        numbers.append(float(x[i, 0]))
    return torch.tensor(sorted(numbers)) + len(numbers)


# --- items and slices by numbers that only run time knows ------------------------------------------------------------


@scripted((3, 4), torch.tensor(1), others=((5, 4), torch.tensor(0)), further=[((2, 4), torch.tensor(-1))])
def item_of_unlike_shapes(x: Tensor, k: Tensor) -> Tensor:
    parts = [x, x[:1], torch.cat([x, x])]
    return parts[int(k)] * 2


@scripted((3, 4), torch.tensor(1), others=((5, 4), torch.tensor(0)), further=[((2, 4), torch.tensor(2))])
def item_of_equal_shapes(x: Tensor, k: Tensor) -> Tensor:
    parts = [x, x * 2, x - 1]
    return parts[int(k)] + 1


@scripted((7, 4), torch.tensor(2), others=((9, 4), torch.tensor(3)), further=[((5, 4), torch.tensor(1))])
def slice_by_step(x: Tensor, step: Tensor) -> Tensor:
    return x[:: int(step)] + 1


@scripted((7, 4), torch.tensor(2), others=((9, 4), torch.tensor(3)), further=[((5, 4), torch.tensor(1))])
def write_to_slice_by_step(x: Tensor, step: Tensor) -> Tensor:
    y, n = x * 2, int(step)
    rows = y[::n]
    y[1 : y.size(0) - 1 : n, ::n] = 1.0
    y[::n].add_(3)
    return torch.cat([y, rows])


@traced((7, 4), torch.tensor(2), others=((9, 4), torch.tensor(3)))
def write_to_traced_slice_by_step(x: Tensor, step: Tensor) -> Tensor:
    y = x * 2
    y[::step, 0::step] = 1.0
    return y


@scripted((7, 4), torch.tensor(2), others=((9, 4), torch.tensor(3)), further=[((5, 4), torch.tensor(1))])
def slice_between(x: Tensor, step: Tensor) -> Tensor:
    n = int(step)
    return x[n : n + 3 : n]


@scripted((3, 4), torch.tensor(1), others=((3, 4), torch.tensor(0)), further=[((3, 4), torch.tensor(-1))])
def unsqueeze_by_number(x: Tensor, dim: Tensor) -> Tensor:
    return x.unsqueeze(int(dim)).sum(1)


@scripted((1, 4, 1), torch.tensor(0), others=((1, 4, 1), torch.tensor(2)), further=[((1, 4, 1), torch.tensor(1))])
def squeeze_by_number(x: Tensor, dim: Tensor) -> Tensor:
    return x.squeeze(int(dim)) * 2


@scripted((3, 4), others=((5, 4),))
def squeeze_by_computed_dim(x: Tensor) -> Tensor:
    dim = x.dim() - 1
    return x.unsqueeze(dim).squeeze(dim) + x.unsqueeze(-1).sum(x.dim())


@scripted((2, 3, 4), others=((5, 2, 7),), further=[((1, 1, 1),)])
def pools_of_a_whole_axis(x: Tensor) -> Tuple[Tensor, Tensor, Tensor]:
    pooled = F.avg_pool2d(x, x.size()[1:])
    return pooled, F.max_pool1d(x, x.size(2)), F.avg_pool1d(x, 1)


@scripted((2, 1, 4), others=((2, 2, 3),), further=[((1, 2, 3),), ((1, 2, 1),)])
def squeeze_any_axis(x: Tensor) -> Tensor:
    return x.squeeze() * 2


@scripted((2, 1, 4), others=((2, 2, 3),), further=[((1, 2, 3),), ((1, 2, 1),)])
def squeeze_two_axes_and_go_on(x: Tensor) -> Tensor:
    return x.squeeze((0, 2)).sum(0, keepdim=True) + 1


@scripted((3, 4), torch.tensor(1), others=((5, 4), torch.tensor(0)), further=[((2, 4), torch.tensor(-1))])
def item_set_among_equal_shapes(x: Tensor, k: Tensor) -> List[Tensor]:
    parts = [x, x * 2, x - 1]
    parts[int(k)] = x * 5
    return parts


@scripted((3, 4), torch.tensor(1), others=((5, 4), torch.tensor(0)), further=[((2, 4), torch.tensor(2))])
def item_set_among_unlike_shapes(x: Tensor, k: Tensor) -> Tuple[Tensor, Tensor]:
    parts = [x, x[:1] * 2, x + 1]
    parts[int(k)] = x[:2] * 5
    return torch.cat(parts), parts[1]


@scripted((3, 4), torch.tensor(1), others=((5, 4), torch.tensor(0)), further=[((2, 4), torch.tensor(-1))])
def item_set_in_rows(x: Tensor, k: Tensor) -> List[Tensor]:
    rows = []
    for i in range(x.size(0)):
        rows.append(x[i])
    rows[k] = x[0] * 2  # the index is a tensor
    return rows


@scripted((3, 4), torch.tensor(1), others=((5, 4), torch.tensor(0)), further=[((2, 4), torch.tensor(2))])
def item_taken_out(x: Tensor, k: Tensor) -> Tuple[Tensor, Tensor]:
    parts = [x, x[:1] * 2, x + 1]
    taken = parts.pop(int(k))
    return torch.cat(parts), taken


@scripted((3, 4), torch.tensor(1), others=((5, 4), torch.tensor(0)), further=[((2, 4), torch.tensor(2))])
def item_put_in(x: Tensor, k: Tensor) -> Tensor:
    parts = [x, x[:1] * 2, x + 1]
    parts.insert(int(k), x * 7)
    del parts[int(k) + 1]
    return torch.cat(parts)


@scripted((3, 4), torch.tensor(1), others=((5, 4), torch.tensor(0)), further=[((2, 4), torch.tensor(2))])
def number_set(x: Tensor, k: Tensor) -> Tuple[Tensor, Tensor]:
    numbers = [1, 2, 3]
    numbers[int(k)] = 10
    return x * numbers[0] + numbers[2], torch.tensor(numbers)


# --- operators that take sizes ---------------------------------------------------------------------------------------


@scripted((3, 4), others=((5, 4),))
def linspace_by_size(x: Tensor) -> Tensor:
    return torch.linspace(0.0, 1.0, x.size(0)) + x[:, 0]


@scripted((3, 4), torch.tensor(4), others=((5, 4), torch.tensor(7)), further=[((5, 4), torch.tensor(1))])
def linspace_by_number(x: Tensor, n: Tensor) -> Tensor:
    return torch.linspace(-1.0, 2.0, int(n)) + x.sum()


@scripted((8, 4), others=((5, 4),), further=[((1, 4),)])
def hann_by_size(x: Tensor) -> Tensor:
    return torch.hann_window(x.size(0)) + x[:, 0]


@scripted((8, 4), others=((5, 4),))
def hann_symmetric(x: Tensor) -> Tensor:
    return torch.hann_window(x.size(0), periodic=False) * x[:, 0]


@scripted((8, 4), others=((5, 4),))
def hamming_by_size(x: Tensor) -> Tensor:
    return torch.hamming_window(x.size(0)) * x[:, 0]


@scripted(torch.tensor([0, 2, 1]), others=(torch.tensor([4, 0, 1, 2]),))
def one_hot_open(x: Tensor) -> Tensor:
    return F.one_hot(x)


@scripted(torch.tensor([0, 2, 1]), (3, 4), others=(torch.tensor([4, 0, 1, 2]), (5, 4)))
def one_hot_by_size(x: Tensor, y: Tensor) -> Tensor:
    return F.one_hot(x, y.size(0))


@scripted((3, 4), torch.tensor(4), others=((5, 4), torch.tensor(7)))
def arange_by_number(x: Tensor, n: Tensor) -> Tensor:
    return torch.arange(int(n)) * 2


@scripted((3, 4), torch.tensor(4), others=((5, 4), torch.tensor(11)))
def arange_by_three(x: Tensor, n: Tensor) -> Tensor:
    return torch.arange(1, int(n), x.size(0) - 1)


@scripted((3, 4), others=((5, 4),))
def arange_of_floats_as_int(x: Tensor) -> Tensor:
    return torch.arange(0.5, 4.7, 1.3, dtype=torch.int64) + x.size(0)


@traced((3, 4), others=((5, 4),))
def arange_traced_as_int(x: Tensor) -> Tensor:
    return torch.arange(0.0, x.size(0) - 0.5, 1, dtype=torch.int32), torch.arange(0.2, 7.4, 1.7, dtype=torch.long)


@traced((3, 4), others=((5, 4),))
def arange_out(x: Tensor) -> Tensor:
    y = torch.zeros(3, dtype=torch.int64)
    torch.arange(1, 4, out=y)
    return x[:, :3] + y


@scripted((3, 4), torch.tensor(8.5), others=((5, 4), torch.tensor(9.0)), further=[((2, 4), torch.tensor(2.2))])
def arange_out_of_any_size(x: Tensor, end: Tensor) -> Tensor:
    y = torch.tensor([1.0])
    z = torch.arange(x.size(0), end, 1.5, out=y)
    return z + y


@traced((3, 4), torch.tensor(8.5), others=((5, 4), torch.tensor(9.0)))
def arange_out_of_data(x: Tensor, end: Tensor) -> Tensor:
    return x.sum() + torch.arange(end, out=torch.tensor([1.0]))


@scripted((3, 4), others=((5, 4),))
def set_storage(x: Tensor) -> Tensor:
    y = torch.zeros(2, 4)
    y.set_(x * 2)
    return y + 1


@scripted((3, 4), bytes_of(1, 0, 1), others=((3, 4), bytes_of(0, 0, 1)))
def uint8_mask(x: Tensor, mask: Tensor) -> Tensor:
    return x[mask]


@scripted(
    (3, 4),
    bytes_of(1, 0, 1, 1),
    others=((5, 4), bytes_of(0, 0, 1, 0)),
)
def uint8_where(x: Tensor, mask: Tensor) -> Tensor:
    return torch.where(mask, x, x * 2)


@scripted((3, 4), bytes_of(1, 0, 1), others=((3, 4), bytes_of(0, 0, 1)))
def uint8_assigned(x: Tensor, mask: Tensor) -> Tensor:
    y = x.clone()
    y[mask] = x[mask] * 2
    return y


@scripted((3, 4), torch.tensor([2]), others=((5, 4), torch.tensor([3])))
def repeat_interleave_of_one(x: Tensor, n: Tensor) -> Tensor:
    return torch.repeat_interleave(x, n, dim=0)


@scripted((3, 4), torch.tensor(2), others=((5, 4), torch.tensor(3)))
def repeat_interleave_of_scalar(x: Tensor, n: Tensor) -> Tensor:
    return torch.repeat_interleave(x, n, dim=0)


@traced((3, 4), torch.tensor(2), others=((5, 4), torch.tensor(3)))
def repeat_interleave_traced(x: Tensor, n: Tensor) -> Tensor:
    return torch.repeat_interleave(x, n, dim=1)


@scripted((3, 4), torch.tensor([2]), others=((5, 4), torch.tensor([3, 1, 0, 2])))
def repeat_interleave_of_one_or_each(x: Tensor, n: Tensor) -> Tensor:
    return torch.repeat_interleave(x, n, dim=1)


@scripted((3, 4), others=((5, 4),))
def dict_of_tensors_as_keys(x: Tensor) -> Tensor:
    key = x + 1
    table: Dict[Tensor, Tensor] = {key: x, x: x * 2}
    return table[key] + table[x]


if __name__ == "__main__":
    VALUES.compare(sys.argv[1:])
