"""Interpolation to another size: nearest, linear, cubic, with or without antialiasing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from onnxport.aten.nn.fold import steps
from onnxport.aten.nn.resize_bytes import taps_at_run_time, taps_of, weighted_bytes
from onnxport.aten.nn.resize_weights import Line, antialiased, interpolated_line
from onnxport.errors import TranslationError
from onnxport.translate import Builder, Int, Tensor, translates
from onnxport.translate.dims import is_static

_CHECKED_LENGTH = 4096
"""Up to this length the float32 arithmetic of scale factors is compared before run-time sizes rely on it."""


@dataclass(frozen=True)
class Resizing:
    """What the spatial axes of ``x`` become: sizes, and the factors they came from where the user gave those."""

    x: Tensor
    sizes: list[Int] | None
    factors: list[float | None]

    @property
    def axes(self) -> list[int]:
        """The spatial axes."""
        return list(range(2, self.x.rank))

    @property
    def is_of_one_element(self) -> bool:
        """Whether there is one element to take for all new ones, as where a whole image was averaged before."""
        before = self.x.shape[2:]
        return is_static(before) and all(size == 1 for size in before)

    @property
    def static_sizes(self) -> list[int] | None:
        """The sizes after resizing where they are known now, together with those before."""
        before = self.x.shape[2:]
        if not is_static(before):
            return None
        if self.sizes is not None:
            return list(self.sizes) if is_static(self.sizes) else None
        return [math.floor(size * _given(factor)) for size, factor in zip(before, self.factors, strict=True)]


def _given(factor: float | None) -> float:
    if factor is None:
        raise TranslationError("Interpolation needs an output size or scale factors.")
    return factor


def _resizing(x: Tensor, output_size: Sequence[Int] | None, factors: Sequence[float | None] | None) -> Resizing:
    sizes = None if output_size is None else list(output_size)
    return Resizing(x, sizes, [None] * (x.rank - 2) if factors is None else list(factors))


def _factors_decide(resizing: Resizing) -> bool:
    """Whether ONNX, given the scale factors, would come to the same sizes as torch, which multiplies in float64.

    An axis that a factor leaves as long as it was (short ones, with 1 < factor < 1.5) is copied by torch in some modes
    and not in others, whatever becomes of the other axes; runtimes copy where all axes stay.
    """
    if any(factor is None for factor in resizing.factors):
        return False
    factors = [_given(factor) for factor in resizing.factors]
    before, after = resizing.x.shape[2:], resizing.static_sizes
    if after is not None and is_static(before):
        found = [int(np.floor(np.float32(size) * np.float32(f))) for size, f in zip(before, factors, strict=True)]
        kept = any(new == old and f != 1 for new, old, f in zip(after, before, factors, strict=True))
        return found == after and not kept
    if resizing.sizes is not None or any(1 < f < 1.5 for f in factors):
        return False
    lengths = np.arange(1, _CHECKED_LENGTH)
    single = lengths.astype(np.float32)
    return all(np.array_equal(np.floor(single * np.float32(f)), np.floor(lengths * f)) for f in factors)


def _new_sizes(op: Builder, resizing: Resizing) -> Tensor | list[Int]:
    """The sizes as an input of Resize."""
    static = resizing.static_sizes
    if static is not None:
        return list(static)
    if resizing.sizes is not None:
        return resizing.sizes
    parts = [
        op.reshape(_scaled_size(op, size, _given(factor)), [1])
        for size, factor in zip(resizing.x.shape[2:], resizing.factors, strict=True)
    ]
    return op.Concat(*parts, axis=0)


def _scaled_size(op: Builder, size: Int, factor: float) -> Tensor:
    """⌊size · factor⌋ as a 0-d tensor."""
    if factor == int(factor):
        return op.scalar(size * int(factor), torch.int64)
    return op.cast(op.Floor(op.scalar(size, torch.float64) * factor), torch.int64).with_shape([])


def _resize(op: Builder, resizing: Resizing, **attributes: object) -> Tensor:
    if _factors_decide(resizing):
        scales = op.const([1.0, 1.0, *(_given(factor) for factor in resizing.factors)], torch.float32)
        return op.Resize(resizing.x, None, scales, None, **attributes)
    kept, sizes = resizing.x.shape[:2], _new_sizes(op, resizing)
    if isinstance(sizes, list):
        # `axes` came with opset 18, and few readers know them; onnxruntime's symbolic shape inference doesn't.
        return op.Resize(resizing.x, None, None, [*kept, *sizes], **attributes)
    return op.Resize(resizing.x, None, None, sizes, axes=resizing.axes, **attributes)


def _spread(op: Builder, resizing: Resizing) -> Tensor:
    """One element everywhere, as the nearest to each: OpenCV 5.0 weighs a neighbour with zero divided by zero.

    It would be an Expand, too, but tract 0.23 fails to simplify convolutions behind a Concat of one.
    """
    return _resize(op, resizing, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")


# Nearest


def _nearest(op: Builder, resizing: Resizing, exact: bool) -> Tensor:
    """One Resize where its float32 arithmetic finds the same neighbours as torch's; else Gathers by torch's."""
    if resizing.x.is_float and resizing.is_of_one_element:
        return _spread(op, resizing)
    if resizing.x.is_float and _same_neighbours(resizing, exact):
        mode = ("half_pixel", "round_prefer_ceil") if exact else ("asymmetric", "floor")
        return _resize(op, resizing, mode="nearest", coordinate_transformation_mode=mode[0], nearest_mode=mode[1])
    result, static = resizing.x, resizing.static_sizes
    before: Sequence[Int] = resizing.x.shape[2:]
    for position, factor in enumerate(resizing.factors):
        size = before[position]
        if static is not None and isinstance(size, int):
            places = torch_neighbours(size, static[position], factor, exact, resizing.x.dtype, len(before))
            if places == list(range(size)):
                continue
            index = op.const(places, torch.int64)
        else:
            wanted = None if resizing.sizes is None else resizing.sizes[position]
            if wanted is not None and wanted == size and factor is None:
                continue
            index = _neighbours(op, resizing, position, exact)
        result = op.Gather(result, index, axis=2 + position)
    return result


def torch_neighbours(
    size: int, wanted: int, factor: float | None, exact: bool, dtype: torch.dtype, spatial: int = 1
) -> list[int]:
    """Which element torch takes for each new one, found by asking it.

    >>> import torch
    >>> from onnxport.aten.nn.resize import torch_neighbours
    >>> torch_neighbours(3, 5, None, False, torch.float32)
    [0, 0, 1, 1, 2]
    """
    name = f"_upsample_nearest_exact{spatial}d" if exact else f"upsample_nearest{spatial}d"
    # It computes where to look in float64 for such tensors, and in float32 for all others.
    computed = torch.float64 if dtype == torch.float64 else torch.float32
    ones = [1] * (spatial - 1)
    positions = torch.arange(size, dtype=computed).reshape(1, 1, *ones, size)
    taken = getattr(torch.ops.aten, name).default(positions, [*ones, wanted], *(None for _ in ones), factor)
    return [int(place) for place in taken.flatten()]


def _onnx_neighbours(size: int, wanted: int, factor: float | None, exact: bool) -> list[int]:
    """Which element Resize takes: the new position divided by the scale, all in float32."""
    if size == wanted:
        return list(range(size))
    scale = np.float32(wanted) / np.float32(size) if factor is None else np.float32(factor)
    new = np.arange(wanted, dtype=np.float32)
    half = np.float32(0.5)
    found = np.floor((new + half) / scale - half + half) if exact else np.floor(new / scale)
    return [int(place) for place in np.clip(found, 0, size - 1)]


def _same_neighbours(resizing: Resizing, exact: bool) -> bool:
    by_factor = _factors_decide(resizing)
    static = resizing.static_sizes
    for position, size in enumerate(resizing.x.shape[2:]):
        factor = resizing.factors[position]
        if static is not None and isinstance(size, int):
            pairs = [(size, static[position])]
        elif by_factor:
            pairs = [(length, math.floor(length * _given(factor))) for length in (_CHECKED_LENGTH // 4, 1023)]
        else:
            return False
        for before, after in pairs:
            found = _onnx_neighbours(before, after, factor if by_factor else None, exact)
            if after == 0 or found != torch_neighbours(
                before, after, factor, exact, resizing.x.dtype, resizing.x.rank - 2
            ):
                return False
    return True


def _neighbours(op: Builder, resizing: Resizing, position: int, exact: bool) -> Tensor:
    """torch's own arithmetic at run time."""
    size, factor = resizing.x.shape[2 + position], resizing.factors[position]
    computed = torch.float64 if resizing.x.dtype == torch.float64 else torch.float32
    if resizing.sizes is not None:
        wanted = op.scalar(resizing.sizes[position], torch.int64)
        new = steps(op, resizing.sizes[position])
    else:
        zero, one = op.scalar(0, torch.int64), op.scalar(1, torch.int64)
        wanted = _scaled_size(op, size, _given(factor))
        new = op.Range(zero, wanted, one)
    if factor is None:
        assert resizing.sizes is not None
        scale = op.Div(op.scalar(size, computed), op.scalar(resizing.sizes[position], computed))
    else:
        scale = op.const(1.0 / factor, computed)
        if resizing.x.rank == 4 and not exact and 1 < factor < 1.5:
            # Of all nearest ones only this copies an axis that stays as long as it was.
            kept = op.Equal(wanted, op.scalar(size, torch.int64))
            scale = op.Where(kept, op.const(1.0, computed), scale)
    place = op.cast(new, computed)
    found = op.cast(op.Mul(place + 0.5 if exact else place, scale), torch.int64)
    return op.Min(found, op.scalar(size - 1, torch.int64))


