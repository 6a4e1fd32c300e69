"""Programs whose loops run as often as a size or data says, as rows: recurrences, writes, lists, rows of tensors."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from functools import partial
from types import SimpleNamespace
from typing import Any

import torch
from torch.nn.utils.rnn import pad_sequence

from branches.branch_rows import LOOPS, Program, program, rows

__all__ = ["LOOPS"]

_GENERATOR = torch.Generator().manual_seed(0)
LENGTHS = [(torch.randn(b, n, 3, generator=_GENERATOR),) for b, n in ((2, 5), (1, 1), (3, 2), (2, 7), (4, 4))]
DATA = [(0.1 * torch.randn(2, 3, generator=_GENERATOR),), (torch.ones(1, 3),), (torch.full((3, 3), 40.0),)]
ROWS = rows(6, 1, 2, 3, 4, 5, 7, 9, 12)

over_axis = partial(program, LENGTHS, axes=({0: "b", 1: "n"},), into=LOOPS)
on_data = partial(program, DATA, into=LOOPS)
number = partial(program, ROWS, into=LOOPS)


@over_axis()
def recurrence(self: Any, x: Any) -> Any:
    state, outs = torch.zeros(x.shape[0], 3), []
    for t in range(x.shape[1]):
        state = torch.tanh(self.one(x[:, t]) + self.two(state))
        outs.append(state)
    return torch.stack(outs, 1), state


@over_axis()
def recurrence_from_nothing(self: Any, x: Any) -> Any:
    state, outs = None, []
    for t in range(x.size(1)):
        given = self.one(x[:, t, :])
        state = torch.tanh(given) if state is None else torch.tanh(given + self.two(state))
        outs += [state.unsqueeze(1)]
    return torch.cat(outs, dim=1)


@over_axis()
def first_is_another(self: Any, x: Any) -> Any:
    outs = []
    for t in range(x.size(1)):
        state = self.one(x[:, t]) if t == 0 else self.one(x[:, t]) + self.two(state)  # type: ignore[has-type] # noqa: F821
        outs.append(state)
    return torch.stack(outs).transpose(0, 1)


@over_axis()
def named_as_in_rewritten_code(self: Any, x: Any) -> Any:
    item, total = 5.0, x[:, 0] * 0
    for t in range(x.shape[1]):
        total = total + x[:, t] * item
    return total, torch.stack([x[:, t] * item for t in range(x.shape[1])])


@over_axis()
def padded_in_the_body(self: Any, x: Any) -> Any:
    batch, total = x.shape[0], x[0, 0] * 0
    for t in range(x.shape[1]):
        column = x[:, t]
        if batch % 2:
            column = torch.nn.functional.pad(column, (0, 0, 0, 2 - batch % 2), value=1.0)
        total = total + column.sum(0)
    return total


@number()
def halves_of_odd_lengths(self: Any, x: Any) -> Any:
    while x.shape[0] > 1:
        if x.shape[0] % 2:
            x = torch.cat([x, x[-1:]])
        x = x[::2] + x[1::2]
    return x


@on_data()
def raises_after_many_iterations(self: Any, x: Any) -> Any:
    steps = 0
    while x.sum() < 40:
        for shift in (0.1, 0.2):
            x = x * 1.1 + shift
            assert x.max() > -5
        steps += 1
        if steps > 100:
            raise ValueError(f"no end after {steps}")
    return x + steps


@number()
def condition_that_fails_once_left(self: Any, x: Any) -> Any:
    row = 0
    while x[row].sum() < 3:
        row += 1
        if row >= x.shape[0]:
            break
    return x + row


@over_axis()
def second_and_on(self: Any, x: Any) -> Any:
    state = x[:, 0]
    outs = [state]
    for t in range(1, x.shape[1]):
        state = state * 0.5 + self.one(x[:, t])
        outs.append(state)
    return torch.stack(outs, 1)


@over_axis()
def written_by_index(self: Any, x: Any) -> Any:
    out, state = torch.zeros_like(x), torch.zeros(x.shape[0], 3)
    for t in range(x.shape[1]):
        state = state * 0.5 + x[:, t]
        out[:, t] = state
    return out + 1


@over_axis()
def backwards(self: Any, x: Any) -> Any:
    state, outs = x.new_zeros(x.shape[0], 3), []
    for t in reversed(range(x.shape[1])):
        state = self.one(state) + x[:, t]
        outs.append(state)
    outs = outs[::-1]
    return torch.stack(outs, 1)


@over_axis()
def counted_down(self: Any, x: Any) -> Any:
    state, outs = x.new_zeros(x.shape[0], 3), []
    for t in range(x.shape[1] - 1, -1, -1):
        state = self.one(state) + x[:, t]
        outs.append(state)
    return torch.stack(outs, 1)


@over_axis()
def every_other(self: Any, x: Any) -> Any:
    outs = []
    for t in range(0, x.shape[1], 2):
        outs.append(x[:, t])
    return torch.stack(outs, 1)


@over_axis()
def comprehension(self: Any, x: Any) -> Any:
    return torch.stack([self.one(x[:, t]) * t for t in range(x.shape[1])], 1)


@over_axis()
def rows_in_turn(self: Any, x: Any) -> Any:
    return torch.stack([row.sum(0) for row in x])


@over_axis()
def sum_of_a_generator(self: Any, x: Any) -> Any:
    return sum(self.one(x[:, t]) for t in range(x.shape[1]))


@over_axis()
def unbound_and_enumerated(self: Any, x: Any) -> Any:
    total = 0
    for place, row in enumerate(x.unbind(1)):
        total = total + self.one(row) * (place + 1)
    return total


@over_axis()
def layer_of_a_step(self: Any, x: Any) -> Any:
    h = c = x.new_zeros(x.shape[0], 3)
    outs = []
    for row in x.unbind(dim=1):
        h, c = self.cell(row, (h, c))
        outs.append(h)
    return torch.stack(outs, dim=1), (h, c)


@over_axis()
def states_in_a_list(self: Any, x: Any) -> Any:
    states, outs = [torch.zeros(x.shape[0], 3) for _ in range(2)], []
    for t in range(x.shape[1]):
        y = x[:, t]
        for number, layer in enumerate(self.layers[:2]):
            states[number] = torch.tanh(layer(y) + states[number])
            y = states[number]
        outs.append(y)
    return torch.stack(outs, 1), torch.stack(states)


@over_axis()
def state_in_a_dict(self: Any, x: Any) -> Any:
    state = {"sum": torch.zeros(x.shape[0], 3), "count": 0}
    for t in range(x.shape[1]):
        state["sum"] = state["sum"] * 0.5 + x[:, t]
        state["count"] += 2
    return state["sum"] / state["count"]


@over_axis()
def loop_in_a_loop(self: Any, x: Any) -> Any:
    outs = []
    for b in range(x.shape[0]):
        state = torch.zeros(3)
        for t in range(x.shape[1]):
            state = torch.tanh(state + x[b, t])
        outs.append(state)
    return torch.stack(outs)


@over_axis()
def window_that_grows(self: Any, x: Any) -> Any:
    return torch.stack([x[:, : t + 1].mean(1) for t in range(x.shape[1])], 1)


@over_axis()
def added_in_place(self: Any, x: Any) -> Any:
    total = torch.zeros(x.shape[0], 3)
    view = total[:, :2]
    for t in range(x.shape[1]):
        total.add_(x[:, t])
    return total, view


@over_axis()
def mean_of_a_list(self: Any, x: Any) -> Any:
    outs = []
    for t in range(x.shape[1]):
        outs.append(x[:, t])
    return sum(outs) / len(outs)


@over_axis()
def decided_by_a_size(self: Any, x: Any) -> Any:
    state = torch.zeros(x.shape[0], 3)
    for t in range(x.shape[1]):
        state = state + x[:, t]
        if x.shape[1] > 4:
            state = state * 2
    return state


@over_axis()
def may_not_run(self: Any, x: Any) -> Any:
    total = 0
    for t in range(2, x.shape[1]):
        total = total + x[:, t]
    return x.sum(1) + total


@over_axis()
def goes_on_with_the_length(self: Any, x: Any) -> Any:
    for layer in self.layers[:2]:
        outs = []
        for t in range(x.shape[1]):
            outs.append(layer(x[:, t]).relu())
        x = torch.stack(outs, dim=1) + x
    return x @ x.transpose(1, 2)


@on_data()
def while_small(self: Any, x: Any) -> Any:
    while x.abs().sum() < 100:
        x = x * 2 + 0.1
    return x


@on_data()
def while_small_and_few(self: Any, x: Any) -> Any:
    count = 0
    while x.abs().sum() < 100 and count < 4:
        x = x * 2 + 0.1
        count += 1
    return x * count


@on_data()
def while_not_done(self: Any, x: Any) -> Any:
    done = x.sum() > 50
    while not done:
        x = x + 1
        done = x.sum() > 50
    return x


@on_data()
def while_an_item_is_small(self: Any, x: Any) -> Any:
    steps = 0
    while x.max().item() < 5:
        x = x + 1
        steps = steps + 1
    return x + steps


@number()
def length_asked(self: Any, x: Any) -> Any:
    return x * len(x) if len(x) > 3 else x - 1


@number()
def whole_number(self: Any, x: Any) -> Any:
    windows = x.shape[0] / 3
    return x if windows.is_integer() else torch.nn.functional.pad(x, (0, 0, 0, math.ceil(windows) * 3 - x.shape[0]))


@number()
def half(self: Any, x: Any) -> Any:
    return x[: int(x.shape[0] / 2) + 1]


@number()
def side_of_a_square(self: Any, x: Any) -> Any:
    return x.new_zeros(int(math.sqrt(x.shape[0]))) + float(x.shape[0])


@number()
def root_and_rest(self: Any, x: Any) -> Any:
    whole, rest = divmod(x.shape[0], 4)
    return x[rest:] + whole + abs(x.shape[0] - 5) + int(x.shape[0] ** 0.5)


@number()
def flag_of_an_operator(self: Any, x: Any) -> Any:
    q = x[None]
    return torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=x.shape[0] > 1)


# What loops change besides variables


class _Mean:
    def __init__(self) -> None:
        self.sum, self.count = 0.0, 0

    def update(self, value: Any) -> None:
        self.sum = self.sum + value
        self.count += 1

    @property
    def value(self) -> Any:
        return self.sum / self.count


@dataclasses.dataclass
class _State:
    hidden: Any
    kept: list[Any] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(slots=True)
class _Slots:
    total: Any
    count: int = 0

    def add(self, value: Any) -> None:
        self.total, self.count = self.total * 0.5 + value, self.count + 1


@over_axis()
def changed_within_what_functions_hold(self: Any, x: Any) -> Any:
    kept, state, seen = {"all": [], "twice": []}, [[0, x.new_zeros(x.shape[0], 3)]], []

    def keep(row: Any) -> Any:
        kept["all"].append(row)
        kept["twice"].append(row * 2)
        state[0][0] += 1
        state[0][1] = state[0][1] * 0.5 + row
        return state[0][1] * state[0][0]

    def numbered(row: Any) -> Any:
        seen.append(row)
        return row * len(seen)

    total = x[:, 0] * 0
    for row in x.unbind(1):
        total = total + keep(row)
    return total, torch.stack(kept["all"]) + torch.stack(kept["twice"]), torch.stack(list(map(numbered, x.unbind(1))))


@over_axis()
def objects_without_a_dict(self: Any, x: Any) -> Any:
    held, beside = _Slots(x.new_zeros(x.shape[0], 3)), SimpleNamespace(count=0)

    def count() -> None:
        beside.count += 2

    for row in x.unbind(1):
        held.add(row)
        count()
    return held.total * held.count, x * beside.count


@over_axis()
def objects_of_ones_own(self: Any, x: Any) -> Any:
    mean, states = _Mean(), [_State(x.new_zeros(x.shape[0], 3)) for _ in range(2)]
    for row in x.unbind(1):
        mean.update(row)
        for state in states:
            state.hidden = torch.tanh(self.one(row) + state.hidden)
            row = state.hidden
            state.kept.append(row)
    return mean.value, torch.stack([torch.stack(state.kept) for state in states])


@over_axis()
def scores_of_tags_by_place(self: Any, x: Any) -> Any:
    tags, rows = x.argmax(-1).T, torch.arange(x.shape[0])
    x, score, written = self.one(x).transpose(0, 1), None, torch.zeros(x.shape[1], x.shape[0], 3)
    for t in range(x.shape[0]):
        emitted = x[t, rows, tags[t]]
        score = emitted if score is None else score * 0.5 + emitted
        written[t, rows, tags[t]] = score.detach()
        written[t, [0], 1] += 1.0
    score += self.one.bias.sum()
    return score, written, x[tags.shape[0] // 2, rows, :2]


@over_axis()
def list_of_each_iteration(self: Any, x: Any) -> Any:
    total = None
    for row in x.unbind(1):
        parts = []
        for one in row:
            parts.append(one * 2 if one.sum() > 0 else one)
        total = torch.stack(parts) if total is None else total + torch.stack(parts)
    return total


@over_axis()
def steps_that_items_match(self: Any, x: Any) -> Any:
    state, least, others = torch.zeros(x.shape[0], 3), x[:, 0].sum(), 0
    for row in x.unbind(1):
        match int(row[0].argmax()):
            case 0:
                state = self.one(row)
            case 1 | 5 if others < 2:
                state = torch.tanh(state + row)
            case _:
                others += 1
        least = max(min(least, row.sum(), state.sum() * 0.5), -3.0)
    return state * others, x[0, 0] + least


@over_axis()
def lists_cut_and_joined(self: Any, x: Any) -> Any:
    outs, more = [], [x[:, 0] * 5]
    alias = outs
    for t in range(x.shape[1]):
        outs.append(x[:, t])
    outs.reverse()
    more.extend(outs)
    last = more.pop()
    more.insert(0, last)
    joined = more + [x[:, 0]]  # noqa: RUF005
    return torch.stack([*joined, *outs], 1) * len(alias)


@over_axis()
def lists_in_a_dict(self: Any, x: Any) -> Any:
    found: Any = {"a": [], "b": []}
    for t in range(x.shape[1]):
        found["a"].append(x[:, t])
        found["b"].append(x[:, t] * 2)
    return torch.stack(found["a"], 1) + torch.stack(found["b"], 1)


@over_axis()
def list_that_a_function_adds_to(self: Any, x: Any) -> Any:
    outs = []

    def add(value: Any) -> None:
        outs.append(value * 2)

    for t in range(x.shape[1]):
        add(x[:, t])
    return torch.stack(outs, 1) / len(outs)


@over_axis()
def attributes_assigned(self: Any, x: Any) -> Any:
    self.steps, self.last, self.kept = 0, x[:, 0], []
    for t in range(x.shape[1]):
        self.last = self.last * 0.5 + x[:, t]
        self.kept.append(self.last)
        self.steps += 1
    result = self.last / self.steps + torch.stack(self.kept, 1).sum(1) / len(self.kept)
    self.last = self.kept = None
    return result


class _Remembering(torch.nn.Module):
    state: Any = None

    def forward(self, x: Any) -> Any:
        self.state = x if self.state is None else torch.tanh(x + self.state)
        return self.state


class _WithState(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = _Remembering()

    def forward(self, x: Any) -> Any:
        self.cell.state = None
        for t in range(x.shape[1]):
            y = self.cell(x[:, t])
        self.cell.state = None
        return y


LOOPS["state_of_a_layer"] = Program("state_of_a_layer", _WithState(), LENGTHS[0], LENGTHS, ({0: "b", 1: "n"},))


class _Plain(torch.nn.Module):
    scale = 3.0

    def forward(self, x: Any) -> Any:
        return torch.stack([x[:, t] * _Plain.scale for t in range(x.shape[1])], 1)


class _NamesItsClass(_Plain):
    def forward(self, x: Any) -> Any:
        made = super(_NamesItsClass, self).forward(x)  # noqa: UP008 - as older code has it
        return sum(made[:, t] * t for t in range(x.shape[1]))


LOOPS["class_that_is_named"] = Program(
    "class_that_is_named", _NamesItsClass(), LENGTHS[0], LENGTHS, ({0: "b", 1: "n"},)
)


@over_axis()
def while_a_counter_is_small(self: Any, x: Any) -> Any:
    place, total = 0, x.new_zeros(x.shape[0], 3)
    while place < x.shape[1]:
        total = total + x[:, place]
        place += 2
    return total


@number()
def next_power_of_two(self: Any, x: Any) -> Any:
    size = 1
    while size < x.shape[0]:
        size *= 2
    return torch.nn.functional.pad(x, (0, 0, 0, size - x.shape[0]))


@program([(torch.ones(3, 3), torch.tensor(k)) for k in (2, 0, 1, 5)], axes=({0: "n"}, None), into=LOOPS)
def as_often_as_data_says(self: Any, x: Any, k: Any) -> Any:
    outs = [x]
    for _ in range(int(k)):
        x = self.one(x).tanh()
        outs.append(x)
    return x, torch.stack(outs)


@program([(torch.ones(3, 3), torch.tensor(k)) for k in (2, 0, 1, 5)], axes=({0: "n"}, None), into=LOOPS)
def as_often_as_a_tensor_says(self: Any, x: Any, k: Any) -> Any:
    for _ in range(k):
        x = self.one(x).tanh()
    return x


# What data decides in an iteration: whether there is another, and which way it goes


@over_axis()
def left_by_data(self: Any, x: Any) -> Any:
    total, steps = x.new_zeros(x.shape[0], 3), 0
    for t in range(x.shape[1]):
        if x[:, t].sum() < -2:
            break
        if t % 3 == 1:
            continue
        total = torch.tanh(total + x[:, t]) if x[:, t].mean() > 0 else total * 0.5
        steps += 1
    return total + steps


@over_axis()
def returns_from_two_loops(self: Any, x: Any) -> Any:
    for b in range(x.shape[0]):
        for t in range(x.shape[1]):
            if x[b, t].sum() > 1:
                return x[b, t], torch.scalar_tensor(t)
    return torch.zeros(3), torch.scalar_tensor(-1)


@over_axis()
def best_so_far(self: Any, x: Any) -> Any:
    best, place, found = float("-inf"), 0, False
    for t, row in enumerate(x.unbind(1)):
        score = row.sum()
        if not found or score > best:
            best, place, found = score, t, True
    return best, torch.scalar_tensor(place)


@over_axis()
def neighbours_inside(self: Any, x: Any) -> Any:
    out = torch.zeros_like(x)
    for t in range(x.shape[1]):
        if t > 0 and x[0, t - 1, 0] > 0:
            out[:, t] = x[:, t - 1]
        elif t + 1 < x.shape[1]:
            out[:, t] = x[:, t + 1]
    else:
        out = out + 1
    return out


@on_data()
def iterations_until_they_agree(self: Any, x: Any) -> Any:
    y = x
    for _ in range(30):
        new = 0.5 * torch.tanh(y) + 0.1 * x
        if torch.allclose(new, y, atol=1e-3):
            break
        y = new
    return y


@on_data()
def without_end_but_for_a_break(self: Any, x: Any) -> Any:
    outs = []
    while True:
        x = x * 0.7
        outs.append(x.sum())
        if x.abs().sum() < 0.5:
            break
    return torch.stack(outs), x * len(outs)


# Lists that iterations read, or add to as data says, and tensors that grow


@over_axis()
def looks_back(self: Any, x: Any) -> Any:
    outs = [x[:, 0]]
    for t in range(1, x.shape[1]):
        outs.append(outs[-1] * 0.5 + outs[t // 2] + self.one(x[:, t]))
    return torch.stack(outs, 1)


@over_axis()
def looks_back_at_nothing(self: Any, x: Any) -> Any:
    outs = []
    for row in x.unbind(1):
        outs.append((outs[-1] if outs else torch.zeros(x.shape[0], 3)) * 0.9 + row)
    return torch.cat(outs, 1)


@over_axis()
def adds_as_data_says(self: Any, x: Any) -> Any:
    kept = [torch.zeros(3)]
    for row in x.flatten(0, 1):
        if row[0] > 0:
            kept.append(row)
    return torch.stack(kept)


@over_axis()
def tensor_that_grows(self: Any, x: Any) -> Any:
    keys, outs = x[:, :0], []
    for t in range(x.shape[1]):
        query = x[:, t : t + 1]
        keys = torch.cat([keys, self.one(query)], 1)
        outs.append(torch.softmax(query @ keys.transpose(1, 2), -1) @ keys)
    return torch.cat(outs, 1), keys + x


@over_axis()
def pieces_with_a_short_last_one(self: Any, x: Any) -> Any:
    outs, state = [], torch.zeros(x.shape[0], 1, 3)
    for piece in x.split(2, 1):
        outs.append(self.one(piece) + state)
        state = state + piece.sum(1, keepdim=True)
    return torch.cat(outs, 1)


@number()
def over_the_places_of_data(self: Any, x: Any) -> Any:
    total = torch.zeros(3)
    for place in (x[:, 0] > 0).nonzero()[:, 0]:
        total = total * 0.5 + x[place]
    return total


@number()
def halved_until_few_are_left(self: Any, x: Any) -> Any:
    while x.shape[0] > 4:
        x = x[: x.shape[0] // 2]
    return x * 2


@over_axis()
def pieces_in_a_comprehension(self: Any, x: Any) -> Any:
    return torch.cat([self.one(piece).softmax(-1) for piece in x.split(2, dim=1)], 1)


@number(ifs=0)
def quotients_made_whole(self: Any, x: Any) -> Any:
    n = x.shape[0]
    up, down, cut = math.ceil(n / 4), math.floor((n - 3) / 2), int((n - 3) / 2)
    return x.new_ones(up * 4, 2), x * down + cut, x * int(n / 2)


def _leaky(h: Any, row: Any) -> Any:
    total = row.sum()
    if total > 1:
        return h + row
    if total < -1:
        h = h * 0.5
        if h.sum() > 0:
            return h
    return h - row


@number()
def body_calls_what_decides(self: Any, x: Any) -> Any:
    class Step(torch.nn.Module):
        def forward(self, h: Any, row: Any) -> Any:
            return _leaky(h, row) if h.mean() > row.mean() else h.tanh()

    step, state, steps = Step(), torch.zeros(3), []
    for row in x:
        state = step(state, row)
        steps.append(_leaky(row, state))
    return state + _leaky(state, x[0]), torch.stack(steps)


@number()
def over_a_list_of_numbers(self: Any, x: Any) -> Any:
    lengths = (x[:, 0].abs() * 3).long().clamp(1, 3)
    mask = torch.zeros(x.shape[0], 3)
    for row, length in enumerate(lengths.tolist()):
        mask[row, :length] = 1
    total = torch.zeros(3)
    for place in (x[:, 0] > 0).nonzero().flatten().tolist():
        total = total * 0.5 + x[place]
    return mask, total, x[:, : max(lengths.tolist())] * lengths.tolist()[0]


@number()
def each_row_has_its_layer(self: Any, x: Any) -> Any:
    layers = torch.nn.ModuleList([self.one, torch.nn.Tanh(), self.two])
    chosen = x.argmax(-1)
    return torch.stack([layers[chosen[place]](x[place]) for place in range(x.shape[0])])


@number()
def the_layers_that_data_ask_for(self: Any, x: Any) -> Any:
    layers, functions = torch.nn.ModuleList([self.one, self.two, self.one]), [torch.sin, torch.tanh, torch.abs]
    chosen, out = x.argmax(-1), torch.zeros_like(x)
    for number in chosen.unique():
        of_it = chosen == number
        out[of_it] = layers[int(number)](x[of_it]) + functions[number.item() - 3](x[of_it])
    return out


@number()
def layers_by_name(self: Any, x: Any) -> Any:
    layers = torch.nn.ModuleDict({"layer_1": self.one, "layer_2": self.two, "layer_3": torch.nn.Tanh()})
    taken = torch.nn.functional.one_hot(x.argmax(-1), 3).T
    out = torch.zeros_like(x)
    for number in taken.sum(1).nonzero():
        (places,) = torch.where(taken[number].squeeze(0))
        out.index_add_(0, places, layers[f"layer_{number[0] + 1}"](x[places]))
    return out


@number()
def rows_listed(self: Any, x: Any) -> Any:
    items = list(x)
    total = x[0] * 0
    for one, other in zip(items, items[1:], strict=False):  # noqa: RUF007
        total = total + (one - other).abs()
    return total + items[-1] * len(items), torch.stack(tuple(x))


@number()
def numbers_listed(self: Any, x: Any) -> Any:
    places = list(range(x.shape[0]))
    weights = torch.tensor([1.0 / (place + 1) for place in range(len(x))])
    return x * torch.tensor(places)[:, None], x * weights[:, None], torch.tensor(list(range(1, 2 * len(x), 2)))


@number()
def joined_one_by_one(self: Any, x: Any) -> Any:
    largest = functools.reduce(torch.maximum, x)
    decayed = torch.stack(list(itertools.accumulate(x, lambda past, row: past * 0.5 + row)))
    return largest, decayed, functools.reduce(lambda total, row: total + row * 2, x, torch.ones(3))


@number()
def rows_in_pairs(self: Any, x: Any) -> Any:
    total, products = x[0] * 0, torch.zeros(x.shape[0], x.shape[0])
    for one, other in itertools.pairwise(x):
        total = total + one * other
    for i, j in itertools.product(range(x.shape[0]), range(x.shape[0])):
        products[i, j] = (x[i] * x[j]).sum()
    return total, products


def _pieces(x: torch.Tensor, size: int) -> Any:
    for start in range(0, len(x), size):
        yield x[start : start + size]


def _neighbours(x: torch.Tensor) -> Any:
    last = x.shape[0] - 1
    for place in range(0, last, 2):
        one = x[place]
        other = x[place + 1] * 2
        yield one, other


@number()
def items_yielded(self: Any, x: Any) -> Any:
    total = torch.zeros(3)
    for one, other in _neighbours(x):
        total = total + one * other
    means = torch.stack([piece.mean(0) for piece in _pieces(x, 3)])
    return total, means, torch.cat([piece.softmax(-1) for piece in _pieces(x, 4)]), sum(p.sum() for p in _pieces(x, 2))


@number()
def truths_of_all_rows(self: Any, x: Any) -> Any:
    some = any(row.sum() > 1 and row[0] > 0.5 for row in x)
    small = [bool((row < 1.2).all()) for row in x]
    lows = 0
    for row in x:
        if all(value < 0.3 for value in row):
            lows += 1
    return x * (2 if some else 3), x + 1 if all(small) else x.tanh(), x * lows


@number()
def rows_by_a_key(self: Any, x: Any) -> Any:
    nearest = min(range(x.shape[0]), key=lambda place: (x[place] - 0.4).abs().sum())
    order = sorted(range(len(x)), key=lambda place: x[place, 0].sin().item(), reverse=True)
    return max(x, key=lambda row: -row.abs().sum()), x[nearest], x[order], x[order[:2]], torch.stack(sorted(x, key=sum))


@number()
def rows_that_pass_a_test(self: Any, x: Any) -> Any:
    kept = [row * 2 for row in x if row.sum() > 0 and row[0] < 1]
    steps = [x[place + 1] - x[place] for place in range(len(x)) if place + 1 < len(x)]
    places = [place for place in range(x.shape[0]) if place % 3 != 1]
    count = sum(1 for row in x if row[1] > 0)
    others = list(filter(lambda row: row.sum() > 0, x))
    return x * len(kept) + count, x[places], torch.stack(steps) if steps else x[:0], x - len(others)


@number()
def items_one_after_another(self: Any, x: Any) -> Any:
    total = torch.zeros(3)
    for row in itertools.chain(x, [self.table[1]], reversed(x)):
        total = total * 0.5 + row
    products = torch.stack([a @ b for a, b in itertools.product(x, self.table[1:3])])
    first = sum(itertools.islice(x, 3))
    return total, products, first, sum(map(torch.dot, x, x.flip(0)), torch.zeros(()))


@number()
def each_row_as_data_says(self: Any, x: Any) -> Any:
    largest = max((float(row.sum()) for row in x), default=1.0)
    return torch.stack([row * 2 if row.sum() > 0 else row - 1 for row in x]) * largest


@partial(program, rows(6, 0, 1, 3), into=LOOPS)()
def largest_of_nothing(self: Any, x: Any) -> Any:
    return torch.ones(3) * max((float(row.sum()) for row in x), default=5.0)


@over_axis()
def steps_given_to_a_function(self: Any, x: Any) -> Any:
    def run(layer: Any, steps: Any) -> Any:
        state, states = torch.zeros(x.shape[0], 3), []
        for step in steps:
            state = torch.tanh(layer(step) + state)
            states.append(state)
        return states

    steps = x.unbind(1)
    both = zip(run(self.one, steps), run(self.two, steps[::-1])[::-1], strict=False)
    return torch.stack([torch.cat(pair, -1) for pair in both], 1)


@number()
def first_row_that_passes_a_test(self: Any, x: Any) -> Any:
    row = next((row for row in x if row[0] > 0.5), None)
    place = next(n for n in range(len(x)) if n * 2 >= len(x) - 1)
    return (x[0] * 0 if row is None else row) + x[place]


@number()
def rows_among_others_in_a_list(self: Any, x: Any) -> Any:
    return torch.stack([*x, x.sum(0), *x.flip(0)])


@number()
def powers_of_two_around_a_size(self: Any, x: Any) -> Any:
    n = len(x)
    above, below = 2 ** math.ceil(math.log2(n)), 2 ** int(math.log2(n))
    return torch.nn.functional.pad(x, (0, 0, 0, above - n)), x[:below] * math.log(n, 2)


@number()
def numbers_and_pairs_that_a_loop_lists(self: Any, x: Any) -> Any:
    n, starts, parts, asked = len(x), [], [(0, 1)], []
    for start in range(1, n, 4):
        starts.append(start - 1)
        parts.append((start, min(n, start + 4)))
    for start, stop in parts:
        asked.append(x[start:stop] + x[stop - 1])
    return torch.cat(asked), torch.tensor(parts), x[starts] * len(starts), x * sum(starts) + parts[-1][1]


@number()
def dicts_that_a_loop_lists(self: Any, x: Any) -> Any:
    found, pairs = [], [(row, row.sum()) for row in x]
    for place, row in enumerate(x):
        found.append({"row": row * 2, "place": place})
    return torch.stack([one["row"] * one["place"] for one in found]), torch.stack([row * b for row, b in pairs])


@number()
def places_that_pass_a_test(self: Any, x: Any) -> Any:
    kept = []
    for place in range(x.shape[0]):
        if x[place].sum() > 0.2:
            kept.append(place)
    return x[kept], torch.tensor(kept, dtype=torch.long), x * len(kept)


@number()
def numbers_of_data_in_a_list(self: Any, x: Any) -> Any:
    sums = []
    while x.sum() < 99:
        x = x + 1
        sums.append(x.sum().item())
    return x * sum(sums)


@program(
    [(torch.arange(1.0 * h * w).reshape(h, w),) for h, w in ((5, 6), (1, 1), (4, 9), (9, 3))],
    axes=({0: "h", 1: "w"},),
    into=LOOPS,
)
def overlapping_tiles(self: Any, x: Any) -> Any:
    h, w = x.shape
    total, count = torch.zeros_like(x), torch.zeros_like(x)
    columns = [*list(range(0, w - 3, 2)), max(w - 3, 0)]
    for top in range(0, h, 4):
        for left in columns:
            tile = x[top : top + 4, left : left + 3] + 1
            total[top : top + 4, left : left + 3].add_(tile - tile.mean())
            count[top : top + 4, left : left + 3] += 1
    return total / count


RAGGED = [
    (torch.arange(3.0 * sum(counts)).reshape(-1, 3) / 9, torch.tensor(counts)) for counts in ([2, 1, 3], [4], [1, 2])
]


@program(RAGGED, axes=({0: "n"}, {0: "b"}), into=LOOPS)
def pieces_as_long_as_a_list_says(self: Any, x: Any, counts: Any) -> Any:
    parts = x.split(counts.tolist())
    means = [part.mean(0) + len(part) for part in parts]
    attended = torch.cat([(q @ q.T).softmax(-1) @ q for q in torch.split(x, counts.tolist())])
    rows = [x[:n] for n in counts.tolist()]
    return torch.stack(means), attended, pad_sequence(parts, batch_first=True), pad_sequence(rows, padding_value=-1.0)


@over_axis()
def lists_that_are_read_and_that_are_not(self: Any, x: Any) -> Any:
    keys, outs = [], []
    for t in range(x.shape[1]):
        keys.append(self.one(x[:, t]))
        held = torch.stack(keys, 1)
        outs.append(((held @ x[:, t].unsqueeze(-1)).softmax(1) * held).sum(1))
    places = list(range(0, x.shape[1], 2)) + list(range(1, x.shape[1], 2))
    return torch.stack(outs, 1)[:, places]


@number()
def best_number_so_far(self: Any, x: Any) -> Any:
    best, place, steps = -1e9, 0, 0
    for i in range(x.shape[0]):
        score = x[i].sum().item()
        if score > best:
            best, place = score, i
    while steps < 8 and bool((x < 5).any()):
        x, steps = x * 2 + 1, steps + 1
    return x[place] * best + steps


@number()
def rows_of_numbers_and_places(self: Any, x: Any) -> Any:
    def parts(rows: Any, size: int) -> Any:
        for start in range(0, len(rows), size):
            yield rows[start : start + size]

    n, boxes = len(x), (x.abs() * 4).long()
    turned = [(place * 2) % n for place in range(n)]
    sums = [x[max(0, a - 1) : min(n, b + 2)].sum(0) + c for a, b, c in boxes.tolist()]
    return torch.stack(sums), x[:, None][turned], torch.stack([part.sum(0) for part in parts(x, 4)])


@number()
def windows_of_each_part(self: Any, x: Any) -> Any:
    outs = []
    for part in x.unsqueeze(0).expand(2, -1, -1).unbind(0):
        total, count = torch.zeros(3), 0
        for row in part[: x.shape.numel() // 3]:
            for left in range(0, len(x) - 3, 2):
                total, count = total + part[left : left + 3].amax(0) * row, count + 1
        outs.append(total / max(count, 1))
    return torch.stack(outs) * min(x.shape)
