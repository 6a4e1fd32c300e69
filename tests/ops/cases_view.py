"""Rows for aten/view.py, aten/join.py and aten/rearrange.py."""

from __future__ import annotations

import torch

from cases import B, I, R, case

FLOATS = (torch.float32, torch.float16, torch.float64)
ops = torch.ops.aten


def _strided(x: torch.Tensor) -> torch.Tensor:
    return torch.as_strided(x, (2, 3), (4, 1), 2)


C = R("b", 4, dtype=torch.complex64)

VIEW = [
    case("aten::clone aten::alias", lambda x: x.clone() + ops.alias(x), R("b", 4)),
    case("aten::contiguous", lambda x: x.t().contiguous(), R("b", 4)),
    case("aten::detach aten::positive", lambda x: +x.detach() + (x * 2).detach_(), R("b", 4)),
    case("aten::lift_fresh_copy", lambda x: x + torch.tensor([1.0, 2.0]), R("b", 2)),
    case("aten::to.dtype", lambda x: x.to(torch.int32), R("b", 4, special=(-0.5, 0.5, 1.99, -1.99))),
    case("aten::to.dtype_layout", lambda x: ops.to.dtype_layout(x, dtype=torch.bool), R("b", 4, special=(0.0,))),
    case("aten::to.device", lambda x: x.to("cpu", torch.float64), R("b", 4)),
    case("aten::to.other aten::type_as", lambda x, y: (ops.to.other(x, y), x.type_as(y)), R("b", 4), I(2)),
    case("aten::_to_copy", lambda x: ops._to_copy(x, dtype=torch.int64), R("b", 4)),
    case("aten::copy", lambda x, y: ops.copy(x, y), R("b", 4), I(4)),
    case("aten::view", lambda x: x.view(-1, 6), R("b", 3, 4)),
    case("aten::view", lambda x: x.view(x.shape[0] * 3, x.shape[2]), R("b", 3, "n"), name="two run-time sizes"),
    case("aten::view", lambda x: x.view(0, 3), R(3, 0), name="empty"),
    case("aten::_unsafe_view", lambda x: ops._unsafe_view(x, [x.shape[0], 12]), R("b", 3, 4)),
    case("aten::reshape", lambda x: x.reshape(2, -1, x.shape[1]), R(4, "n")),
    case("aten::reshape", lambda x: x.reshape(()), R(1, 1), name="to 0-d"),
    case("aten::view_as", lambda x, y: x.view_as(y), R("b", 6), R("b", 2, 3)),
    case("aten::reshape_as", lambda x, y: x.reshape_as(y), R("b", 6), R("b", 2, 3)),
    case("aten::view.dtype", lambda x: (x.view(torch.uint8), x.view(torch.bool)), B("b", 4)),
    case("aten::ravel", lambda x: x.ravel(), R("b", "n")),
    case("aten::ravel", lambda x: x.ravel(), R(), name="0-d"),
    case("aten::flatten.using_ints", lambda x: x.flatten(1, -2), R("b", 3, "n", 2)),
    case("aten::flatten.using_ints", lambda x: x.flatten(), R(), name="0-d"),
    case("aten::unflatten.int", lambda x: x.unflatten(1, (2, -1)), R("b", 6)),
    case("aten::resize", lambda x: (ops.resize(x, [3]), ops.resize(x, [2, 4])[0]), R(2, 3), name="smaller and larger"),
    case("aten::resize", lambda x: ops.resize(x, [x.shape[0] * 2]), R("b", 3), name="run-time size"),
    case("aten::unsqueeze", lambda x: (x.unsqueeze(-1), x.unsqueeze(0)), R("b", 3)),
    case("aten::squeeze", lambda x: x.squeeze(), R(1, "n", 1, 3), warns="differs from 1, which squeeze would drop"),
    case("aten::squeeze.dim", lambda x: (x.squeeze(-1), x.squeeze(1)), R("n", 3, 1)),
    case("aten::squeeze.dims", lambda x: x.squeeze((0, -2, 1)), R(1, "n", 1, 3), warns="which squeeze would drop"),
    case("aten::expand", lambda x: x.expand(4, -1, x.shape[0]), R("n", 1)),
    case("aten::expand aten::broadcast_to", lambda x: x.expand(3, 2).broadcast_to(2, 3, 2), R(), name="0-d"),
    case("aten::expand_as", lambda x, y: x.expand_as(y), R("n", 1), R("b", "n", 3)),
    case("aten::broadcast_tensors", lambda x, y: torch.broadcast_tensors(x, y), R("n", 1), R(3)),
    case("aten::transpose.int", lambda x: x.transpose(0, -1), R("b", 3, "n")),
    case("aten::transpose.int aten::slice.Tensor", lambda x: x.transpose(0, -1)[1:, None], C, name="complex"),
    case(
        "aten::resize aten::broadcast_tensors",
        lambda x: torch.broadcast_tensors(ops.resize(x, [1, 2]), x[:, :1]),
        C,
        name="complex",
        dynamic=False,
    ),
    case("aten::transpose.int", lambda x: x.transpose(0, -1), R(), name="0-d"),
    case("aten::swapdims aten::swapaxes", lambda x: x.swapdims(0, 1).swapaxes(-1, 1), R("b", 3, "n")),
    case("aten::t", lambda x: x.t(), R("b", 3)),
    case("aten::numpy_T aten::mT", lambda x: (x.T, x.mT), R("b", "n")),
    case("aten::permute", lambda x: x.permute(2, -3, 1), R("b", 3, "n")),
    case("aten::movedim.int aten::moveaxis.int", lambda x: x.movedim(0, -1).moveaxis(-2, 0), R("b", 3, "n")),
    case("aten::movedim.intlist", lambda x: x.movedim((0, 1), (-1, 0)), R("b", 3, "n", 2)),
    case("aten::moveaxis.intlist", lambda x: x.moveaxis((0, 1), (-1, 0)), R("b", 3, "n", 2)),
    case("aten::slice.Tensor", lambda x: x[1:, ::2, :-1], R("n", 5, "m")),
    case("aten::slice.Tensor", lambda x: x[:, :100], R("b", 6), name="end beyond the size"),
    case("aten::slice.Tensor", lambda x: (x[-2:], x[-100:2], x[2:1]), R(5, "b"), name="from the end"),
    case("aten::slice.Tensor", lambda x, y: x[: y.shape[0]], R(9, 2), R("n"), name="run-time end"),
    case("aten::slice.Tensor", lambda x, y: x[-y.shape[0] :], R(9, 2), R("n"), name="run-time negative start"),
    case("aten::slice.Tensor", lambda x: x[x.shape[0] // 2 :], R("n", 2), name="half"),
    case("aten::narrow", lambda x: (x.narrow(0, 1, 2), x.narrow(-1, -3, 2)), R("n", "m")),
    case("aten::narrow", lambda x, y: x.narrow(0, y.shape[0] - 2, 2), R(9, 2), R("n"), name="run-time start"),
]

JOIN = [
    case("aten::cat", lambda x, y: torch.cat([x, y, x], -1), R("b", "n"), R("b", 3), dtypes=FLOATS),
    case("aten::cat", lambda x, y: torch.cat([x, y]), I("b", 2), R("n", 2), name="promotes"),
    case("aten::cat", lambda x, y: torch.cat([x, y]), R(0), R("n", 2), name="ignores empty"),
    case("aten::concat aten::concatenate", lambda x: torch.concatenate([torch.concat([x, x]), x]), R("b", 2)),
    case("aten::stack", lambda x, y: torch.stack([x, y], -1), R("b", 3), R("b", 3)),
    case("aten::stack", lambda x, y: torch.stack([x, y]), R(), R(), name="0-d"),
    case("aten::block_diag", torch.block_diag, R("b", 3), R(2), R(), I("n", 2)),
    case("aten::meshgrid.indexing", lambda x, y, z: torch.meshgrid(x, y, z, indexing="xy"), R("b"), R("n"), R(3)),
    case("aten::meshgrid", lambda x, y: ops.meshgrid([x, y]), R("b"), R(), name="0-d"),
    case("aten::cartesian_prod", torch.cartesian_prod, R("b"), R("n"), R(2)),
    case("aten::cartesian_prod", torch.cartesian_prod, R("b"), name="one"),
    case(
        "aten::cartesian_prod aten::cat",
        lambda x: torch.cartesian_prod(torch.cat([x[0], x[1]]), x[0]),
        C,
        name="complex",
        dynamic=False,
    ),
    case("aten::split_with_sizes aten::unsafe_split_with_sizes", lambda x: x.split_with_sizes([1, 3], 1), R("b", 4)),
    case("aten::unsafe_split_with_sizes", lambda x: torch.unsafe_split_with_sizes(x, [1, 3], -1), R("b", 4)),
    case("aten::split.sizes", lambda x: x.split([1, x.shape[0] - 1]), R("n", 4)),
    case("aten::split.sizes", lambda x: ops.split.sizes(x, [2, x.shape[0] - 2]), R("n", 4), name="overload"),
    case("aten::split.Tensor", lambda x: x.split(2, -1), R("b", 5)),
    case("aten::unsafe_split.Tensor", lambda x: torch.unsafe_split(x, 2, -1), R("b", 4)),
    case("aten::chunk", lambda x: x.chunk(3, 1), R("b", 7)),
    case("aten::chunk", lambda x: x.chunk(2), R("m", 2), name="run-time size", warns="differs from 1"),
    case("aten::unsafe_chunk", lambda x: torch.unsafe_chunk(x, 3, 1), R("b", 4)),
    case("aten::tensor_split.sections", lambda x: x.tensor_split(3, 1), R("b", 7)),
    case("aten::tensor_split.sections", lambda x: x.tensor_split(1), R("n", 2), name="one"),
    case("aten::tensor_split.tensor_indices_or_sections", lambda x: x.tensor_split(torch.tensor([1, 3])), R("n", 2)),
    case("aten::tensor_split.indices", lambda x: x.tensor_split((1, 3, 2, -1)), R("n", 2)),
    case("aten::hsplit.int aten::hsplit.array", lambda x: (*x.hsplit(2), *x.hsplit((1, 2))), R("b", 4)),
    case("aten::hsplit.int", lambda x: x.hsplit(2), R(4), name="1-d"),
    case("aten::vsplit.int aten::vsplit.array", lambda x: (*x.vsplit(2), *x.vsplit((1, 2))), R(4, "b")),
    case("aten::dsplit.int aten::dsplit.array", lambda x: (*x.dsplit(2), *x.dsplit((1, 2))), R("b", 2, 4)),
    case("aten::unbind.int", lambda x: x.unbind(-1), R("b", 3)),
]

REARRANGE = [
    case("aten::flip", lambda x: x.flip(0, -1), R("b", 3, "n"), dtypes=(*FLOATS, torch.bool)),
    case("aten::flip", lambda x: x.flip(0), R(0, 3), name="empty"),
    case("aten::fliplr aten::flipud", lambda x: x.fliplr() + x.flipud(), R("b", "n")),
    case("aten::rot90", lambda x: [torch.rot90(x, k, (0, 2)) for k in (-1, 0, 1, 2, 3, 5)], R("b", 3, "n")),
    case("aten::roll", lambda x: x.roll((1, -7), (0, 2)), R("b", 3, "n")),
    case("aten::roll", lambda x: x.roll(4), R("b", 3), name="flattened"),
    case("aten::roll", lambda x: x.roll(3, 1), R(2, 0), name="empty"),
    case("aten::roll", lambda x: x.roll(x.shape[0] // 2, 0), R("n", 2), name="run-time shift"),
    case("aten::repeat", lambda x: x.repeat(2, 1, 3), R("b", "n")),
    case("aten::repeat", lambda x: (x.repeat(0, 2), x.repeat(1, 1)), R("b", 3), name="none"),
    case("aten::repeat", lambda x: x.repeat(x.shape[0], 1), R("n", 2), name="run-time times"),
    case("aten::tile", lambda x: x.tile(2), R("b", "n")),
    case("aten::repeat_interleave.self_int", lambda x: (x.repeat_interleave(2, -1), x.repeat_interleave(3)), R("b", 2)),
    case("aten::repeat_interleave.self_int", lambda x: x.repeat_interleave(2), R(), name="0-d"),
    case("aten::repeat_interleave.self_Tensor", lambda x, n: x.repeat_interleave(n, 1), C, I(4), name="complex"),
    case("aten::flip aten::roll", lambda x: x.flip(0).roll(1, 1), C, name="complex"),
    case("aten::repeat_interleave.Tensor", lambda n: torch.repeat_interleave(n), I("n", low=0, high=3)),
    case(
        "aten::repeat_interleave.self_Tensor", lambda x, n: x.repeat_interleave(n, 1), R(2, "n"), I("n", low=0, high=3)
    ),
    case("aten::repeat_interleave.self_Tensor", lambda x, n: x.repeat_interleave(n), R("b", 2), I(1), name="one count"),
    case(
        "aten::repeat_interleave.self_Tensor",
        lambda x, n: x.repeat_interleave(n * 0 + 2, 0, output_size=x.shape[0] * 2),
        R("n", 2),
        I("n"),
        name="size given",
    ),
    case("aten::diagonal", lambda x: x.diagonal(1, 0, -1), R("b", 3, "n")),
    case("aten::diagonal", lambda x: [x.diagonal(k) for k in (0, 2, 9, -1, -9)], R("n", "m"), name="offsets"),
    case("aten::linalg_diagonal", lambda x: torch.linalg.diagonal(x, offset=-1), R("b", "n", "m")),
    case("aten::trace", torch.trace, R("n", "m")),
    case("aten::trace", torch.trace, R("n", 3, dtype=torch.int32), name="int"),
    case("aten::diag", lambda x: (torch.diag(x), torch.diag(x, -2)), R("n", special=(float("nan"), float("inf")))),
    case("aten::diag", lambda x: torch.diag(x, 1), R("n", 4), name="matrix"),
    case("aten::diag_embed", lambda x: (x.diag_embed(1), x.diag_embed(-2, 0, 1)), R("b", "n")),
    case("aten::diagflat", lambda x: torch.diagflat(x, 1), R("b", 2)),
    case("aten::diagonal_scatter", lambda x, y: x.diagonal_scatter(y, 1), R("n", "n"), R(4), dynamic=False),
    case("aten::diagonal_scatter", lambda x, y: x.diagonal_scatter(y, 0, 2, 0), R("n", 3, "n"), R(3, "n"), name="dims"),
    case("aten::diagonal_scatter", lambda x, y: x.diagonal_scatter(y, -1), R(4, 2), R(2), name="below"),
    case("aten::unfold", lambda x: x.unfold(1, 3, 2), R("b", "m", 2)),
    case("aten::unfold", lambda x: x.unfold(0, 1, 1), R(), name="0-d"),
    case("aten::as_strided", _strided, R(3, 4)),
    case("aten::as_strided", lambda x: _strided((x * 2).t()), R(3, 4), name="transposed"),
    case("aten::as_strided", lambda x: x.as_strided((x.shape[0], 2), (3, 1)), R("b", 3), name="run-time size"),
    case("aten::as_strided_scatter", lambda x, y: x.as_strided_scatter(y, (2, 3), (4, 1), 2), R(3, 4), R(2, 3)),
]

CASES = [*VIEW, *JOIN, *REARRANGE]
