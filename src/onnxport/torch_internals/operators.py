"""Operators: overloads and their schemas, which kernels they have, how they are registered and taken apart."""

from typing import Any

from torch._C import (
    DispatchKey,
    FunctionSchema,
    _dispatch_find_schema_or_throw,
    _dispatch_get_all_op_names,
    _dispatch_has_kernel_for_dispatch_key,
    _get_schema,
    _nn,
    _set_grad_enabled,
    parse_schema,
)
from torch._decomp import decomposition_table
from torch._functorch.predispatch import _vmap_decrement_nesting, _vmap_increment_nesting
from torch._higher_order_ops.cond import cond_op
from torch._higher_order_ops.scan import scan_op
from torch._higher_order_ops.while_loop import while_loop_op
from torch._library.custom_ops import OPDEFS, CustomOpDef
from torch._library.simple_registry import singleton as library_registry
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket

__all__ = [
    "OPDEFS",
    "CustomOpDef",
    "DispatchKey",
    "FunctionSchema",
    "HigherOrderOperator",
    "OpOverload",
    "OpOverloadPacket",
    "cond_op",
    "decomposition_table",
    "dispatch_find_schema_or_throw",
    "dispatch_get_all_op_names",
    "dispatch_has_kernel_for_dispatch_key",
    "get_schema",
    "library_registry",
    "nn_bindings",
    "parse_schema",
    "quantized_decomposed",
    "scan_op",
    "set_grad_enabled",
    "vmap_decrement_nesting",
    "vmap_increment_nesting",
    "while_loop_op",
]

# What the dispatcher knows: torch.library registers with it and has no question to ask it.
dispatch_find_schema_or_throw = _dispatch_find_schema_or_throw
dispatch_get_all_op_names = _dispatch_get_all_op_names
dispatch_has_kernel_for_dispatch_key = _dispatch_has_kernel_for_dispatch_key
get_schema = _get_schema

# The bindings that functions of torch.nn.functional look up when they are called.
nn_bindings = _nn

# Targets of calls in captured graphs: gradient mode, and the markers around what torch.vmap maps.
set_grad_enabled = _set_grad_enabled
vmap_decrement_nesting = _vmap_decrement_nesting
vmap_increment_nesting = _vmap_increment_nesting


def quantized_decomposed() -> Any:
    """The operators that quantize and dequantize, which are defined when this is first called: loading takes long."""
    import torch.ao.quantization.fx._decomposed

    return torch.ops.quantized_decomposed
