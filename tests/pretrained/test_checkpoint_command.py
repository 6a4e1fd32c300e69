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
    assert json.loads(done.stdout)["files"] == ["model.onnx"]
    assert Session(out).model.session.get_outputs()[0].shape == ["batch", 1, 50]
    done = CliRunner().invoke(app, ["generate", str(out), "5,6,7", "8", "--tokens", "--max-new-tokens", "3"])
    expected = Session(out).generate([[5, 6, 7], [8]], 3)
    assert done.stdout.split() == [",".join(map(str, row)) for row in expected]
    refused = CliRunner().invoke(app, ["generate", str(out), "Once"])
    assert refused.exit_code == 1 and "has no tokenizer.json" in refused.stderr


def test_tokens_that_differ_are_an_exit_code(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "generate", lambda *args, **kwargs: [[0] * 20])
    monkeypatch.setattr(greedy, "_LENGTHS", ((3,),))
    done = CliRunner().invoke(app, ["export", str(checkpoint), "-o", str(checkpoint.parent / "out")])
    assert done.exit_code == 3 and "Greedy tokens for row 0 of prompts of 3 tokens differ" in done.stderr
