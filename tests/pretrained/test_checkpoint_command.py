"""A checkpoint from the shell: exported, generating, and what an exit code says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from small_models import one_layer_llama
from transformers import LlamaForCausalLM
from typer.testing import CliRunner

from onnxport.command_line import app
from onnxport.generation import Session
from onnxport.pretrained import greedy


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    LlamaForCausalLM(one_layer_llama()).save_pretrained(tmp_path / "checkpoint")
    return tmp_path / "checkpoint"


def test_export_and_generate(checkpoint: Path) -> None:
    out = checkpoint.parent / "out"
    done = CliRunner().invoke(app, ["export", str(checkpoint), "-o", str(out), "--json", "--last-logits"])
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert said["files"] == ["model.onnx"] and said["largest_difference"] < 1e-5
    assert said["models"]["model.onnx"]["inputs"][0]["shape"] == ["batch", "sequence"]
    weights = LlamaForCausalLM(one_layer_llama())
    counted = sum(tensor.numel() for tensor in (*weights.parameters(), weights.model.rotary_emb.inv_freq))
    assert said["models"]["model.onnx"]["parameters"] == counted
    assert Session(out).model.session.get_outputs()[0].shape == ["batch", 1, 50]
    done = CliRunner().invoke(app, ["generate", str(out), "5,6,7", "8", "--tokens", "--max-new-tokens", "3"])
    expected = Session(out).generate([[5, 6, 7], [8]], 3)
    assert done.stdout.split() == [",".join(map(str, row)) for row in expected]
    refused = CliRunner().invoke(app, ["generate", str(out), "Once"])
    assert refused.exit_code == 1 and "has no tokenizer.json: pass --tokens" in refused.stderr


def test_options_of_other_models_are_refused(checkpoint: Path) -> None:
    for line in ("--report", "-i 3,4", "--strict"):
        refused = CliRunner().invoke(app, ["export", str(checkpoint), "-o", "out", *line.split()])
        assert refused.exit_code == 2 and "is not for the directory of a checkpoint" in refused.stderr
    refused = CliRunner().invoke(app, ["export", "net.py:build", "--task", "fill-mask"])
    assert refused.exit_code == 2 and "--task is for the directory of a checkpoint" in refused.stderr


def test_tokens_that_differ_are_an_exit_code(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "generate", lambda *args, **kwargs: [[0] * 20])
    monkeypatch.setattr(greedy, "_LENGTHS", ((3,),))
    done = CliRunner().invoke(app, ["export", str(checkpoint), "-o", str(checkpoint.parent / "out")])
    assert done.exit_code == 3 and "Greedy tokens for row 0 of prompts of 3 tokens differ" in done.stderr
