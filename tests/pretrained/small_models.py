"""Models of transformers' types, small: their configurations with every size made little, by what sizes are called."""

from __future__ import annotations

import re
from typing import Any

import torch
import transformers
from transformers import PretrainedConfig

from onnxport.pretrained.tasks import Task, model_classes

#: What a number of a configuration becomes, by its name; the first pattern that fits decides.
SIZES: tuple[tuple[str, int], ...] = (
    (r"(num_)?key_value_heads|num_kv_heads|n_head_kv|kv_heads|num_key_value_groups", 2),
    (r".*(num_heads|attention_heads|num_attention_heads|n_heads?|n_head)", 4),
    (r".*(kv_lora_rank|q_lora_rank)", 16),
    (r"qk_rope_head_dim|qk_nope_head_dim|v_head_dim|head_dim|d_kv|attention_head_size|.*_head_dim|rotary_dim", 8),
    (r".*vocab_size|n_vocab|vocab_size_per_layer_input", 99),
    (r".*(num_hidden_layers|n_layers?|encoder_layers|decoder_layers|num_layers|num_blocks|num_encoder_layers)", 2),
    (r".*(num_decoder_layers|num_hidden_groups|num_stages_layers)", 2),
    (r".*num_queries", 7),
    (r"hidden_size|d_model|dim|n_embd|embed_dim|model_dim|attn_hidden_size|hidden_dim|true_hidden_size", 32),
    (r"embedding_size|embed_dimension|.*projection_dim|proj_dim|projection_size|.*_hidden_size|output_dim", 32),
    (r".*(intermediate_size|ffn_dim|d_ff|ffn_hidden_size|n_inner|inner_dim|ff_dim|mlp_dim|feed_forward_dim)", 48),
    (r"max_position_embeddings|n_positions|max_.*_positions|seq_length|n_ctx|max_seq_len", 128),
    (r"image_size|img_size|input_size", 32),
    (r"patch_size", 8),
    (r"num_experts|num_local_experts|n_routed_experts|moe_num_experts", 4),
    (r"num_experts_per_tok|moe_k|moe_topk|num_selected_experts|top_k_experts", 2),
    (r"sliding_window|attention_window", 8),
    (r"num_mel_bins", 16),
)
SPECIAL = re.compile(r".*_token_(id|index)$|.*_token_ids$")


def shrunk(config: Any) -> dict[str, Any]:
    """The arguments that make a small configuration of a large one."""
    found: dict[str, Any] = {}
    special = iter(range(90, 60, -1))
    for name, value in vars(config).items():
        if isinstance(value, PretrainedConfig):
            found[name] = {"model_type": value.model_type, **shrunk(value)}
        elif SPECIAL.match(name) and isinstance(value, int) and not name.startswith(("pad", "bos", "eos", "decoder_")):
            found[name] = next(special)
        elif name == "pad_token_id" and value is None:
            found[name] = 0
        elif isinstance(value, int) and not isinstance(value, bool):
            size = next((size for pattern, size in SIZES if re.fullmatch(pattern, name)), None)
            if name.endswith("token_id"):
                found[name] = min(value, {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}.get(name, 3))
            elif size is not None and size < value:
                found[name] = size
        elif name in ("depths", "num_blocks_list") and isinstance(value, (list, tuple)):
            found[name] = [1] * len(value)
        elif name == "layer_types" and isinstance(value, list):
            kinds = list(dict.fromkeys(value))
            found[name] = (kinds * 2)[:2] if len(kinds) < 3 else value[:2]
    return found


def small_configuration(kind: str) -> Any:
    """A configuration of a type, small."""
    cls = transformers.models.auto.configuration_auto.CONFIG_MAPPING[kind]
    return cls(**shrunk(cls()))


def small_model(kind: str, task: Task) -> Any:
    """A model of a type as the library builds it for a task, with random weights."""
    torch.manual_seed(0)
    config = small_configuration(kind)
    return model_classes(task, config)[0]._from_config(config).eval()
