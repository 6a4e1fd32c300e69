"""Weights that stay in the safetensors files of a checkpoint."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

import onnxport
from onnxport.errors import InputError
from onnxport.generation import Session

CONFIG = LlamaConfig(
    vocab_size=50,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=2,
    num_attention_heads=4,
    initializer_range=0.5,
    tie_word_embeddings=True,
)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    place = tmp_path_factory.mktemp("weights") / "checkpoint"
    # Several files, and an element type other than the configuration's.
    LlamaForCausalLM(CONFIG).bfloat16().save_pretrained(place, max_shard_size="20kB")
    (place / "README.md").write_text("A model card.")
    return place


def places(model: Path) -> dict[str, tuple[str, int]]:
    """Where each tensor outside of a model is."""
    found = {}
    for tensor in onnx.load(model, load_external_data=False).graph.initializer:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        if entries:
            found[tensor.name] = (entries["location"], int(entries["offset"]))
    return found


def test_the_files_of_the_checkpoint_are_the_files_of_the_model(checkpoint: Path) -> None:
    out = checkpoint.parent / "out"
    for _ in range(2):  # the second replaces the first
        folder = onnxport.export_pretrained(checkpoint, out, weights="reference")
        found = places(out / "model.onnx")
        shards = sorted(path.name for path in checkpoint.glob("*.safetensors"))
        assert folder.verified and len(shards) > 1
        assert sorted({place for place, _ in found.values()} - {"model.onnx.data"}) == shards
        assert all((out / name).samefile(checkpoint / name) for name in shards)
        assert not (out / "model.onnx.data").exists() or (out / "model.onnx.data").stat().st_size < 1000
        assert all(place in shards for name, (place, _) in found.items() if name.endswith("proj.weight"))
    copied = checkpoint.parent / "copied"
    onnxport.export_pretrained(checkpoint, copied, dtype=torch.bfloat16, verify=False)
    prompts = [[5, 6, 7], [8]]
    assert Session(out).generate(prompts, 8) == Session(copied).generate(prompts, 8)


def test_the_folder_of_the_checkpoint(checkpoint: Path) -> None:
    onnxport.export_pretrained(checkpoint, checkpoint, weights="reference", verify=False)
    assert (checkpoint / "README.md").read_text() == "A model card."
    assert len(Session(checkpoint).generate([[5, 6]], 3)[0]) == 3


def test_what_leaves_no_weight_as_it_is(checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"stored as torch\.bfloat16"):
        onnxport.export_pretrained(checkpoint, tmp_path, weights="reference", dtype=torch.float32)
    with pytest.raises(InputError, match="Quantized weights are written anew"):
        onnxport.export_pretrained(checkpoint, tmp_path, weights="reference", quantize="int8")
    with pytest.raises(InputError, match="a model in memory has none"):
        onnxport.export_pretrained(LlamaForCausalLM(CONFIG), tmp_path, weights="reference")

    def refuse(self: Path, target: Path) -> None:
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    with pytest.raises(InputError, match="write to a folder on the same file system"):
        onnxport.export_pretrained(checkpoint, tmp_path, weights="reference")
