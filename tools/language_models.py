"""Export a small model of every decoder that transformers has, and write which of them generate the library's tokens.

Each model is built from its configuration with small numbers in place of large ones and random weights that are large
enough for tokens to follow from the prompt. ``export_pretrained`` alone does the rest, with its verification on.

    python tools/language_models.py --out build/language_models.json [llama qwen2 ...]
    python tools/language_models.py --out build/language_models.json --write docs/language_models.md

With types and a page to write, these are measured again and the other rows stay as the page has them.
"""

from __future__ import annotations

import argparse
import json
import re
import tempfile
import time
import traceback
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from own_process import in_own_process
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING, MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

import onnxport
from onnxport.errors import OnnxExporterError
from onnxport.generation import Session

#: How far weights spread. Those of embeddings little: where they are tied to the logits, a token would repeat itself.
SPREADS = {torch.nn.Linear: 0.4, torch.nn.Embedding: 0.1}


def _all(value: int, names: str) -> dict[str, int]:
    return dict.fromkeys(names.split(), value)


#: Small numbers by the names that configurations give them.
SMALL: dict[str, Any] = {
    **_all(32, "hidden_size n_embd d_model embedding_size dim attention_hidden_size"),
    **_all(48, "intermediate_size ffn_dim n_inner decoder_ffn_dim dim_ff dff ffn_hidden_size"),
    **_all(2, "num_hidden_layers n_layer n_layers num_layers decoder_layers"),
    **_all(2, "encoder_layers num_encoder_layers num_decoder_layers"),
    **_all(4, "num_attention_heads n_head n_heads num_heads decoder_attention_heads"),
    **_all(4, "encoder_attention_heads num_encoder_attention_heads num_decoder_attention_heads"),
    **_all(2, "num_key_value_heads num_kv_heads multi_query_group_num"),
    **_all(8, "head_dim attention_head_dim dim_head d_kv rotary_dim kv_channels"),
    **_all(8, "qk_rope_head_dim qk_nope_head_dim v_head_dim index_head_dim"),
    **_all(16, "q_lora_rank kv_lora_rank o_lora_rank"),
    **_all(99, "vocab_size vocab_size_per_layer_input"),
    **_all(128, "max_position_embeddings n_positions n_ctx max_sequence_length max_seq_len"),
    **_all(4, "num_experts num_local_experts n_routed_experts moe_num_experts"),
    **_all(2, "num_experts_per_tok moe_top_k moe_k num_experts_per_token"),
    **_all(16, "moe_intermediate_size shared_expert_intermediate_size expert_ffn_hidden_size"),
    **_all(1, "n_group topk_group n_shared_experts num_shared_experts moe_num_shared_experts"),
    **_all(1, "first_k_dense_replace num_dense_layers"),
    **_all(6, "sliding_window attention_chunk_size window_size local_attention attention_window_size"),
    **_all(8, "state_size mamba_d_state ssm_state_size mamba_state_dim"),
    **_all(4, "mamba_n_heads mamba_num_heads n_mamba_heads"),
    **_all(16, "mamba_d_head mamba_head_dim"),
    **_all(4, "linear_num_key_heads linear_num_value_heads linear_key_head_dim linear_value_head_dim"),
    **_all(32, "lru_width hidden_size_per_layer_input mamba_d_ssm"),
    **_all(4, "time_step_rank mamba_dt_rank"),
    "mamba_n_groups": 1,
    "n_groups": 1,
    "chunk_size": 4,
    "mamba_chunk_size": 4,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "is_decoder": True,
}
#: What does not fit together in these numbers for one type, or what it needs besides.
BESIDE: dict[str, dict[str, Any]] = {
    "mamba2": {"num_heads": 4, "head_dim": 16, "expand": 2},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"]},
    "gemma3n_text": {"num_kv_shared_layers": 0},
    "zamba": {
        "num_hidden_layers": 5,
        "attn_layer_period": 2,
        "attn_layer_offset": 1,
        "attention_hidden_size": 64,
        "attention_head_dim": 16,
    },
    "zamba2": {
        "layers_block_type": ["mamba", "hybrid"],
        "use_mem_eff_path": False,
        "attention_hidden_size": 64,
        "attention_head_dim": 16,
    },
    "falcon_h1": {"mamba_d_ssm": 64},
    "zaya": {"num_experts_per_tok": 1},
    "xmod": {"default_language": "en_XX"},
    "reformer": {"axial_pos_embds_dim": (16, 16), "axial_pos_shape": (8, 16), "attn_layers": ["local", "local"]},
    "granitemoehybrid": {"layer_types": ["mamba", "attention"]},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "expert_layer_offset": 1},
    "bamba": {"attn_layer_indices": [1]},
    "xlstm": {"num_heads": 4, "hidden_size": 128},
    "cohere_compass_text": {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 1e4}}},
    "lfm2": {"layer_types": ["conv", "full_attention"]},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
}