def _register_nearest(spatial: int, exact: bool) -> None:
    name = f"aten::_upsample_nearest_exact{spatial}d" if exact else f"aten::upsample_nearest{spatial}d"

    def by_scale_or_size(
        op: Builder, input: Tensor, output_size: Sequence[Int] | None, scale_factors: Sequence[float] | None
    ) -> Tensor:
        return _nearest(op, _resizing(input, output_size, scale_factors), exact)

    def by_both(
        op: Builder,
        self: Tensor,
        output_size: Sequence[Int],
        scales: float | None = None,
        scales_d: float | None = None,
        scales_h: float | None = None,
        scales_w: float | None = None,
    ) -> Tensor:
        factors = [scales] if spatial == 1 else [scales_d, scales_h, scales_w][3 - spatial :]
        return _nearest(op, _resizing(self, output_size, factors), exact)

    translates(f"{name}.vec")(by_scale_or_size)
    translates(name)(by_both)


# Linear and cubic


@dataclass(frozen=True)
class Kernel:
    """How neighbours are weighted."""

    mode: str
    antialias: bool = False


_LINEAR, _CUBIC = Kernel("linear"), Kernel("cubic")
_LINEAR_AA, _CUBIC_AA, _LANCZOS_AA = Kernel("linear", True), Kernel("cubic", True), Kernel("lanczos", True)
_TWO_DIMENSIONAL = {
    _CUBIC: "upsample_bicubic2d",
    _LINEAR_AA: "_upsample_bilinear2d_aa",
    _CUBIC_AA: "_upsample_bicubic2d_aa",
    _LANCZOS_AA: "_upsample_lanczos2d_aa",
}


