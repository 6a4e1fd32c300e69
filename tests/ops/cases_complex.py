"""Rows for aten/complex.py, aten/complex_reduce.py and aten/complex_parts.py."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from cases import B, I, R, case

C = torch.complex64
Z = R("b", 4, dtype=C)
ops = torch.ops.aten

_FUNCTIONS = """
exp log log2 log10 log1p exp2 expm1 sqrt rsqrt reciprocal square sin cos tan sinh cosh tanh asin acos atan asinh acosh
atanh sigmoid silu sgn abs angle neg conj_physical
"""


def _mixed(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
    """Complex with real, with numbers of either kind, on both sides."""
    return [x + y, y - x, x * y, y * x, x / y, y / x, x + 2, 1j - x, x * 3, x * (1 + 2j), x / 2j, 2 / x]


def _rotated(x: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
    """A rotary embedding as the first of its kind were written."""
    turns = torch.polar(torch.ones_like(angles), angles)
    pairs = torch.view_as_complex(x.reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns).flatten(-2)


PARTS = [
    case(
        "aten::view_as_real aten::view_as_complex",
        lambda x: torch.view_as_real(torch.view_as_complex(x) * 2),
        R("b", 4, 2),
    ),
    case(
        "aten::complex aten::real aten::imag",
        lambda x, y: (lambda z: (z.real, z.imag, z))(torch.complex(x, y)),
        R("b", 4),
        R("b", 4),
    ),
    case(
        "aten::to.dtype",
        lambda x: (x.to(C), (x + 1j).to(torch.complex128), (x * (1j + 0.5)).to(torch.bool), (x * 1j).to(torch.float32)),
        R("b", 4, special=(float("inf"), 0.0)),
        name="complex",
    ),
    case("aten::polar", _rotated, R("b", "n", 6), R("n", 3)),
    case(
        "aten::_conj aten::conj aten::_conj_physical aten::resolve_conj aten::resolve_neg",
        lambda x: x.conj().resolve_conj() + x.conj().imag,
        Z,
    ),
    case("aten::_neg_view aten::resolve_neg", lambda x: ops.resolve_neg(ops._neg_view(x)), Z),
    *(case(f"aten::{name}", lambda x, n=name: getattr(ops, n)(x), Z, name="complex") for name in _FUNCTIONS.split()),
]

ARITHMETIC = [
    case(
        "aten::add.Tensor aten::sub.Tensor aten::rsub.Scalar aten::mul.Tensor aten::div.Tensor "
        "aten::true_divide.Tensor",
        _mixed,
        Z,
        R(4),
        name="complex",
    ),
    case(
        "aten::add.Scalar aten::sub.Scalar aten::mul.Scalar aten::div.Scalar aten::rsub.Tensor",
        lambda x: (
            ops.add.Scalar(x, 2j, 3),
            ops.sub.Scalar(x, 1),
            ops.mul.Scalar(x, 1j),
            ops.div.Scalar(x, 2),
            ops.rsub.Tensor(x, x * x, alpha=2),
        ),
        Z,
        name="complex",
    ),
    case(
        "aten::addcmul aten::addcdiv",
        lambda x: (torch.addcmul(x, x, x, value=2j), torch.addcdiv(x, x, x + 1)),
        Z,
        name="complex",
    ),
    case(
        "aten::lerp.Scalar aten::lerp.Tensor",
        lambda x: (x.lerp(x * x, 0.5), x.lerp(x * x, x)),
        Z,
        name="complex",
    ),
    case(
        "aten::pow.Tensor_Scalar",
        lambda x: [x**p for p in (0, 0.5, -1, 2, 3, 2.5, 1j)],
        Z,
        name="complex",
    ),
    case(
        "aten::pow.Tensor_Tensor aten::pow.Scalar",
        lambda x: ((x * 0) ** x.abs(), x**x, 2**x),
        Z,
        name="complex",
    ),
    case("aten::sgn", lambda x: torch.sgn(x * torch.tensor([0, 1, 1j, 1])), Z, name="complex zero"),
    case(
        "aten::eq.Tensor aten::eq.Scalar aten::ne.Tensor aten::ne.Scalar",
        lambda x, y: (x == y, x != x.real, x == 1j, x != 0),
        Z,
        Z,
        name="complex",
    ),
    case(
        "aten::isnan aten::isinf aten::isfinite aten::isreal aten::logical_not",
        lambda x: [f(x) for f in (torch.isnan, torch.isinf, torch.isfinite, torch.isreal, torch.logical_not)],
        Z,
        name="complex",
    ),
    case(
        "aten::logical_and aten::logical_or aten::logical_xor",
        lambda x: (x.logical_and(x.real.round()), x.logical_or(x), x.logical_xor(x * x.real.round())),
        Z,
        name="complex",
    ),
    case(
        "aten::where.self aten::where.ScalarOther aten::where.ScalarSelf aten::where.Scalar",
        lambda c, x: (torch.where(c, x, x.real), torch.where(c, x, 1), torch.where(c, 2j, x), torch.where(c, 1j, 2.0)),
        B("b", 4),
        Z,
        name="complex",
    ),
    case(
        "aten::masked_fill.Scalar aten::masked_fill.Tensor",
        lambda c, x: (x.masked_fill(c, 1), x.masked_fill(c, torch.tensor(2j))),
        B("b", 4),
        Z,
        name="complex",
    ),
]

REDUCTIONS = [
    case("aten::sum aten::prod", lambda x: (x.sum(), x.prod()), Z, name="complex"),
    case(
        "aten::sum.dim_IntList aten::prod.dim_int",
        lambda x: (x.sum(1, keepdim=True), x.prod(-1, keepdim=True)),
        Z,
        name="complex",
    ),
    # torch.export fixes the sizes of what complex numbers are averaged of.
    case(
        "aten::mean aten::mean.dim",
        lambda x: (x.mean(), x.mean((0, 1))),
        Z,
        name="complex",
        dynamic=False,
    ),
    case(
        "aten::abs",
        lambda x: (torch.complex(x * 1e30, -x * 1e30).abs() * 1e-30, torch.complex(x * 1e-30, x * 1e-31).abs() * 1e30),
        R("b", 3),
        name="large and small",
    ),
    case("aten::logcumsumexp", lambda x: x.logcumsumexp(1), Z, name="complex"),
    case("aten::cumsum aten::cumprod", lambda x: (x.cumsum(1), x.cumprod(0)), Z, name="complex"),
    case(
        "aten::var aten::var.dim aten::var.correction aten::std aten::std.dim aten::std.correction",
        lambda x: (ops.var(x), ops.var.dim(x, [1]), x.var(0, correction=0), ops.std(x), ops.std.dim(x, [1]), x.std(1)),
        R(3, 4, dtype=C),
        name="complex",
    ),
    case(
        "aten::linalg_vector_norm",
        lambda x: (torch.linalg.vector_norm(x), torch.linalg.vector_norm(x, 1, 1)),
        Z,
        name="complex",
    ),
    case(
        "aten::var_mean aten::var_mean.dim aten::var_mean.correction",
        lambda x: (*ops.var_mean(x, True), *ops.var_mean.dim(x, [1]), *torch.var_mean(x, 0, correction=0)),
        R(3, 4, dtype=C),
        name="complex",
    ),
    case(
        "aten::std_mean aten::std_mean.dim aten::std_mean.correction",
        lambda x: (*ops.std_mean(x, True), *ops.std_mean.dim(x, [1]), *torch.std_mean(x, 0, correction=0)),
        R(3, 4, dtype=C),
        name="complex",
    ),
    case(
        "aten::dist aten::renorm",
        lambda x, y: (torch.dist(x, y, 3), torch.renorm(x, 2, 0, 1.0)),
        Z,
        R(4, dtype=C),
        name="complex",
    ),
    case(
        "aten::count_nonzero aten::count_nonzero.dim_IntList",
        lambda x: (torch.count_nonzero(x * x.real.round()), torch.count_nonzero(x, [0, 1])),
        Z,
        name="complex",
    ),
    case(
        "aten::all aten::all.dim aten::all.dims aten::any aten::any.dim aten::any.dims",
        lambda x: (x.all(), x.all(1), x.all((0, 1)), x.any(), x.any(1), x.any((0, 1))),
        Z,
        name="complex",
    ),
]

PRODUCTS = [
    case(
        "aten::tensordot aten::inner",
        lambda x, y: (torch.tensordot(x, y, 1), torch.inner(x, y.mT)),
        Z,
        R(4, 3, dtype=C),
        name="complex",
    ),
    # torch.export fixes the sizes of Kronecker's factors.
    case("aten::kron", torch.kron, Z, R(4, 3, dtype=C), name="complex", dynamic=False),
    case(
        "aten::linalg_cross aten::cross",
        lambda x, y: (torch.linalg.cross(x, y), torch.ops.aten.cross(x, y, 1)),
        R("b", 3, dtype=C),
        R("b", 3, dtype=C),
        name="complex",
    ),
    case(
        "aten::matmul aten::mm aten::linalg_matmul",
        lambda x, y: (x @ y, ops.mm(x, y), ops.linalg_matmul(x, y)),
        Z,
        R(4, 3, dtype=C),
        name="complex",
    ),
    case("aten::bmm", torch.bmm, R("b", 3, 4, dtype=C), R("b", 4, 2, dtype=C), name="complex"),
    case("aten::mv", torch.mv, Z, R(4, dtype=C), name="complex"),
    case(
        "aten::dot aten::vdot",
        lambda x, y: (torch.dot(x, y), torch.vdot(x, y)),
        R("n", dtype=C),
        R("n", dtype=C),
        name="complex",
    ),
    case("aten::linalg_vecdot", torch.linalg.vecdot, Z, Z, name="complex"),
    case(
        "aten::outer aten::ger",
        lambda x, y: (torch.outer(x, y), torch.ger(x, y)),
        R("b", dtype=C),
        R("n", dtype=C),
        name="complex",
    ),
    case("aten::linear", F.linear, Z, R(3, 4, dtype=C), R(3, dtype=C), name="complex"),
    case(
        "aten::addmm",
        lambda c, a, b: torch.addmm(c, a, b, beta=2, alpha=1j),
        R(3, dtype=C),
        Z,
        R(4, 3, dtype=C),
        name="complex",
    ),
    case(
        "aten::addmv",
        torch.addmv,
        R("b", dtype=C),
        Z,
        R(4, dtype=C),
        name="complex",
    ),
    case(
        "aten::baddbmm aten::addbmm",
        lambda c, a, b: (torch.baddbmm(c, a, b), torch.addbmm(c, a, b, beta=0)),
        R(3, 2, dtype=C),
        R("b", 3, 4, dtype=C),
        R("b", 4, 2, dtype=C),
        name="complex",
    ),
    case(
        "aten::addr",
        torch.addr,
        R("b", "n", dtype=C),
        R("b", dtype=C),
        R("n", dtype=C),
        name="complex",
    ),
    case(
        "aten::einsum",
        lambda x, y, z: torch.einsum("bi,ij,j->b", x, y, z),
        Z,
        R(4, 3, dtype=C),
        R(3, dtype=C),
        name="complex",
    ),
]

EQUATIONS = [
    case(
        "aten::linalg_inv_ex",
        lambda x: torch.linalg.inv(x + 4 * torch.eye(3)),
        R("b", 3, 3, dtype=C),
        name="complex",
    ),
    case(
        "aten::_linalg_solve_ex",
        lambda a, b: torch.linalg.solve(a + 4 * torch.eye(3), b, left=False),
        R("b", 3, 3, dtype=C),
        R("b", 2, 3, dtype=C),
        name="complex",
    ),
]

MOVED = [
    case("aten::constant_pad_nd aten::pad", lambda x: F.pad(x, (1, 2, 0, 1), value=2.0), Z, name="complex"),
    case(
        "aten::_pad_enum aten::_pad_circular",
        lambda x: F.pad(x, (1, 2), mode="circular"),
        R("b", 2, 4, dtype=C),
        name="complex",
    ),
    *(
        case(
            f"aten::{kind}_pad{n}d",
            lambda x, k=kind, n=n: getattr(ops, f"{k}_pad{n}d")(x, [1] * 2 * n),
            R("b", *[4] * n, dtype=C),
            name="complex",
        )
        for kind in ("reflection", "replication")
        for n in (1, 2, 3)
    ),
    case(
        "aten::tril aten::triu aten::trace",
        lambda x: (x.tril(), x.triu(1), x.trace()),
        R(4, "k", dtype=C),
        name="complex",
    ),
    case(
        "aten::diag aten::diag_embed aten::diagflat",
        lambda x: (x.diag(), x[0].diag(), x.diag_embed(), x.diagflat()),
        R(3, 3, dtype=C),
        name="complex",
    ),
    case("aten::block_diag", lambda x, y: torch.block_diag(x, y), Z, R(1, dtype=C), name="complex"),
    case("aten::repeat aten::tile", lambda x: (x.repeat(2, 3), x.tile(2)), Z, name="complex"),
    case("aten::diff", lambda x: x.diff(), Z, name="complex"),
    case(
        "aten::_unsafe_masked_index aten::_unsafe_masked_index_put_accumulate",
        lambda x, m: (
            ops._unsafe_masked_index(x, m, [torch.tensor([0, 9, 1])], 2.5),
            ops._unsafe_masked_index_put_accumulate(x, m, [torch.tensor([0, 9, 1])], x[:3]),
        ),
        R(4, 4, dtype=C),
        B(3, 1),
        name="complex",
    ),
    case("aten::gather", lambda x, i: x.gather(1, i), Z, I("b", 2, high=3), name="complex"),
    # torch.export fixes the sizes that it compares.
    case(
        "aten::take_along_dim",
        lambda x, i: x.take_along_dim(i, 1),
        Z,
        I("b", 2, high=3),
        name="complex",
        dynamic=False,
    ),
    case(
        "aten::select_scatter aten::slice_scatter aten::diagonal_scatter aten::as_strided_scatter",
        lambda x: (
            x.select_scatter(x[:, 0], 1, 2),
            x.slice_scatter(x[:, :2], 1, 1, 3),
            x.diagonal_scatter(x[:, 0]),
            x.as_strided_scatter(x[0], (4,), (1,)),
        ),
        R(4, 4, dtype=C),
        name="complex",
    ),
    case(
        "aten::scatter.src aten::scatter_add aten::index_add aten::index_copy aten::put",
        lambda x, i: (
            x.scatter(0, i, x),
            x.scatter_add(0, i, x),
            x.index_add(0, i[0], x),
            x.index_copy(0, torch.arange(4), x * 2),
            x.put(i, x[:1]),
        ),
        R(4, 4, dtype=C),
        I(1, 4, high=3),
        name="complex",
    ),
    case(
        "aten::index_put aten::_unsafe_index_put aten::masked_scatter",
        lambda x, m: (
            torch.index_put(x, (torch.tensor([0, 1]),), x[2]),
            ops._unsafe_index_put(x, [torch.tensor([0, 1])], x[2]),
            x.masked_scatter(m, x * 2),
        ),
        R(4, 4, dtype=C),
        B(4, 4),
        name="complex",
    ),
]

# Operators that are translated for real tensors only, and decomposed for these.
DECOMPOSED = [
    case("aten::pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), R("b", 4, 3, 2, dtype=C), name="complex"),
    case(
        "aten::conv1d",
        lambda x, w: F.conv1d(x, w, stride=2),
        R("b", 3, 8, dtype=C),
        R(2, 3, 3, dtype=C),
        name="complex",
    ),
    case(
        "aten::conv_transpose2d.input",
        lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2),
        R("b", 3, 4, 4, dtype=C),
        R(3, 2, 3, 3, dtype=C),
        R(2, dtype=C),
        name="complex",
    ),
    case("aten::l1_loss", lambda x, y: F.l1_loss(x, y), Z, Z, name="complex"),
    case("aten::pairwise_distance", F.pairwise_distance, Z, Z, name="complex"),
    case("aten::rms_norm", lambda x: F.rms_norm(x, (4,)), Z, name="complex"),
    case("aten::logsumexp aten::logaddexp", lambda x: (x.logsumexp(1), x.logaddexp(x * 2)), Z, name="complex"),
    case("aten::index_fill.int_Scalar", lambda x: x.index_fill(1, torch.tensor([0, 2]), 1j), Z, name="complex"),
    case(
        "aten::linalg_matrix_power",
        lambda x: torch.linalg.matrix_power(x, 3),
        R(3, 3, dtype=C),
        name="complex",
    ),
]

CASES = [*DECOMPOSED, *PARTS, *ARITHMETIC, *REDUCTIONS, *PRODUCTS, *EQUATIONS, *MOVED]
