"""Rows for aten/linalg.py and aten/orthogonal.py."""

from __future__ import annotations

import torch

from cases import R, case

Matrices = tuple[torch.Tensor, ...]


def _definite(x: torch.Tensor) -> torch.Tensor:
    return x @ x.mT + torch.eye(x.shape[-1])


def _steep(x: torch.Tensor) -> torch.Tensor:
    """A matrix that is far from singular, so that rounding does not decide the comparison."""
    return x + 4 * torch.eye(x.shape[-1])


def _solve_factored(a: torch.Tensor, b: torch.Tensor) -> list[torch.Tensor]:
    factors = torch.linalg.lu_factor(_steep(a))
    return [
        torch.linalg.lu_solve(*factors, b),
        torch.linalg.lu_solve(*factors, b, adjoint=True),
        torch.linalg.lu_solve(*factors, b.mT, left=False),
        torch.linalg.lu_solve(*factors, b.mT, left=False, adjoint=True),
    ]


def _reports(x: torch.Tensor) -> list[torch.Tensor]:
    """Of matrices whose second pivot is none: a column of zeros, and a diagonal that is negative there."""
    second = torch.arange(x.shape[-1]) == 1
    singular, indefinite = _steep(x) * ~second, _definite(x) - 1000 * torch.diag(second.to(x.dtype))
    calls = [torch.linalg.inv_ex(singular), torch.linalg.lu_factor_ex(singular), torch.linalg.cholesky_ex(indefinite)]
    return [*(call.info for call in calls), torch.linalg.solve_ex(singular, x).info]


def _rebuilt(full: bool) -> object:
    def rebuilt(x: torch.Tensor) -> Matrices:
        """Singular vectors are defined up to their signs, their products are not."""
        u, s, v = torch.linalg.svd(x, full_matrices=full)
        count = s.shape[-1]
        return (u[..., :count] * s[..., None, :]) @ v[..., :count, :], s, u.mT @ u, v @ v.mT

    return rebuilt


def _eigen(x: torch.Tensor) -> Matrices:
    values, vectors = torch.linalg.eigh(x + x.mT)
    return values, vectors * values[..., None, :] @ vectors.mT, vectors.mT @ vectors