def _weighted(op: Builder, resizing: Resizing, kernel: Kernel, align_corners: bool) -> Tensor:
    x = resizing.x
    if x.is_float and resizing.is_of_one_element:
        return _spread(op, resizing)
    if x.dtype == torch.uint8:
        if x.rank == 4:
            return _bytes(op, resizing, kernel, align_corners)
        floats = Resizing(op.cast(x, torch.float32), resizing.sizes, resizing.factors)
        return op.Clip(op.Round(_weighted(op, floats, kernel, align_corners)), op.const(0.0, torch.float32),
                       op.const(255.0, torch.float32))  # fmt: skip
    # Positions come from the factors, where there are any, and the number of them from the sizes or from factors in
    # float64. Resize takes one of both: sizes alone would move the positions.
    at_odds = not align_corners and any(factor is not None for factor in resizing.factors)
    at_odds = at_odds and not _factors_decide(resizing)
    if kernel.mode == "lanczos" or (kernel.antialias and align_corners) or at_odds:
        return _by_weights(op, resizing, kernel, align_corners)
    return _resize(
        op,
        resizing,
        mode=kernel.mode,
        coordinate_transformation_mode="align_corners" if align_corners else "half_pixel",
        antialias=1 if kernel.antialias else None,
        # torch's antialiased cubic is the one of PIL, and leaves out what is beyond the edge.
        exclude_outside=1 if kernel.antialias else None,
        cubic_coeff_a=None if kernel.mode != "cubic" else -0.5 if kernel.antialias else -0.75,
    )


def _bytes(op: Builder, resizing: Resizing, kernel: Kernel, align_corners: bool) -> Tensor:
    """Images of bytes, the last axis first; an axis that stays as long as it was is left alone, whatever the factor."""
    result, shape, [after] = resizing.x, list(resizing.x.shape), op.result_shapes()
    for position, axis in reversed(list(enumerate(resizing.axes))):
        size, factor = shape[axis], resizing.factors[position]
        wanted = after[axis] if resizing.static_sizes is None else resizing.static_sizes[position]
        if size == wanted:
            continue
        if isinstance(size, int) and isinstance(wanted, int):
            taps = taps_of(op, torch_weights(kernel, size, wanted, align_corners, factor))
        else:
            count = _count_of(op, resizing, position)
            line = Line(axis, size, count, factor, align_corners, torch.float64, copies=True)
            taps = taps_at_run_time(op, line, kernel.mode, kernel.antialias)
        shape[axis] = wanted
        result = weighted_bytes(op, result, axis, taps).with_shape(shape)
    return result


def _count_of(op: Builder, resizing: Resizing, position: int) -> Int | Tensor:
    """How many elements an axis comes to."""
    if resizing.sizes is not None:
        return resizing.sizes[position]
    axis = resizing.axes[position]
    return _scaled_size(op, resizing.x.shape[axis], _given(resizing.factors[position]))