def decoder_types() -> list[str]:
    """The types that the library has for text alone; those that take images or sound too are in model_types.py."""
    plain = (kind for kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES if not transformers.CONFIG_MAPPING[kind].sub_configs)
    return list(plain)


def small_config(kind: str) -> Any:
    """The configuration of a type, with small numbers."""
    plain = transformers.CONFIG_MAPPING[kind]()
    plain = plain.get_text_config(decoder=True) if type(plain) not in MODEL_FOR_CAUSAL_LM_MAPPING else plain
    known = {name for name in (*plain.to_dict(), *plain.attribute_map) if name in SMALL}
    stated = plain.to_dict()
    numbers = {name: SMALL[name] for name in known if _fits(stated.get(name), SMALL[name])}
    if "kv_lora_rank" in stated:
        # Attention of this kind has as many keys as queries.
        numbers["num_key_value_heads"] = 4
    types = stated.get("layer_types")
    if types:
        distinct = list(dict.fromkeys(types))
        numbers["layer_types"] = distinct if len(distinct) > 1 else distinct * 2
        for name in ("num_hidden_layers", "n_layer", "num_layers"):
            if name in numbers:
                numbers[name] = len(numbers["layer_types"])
    return type(plain)(**{**numbers, **BESIDE.get(kind, {})})


def _fits(default: object, value: object) -> bool:
    return default is None or isinstance(default, int | float) == isinstance(value, int | float)


def small_model(kind: str) -> Any:
    """A model of a type, with random weights."""
    torch.manual_seed(0)
    config = small_config(kind)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    for module in model.modules():
        if type(module) in SPREADS:
            torch.nn.init.normal_(module.weight, std=SPREADS[type(module)])
    return model


def outcome(kind: str) -> dict[str, Any]:
    """What became of one type: the stage that it reached, and why it went no further."""
    start = time.process_time()
    stage = "build"
    try:
        with warnings.catch_warnings(action="ignore"), tempfile.TemporaryDirectory() as out:
            model = small_model(kind)
            stage = "eager"
            with torch.no_grad():
                model(torch.randint(3, 90, (2, 5)))
            stage = "export"
            onnxport.export_pretrained(model, out)
            tokens = Session(out).generate([[5, 6, 7]], 20, eos_token_ids=())[0]
    except Exception as error:  # noqa: BLE001 - whatever a type raises is its row
        where = "".join(traceback.format_tb(error.__traceback__)[-2:])
        stage = "tokens" if "don't do what the model does" in str(error) else stage
        kept = [type(error).__name__, str(error), where if not isinstance(error, OnnxExporterError) else ""]
        return {"stage": stage, "error": kept, "seconds": round(time.process_time() - start, 1)}
    return {"stage": "equal", "distinct": len(set(tokens)), "seconds": round(time.process_time() - start, 1)}


