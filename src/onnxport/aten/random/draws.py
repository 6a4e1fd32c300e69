"""Random numbers: torch's shape, dtype and distribution; the generator is the runtime's own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from onnxport.aten.reduction.reduce import flat
from onnxport.errors import TranslationError
from onnxport.translate import REGISTRY, Builder, Dim, Int, Tensor, translates
from onnxport.translate.dims import is_static
from onnxport.translate.loop import emit_loop, inside
from onnxport.translate.registry import Translation


def _drawn(dtype: torch.dtype) -> torch.dtype:
    """The dtype to draw in: half precision is too coarse a grid for a distribution's tails."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def _random(op: Builder, op_type: str, shape: Sequence[Int], dtype: torch.dtype, **parameters: Any) -> Tensor:
    drawn = _drawn(dtype)
    if is_static(shape) and len(shape):
        (numbers,) = op.multi(op_type, shape=list(shape), dtype=drawn, **parameters, outputs=1)
    else:
        like = op.full(0, shape, drawn)
        (numbers,) = op.multi(f"{op_type}Like", like, dtype=drawn, **parameters, outputs=1)
    return op.cast(numbers.with_shape(shape), dtype)


def _uniform(op: Builder, shape: Sequence[Int], dtype: torch.dtype, low: float = 0.0, high: float = 1.0) -> Tensor:
    """Uniform between two numbers, the lower included; for a complex dtype both parts are."""
    if low > high:
        # Capture does not look, and runtimes end the process.
        raise TranslationError(f"there is no uniform distribution from {low} to {high}")
    if dtype.is_complex:
        part = dtype.to_real()
        return op.complex(_uniform(op, shape, part, low, high), _uniform(op, shape, part, low, high))
    return _random(op, "RandomUniform", shape, dtype, low=low, high=high)


def _normal(op: Builder, shape: Sequence[Int], dtype: torch.dtype, mean: float = 0.0, std: float = 1.0) -> Tensor:
    """Normal; for a complex dtype each part has half the variance."""
    if dtype.is_complex:
        part, scale = dtype.to_real(), std / math.sqrt(2)
        return op.complex(_normal(op, shape, part, mean, scale), _normal(op, shape, part, 0.0, scale))
    return _random(op, "RandomNormal", shape, dtype, mean=mean, scale=std)


def _above_zero(op: Builder, self: Tensor) -> Tensor:
    """Uniform between 0, excluded, and 1, included: numbers that have a logarithm."""
    return 1 - _uniform(op, self.shape, _drawn(self.dtype))


def _or_default(dtype: torch.dtype | None) -> torch.dtype:
    return torch.get_default_dtype() if dtype is None else dtype


# Uniform and normal


@translates("aten::rand", "aten::rand.generator", complex="same")
def rand(op: Builder, size: Sequence[Int], dtype: torch.dtype | None) -> Tensor:
    return _uniform(op, size, _or_default(dtype))


@translates("aten::rand_like", "aten::rand_like.generator", complex="same")
def rand_like(op: Builder, self: Tensor, dtype: torch.dtype | None) -> Tensor:
    return _uniform(op, self.shape, self.dtype if dtype is None else dtype)


@translates("aten::randn", "aten::randn.generator", complex="same")
def randn(op: Builder, size: Sequence[Int], dtype: torch.dtype | None) -> Tensor:
    return _normal(op, size, _or_default(dtype))


@translates("aten::randn_like", "aten::randn_like.generator", complex="same")
def randn_like(op: Builder, self: Tensor, dtype: torch.dtype | None) -> Tensor:
    return _normal(op, self.shape, self.dtype if dtype is None else dtype)


def _uniform_between(op: Builder, **arguments: object) -> Tensor:
    self, low, high = arguments["self"], arguments["from"], arguments["to"]
    assert isinstance(self, Tensor) and isinstance(low, int | float) and isinstance(high, int | float)
    return _uniform(op, self.shape, self.dtype, float(low), float(high))


# A parameter called `from` can't be written as one in Python.
REGISTRY.add(["aten::uniform"], Translation(_uniform_between, parameters=frozenset({"self", "from", "to"})), "same")


@translates("aten::normal_functional", complex="same")
def normal_functional(op: Builder, self: Tensor, mean: float, std: float) -> Tensor:
    return _normal(op, self.shape, self.dtype, mean, std)


@translates("aten::normal.float_float")
def normal_of_size(op: Builder, mean: float, std: float, size: Sequence[Int], dtype: torch.dtype | None) -> Tensor:
    return _normal(op, size, _or_default(dtype), mean, std)


