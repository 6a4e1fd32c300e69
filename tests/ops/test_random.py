"""Random operators have torch's distributions: moments and bounds of many draws."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

import onnxport
from cases import Wrapped
from onnxport.errors import TranslationError

ops = torch.ops.aten
COUNT = 20_000
FULL = math.inf

# function, mean, standard deviation, least and greatest value
ROWS: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], float, float, float, float]] = {
    "rand": (torch.rand_like, 0.5, 12**-0.5, 0, 1),
    "randn": (torch.randn_like, 0, 1, -FULL, FULL),
    "uniform": (lambda x: ops.uniform(x, 2.0, 5.0), 3.5, 3 * 12**-0.5, 2, 5),
    "normal": (lambda x: torch.normal(x * 0 + 3, 2.0), 3, 2, -FULL, FULL),
    "normal of size": (lambda x: torch.normal(1.0, 2.0, (COUNT,)), 1, 2, -FULL, FULL),
    "log_normal": (lambda x: ops.log_normal(x, 0.0, 0.5), math.exp(0.125), 0.6039, 0, FULL),
    "exponential": (lambda x: ops.exponential(x, 2.0), 0.5, 0.5, 0, FULL),
    "cauchy": (lambda x: ops.cauchy(x, 1.0, 2.0).sub(1).div(2).atan(), 0, math.pi * 12**-0.5, -1.571, 1.571),
    "geometric": (lambda x: ops.geometric(x, 0.4), 2.5, 0.6**0.5 / 0.4, 1, FULL),
    "randint": (lambda x: torch.randint(-2, 3, (COUNT,)), 0, 2**0.5, -2, 2),
    "randint_like": (lambda x: torch.randint_like(x, 2, 5), 3, (2 / 3) ** 0.5, 2, 4),
    "random": (lambda x: ops.random.to(x, 4), 1.5, 1.25**0.5, 0, 3),
    "randperm": (lambda x: torch.randperm(COUNT).sort().values - torch.arange(COUNT), 0, 0, 0, 0),
    "bernoulli": (lambda x: torch.bernoulli(x * 0 + 0.3), 0.3, 0.21**0.5, 0, 1),
    "bernoulli.p": (lambda x: ops.bernoulli.p(x, 0.3), 0.3, 0.21**0.5, 0, 1),
    "multinomial": (lambda x: torch.tensor([1.0, 0.0, 3.0]).multinomial(COUNT, True), 1.5, 0.75**0.5, 0, 2),
    "multinomial, first of all": (
        lambda x: torch.tensor([1.0, 0.0, 3.0]).expand(COUNT, 3).multinomial(2)[:, 0],
        1.5,
        0.75**0.5,
        0,
        2,
    ),
    "poisson": (lambda x: torch.poisson(x + 3.5), 3.5, 3.5**0.5, 0, FULL),
    "poisson, often": (lambda x: torch.poisson(x + 150), 150, 150**0.5, 0, FULL),
    "binomial": (lambda x: torch.binomial(x + 20, torch.tensor(0.3)), 6, 4.2**0.5, 0, 20),
    "dropout": (lambda x: torch.dropout(x * 0 + 1, 0.2, True), 1, 0.5, 0, 1.25),
    "feature_dropout": (lambda x: torch.feature_dropout(x.view(-1, 2, 1) * 0 + 1, 0.2, True), 1, 0.5, 0, 1.25),
}


@pytest.mark.parametrize("name", ROWS)
def test_moments_and_bounds(name: str) -> None:
    function, mean, deviation, least, greatest = ROWS[name]
    x = torch.zeros(COUNT)
    (drawn,) = onnxport.export(Wrapped(function), (x,))(x)
    drawn = drawn.double()
    error = 6 * deviation / math.sqrt(drawn.numel())
    assert abs(drawn.mean().item() - mean) <= error
    assert drawn.std().item() == pytest.approx(deviation, rel=0.1)
    assert least <= drawn.min().item()
    assert drawn.max().item() <= greatest + 1e-6


def test_draws_differ_between_operators() -> None:
    x = torch.zeros(COUNT)
    first, second = onnxport.export(Wrapped(lambda x: (torch.rand_like(x), torch.rand_like(x))), (x,))(x)
    assert not torch.equal(first, second)


def test_a_range_from_high_to_low_is_refused() -> None:
    with pytest.raises(TranslationError, match="no uniform distribution from 5"):
        onnxport.export(Wrapped(lambda x: ops.uniform(x, 5.0, 2.0)), (torch.zeros(3),))
