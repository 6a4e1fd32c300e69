"""Modules that a model converts while it runs: ``self.router.to(x.dtype)(x)``.

torch puts converted weights into the place of what the module has by swapping tensors or their memory, which fake
tensors refuse. In a capture the module gets what the conversion gives, which is part of the graph; the module that was
given has its own weights again afterwards.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import torch

from onnxport.capture.patches.replacing import attributes_replaced
from onnxport.torch_internals.layers import convert_module
from onnxport.torch_internals.symbolic_sizes import get_proxy_mode

Convert = Callable[[torch.Tensor], torch.Tensor]


@contextlib.contextmanager
def modules_converted_in_graph() -> Iterator[None]:
    """While this is open, a module that is converted in a capture holds what the graph computes of its weights."""

    def convert(module: torch.nn.Module, fn: Convert, recurse: bool = True) -> torch.nn.Module:
        if get_proxy_mode() is None:
            return convert_module(module, fn, recurse)
        for owner in module.modules() if recurse else [module]:
            held: list[dict[str, torch.Tensor | None]] = [vars(owner)["_parameters"], vars(owner)["_buffers"]]
            for tensors in held:
                tensors.update({name: fn(tensor) for name, tensor in tensors.items() if tensor is not None})
        return module

    with attributes_replaced([(torch.nn.Module, convert_module.__name__, convert)]):
        yield
