"""Gradients that a model computes in its own forward: where torch.autograd and torch.func ask for them."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch._C import _len_torch_function_stack, _set_grad_enabled
from torch._functorch import eager_transforms
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.amp.autocast_mode import _enter_autocast
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing, get_proxy_mode, track_tensor_tree
from torch.overrides import _pop_mode_temporarily

__all__ = [
    "BACKWARD",
    "FUNCTION_TRANSFORMS",
    "attribute_of_recording",
    "enter_autocast",
    "nothing_recorded",
    "recorded_as",
    "set_grad_enabled",
    "temporarily_clear_interpreter_stack",
]

# Calls that a capture records of Python's modes.
set_grad_enabled = _set_grad_enabled
enter_autocast = _enter_autocast

# Who holds the function that runs backward, and its name there; torch.autograd.grad() and backward() call it.
BACKWARD: tuple[Any, str] = (torch.autograd, "_engine_run_backward")

# The module of torch.func.grad, vjp, jvp and what is made of them.
FUNCTION_TRANSFORMS: Any = eager_transforms


@contextlib.contextmanager
def nothing_recorded() -> Iterator[None]:
    """While the block runs, calls are not recorded, and no mode of torch functions sees them."""
    with contextlib.ExitStack() as stack:
        for _ in range(_len_torch_function_stack()):
            stack.enter_context(_pop_mode_temporarily())
        stack.enter_context(disable_proxy_modes_tracing())
        yield


def attribute_of_recording(name: str) -> object:
    """What the graph that is being recorded has under a name: a submodule, or a constant."""
    mode: Any = get_proxy_mode()
    return getattr(mode.tracer.root, name)


def recorded_as(value: torch.Tensor, node: torch.fx.Node) -> torch.Tensor:
    """Let a tensor stand for the result of a call in the graph that is being recorded."""
    mode = get_proxy_mode()
    assert mode is not None
    track_tensor_tree(value, torch.fx.Proxy(node, mode.tracer), constant=None, tracer=mode.tracer)
    return value
