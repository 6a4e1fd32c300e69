"""The language of TorchScript: classes, enums, hooks, interfaces and what else scripted and traced code is made of.

``PYTHONPATH=src:tests/replay python tests/replay/language_zoo.py`` compares, row by row, what
this exporter and torch.onnx's ``dynamo=False`` make of them.
"""

# TorchScript reads annotations when it compiles, so they have to be types and not their text. It does not know all
# forms that the linter asks for.
# ruff: noqa: B905, C406, F811, RUF005, RUF012, RUF046, UP031, UP045
import enum
import math
import sys
import warnings
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Optional

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchscript_zoo import Row, verdict

OPSET = 17


def tensors_of(shapes: tuple[Any, ...], seed: int) -> tuple[Any, ...]:
    """Inputs of these shapes; what is given as a tensor is one."""
    generator = torch.Generator().manual_seed(seed)
    return tuple(shape if isinstance(shape, Tensor) else torch.randn(shape, generator=generator) for shape in shapes)


class ScriptRow(Row):
    """A row whose module is TorchScript; each call of ``make`` makes a new one."""

    def run(self, *args: Any) -> Any:
        """What the script computes for its first call."""
        return self.make()(*args)


class Table(list[ScriptRow]):
    """Rows of modules to be scripted or traced."""

    def scripted(self, *shapes: Any, others: tuple[Any, ...] = (), **options: Any) -> Callable[[Any], Any]:
        """Add a function or module class to be scripted."""
        return self._row(lambda item, example: torch.jit.script(_model(item)), shapes, others, options)

    def traced(self, *shapes: Any, others: tuple[Any, ...] = (), **options: Any) -> Callable[[Any], Any]:
        """Add a function or module class to be traced on inputs of these shapes."""
        return self._row(
            lambda item, example: torch.jit.trace(_model(item), example, check_trace=False), shapes, others, options
        )

    def made(self, *shapes: Any, others: tuple[Any, ...] = (), **options: Any) -> Callable[[Any], Any]:
        """Add a function that makes the TorchScript itself, from the example."""
        return self._row(lambda item, example: item(*example), shapes, others, options)

    def _row(self, compiled: Any, shapes: Any, others: Any, options: Any) -> Callable[[Any], Any]:
        further = options.pop("further", ())

        def add(item: Any) -> Any:
            inputs = [shapes, *([others] if others else ()), *further]
            examples = tuple(tensors_of(s, i) for i, s in enumerate(inputs))

            def make() -> Any:
                torch.manual_seed(0)
                return compiled(item, examples[0])

            self.append(ScriptRow(item.__name__, make, examples, **options))
            return item

        return add

    def compare(self, names: list[str]) -> None:
        """Print each row with which ours does not agree with the script, and what torch.onnx makes of it."""
        import onnxport

        warnings.simplefilter("ignore")
        chosen = [row for row in self if not names or row.name in names]
        lacking = 0
        for row in chosen:
            exporters = (onnxport.export, torch.onnx.export)  # noqa: TID251  what ours is compared with
            verdicts = [verdict(row, row.run, row.make(), export, OPSET) for export in exporters]
            lacking += verdicts[0] != "right" and verdicts[1] == "right"
            if verdicts[0] != "right":
                print(f"{row.name}: ours {verdicts[0]}; torch.onnx {verdicts[1]}", flush=True)
        print(f"{len(chosen)} rows; torch.onnx alone is right {lacking} times")


def _model(item: Any) -> Any:
    return item().eval() if isinstance(item, type) else item


LANGUAGE = Table()
scripted, made = LANGUAGE.scripted, LANGUAGE.made


# --- classes ---------------------------------------------------------------------------------------------------------


@torch.jit.script
class Pair:
    def __init__(self, first: Tensor, second: Tensor, weight: float = 0.5):
        self.first = first
        self.second = second
        self.weight = weight

    def mixed(self) -> Tensor:
        return self.first * self.weight + self.second * (1.0 - self.weight)

    def swap(self):
        self.first, self.second = self.second, self.first

    def __add__(self, other: Tensor) -> Tensor:
        return self.mixed() + other

    def __len__(self) -> int:
        return self.first.size(0)


