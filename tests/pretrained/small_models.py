"""Models of transformers' types, small: their configurations with every size made little, by what sizes are called."""

from __future__ import annotations

import re
from typing import Any

import torch
import transformers
from transformers import LlamaConfig, PretrainedConfig

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
    (r"depth", 2),
)
SPECIAL = re.compile(r".*_token_(id|index)$|.*_token_ids$")
PLACEHOLDER = re.compile(r"(image|audio|video)_token_(id|index)")


#: Ways to make a model small, tried one after another: not every width of every type may be little.
#: As narrow, but with what configurations inside say besides sizes; with its heads as wide as before; with all its
#: widths; with all but the vocabulary.
WAYS = ("narrow", "as set", "few heads", "few layers", "whole")
_HEADS = ("num_attention_heads", "num_heads", "n_head", "n_heads", "decoder_attention_heads")
_WIDTHS = ("embed_dim", "hidden_size", "d_model", "n_embd", "dim")
_COUNTS = re.compile(r".*(layers?|depth|vocab.*|experts?|positions?|position_embeddings)")
_KEPT = re.compile(r".*head_dim|d_kv|head_size|rotary_dim|patch_size|image_size|img_size|input_size|num_mel_bins")
_LARGEST = 300_000_000


def _first(config: Any, names: tuple[str, ...]) -> int | None:
    return next((vars(config)[name] for name in names if isinstance(vars(config).get(name), int)), None)


