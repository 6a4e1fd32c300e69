"""Calls without a translation become calls that have one; all others stay as they are."""

from __future__ import annotations

import importlib

import pytest
import torch
from prepared import Function, check, export, targets, translated

from onnxport.events import EventLog
from onnxport.prepare import prepare

DECOMPOSE = importlib.import_module("onnxport.prepare.decompose")
F = torch.nn.functional
X = torch.linspace(-1, 1, 24).reshape(4, 6)


def without(*names):
    """Translations for everything but the named operators."""
    return lambda target, of_complex=False: not any(f"aten.{name}." in f"{target}." for name in names)


CASES = {
    "huber_loss": lambda x: F.huber_loss(x, x * 2),
    "cosine_similarity": lambda x: F.cosine_similarity(x, x + 1),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x.reshape(1, -1, 3, 2), 2),
    "linalg_norm": lambda x: torch.linalg.norm(x, dim=1),
    "einsum": lambda x: torch.einsum("ij,kj->ik", x, x),
    "pad": lambda x: F.pad(x, (1, x.shape[0]), mode="constant"),
    "std_mean": lambda x: torch.std_mean(x, 0),
    "addcmul": lambda x: x.addcmul(x, x, value=2),
    "silu": lambda x: F.silu(x),
    "layer_norm": lambda x: F.layer_norm(x, (6,)),
    "softmax": lambda x: x.softmax(-1),
    "repeat_interleave": lambda x: x.repeat_interleave(2, 0),
    "select_scatter": lambda x: x.select_scatter(x[:, 0] * 2, 1, 1),
    "slice_scatter": lambda x: x.slice_scatter(x[1:] * 2, 0, 1),
    "roll": lambda x: x.roll(1, 0),
    "tril": lambda x: x.tril(),
    "meshgrid": lambda x: torch.meshgrid(x[0], x[1], indexing="xy"),
    "chunk": lambda x: torch.cat(x.chunk(2, 1)),
    "batch_norm": lambda x: F.batch_norm(x, torch.zeros(6), torch.ones(6)),
    "scaled_dot_product_attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
    "fmod": lambda x: x.fmod(0.3),
    "logsumexp": lambda x: x.logsumexp(1),
    "index_add": lambda x: x.index_add(0, torch.tensor([0, 1]), x[:2]),
    "triu": lambda x: x.triu_(1),
    "upsample_nearest2d": lambda x: F.interpolate(x[None, None], scale_factor=2.0),
    "nan_to_num": lambda x: (x / x.abs().relu()).nan_to_num(1.0),
}


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("name", CASES)
def test_decomposed(name, dynamic):
    others = [(X.repeat(2, 1),)] if dynamic else []
    program = check(CASES[name], (X,), *others, dynamic=dynamic, has_translation=without(name), exact=False)
    assert not [target for target in targets(program) if target.startswith(f"aten.{name}.")]


def test_lstm():
    module = torch.nn.LSTM(6, 3, batch_first=True)
    program = check(module, (X[None],), has_translation=without("lstm"), exact=False)
    assert "aten.lstm.input" not in targets(program)


def test_results_of_decompositions_are_decomposed_in_turn():
    def known(target, of_complex=False):
        return str(target) in {"aten.mul.Tensor", "aten.sigmoid.default", "aten.exp.default", "aten.clone.default"}

    program = check(lambda x: F.silu(x), (X,), has_translation=known, exact=False)
    assert set(targets(program)) <= {"aten.mul.Tensor", "aten.sigmoid.default"}


def test_only_the_unknown_call_is_touched():
    program = check(lambda x: F.silu(F.layer_norm(x, (6,))), (X,), has_translation=without("silu"), exact=False)
    assert targets(program)[0] == "aten.layer_norm.default"


def test_what_cannot_be_decomposed_stays():
    program = check(
        lambda x: torch.linalg.eigh(x[:, :4] @ x[:, :4].mT)[0],
        (X,),
        has_translation=without("linalg_eigh", "_linalg_eigh"),
    )
    assert "aten._linalg_eigh.default" in targets(program)


def test_sizes_stay_symbolic():
    exported = export(Function(CASES["pixel_shuffle"]), (X,), dynamic=True)
    program = prepare(exported, without("pixel_shuffle"), EventLog())
    output = next(node for node in program.graph.nodes if node.op == "output").args[0][0]
    assert any(isinstance(size, torch.SymInt) for size in output.meta["val"].shape)


def test_provenance_and_names():
    class Model(torch.nn.Module):
        def forward(self, x):
            return F.huber_loss(x, x * 2)

    program = check(Model(), (X,), has_translation=without("huber_loss"), exact=False)
    parts = [node for node in program.graph.nodes if node.name.startswith("huber_loss")]
    assert len(parts) > 3
    assert parts[-1].name == "huber_loss"
    assert all("F.huber_loss" in node.meta["stack_trace"] and "nn_module_stack" in node.meta for node in parts)


def test_equal_calls_are_traced_once(monkeypatch):
    traced = []
    original = DECOMPOSE.trace_call
    monkeypatch.setattr(DECOMPOSE, "trace_call", lambda node, function: traced.append(node) or original(node, function))
    check(lambda x: F.silu(F.silu(F.silu(x))), (X,), has_translation=without("silu"), exact=False)
    assert len(traced) == 1


def test_a_failing_decomposition_is_noted(monkeypatch):
    def broken(*args):
        raise ValueError("broken")

    monkeypatch.setattr(DECOMPOSE, "_decomposition", lambda target: broken if "silu" in str(target) else None)
    events = EventLog()
    program = prepare(export(Function(F.silu), (X,)), without("silu"), events)
    assert targets(program) == ["aten.silu.default"]
    assert [event.message for event in events.of("note")] == ["aten.silu.default could not be decomposed: broken"]


def test_no_guard_reaches_the_capture():
    exported = export(Function(CASES["pad"]), (X,), dynamic=True)
    environment = next(
        node.meta["val"].fake_mode.shape_env for node in exported.graph.nodes if node.op == "placeholder"
    )
    before = len(environment.guards), dict(environment.replacements)
    prepare(exported, without("pad"), EventLog())
    assert (len(environment.guards), dict(environment.replacements)) == before


def test_everything_translated_is_left_alone():
    exported = export(Function(CASES["softmax"]), (X,))
    assert prepare(exported, translated, EventLog()).graph is exported.graph


def test_a_call_of_complex_tensors_is_decomposed_if_only_real_ones_are_translated():
    exported = export(Function(lambda x: F.pixel_shuffle(x, 2)), (torch.zeros(1, 4, 2, 2, dtype=torch.complex64),))
    program = prepare(exported, lambda target, of_complex: not (of_complex and "pixel" in str(target)), EventLog())
    assert "aten.pixel_shuffle.default" not in targets(program)