@scripted((2, 4), (2, 4), others=((5, 4), (5, 4)))
class UsesClass(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        pair = Pair(x, y, 0.25)
        a = pair.mixed()
        pair.swap()
        pair.weight = 0.75
        pair.first = pair.first + 1
        return a * pair.mixed() + pair.first * len(pair)


@scripted((2, 4), (2, 4), others=((5, 4), (5, 4)))
class ClassOperators(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return Pair(x, y) + y


def weighted(pair: Pair, by: float) -> Pair:
    return Pair(pair.first * by, pair.second, pair.weight)


@scripted((2, 4), (2, 4), others=((5, 4), (5, 4)))
class ClassBetweenFunctions(nn.Module):
    def inner(self, pair: Pair) -> Tensor:
        pair.swap()
        return pair.mixed()

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        pair = weighted(Pair(x, y), 3.0)
        return self.inner(pair) + pair.first


@scripted((2, 4), others=((5, 4),))
class ClassesInContainers(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pairs: list[Pair] = []
        for i in range(3):
            pairs.append(Pair(x * i, x + i))
        named: dict[str, Pair] = {"a": pairs[0], "b": Pair(x, -x)}
        named["b"].swap()
        out = named["b"].first
        for pair in pairs:
            out = out + pair.mixed()
        return out


@torch.jit.script
class Box:
    def __init__(self, corners: Tensor):
        self.corners = corners
        self._scale: float = 1.0

    @property
    def area(self) -> Tensor:
        return (self.corners[:, 2] - self.corners[:, 0]) * (self.corners[:, 3] - self.corners[:, 1])

    @property
    def scale(self) -> float:
        return self._scale

    @scale.setter
    def scale(self, value: float) -> None:
        self._scale = value
        self.corners = self.corners * value

    @staticmethod
    def of(center: Tensor, size: Tensor):
        return Box(torch.cat([center - size / 2, center + size / 2], 1))


@scripted((2, 2), (2, 2), others=((5, 2), (5, 2)))
class ClassProperties(nn.Module):
    def forward(self, center: Tensor, size: Tensor) -> Tensor:
        box = Box.of(center, size)
        before = box.area
        box.scale = 2.0
        return before + box.area * box.scale


@torch.jit.script
class Counter:
    def __init__(self):
        self.count = 0
        self.last = torch.jit.annotate(Optional[Tensor], None)

    def see(self, x: Tensor) -> int:
        self.count += 1
        self.last = x
        return self.count


@scripted((2, 4), others=((5, 4),))
class ClassWithState(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        counter = Counter()
        for _ in range(3):
            counter.see(x * counter.count)
        last = counter.last
        if last is not None:
            x = x + last
        return x * counter.count


@scripted((3, 4), others=((5, 4),))
class ClassInLoopOfAnyLength(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros(4)
        for i in range(x.size(0)):
            pair = Pair(x[i], total, 0.5)
            total = pair.mixed()
        return total


@scripted((3, 4), others=((5, 4),))
class ClassReadInBranch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pair = Pair(x, x * 2)
        if x.sum() > 0:
            y = pair.first
        else:
            y = pair.second - 1
        return y


@scripted((3, 4), others=((5, 4),))
class ClassWrittenInBranch(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pair = Pair(x, x * 2)
        if x.sum() > 0:
            pair.first = x * 3
        else:
            pair.swap()
        return pair.mixed()


@scripted((3, 4), others=((5, 4),))
class ClassWrittenInLoop(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pair = Pair(torch.zeros(4), torch.ones(4))
        for i in range(x.size(0)):
            pair.first = pair.first + x[i]
            pair.swap()
        return pair.mixed()


@torch.jit.script
class Schedule:
    def __init__(self, start: float, steps: list[int]):
        self.start = start
        self.steps = steps

    def at(self, i: int) -> float:
        return self.start * self.steps[i]


class HoldsObject(nn.Module):
    def __init__(self):
        super().__init__()
        self.schedule = Schedule(0.5, [1, 2, 4])

    def forward(self, x: Tensor) -> Tensor:
        return x * self.schedule.at(2)


scripted((2, 4), others=((5, 4),))(HoldsObject)


# --- enums -----------------------------------------------------------------------------------------------------------


class Mode(enum.Enum):
    SUM = "sum"
    MEAN = "mean"


class Level(enum.Enum):
    LOW = 1
    HIGH = 3


def reduced(x: Tensor, mode: Mode) -> Tensor:
    if mode == Mode.SUM:
        return x.sum(0)
    return x.mean(0)


@scripted((2, 4), others=((5, 4),))
class Enums(nn.Module):
    def __init__(self):
        super().__init__()
        self.mode = Mode.MEAN
        self.level: Final[Level] = Level.HIGH

    def forward(self, x: Tensor) -> Tensor:
        y = reduced(x, self.mode) + reduced(x, Mode.SUM)
        if self.mode.value == "mean" and self.level.name == "HIGH":
            y = y * self.level.value
        if self.level != Level.LOW:
            y = y + 1
        return y


@scripted((2, 4), others=((5, 4),))
class EnumIteration(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        levels: dict[str, Level] = {"a": Level.LOW, "b": Level.HIGH}
        for level in Level:
            x = x * level.value
        for level in [levels["a"], levels["b"]]:
            if level == Level.HIGH:
                x = x + 1
        return x


# --- hooks, interfaces, methods --------------------------------------------------------------------------------------


class Hooked(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x)


def double_input(self, given: tuple[Tensor]) -> tuple[Tensor]:
    return (given[0] * 2,)


def add_input(self, given: tuple[Tensor], result: Tensor) -> Tensor:
    return result + given[0]


@made((2, 4), others=((5, 4),))
def hooks(x: Tensor) -> Any:
    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Hooked()
            self.inner.register_forward_pre_hook(double_input)
            self.inner.register_forward_hook(add_input)

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x) - 1

    return torch.jit.script(Outer().eval())


@made((2, 4), others=((5, 4),))
def hooks_of_the_outermost(x: Tensor) -> Any:
    model = Hooked().eval()
    model.register_forward_pre_hook(double_input)
    model.register_forward_hook(add_input)
    return torch.jit.script(model)


@torch.jit.interface
class Block(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        pass

    def scaled(self, x: Tensor, by: float) -> Tensor:
        pass


class BlockA(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight)

    @torch.jit.export
    def scaled(self, x: Tensor, by: float) -> Tensor:
        return F.linear(x, self.weight) * by


class BlockB(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.relu()

    @torch.jit.export
    def scaled(self, x: Tensor, by: float) -> Tensor:
        return x / by


@scripted((2, 4), others=((5, 4),))
class Interfaces(nn.Module):
    proxy: Block

    def __init__(self):
        super().__init__()
        self.proxy = BlockA()
        self.blocks = nn.ModuleList([BlockA(), BlockB()])

    def forward(self, x: Tensor) -> Tensor:
        x = self.proxy.forward(x) + self.proxy.scaled(x, 0.5)
        for i in range(2):
            block: Block = self.blocks[i]
            x = block.scaled(block.forward(x), 2.0)
        return x


@scripted((2, 4), others=((5, 4),))
class ExportedMethods(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    @torch.jit.export
    def encode(self, x: Tensor, scale: float) -> Tensor:
        return self.decode(x) * scale

    @torch.jit.export
    def decode(self, x: Tensor) -> Tensor:
        return self.fc(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.encode(x, 2.0) + self.encode(x, scale=3.0)


@scripted((2, 4), others=((5, 4),))
class UnusedMethods(nn.Module):
    def __init__(self):
        super().__init__()
        self.training_only = False

    @torch.jit.unused
    def plot(self, x: Tensor) -> Tensor:
        return x.new_tensor(x.tolist())

    def forward(self, x: Tensor) -> Tensor:
        if self.training_only:
            x = self.plot(x)
        return x + 1


@scripted((2, 4), others=((5, 4),))
class ModuleContainers(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])
        self.table = nn.ModuleDict({"relu": nn.ReLU(), "fc": nn.Linear(4, 4)})
        self.weights = nn.ParameterList([nn.Parameter(torch.randn(4)) for _ in range(2)])

    def forward(self, x: Tensor) -> Tensor:
        for i, layer in enumerate(self.layers):
            x = layer(x) * i + x
        for layer, weight in zip(self.layers[:2], self.weights):
            x = layer(x) * weight
        for layer in self.layers[1:]:
            x = layer(x)
        for name, layer in self.table.items():
            x = layer(x)
            if name == "fc":
                x = x + 1
        for weight in self.weights:
            x = x * weight
        if "relu" in self.table:
            x = self.table["relu"](x)
        return self.layers[-1](x) + self.weights[0]


# --- values and types ------------------------------------------------------------------------------------------------


class Detection(NamedTuple):
    boxes: Tensor
    scores: Tensor
    labels: Tensor | None


@scripted((3, 4), others=((5, 4),))
class NamedTuples(nn.Module):
    def make(self, x: Tensor) -> Detection:
        return Detection(boxes=x, scores=x.sum(1), labels=None)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        found = self.make(x)
        boxes, scores, labels = found
        if labels is None:
            found = Detection(boxes * 2, found.scores, scores.argmax())
        labels = found.labels
        assert labels is not None
        return found.boxes + found[1].unsqueeze(1), labels


@scripted((3, 4), others=((5, 4),))
class Optionals(nn.Module):
    bias: Tensor | None

    def __init__(self):
        super().__init__()
        self.bias = None
        self.scale: float | None = 2.0

    def add(self, x: Tensor, y: Tensor | None = None) -> Tensor:
        if y is None:
            y = torch.ones_like(x)
        return x + y

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        if mask is not None:
            x = x.masked_fill(mask, 0.0)
        bias = self.bias
        if bias is not None:
            x = x + bias
        scale = self.scale
        if scale is not None:
            x = x * scale
        return self.add(x) + self.add(x, x)


@scripted((3, 4), others=((5, 4),))
class Annotations(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        numbers = torch.jit.annotate(list[int], [])
        maybe = torch.jit.annotate(Optional[Tensor], None)
        table = torch.jit.annotate(dict[str, Tensor], {})
        for i in range(3):
            numbers.append(i)
        table["x"] = x
        if maybe is None:
            maybe = table["x"]
        return maybe * sum(numbers)


@scripted((3, 4), others=((5, 4),))
class TypeTests(nn.Module):
    def value_of(self, value: Any) -> Tensor:
        if isinstance(value, Tensor):
            return value
        elif isinstance(value, int):
            return torch.full((4,), value)
        elif torch.jit.isinstance(value, list[Tensor]):
            return value[0] * 2
        elif torch.jit.isinstance(value, dict[str, Tensor]):
            return value["a"] * 3
        elif torch.jit.isinstance(value, tuple[int, Tensor]):
            return value[1] * value[0]
        return torch.zeros(4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.value_of(x) + self.value_of(2) + self.value_of([x, x])
        return y + self.value_of({"a": x}) + self.value_of((5, x)) + self.value_of("none")


@scripted((3, 4), others=((5, 4),))
class Unions(nn.Module):
    def scale(self, x: Tensor, by: int | float | list[float]) -> Tensor:
        if isinstance(by, int):
            return x * by
        elif isinstance(by, float):
            return x + by
        else:
            return x - by[0]

    def forward(self, x: Tensor) -> Tensor:
        return self.scale(x, 2) + self.scale(x, 0.5) + self.scale(x, [1.5, 2.0])


class Attributes(nn.Module):
    steps: Final[int]
    names: list[str]
    cache: dict[str, Tensor]

    def __init__(self):
        super().__init__()
        self.steps = 3
        self.names = ["a", "b"]
        self.table = torch.jit.Attribute({"a": 1.5}, dict[str, float])
        self.sizes = (2, 4)
        self.cache = {}

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(self.steps):
            x = x + self.table["a"]
        for name in self.names:
            if name in self.table:
                x = x * len(self.sizes)
        self.cache["x"] = x
        return self.cache["x"] + self.sizes[1]


scripted((2, 4), others=((5, 4),))(Attributes)


@scripted((2, 4), others=((5, 4),))
class Texts(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        n = 3
        text = f"step_{n}_{1.5}"
        parts = "-".join([part.upper() for part in text.split("_")])
        assert x.dim() == 2, f"expected a matrix, got {x.dim()} axes"
        if parts == "STEP-3-1.5" and text[0:4] == "step" and text[-1] == "5" and "tep" in text:
            x = x + int("7") + float("0.5")
        if "%s=%d" % ("n", n) == "n=3" and not text.endswith("x") and text.find("3") == 5:
            x = x * ord("b") + len("abc" + text)
        return x * len(str(n))


@scripted((2, 4), others=((5, 4),))
class Assertions(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        assert x.size(0) > 1, "needs a batch"
        assert x.dtype == torch.float32, f"wrong type {x.dtype}"
        if x.size(1) != 4:
            raise ValueError(f"width {x.size(1)}")
        torch._assert(x.dim() == 2, "needs a matrix")
        return x + 1


# --- control flow ----------------------------------------------------------------------------------------------------


@scripted((2, 4), others=((5, 4),))
class EarlyReturn(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 100:
            return x
        y = x * 2
        if y.max() > 1.0:
            return y - 1
        for i in range(3):
            if i == 2:
                return y + i
        return y


@scripted((2, 4), others=((5, 4),))
class BreakAndContinue(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros(4)
        for i in range(10):
            if i % 2 == 0:
                continue
            if i > 6:
                break
            total = total + x[0] * i
        n = 0
        while True:
            n += 1
            if n >= 4:
                break
        return total + n


@scripted((3, 4), others=((6, 4),))
class BreaksByData(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        total = torch.zeros(4)
        for i in range(x.size(0)):
            if bool(total.sum() > 1.5):
                break
            if bool(x[i].sum() < 0):
                continue
            total = total + x[i].abs()
        return total


@scripted((3, 4), others=((6, 4),))
class ReturnsFromLoop(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        for i in range(x.size(0)):
            if bool(x[i].sum() > 1.0):
                return x[i] * 2
        return x[0]


@scripted((3, 4), others=((5, 4),))
class Comprehensions(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        rows = [x[:, i] * i for i in range(4)]
        sizes = [row.size(0) for row in rows]
        table = {str(i): row for i, row in enumerate(rows)}
        doubled = {name: row * 2 for name, row in table.items()}
        return torch.stack(rows, 1) + doubled["2"].unsqueeze(1) + sum(sizes)


@scripted((3, 4), others=((5, 4),))
class Sorting(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        numbers = [3, 1, 2]
        order = sorted(numbers)
        numbers.sort(reverse=True)
        pairs = list(zip(numbers, order))
        for i, (a, b) in enumerate(pairs):
            x = x + a * b * i
        for i, j, k in zip(numbers, range(5, 8), ["a", "b", "c"]):
            x = x + i * j * len(k)
        names = ["b", "a"]
        names.sort()
        table = {"x": 1, "y": 2}
        for name in sorted(table.keys()):
            x = x * table[name]
        return x + len(names[0]) + min(numbers) + max(3, 4) + numbers.index(2) + numbers.count(3)


@scripted((3, 4), others=((5, 4),))
class ListOperations(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        rows = [x, x * 2]
        rows.insert(0, x - 1)
        rows.extend([x + 1, x + 2])
        rows.reverse()
        last = rows.pop()
        first = rows.pop(0)
        rows[0] = first
        del rows[1]
        rows += [last]
        more = rows + [x] * 2
        a, b, *_ = (1, 2)
        table: dict[int, Tensor] = dict([(1, x), (2, x * 3)])
        table.update({3: last})
        other = table.pop(2) + table.setdefault(7, x)
        got = table.get(3)
        assert got is not None
        return torch.stack(more).sum(0) + other + got * a + b + len(table) + int(9 in table)


@scripted((2, 4), others=((5, 4),))
class Contexts(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            y = x * 2
        with torch.autograd.profiler.record_function("name"):
            y = y + 1
        return y


@torch.jit.script
class Scope:
    def __init__(self, by: float):
        self.by = by

    def __enter__(self) -> float:
        self.by = self.by * 2
        return self.by

    def __exit__(self, kind: Any, value: Any, traceback: Any):
        self.by = self.by - 1


@scripted((2, 4), others=((5, 4),))
class OwnContexts(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        scope = Scope(2.0)
        with scope as by:
            x = x * by
        return x + scope.by


def powers(x: Tensor, n: int) -> Tensor:
    return x**n


@scripted((2, 4), others=((5, 4),))
class Forks(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        futures: list[torch.jit.Future[Tensor]] = []
        for i in range(3):
            futures.append(torch.jit.fork(powers, x, i))
        later = torch.jit.fork(self.fc, x)
        results: list[Tensor] = []
        for future in futures:
            results.append(torch.jit.wait(future))
        return torch.stack(results).sum(0) + later.wait()


class Overloads(nn.Module):
    @torch.jit._overload_method
    def scale(self, x: Tensor, by: int) -> Tensor: ...

    @torch.jit._overload_method
    def scale(self, x: Tensor, by: float) -> Tensor: ...

    def scale(self, x, by):
        return x * by

    def forward(self, x: Tensor) -> Tensor:
        return self.scale(x, 2) + self.scale(x, 0.5)


scripted((2, 4), others=((5, 4),))(Overloads)


@scripted((2, 4), others=((5, 4),))
class Conditionals(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        n = 2 if x.size(0) > 3 else 3
        y = x * 2 if bool(x.sum() > 0) else x - 1
        z = (x > 0).any() and (x < 1).all()
        w = torch.zeros(1) if z else torch.ones(1)
        while n < 10 and n != 7:
            n = n * 2
        return y + w if not z or y.sum() > 0 else y


@scripted((2, 4), others=((5, 4),))
class Numbers(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        n = int(math.ceil(x.size(1) / 3)) + 7 // 2 + (7 % 4) + (-7) // 2 + 2**3
        f = math.sqrt(2.0) * math.pi + math.floor(2.7) + round(1.5) + abs(-2.5) + math.inf * 0 if n < 0 else math.e
        c = (5 & 3) | (1 << 2) ^ 1
        d = divmod(17, 5)
        return x * n + f + c + d[0] * d[1] + float(n) / 3 + pow(2, 3) + int(True) + math.log(2.0) + min(1.5, 2.5)


# --- frozen, mixed and traced ----------------------------------------------------------------------------------------


class ConvNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)
        self.mode = "relu"

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.conv(x))
        if self.mode == "relu":
            x = F.relu(x)
        return F.dropout(x, 0.5, self.training)


@made((2, 3, 8, 8), others=((5, 3, 8, 8),))
def frozen(x: Tensor) -> Any:
    return torch.jit.freeze(torch.jit.script(ConvNet().eval()))


@made((2, 3, 8, 8), others=((5, 3, 8, 8),))
def frozen_trace(x: Tensor) -> Any:
    return torch.jit.freeze(torch.jit.trace(ConvNet().eval(), x))


@made((2, 3, 8, 8), others=((5, 3, 8, 8),))
def optimized_for_inference(x: Tensor) -> Any:
    return torch.jit.optimize_for_inference(torch.jit.script(ConvNet().eval()))


@torch.jit.script
def clamp_rows(x: Tensor, limit: int) -> Tensor:
    for i in range(limit):
        x = x.clamp(max=float(i + 1))
    if bool(x.sum() > 0):
        x = x * 2
    return x


class CallsScript(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.scripted = torch.jit.script(BlockA())

    def forward(self, x: Tensor) -> Tensor:
        return clamp_rows(self.fc(x), 2) + self.scripted(x) + self.scripted.scaled(x, 0.5)


@made((2, 4), others=((5, 4),))
def trace_of_script(x: Tensor) -> Any:
    return torch.jit.trace(CallsScript().eval(), x)


class HoldsTrace(nn.Module):
    def __init__(self, x: Tensor):
        super().__init__()
        self.traced = torch.jit.trace(Hooked().eval(), x)

    def forward(self, x: Tensor, n: int = 2) -> Tensor:
        for _ in range(n):
            x = self.traced(x)
        return x


@made((2, 4), others=((5, 4),))
def script_of_trace(x: Tensor) -> Any:
    return torch.jit.script(HoldsTrace(x))


class TwoMethods(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def encode(self, x: Tensor) -> Tensor:
        return self.fc(x).relu()

    def forward(self, x: Tensor) -> Tensor:
        return self.encode(x) * 2


@made((2, 4), others=((5, 4),))
def trace_of_methods(x: Tensor) -> Any:
    return torch.jit.trace_module(TwoMethods(), {"forward": x, "encode": x})


@made((2, 4), others=((5, 4),))
def trace_of_dicts(x: Tensor) -> Any:
    class Dicts(nn.Module):
        def forward(self, x):
            return {"a": x * 2, "b": {"c": x + 1}["c"]}

    return torch.jit.trace(Dicts(), x, strict=False)


@made((2, 4), (2, 4), others=((5, 4), (5, 4)))
def trace_of_keywords(x: Tensor, y: Tensor) -> Any:
    class Keywords(nn.Module):
        def forward(self, x, y):
            return x * 2 - y

    return torch.jit.trace(Keywords(), example_kwarg_inputs={"x": x, "y": y})


@made((torch.arange(8.0).half().reshape(2, 4)), others=(torch.arange(12.0).half().reshape(3, 4),))
def trace_in_half_precision(x: Tensor) -> Any:
    return torch.jit.trace(Hooked().half().eval(), x)


# --- all of it together --------------------------------------------------------------------------------


@torch.jit.script
class Hyp:
    def __init__(self, tokens: list[int], score: float):
        self.tokens = tokens
        self.score = score

    def __lt__(self, other: "Hyp") -> bool:
        return self.score < other.score

    def __getitem__(self, i: int) -> int:
        return self.tokens[i]

    def __contains__(self, t: int) -> bool:
        return t in self.tokens

    def extended(self, t: int, s: float) -> "Hyp":
        return Hyp(self.tokens + [t], self.score + s)


@scripted((2, 4), others=((5, 4),))
class SortsObjects(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        hyps = [Hyp([1], 0.5), Hyp([2, 3], 0.25)]
        hyps.append(hyps[0].extended(7, 1.0))
        hyps.sort()
        best = hyps[0]
        y = x * best[0] + best.score
        if 7 in hyps[2]:
            y = y + 1
        return y


@torch.jit.script
class Node:
    def __init__(self, value: Tensor):
        self.value = value
        self.children = torch.jit.annotate(list[Tensor], [])
        self.table = torch.jit.annotate(dict[str, Tensor], {})

    def add(self, x: Tensor):
        self.children.append(x)
        self.table["last"] = x

    def total(self) -> Tensor:
        out = self.value
        for c in self.children:
            out = out + c
        return out + self.table["last"]


@scripted((2, 4), others=((5, 4),))
class ObjectWithLists(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        n = Node(x)
        n.add(x * 2)
        n.add(x * 3)
        return n.total()


@torch.jit.script
class Pairs:
    def __init__(self, a: Node, b: Node):
        self.a = a
        self.b = b


@scripted((2, 4), others=((5, 4),))
class NestedObjects(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        p = Pairs(Node(x), Node(x + 1))
        p.a.add(x)
        p.b.add(x * 5)
        p.a.value = p.b.value
        q = p.a
        q.value = q.value * 2
        return p.a.total() - p.b.total()


@scripted((3, 4), others=((5, 4),))
class ObjectsInDynamicLoop(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        n = Node(torch.zeros(4))
        for i in range(x.size(0)):
            n.value = n.value + x[i]
        n.add(x[0])
        return n.total()


@scripted((3, 4), others=((5, 4),))
class NestedBranchWrites(nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 0
        self.register_buffer("acc", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        for i in range(x.size(0)):
            if bool(x[i].sum() > 0):
                self.acc = self.acc + x[i]
                self.count += 1
            else:
                if bool(x[i].max() > 1):
                    self.acc = self.acc - 1
        return self.acc * self.count


@scripted((3, 4), others=((5, 4),))
class DictOfLists(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        d: dict[int, list[Tensor]] = {}
        for i in range(4):
            k = i % 2
            if k not in d:
                d[k] = []
            d[k].append(x[:, i])
        out = torch.zeros(x.size(0))
        for k, v in d.items():
            out = out + torch.stack(v).sum(0) * (k + 1)
        for k in d:
            out = out + k
        for v in d.values():
            out = out + len(v)
        return out


@scripted((3, 4), others=((5, 4),))
class IteratesTensor(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        out = torch.zeros(4)
        for row in x:
            out = out * 0.5 + row
        return out


@scripted((3, 4), others=((5, 4),))
class ShapeOps(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        s = x.shape
        t = torch.tensor([s[0], s[1]])
        y = x.reshape(s[1], -1) if s[0] > 100 else x.reshape([s[0], 2, -1])
        z = x.view(s[:-1] + [2, 2])
        assert x.shape == x.clone().shape
        n = x.size()[-1]
        return z.sum(-1) + y.sum(-1).mean() + t.sum() + n + x.numel() + x.ndim + len(s)


@scripted((3, 4), others=((5, 4),))
class HasAttr(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = 2

    def forward(self, x: Tensor) -> Tensor:
        if hasattr(self, "a"):
            x = x * self.a
        if hasattr(self, "b"):
            x = x * self.b
        warnings.warn("careful", stacklevel=2)
        if x.size(0) > 100:
            print("large", x.size(0))
        return x


class Prop(nn.Module):
    def __init__(self):
        super().__init__()
        self._k = 2.0

    @property
    def k(self) -> float:
        return self._k * 3

    @k.setter
    def k(self, v: float) -> None:
        self._k = v

    def forward(self, x: Tensor) -> Tensor:
        a = self.k
        self.k = 0.5
        return x * a + self.k


scripted((3, 4), others=((5, 4),))(Prop)


@torch.jit.script_if_tracing
def loops(x: Tensor, n: int) -> Tensor:
    for i in range(x.size(0)):
        x = x + i * n
    return x


@LANGUAGE.traced((3, 4), others=((5, 4),))
class ScriptIfTracing(nn.Module):
    def forward(self, x):
        return loops(x, 2)


@scripted((3, 4), others=((5, 4),))
class NegativeRanges(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        out = torch.zeros(4)
        for i in range(x.size(0) - 1, -1, -1):
            out = out * 0.5 + x[i]
        for i in range(1, x.size(0), 2):
            out = out + x[i]
        return out


@scripted((3, 4), others=((5, 4),))
class DtypeDevice(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        d = x.device
        t = x.dtype
        y = torch.arange(4, device=d, dtype=t)
        if t == torch.float32 and not x.is_cuda and str(d) == "cpu":
            y = y + 1
        if x.is_floating_point() and not x.requires_grad and x.layout == torch.strided:
            y = y * 2
        z = torch.zeros([4], dtype=torch.long).to(x)
        return x.to(torch.float64).to(dtype=t) + y + z.type_as(x)


@scripted((3, 4), others=((5, 4),))
class DynamicTernary(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        n = 3 if bool(x.sum() > 0) else 5
        f = 0.5 if bool(x.max() > 1) else float(n)
        return x * n + f


@scripted((3, 4), others=((5, 4),))
class DynamicSlices(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        n = int((x > 0).sum().item())
        k = min(n, 2)
        y = x.flatten()[:n]
        return y.sum() + k


@scripted((3, 4), torch.tensor(2), others=((5, 4), torch.tensor(4)))
class IndexByTensor(nn.Module):
    def forward(self, x: Tensor, i: Tensor) -> Tensor:
        k = int(i)
        return x[k] + x[i] + x[:k].sum(0) + torch.ones(k).sum()


@scripted((3, 4), others=((5, 4),))
class TupleOutputs(nn.Module):
    def forward(self, x: Tensor) -> tuple[Tensor, tuple[Tensor, list[Tensor]], dict[str, Tensor]]:
        return x + 1, (x * 2, [x, x - 1]), {"a": x * 3, "b": x}


class Sub(nn.Module):
    def __init__(self, k: int):
        super().__init__()
        self.k = k
        self.w = nn.Parameter(torch.randn(4))

    def forward(self, x: Tensor, mode: str = "a", scale: Optional[float] = None) -> Tensor:
        if mode == "a":
            x = x * self.w
        elif mode == "b":
            x = x + self.w
        else:
            raise RuntimeError("unknown mode " + mode)
        return x * self.k if scale is None else x * scale


@scripted((3, 4), others=((5, 4),))
class StringModes(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = Sub(2)
        self.b = Sub(3)
        self.seq = nn.Sequential(self.a, nn.Identity())
        self.none = None

    def forward(self, x: Tensor) -> Tensor:
        y = self.a(x) + self.b(x, "b") + self.b(x, scale=0.5, mode="a") + self.seq(x)
        for i, m in enumerate([1, 2]):
            y = y + i * m
        if self.none is not None:
            y = y * 2
        return y


@scripted((3, 4), others=((5, 4),))
class ComplexNumbers(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        z = torch.complex(x, x * 2)
        c = 2 + 3j
        return torch.view_as_real(z * c).sum(-1) + z.abs()


@scripted((3, 4), others=((5, 4),))
class GlobalsAndConstants(nn.Module):
    __constants__ = ["scale", "names"]

    def __init__(self):
        super().__init__()
        self.scale = 2
        self.names = ("a", "b")
        self.t = torch.ones(4)
        self.idx = [0, 2]

    def forward(self, x: Tensor) -> Tensor:
        y = x * self.scale * len(self.names) + self.t
        return y[:, self.idx].sum() + y[:, 1:-1]


@scripted((3, 4), others=((5, 4),))
class FutureOfTuples(nn.Module):
    def two(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x * 2, x * 3

    def forward(self, x: Tensor) -> Tensor:
        f = torch.jit.fork(self.two, x)
        g: list[torch.jit.Future[tuple[Tensor, Tensor]]] = [f]
        a, b = torch.jit.wait(g[0])
        return a - b


@scripted((3, 4), others=((5, 4),), tolerance=2e-2)
class AutocastOn(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.fc(x)
        return y.float()


if __name__ == "__main__":
    LANGUAGE.compare(sys.argv[1:])
