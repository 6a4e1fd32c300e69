"""Rows for aten/linear.py, aten/distance.py and aten/embedding.py."""

from __future__ import annotations

import math

import torch
from torch.nn import functional as F

from cases import I, R, case

NAN, INF = math.nan, math.inf
FLOATS = (torch.float32, torch.float16, torch.float64)
ops = torch.ops.aten


def _bags(mode: str, **options: object) -> object:
    def bags(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.embedding_bag(x, w, torch.tensor([0, 2, 2]), mode=mode, **options)  # type: ignore[arg-type]

    return bags


def _rows_as_bags(mode: str, **options: object) -> object:
    return lambda x, w: F.embedding_bag(x, w, mode=mode, **options)  # type: ignore[arg-type]


def _bags_to(end: int, mode: str, **options: object) -> object:
    """Bags of which the last ends where an offset points."""

    def bags(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        offsets = torch.tensor([0, 2, end])
        return F.embedding_bag(x, w, offsets, mode=mode, include_last_offset=True, **options)  # type: ignore[arg-type]

    return bags


def _grouped(*ends: int, turned: bool = False) -> object:
    def grouped(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a, b = a.bfloat16(), b.bfloat16()
        offsets = torch.tensor(ends, dtype=torch.int32) if ends else None
        return torch._grouped_mm(a, b.t() if turned else b, offs=offsets).float()

    return grouped


def _grouped_floats(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.grouped_mm(a, b, offs=torch.tensor([3, 3, 8], dtype=torch.int32))


def _experts(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    import transformers.integrations.moe  # noqa: F401  (defines the operator)

    return torch.ops.transformers.grouped_mm_fallback(x, w, torch.tensor([2, 2, x.shape[0]]))


# The products are in bfloat16: a result may differ by its last bit.
BFLOAT = {"rtol": 1e-2, "refused": "Cast gives no bfloat16 in opset 9"}

LINEAR = [
    case("aten::linear", F.linear, R("b", 4), R(3, 4), R(3), dtypes=FLOATS),
    case("aten::linear", F.linear, R("b", "n", 4), R(3, 4), name="3-d"),
    case("aten::linear", F.linear, R(4), R(4), name="1-d"),
    case("aten::linear", F.linear, I("b", 4), I(3, 4), I(3), name="int"),
    case("aten::matmul", torch.matmul, R("b", 1, "n", 4), R(3, 4, 2), dtypes=FLOATS),
    case("aten::matmul", torch.matmul, R(4), R("b", 4, 2), name="vector"),
    case("aten::matmul", lambda x: x.t() @ x.amax(-1), R("n", "m"), name="transposed by vector"),
    case("aten::matmul", lambda x: x.mT @ x.amax((0, 2)), R("b", "n", "m"), name="matrices transposed by vector"),
    case(
        "aten::mv", lambda x: x.t().double().mv(x.amax(-1).double()), R("n", "m"), name="transposed and cast by vector"
    ),
    case("aten::matmul", torch.matmul, R(2, 0), R(0, 3), name="empty"),
    case("aten::matmul", torch.matmul, R("b", 2, 0), R(0, 3), name="empties"),
    case("aten::matmul", torch.matmul, R(0), R("b", 0, 3), name="empty vector"),
    case("aten::matmul", lambda x, y: x.to(torch.uint8) @ y.to(torch.uint8), I(3, 9, high=99), I(9, 2), name="uint8"),
    case("aten::linalg_matmul", lambda x, y: ops.linalg_matmul(x, y), R("b", 4), R(4, 2)),
    case("aten::mm", torch.mm, I("b", 4), I(4, 2)),
    case("aten::mm.dtype", lambda x, y: ops.mm(x, y).to(torch.float32), R("b", 4), R(4, 2)),
    case("aten::bmm", torch.bmm, R("b", "n", 4), R("b", 4, 2)),
    case("aten::bmm.dtype", lambda x, y: torch.bmm(x, y), R("b", 3, 4), R("b", 4, 2)),
    case("aten::_int_mm", lambda x, y: torch._int_mm(x.to(torch.int8), y.to(torch.int8)), I(32, 16), I(16, 8)),
    case("aten::mv", torch.mv, R("b", 4), R(4)),
    case("aten::dot", torch.dot, I("n"), I("n")),
    case("aten::vdot", torch.vdot, R("n"), R("n")),
    case("aten::outer", torch.outer, R("b"), R("n")),
    case("aten::ger", torch.ger, I("b"), R("n")),
    case("aten::addmm", lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), R(3), R("b", 4), R(4, 3)),
    case(
        "aten::addmm",
        lambda c, a, b: torch.addmm(c, a, b, beta=0),
        R(3, special=(NAN,)),
        R("b", 4),
        R(4, 3),
        name="not",
    ),
    case("aten::addmm", lambda c, a, b: torch.addmm(c, a, b, alpha=3), I("b", 3), I("b", 4), I(4, 3), name="int"),
    case("aten::addmm.dtype", torch.addmm, R(3), R("b", 4), R(4, 3)),
    case("aten::_addmm_activation", lambda c, a, b: ops._addmm_activation(c, a, b), R(3), R("b", 4), R(4, 3)),
    case(
        "aten::_addmm_activation",
        lambda c, a, b: ops._addmm_activation(c, a, b, use_gelu=True),
        R(3),
        R("b", 4),
        R(4, 3),
        name="gelu",
        atol=1e-3,
    ),
    case("aten::baddbmm", lambda c, a, b: torch.baddbmm(c, a, b, beta=2, alpha=3), I(1, 2), I("b", 3, 4), I("b", 4, 2)),
    case(
        "aten::baddbmm",
        lambda c, a, b: torch.baddbmm(c, a, b, beta=0),
        R(2, special=(INF,)),
        R("b", 3, 4),
        R("b", 4, 2),
    ),
    case("aten::baddbmm.dtype", torch.baddbmm, R(1), R("b", 3, 4), R("b", 4, 2)),
    case("aten::addbmm", lambda c, a, b: torch.addbmm(c, a, b, alpha=0.5), R(3, 2), R("b", 3, 4), R("b", 4, 2)),
    case("aten::addmv", lambda c, a, b: torch.addmv(c, a, b, beta=2), R("b"), R("b", 4), R(4)),
    case("aten::addr", lambda c, a, b: torch.addr(c, a, b, beta=2, alpha=3), I("b", "n"), I("b"), I("n")),
    case("aten::addr", lambda c, a, b: torch.addr(c > 1, a > 0, b > 0), R("b", 4), R("b"), R(4), name="bool"),
    case("aten::einsum", lambda x, y: torch.einsum("bhqd, bhkd -> bhqk", x, y), R("b", 2, "n", 4), R("b", 2, "m", 4)),
    case("aten::einsum", lambda x, y: torch.einsum("ij,kj", x, y), I("b", 4), I(3, 4), name="implicit"),
    case("aten::einsum", lambda x, y: torch.einsum("ij,ij->ij", x > 0, y > 0), R("b", 4), R("b", 4), name="bools"),
    case(
        "aten::einsum",
        lambda x, y: torch.einsum("ij,kj->ik", (x + 99).to(torch.uint8), (y + 77).to(torch.uint8)),
        I("b", 4),
        I(3, 1),
        name="bytes-added-up",
    ),
    case("aten::einsum", lambda x: torch.einsum("ij->ji", x > 0), R("b", 4), name="bools-turned"),
    case("aten::einsum", lambda x: torch.einsum("ij->i", x > 0), R("b", 4), name="bools-counted"),
    case("aten::einsum", lambda x: torch.einsum("ii->i", x > 0), R(4, 4), name="bools-diagonal"),
    case("aten::einsum", lambda x: torch.einsum("...ii->...i", x), R("b", 3, 3), name="diagonal"),
    case(
        "aten::einsum",
        lambda x, y: torch.einsum("...ab,...bc", x, y),
        R("b", 3, 4),
        R(4, 2),
        name="ellipsis",
    ),
    case(
        "aten::einsum",
        lambda x, y: torch.einsum("...a,b...->...ab", x, y),
        R("b", "n", 1, 4),
        R(2, "n", 4),
        name="ellipses of different sizes",
    ),
    case("aten::einsum", lambda x, y, z: torch.einsum("a,b,c->cab", x, y, z), R("b"), R("n"), R(3), name="three"),
    case(
        "aten::einsum",
        lambda x, y, z: torch.einsum("...qd,...kd,k...e->...eq", x, y, z),
        R("b", "n", 4),
        R("b", "m", 4),
        R("m", 1, 3),
        name="three-attention",
    ),
    case(
        "aten::einsum",
        lambda x, y, z: torch.einsum("i,i,jj,jk->k", x, x * 2, y, z),
        R("b"),
        R(3, 3),
        R(3, 2),
        name="four-some-summed-early",
    ),
    case("aten::einsum", lambda x: torch.einsum("ij->", x), R("b", "n"), name="sum"),
    case(
        "aten::einsum",
        lambda x, y: torch.einsum("bhqk,bkhd->bqhd", x, y),
        R("b", 2, "n", "m"),
        R("b", "m", 2, 4),
        name="axes-back",
    ),
    case("aten::einsum", lambda x, y: torch.einsum("ij,kj->ki", x, y), R("b", 4), R("n", 4), name="turned"),
    case("aten::einsum", lambda x, y: torch.einsum("ij,kj->ik", x, y), R("b", 1), I("n", 4), name="two-types"),
    case("aten::tensordot", lambda x, y: torch.tensordot(x, y, ([0, 2], [2, 0])), R("b", 3, "n"), R("n", 2, "b")),
    case("aten::tensordot", lambda x, y: torch.tensordot(x, y, 0), R("b"), R(3), name="outer"),
    case("aten::inner", torch.inner, R("b", 4), R("n", 4)),
    case("aten::inner", torch.inner, R("b", 4), R("n", 2, 4), name="3-d"),
    case("aten::inner", torch.inner, R("b", 4), R(), name="number"),
    # torch.export fixes the sizes of the factors of these products: their kernels compare them.
    case("aten::kron", torch.kron, R("b", 2), R(3, "n"), dynamic=False),
    case("aten::kron", torch.kron, I(2), R("b", 3, 2), name="ranks differ", dynamic=False),
    case("aten::chain_matmul", torch.chain_matmul, R("b", 3), R(3, 4), R(4, 2), dynamic=False),
    case(
        "aten::linalg_multi_dot",
        lambda x, y, z: torch.linalg.multi_dot([x, y, z]),
        R("b", 3),
        R(3, 4),
        R(4),
        dynamic=False,
    ),
    case("aten::bilinear", F.bilinear, R("b", "n", 3), R("b", "n", 4), R(5, 3, 4), R(5)),
    case("aten::bilinear", F.bilinear, R(3), R(4), R(5, 3, 4), name="1-d"),
    case("aten::linalg_vecdot", torch.linalg.vecdot, R("b", 4), R("b", 4)),
    case("aten::linalg_vecdot", lambda x, y: torch.linalg.vecdot(x, y, dim=0), R("b", 4), R(4), name="broadcast"),
    case("aten::linalg_cross", lambda x, y: torch.linalg.cross(x, y, dim=1), R("b", 3, "n"), R("b", 3, "n")),
    case("transformers::grouped_mm_fallback", _experts, R("n", 16), R(3, 16, 5)),
    case("aten::_grouped_mm", _grouped_floats, R(8, 16), R(3, 16, 8), name="float32"),
    case("aten::_grouped_mm", _grouped(2, 2, 8), R(8, 16), R(3, 16, 8), name="rows", **BFLOAT),
    case("aten::_grouped_mm", _grouped(8, 16, turned=True), R(2, 8, 16), R(16, 16), name="columns", **BFLOAT),
    case("aten::_grouped_mm", _grouped(8, 16, turned=True), R(8, 16), R(8, 16), name="terms", **BFLOAT),
    case("aten::_grouped_mm", _grouped(), R("b", 8, 16), R("b", 16, 8), name="batches", **BFLOAT),
    case("aten::cross", lambda x, y: ops.cross(x, y), R("k", 3), R("k", 3)),
]

DISTANCE = [
    *(
        case("aten::linalg_vector_norm", lambda x, p=p: torch.linalg.vector_norm(x, p, dim=1), R("b", "n"), name=f"{p}")
        for p in (2, 1, 0, INF, -INF, 3, 0.5, -1)
    ),
    case("aten::linalg_vector_norm", lambda x: torch.linalg.vector_norm(x, keepdim=True), R("b", 3), name="of all"),
    case("aten::linalg_vector_norm", lambda x: torch.linalg.vector_norm(x, 3), R(), name="0-d"),
    case(
        "aten::linalg_vector_norm", lambda x: torch.linalg.vector_norm(x, dtype=torch.float64), R("b", 3), name="dtype"
    ),
    case("aten::norm.Scalar", lambda x: ops.norm.Scalar(x, 3), R("b", 4)),
    case("aten::norm.ScalarOpt_dim", lambda x: ops.norm.ScalarOpt_dim(x, None, [1], True), R("b", 4)),
    case("aten::norm.ScalarOpt_dim_dtype", lambda x: x.norm(1, 1, dtype=torch.float64), R("b", 4)),
    case("aten::norm.ScalarOpt_dtype", lambda x: ops.norm.ScalarOpt_dtype(x, 2, dtype=torch.float64), R("b", 4)),
    case("aten::dist", lambda x, y: torch.dist(x, y, 1.5), R("b", 4), R(4)),
    case("aten::renorm", lambda x: torch.renorm(x, 2, 0, 1.5), R("b", 4)),
    case("aten::renorm", lambda x: torch.renorm(x, 1, -1, 2), R("b", 3, 4), name="last"),
    *(
        case(
            "aten::cdist aten::_cdist_forward",
            lambda x, y, p=p: torch.cdist(x, y, p),
            R("b", "n", 3),
            R("b", 4, 3),
            name=f"{p}",
        )
        for p in (2.0, 1.0, 0.0, INF, 1.5)
    ),
    case("aten::cdist", torch.cdist, R("b", 1, 30, 3), R(2, 26, 3), name="many"),
    case("aten::pdist aten::_pdist_forward", F.pdist, R("n", 3)),
    case("aten::pdist", lambda x: F.pdist(x, 1.5), R("n", 3), name="1.5"),
    case("aten::_euclidean_dist", lambda x, y: ops._euclidean_dist(x, y), R("n", 3), R(4, 3)),
    case("aten::pairwise_distance", lambda x, y: F.pairwise_distance(x, y, 2.0, keepdim=True), R("b", 4), R("b", 4)),
    case("aten::pairwise_distance", F.pairwise_distance, *[R("b", 4, dtype=torch.uint8, high=255)] * 2, name="bytes"),
    case("aten::cosine_similarity", lambda x, y: F.cosine_similarity(x, y), R("b", 4), R("b", 4)),
    case("aten::cosine_similarity", lambda x, y: F.cosine_similarity(x, y, -1, 0.5), R("b", 3, 4), R(4), name="eps"),
    case("aten::cosine_similarity", lambda x: F.cosine_similarity(x * 0, x), R("b", 4), name="zero"),
    # A vector that is repeated along the axis is longer than its elements are.
    case("aten::cosine_similarity", lambda x, y: F.cosine_similarity(x, y, -2), R(1, "n", 3), R(2, 1, 3), name="wide"),
    case("aten::cosine_similarity", lambda x, y: F.cosine_similarity(x, y, 0), R("n", 3), R(3), name="fewer axes"),
    case("aten::cosine_similarity", lambda x, y: F.cosine_similarity(x, y, 1), R(3), R("b", 2, 1), name="both ways"),
    case("aten::cosine_similarity", lambda x, y: F.cosine_similarity(x, y, 0), R(), R(), name="0-d"),
]

EMBEDDING = [
    case("aten::embedding", F.embedding, I("b", "n"), R(5, 3)),
    case("aten::embedding", lambda x, w: F.embedding(x.int(), w, padding_idx=0), I("b"), R(5, 3), name="padding"),
    case("aten::embedding_renorm", lambda x, w: F.embedding(x, w.clone(), max_norm=1.0), I("b", "n"), R(5, 3)),
    case("aten::_embedding_bag_forward_only", _bags("sum"), I("k"), R(5, 3)),
    *(
        case("aten::_embedding_bag_forward_only", _bags_to(end, mode, **options), I(6), R(5, 3), name=f"{name}-{end}")  # type: ignore[arg-type]
        for end in (6, 4, 2)
        for mode, options, name in (
            ("sum", {}, "last"),
            ("mean", {}, "last-mean"),
            ("max", {}, "last-max"),
            ("mean", {"padding_idx": 1}, "last-padding"),
        )
    ),
    case("aten::_embedding_bag_forward_only", _bags("mean", padding_idx=1), I(6), R(5, 3), name="mean"),
    case("aten::_embedding_bag_forward_only", _bags("max", padding_idx=-2), I(6), R(5, 3), name="max"),
    case("aten::embedding_bag.padding_idx", _bags("mean", padding_idx=-1), I(6), R(5, 3), name="last row"),
    *(
        case("aten::_embedding_bag_forward_only", _rows_as_bags(mode, **options), I("b", 4), R(5, 3), name=name)
        for mode, options, name in (
            ("sum", {}, "rows"),
            ("mean", {}, "rows-mean"),
            ("max", {}, "rows-max"),
            ("sum", {"padding_idx": 1}, "rows-padding"),
            ("mean", {"padding_idx": 0}, "rows-mean-padding"),
            ("max", {"padding_idx": -1}, "rows-max-padding"),
        )
    ),
    *(
        case("aten::_embedding_bag_forward_only", _rows_as_bags(mode, **options), I("b", "n"), R(5, 3), name=name)
        for mode, options, name in (
            ("mean", {}, "rows-of-any-length"),
            ("max", {"padding_idx": -1}, "rows-of-any-length-padding"),
        )
    ),
    case(
        "aten::_embedding_bag_forward_only",
        lambda x, w, s: F.embedding_bag(x, w, mode="sum", per_sample_weights=s),
        I("b", 4),
        R(5, 3),
        R("b", 4),
        name="weights",
    ),
    case(
        "aten::embedding_bag aten::_embedding_bag",
        lambda x, w: ops.embedding_bag(w, x, torch.tensor([0, 3, 6]), include_last_offset=True)[0],
        I(6),
        R(5, 3),
    ),
    case(
        "aten::embedding_bag.padding_idx",
        lambda x, w: ops.embedding_bag.padding_idx(w, x, torch.tensor([0, 3]), False, 0, False, None, False, 2)[0],
        I("m"),
        R(5, 3),
    ),
]

CASES = [*LINEAR, *DISTANCE, *EMBEDDING]
