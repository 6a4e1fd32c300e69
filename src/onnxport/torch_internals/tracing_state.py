"""What torch holds while something is captured: modes, dispatch keys, flags, and what it puts in place of functions.

torch puts all of it back by itself, unless an interrupt comes while it does so or while it begins to.
"""

from __future__ import annotations

import builtins
import functools
import importlib
import math
from collections.abc import Callable, Iterator, Sequence

import torch
import torch._C as bindings
from torch._C import _functorch as functorch
from torch._guards import _TLS as contexts
from torch._ops import mode_stack_state_for_pre_dispatch
from torch._subclasses.fake_tensor import fake_tensor_tls
from torch._subclasses.meta_utils import tls as metadata
from torch.fx.experimental.symbolic_shapes import TLS as guards
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack

__all__ = ["state_of_tracing"]

_ABSENT = object()
# By the path of the module or class: what a capture assigns to for a while.
_ASSIGNED = {
    "torch.compiler": ("_is_compiling_flag", "_is_exporting_flag", "_is_non_strict_tracing_flag"),
    "torch.export._trace": ("_EXPORT_FLAGS", "_EXPORT_MODULE_HIERARCHY"),
    "torch._export.utils": ("_DISABLE_ATEN_TO_ASSERTION_PASS",),
    "torch.fx._symbolic_trace": ("_is_fx_tracing_flag", "CURRENT_PATCHER"),
    "torch.fx._lazy_graph_module": ("_force_skip_lazy_graph_module_flag", "_use_lazy_graph_module_flag"),
    "torch.fx.experimental.proxy_tensor": ("_CURRENT_MAKE_FX_TRACER",),
    "torch.fx.experimental.recording": ("NEST",),
    "torch.fx.traceback": (
        "current_meta",
        "current_replay_node",
        "should_preserve_node_meta",
        "_should_preserve_node_meta",
    ),
    "torch.utils._python_dispatch": (
        "_is_in_torch_dispatch_mode",
        "_is_in_non_infra_torch_dispatch_mode",
        "_is_in_any_mode_without_ignore_compile_internals",
    ),
}


def state_of_tracing() -> list[Callable[[], None]]:
    """What puts the state of torch in this thread back to what it is now; each may be called more than once."""
    return [
        *_variables(),
        _attributes(torch.nn.Module, "__call__", "__getattr__"),
        _attributes(builtins, "max", "min"),
        _attributes(math, "pow"),
        *(_thread(one) for one in (contexts, fake_tensor_tls, metadata, guards)),
        _transforms(),
        _function_modes(),
        _dispatch_modes(),
        _modes_before_dispatch(),
        _keys(),
        *_flags(),
    ]


def _variables() -> Iterator[Callable[[], None]]:
    for path, names in _ASSIGNED.items():
        yield _attributes(importlib.import_module(path), *names)
    meta = torch.fx.traceback.current_meta
    yield _table(meta, dict(meta))


def _attributes(owner: object, *names: str) -> Callable[[], None]:
    before = {name: vars(owner)[name] for name in names if name in vars(owner)}

    def restore() -> None:
        for name, value in before.items():
            if vars(owner).get(name, _ABSENT) is not value:
                setattr(owner, name, value)

    return restore


def _table(table: dict[str, object], before: dict[str, object]) -> Callable[[], None]:
    def restore() -> None:
        for name in [name for name in table if name not in before]:
            del table[name]
        table.update(before)

    return restore


def _thread(variables: object) -> Callable[[], None]:
    """What a thread has of its own; lists there are stacks."""
    own = vars(variables)
    names = _table(own, dict(own))
    stacks = [(value, len(value)) for value in own.values() if isinstance(value, list)]

    def restore() -> None:
        names()
        for stack, length in stacks:
            del stack[length:]

    return restore


def _transforms() -> Callable[[], None]:
    depth = functorch.get_dynamic_layer_stack_depth()

    def restore() -> None:
        if functorch.get_dynamic_layer_stack_depth() > depth:
            functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)

    return restore


def _function_modes() -> Callable[[], None]:
    before = _function_stack()

    def restore() -> None:
        if _same(_function_stack(), before):
            return
        while bindings._len_torch_function_stack():
            bindings._pop_torch_function_stack()
        for mode in before:
            bindings._push_on_torch_function_stack(mode)

    return restore


def _function_stack() -> list[object]:
    return [bindings._get_function_stack_at(place) for place in range(bindings._len_torch_function_stack())]


def _dispatch_modes() -> Callable[[], None]:
    before = _get_current_dispatch_mode_stack()

    def restore() -> None:
        now = _get_current_dispatch_mode_stack()
        if _same(now, before):
            return
        for mode in reversed(now):
            # Fake, functional and proxy modes have a place each beside the stack.
            bindings._pop_torch_dispatch_stack(getattr(mode, "_mode_key", None))
        for mode in before:
            bindings._push_on_torch_dispatch_stack(mode)

    return restore


def _modes_before_dispatch() -> Callable[[], None]:
    state = mode_stack_state_for_pre_dispatch()
    before = state.get(0), state.get(1), state._schema_check_mode

    def restore() -> None:
        proxy, functional, checking = before
        state.set(0, proxy)
        state.set(1, functional)
        state._schema_check_mode = checking

    return restore


def _same(one: Sequence[object], other: Sequence[object]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


def _keys() -> Callable[[], None]:
    """Which kernels this thread asks for beside those of its tensors, and which it passes over."""
    sets = (
        (bindings._dispatch_tls_local_include_set, bindings._dispatch_tls_set_dispatch_key_included),
        (bindings._dispatch_tls_local_exclude_set, bindings._dispatch_tls_set_dispatch_key_excluded),
    )
    before = [read() for read, _ in sets]

    def restore() -> None:
        for (read, write), was in zip(sets, before, strict=True):
            now = read()
            if now.raw_repr() == was.raw_repr():
                continue
            for key in bindings.DispatchKey.__members__.values():
                if now.has(key) != was.has(key):
                    write(key, was.has(key))

    return restore


def _flags() -> Iterator[Callable[[], None]]:
    for read, write in (
        (torch.is_grad_enabled, bindings._set_grad_enabled),
        (bindings._only_lift_cpu_tensors, bindings._set_only_lift_cpu_tensors),
        (bindings._get_mkldnn_enabled, bindings._set_mkldnn_enabled),
        (bindings._get_nnpack_enabled, bindings._set_nnpack_enabled),
        (bindings._get_cudnn_enabled, bindings._set_cudnn_enabled),
    ):
        yield functools.partial(write, read())
