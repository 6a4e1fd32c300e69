"""What a class of parameters keeps beside its numbers: there while the model is captured, too."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from onnxport.capture.patches.replacing import attributes_replaced
from onnxport.torch_internals.layers import stateless
from onnxport.torch_internals.subclasses import wraps_tensors

_Kept = list[tuple[torch.nn.Module, str, dict[str, Any]]]


@contextlib.contextmanager
def weight_attributes_kept(model: object) -> Iterator[None]:
    """While this is open, a stand-in for a parameter of a class of its own has the attributes of the parameter.

    torch captures with plain tensors in the place of weights, which know nothing of ``self.weight.quant_state``.
    """
    kept = _attributes(model) if isinstance(model, torch.nn.Module) else []
    if not kept:
        yield
        return

    def give() -> None:
        for module, name, attributes in kept:
            stand_in = module._parameters.get(name)
            for attribute, value in attributes.items():
                if stand_in is not None and not hasattr(stand_in, attribute):
                    setattr(stand_in, attribute, value)

    with stand_ins_told(give):
        yield


@contextlib.contextmanager
def stand_ins_told(tell: Callable[[], None]) -> Iterator[None]:
    """While this is open, ``tell`` is called when torch has put tensors in the place of weights and buffers."""
    put_in_place = stateless._reparametrize_module

    @contextlib.contextmanager
    def telling(*args: Any, **kwargs: Any) -> Iterator[None]:
        with put_in_place(*args, **kwargs):
            tell()
            yield

    with attributes_replaced([(stateless, "_reparametrize_module", telling)]):
        yield


def _attributes(model: torch.nn.Module) -> _Kept:
    return [
        (module, name, dict(vars(parameter)))
        for module in model.modules()
        for name, parameter in module._parameters.items()
        if parameter is not None and type(parameter) is not torch.nn.Parameter
        if vars(parameter) and not wraps_tensors(parameter)
    ]