def _widths(config: Any) -> dict[int, int]:
    """What widths become with four heads, each as wide as before; equal ones stay equal across configurations."""
    found: dict[int, int] = {}
    for value in vars(config).values():
        if isinstance(value, PretrainedConfig):
            found |= _widths(value)
    heads, width = _first(config, _HEADS), _first(config, _WIDTHS)
    if heads and width and width % heads == 0 and heads > 4:
        found[width] = 4 * (width // heads)
    return found


def _size(name: str, value: int, way: str, widths: dict[int, int]) -> int:
    """What a number of a configuration becomes."""
    if way == "whole" and not name.endswith("vocab_size"):
        return value
    if way == "few layers" and not _COUNTS.fullmatch(name):
        return value
    if way == "few heads" and (_KEPT.fullmatch(name) or value in widths):
        return widths.get(value, value)
    size = next((size for pattern, size in SIZES if re.fullmatch(pattern, name)), None)
    return value if size is None else min(size, value)


def shrunk(config: Any, way: str = "narrow", widths: dict[int, int] | None = None) -> dict[str, Any]:
    """The arguments that make a small configuration of a large one."""
    found: dict[str, Any] = {}
    widths = _widths(config) if widths is None else widths
    special = iter(range(90, 60, -1))
    layers = vars(config).get("num_hidden_layers")
    # A pyramid, whose layers differ in width.
    has_stages = len(vars(config).get("depths") or ()) == layers
    by_layer = {
        name: value
        for name, value in vars(config).items()
        if isinstance(value, list) and value and len(value) == layers and isinstance(value[0], str)
    }
    count = max([2, *(len(set(value)) for value in by_layer.values())])
    for name, value in vars(config).items():
        if isinstance(value, PretrainedConfig):
            small = shrunk(value, way, widths)
            found[name] = _kept(value) | small | _returned(value) if way == "as set" else small
            found[name]["model_type"] = value.model_type
        elif SPECIAL.match(name) and isinstance(value, int) and not name.startswith(("pad", "bos", "eos", "decoder_")):
            # Where the vocabulary is small as it is, they are in it.
            found[name] = value if vars(config).get("vocab_size", 99) < 99 else next(special)
        elif PLACEHOLDER.fullmatch(name) and value is None:
            # Checkpoints say it.
            found[name] = next(special)
        elif name == "pad_token_id" and value is None:
            found[name] = 0
        elif isinstance(value, int) and not isinstance(value, bool):
            size = value if has_stages and name == "num_hidden_layers" else _size(name, value, way, widths)
            if name.endswith("token_id"):
                found[name] = min(value, {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}.get(name, 3))
            elif name == "num_hidden_layers" and by_layer and way != "whole":
                found[name] = count
            elif size < value:
                found[name] = size
        elif name in ("depths", "num_blocks_list") and isinstance(value, (list, tuple)) and way != "whole":
            found[name] = [1] * len(value)
        elif name == "deepstack_visual_indexes" and way != "whole":
            # Layers of images whose results go to layers of text too.
            found[name] = [0]
        elif name in by_layer and way != "whole":
            kinds = list(dict.fromkeys(value))
            found[name] = (kinds * count)[:count]
    keys, heads = vars(config).get("num_key_value_heads"), vars(config).get("num_attention_heads")
    if "num_key_value_heads" in found and keys == heads and "num_attention_heads" in found:
        # As many as before, where each head had its own.
        found["num_key_value_heads"] = found["num_attention_heads"]
    return found


def _kept(config: Any) -> dict[str, Any]:
    """What a configuration says besides sizes, but for what it says of each layer."""
    layers = vars(config).get("num_hidden_layers")
    left_out = ("transformers_version", "dtype", "stage_names", "out_features")
    return {
        name: value
        for name, value in config.to_dict().items()
        if name not in left_out and not isinstance(value, (dict, type(None)))
        if not (isinstance(value, list) and len(value) == layers)
    }


def _returned(config: Any) -> dict[str, Any]:
    """As many layers of a backbone as it returns the results of; those that have stages keep them all."""
    indices = vars(config).get("_out_indices")
    if indices is None or "num_hidden_layers" not in vars(config) or "depths" in vars(config):
        return {}
    return {"num_hidden_layers": len(indices), "out_indices": list(range(1, len(indices) + 1))}


#: A backbone that needs no other library.
_RESNET = {
    "model_type": "resnet",
    "embedding_size": 8,
    "hidden_sizes": [8, 8, 16, 16],
    "depths": [1, 1, 1, 1],
    "out_features": ["stage2", "stage3", "stage4"],
}

#: Convolutions over long and short lines of text, as the published checkpoints have them.
_LINES = {
    "reduce_channel": [1, 1, 0],
    "return_channel": [1, 1, 0],
    **{
        f"{name}_{ratio}ratio": [[size, 1] if high else [1, size], [1, 1], [size // 2, 0] if high else [0, size // 2]]
        for name, high in (("vertical_long_to_small_conv", True), ("horizontal_small_to_long_conv", False))
        for ratio, size in (("long", 7), ("mid", 5), ("short", 3))
    },
    **{
        f"symmetric_conv_long_{ratio}ratio": [[size, size], [1, 1], [size // 2, size // 2]]
        for ratio, size in (("long", 7), ("mid", 5), ("short", 3))
    },
}

#: How what was seen at several scales comes together.
_HEAD = {"scale_factor_list": [1, 2, 4, 8], "kernel_list": [3, 2, 2]}

#: A backbone each of whose stages halves what the one before returns.
_HALVING = {
    "model_type": "pp_lcnet_v4",
    "stem_channels": [3, 8, 16],
    "block_configs": [[[3, 16, 16, stride, True]] for stride in (1, 2, 2, 2)],
    "out_features": ["stage1", "stage2", "stage3", "stage4"],
}

#: What doesn't fit together in a type's own default, or not with small sizes.
BESIDE: dict[str, dict[str, Any]] = {
    "gemma3": {"mm_tokens_per_image": 4},
    "shieldgemma2": {"mm_tokens_per_image": 4},
    "xmod": {"default_language": "en_XX"},
    "esm": {"vocab_size": 33},
    "reformer": {"axial_pos_embds_dim": (16, 16), "axial_pos_shape": (8, 16), "attn_layers": ["local", "local"]},
    "wav2vec2-conformer": {"vocab_size": 99},
    "moonshine_streaming": {"num_key_value_heads": 4, "head_dim": 8},
    "fun_asr_nano": {"adaptor_config": {"intermediate_size": 8, "hidden_size": 32}},
    "efficientnet": {"width_coefficient": 0.1, "depth_coefficient": 0.1, "hidden_dim": 128},
    "align": {"vision_config": {"width_coefficient": 0.1, "depth_coefficient": 0.1, "hidden_dim": 32}},
    "zoedepth": {"bottleneck_features": 32, "bin_embedding_dim": 16},
    **{
        kind: {"decoder": {"is_decoder": True, "add_cross_attention": True}}
        for kind in ("encoder-decoder", "speech-encoder-decoder", "vision-encoder-decoder")
    },
    # Features are as wide as several frames.
    "glmasr": {"audio_config": {"intermediate_size": 64}},
    "voxtral": {"audio_config": {"intermediate_size": 64}, "audio_token_id": 90},
    "pp_ocrv5_server_det": {"intraclass_block_config": _LINES, **_HEAD},
    "pp_ocrv6_medium_det": {
        "intraclass_block_config": _LINES,
        **_HEAD,
        "backbone_config": _HALVING,
        "neck_out_channels": 32,
    },
    "pp_ocrv6_small_det": {
        "backbone_config": _HALVING,
        "layer_list_out_channels": [16, 16, 16, 16],
        "neck_out_channels": 32,
    },
    # Thresholds and places in the order of reading, for each label.
    "pp_doclayout_v2": {"class_thresholds": [0.5, 0.5], "class_order": [0, 1]},
    "depth_pro": {"intermediate_hook_ids": [1, 0]},
    "lw_detr": {"projector_scale_factors": [1.0]},
    **{kind: {"embed_dim": 24, "window_size": 4} for kind in ("swin", "swinv2", "donut-swin")},
    **{
        kind: {"use_timm_backbone": False, "backbone": None, "backbone_config": _RESNET}
        for kind in ("detr", "conditional_detr", "dab-detr", "deformable_detr", "table-transformer")
    },
    **{
        kind: {
            "backbone_config": {**_RESNET, "model_type": "rt_detr_resnet", "layer_type": "basic"},
            "encoder_in_channels": [8, 16, 16],
            "decoder_in_channels": [32, 32, 32],
            "encoder_hidden_dim": 32,
        }
        for kind in ("rt_detr", "rt_detr_v2")
    },
    "chameleon": {
        "vq_config": {"resolution": 32, "base_channels": 32, "num_embeddings": 8},
        "vocabulary_map": {"<image>": 90, **{f"IMGIMG{chr(65 + i)}Z": 10 + i for i in range(8)}},
    },
    "deepseek_ocr2": {
        "text_config": {"mlp_layer_types": ["dense", "sparse"], "num_experts_per_tok": 2},
        "vision_config": {"sam_config": {"downsample_channels": [16, 32]}},
    },
    "hunyuan_vl": {
        "text_config": {
            "head_dim": 8,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 1, 1]},
        }
    },
    "cohere_compass": {
        "text_config": {
            "rope_parameters": {
                "full_attention": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]}
            }
        }
    },
    "emu3": {
        "vq_config": {
            "base_channels": 32,
            "codebook_size": 8,
            "hidden_size": 32,
            "channel_multiplier": [1, 1, 1, 1, 1],
        },
        "vocabulary_map": {
            "<image>": 90,
            "<|extra_200|>": 9,
            **{f"<|visual token {i:06d}|>": 10 + i for i in range(8)},
        },
    },
    "muse_glimmer": {"out_hidden_size": 128},
    "muse_spark": {"out_hidden_size": 128},
    "qwen4_exp": {
        "text_config": {
            "indexer_n_heads": 2,
            "indexer_kv_heads": 1,
            "indexer_head_dim": 8,
            "indexer_budget": 8,
            "indexer_compress_ratio": 4,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]},
        }
    },
    "molmo2": {"adapter_config": {"vision_feature_layer": [1, 0]}},
    "nemotron_h_omni": {"vision_config": {"video_temporal_patch_size": 2}, "text_config": {"n_groups": 2}},
    "nemo_speechlm": {"text_config": {"n_groups": 2}},
    "qwen2_5_omni_thinker": {"vision_start_token_id": 88, "vision_end_token_id": 87},
    "qwen3_omni_moe_thinker": {"vision_start_token_id": 88, "vision_end_token_id": 87},
    "llama4": {
        "vision_config": {
            "intermediate_size": 128,
            "projector_input_dim": 48,
            "projector_output_dim": 48,
            "vision_output_dim": 48,
        }
    },
    "mllama": {
        "vision_config": {"intermediate_layers_indices": [0, 1], "vision_output_dim": 96},
        "text_config": {"cross_attention_layers": [1]},
    },
    "kosmos-2": {"latent_query_num": 6},
    "kosmos-2.5": {"latent_query_num": 6},
    "vipllava": {"vision_feature_layers": [-1, -2]},
    "step3p7": {"text_config": {"sliding_window": 8}},
    "paligemma": {"text_config": {"num_attention_heads": 4, "num_key_value_heads": 1}},
    "aria": {"projector_patch_to_query_dict": {16: 4, 49: 4}},
    **{
        kind: {"image_grid_pinpoints": [[32, 64], [64, 32]], "vision_config": {"image_size": 32, "patch_size": 8}}
        for kind in ("llava_next", "llava_next_video", "llava_onevision")
    },
    # Sections of a head of 8 that turn with time, height and width.
    **{
        kind: {
            "text_config": {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [1, 1, 2]}}
        }
        for kind in (
            "glm46v",
            "glm4v",
            "glm_ocr",
            "glmga",
            "paddleocr_vl",
            "qwen2_5_vl",
            "qwen2_vl",
            "qwen3_vl",
        )
    },
}
# Half of a head turns.
BESIDE["glm4v_moe"] = {"text_config": {**BESIDE["glm4v"]["text_config"], "head_dim": 16}}
#: Configurations in which one says how wide the features are that the other takes.
_FEATURE_WIDTHS = {
    "qwen2_vl": "hidden_size",
    **dict.fromkeys(("qwen2_5_vl", "qwen3_vl", "glm4v", "glm46v", "glm4v_moe", "glm_ocr", "glmga"), "out_hidden_size"),
}


