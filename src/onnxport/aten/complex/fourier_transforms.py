"""Fourier transforms: ONNX's DFT, one node per transformed axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from onnxport.aten.axes import axis_of
from onnxport.aten.complex.pairs import conjugate, from_pairs
from onnxport.translate import Builder, Int, Tensor, translates
from onnxport.translate.dims import product
from onnxport.translate.promotion import promoted_to_float

_POWERS = (0.0, -0.5, -1.0)
"""The powers of the number of elements that scale a transform: torch numbers them so, and names them below."""
_FORWARD = {"backward": 0.0, "ortho": -0.5, "forward": -1.0}
_INVERSE = {"backward": -1.0, "ortho": -0.5, "forward": 0.0}


def _scaled(op: Builder, x: Tensor, count: Int, power: float) -> Tensor:
    """The tensor times a power of the number of elements."""
    if power == 0:
        return x
    pairs = op.pairs(x) if x.is_complex else x
    if isinstance(count, int):
        scale = op.const(float(count) ** power, pairs.dtype)
    else:
        scale = op.scalar(count, pairs.dtype)
        scale = op.Sqrt(scale) if abs(power) == 0.5 else scale
        scale = op.Reciprocal(scale) if power < 0 else scale
    result = pairs * scale
    return from_pairs(op, result, x.dtype, x.known_shape) if x.is_complex else result.with_shape(x.shape)


def _along(
    op: Builder, x: Tensor, axis: int, size: Int | None = None, inverse: bool = False, onesided: bool = False
) -> Tensor:
    """The transform along one axis, cut or filled with zeros to a size; ``x`` may be real.

    ONNX divides inverse transforms by the number of elements.
    """
    count = x.shape[axis] if size is None else size
    length = None if count == x.shape[axis] else op.scalar(count, torch.int64)
    signal = op.pairs(x) if x.is_complex else op.unsqueeze(x, [x.rank])
    place = op.const(axis, torch.int64)
    (pairs,) = op.multi("DFT", signal, length, place, outputs=1, inverse=inverse or None, onesided=onesided or None)
    shape = [(count // 2 + 1 if onesided else count) if p == axis else n for p, n in enumerate(x.shape)]
    return from_pairs(op, pairs, x.dtype if x.is_complex else x.dtype.to_complex(), shape)


def _transformed(
    op: Builder, x: Tensor, axes: Sequence[int], sizes: Sequence[Int | None], power: float, inverse: bool
) -> Tensor:
    """The transform along several axes, scaled by a power of the number of elements."""
    count = _count(x, axes, sizes)
    for axis, size in zip(axes, sizes, strict=True):
        x = _along(op, x, axis, size, inverse)
    return _scaled(op, x, count, power + 1 if inverse else power) if axes else x


def _half(
    op: Builder, x: Tensor, axes: Sequence[int], sizes: Sequence[Int | None], power: float, onesided: bool = True
) -> Tensor:
    """The transform of a real signal, of which the last axis needs one half only."""
    count = _count(x, axes, sizes)
    result = _along(op, x, axes[-1], sizes[-1], onesided=onesided)
    for axis, size in zip(axes[:-1], sizes[:-1], strict=True):
        result = _along(op, result, axis, size)
    return _scaled(op, result, count, power)


def _real(op: Builder, x: Tensor, axes: Sequence[int], sizes: Sequence[Int | None], last: Int, power: float) -> Tensor:
    """The real signal whose transform is given by one half along the last axis."""
    count = _count(x, axes[:-1], sizes[:-1]) * last
    for axis, size in zip(axes[:-1], sizes[:-1], strict=True):
        x = _along(op, x, axis, size, inverse=True)
    return _scaled(op, real_signal(op, x, axes[-1], last), count, power + 1)


def _count(x: Tensor, axes: Sequence[int], sizes: Sequence[Int | None]) -> Int:
    return product(x.shape[axis] if size is None else size for axis, size in zip(axes, sizes, strict=True))


def real_signal(op: Builder, spectrum: Tensor, axis: int, size: Int) -> Tensor:
    """The real signal of a given length with this half spectrum, whose other half is its mirrored conjugate."""
    spectrum = op.cast(spectrum, spectrum.dtype.to_complex())
    half = size // 2 + 1
    pairs, rest = op.pairs(spectrum), list(spectrum.shape)
    if rest[axis] != half:
        # Cut what is too long, fill what is too short.
        missing = half - rest[axis]
        if isinstance(missing, int):
            pads = [0] * axis + [0] + [0] * (len(rest) - axis) + [0] * axis + [missing] + [0] * (len(rest) - axis)
            pairs = op.Pad(pairs, pads)
        else:
            pairs = op.Pad(pairs, [0, missing], None, [axis])
    other = size - half
    if other != 0:
        mirrored = op.Slice(pairs, [other], [0], [axis], [-1]) * op.const([1, -1], pairs.dtype)
        pairs = op.Concat(pairs, mirrored, axis=axis)
    rest[axis] = size
    return _along(op, from_pairs(op, pairs, spectrum.dtype, rest), axis, inverse=True).real


# What torch's transforms are made of


@translates("aten::_fft_r2c", complex="only")
def fft_r2c(op: Builder, self: Tensor, dim: Sequence[int], normalization: int, onesided: bool) -> Tensor:
    axes = [axis_of(d, self.rank) for d in dim]
    return _half(op, self, axes, [None] * len(axes), _POWERS[normalization], onesided)


@translates("aten::_fft_c2c", complex="only")
def fft_c2c(op: Builder, self: Tensor, dim: Sequence[int], normalization: int, forward: bool) -> Tensor:
    axes = [axis_of(d, self.rank) for d in dim]
    return _transformed(op, self, axes, [None] * len(axes), _POWERS[normalization], not forward)


@translates("aten::_fft_c2r", complex="only")
def fft_c2r(op: Builder, self: Tensor, dim: Sequence[int], normalization: int, last_dim_size: Int) -> Tensor:
    axes = [axis_of(d, self.rank) for d in dim]
    return _real(op, self, axes, [None] * len(axes), last_dim_size, _POWERS[normalization])


# Transforms as users write them


def _float(op: Builder, x: Tensor) -> Tensor:
    return op.cast(x, promoted_to_float(x.dtype))


Plan = tuple[Tensor, list[int], list[Int | None]]


def _one(op: Builder, x: Tensor, n: Int | None, dim: int) -> Plan:
    return _float(op, x), [axis_of(dim, x.rank)], [n]


def _several(op: Builder, x: Tensor, s: Sequence[Int] | None, dim: Sequence[int] | None) -> Plan:
    if dim is None:
        dim = range(x.rank) if s is None else range(x.rank - len(s), x.rank)
    axes = [axis_of(d, x.rank) for d in dim]
    sizes: list[Int | None] = [None] * len(axes) if s is None else [None if size == -1 else size for size in s]
    return _float(op, x), axes, sizes


def _full_length(x: Tensor, axes: Sequence[int], sizes: Sequence[Int | None]) -> Int:
    """How long the signal of a half spectrum is: even, unless said otherwise."""
    size = sizes[-1]
    return (x.shape[axes[-1]] - 1) * 2 if size is None else size


def _fft(op: Builder, plan: Plan, norm: str | None) -> Tensor:
    return _transformed(op, *plan, _FORWARD[norm or "backward"], False)


def _ifft(op: Builder, plan: Plan, norm: str | None) -> Tensor:
    return _transformed(op, *plan, _INVERSE[norm or "backward"], True)


def _rfft(op: Builder, plan: Plan, norm: str | None) -> Tensor:
    return _half(op, *plan, _FORWARD[norm or "backward"])


def _irfft(op: Builder, plan: Plan, norm: str | None) -> Tensor:
    return _real(op, *plan, _full_length(*plan), _INVERSE[norm or "backward"])


def _hfft(op: Builder, plan: Plan, norm: str | None) -> Tensor:
    """As the inverse of a half spectrum, of the conjugate and with the scale of a forward transform."""
    x, axes, sizes = plan
    flipped = conjugate(op, x) if x.is_complex else x
    return _real(op, flipped, axes, sizes, _full_length(*plan), _FORWARD[norm or "backward"])


def _ihfft(op: Builder, plan: Plan, norm: str | None) -> Tensor:
    """As the half spectrum, conjugated and with the scale of an inverse transform."""
    return conjugate(op, _half(op, *plan, _INVERSE[norm or "backward"]))


_TRANSFORMS = {"fft": _fft, "ifft": _ifft, "rfft": _rfft, "irfft": _irfft, "hfft": _hfft, "ihfft": _ihfft}


def _register(name: str, transform: Callable[[Builder, Plan, str | None], Tensor]) -> None:
    @translates(f"aten::fft_{name}", complex="same")
    def one(op: Builder, self: Tensor, n: Int | None, dim: int, norm: str | None) -> Tensor:
        return transform(op, _one(op, self, n, dim), norm)

    @translates(f"aten::fft_{name}2", f"aten::fft_{name}n", complex="same")
    def several(
        op: Builder, self: Tensor, s: Sequence[Int] | None, dim: Sequence[int] | None, norm: str | None
    ) -> Tensor:
        return transform(op, _several(op, self, s, dim), norm)


for _name, _transform in _TRANSFORMS.items():
    _register(_name, _transform)


# Short-time transforms


def _window(op: Builder, window: Tensor | None, size: int, length: int, dtype: torch.dtype) -> Tensor:
    """The window, in the middle of a frame."""
    if window is None:
        window = op.const([1.0] * length, dtype)
    left = (size - length) // 2
    if size == length:
        return window
    return op.Pad(window, [left, size - length - left]).with_shape([size])


@translates("aten::stft", complex="same")
def stft(
    op: Builder,
    self: Tensor,
    n_fft: int,
    hop_length: int | None,
    win_length: int | None,
    window: Tensor | None,
    normalized: bool,
    onesided: bool | None,
    return_complex: bool | None,
    align_to_window: bool | None,
) -> Tensor:
    """Frames are cut, windowed and transformed by one STFT node."""
    hop = n_fft // 4 if hop_length is None else hop_length
    length = n_fft if win_length is None else win_length
    half = not self.is_complex if onesided is None else onesided
    batched = self.rank == 2
    signal = self if batched else op.unsqueeze(self, [0])
    part_dtype = self.dtype.to_real() if self.is_complex else self.dtype
    stored = op.pairs(signal) if self.is_complex else op.unsqueeze(signal, [2])
    shaped = _window(op, window, n_fft, length, part_dtype)
    frames = op.STFT(stored, op.const(hop, torch.int64), shaped, op.const(n_fft, torch.int64), onesided=half)
    bins = n_fft // 2 + 1 if half else n_fft
    count = (signal.shape[1] - n_fft) // hop + 1
    frames = op.transpose(frames.with_shape([signal.shape[0], count, bins, 2]), [0, 2, 1, 3])
    if normalized:
        frames = (frames * (1 / math.sqrt(n_fft))).with_shape(frames.shape)
    result = frames if batched else op.squeeze(frames, [0])
    return from_pairs(op, result, part_dtype.to_complex(), result.shape[:-1]) if return_complex else result
