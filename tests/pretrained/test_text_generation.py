"""Language models of transformers: a folder from a checkpoint, and the tokens it generates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from tokenizers import Tokenizer
from transformers import (
    AutoModelForCausalLM,
    GPT2Config,
    Lfm2Config,
    LlamaConfig,
    LlamaForCausalLM,
    MambaConfig,
    MistralConfig,
    Phi3Config,
)

import onnxport
from onnxport.errors import DifferenceError, InputError, OnnxExporterWarning, SaveError
from onnxport.generation import Choice, Session
from onnxport.pretrained import checkpoint, greedy
from onnxport.pretrained.folder import write_configuration
from onnxport.pretrained.states import find_states
from onnxport.program.runtime import RuntimeSession

SMALL: dict[str, Any] = {
    "vocab_size": 99,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    # Wide enough that tokens follow from the prompt instead of repeating.
    "initializer_range": 0.5,
}
CONFIGS: dict[str, Any] = {
    "llama": LlamaConfig(**SMALL),
    # Every layer sees six positions, fewer than the prompts and what is generated.
    "mistral-windows": MistralConfig(**SMALL | {"initializer_range": 1.0}, sliding_window=6),
    # A convolution, whose state has a fixed size and is written to in place, and attention.
    "lfm2": Lfm2Config(**SMALL, layer_types=["conv", "full_attention"]),
    "gpt2": GPT2Config(vocab_size=99, n_embd=32, n_layer=2, n_head=4, n_positions=64, initializer_range=0.5),
    # Other frequencies for texts of more than twelve tokens: there the library computes all states anew.
    "long-rope": Phi3Config(
        **SMALL,
        pad_token_id=0,
        original_max_position_embeddings=12,
        rope_parameters={
            "rope_type": "longrope",
            "rope_theta": 10000.0,
            "short_factor": [1.0, 1.1, 1.2, 1.3],
            "long_factor": [1.5, 2.0, 2.5, 3.0],
            "original_max_position_embeddings": 12,
        },
    ),
}


def built(name: str) -> Any:
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(CONFIGS[name]).eval()


def shapes(values: Any) -> dict[str, list[int | str]]:
    return {
        value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in values
    }


@pytest.mark.parametrize("name", CONFIGS)
def test_a_folder_generates_what_the_model_generates(name: str, tmp_path: Path) -> None:
    folder = onnxport.export_pretrained(built(name), tmp_path)
    assert (folder.task, folder.files, folder.verified) == ("text-generation", ("model.onnx",), True)
    # Other loops have to know it.
    assert ("13 tokens or more" in (tmp_path / "README.md").read_text()) == (name == "long-rope")
    described = tmp_path / "genai_config.json"
    if described.exists():
        lengths = json.loads(described.read_text())
        expected = 12 if name == "long-rope" else 64
        assert lengths["model"]["context_length"] == lengths["search"]["max_length"] == expected
    # The check is one that can fail: twenty tokens that are not all the same.
    assert len(set(Session(tmp_path).generate([[5, 6, 7]], 20, eos_token_ids=())[0])) > 3


def test_a_model_with_few_places_is_compared_as_far_as_they_reach(tmp_path: Path) -> None:
    config = GPT2Config(vocab_size=99, n_embd=8, n_layer=1, n_head=2, n_positions=14)
    assert onnxport.export_pretrained(AutoModelForCausalLM.from_config(config).eval(), tmp_path).verified


def test_names_and_axes(tmp_path: Path) -> None:
    onnxport.export_pretrained(built("llama"), tmp_path, verify=False)
    graph = onnx.load(tmp_path / "model.onnx", load_external_data=False).graph
    past, present = ["batch", 2, "past", 8], ["batch", 2, "past + sequence", 8]
    assert shapes(graph.input) == {
        "input_ids": ["batch", "sequence"],
        "attention_mask": ["batch", "past + sequence"],
        "position_ids": ["batch", "sequence"],
        **{f"past_key_values.{layer}.{kind}": past for layer in range(2) for kind in ("key", "value")},
    }
    assert shapes(graph.output) == {
        "logits": ["batch", "sequence", 99],
        **{f"present.{layer}.{kind}": present for layer in range(2) for kind in ("key", "value")},
    }


@pytest.mark.parametrize("name", ["llama", "lfm2"])
def test_logits_of_the_last_position_alone(name: str, tmp_path: Path) -> None:
    # Verifying compares logits and tokens.
    assert onnxport.export_pretrained(built(name), tmp_path, last_logits=True).verified
    graph = onnx.load(tmp_path / "model.onnx", load_external_data=False).graph
    assert shapes(graph.output)["logits"] == ["batch", 1, 99]
    # What is not asked for is not computed: the position is chosen before the product with the vocabulary.
    (product,) = [node for node in graph.node if "logits" in node.output]
    assert product.op_type == "MatMul"


def test_a_checkpoint_in_shards_is_mapped_and_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = built("llama")
    model.save_pretrained(tmp_path / "checkpoint", max_shard_size="20KB")
    (tmp_path / "checkpoint" / "tokenizer_config.json").write_text("{}")
    # What sentence-transformers has behind a model.
    (tmp_path / "checkpoint" / "modules.json").write_text('[{"path": ""}, {"path": "1_Pooling"}, {"path": "../aside"}]')
    for place in ("checkpoint/1_Pooling", "aside"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "config.json").write_text("{}")
    assert len(list((tmp_path / "checkpoint").glob("*.safetensors"))) > 1
    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", lambda *args, **kwargs: pytest.fail("loaded"))
    out = tmp_path / "out"
    folder = onnxport.export_pretrained(tmp_path / "checkpoint", out, verify=False)
    assert folder.task == "text-generation"
    assert {path.name for path in out.iterdir()} >= {"config.json", "generation_config.json", "tokenizer_config.json"}
    assert not list(out.glob("*.index.json"))
    assert [path.parent.name for path in out.glob("*/config.json")] == ["1_Pooling"]
    assert greedy.check_tokens(model, out) == []


def test_a_tokenizer_of_the_kind_of_the_model_is_written_for_all_runtimes(tmp_path: Path) -> None:
    source, out = tmp_path / "checkpoint", tmp_path / "out"
    built("gpt2").save_pretrained(source)
    out.mkdir()
    vocabulary = {"a": 0, "b": 1, "ab": 2, "<|endoftext|>": 3}
    (source / "vocab.json").write_text(json.dumps(vocabulary))
    (source / "merges.txt").write_text("#version: 0.2\na b\n")
    write_configuration(built("gpt2"), [source], out)
    assert Tokenizer.from_file(str(out / "tokenizer.json")).encode("aab").ids == [0, 2]
    (out / "tokenizer.json").unlink()
    (source / "vocab.json").write_text("[")
    with pytest.warns(OnnxExporterWarning, match=r"has no tokenizer\.json, and none could be made"):
        write_configuration(built("gpt2"), [source], out)


@pytest.mark.parametrize(("dtype", "whole"), [(torch.float16, 4), (torch.bfloat16, 2), (torch.float32, 21)])
def test_weights_have_the_element_types_that_the_library_gives_them(
    dtype: torch.dtype, whole: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Models say which weights stay in 32 bits: some where the others are float16, some in any case.
    monkeypatch.setattr(LlamaForCausalLM, "_keep_in_fp32_modules", ["o_proj"])
    monkeypatch.setattr(LlamaForCausalLM, "_keep_in_fp32_modules_strict", ["self_*.q_proj"])
    built("llama").to(dtype).save_pretrained(tmp_path)
    loaded = checkpoint.load_checkpoint(tmp_path, None, None)
    assert loaded.files
    expected = LlamaForCausalLM.from_pretrained(tmp_path, dtype=dtype).state_dict()
    found = {name: tensor.dtype for name, tensor in loaded.model.state_dict().items()}
    assert found == {name: tensor.dtype for name, tensor in expected.items()}
    assert list(found.values()).count(torch.float32) == whole


def test_other_weights_are_found_out(tmp_path: Path) -> None:
    model = built("llama")
    onnxport.export_pretrained(model, tmp_path, verify=False)
    torch.nn.init.normal_(model.lm_head.weight, std=0.5)
    assert "Greedy tokens for row 0 of prompts of 5 tokens differ" in str(greedy.check_tokens(model, tmp_path)[0])


def test_a_folder_that_differs_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "generate", lambda *args, **kwargs: [[0] * 20] * 2)
    monkeypatch.setattr(greedy, "_LENGTHS", ((3, 8),))
    with pytest.raises(DifferenceError, match="don't do what the model does for text-generation"):
        onnxport.export_pretrained(built("llama"), tmp_path)


def test_sampling_streaming_and_ends(tmp_path: Path) -> None:
    onnxport.export_pretrained(built("llama"), tmp_path, verify=False)
    session, prompts = Session(tmp_path), [[5, 6, 7], [8]]
    steps: list[list[int | None]] = []
    greedy_tokens = session.generate(prompts, 6, eos_token_ids=(), on_step=steps.append)
    assert [list(row) for row in zip(*steps, strict=True)] == greedy_tokens
    # A padded row generates as it does alone.
    assert session.generate([[8]], 6, eos_token_ids=())[0] == greedy_tokens[1]
    drawn = Choice(do_sample=True, temperature=2.0, top_k=50, top_p=0.95, seed=3)
    assert session.generate(prompts, 6, choice=drawn) == session.generate(prompts, 6, choice=drawn)
    assert session.generate(prompts, 6, choice=Choice(do_sample=True, top_k=1), eos_token_ids=()) == greedy_tokens
    end = greedy_tokens[0][2]
    ended = session.generate([prompts[0]], 6, eos_token_ids=(end,))[0]
    assert ended == greedy_tokens[0][: greedy_tokens[0].index(end) + 1]


def test_weights_are_quantized_after_the_check(tmp_path: Path) -> None:
    folder = onnxport.export_pretrained(built("llama"), tmp_path, quantize="int8")
    kinds = {
        tensor.data_type for tensor in onnx.load(tmp_path / "model.onnx", load_external_data=False).graph.initializer
    }
    assert folder.verified and onnx.TensorProto.INT8 in kinds
    assert len(Session(tmp_path).generate([[5, 6, 7]], 3, eos_token_ids=())[0]) == 3


def test_a_recurrence_has_states_of_a_fixed_size_and_a_mask_of_new_tokens(tmp_path: Path) -> None:
    config = MambaConfig(vocab_size=99, hidden_size=16, num_hidden_layers=1, state_size=4, time_step_rank=2)
    torch.manual_seed(0)
    assert onnxport.export_pretrained(AutoModelForCausalLM.from_config(config).eval(), tmp_path).verified
    graph = onnx.load(tmp_path / "model.onnx", load_external_data=False).graph
    assert shapes(graph.input) == {
        "input_ids": ["batch", "sequence"],
        "attention_mask": ["batch", "sequence"],
        "past_key_values.0.conv_state": ["batch", 32, 4],
        "past_key_values.0.recurrent_state": ["batch", 32, 4],
    }
    # onnxruntime-genai gives a mask of all tokens.
    assert not (tmp_path / "genai_config.json").exists()


def test_what_is_refused_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"There is no task 'poetry'; there are .*, text-generation"):
        onnxport.export_pretrained(built("llama"), tmp_path, task="poetry")
    with pytest.raises(InputError, match="last_logits is for models that generate"):
        onnxport.export_pretrained(built("llama"), tmp_path, task="token-classification", last_logits=True)
    with pytest.raises(InputError, match=r"has no config\.json"):
        checkpoint.load_checkpoint(tmp_path, None, None)
    with pytest.raises(InputError, match=r"cache of Linear holds an object, of which is not known what is a tensor"):
        find_states(torch.nn.Linear(1, 1), lambda batch, length, cache: [object()], lambda kind: kind)
    with pytest.raises(InputError, match=r"has no model\.onnx"):
        Session(tmp_path)


def test_what_fails_in_comparing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = built("llama")
    with monkeypatch.context() as patch, pytest.raises(DifferenceError, match=r"model\.onnx fails: RuntimeError: size"):
        patch.setattr(RuntimeSession, "run", _failing)
        patch.setattr(greedy, "_LENGTHS", ())
        onnxport.export_pretrained(model, tmp_path)
    with monkeypatch.context() as patch, pytest.raises(InputError, match=r"itself can't generate.*--no-verify"):
        patch.setattr(LlamaForCausalLM, "prepare_inputs_for_generation", _failing)
        onnxport.export_pretrained(model, tmp_path)
    monkeypatch.setattr(LlamaForCausalLM, "forward", _failing)
    with pytest.raises(InputError, match=r"LlamaForCausalLM does not run with .* RuntimeError\('size'\)"):
        onnxport.export_pretrained(model, tmp_path)


def _failing(
    self: object, input_ids: object = None, past_key_values: object = None, use_cache: bool = True, **more: object
) -> None:
    raise RuntimeError("size")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"model_type": "nosuch"}, r"transformers can't read config\.json in .*: .*`nosuch`"),
        ({"hidden_size": 30}, r"transformers can't read config\.json in .*not a multiple of the number"),
        ({"vocab_size": 98}, r"transformers can't load .* as LlamaForCausalLM: .*"),
    ],
)
def test_configurations_that_can_not_be_loaded_are_said(settings: dict[str, Any], said: str, tmp_path: Path) -> None:
    built("llama").save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | settings))
    with pytest.raises(InputError, match=said):
        checkpoint.load_checkpoint(tmp_path, None, None)


def test_weights_that_no_file_has_are_warned_of(tmp_path: Path) -> None:
    built("llama").save_pretrained(tmp_path)
    with pytest.warns(OnnxExporterWarning, match=r"has score\.weight\. These weights of LlamaForSequence.* are random"):
        checkpoint.load_checkpoint(tmp_path, "text-classification", None)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"can't load .*Error no file named model\.safetensors"):
        checkpoint.load_checkpoint(tmp_path, None, None)
    with pytest.raises(InputError, match=r"dtype is torch\.int8; weights are floating-point numbers"):
        onnxport.export_pretrained(tmp_path, tmp_path / "out", dtype=torch.int8)
    with pytest.raises(SaveError, match="can't be made: File exists"):
        onnxport.export_pretrained(built("llama"), tmp_path / "config.json")


def test_prompts_that_can_not_be_read_are_said(tmp_path: Path) -> None:
    onnxport.export_pretrained(built("llama"), tmp_path, verify=False)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(InputError, match=r"tokenizer\.json can't be read: .* Pass lists of tokens"):
        Session(tmp_path).generate(["a"])
    with pytest.raises(InputError, match="The model fails on token 600: it has 99, from 0 on"):
        Session(tmp_path).generate([[5, 600]])
