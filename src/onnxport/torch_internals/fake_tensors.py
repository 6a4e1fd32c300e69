"""Tensors without values, and the modes that see every call on tensors."""

import torch
import torch._prims_common as prims_common
import torch._refs as refs
from torch._C import DisableTorchFunction, _dispatch_key_set
from torch._dispatch.python import enable_python_dispatcher
from torch._guards import detect_fake_mode
from torch._prims_common import is_contiguous_for_memory_format_or_false
from torch._subclasses import fake_impls
from torch._subclasses.fake_impls import get_fast_op_impls, op_implementations_dict
from torch._subclasses.fake_tensor import (
    FakeTensor,
    FakeTensorMode,
)
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.fx._lazy_graph_module import _use_lazy_graph_module as lazy_graph_modules
from torch.fx.experimental import proxy_tensor
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

__all__ = [
    "CHOICES_OF_CONVOLUTIONS",
    "REBUILDING_SIZES",
    "DisableTorchFunction",
    "FakeTensor",
    "FakeTensorMode",
    "FunctionalTensor",
    "TorchDispatchMode",
    "detect_fake_mode",
    "disable_current_modes",
    "dispatch_keys_of",
    "enable_python_dispatcher",
    "fake_behind",
    "fake_impls",
    "get_fast_op_impls",
    "is_contiguous_for_memory_format_or_false",
    "lazy_graph_modules",
    "op_implementations_dict",
    "prims_common",
    "proxy_tensor",
    "refs",
    "storage_of",
]

# Real tensors within a capture: to look at weights, or to run a function on made-up values.
disable_current_modes = _disable_current_modes

# By which library a convolution is computed, and how its result lies in memory then: owner and name.
CHOICES_OF_CONVOLUTIONS = tuple(
    (torch._C, name) for name in ("_select_conv_backend", "_conv_determine_backend_memory_format")
)

# What records a size that torch builds of its expression, owner and name: none of that name in torch 2.9.
REBUILDING_SIZES = tuple((proxy_tensor, name) for name in ("_sym_register",) if hasattr(proxy_tensor, name))

# The kernels that a tensor asks for, as text.
dispatch_keys_of = _dispatch_key_set


def fake_behind(tensor: torch.Tensor) -> FakeTensor | None:
    """The fake tensor that a tensor is, or that it stands for where writes are made functional (as in branches)."""
    if isinstance(tensor, FunctionalTensor):
        tensor = tensor.from_functional()
    return tensor if isinstance(tensor, FakeTensor) else None


def storage_of(tensor: torch.Tensor) -> int | None:
    """What tells the memory of a tensor from that of others; None for one that torch says has none of its own."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except NotImplementedError:
        # Within torch.vmap, torch 2.9 keeps the mapped tensors themselves with the nodes of a graph.
        return None
