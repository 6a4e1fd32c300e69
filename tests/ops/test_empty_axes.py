"""Axes that have elements in the example and none at run time, where runtimes fail unless gone around."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

import onnxport
from comparison import assert_close
from onnxport.errors import InputError, OnnxExporterWarning

DYNAMIC = torch.export.Dim.DYNAMIC


def _changed_below_the_diagonal(x: torch.Tensor) -> torch.Tensor:
    row = x.unsqueeze(0) * 2
    row.diagonal().tril_()
    return row


FUNCTIONS: dict[str, Callable[[torch.Tensor], object]] = {
    "running products": lambda x: (x.cumprod(0), x.cumprod(1)),
    "running extremes": lambda x: (x.cummax(0), x.cummin(1)),
    "running over the first element": lambda x: (
        (x[:1].cumprod(0), x[:, :1].cumprod(0), x.new_ones(x.shape[0], 3)[:1].cumprod(1)),
        (x[:1].cummax(0), x[:, :1].cummin(0)),
    ),
    "each element twice": lambda x: (x.repeat_interleave(2, 0), x.repeat_interleave(2, 1)),
    "normalised over an axis": lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]),
    "whole products": lambda x: ((x * 1e6).long().prod(0), (x * 1e6).long().prod()),
    "means": lambda x: (x.mean(0), x.mean(1, keepdim=True), x.mean(), x.double().mean(0)),
    "variances": lambda x: (x.var(0), x.var(1, correction=0), x.std(), torch.var_mean(x, 1, keepdim=True)),
    "medians": lambda x: (x.median(), x.nanmedian(), (x * 9).long().median(), (x * 9).long().nanmedian()),
    "means of squares": lambda x: torch.nn.functional.rms_norm(x, x.shape[-1:]),
    "matrices by vectors": lambda x: (x @ x.new_ones(x.shape[1]), x.t() @ x.new_ones(x.shape[0])),
    "merged beside a kept axis": lambda x: (x[:, :, None, None] * torch.ones(2, 3)).flatten(1, 2).transpose(0, 1) * 2,
    "Kronecker products": lambda x: torch.kron(x, torch.ones(2, 2)),
    "diagonals filled": lambda x: x.clone().fill_diagonal_(3),
    "written to the first column": lambda x: x.scatter(-1, torch.zeros_like(x, dtype=torch.long)[..., :1], 3.0),
    "written to the first column of a diagonal": lambda x: _first_of_rows_filled(x[:, None].diagonal()),
    "truth values shifted": lambda x: ((x > 0) << 1, (x > 0) >> 1, (x > 0) << (x > 1).long()),
    "gated linear units": lambda x: (F.glu(torch.cat([x, x], 1)), F.glu(torch.cat([x, x]), 0)),
    "angles between rows": lambda x: (F.cosine_similarity(x, x.flip(1) + 1), F.cosine_similarity(x, x + 1, 0)),
    "losses of classes": lambda x: [
        F.cross_entropy(x.sum(1, keepdim=True) * torch.arange(3.0), torch.ones_like(x.sum(1)).long(), reduction=way)
        for way in ("none", "sum", "mean")
    ],
    "averages of windows, compared": lambda x: F.scaled_dot_product_attention(
        *[F.adaptive_avg_pool1d((x.sum(1, keepdim=True) * torch.arange(6.0))[None], 2)] * 3
    ),
    "averages of windows": lambda x: (
        F.adaptive_avg_pool1d(x.sum(1, keepdim=True) * torch.arange(6.0), 2),
        F.adaptive_avg_pool1d((x.sum(1, keepdim=True) * torch.arange(6.0)).expand(2, -1, -1), 3),
    ),
    "zeta functions": lambda x: torch.special.zeta(x.abs() + 2, x.abs() + 1),
    "sums of products": lambda x: (
        torch.einsum("ij,kj->ik", x, x),
        torch.einsum("ij,ik->jk", x, x),
        torch.einsum("bqhd,bkhd->bhqk", x[:, :, None, None] * torch.ones(3, 2), torch.ones(x.shape[0], 2, 3, 2)),
    ),
    "sums of products of whole numbers": lambda x: torch.einsum("ij,kj->ik", x.to(torch.uint8), x.to(torch.uint8)),
    "like the first element": lambda x: (torch.zeros_like(x[:1]), torch.full_like(x.t()[:, :1] * 2, 3), x[:1].fill_(2)),
    "means beside every second element": lambda x: (x.sum(1)[::2].neg_(), x.sum(1).mean()),
    "means of the first element": lambda x: (x[:1].mean(0), x[None].diagonal().mean(1), x[:1].var(0, correction=0)),
    "means of the last but one of many": lambda x: _means(x.sum(1, keepdim=True).repeat(1, 4).reshape(-1)[-3:-1]),
    "means beside a first element": lambda x: (x[:1, :, None].mean(2), x[:1, :, None].mean(1)),
    "like one beside the first elements": lambda x: (
        torch.zeros_like(x[:1].sum(0, keepdim=True)),
        torch.ones_like(x[:2, None].sum(0)),
        torch.ones_like(x[:1, None].sum(0)),
        x[:1].sum(0)[None].fill_(2),
    ),
    "sorted after the first is cut off": lambda x: (
        F.pad(x[1:], (0, 1, 1, 0), value=2.0).unsqueeze(1).sort(0).values,
        x[1:].sort(0, descending=True).values,
        x[1:].argsort(0),
    ),
    "means after the first is cut off": lambda x: (
        torch.cat([x[1:], x]).mean(0),
        torch.cat([x[1:], x]).mean(),
        torch.cat([x[1:], x]).var(0, correction=0),
    ),
    "made of the sizes after the first is cut off": lambda x: (
        torch.full_like(x[1:], 2),
        x.new_zeros(x.shape[1], 2).new_ones(x[1:].shape),
        x[1:, None].expand(-1, 3, -1),
        x[1:].repeat_interleave(2, 1),
        x[1:].unflatten(1, (-1, 1)).flatten(0, 1),
    ),
    "like some rows of the first column": lambda x: torch.full_like(x.new_ones(3, x.shape[0])[[0, -1], ..., :1], 3),
    "written to a diagonal of one row": lambda x: _changed_below_the_diagonal(x),
    "gamma functions": lambda x: (
        x.lgamma(),
        x.digamma(),
        torch.polygamma(1, x.abs() + 1),
        torch.mvlgamma(x.abs() + 2, 2),
    ),
    "fitted by series": lambda x: (
        torch.erfc(x),
        torch.special.erfcx(x),
        x.tanh().erfinv(),
        torch.special.bessel_y0(x.exp()),
    ),
    "a product of sizes after the first is cut off": lambda x: torch.meshgrid(
        x.sum(0)[:2], x[1:].repeat_interleave(2, 1).flatten(), indexing="ij"
    ),
    "normalised, times itself": lambda x: (
        torch.square(F.layer_norm(x, x.shape[-1:]))
        + F.layer_norm(x, x.shape[-1:]) * F.layer_norm(x.sum(0), x.shape[-1:])
    ),
    "groups of channels normalised": lambda x: F.group_norm(torch.ones(3, 6, 1) * x.sum(1) + torch.ones(6, 1), 2),
    "attention by a mask": lambda x: F.scaled_dot_product_attention(
        (x.sum(1, keepdim=True) * torch.ones(4))[None, None],
        *[torch.arange(12.0).reshape(1, 1, 3, 4)] * 2,
        torch.where(x.sum(1, keepdim=True) > torch.arange(3), 0.0, -torch.inf)[None, None],
    ),
    "batches of matrices whose rows came first": lambda x: [
        of_rows(x.sum(1)[:, None, None] * torch.arange(8.0).reshape(2, 4))
        for of_rows in (
            lambda rows: (rows.transpose(0, 1) * 0.5) @ rows.permute(1, 2, 0),
            lambda rows: rows.unflatten(2, (2, 2)).permute(1, 2, 0, 3) @ rows.permute(1, 2, 0)[:, :2],
            lambda rows: torch.einsum("lbd,mbd->blm", rows, rows + 1),
        )
    ],
    "running sums of exponentials": lambda x: (x.logcumsumexp(0), x.logcumsumexp(1)),
}


def _first_of_rows_filled(x: torch.Tensor) -> torch.Tensor:
    return x.scatter(-1, torch.zeros_like(x, dtype=torch.long)[..., :1], 3.0)


def _means(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x.mean(0), (x * 2).var(0, correction=0), torch.ones_like(x), x.cumprod(0), x.cummax(0).values


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_axis_that_is_empty_at_run_time(name: str) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> object:
            return FUNCTIONS[name](x)

    program = onnxport.export(Model(), (torch.randn(5, 4),), dynamic_shapes=({0: DYNAMIC, 1: DYNAMIC},), verbose=False)
    for shape in ((3, 6), (0, 4), (5, 0), (0, 0)):
        x = torch.randn(shape)
        assert_close(program(x), Model()(x))


READ: dict[str, Callable[[torch.Tensor], object]] = {
    "the size of the first element": lambda x: x.new_zeros(x[:1].shape[0], 2),
    "the size of the last element": lambda x: torch.ones(len(x[-1:].exp())),
    "the size of the first element of two axes": lambda x: torch.ones(x[:, :2].reshape(-1)[:1].numel()),
    "the size of two elements of merged axes": lambda x: torch.meshgrid(x[:, 0], x.reshape(-1)[-3:-1], indexing="ij")[
        0
    ],
    "the size of a diagonal": lambda x: x.new_zeros(x[:, None].diagonal().size(-1)),
    "chunks of the first element": lambda x: torch.cat(x[:1].chunk(3), 1),
    "a first element unbound": lambda x: torch.stack(x[:1].unbind(0)),
    "a first element squeezed": lambda x: x[:1].squeeze(0),
    "like numbers of the first element": lambda x: torch.full_like(x[:1].argmin(1), 3),
    "the mean of a first element beside another one": lambda x: x[:1, :, None].mean(0),
    "a first element split": lambda x: x[:1].tensor_split(2, 0)[1],
    "the first row overwritten": lambda x: _first_row_overwritten(x),
}


def _first_row_overwritten(x: torch.Tensor) -> torch.Tensor:
    copied = x[:, :2] * 2
    copied[:1] = 0
    return copied


@pytest.mark.filterwarnings("error::onnxport.errors.OnnxExporterWarning")
@pytest.mark.parametrize("name", READ)
def test_a_size_that_was_read_of_an_axis_with_elements_is_a_limit(name: str) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> object:
            return READ[name](x)

    program = onnxport.export(Model(), (torch.randn(5, 4),), dynamic_shapes=({0: "n"},), verbose=False)
    assert "n is at least 1" in program.model.graph.metadata_props["onnxport.size_limits"]
    for rows in (3, 1):
        x = torch.randn(rows, 4)
        assert_close(program(x), Model()(x))
    with pytest.raises(InputError, match=r"n is at least 1; here n is 0"):
        program(torch.randn(0, 4))


def test_the_limit_of_a_size_that_was_read_is_told() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.new_zeros(x[:1].shape[0], 2)

    program = onnxport.export(Model(), (torch.randn(5, 4),), dynamic_shapes=({0: "n"},), verbose=False)
    (told,) = program.events.of("assumption")
    assert told.message.startswith("n is at least 1 (else the size of a part of the axis was read")
    assert "x[:1].shape[0]" in told.where
    again = onnxport.export(program.exported_program, verbose=False)
    with pytest.raises(InputError, match=r"is at least 1; here .* is 0"):
        again(torch.randn(0, 4))


def test_only_sizes_that_were_read_are_limits() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> object:
            first = x[:1] + x[-1:]
            if x.shape[0] == 0:
                return first.sum(0), first.t()
            return x[:1].squeeze(0), (x[:1] * torch.ones(x[:1].shape[0])).t()

    program = onnxport.export(Model(), (torch.randn(5, 4),), dynamic_shapes=({0: "n"},), verbose=False)
    assert not program.size_limits
    for rows in (3, 0, 1):
        x = torch.randn(rows, 4)
        assert_close(program(x), Model()(x))


def test_a_program_that_others_captured_takes_axes_to_have_elements() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.new_zeros(x[:1].shape[0], 2)

    rows = torch.export.Dim("rows", min=0)
    captured = torch.export.export(Model(), (torch.randn(5, 4),), dynamic_shapes=({0: rows},))
    program = onnxport.export(captured, verbose=False)
    with pytest.raises(InputError, match=r"is at least 1; here .* is 0"):
        program(torch.randn(0, 4))


def test_first_elements_do_not_lend_memory_that_they_lack() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> object:
            largest = x.max(-1).values
            pieces = torch.cat(largest.flip(0).split(2, -1)[::-1], -1)
            filled = largest.reshape(-1).fill_(-1)
            first = torch.zeros_like(filled, dtype=torch.long)[..., :1]
            ones = x.new_ones(2 * x.shape[0], 1)
            last = ones.chunk(2, -1)[0].split(2)[-1]
            return largest, pieces, filled.scatter_(-1, first, 3), last, ones.fill_diagonal_(0)

    program = onnxport.export(Model(), (torch.randn(5, 6),), dynamic_shapes=({0: DYNAMIC},), verbose=False)
    for batch in (0, 3, 1):
        x = torch.randn(batch, 6)
        assert_close(program(x), Model()(x))


def test_sizes_of_first_elements_are_open_inside_and_stated_outside() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.relu(x[:1]).exp()

    program = onnxport.export(Model(), (torch.randn(5, 4),), dynamic_shapes=({0: DYNAMIC},), verbose=False)
    sizes = {node.op_type: node.outputs[0].shape for node in program.model.graph}
    assert {kind: str(shape) for kind, shape in sizes.items()} == {
        "Slice": "[None,4]",
        "Relu": "[None,4]",
        "Exp": "[1,4]",
    }


def test_sizes_of_first_elements_are_open_beside_those_that_are_known_after_a_branch() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            first = x[:1].exp() if x.sum() > 0 else x[1:2].sin()
            return first.neg().split(2, 1)[1] * 2

    program = onnxport.export(Model(), (torch.randn(5, 4),), dynamic_shapes=({0: DYNAMIC},), verbose=False)
    sizes = {node.op_type: str(node.outputs[0].shape) for node in program.model.graph}
    assert (sizes["If"], sizes["Neg"]) == ("[None,4]", "[None,4]")
    for rows in (3, 0):
        x = torch.ones(rows, 4)
        assert_close(program(x), Model()(x))


def test_first_elements_that_are_returned_and_read_lend_no_memory() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> object:
            y = x * 2
            pieces = ((x > 0)[..., ::2] * -3).split(2, 1)
            first = y[:1].add_(0)
            return y, pieces[-1], first, first.any(1)

    program = onnxport.export(Model(), (torch.randn(5, 4),), dynamic_shapes=({0: DYNAMIC, 1: DYNAMIC},), verbose=False)
    for shape in ((3, 5), (0, 7), (0, 0)):
        x = torch.randn(shape)
        assert_close(program(x), Model()(x))


@pytest.mark.parametrize("opset", [18, 23])
@pytest.mark.parametrize("spatial", [(), (4,), (4, 2)])
def test_groups_of_an_empty_batch(opset: int, spatial: tuple[int, ...]) -> None:
    model = torch.nn.GroupNorm(2, 6).eval()
    torch.nn.init.normal_(model.weight)
    x = torch.randn(5, 6, *spatial)
    program = onnxport.export(model, (x,), dynamic_shapes=({0: DYNAMIC},), opset_version=opset, verbose=False)
    for batch in (3, 0, 1):
        x = torch.randn(batch, 6, *spatial)
        assert_close(program(x), model(x))


@pytest.mark.parametrize("layer", [torch.nn.LSTM, torch.nn.GRU])
def test_an_empty_batch_of_sequences_is_refused(layer: type[torch.nn.LSTM | torch.nn.GRU]) -> None:
    model = layer(6, 3, batch_first=True)
    program = onnxport.export(model, (torch.randn(4, 5, 6),), dynamic_shapes=({0: DYNAMIC},), verbose=False)
    with pytest.raises(InputError, match="can't run the model on an empty batch"):
        program(torch.randn(0, 5, 6))


@pytest.mark.parametrize(("least", "operators"), [(0, "ReduceMean Shape Equal Where"), (1, "ReduceMean")])
def test_nothing_is_paid_for_an_axis_that_has_elements(least: int, operators: str) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.mean(0)

    rows = torch.export.Dim("rows", min=least)
    program = onnxport.export(Model(), (torch.randn(5, 4),), dynamic_shapes=({0: rows},), verbose=False)
    assert " ".join(node.op_type for node in program.model.graph) == operators


def test_a_count_of_none_is_ignored_among_matrices() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            none = x[x > 99]
            torch._check(none.shape[0] <= 0)
            return torch.cat([none, x])

    with pytest.warns(OnnxExporterWarning, match="goes the example's way"):
        program = onnxport.export(Model(), (torch.randn(5, 4),), dynamic_shapes=({0: DYNAMIC},), verbose=False)
    x = torch.randn(3, 4)
    assert_close(program(x), Model()(x))


def test_a_count_of_one_is_copied_to_as_many_as_there_are() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> object:
            found = x.flatten().unique()
            several = torch.zeros(3, 1) + found
            return found.copy_(x[x > 8]), several.copy_(x[x > 8]), found, several

    program = onnxport.export(Model(), (torch.arange(10.0).view(5, 2),), dynamic_shapes=({0: DYNAMIC},), verbose=False)
    for x in (torch.arange(10.0).view(5, 2), torch.arange(9.0, 15.0).view(3, 2)):
        assert_close(program(x), Model()(x))


def test_a_count_of_one_is_broadcast_to_an_axis() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> object:
            return torch.broadcast_tensors(torch.zeros_like(x).unique()[:, None], x)

    with pytest.warns(OnnxExporterWarning, match="neither is 1"):
        program = onnxport.export(Model(), (torch.randn(5, 4),), dynamic_shapes=({0: DYNAMIC},), verbose=False)
    for rows in (5, 3):
        x = torch.randn(rows, 4)
        assert_close(program(x), Model()(x))