HEAD = """# Language models

Written by `make language-models`: a small model of each decoder in transformers {version}, a few layers and random
weights, through `onnxport.export_pretrained` alone. *equal* means that the file's outputs equal the model's at four
sizes, an empty past and a single new token among them, and that 20 greedy tokens equal those of `model.generate` for
one prompt, for a prompt of one token, and for a padded batch of two. Of {all} types {equal} are equal{rest}. Types that
can't be built or run with small numbers are left out ({left_out}), and so are {unmeasured} that were not measured.

| type | outcome | different tokens of 20 |
|---|---|---:|
"""
WORDS = {"export": "refused", "tokens": "wrong, and refused by the verification"}


def page(found: dict[str, Any]) -> str:
    """The table of what was measured."""
    rows, left_out = [], []
    for kind, row in sorted(found.items()):
        if row["stage"] in ("build", "eager"):
            left_out.append(kind)
            continue
        reason = "" if row["stage"] == "equal" else f"{WORDS[row['stage']]}: {_reason(row['error'])}"
        rows.append(f"| {kind} | {reason or 'equal'} | {row.get('distinct', '')} |")
    equal = sum(row["stage"] == "equal" for row in found.values())
    wrong = sum(row["stage"] == "tokens" for row in found.values())
    rest = f", {len(rows) - equal - wrong} are refused while they are exported, {wrong} by the verification"
    names = ", ".join(left_out) or "none"
    version = transformers.__version__
    return HEAD.format(
        version=version,
        all=len(rows),
        equal=equal,
        rest=rest,
        left_out=names,
        unmeasured=len(set(decoder_types()) - set(found)),
    ) + "".join(f"{row}\n" for row in rows)


def rows_of(text: str) -> dict[str, Any]:
    """What a page says was measured."""
    found: dict[str, Any] = {}
    left_out = re.search(r"are left out \((.*?)\)", text, re.DOTALL)
    for kind in [] if left_out is None else left_out[1].split(", "):
        found[kind] = {"stage": "build", "error": ["", "", ""]}
    for kind, outcome, distinct in re.findall(r"^\| (\S+) \| (.*) \| (\d*) \|$", text, re.MULTILINE):
        stage = next((stage for stage, words in WORDS.items() if outcome.startswith(f"{words}: ")), "equal")
        reason = re.sub(r"\\(.)", r"\1", outcome.removeprefix(f"{WORDS.get(stage)}: "))
        told = {"distinct": int(distinct)} if distinct else {"error": ["", reason, ""]}
        found[kind] = {"stage": stage, **told}
    return found


def _reason(error: list[str]) -> str:
    text = " ".join(error[1].split()) if error[1] else error[0]
    text = re.sub(r"The files in \S+ don't do what the model does for text-generation: - ", "", text)
    return (text if len(text) <= 160 else f"{text[:160]} …").replace("|", "\\|").replace("_", "\\_").replace("<", "\\<")


def main() -> None:
    """Measure the types named, or all that have no outcome yet."""
    parser = argparse.ArgumentParser()
    parser.add_argument("kinds", nargs="*")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--write", type=Path)
    parser.add_argument("--limit", type=float, default=1e9, help="seconds after which no other type is begun")
    parser.add_argument("--seconds", type=int, default=120, help="how long one type may compute")
    given = parser.parse_args()
    found: dict[str, Any] = json.loads(given.out.read_text()) if given.out.exists() else {}
    if given.kinds and given.write is not None:
        found = rows_of(given.write.read_text(encoding="utf-8")) | found
    kinds = given.kinds or ([] if given.write else [kind for kind in decoder_types() if kind not in found])
    end = time.monotonic() + given.limit
    for kind in kinds:
        if time.monotonic() > end:
            break
        told = f"not done within {given.seconds} s, or crashed"
        late = {"stage": "export", "error": ["", told, ""], "seconds": given.seconds}
        found[kind] = in_own_process(partial(outcome, kind), given.seconds) or late
        shown = found[kind].get("error", [""])
        print(
            kind, found[kind]["stage"], found[kind]["seconds"], " ".join(" ".join(shown[:2]).split())[:200], flush=True
        )
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(found, indent=1))
    if given.write is not None:
        given.write.write_text(page(found), encoding="utf-8")


if __name__ == "__main__":
    main()
