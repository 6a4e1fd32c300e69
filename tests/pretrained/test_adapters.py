"""LoRA adapters, written as peft writes them: kept, merged, or left open as inputs of the file."""

from __future__ import annotations

import json
import sys
import types
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import torch
from small_models import one_layer_llama
from torch import nn
from transformers import LlamaForCausalLM

import onnxport
from onnxport.errors import InputError
from onnxport.generation import Session


class LowRank(nn.Module):
    """A linear layer and what an adapter adds to it."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base_layer = base
        self.lora_A = nn.ModuleDict({"default": nn.Linear(base.in_features, 3, bias=False)})
        self.lora_B = nn.ModuleDict({"default": nn.Linear(3, base.out_features, bias=False)})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.base_layer(x) + self.lora_B["default"](self.lora_A["default"](x)) * 2.0
        return result

    def merged(self) -> nn.Linear:
        with torch.no_grad():
            self.base_layer.weight += 2.0 * self.lora_B["default"].weight @ self.lora_A["default"].weight
        return self.base_layer


class Wrapper(nn.Module):
    """What is asked of a model of peft."""

    peft_config = "default"

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def get_base_model(self) -> Any:
        return self.model

    def merge_and_unload(self) -> Any:
        self.model.lm_head = self.model.lm_head.merged()
        return self.model


def adapted() -> Any:
    torch.manual_seed(0)
    model: Any = LlamaForCausalLM(one_layer_llama()).eval()
    model.lm_head = LowRank(model.lm_head)
    return model


def test_kept_or_merged(tmp_path: Path) -> None:
    # Verifying compares with the model and its adapter.
    assert onnxport.export_pretrained(Wrapper(adapted()), tmp_path / "kept").verified
    model = adapted()
    assert onnxport.export_pretrained(Wrapper(model), tmp_path / "merged", adapters="merge").verified
    assert isinstance(model.lm_head, LowRank)
    tokens = [Session(tmp_path / folder).generate([[5, 6, 7]], 8, eos_token_ids=()) for folder in ("kept", "merged")]
    assert tokens[0] == tokens[1]


def test_a_directory_with_an_adapter_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    base: Any = LlamaForCausalLM(one_layer_llama()).eval()
    base.save_pretrained(tmp_path / "base")
    torch.save(adapted().lm_head.state_dict(), tmp_path / "adapter.pt")
    adapter = tmp_path / "adapter"
    adapter.mkdir()
    (adapter / "tokenizer_config.json").write_text("{}")
    with pytest.raises(InputError, match=r"has no config\.json"):
        onnxport.export_pretrained(adapter, tmp_path / "out")
    (adapter / "adapter_config.json").write_text("{}")
    with pytest.raises(InputError, match="names no base_model_name_or_path"):
        onnxport.export_pretrained(adapter, tmp_path / "out")
    (adapter / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "../base"}))

    class PeftModel:
        """What is asked of peft's own."""

        @staticmethod
        def from_pretrained(model: Any, place: str) -> Any:
            assert place == str(adapter)
            model.lm_head = LowRank(model.lm_head)
            model.lm_head.load_state_dict(torch.load(tmp_path / "adapter.pt"))
            return Wrapper(model)

    monkeypatch.setitem(sys.modules, "peft", types.SimpleNamespace(PeftModel=PeftModel))
    onnxport.export_pretrained(adapter, tmp_path / "out", adapters="merge", verify=False)
    there = {path.name for path in (tmp_path / "out").iterdir()}
    assert there >= {"config.json", "tokenizer_config.json"} and "adapter_config.json" not in there
    onnxport.export_pretrained(adapted(), tmp_path / "expected", verify=False)
    tokens = [Session(tmp_path / name).generate([[5, 6, 7]], 8, eos_token_ids=()) for name in ("out", "expected")]
    assert tokens[0] == tokens[1]


def test_left_open(tmp_path: Path) -> None:
    model = adapted()
    assert onnxport.export_pretrained(model, tmp_path, adapters="inputs").verified
    session: Any = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    held = {value.name: value.shape for value in session.get_overridable_initializers()}
    assert set(held) == {"lm_head.lora_A.default.weight", "lm_head.lora_B.default.weight"}
    given: dict[str, Any] = {
        "input_ids": torch.tensor([[5, 6, 7]]).numpy(),
        "attention_mask": torch.ones(1, 3, dtype=torch.int64).numpy(),
        "position_ids": torch.arange(3)[None].numpy(),
        **{f"past_key_values.0.{kind}": torch.zeros(1, 2, 0, 8).numpy() for kind in ("key", "value")},
    }
    for weight in (model.lm_head.lora_A["default"].weight, model.lm_head.lora_B["default"].weight):
        nn.init.normal_(weight)
    with torch.no_grad():
        expected = model(torch.tensor([[5, 6, 7]])).logits
    for name, shape in held.items():
        weight = model.get_parameter(name).detach()
        # Matrices are in a file as they are multiplied with.
        given[name] = (weight if list(weight.shape) == shape else weight.T).contiguous().numpy()
    torch.testing.assert_close(torch.from_numpy(session.run(["logits"], given)[0]), expected, atol=1e-4, rtol=1e-4)


def test_what_can_not_be(tmp_path: Path) -> None:
    plain = LlamaForCausalLM(one_layer_llama()).eval()
    with pytest.raises(InputError, match="a LlamaForCausalLM is no model of peft"):
        onnxport.export_pretrained(plain, tmp_path, adapters="merge")
    with pytest.raises(InputError, match="Weights that are left open are not quantized"):
        onnxport.export_pretrained(plain, tmp_path, adapters="inputs", quantize="int8")
    with pytest.raises(InputError, match="called lora_…, and the model has none"):
        onnxport.export_pretrained(plain, tmp_path, adapters="inputs", verify=False)
