"""Operators: overloads and their schemas, which kernels they have, how they are registered and taken apart."""

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import _meta_registrations
from torch._C import (
    Argument,
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
from torch._functorch.predispatch import (
    _add_batch_dim,
    _remove_batch_dim,
    _vmap_decrement_nesting,
    _vmap_increment_nesting,
)
from torch._higher_order_ops import utils as _higher_order_calls
from torch._higher_order_ops.cond import cond_op
from torch._higher_order_ops.scan import scan_op
from torch._higher_order_ops.while_loop import while_loop_op
from torch._library.custom_ops import OPDEFS, CustomOpDef
from torch._library.simple_registry import singleton as library_registry
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket
from torch.library import _defs

__all__ = [
    "BEFORE_HIGHER_ORDER_CALLS",
    "CHECKS_OF_OPERANDS",
    "OPDEFS",
    "SCALAR_TYPES",
    "WRAPPERS",
    "Argument",
    "CustomOpDef",
    "DispatchKey",
    "FunctionSchema",
    "HigherOrderOperator",
    "OpOverload",
    "OpOverloadPacket",
    "add_batch_dim",
    "aliased_arguments",
    "cond_op",
    "decomposition_of",
    "decomposition_table",
    "defined_in_python",
    "dispatch_find_schema_or_throw",
    "dispatch_get_all_op_names",
    "dispatch_has_kernel_for_dispatch_key",
    "get_schema",
    "library_registry",
    "meta_registrations",
    "nn_bindings",
    "parse_schema",
    "quantized_decomposed",
    "remove_batch_dim",
    "scan_module",
    "scan_op",
    "set_grad_enabled",
    "vmap_decrement_nesting",
    "vmap_increment_nesting",
    "while_loop_op",
]

# What looks at the graphs of a higher-order operator before it is called, owner and name: none until torch 2.12.
BEFORE_HIGHER_ORDER_CALLS = tuple(
    (_higher_order_calls, name) for name in ("_hop_compile_and_call",) if hasattr(_higher_order_calls, name)
)

# What checks the kinds of what the graphs of a higher-order operator read from around them, owner and name.
CHECKS_OF_OPERANDS = tuple(
    (module, "validate_subgraph_args_types")
    for module in (sys.modules[f"torch._higher_order_ops.{name}"] for name in ("cond", "while_loop", "scan"))
    if hasattr(module, "validate_subgraph_args_types")
)

WRAPPERS = {
    "wrap_with_set_grad_enabled": 1,
    "wrap_with_autocast": 4,
    "invoke_subgraph": 0,
}
"""Higher-order operators that just call a submodule, and the position of the submodule among their arguments."""

# The package has the function by this name, and hides the module.
scan_module = sys.modules["torch._higher_order_ops.scan"]

# The dtypes by the integers that stand for them in schemas and TorchScript.
SCALAR_TYPES = (
    *(torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64),
    *(torch.complex32, torch.complex64, torch.complex128, torch.bool, torch.qint8, torch.quint8, torch.qint32),
    *(torch.bfloat16, torch.quint4x2, torch.quint2x4),
)

# The names of operators that Python code has defined and not taken back. torch changes the set in place.
defined_in_python: set[str] = _defs

# What the dispatcher knows: torch.library registers with it and has no question to ask it.
dispatch_find_schema_or_throw = _dispatch_find_schema_or_throw
dispatch_get_all_op_names = _dispatch_get_all_op_names
dispatch_has_kernel_for_dispatch_key = _dispatch_has_kernel_for_dispatch_key
get_schema = _get_schema

# The rules for the shapes of operators.
meta_registrations = _meta_registrations

# The bindings that functions of torch.nn.functional look up when they are called.
nn_bindings = _nn

# Targets of calls in captured graphs: gradient mode, and the markers around what torch.vmap maps.
set_grad_enabled = _set_grad_enabled
vmap_decrement_nesting = _vmap_decrement_nesting
add_batch_dim = _add_batch_dim
remove_batch_dim = _remove_batch_dim
vmap_increment_nesting = _vmap_increment_nesting


def decomposition_of(target: OpOverload) -> Callable[..., Any] | None:
    """How torch computes an operator from others in Python, or how a later version of torch does."""
    return decomposition_table.get(target, _OF_LATER_VERSIONS.get(target))


def _window(shape: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """A window, of which ``shape`` says what it is at places from 0 to 1; torch has that of Hann from 2.12 on."""

    def window(
        window_length: int, periodic: bool = True, *numbers: float, dtype: Any = None, **options: Any
    ) -> torch.Tensor:
        wanted = torch.get_default_dtype() if dtype is None else dtype
        if window_length == 1:
            return torch.ones(1, dtype=wanted, **options)
        computed = torch.float64 if wanted == torch.float64 else torch.float32
        turns = torch.arange(window_length, dtype=computed, **options) / (window_length - (not periodic))
        return shape(turns, *numbers).to(wanted)

    return window


def _hann(turns: torch.Tensor) -> torch.Tensor:
    return 0.5 - 0.5 * torch.cos(2 * torch.pi * turns)


def _hamming(turns: torch.Tensor, alpha: float = 0.54, beta: float = 0.46) -> torch.Tensor:
    return alpha - beta * torch.cos(2 * torch.pi * turns)


def _blackman(turns: torch.Tensor) -> torch.Tensor:
    return 0.42 - 0.5 * torch.cos(2 * torch.pi * turns) + 0.08 * torch.cos(4 * torch.pi * turns)


def _bartlett(turns: torch.Tensor) -> torch.Tensor:
    return 1 - (2 * turns - 1).abs()


def _kaiser(turns: torch.Tensor, beta: float = 12.0) -> torch.Tensor:
    height = torch.full([], beta, dtype=turns.dtype)
    return torch.i0(beta * torch.sqrt((1 - (2 * turns - 1) ** 2).clamp(min=0))) / torch.i0(height)


_WINDOWS = {"hann": _hann, "hamming": _hamming, "blackman": _blackman, "bartlett": _bartlett, "kaiser": _kaiser}
_OF_LATER_VERSIONS: dict[OpOverload, Callable[..., Any]] = {
    getattr(packet, overload): _window(shape)
    for name, shape in _WINDOWS.items()
    for packet in [getattr(torch.ops.aten, f"{name}_window")]
    for overload in packet.overloads()
    if not overload.endswith("out")
}


def aliased_arguments(call: torch.fx.Node, *, written: bool = False) -> list[torch.fx.Node]:
    """The arguments of a call whose memory its results may show, or those only that it writes to."""
    found: list[torch.fx.Node] = []
    if isinstance(call.target, OpOverload):
        for place, argument in enumerate(call.target._schema.arguments):
            if argument.alias_info is not None and (argument.alias_info.is_write or not written):
                given = call.args[place] if place < len(call.args) else call.kwargs.get(argument.name)
                torch.fx.node.map_arg(given, found.append)
    return found


def quantized_decomposed() -> Any:
    """The operators that quantize and dequantize, which are defined when this is first called: loading takes long."""
    import torch.ao.quantization.fx._decomposed

    return torch.ops.quantized_decomposed
