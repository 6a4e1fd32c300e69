"""Numbers that vary where a binding of torch wants a plain float, which would be the example's.

``F.pad(x, (1, 1), value=x.shape[0] - 1)`` and attention with a scale by the length: each such function is written here
with operators that take numbers of any kind, and stands in its place for such calls alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from onnxport.torch_internals.operators import nn_bindings

_VARYING = (torch.SymInt, torch.SymFloat)
_Number = int | float
_Written = Callable[..., torch.Tensor]


def written_for_numbers_that_vary(
    function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
) -> _Written | None:
    """What gives the results of a function for these arguments; None where torch's own does."""
    written = _WRITTEN.get(function)
    if written is None or not any(isinstance(one, _VARYING) for one in (*args, *kwargs.values())):
        return None
    return written


def _pad(input: torch.Tensor, pad: Sequence[int], mode: str = "constant", value: _Number | None = None) -> torch.Tensor:
    if mode != "constant" or value is None:
        return F.pad(input, pad, mode, value)
    return torch.constant_pad_nd(input, pad, value)


def _nan_to_num(
    input: torch.Tensor,
    nan: _Number | None = None,
    posinf: _Number | None = None,
    neginf: _Number | None = None,
) -> torch.Tensor:
    if not input.dtype.is_floating_point:
        return input.clone()
    bounds = torch.finfo(input.dtype)
    found = torch.where(input.isnan(), 0.0 if nan is None else nan, input)
    found = torch.where(input == torch.inf, bounds.max if posinf is None else posinf, found)
    return torch.where(input == -torch.inf, bounds.min if neginf is None else neginf, found)


def _quantile_by(original: _Written) -> _Written:
    def quantile(input: torch.Tensor, q: _Number, *args: Any, **kwargs: Any) -> torch.Tensor:
        return original(input, torch.full((), q, dtype=input.dtype, device=input.device), *args, **kwargs)

    return quantile


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: _Number | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    if scale is not None:
        # The operator goes on to divide by this root.
        query = query * (scale * query.shape[-1] ** 0.5)
    return F.scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p=dropout_p, is_causal=is_causal, enable_gqa=enable_gqa
    )


_WRITTEN: dict[object, _Written] = {
    F.pad: _pad,
    nn_bindings.pad: _pad,
    torch.nan_to_num: _nan_to_num,
    torch.Tensor.nan_to_num: _nan_to_num,
    **{
        function: _quantile_by(function)
        for function in (torch.quantile, torch.nanquantile, torch.Tensor.quantile, torch.Tensor.nanquantile)
    },
    F.scaled_dot_product_attention: _attention,
}