def _by_weights(op: Builder, resizing: Resizing, kernel: Kernel, align_corners: bool) -> Tensor:
    """Axis by axis by a matrix of weights, for what Resize can't do."""
    static, result = resizing.static_sizes, resizing.x
    before = resizing.x.shape[2:]
    if static is None or not is_static(before):
        return _by_weights_at_run_time(op, resizing, kernel, align_corners)
    last = result.rank - 1
    for axis, size, wanted, factor in zip(resizing.axes, before, static, resizing.factors, strict=True):
        weights = torch_weights(kernel, size, wanted, align_corners, factor).numpy()
        if axis == last:
            result = op.MatMul(result, op.const(np.ascontiguousarray(weights.T), result.dtype))
        elif axis == last - 1:
            result = op.MatMul(op.const(np.ascontiguousarray(weights), result.dtype), result)
        else:
            order = [*(other for other in range(last + 1) if other != axis), axis]
            moved = op.MatMul(op.Transpose(result, perm=order), op.const(np.ascontiguousarray(weights.T), result.dtype))
            result = op.Transpose(moved, perm=[order.index(other) for other in range(last + 1)])
    return result


def _by_weights_at_run_time(op: Builder, resizing: Resizing, kernel: Kernel, align_corners: bool) -> Tensor:
    result, shape, [after] = resizing.x, list(resizing.x.shape), op.result_shapes()
    computed = torch.float64 if result.dtype == torch.float64 else torch.float32
    for position, (axis, factor) in enumerate(zip(resizing.axes, resizing.factors, strict=True)):
        wanted = _count_of(op, resizing, position)
        line = Line(axis, resizing.x.shape[axis], wanted, factor, align_corners, computed, kernel != _CUBIC)
        shape[axis] = after[axis]
        result = (antialiased if kernel.antialias else interpolated_line)(op, result, line, kernel.mode).with_shape(
            shape
        )
    return result


def torch_weights(kernel: Kernel, size: int, wanted: int, align_corners: bool, factor: float | None) -> torch.Tensor:
    """How much each element counts for each new one, [wanted, size]: what torch makes of the unit vectors."""
    units = torch.eye(size, dtype=torch.float64)
    if kernel == _LINEAR:
        rows: torch.Tensor = torch.ops.aten.upsample_linear1d.default(units[None], [wanted], align_corners, factor)
        return rows[0].T
    function = getattr(torch.ops.aten, _TWO_DIMENSIONAL[kernel]).default
    image: torch.Tensor = function(units[None, None], [wanted, size], align_corners, factor, None)
    return image[0, 0]


def _register_weighted(name: str, spatial: int, kernel: Kernel) -> None:
    def by_scale_or_size(
        op: Builder,
        input: Tensor,
        output_size: Sequence[Int] | None,
        align_corners: bool,
        scale_factors: Sequence[float] | None,
    ) -> Tensor:
        return _weighted(op, _resizing(input, output_size, scale_factors), kernel, align_corners)

    def by_both(
        op: Builder,
        self: Tensor,
        output_size: Sequence[Int],
        align_corners: bool,
        scales: float | None = None,
        scales_d: float | None = None,
        scales_h: float | None = None,
        scales_w: float | None = None,
    ) -> Tensor:
        factors = [scales] if spatial == 1 else [scales_d, scales_h, scales_w][3 - spatial :]
        return _weighted(op, _resizing(self, output_size, factors), kernel, align_corners)

    translates(f"aten::{name}.vec")(by_scale_or_size)
    translates(f"aten::{name}")(by_both)


for _spatial in (1, 2, 3):
    _register_nearest(_spatial, exact=False)
    _register_nearest(_spatial, exact=True)
_register_weighted("upsample_linear1d", 1, _LINEAR)
_register_weighted("upsample_bilinear2d", 2, _LINEAR)
_register_weighted("upsample_trilinear3d", 3, _LINEAR)
_register_weighted("upsample_bicubic2d", 2, _CUBIC)
_register_weighted("_upsample_bilinear2d_aa", 2, _LINEAR_AA)
_register_weighted("_upsample_bicubic2d_aa", 2, _CUBIC_AA)
_register_weighted("_upsample_lanczos2d_aa", 2, _LANCZOS_AA)


# Sampling at given points


@translates("aten::grid_sampler", "aten::grid_sampler_2d", "aten::grid_sampler_3d")
def grid_sampler(
    op: Builder, input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    return op.GridSample(
        input,
        grid,
        mode=("linear", "nearest", "cubic")[interpolation_mode],
        padding_mode=("zeros", "border", "reflection")[padding_mode],
        align_corners=align_corners,
    )


@translates("aten::affine_grid_generator")
def affine_grid_generator(op: Builder, theta: Tensor, size: Sequence[Int], align_corners: bool) -> Tensor:
    return op.AffineGrid(theta, list(size), align_corners=align_corners)
