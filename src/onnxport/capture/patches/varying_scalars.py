"""Numbers that vary where a binding of torch wants plain ones, which would be the example's.

``F.pad(x, (1, 1), value=x.shape[0] - 1)``, attention with a scale by the length, windows of a quarter of an image: each
such function is written here with operators that take numbers of any kind, and stands in its place for such calls
alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch.fx.experimental.symbolic_shapes import statically_known_true

from onnxport.capture.patches.sliding_pools import windows_along
from onnxport.torch_internals.operators import nn_bindings
from onnxport.torch_internals.symbolic_sizes import optimization_hint

_VARYING = (torch.SymInt, torch.SymFloat)
_Number = int | float
_Sizes = int | Sequence[int]
_Written = Callable[..., torch.Tensor]


def written_for_numbers_that_vary(
    function: Callable[..., object], args: Sequence[object], kwargs: Mapping[str, object]
) -> _Written | None:
    """What gives the results of a function for these arguments; None where torch's own does."""
    written = _WRITTEN.get(function)
    return written if written is not None and any(map(_varies, (*args, *kwargs.values()))) else None


def _varies(given: object) -> bool:
    return isinstance(given, _VARYING) or (isinstance(given, tuple | list) and any(map(_varies, given)))


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


def _windows_by(original: _Written) -> _Written:
    def unfold(input: torch.Tensor, dimension: int, size: int, step: int) -> torch.Tensor:
        axis = dimension % input.dim()
        if statically_known_true(size == step):
            count = input.shape[axis] // size
            windows = input.narrow(axis, 0, count * size).unflatten(axis, (count, size))
        elif optimization_hint(step, 1) > optimization_hint(size, 1):
            # Other elements than those between windows may be written to, which a copy would not show.
            return original(input, dimension, size, step)
        else:
            windows = windows_along(input, axis, size, step)
        moved: torch.Tensor = windows.movedim(axis + 1, -1)
        return moved

    return unfold


def _columns(
    input: torch.Tensor, kernel_size: _Sizes, dilation: _Sizes = 1, padding: _Sizes = 0, stride: _Sizes = 1
) -> torch.Tensor:
    given = (kernel_size, dilation, padding, stride)
    sides = zip(*(one if isinstance(one, Sequence) else (one, one) for one in given), strict=True)
    image = input if input.dim() == 4 else input.unsqueeze(0)
    # The second axis is where it was when the first has become two.
    for axis, (size, apart, beside, step) in zip((2, 4), sides, strict=True):
        image = F.pad(image, [*[0, 0] * (image.dim() - axis - 1), beside, beside])
        image = windows_along(image, axis, size, step, apart)
    batch, channels, rows, high, columns, wide = image.shape
    found = image.permute(0, 1, 3, 5, 2, 4).reshape(batch, channels * high * wide, rows * columns)
    return found if input.dim() == 4 else found.squeeze(0)


_WRITTEN: dict[object, _Written] = {
    torch.Tensor.unfold: _windows_by(torch.Tensor.unfold),
    F.unfold: _columns,
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