@translates("aten::normal.Tensor_float", "aten::normal.float_Tensor", "aten::normal.Tensor_Tensor")
def normal(op: Builder, mean: Tensor | float, std: Tensor | float) -> Tensor:
    (shape,) = op.result_shapes()
    dtype = mean.dtype if isinstance(mean, Tensor) else std.dtype if isinstance(std, Tensor) else torch.float32
    drawn = _drawn(dtype)
    scale, middle = (op.cast(x, drawn) if isinstance(x, Tensor) else x for x in (std, mean))
    return _normal(op, shape, drawn) * scale + middle


@translates("aten::log_normal")
def log_normal(op: Builder, self: Tensor, mean: float, std: float) -> Tensor:
    return op.Exp(_normal(op, self.shape, _drawn(self.dtype), mean, std))


# By inversion of the distribution function


@translates("aten::exponential")
def exponential(op: Builder, self: Tensor, lambd: float) -> Tensor:
    return op.Log(_above_zero(op, self)) / -lambd


@translates("aten::cauchy")
def cauchy(op: Builder, self: Tensor, median: float, sigma: float) -> Tensor:
    return op.Tan((_above_zero(op, self) - 0.5) * math.pi) * sigma + median


@translates("aten::geometric")
def geometric(op: Builder, self: Tensor, p: float) -> Tensor:
    trials = op.Ceil(op.Log(_above_zero(op, self)) / math.log1p(-p))
    return op.Max(trials, op.scalar(1, trials.dtype))


# By counting


@translates("aten::poisson")
def poisson(op: Builder, self: Tensor) -> Tensor:
    """How often a clock with exponential pauses rings in a time: as many pauses as the longest time may ever hold."""
    rate = op.cast(self, _drawn(self.dtype))
    longest = op.ReduceMax(flat(op, rate), keepdims=False)
    # Twelve standard deviations above the mean, and some for short times.
    rounds = op.cast(op.Ceil(longest + op.Sqrt(longest) * 12 + 30), torch.int64).with_shape([])

    def body(inner: Builder, iteration: Tensor, state: Sequence[Tensor]) -> list[Tensor]:
        elapsed, count = state
        elapsed = (elapsed - inner.Log(_above_zero(inner, inside(inner, rate)))).with_shape(rate.shape)
        rung = inner.cast(elapsed <= inside(inner, rate), rate.dtype)
        return [elapsed, (count + rung).with_shape(rate.shape)]

    nothing = op.full(0, rate.shape, rate.dtype)
    return emit_loop(op, body, rounds, [nothing, nothing])[1]


@translates("aten::binomial")
def binomial(op: Builder, count: Tensor, prob: Tensor) -> Tensor:
    """Trial by trial, as many as the largest count asks for."""
    (shape,) = op.result_shapes()
    drawn = _drawn(count.dtype)
    trials, chance = op.cast(count, drawn), op.cast(prob, drawn)
    rounds = op.cast(op.ReduceMax(flat(op, trials), keepdims=False), torch.int64).with_shape([])

    def body(inner: Builder, iteration: Tensor, state: Sequence[Tensor]) -> list[Tensor]:
        hit = _uniform(inner, shape, drawn) < inside(inner, chance)
        counts = inner.cast(iteration, drawn) < inside(inner, trials)
        return [(state[0] + inner.cast(hit & counts, drawn)).with_shape(shape)]

    return emit_loop(op, body, rounds, [op.full(0, shape, drawn)])[0]


# Whole numbers


def _integers(op: Builder, shape: Sequence[Int], low: Int, high: Int) -> Tensor:
    """Whole numbers from ``low`` to below ``high``, drawn as float64 so that large ranges keep their grid."""
    if isinstance(low, int) and isinstance(high, int):
        return op.cast(op.Floor(_uniform(op, shape, torch.float64, low, high)), torch.int64)
    drawn = _uniform(op, shape, torch.float64) * op.scalar(high - low, torch.float64)
    return op.cast(op.Floor(drawn), torch.int64) + op.scalar(low, torch.int64)


@translates("aten::randint", "aten::randint.generator", "aten::randint.low", "aten::randint.low_generator")
def randint(op: Builder, high: Int, size: Sequence[Int], dtype: torch.dtype | None, low: Int = 0) -> Tensor:
    return _integers(op, size, low, high)


