"""Fourier transforms of a stated length, along axes whose size varies.

torch pads or cuts a signal to the length by asking which of the two is longer, which fixes a size that happens to
fit. Padding by the whole length and cutting then needs no answer. The graph shows the transform itself.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

import torch

from onnxport.capture.patches.replacing import Kernel, attributes_replaced, kernels_replaced
from onnxport.torch_internals.operators import DispatchKey

_aten = torch.ops.aten

#: How results are scaled: not at all, by the root of the number of elements, by that number.
_FORWARD = {"backward": 0, "ortho": 1, "forward": 2}
_INVERSE = {"backward": 2, "ortho": 1, "forward": 0}

Sizes = Sequence[int | None]
Transform = Callable[[torch.Tensor, list[int], list[int | None], str], torch.Tensor]


@contextlib.contextmanager
def transforms_of_any_size() -> Iterator[None]:
    """While this is open, transforms of one axis, of two and of several take signals whose size varies."""
    with _transforms_replaced(), attributes_replaced([(torch, "istft", _of_any_length(torch.istft))]):
        yield


def _of_any_length(original: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """``torch.istft``, whose length is a plain number: the whole signal, cut or padded to one that varies."""

    def istft(
        input: torch.Tensor,
        n_fft: int,
        hop_length: int | None = None,
        win_length: int | None = None,
        window: torch.Tensor | None = None,
        center: bool = True,
        normalized: bool = False,
        onesided: bool | None = None,
        length: int | torch.SymInt | None = None,
        return_complex: bool = False,
    ) -> torch.Tensor:
        given = (input, n_fft, hop_length, win_length, window)
        how = (normalized, onesided)
        if not isinstance(length, torch.SymInt):
            return original(*given, center, *how, length, return_complex)
        whole = original(*given, False, *how, None, return_complex)
        signal = whole[..., n_fft // 2 :] if center else whole
        return _fitted(signal, [signal.dim() - 1], [length])  # type: ignore[list-item]

    return istft


def _transforms_replaced() -> contextlib.AbstractContextManager[None]:
    return kernels_replaced(
        {
            getattr(_aten, f"fft_{name}{suffix}").default: {DispatchKey.CompositeImplicitAutograd: kernel}
            for name, transform in _TRANSFORMS.items()
            for suffix, kernel in (
                ("", _of_one(transform)),
                ("2", _of_several(transform)),
                ("n", _of_several(transform)),
            )
        }
    )


def _of_one(transform: Transform) -> Kernel:
    def kernel(self: torch.Tensor, n: int | None = None, dim: int = -1, norm: str | None = None) -> torch.Tensor:
        return transform(_floating(self), [dim % self.dim()], [n], norm or "backward")

    return kernel


def _of_several(transform: Transform) -> Kernel:
    def kernel(
        self: torch.Tensor, s: Sequence[int] | None = None, dim: Sequence[int] | None = None, norm: str | None = None
    ) -> torch.Tensor:
        rank = self.dim()
        if dim is None:
            dim = range(rank) if s is None else range(rank - len(s), rank)
        sizes: list[int | None] = [None] * len(dim) if s is None else [None if size == -1 else size for size in s]
        return transform(_floating(self), [axis % rank for axis in dim], sizes, norm or "backward")

    return kernel


def _floating(x: torch.Tensor) -> torch.Tensor:
    return x if x.is_floating_point() or x.is_complex() else x.to(torch.get_default_dtype())


def _complex(x: torch.Tensor) -> torch.Tensor:
    return x if x.is_complex() else x.to(x.dtype.to_complex())


def _fitted(x: torch.Tensor, axes: Sequence[int], sizes: Sizes) -> torch.Tensor:
    for axis, size in zip(axes, sizes, strict=True):
        if size is not None:
            zeros = x.new_zeros([size if at == axis else other for at, other in enumerate(x.shape)])
            x = torch.cat([x, zeros], axis).narrow(axis, 0, size)
    return x


def _whole(x: torch.Tensor, axes: list[int], sizes: list[int | None], scale: int, forward: bool) -> torch.Tensor:
    result: torch.Tensor = _aten._fft_c2c.default(_fitted(_complex(x), axes, sizes), axes, scale, forward)
    return result


def _half(x: torch.Tensor, axes: list[int], sizes: list[int | None], scale: int) -> torch.Tensor:
    result: torch.Tensor = _aten._fft_r2c.default(_fitted(x, axes, sizes), axes, scale, True)
    return result


def _real(x: torch.Tensor, axes: list[int], sizes: list[int | None], scale: int) -> torch.Tensor:
    """The signal of half a spectrum: even in length, unless that is stated."""
    stated = sizes[-1]
    length = 2 * (x.shape[axes[-1]] - 1) if stated is None else stated
    halved = [*sizes[:-1], None if stated is None else stated // 2 + 1]
    result: torch.Tensor = _aten._fft_c2r.default(_fitted(_complex(x), axes, halved), axes, scale, length)
    return result


_TRANSFORMS: dict[str, Transform] = {
    "fft": lambda x, axes, sizes, norm: _whole(x, axes, sizes, _FORWARD[norm], True),
    "ifft": lambda x, axes, sizes, norm: _whole(x, axes, sizes, _INVERSE[norm], False),
    "rfft": lambda x, axes, sizes, norm: _half(x, axes, sizes, _FORWARD[norm]),
    "irfft": lambda x, axes, sizes, norm: _real(x, axes, sizes, _INVERSE[norm]),
    "hfft": lambda x, axes, sizes, norm: _real(_complex(x).conj_physical(), axes, sizes, _FORWARD[norm]),
    "ihfft": lambda x, axes, sizes, norm: _half(x, axes, sizes, _INVERSE[norm]).conj_physical(),
}
