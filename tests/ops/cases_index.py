"""Rows for aten/index.py and aten/masked.py."""

from __future__ import annotations

import torch

from cases import B, I, R, case

ops = torch.ops.aten


def _by_value(x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
    count = n.item()
    torch._check(count >= 0)
    torch._check(count <= 5)
    return x[:count]


READ = [
    case("aten::select.int", lambda x: (x[0], x[:, -1], x.select(-1, 1)), R("b", 3, "n")),
    case("aten::select.int", lambda x, y: x[y.shape[0] - 1], R(9, 2), R("n"), name="run-time index"),
    case("aten::index_select", lambda x, i: x.index_select(1, i), R("b", 5), I("n", high=4)),
    case("aten::index_select", lambda x, i: x.index_select(0, i), R("b"), I(high=0), name="0-d index"),
    case("aten::index_select", lambda x, i: x.index_select(0, i), R(), I(1, high=0), name="0-d"),
    case("aten::gather", lambda x, i: x.gather(1, i), R("b", 5), I("b", "n")),
    case("aten::gather", lambda x, i: x.gather(0, i), R(5, 4), I("n", 3), name="smaller index"),
    case("aten::gather", lambda x, i: x.gather(0, i), R(), I(high=0), name="0-d"),
    case("aten::gather", lambda x, i: x.gather(0, i), R(3, 2), I(0, 2), name="empty"),
    case("aten::take", lambda x, i: x.take(i), R("n", 3), I("b", 2, low=-5, high=5)),
    case("aten::take_along_dim", lambda x, i: torch.take_along_dim(x, i, 1), R(2, 5), I(1, 3)),
    case("aten::take_along_dim", lambda x, i: torch.take_along_dim(x, i, 0), R(5, 1), I(2, 4), name="wide index"),
    case("aten::take_along_dim", lambda x, i: torch.take_along_dim(x, i), R("n", 2), I(3, 2), name="flattened"),
    case("aten::index.Tensor", lambda x, i: x[i], R(5, "n"), I("b", 2, low=-5)),
    case("aten::index.Tensor", lambda x, i: x[:, i], R("b", 5, 2), I("n", low=-5), name="second axis"),
    case("aten::index.Tensor", lambda x, i: x[i], R(5, "n"), I(), name="0-d index"),
    case("aten::index.Tensor", lambda x, m: x[m], R("n", 4), B(), name="0-d mask"),
    case("aten::index.Tensor", lambda x, i, j: x[i, j], R(5, 5, "b"), I("n", low=-5), I("n"), name="two"),
    case("aten::index.Tensor", lambda x, i, j: x[i[:, None], j], R(5, 5, 2), I("n"), I("m"), name="broadcasting"),
    case("aten::index.Tensor", lambda x, i, j: x[:, i, j], R("b", 5, 5, 2), I("n"), I("n"), name="two inner"),
    case("aten::index.Tensor", lambda x, i, j: x[i, :, j], R(5, "b", 5), I("n", 2), I(2), name="not adjacent"),
    case("aten::index.Tensor", lambda x, i: x[:, i, :, 1], R("b", 5, 2, 3), I("n"), name="with a number"),
    case("aten::index.Tensor", lambda x, m: x[m], R("b", "n"), B("b", "n"), name="mask"),
    case("aten::index.Tensor", lambda x, m: x[m], R("b", "n", 3), B("b", "n"), name="mask of rows"),
    case("aten::index.Tensor", lambda x, m: x[:, m], R("b", 5, 2), B(5), name="mask of columns"),
    case("aten::index.Tensor", lambda x, m, i: x[m, :, i], R("n", 3, 5), B("n"), I(1), name="mask and index"),
    case("aten::index.Tensor", lambda x, m, i: x[i, m], R(5, 3, 4, 2), B(3, 4), I(1), name="wide mask and index"),
    case("aten::_unsafe_index.Tensor", lambda x, i, j: ops._unsafe_index(x, [i, None, j]), R(5, 2, 5), I("n"), I("n")),
    case(
        "aten::_unsafe_masked_index",
        lambda x, m, i: ops._unsafe_masked_index(x, m, [None, i], 7),
        R("b", 5),
        B("n"),
        I("n", low=-3, high=9),
    ),
]

WRITE = [
    case("aten::index_put", lambda x, i, v: x.index_put((i,), v), R(5, "b"), I(1, low=-5), R(1, "b")),
    case("aten::index_put", lambda x, i, v: x.index_put((i,), v), R(5, 3), I("n"), R(1), name="one value"),
    case(
        "aten::index_put",
        lambda x, i, v: x.index_put((i,), v, accumulate=True),
        R(5, "b"),
        I("n"),
        R("n", "b"),
        name="add",
    ),
    case(
        "aten::index_put", lambda x, i, j, v: x.index_put((i, j), v, True), R(5, 5), I("n"), I("n"), R("n"), name="two"
    ),
    case(
        "aten::index_put",
        lambda x, i, v: ops.index_put(x, [None, i], v, True),
        R("b", 5, 2),
        I("n"),
        R("n", 1),
        name="second axis",
    ),
    case(
        "aten::index_put",
        lambda x, i, j, v: ops.index_put(x, [i, None, j], v, True),
        R(5, "b", 5),
        I(2, 1),
        I(3),
        R("b"),
        name="not adjacent",
    ),
    case(
        "aten::index_put", lambda x, m: x.index_put((m,), torch.tensor(7.0)), R("b", "n", 2), B("b", "n"), name="mask"
    ),
    case(
        "aten::index_put",
        lambda x, m, v: x.index_put((m,), v),
        R("b", "n", 3),
        B("b", "n"),
        R(1, 3),
        name="mask of rows",
    ),
    case(
        "aten::index_put", lambda x, m, v: ops.index_put(x, [None, m], v, True), R("b", 4), B(4), R(1), name="mask, add"
    ),
    case(
        "aten::index_put",
        lambda x, m, y: x.index_put((m,), y[m] * 2),
        R("b", "n"),
        B("b", "n"),
        R("b", "n"),
        name="mask, values",
    ),
    case("aten::index_put", lambda x, i, v: x.index_put((i,), v, True), B(5), I("n"), B("n"), name="bool"),
    case(
        "aten::_unsafe_index_put",
        lambda x, i, v: ops._unsafe_index_put(x, [i], v, True),
        R(5, "b"),
        I("n"),
        R("n", "b"),
    ),
    case(
        "aten::_unsafe_masked_index_put_accumulate",
        lambda x, m, i, v: ops._unsafe_masked_index_put_accumulate(x, m, [i], v),
        R(5),
        B("n"),
        I("n", low=-3, high=9),
        R("n"),
    ),
]

C = R("b", 2, dtype=torch.complex64)

MASKED = [
    case("aten::masked_select", lambda x, m: x.masked_select(m), R("b", "n"), B("n")),
    case("aten::masked_select", lambda x, m: x.masked_select(m), R(), B(), name="0-d"),
    case(
        "aten::masked_select",
        lambda x, m: x.masked_select(m),
        R("b", "n", dtype=torch.complex64),
        B("n"),
        name="complex",
    ),
    case("aten::masked_scatter", lambda x, m, v: x.masked_scatter(m, v), R("b", 4), B(4), R("b", 5)),
    case(
        "aten::masked_scatter", lambda x, m, v: x.masked_scatter(m & False, v), R("b", 4), B("b", 4), R(0), name="none"
    ),
    case("aten::nonzero aten::argwhere", lambda x: (x.nonzero(), torch.argwhere(x)), I("b", "n", low=0, high=1)),
    case("aten::nonzero aten::argwhere", lambda x: (x.nonzero(), torch.argwhere(x)), C, name="complex"),
    case("aten::where", lambda x: torch.where(x), C, name="complex"),
    case("aten::nonzero", lambda x: x.nonzero(), R("b", 4, special=(0.0, -0.0, float("nan"))), name="float"),
    case("aten::nonzero", lambda x, y: (x.nonzero(), (y * 0).nonzero()), B(), R(), name="0-d"),
    case("aten::nonzero_numpy", lambda x: x.nonzero(as_tuple=True), B("b", "n")),
    case("aten::where", lambda x: torch.where(x), B("b", "n")),
    case("aten::where", lambda x: torch.where(x), B(4), name="1-d"),
    case("aten::where", lambda x: torch.where(x), B(), name="0-d"),
    case("aten::nonzero_static", lambda x: torch.nonzero_static(x, size=7, fill_value=-2), B("b", 3)),
    case("aten::nonzero_static", lambda x: torch.nonzero_static(x, size=2), B("b", 3), name="fewer"),
    case("aten::nonzero_static", lambda x: torch.nonzero_static(x, size=2), B(), name="0-d"),
    case("aten::one_hot", lambda x: torch.nn.functional.one_hot(x, 5), I("b", "n")),
    case("aten::one_hot", lambda x: torch.nn.functional.one_hot(x, 5), I(), name="0-d"),
    case("aten::item", _by_value, R(9, "b"), I(low=1, high=5)),
    case("aten::item", lambda x, v: x * v.item(), R("b"), R(), name="float"),
    case("aten::_local_scalar_dense", lambda x, v: x + ops._local_scalar_dense(v), R("b"), B(), name="bool"),
]

CASES = [*READ, *WRITE, *MASKED]
