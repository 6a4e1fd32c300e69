"""Make the casts of an autocast region explicit.

A region is captured as the calls the user wrote, with results in the dtypes that autocast gave them, but without the
casts. Which arguments are cast is asked of torch itself: the call is run on fake values under the same autocast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from onnxport.prepare.emit import Emitter, fake_mode_of, on_fake_values, run_on_fakes, value_of
from onnxport.prepare.trace import Attach, splice, trace

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
        super().__init__()
        self.dtypes: dict[int, torch.dtype] = {}
        self._tensors = {id(tensor) for tensor in tensors}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        keywords = kwargs or {}
        if func is aten._to_copy.default and id(args[0]) in self._tensors and keywords.get("dtype") is not None:
            self.dtypes.setdefault(id(args[0]), keywords["dtype"])
        return func(*args, **keywords)


def apply_autocast(node: torch.fx.Node, autocast: Autocast, attach: Attach) -> None:
    """Give a call of an autocast region the casts that autocast makes for it."""
    target = node.target
    if not autocast.enabled or not isinstance(target, torch._ops.OpOverload) or target._schema.is_mutable:
        return
    if torch._C._dispatch_has_kernel_for_dispatch_key(target.name(), f"Autocast{autocast.device_type.upper()}"):
        _cast_arguments(node, autocast)
    elif not target._can_decompose():
        return
    if _dtypes(run_on_fakes(target, node.args, node.kwargs)) != _dtypes(node.meta["val"]):
        # The casts happen inside the call: it sets an option, or it is made of calls that are cast one by one.
        def inside(*args: Any, **kwargs: Any) -> Any:
            with autocast.context():
                return target(*args, **kwargs)

        splice(node, trace(node, inside), attach)


def _cast_arguments(node: torch.fx.Node, autocast: Autocast) -> None:
    sources = [source for source in node.all_input_nodes if isinstance(source.meta["val"], torch.Tensor)]
    values, keywords = value_of((node.args, node.kwargs))
    casts = _CastsOf([source.meta["val"] for source in sources])
    with on_fake_values(fake_mode_of((values, keywords))), autocast.context(), casts:
        node.target(*values, **keywords)  # type: ignore[operator]
    emit = Emitter(node, node)
    for source in sources:
        dtype = casts.dtypes.get(id(source.meta["val"]))
        if dtype is not None:
            node.replace_input_with(source, emit.call(aten.to.dtype, source, dtype))


def _dtypes(values: Any) -> list[torch.dtype]:
    return [leaf.dtype for leaf in pytree.tree_leaves(values) if isinstance(leaf, torch.Tensor)]
