"""Rows for aten/special.py, aten/gamma.py, aten/bessel.py and aten/polynomials.py."""

from __future__ import annotations

import math

import torch

from cases import I, R, case

S = torch.special
F32, F64, F16 = torch.float32, torch.float64, torch.float16
INF, NAN = math.inf, math.nan

BOTH = R("n", 16, low=-12, high=12, special=(0.0, NAN, 1e-6, 7.9, 8.1, -8.1, 30.0))
POSITIVE = R("n", 16, low=0.01, high=12, special=(1.9, 2.1, 7.9, 8.1, 30.0))
SMALL = R("n", 8, low=-1.5, high=1.5, special=(1.0, -1.0, 0.0))

POLYNOMIALS = (
    *(f"{prefix}chebyshev_polynomial_{kind}" for prefix in ("", "shifted_") for kind in "tuvw"),
    "hermite_polynomial_h",
    "hermite_polynomial_he",
    "laguerre_polynomial_l",
    "legendre_polynomial_p",
)


def _polynomial_rows(name: str) -> list[object]:
    function = getattr(S, name)
    return [
        case(
            f"aten::special_{name}",
            lambda x, n: function(x, n),
            SMALL,
            R("n", 8, low=-1, high=9, special=(0.0, 1.0, 2.0, -1.0, 3.0, 12.0)),
        ),
        case(
            f"aten::special_{name}.n_scalar aten::special_{name}.x_scalar",
            lambda x, n: (*(function(x, degree) for degree in (-1, 0, 1, 2, 5, 11)), function(0.3, n)),
            SMALL,
            I("n", 4, high=6),
        ),
    ]


CASES = [
    case(
        "aten::erfc aten::special_erfcx aten::special_ndtr",
        lambda x: (torch.erfc(x), S.erfcx(x), S.ndtr(x), torch.log(torch.erfc(x.abs()))),
        R("n", 8, low=-5, high=8, special=(0.0, INF, NAN)),
    ),
    case("aten::erfc aten::lgamma", lambda x: (x.erfc(), x.lgamma()), POSITIVE, dtypes=(F16,), name="half"),
    case("aten::special_log_ndtr", lambda x: S.log_ndtr(x), R("n", 8, low=-30, high=6)),
    case("aten::erfinv", lambda x: torch.erfinv(x), R("n", 8, low=-1, high=1, special=(1.0, -1.0, 0.0, 0.999999, 2.0))),
    case("aten::special_ndtri", lambda x: S.ndtri(x), R("n", 8, low=0, high=1, special=(1.0, 0.0, 0.5, 1e-30, -1.0))),
    case(
        "aten::logit aten::special_logit",
        lambda x: (torch.logit(x), torch.logit(x, 0.1), S.logit(x, 1e-3), torch.logit(x * 3)),
        R("n", 8, low=0, high=1, special=(0.0, 1.0)),
    ),
    case("aten::erfc aten::i0 aten::lgamma", lambda x: (x.erfc(), x.i0(), x.lgamma()), I("n", 3, low=1), name="int"),
    case(
        "aten::erfc aten::lgamma", lambda x: (x.erfc(), x.lgamma(), x.digamma(), S.zeta(x, x)), R(2, 0, 3), name="empty"
    ),
    case(
        "aten::i0 aten::erfc aten::digamma",
        lambda x: (x[0].i0(), x[0].erfc(), x[0].digamma()),
        R("n", low=1),
        name="0d",
    ),
    # Bessel
    case(
        "aten::i0 aten::special_i0e aten::special_i1 aten::special_i1e "
        "aten::special_modified_bessel_i0 aten::special_modified_bessel_i1",
        lambda x: (x.i0(), S.i0e(x), S.i1(x), S.i1e(x), S.modified_bessel_i0(x), S.modified_bessel_i1(x)),
        BOTH,
        dtypes=(F32, F64),
    ),
    case(
        "aten::special_modified_bessel_k0 aten::special_modified_bessel_k1 "
        "aten::special_scaled_modified_bessel_k0 aten::special_scaled_modified_bessel_k1",
        lambda x: (
            S.modified_bessel_k0(x),
            S.modified_bessel_k1(x),
            S.scaled_modified_bessel_k0(x),
            S.scaled_modified_bessel_k1(x),
            S.modified_bessel_k0(0 * x),
            S.modified_bessel_k1(-x),
        ),
        POSITIVE,
    ),
    case(
        "aten::special_bessel_j0 aten::special_bessel_j1 aten::special_spherical_bessel_j0 aten::special_airy_ai",
        lambda x: (S.bessel_j0(x), S.bessel_j1(x), S.spherical_bessel_j0(x), S.airy_ai(x)),
        BOTH,
    ),
    case(
        "aten::special_bessel_y0 aten::special_bessel_y1",
        lambda x: (S.bessel_y0(x), S.bessel_y1(x), S.bessel_y0(0 * x), S.bessel_y1(0 * x), S.bessel_y0(-x)),
        POSITIVE,
    ),
    # Gamma
    case(
        "aten::lgamma aten::digamma",
        lambda x: (torch.lgamma(x), torch.digamma(x)),
        R("n", 9, low=-6, high=20, special=(0.0, 1.0, 2.0, -1.0, -2.5, INF, NAN, 1e-6, 1e6)),
        dtypes=(F32, F64),
    ),
    case("aten::lgamma", lambda x: torch.mvlgamma(x, 3), R("n", 4, low=1.5, high=20), name="mvlgamma"),
    case(
        "aten::polygamma",
        lambda x: tuple(torch.polygamma(n, x) for n in range(5)),
        R("n", 8, low=0.1, high=20, special=(0.1, 100.0)),
        dtypes=(F32, F64),
    ),
    case(
        "aten::polygamma",
        lambda x: tuple(torch.polygamma(n, x) for n in range(4)),
        R("n", 8, low=-0.8, high=-0.2, special=(-11.5, -30.5, 1.0)),
        name="negative",
    ),
    case(
        "aten::special_zeta aten::special_zeta.other_scalar aten::special_zeta.self_scalar",
        lambda s, q: (S.zeta(s, q), S.zeta(s, 2.5), S.zeta(3, q)),
        R("n", 8, low=1.1, high=9, special=(1.0, 0.5, 2.0, 3.0, 2.0, 2.5)),
        R("n", 8, low=0.1, high=9, special=(1.0, 1.0, 0.0, -1.0, -0.5, -0.5)),
    ),
    case(
        "aten::igamma aten::igammac",
        lambda a, x: (torch.igamma(a, x), torch.igammac(a, x)),
        R("n", 16, low=0.1, high=40, special=(0.0, 0.0, 1.0, INF, 2.0, -1.0, 900.0, 0.5, INF)),
        R("n", 16, low=0.1, high=40, special=(0.0, 2.0, 0.0, 1.0, INF, 1.0, 910.0, 2.0, INF)),
    ),
    # Polynomials
    *(row for name in POLYNOMIALS for row in _polynomial_rows(name)),
]
