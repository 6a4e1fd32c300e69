"""Gradients that a model computes in its own forward: recorded as calls, right at other sizes and for other values."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import grad as gradient_of  # as models import it

import onnxport
from comparison import assert_close
from onnxport.errors import CaptureError

R = torch.randn


def mlp(inputs: int = 3, outputs: int = 2) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 6), nn.Tanh(), nn.Linear(6, outputs))


class Computing(nn.Module):
    """A function of a network and inputs, as a model."""

    def __init__(self, function: Callable[..., Any], network: nn.Module) -> None:
        super().__init__()
        self.function, self.network = function, network

    def forward(self, *inputs: torch.Tensor) -> Any:
        return self.function(self.network, *inputs)


def forces(network: nn.Module, x: torch.Tensor) -> Any:
    x = x.detach().requires_grad_(True)
    energy = (network(x) ** 3).sum()
    return energy.detach(), -gradient_of(energy, x)[0]


def differential_equation(network: nn.Module, x: torch.Tensor, t: torch.Tensor) -> Any:
    x.requires_grad_(True)
    t.requires_grad_(True)
    u = network(torch.cat([x, t], 1))
    u_t, u_x = torch.autograd.grad(u, (t, x), torch.ones_like(u), create_graph=True)
    (u_xx,) = torch.autograd.grad(u_x, x, torch.ones_like(u_x))
    return u_t + u * u_x - 0.1 * u_xx


def backward(network: nn.Module, x: torch.Tensor) -> Any:
    x = x.clone().requires_grad_()
    network(x).pow(2).sum().backward()
    return x.grad


def stopped(network: nn.Module, x: torch.Tensor) -> Any:
    x = x.requires_grad_()
    with torch.no_grad():
        weight = network(x).softmax(1)
    return gradient_of((weight * network(x) * network(x).detach()).sum(), x)[0]


def messages(network: nn.Module, x: torch.Tensor, edges: torch.Tensor) -> Any:
    """Sums over edges written in place, as in networks of graphs."""
    x = x.requires_grad_()
    sent = network(x[edges[0]] - x[edges[1]])
    received = torch.zeros(x.shape[0], sent.shape[1])
    received.index_add_(0, edges[1], sent)
    return gradient_of(received.pow(2).sum(), x)[0]


def written(network: nn.Module, x: torch.Tensor) -> Any:
    x = x.requires_grad_()
    hidden = network(x).clone()
    hidden[:, 0] *= 2
    kept = torch.zeros(x.shape[0], 4)
    kept[:, 1:3] = hidden.relu_()
    return gradient_of(kept.pow(2).sum(), x)[0]


def by_size(network: nn.Module, x: torch.Tensor) -> Any:
    x = x.requires_grad_()
    energy = network(x).sum()
    return gradient_of(energy * 2 if x.shape[0] > 5 else energy, x)[0]


def distances(network: nn.Module, x: torch.Tensor) -> Any:
    x = x.requires_grad_()
    return gradient_of(torch.cdist(x, network(x)).sin().sum(), x)[0]


def steps(network: nn.Module, x: torch.Tensor) -> Any:
    weight = torch.eye(3).requires_grad_()
    for _ in range(2):
        loss = (network(x @ weight) ** 2).mean()
        weight = weight - 0.1 * gradient_of(loss, weight)[0]
    return x @ weight


def unused(network: nn.Module, x: torch.Tensor) -> Any:
    other = torch.ones(2, requires_grad=True)
    found = gradient_of(network(x.requires_grad_()).sum(), (x, other), allow_unused=True)
    return found[0] if found[1] is None else found[1]


def through_middle(network: nn.Module, x: torch.Tensor) -> Any:
    """With respect to an input and to what is computed of it."""
    x = x.requires_grad_()
    hidden = x * 3
    return gradient_of(network(hidden).sum() + x.sum(), (x, hidden))


def adapted(network: nn.Module, x: torch.Tensor, y: torch.Tensor) -> Any:
    weights = dict(network.named_parameters())

    def loss(weights: Any) -> torch.Tensor:
        return F.mse_loss(torch.func.functional_call(network, weights, (x,)), y)

    found = torch.func.grad(loss)(weights)
    return torch.func.functional_call(network, {name: weights[name] - 0.1 * found[name] for name in weights}, (x,))


def total(network: nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda row: network(row).sum()


def pulled(network: nn.Module, x: torch.Tensor) -> Any:
    result, pull = torch.func.vjp(network, x)
    return result, pull(torch.ones_like(result))[0]


CASES: dict[str, tuple[Callable[..., Any], nn.Module, Callable[[int], tuple[torch.Tensor, ...]]]] = {
    "forces": (forces, mlp(), lambda n: (R(n, 3),)),
    "equation": (differential_equation, mlp(2, 1), lambda n: (R(n, 1), R(n, 1))),
    "backward": (backward, mlp(), lambda n: (R(n, 3),)),
    "stopped": (stopped, mlp(), lambda n: (R(n, 3),)),
    "written": (written, mlp(), lambda n: (R(n, 3),)),
    "by-size": (by_size, mlp(), lambda n: (R(n, 3),)),
    "distances": (distances, mlp(3, 3), lambda n: (R(n, 3),)),
    "steps": (steps, mlp(), lambda n: (R(n, 3),)),
    "unused": (unused, mlp(), lambda n: (R(n, 3),)),
    "through-middle": (through_middle, mlp(), lambda n: (R(n, 3),)),
    "adapted": (adapted, mlp(), lambda n: (R(n, 3), R(n, 2))),
    "functional": (
        lambda network, x: torch.autograd.functional.jacobian(lambda v: network(v).sum(0), x),
        mlp(),
        lambda n: (R(n, 3),),
    ),
    "grad-of-each": (lambda network, x: torch.vmap(torch.func.grad(total(network)))(x), mlp(), lambda n: (R(n, 3),)),
    "value-too": (lambda network, x: torch.func.grad_and_value(total(network))(x), mlp(), lambda n: (R(n, 3),)),
    "vjp": (pulled, mlp(), lambda n: (R(n, 3),)),
    "jvp": (lambda network, x: torch.func.jvp(network, (x,), (x.sin(),)), mlp(), lambda n: (R(n, 3),)),
    "jacrev": (lambda network, x: torch.vmap(torch.func.jacrev(network))(x), mlp(), lambda n: (R(n, 3),)),
    "jacfwd": (lambda network, x: torch.vmap(torch.func.jacfwd(network))(x), mlp(), lambda n: (R(n, 3),)),
    "hessian": (lambda network, x: torch.func.hessian(total(network))(x), mlp(), lambda n: (R(3),)),
    "messages": (messages, mlp(), lambda n: (R(n, 3), torch.randint(0, n, (2, n)))),
    "attention": (
        forces,
        nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True),
        lambda n: (R(n, 5, 4),),
    ),
}


def compared(model: nn.Module, *examples: tuple[torch.Tensor, ...], axes: Any) -> None:
    program = onnxport.export(model.eval(), copy.deepcopy(examples[0]), dynamic_shapes=axes, verify=True)
    assert program.verification is not None and program.verification.matches
    for example in examples:
        with torch.enable_grad():
            expected = model(*copy.deepcopy(example))
        assert_close(list(program(*example)), expected, rtol=1e-4, atol=1e-5)


def _varying(one: torch.Tensor, other: torch.Tensor, *_: torch.Tensor) -> dict[int, str]:
    sizes = zip(one.shape, other.shape, strict=True)
    return {axis: "b" for axis, (first, second) in enumerate(sizes) if first != second}


@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str) -> None:
    function, network, inputs = CASES[name]
    torch.manual_seed(0)
    examples = [inputs(size) for size in (4, 7, 2)]
    axes = ([_varying(*tensors) for tensors in zip(*examples, strict=True)],)
    compared(Computing(function, network), *examples, axes=axes)


_MIDDLE = torch.tensor([1, 0, 2])
FORMULAS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    # Functions that give back what they were given, where there is nothing to do.
    "returned": lambda x: x.contiguous() * x + x.to(torch.float32) * 2,
    "mse": lambda x: F.mse_loss(x, x.flip(0)),
    "average": lambda x: F.avg_pool2d(x.view(-1, 1, 2, 3), 2, padding=1) ** 2,
    "adaptive": lambda x: F.adaptive_avg_pool1d(x[:, None], 4) ** 2,
    "replicated": lambda x: F.pad(x.view(-1, 1, 2, 3), (2, 1, 1, 2), mode="replicate") ** 2,
    "gathered": lambda x: x[:, _MIDDLE] ** 2 + x.cumsum(0)[:, :3],
    # Functions that hand what they computed on the way to their gradient.
    "layer-norm": lambda x: F.layer_norm(x, (6,)) * torch.arange(6.0),
    "log-sigmoid": F.logsigmoid,
    "determinant": lambda x: torch.linalg.det(x[:, :4].view(-1, 2, 2) + 3 * torch.eye(2)),
    "absolute": lambda x: x.abs() ** 1.5,
}


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas_and_their_second_gradients(name: str) -> None:
    def second(_: nn.Module, x: torch.Tensor) -> Any:
        x = x.requires_grad_()
        (first,) = gradient_of(FORMULAS[name](x).sin().sum(), x, create_graph=True)
        return first.detach(), gradient_of(first.sin().sum(), x)[0]

    torch.manual_seed(0)
    compared(Computing(second, nn.Identity()), (R(4, 6),), (R(3, 6),), axes=([{0: "b"}],))


@pytest.mark.parametrize(
    ("layer", "sizes"),
    [
        (nn.Conv1d(4, 8, 4, stride=3, padding=2, dilation=2, groups=2), [(2, 4, 19), (1, 4, 20), (3, 4, 21)]),
        (nn.Conv2d(2, 4, 3, stride=2, padding=1), [(2, 2, 9, 8), (1, 2, 8, 11)]),
        (nn.ConvTranspose1d(4, 4, 3, stride=2, padding=1, output_padding=1, groups=2), [(2, 4, 9), (1, 4, 6)]),
        (
            nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.GELU()),
            [(2, 2, 8, 8), (1, 2, 10, 12)],
        ),
    ],
    ids=["conv1d", "conv2d", "transposed", "network"],
)
def test_gradients_of_images(layer: nn.Module, sizes: list[tuple[int, ...]]) -> None:
    def saliency(network: nn.Module, x: torch.Tensor) -> torch.Tensor:
        x = x.requires_grad_()
        return gradient_of(network(x).pow(2).mean(), x)[0]

    names = ({axis: f"n{axis}" for axis in range(len(sizes[0])) if axis != 1},)
    compared(Computing(saliency, layer), *[(R(*size),) for size in sizes], axes=(names,))


def test_the_gradient_of_a_convolutions_weight() -> None:
    def updated(network: Any, x: torch.Tensor) -> torch.Tensor:
        (found,) = gradient_of(network(x).pow(2).mean(), network.weight)
        return F.conv2d(x, network.weight - found, network.bias, stride=2, padding=1)

    layer = nn.Conv2d(2, 3, 3, stride=2, padding=1)
    axes = (({0: "b", 2: "h", 3: "w"},),)
    compared(Computing(updated, layer), (R(2, 2, 9, 9),), (R(1, 2, 8, 11),), axes=axes)


def _through_gru(network: nn.Module, x: torch.Tensor) -> torch.Tensor:
    x = x.requires_grad_()
    return gradient_of(network(x)[0].sum(), x)[0]


def _into_input(network: nn.Module, x: torch.Tensor) -> torch.Tensor:
    factor = torch.ones(3, requires_grad=True)
    x[:, 0] = network(x * factor)[:, 0]
    return gradient_of(x.sum(), factor)[0]


def _drawn(network: nn.Module, x: torch.Tensor) -> torch.Tensor:
    x = x.requires_grad_()
    return gradient_of(F.dropout(network(x), 0.5, training=True).sum(), x)[0]


@pytest.mark.parametrize(
    ("function", "network", "inputs", "message"),
    [
        (_through_gru, nn.GRU(3, 4), (R(2, 5, 3),), "through aten.gru.input, of which none is exported"),
        (_into_input, mlp(), (R(4, 3),), "a write into an input or a weight"),
        (_drawn, mlp(), (R(4, 3),), "aten.dropout.default, which draws numbers"),
    ],
    ids=["gru", "input-written", "drawn"],
)
def test_what_is_refused(
    function: Callable[..., Any], network: nn.Module, inputs: tuple[torch.Tensor, ...], message: str
) -> None:
    with pytest.raises(CaptureError, match=message):
        onnxport.export(Computing(function, network).eval(), inputs)