@translates(
    "aten::randint_like",
    "aten::randint_like.generator",
    "aten::randint_like.low_dtype",
    "aten::randint_like.low_generator_dtype",
)
def randint_like(op: Builder, self: Tensor, high: Int, dtype: torch.dtype | None, low: Int = 0) -> Tensor:
    return _integers(op, self.shape, low, high)


@translates("aten::randint_like.Tensor")
def randint_like_tensor(op: Builder, self: Tensor, high: Tensor, dtype: torch.dtype | None) -> Tensor:
    drawn = _uniform(op, self.shape, torch.float64) * op.cast(high, torch.float64)
    return op.cast(op.Floor(drawn), torch.int64)


def _largest(dtype: torch.dtype) -> int:
    """Up to where torch's ``random_`` draws whole numbers that the dtype can hold."""
    if dtype == torch.bool:
        return 1
    return int(2 / torch.finfo(dtype).eps) if dtype.is_floating_point else torch.iinfo(dtype).max


@translates("aten::random", "aten::random.to")
def random(op: Builder, self: Tensor, to: int | None = None) -> Tensor:
    return _integers(op, self.shape, 0, _largest(self.dtype) + 1 if to is None else to)


@translates("aten::randperm", "aten::randperm.generator")
def randperm(op: Builder, n: Int, dtype: torch.dtype | None) -> Tensor:
    _, order = op.multi("TopK", _uniform(op, [n], torch.float32), [n], axis=0, outputs=2)
    return order


# Choices


@translates("aten::bernoulli")
def bernoulli(op: Builder, self: Tensor) -> Tensor:
    return op.cast(_uniform(op, self.shape, _drawn(self.dtype)) < op.cast(self, _drawn(self.dtype)), self.dtype)


@translates("aten::bernoulli.p", "aten::bernoulli.Tensor")
def bernoulli_p(op: Builder, self: Tensor, p: float | Tensor) -> Tensor:
    probability = op.cast(p, torch.float32) if isinstance(p, Tensor) else p
    return op.cast(_uniform(op, self.shape, torch.float32) < probability, self.dtype)


@translates("aten::multinomial")
def multinomial(op: Builder, self: Tensor, num_samples: Int, replacement: bool) -> Tensor:
    if not self.is_float:
        raise TranslationError(f"the weights must be of a floating-point type, not of {self.dtype}")
    if isinstance(num_samples, int) and num_samples <= 0:
        raise TranslationError(f"`num_samples` is {num_samples}; it must be positive")
    weights = op.cast(self, torch.float32)
    if replacement:
        if isinstance(num_samples, Dim):
            raise TranslationError("drawing with replacement needs a fixed `num_samples` in ONNX; pass a number")
        rows = op.unsqueeze(weights, [0]) if self.rank == 1 else weights
        chosen = op.Multinomial(op.Log(rows), sample_size=num_samples, dtype=torch.int64)
        return op.squeeze(chosen.with_shape([rows.shape[0], num_samples]), [0]) if self.rank == 1 else chosen
    # The first arrivals among exponential clocks that run at the weights' speeds are a draw without replacement.
    arrivals = weights / exponential(op, weights, 1.0)
    _, chosen = op.multi("TopK", arrivals, [num_samples], axis=self.rank - 1, outputs=2)
    return chosen


# Dropout


@translates("aten::dropout")
def dropout(op: Builder, input: Tensor, p: float, train: bool) -> Tensor:
    if not train or p == 0:
        return input
    if p == 1:
        return op.full(0, input.shape, input.dtype)
    return op.Dropout(input, op.scalar(p, torch.float32), op.scalar(True, torch.bool))


@translates("aten::native_dropout")
def native_dropout(op: Builder, input: Tensor, p: float, train: bool | None) -> Sequence[Tensor]:
    if train is False or p == 0:
        return [input, op.full(True, input.shape, torch.bool)]
    if p == 1:
        return [op.full(0, input.shape, input.dtype), op.full(False, input.shape, torch.bool)]
    return op.multi("Dropout", input, op.scalar(p, torch.float32), op.scalar(True, torch.bool), outputs=2)


@translates("aten::feature_dropout")
def feature_dropout(op: Builder, input: Tensor, p: float, train: bool) -> Tensor:
    if not train or p == 0:
        return input
    if p == 1:
        return op.full(0, input.shape, input.dtype)
    channels = [*input.shape[:2], *[1] * (input.rank - 2)]
    kept = op.cast(_uniform(op, channels, torch.float32) < 1 - p, input.dtype)
    return input * (kept / (1 - p))