def _with(given: dict[str, Any], beside: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a configuration and of those inside it, with others in the place of some."""
    found = dict(given)
    for name, value in beside.items():
        inner = given.get(name)
        found[name] = _with(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return found


def small_configuration(kind: str, way: str = "narrow") -> Any:
    """A configuration of a type, small."""
    cls = transformers.models.auto.configuration_auto.CONFIG_MAPPING[kind]
    plain = cls()
    for name, inner in cls.sub_configs.items():
        # Some leave out a part of the model unless its configuration is given.
        if getattr(plain, name, None) is None and name.startswith("vision") and issubclass(inner, PretrainedConfig):
            setattr(plain, name, inner())
    given = shrunk(plain, way)
    given = _with(given, BESIDE.get(kind, {}))
    if kind in _FEATURE_WIDTHS:
        given["vision_config"][_FEATURE_WIDTHS[kind]] = given["text_config"].get("hidden_size", 32)
    return cls(**given)


def small_model(kind: str, task: Task, way: str = "narrow") -> Any:
    """A model of a type as the library builds it for a task, with random weights."""
    torch.manual_seed(0)
    config = small_configuration(kind, way)
    (cls, *_) = model_classes(task, config)
    if way != "narrow":
        with torch.device("meta"):
            count = sum(weight.numel() for weight in cls._from_config(config).parameters())
        if count > _LARGEST:
            raise MemoryError(f"{count} parameters")
    return cls._from_config(config).eval()


def spread(model: Any, std: float) -> None:
    """Draw weights anew, wide enough that tokens follow from the input instead of repeating, and open all gates."""
    for weight in model.parameters():
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=std)
        elif weight.numel() == 1 and not bool(weight.any()):
            torch.nn.init.ones_(weight)


def one_layer_llama() -> LlamaConfig:
    """A language model of one layer, whose tokens follow from the prompt instead of repeating."""
    return LlamaConfig(
        vocab_size=50,
        hidden_size=16,
        intermediate_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        initializer_range=0.5,
    )
