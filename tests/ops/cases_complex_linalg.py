"""Rows for aten/complex_linalg.py and aten/complex_orthogonal.py."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

from cases import R
from cases import case as row

C = torch.complex64
case = partial(row, name="complex")
SQUARE, TALL = R("b", "n", "n", dtype=C), R("b", 5, 3, dtype=C)
Matrices = tuple[torch.Tensor, ...]


def _steep(x: torch.Tensor) -> torch.Tensor:
    """A matrix that is far from singular, so that rounding does not decide the comparison."""
    return x + (4 + 2j) * torch.eye(x.shape[-1])


def _definite(x: torch.Tensor) -> torch.Tensor:
    return x @ x.mH + torch.eye(x.shape[-1])


def _triangles(a: torch.Tensor, b: torch.Tensor) -> Matrices:
    a = _steep(a)
    return (
        torch.linalg.solve_triangular(a, b, upper=True),
        torch.linalg.solve_triangular(a, b.mT, upper=False, left=False),
        torch.linalg.solve_triangular(a / 4, b, upper=False, unitriangular=True),
        torch.triangular_solve(b, a, upper=False, transpose=True)[0],
    )


def _solve_factored(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
    factors = torch.linalg.lu_factor(_steep(a))
    return [
        torch.linalg.lu_solve(*factors, b if left else b.mT, left=left, adjoint=adjoint)
        for left in (True, False)
        for adjoint in (True, False)
    ]


def _rebuilt(full: bool) -> Any:
    def rebuilt(x: torch.Tensor) -> Matrices:
        """Singular vectors are defined up to their phases, their products are not."""
        u, s, v = torch.linalg.svd(x, full_matrices=full)
        count = s.shape[-1]
        return (u[..., :count] * s[..., None, :]) @ v[..., :count, :], s, u.mH @ u, v @ v.mH

    return rebuilt


def _reports(x: torch.Tensor) -> Matrices:
    """Of matrices whose second pivot is none: a column of zeros, and a diagonal that is negative there."""
    second = torch.arange(x.shape[-1]) == 1
    singular, indefinite = _steep(x) * ~second, _definite(x) - 1000 * torch.diag(second.to(x.dtype))
    return torch.linalg.inv_ex(singular).info, torch.linalg.cholesky_ex(indefinite).info


def _eigen(x: torch.Tensor) -> Matrices:
    values, vectors = torch.linalg.eigh(x + x.mH)
    return values, vectors * values[..., None, :] @ vectors.mH, vectors.mH @ vectors


CASES = [
    case("aten::linalg_inv_ex", lambda x: torch.linalg.inv(_steep(x)), SQUARE),
    case("aten::linalg_inv_ex aten::linalg_cholesky_ex", _reports, SQUARE, name="reports"),
    case("aten::_linalg_solve_ex", lambda a, b: torch.linalg.solve(_steep(a), b), SQUARE, R("b", "n", 2, dtype=C)),
    case("aten::linalg_matrix_exp", lambda x: torch.linalg.matrix_exp(x / 2), SQUARE),
    case("aten::linalg_pinv.atol_rtol_tensor", torch.linalg.pinv, TALL),
    row(
        "aten::linalg_pinv.atol_rtol_tensor",
        lambda x, y: (torch.linalg.pinv(x @ y), torch.linalg.pinv(x @ x.mH, hermitian=True)),
        R(3, 1, dtype=C),
        R(1, 4, dtype=C),
        name="complex of low rank",
    ),
    case("aten::linalg_solve_triangular aten::triangular_solve", _triangles, R("b", 3, 3, dtype=C), R(3, 2, dtype=C)),
    case("aten::linalg_lu_factor_ex", torch.linalg.lu_factor, SQUARE),
    row("aten::linalg_lu_factor_ex", torch.linalg.lu_factor, R(3, 5, dtype=C), name="complex, wide"),
    case("aten::linalg_lu", torch.linalg.lu, R("b", "n", 3, dtype=C)),
    case("aten::lu_unpack", lambda x: torch.lu_unpack(*torch.linalg.lu_factor(x)), R("b", 4, 4, dtype=C)),
    case("aten::linalg_lu_solve", _solve_factored, R("b", 4, 4, dtype=C), R("b", 4, 2, dtype=C)),
    case("aten::_linalg_det aten::_linalg_slogdet", lambda x: (torch.linalg.det(x), *torch.linalg.slogdet(x)), SQUARE),
    row("aten::_linalg_det", lambda x: (torch.linalg.det(x), *torch.linalg.slogdet(x)), R(0, 0, dtype=C), name="none"),
    case(
        "aten::cholesky aten::linalg_cholesky_ex",
        lambda x: (torch.cholesky(_definite(x), upper=True), torch.linalg.cholesky(_definite(x))),
        SQUARE,
    ),
    case(
        "aten::cholesky_solve aten::cholesky_inverse",
        lambda x, b: (
            torch.cholesky_solve(b, torch.linalg.cholesky(_definite(x))),
            torch.cholesky_inverse(torch.linalg.cholesky(_definite(x), upper=True), upper=True),
        ),
        R(3, 3, dtype=C),
        R(3, 2, dtype=C),
    ),
    *(
        row(
            "aten::linalg_qr",
            lambda x, m=mode: torch.linalg.qr(x, mode=m)[m == "r" :],
            R("b", *shape, dtype=C),
            name=f"complex {mode} {shape[0]}",
        )
        for mode in ("reduced", "complete", "r")
        for shape in ((5, 3), (3, 5))
    ),
    case(
        "aten::geqrf aten::linalg_householder_product",
        lambda x: (*torch.geqrf(x), torch.linalg.householder_product(*torch.geqrf(x))),
        R(5, 3, dtype=C),
    ),
    row("aten::geqrf", torch.geqrf, R(2, 3, 5, dtype=C), name="complex, wide"),
    case(
        "aten::ormqr",
        lambda x, y: (
            torch.ormqr(*torch.geqrf(x), y, transpose=True),
            torch.ormqr(*torch.geqrf(x), y),
            torch.ormqr(*torch.geqrf(x), y.mT, left=False),
            torch.ormqr(*torch.geqrf(x), y.mT, left=False, transpose=True),
        ),
        R(4, 4, dtype=C),
        R(4, "k", dtype=C),
    ),
    case("aten::_linalg_svd", _rebuilt(True), TALL),
    row("aten::_linalg_svd", _rebuilt(False), R("b", 3, 6, dtype=C), name="complex, wide"),
    row(
        "aten::_linalg_svd",
        lambda x, y: _rebuilt(True)(x @ y),
        R(5, 1, dtype=C),
        R(1, 4, dtype=C),
        name="complex of low rank",
    ),
    row("aten::_linalg_svd", _rebuilt(True), R("n", "k", dtype=C), name="complex, run-time"),
    case("aten::_linalg_eigh", _eigen, SQUARE),
    row("aten::_linalg_eigh", lambda x: _eigen(x * 0 + 2 * torch.eye(3)), R(3, 3, dtype=C), name="complex, repeated"),
]
