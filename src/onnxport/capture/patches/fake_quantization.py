"""Modules of quantization-aware training that no longer observe: their switches are plain numbers while captured."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from types import ModuleType

import torch

from onnxport.capture.patches.replacing import attributes_replaced
from onnxport.errors import CaptureError, Problem
from onnxport.undoing import undone_after

_HOMES = ("torch.ao.quantization.fake_quantize", "torchao.quantization.pt2e.fake_quantize")
_SWITCHES = ("observer_enabled", "fake_quant_enabled")


@contextlib.contextmanager
def switches_as_numbers(model: object) -> Iterator[None]:
    """While this is open, fake-quantizing modules of a model read their switches without asking a tensor.

    A switch is a buffer, and what it says would be a decision on data. One that still observes is refused: each call
    would move the grid that it rounds to.
    """
    homes = [sys.modules[name] for name in _HOMES if name in sys.modules]
    found = _switched(model, homes) if isinstance(model, torch.nn.Module) else []
    if not found:
        yield
        return
    _refuse_observers(found, homes)
    fused = [(home.FusedMovingAvgObsFakeQuantize, "forward", home.FakeQuantize.forward) for home in homes]
    with contextlib.ExitStack() as undo:
        # The fused operator would observe; without observing it is what the plain module computes.
        undo.enter_context(attributes_replaced(fused))
        for _, module in found:
            undo.enter_context(_plain_switches(module))
        yield


def _switched(model: torch.nn.Module, homes: list[ModuleType]) -> list[tuple[str, torch.nn.Module]]:
    kinds = tuple(home.FakeQuantize for home in homes)
    return [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, kinds) and all(switch in module._buffers for switch in _SWITCHES)
    ]


def _refuse_observers(found: list[tuple[str, torch.nn.Module]], homes: list[ModuleType]) -> None:
    fixed = tuple(home.FixedQParamsFakeQuantize for home in homes)
    observing = [name for name, module in found if _is_on(module, "observer_enabled") and not isinstance(module, fixed)]
    if observing:
        others = f" and {len(observing) - 1} more" if len(observing) > 1 else ""
        problem = Problem(
            f"the fake quantization {observing[0]}{others} still observes: each call moves the grid it rounds to",
            "",
            "Call model.apply(torch.ao.quantization.disable_observer) before the export, or convert the model.",
        )
        raise CaptureError("The model observes what it is given:", [problem])


def _is_on(module: torch.nn.Module, switch: str) -> bool:
    buffer = module._buffers[switch]
    return buffer is not None and bool(buffer.reshape(-1)[0])


@contextlib.contextmanager
def _plain_switches(module: torch.nn.Module) -> Iterator[None]:
    before = dict(module._buffers)
    plain = {switch: [int(_is_on(module, switch))] for switch in _SWITCHES}

    def undo() -> None:
        for switch in plain:
            vars(module).pop(switch, None)
        module._buffers.clear()
        module._buffers.update(before)

    with undone_after(undo):
        for switch, number in plain.items():
            del module._buffers[switch]
            vars(module)[switch] = number
        yield
