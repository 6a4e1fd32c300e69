"""Exports within contexts of the caller's: right, or refused with a sentence."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest
import torch

import onnxport
from onnxport.errors import InputError


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) + torch.ones(2)


MODEL = Model().eval()


@pytest.mark.parametrize("context", [torch.no_grad, torch.enable_grad, torch.inference_mode])
def test_right_within(context: Callable[[], AbstractContextManager[object]]) -> None:
    model, x = Model().eval(), torch.randn(5, 3)
    with context():
        program = onnxport.export(model, (torch.randn(4, 3),), dynamic_shapes=({0: "n"},))
    torch.testing.assert_close(program(x)[0], model(x).detach())


def test_loops_are_captured_in_inference_mode() -> None:
    class Repeated(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(x.shape[0]):
                x = torch.relu(self.linear(x))
            return x

    model, x = Repeated().eval(), torch.randn(5, 3)
    with torch.inference_mode():
        program = onnxport.export(model, (torch.randn(4, 3),), dynamic_shapes=({0: "n"},))
        torch.testing.assert_close(program(x)[0], model(x))


def _within_vmap(x: torch.Tensor) -> torch.Tensor:
    onnxport.export(MODEL, (x,))
    return x


def _within_grad(x: torch.Tensor) -> torch.Tensor:
    onnxport.export(MODEL, (x,))
    return x.sum()


def _on_meta(x: torch.Tensor) -> torch.Tensor:
    with torch.device("meta"):
        onnxport.export(MODEL, (x,))
    return x


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "vmap": (lambda: torch.vmap(_within_vmap)(torch.randn(2, 4, 3)), r"within torch\.func\.vmap.*Export outside"),
    "grad": (lambda: torch.func.grad(_within_grad)(torch.randn(4, 3)), r"within torch\.func\.grad"),
    "jvp": (
        lambda: torch.func.jvp(_within_vmap, (torch.randn(4, 3),), (torch.ones(4, 3),)),
        r"within torch\.func\.jvp",
    ),
    "meta": (lambda: _on_meta(torch.randn(4, 3)), "The default device is meta"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_within(name: str) -> None:
    run, told = REFUSED[name]
    with pytest.raises(InputError, match=told):
        run()
