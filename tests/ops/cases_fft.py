"""Rows for aten/fft.py."""

from __future__ import annotations

import torch

from cases import R, case

C = torch.complex64
SUMMED = 5e-5
"""What rounding makes of the terms of a transform, where they cancel."""
fft = torch.fft


def _stft(x: torch.Tensor) -> torch.Tensor:
    return torch.stft(x, 16, 4, 12, torch.hann_window(12), return_complex=True)


def _windows(x: torch.Tensor) -> list[torch.Tensor]:
    made = [torch.hann_window, torch.hamming_window, torch.blackman_window, torch.bartlett_window, torch.kaiser_window]
    forms = [form for make in made for form in (make(8), make(8, periodic=False), make(1))]
    others = [
        torch.hamming_window(8, True, 0.6),
        torch.hamming_window(8, True, 0.6, 0.3),
        torch.kaiser_window(8, True, 5.0),
    ]
    return [x * window for window in (*forms, *others)]


def _back(x: torch.Tensor) -> torch.Tensor:
    spectrum = torch.stft(x, 16, 4, window=torch.hann_window(16), return_complex=True)
    return torch.istft(spectrum, 16, 4, window=torch.hann_window(16), length=40)


def _forms(name: str, x: torch.Tensor) -> list[torch.Tensor]:
    """One transform in one, two and all dimensions, of given sizes and in all scales."""
    one, two, all_ = (getattr(fft, name + suffix) for suffix in ("", "2", "n"))
    return [
        one(x),
        one(x, 9, dim=0, norm="ortho"),
        one(x, 4, norm="forward"),
        two(x, s=(3, 8)),
        two(x, norm="ortho"),
        all_(x, norm="forward"),
        all_(x, s=(4,)),
    ]


FORMS = [
    *(
        case(
            f"aten::fft_{name} aten::fft_{name}2 aten::fft_{name}n",
            lambda x, n=name: _forms(n, x),
            # torch's shape rule of a complex-to-real transform fixes the first axis when that is the one transformed.
            R(5 if name in ("irfft", "hfft") else "n", "m", dtype=dtype),
            name=str(dtype).removeprefix("torch."),
            rtol=1e-4,
            atol=SUMMED,
        )
        for name, dtypes in {
            "fft": (torch.float32, C),
            "ifft": (torch.float32, C),
            "rfft": (torch.float32, torch.int64),
            "irfft": (C,),
            "hfft": (C,),
            "ihfft": (torch.float32,),
        }.items()
        for dtype in dtypes
    )
]

CASES = [
    *FORMS,
    case(
        "aten::hann_window aten::hamming_window aten::blackman_window aten::bartlett_window aten::kaiser_window",
        _windows,
        R("b", 8),
        atol=SUMMED,
    ),
    case("aten::_fft_r2c", lambda x: fft.rfft(x), R("b", "n"), atol=SUMMED),
    case("aten::_fft_r2c", lambda x: fft.rfft(x, 8, dim=0, norm="ortho"), R("n", 3), name="padded", atol=SUMMED),
    case("aten::_fft_r2c", lambda x: fft.fft(x, norm="forward"), R("b", "n"), name="whole", atol=SUMMED),
    case("aten::_fft_r2c", lambda x: fft.rfft2(x), R(2, 6, "n"), name="2-d", atol=SUMMED),
    case("aten::_fft_c2c", lambda x: fft.fft(x), R("b", "n", dtype=C), atol=SUMMED),
    case("aten::_fft_c2c", lambda x: fft.ifft(x, dim=0), R("n", 2, dtype=C), name="inverse", atol=SUMMED),
    case("aten::_fft_c2c", lambda x: fft.ifft(x, norm="ortho"), R("b", "n", dtype=C), name="orthogonal", atol=SUMMED),
    case("aten::_fft_c2c", lambda x: fft.ifft(x, norm="forward"), R("b", "n", dtype=C), name="unscaled", atol=SUMMED),
    case("aten::_fft_c2c", lambda x: fft.fftn(x, s=(4, 6)), R(2, 3, 7, dtype=C), name="n-d", atol=SUMMED),
    case("aten::_fft_c2r", lambda x: fft.irfft(x), R("b", 5, dtype=C), atol=SUMMED),
    case("aten::_fft_c2r", lambda x: fft.irfft(x, 7), R("b", 4, dtype=C), name="odd", atol=SUMMED),
    case(
        "aten::_fft_c2r",
        lambda x: fft.irfft(x, 2 * x.shape[1] - 2),
        R("b", "n", dtype=C),
        name="run-time",
        atol=SUMMED,
    ),
    case("aten::_fft_c2r", lambda x: fft.irfft2(x, norm="ortho"), R(4, 5, dtype=C), name="2-d", atol=SUMMED),
    case("aten::_fft_c2r", lambda x: fft.hfft(x), R("b", 5, dtype=C), name="hermitian", atol=SUMMED),
    case("aten::_fft_c2c", lambda x: fft.ifftshift(fft.fftshift(x) * 2), R("b", "n", dtype=C), name="shift"),
    case("aten::stft", _stft, R("b", 40), atol=SUMMED),
    case("aten::stft", lambda x: torch.view_as_real(_stft(x)), R(40), name="1-d", atol=SUMMED),
    case(
        "aten::stft",
        lambda x: torch.stft(x, 8, 3, center=False, normalized=True, onesided=False, return_complex=True),
        R("b", 21),
        name="whole",
        atol=SUMMED,
    ),
    case("aten::stft", _back, R("b", 40), name="there and back", atol=SUMMED),
]
