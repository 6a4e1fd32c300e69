"""Fourier transforms: ONNX's DFT, one node per transformed axis."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from onnxport.aten.axes import axis_of
from onnxport.aten.complex import conjugate, whole
from onnxport.translate import Builder, Int, Tensor, translates
from onnxport.translate.dims import product

_BY_NOTHING, _BY_ROOT, _BY_COUNT = 0, 1, 2
"""How torch numbers normalisations: none, by the root of the number of elements, by the number."""


def _scaled(op: Builder, x: Tensor, count: Int, normalization: int, inverse: bool) -> Tensor:
    """Bring a transform to torch's scale; ONNX's inverse is divided by the number of elements already."""
    wanted = {_BY_NOTHING: 0.0, _BY_ROOT: -0.5, _BY_COUNT: -1.0}[normalization]
    power = wanted + 1 if inverse else wanted
    if power == 0:
        return x
    pairs = op.pairs(x) if x.is_complex else x
    if isinstance(count, int):
        scale = op.const(float(count) ** power, pairs.dtype)
    else:
        size = op.scalar(count, pairs.dtype)
        scale = {-1.0: op.Reciprocal, 1.0: op.Identity, 0.5: op.Sqrt}.get(power, lambda n: op.Reciprocal(op.Sqrt(n)))(
            size
        )
    result = pairs * scale
    return whole(op, result, x.dtype, x.known_shape) if x.is_complex else result.with_shape(x.shape)


def _along(op: Builder, x: Tensor, axis: int, inverse: bool = False, onesided: bool = False) -> Tensor:
    """The transform along one axis; ``x`` may be real."""
    signal = op.pairs(x) if x.is_complex else op.unsqueeze(x, [x.rank])
    (pairs,) = op.multi(
        "DFT", signal, None, op.const(axis, torch.int64), outputs=1, inverse=inverse or None, onesided=onesided or None
    )
    shape = [size // 2 + 1 if onesided and p == axis else size for p, size in enumerate(x.shape)]
    return whole(op, pairs, x.dtype if x.is_complex else x.dtype.to_complex(), shape)


@translates("aten::_fft_r2c", complex="only")
def fft_r2c(op: Builder, self: Tensor, dim: Sequence[int], normalization: int, onesided: bool) -> Tensor:
    axes = [axis_of(d, self.rank) for d in dim]
    result = _along(op, self, axes[-1], onesided=onesided)
    for axis in axes[:-1]:
        result = _along(op, result, axis)
    return _scaled(op, result, product(self.shape[axis] for axis in axes), normalization, False)


@translates("aten::_fft_c2c", complex="only")
def fft_c2c(op: Builder, self: Tensor, dim: Sequence[int], normalization: int, forward: bool) -> Tensor:
    axes = [axis_of(d, self.rank) for d in dim]
    result = self
    for axis in axes:
        result = _along(op, result, axis, inverse=not forward)
    if not axes:
        return result
    return _scaled(op, result, product(self.shape[axis] for axis in axes), normalization, not forward)


@translates("aten::_fft_c2r", complex="only")
def fft_c2r(op: Builder, self: Tensor, dim: Sequence[int], normalization: int, last_dim_size: Int) -> Tensor:
    axes = [axis_of(d, self.rank) for d in dim]
    result = self
    for axis in axes[:-1]:
        result = _along(op, result, axis, inverse=True)
    signal = real_signal(op, result, axes[-1], last_dim_size)
    count = product([*(self.shape[axis] for axis in axes[:-1]), last_dim_size])
    return _scaled(op, signal, count, normalization, True)


def real_signal(op: Builder, spectrum: Tensor, axis: int, size: Int) -> Tensor:
    """The real signal of a given length with this half spectrum, whose other half is its mirrored conjugate."""
    half = size // 2 + 1
    other = size - half
    if spectrum.shape[axis] != half:
        spectrum = _resized(op, spectrum, axis, 0, half)
    parts = [spectrum]
    if other != 0:
        pairs = op.pairs(spectrum)
        mirrored = op.Slice(pairs, [other], [0], [axis], [-1])
        shape = [other if p == axis else n for p, n in enumerate(spectrum.shape)]
        parts.append(conjugate(op, whole(op, mirrored, spectrum.dtype, shape)))
    shape = [size if p == axis else n for p, n in enumerate(spectrum.shape)]
    joined = spectrum
    if len(parts) == 2:
        joined = whole(op, op.Concat(*(op.pairs(part) for part in parts), axis=axis), spectrum.dtype, shape)
    return _along(op, joined, axis, inverse=True).real


def _resized(op: Builder, x: Tensor, axis: int, start: Int, end: Int) -> Tensor:
    shape = [end - start if p == axis else n for p, n in enumerate(x.shape)]
    return whole(op, op.slice(op.pairs(x), axis, start, end), x.dtype, shape)


# Short-time transforms


def _window(op: Builder, window: Tensor | None, size: int, length: int, dtype: torch.dtype) -> Tensor:
    """The window, in the middle of a frame."""
    if window is None:
        window = op.const([1.0] * length, dtype)
    left = (size - length) // 2
    if size == length:
        return window
    return op.Pad(window, [left, size - length - left]).with_shape([size])


@translates("aten::stft", complex="only")
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
    return whole(op, result, part_dtype.to_complex(), result.shape[:-1]) if return_complex else result
