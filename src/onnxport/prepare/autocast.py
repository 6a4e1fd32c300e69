"""Make the casts of an autocast region explicit.

A region is captured as the calls the user wrote, with results in the dtypes that autocast gave them, but without the
casts. Which arguments are cast is asked of torch itself: the call is run on fake values under the same autocast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from onnxport.capture.patches.recurrent import RECURRENT_LAYERS
from onnxport.prepare.emit import Emitter, fake_mode_of, kinds, on_fake_values, value_of
from onnxport.prepare.trace import Attach, splice, trace_call
from onnxport.torch_internals import pytree
from onnxport.torch_internals.fake_tensors import TorchDispatchMode
from onnxport.torch_internals.operators import OpOverload, dispatch_has_kernel_for_dispatch_key

aten = torch.ops.aten
_autocast: Any = torch.autocast


@dataclass(frozen=True)
class Autocast:
    """The arguments of the innermost ``torch.autocast`` around a call."""

    device_type: str
    dtype: torch.dtype | None
    enabled: bool

    def context(self) -> torch.autocast:
        """The region, without the cache of cast weights, which would hide casts."""
        region: torch.autocast = _autocast(self.device_type, self.dtype, self.enabled, cache_enabled=False)
        return region


class _CastsOf(TorchDispatchMode):
    """Records casts of given tensors."""

    def __init__(self, tensors: list[torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.dtypes: dict[int, torch.dtype] = {}
        self._tensors = {id(tensor) for tensor in tensors}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        keywords = kwargs or {}
        if func is aten._to_copy.default and id(args[0]) in self._tensors and keywords.get("dtype") is not None:
            self.dtypes.setdefault(id(args[0]), keywords["dtype"])
        return func(*args, **keywords)


@dataclass(frozen=True)
class _Plan:
    """What autocast does to one kind of call: casts by position among the flat arguments, or casts inside of it."""

    casts: tuple[torch.dtype | None, ...]
    inside: bool


_PLANS: dict[object, _Plan] = {}


def apply_autocast(node: torch.fx.Node, autocast: Autocast, attach: Attach) -> None:
    """Give a call of an autocast region the casts that autocast makes for it."""
    target = node.target
    if not autocast.enabled or not isinstance(target, OpOverload) or target._schema.is_mutable:
        return
    key = (autocast, target, kinds((node.args, node.kwargs)), tuple(_dtypes(node.meta["val"])))
    if key not in _PLANS:
        _PLANS[key] = _plan(node, target, autocast)
    plan = _PLANS[key]
    leaves = pytree.tree_leaves((list(node.args), dict(node.kwargs)))
    emit = Emitter(node, node)
    for source, dtype in dict(zip(leaves, plan.casts, strict=True)).items() if any(plan.casts) else ():
        if dtype is not None:
            node.replace_input_with(source, emit.call(aten.to.dtype, source, dtype))
    if plan.inside:

        def run(*args: object, **kwargs: object) -> object:
            with autocast.context():
                return target(*args, **kwargs)

        splice(node, trace_call(node, run), attach)


def _plan(node: torch.fx.Node, target: OpOverload, autocast: Autocast) -> _Plan:
    values, keywords = value_of((list(node.args), dict(node.kwargs)))
    leaves, structure = pytree.tree_flatten((values, keywords))
    casts: list[torch.dtype | None] = [None] * len(leaves)
    if target in RECURRENT_LAYERS:
        # They were captured by their shapes alone: fake values can't be run through them.
        return _Plan(tuple(casts), inside=False)
    known = dispatch_has_kernel_for_dispatch_key(target.name(), f"Autocast{autocast.device_type.upper()}")
    with on_fake_values(fake_mode_of(leaves)):
        if known:
            watch = _CastsOf([leaf for leaf in leaves if isinstance(leaf, torch.Tensor)])
            with autocast.context(), watch:
                target(*values, **keywords)
            casts = [watch.dtypes.get(id(leaf)) for leaf in leaves]
        elif not target._can_decompose():
            return _Plan(tuple(casts), inside=False)
        cast = [leaf if dtype is None else leaf.to(dtype) for leaf, dtype in zip(leaves, casts, strict=True)]
        args, kwargs = pytree.tree_unflatten(cast, structure)
        outside = target(*args, **kwargs)
    # Other dtypes than in the region: the call sets an option, or is made of calls that are cast one by one.
    return _Plan(tuple(casts), inside=_dtypes(outside) != _dtypes(node.meta["val"]))


def _dtypes(values: object) -> list[torch.dtype]:
    return [leaf.dtype for leaf in pytree.tree_leaves(values) if isinstance(leaf, torch.Tensor)]