CASES = [
    case("aten::linalg_inv_ex aten::linalg_cholesky_ex", _reports, R("b", "n", "n"), name="reports"),
    case("aten::linalg_inv_ex", torch.linalg.inv_ex, R(2, 2, 0, 0), name="reports of nothing"),
    case("aten::linalg_inv_ex", lambda x: torch.linalg.inv(_steep(x)), R("b", "n", "n")),
    case("aten::linalg_inv_ex", lambda x: torch.linalg.inv(x.flip(0)), R(3, 3), name="pivots"),
    case("aten::linalg_inv_ex", torch.linalg.inv, R(2, 0, 0), name="empty"),
    case("aten::_linalg_solve_ex", lambda a, b: torch.linalg.solve(_steep(a), b), R("b", "n", "n"), R("b", "n", 2)),
    case("aten::_linalg_solve_ex", lambda a, b: torch.linalg.solve(_steep(a), b), R(4, 4), R(4), name="vector"),
    case(
        "aten::_linalg_solve_ex",
        lambda a, b: torch.linalg.solve(_steep(a), b, left=False),
        R(3, 3),
        R("b", 2, 3),
        name="right",
    ),
    case("aten::linalg_lu_factor_ex", torch.linalg.lu_factor, R("b", "n", "n")),
    case("aten::linalg_lu_factor_ex", lambda x: torch.linalg.lu_factor(x), R(3, 5), name="wide"),
    case("aten::linalg_lu", torch.linalg.lu, R("b", "n", 3)),
    case("aten::lu_unpack", lambda x: torch.lu_unpack(*torch.linalg.lu_factor(x)), R("b", 4, 4)),
    case("aten::linalg_lu_solve", _solve_factored, R("b", 4, 4), R("b", 4, 2)),
    case(
        "aten::linalg_solve_triangular",
        lambda a, b: torch.linalg.solve_triangular(_steep(a), b, upper=True),
        R("b", "n", "n"),
        R("b", "n", 2),
    ),
    case(
        "aten::linalg_solve_triangular",
        lambda a, b: torch.linalg.solve_triangular(a, b, upper=False, left=False, unitriangular=True),
        R(3, 3),
        R("b", 2, 3),
        name="unit",
    ),
    case(
        "aten::triangular_solve",
        lambda b, a: torch.triangular_solve(b, _steep(a), upper=False, transpose=True)[0],
        R("b", 3, 2),
        R("b", 3, 3),
    ),
    case("aten::cholesky", lambda x: torch.cholesky(_definite(x), upper=True), R("b", 3, 3)),
    case("aten::linalg_cholesky_ex", lambda x: torch.linalg.cholesky(_definite(x)), R("b", "n", "n")),
    case("aten::cholesky_solve", lambda b, x: torch.cholesky_solve(b, _steep(x).tril()), R("b", 3, 2), R("b", 3, 3)),
    case("aten::cholesky_inverse", lambda x: torch.cholesky_inverse(_steep(x).triu(), upper=True), R(3, 3)),
    case("aten::_linalg_det", torch.linalg.det, R("b", "n", "n"), refused="Det does not exist"),
    case("aten::_linalg_det", torch.linalg.det, R(0, 0), name="empty"),
    case("aten::_linalg_slogdet", torch.linalg.slogdet, R("b", "n", "n")),
    case("aten::_linalg_slogdet", lambda x: torch.linalg.slogdet(x * 1e4), R(20, 20), name="large"),
    case("aten::linalg_matrix_exp", lambda x: torch.linalg.matrix_exp(x / 2), R("b", "n", "n")),
    case("aten::linalg_matrix_exp", lambda x: torch.linalg.matrix_exp(x * 3), R(3, 3), name="squared"),
    *(
        case(
            "aten::linalg_qr",
            lambda x, m=mode: torch.linalg.qr(x, mode=m)[m == "r" :],
            R("b", *shape),
            name=f"{mode} {shape[0]}",
        )
        for mode in ("reduced", "complete", "r")
        for shape in ((5, 3), (3, 5))
    ),
    # torch knows its shape only where all sizes are fixed.
    case("aten::geqrf", torch.geqrf, R("b", 5, 3), dynamic=False),
    case(
        "aten::linalg_householder_product",
        lambda x: torch.linalg.householder_product(*torch.geqrf(x)),
        R(5, 3),
    ),
    case("aten::ormqr", lambda x, y: torch.ormqr(*torch.geqrf(x), y, transpose=True), R(4, 4), R(4, "k")),
    case(
        "aten::ormqr",
        lambda x, y: torch.ormqr(*torch.geqrf(x), y, left=False),
        R(4, 4),
        R("k", 4),
        name="right",
    ),
    case("aten::_linalg_svd", _rebuilt(True), R("b", 5, 3)),
    case("aten::_linalg_svd", _rebuilt(False), R("b", 3, 6), name="wide"),
    case("aten::_linalg_svd", lambda x, y: _rebuilt(True)(x @ y), R(5, 1), R(1, 4), name="low rank"),
    case("aten::_linalg_svd", _rebuilt(True), R("n", "k"), name="run-time"),
    case("aten::_linalg_svd", _rebuilt(False), R("k", "n"), name="run-time and reduced"),
    case("aten::_linalg_svd", torch.linalg.svdvals, R("b", "n", "n"), name="values"),
    case("aten::linalg_pinv.atol_rtol_tensor", torch.linalg.pinv, R("b", 5, 3)),
    case(
        "aten::linalg_pinv.atol_rtol_tensor",
        lambda x, y: torch.linalg.pinv(x @ y),
        R(3, 1),
        R(1, 4),
        name="low rank",
    ),
    case(
        "aten::linalg_pinv.atol_rtol_tensor",
        lambda x: torch.linalg.pinv(_definite(x), hermitian=True),
        R(3, 3),
        name="hermitian",
    ),
    case("aten::_linalg_eigh", _eigen, R("b", "n", "n")),
    case("aten::_linalg_eigh", lambda x: torch.linalg.eigvalsh(x, UPLO="U"), R(4, 4), name="upper"),
    case("aten::linalg_ldl_factor_ex", lambda x: torch.linalg.ldl_factor(x + x.mT), R("b", "n", "n")),
    # Nothing on the diagonals: all blocks are of two rows.
    case(
        "aten::linalg_ldl_factor_ex",
        lambda x: torch.linalg.ldl_factor((x + x.mT) * (1 - torch.eye(6))),
        R("b", 6, 6),
        name="pairs",
    ),
    case("aten::linalg_ldl_factor_ex", torch.linalg.ldl_factor, R(0, 0), name="empty"),
    case(
        "aten::linalg_ldl_solve",
        lambda x, y: torch.linalg.ldl_solve(x, x[..., 0].int(), y),
        R(0, "n", "n"),
        R("n", 2),
        name="no batch",
    ),
    case(
        "aten::linalg_ldl_solve",
        lambda x, y: (
            torch.linalg.ldl_solve(*torch.linalg.ldl_factor(x + x.mT + torch.diag_embed(x[..., 0] * 9)), y),
            torch.linalg.ldl_solve(*torch.linalg.ldl_factor((x + x.mT) * (1 - torch.eye(x.shape[-1]))), y),
        ),
        R("b", 6, 6),
        R("b", 6, "k"),
    ),
]
