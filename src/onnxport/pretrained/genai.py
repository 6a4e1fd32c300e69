"""``genai_config.json``: what onnxruntime-genai has to know of a folder to generate with it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from onnxport.pretrained.grid_positions import grid_positions_alike, start_of_image
from onnxport.pretrained.images import merged_patches
from onnxport.pretrained.model_inputs import placeholder
from onnxport.pretrained.parts import Part
from onnxport.pretrained.states import PAST, PRESENT
from onnxport.pretrained.tasks.task import Model
from onnxport.program import ONNXProgram
from onnxport.provenance import ANEW_FROM, CACHE_BUFFERS

Described: TypeAlias = dict[str, dict[str, object]]
"""Tables of JSON by the names of their files."""

_STATES = {"key": "key", "value": "value", "conv_state": "conv", "recurrent_state": "recurrent"}
"""States that the runtime keeps, and what its names for them have in common with each."""

_GIVEN = {name: name for name in ("input_ids", "inputs_embeds", "attention_mask", "position_ids")}
_HANDED_ON = {"token_types": "per_layer_inputs"}
"""What the runtime gives to a decoder besides states, and what it hands on from the embedding, by what it calls them.

It says nothing of what is in ``per_layer_inputs``, but that there are numbers for each token.
"""

_FRAMES = 3000
"""How many frames of sound the runtime's processor makes."""

_UNKNOWN_LENGTH = 2048
"""For models that have no longest context."""


def genai_config(model: Model, parts: Sequence[Part], programs: Sequence[ONNXProgram]) -> Described:
    """The file by its name; none for a model whose states the runtime has no place for.

    The model is of the type ``decoder``: nothing but its inputs and outputs is known of it, so that any model will do.
    The runtime looks for states of convolutions there only where there are those of recurrences too; a type that has
    convolutions alone takes a list of the layers that do.
    """
    (part,), (program,) = parts, programs
    kept = _kinds_by_layer(part)
    if {"conv_state"} in kept.values() and not any("recurrent_state" in kinds for kinds in kept.values()):
        layers = ["conv" if "conv_state" in kinds else "full_attention" for _, kinds in sorted(kept.items())]
        return _described(model, part, program, {"type": "lfm2"}, {"layer_types": layers})
    return _described(model, part, program, {"type": "decoder"})


def _kinds_by_layer(part: Part) -> dict[int, set[str]]:
    """The kinds of states that each layer keeps."""
    found: dict[int, set[str]] = {}
    for name in part.inputs(part.sizes):
        layer, _, kind = name.removeprefix(f"{PAST}.").partition(".")
        if name.startswith(PAST) and layer.isdecimal():
            found.setdefault(int(layer), set()).add(kind)
    return found


def image_genai_config(model: Model, parts: Sequence[Part], programs: Sequence[ONNXProgram]) -> Described:
    """The file for features of images, embedding and decoder; none for a folder that the runtime has no loop for.

    Of the types that it knows, two say how positions are counted, whatever the model: one after another, or by time,
    height and width of what a token is of.
    """
    if len(parts) == 1:
        return genai_config(model, parts, programs)
    if [part.name for part in parts] != ["vision", "embedding", "model"]:
        return {}
    vision, embedding, part = parts
    positions = part.inputs(part.sizes).get("position_ids")
    if positions is None or positions.dim() == 2:
        counting: dict[str, object] = {"type": "phi3v"}
    elif grid_positions_alike(model):
        counting = {
            "type": "qwen2_5_vl",
            "vision_start_token_id": start_of_image(model),
        }
    else:
        return {}
    sections = {
        **counting,
        "image_token_id": placeholder(model, "image"),
        "vision": {
            "filename": vision.file,
            "spatial_merge_size": merged_patches(model),
            "inputs": {"pixel_values": "pixel_values"},
            "outputs": {"image_features": "image_features"},
        },
        "embedding": {
            "filename": embedding.file,
            "inputs": {"input_ids": "input_ids", "image_features": "image_features"},
            "outputs": {"inputs_embeds": "inputs_embeds"}
            | {known: name for name, known in _HANDED_ON.items() if name in part.axes},
        },
    }
    return _described(model, part, programs[-1], sections)


def _described(
    model: Model,
    part: Part,
    program: ONNXProgram,
    sections: Mapping[str, object],
    beside: Mapping[str, object] = MappingProxyType({}),
) -> Described:
    """The file for a decoder and what else of the model is known; none where it takes what the runtime doesn't give."""
    example = part.inputs(part.sizes)
    states = {name.removeprefix(f"{PAST}."): tensor.shape for name, tensor in example.items() if name.startswith(PAST)}
    known = _GIVEN | _HANDED_ON
    inputs = {known.get(name, ""): name for name in example if not name.startswith(PAST)}
    kinds = {name.partition(".")[2] for name in states}
    # The runtime's mask is of all tokens so far, and that of a model whose states don't grow is of the new ones.
    if "key" not in kinds or not kinds <= set(_STATES) or "" in inputs:
        return {}
    # The runtime asks the file where layers differ in this.
    heads, size = next((shape[1], shape[3]) for name, shape in states.items() if name.endswith(".key"))
    config = model.config.get_text_config(decoder=True)
    length = _number(config, "max_position_embeddings", "n_positions", default=_UNKNOWN_LENGTH)
    if ANEW_FROM in part.metadata:
        # The runtime goes on with the states that it has, and refuses texts that are longer than this.
        length = min(length, int(part.metadata[ANEW_FROM]) - 1)
    decoder = {
        "filename": part.file,
        "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
        "head_size": size,
        "hidden_size": int(model.get_input_embeddings().embedding_dim),
        "num_attention_heads": _number(config, "num_attention_heads", "n_head", default=heads),
        "num_key_value_heads": heads,
        "num_hidden_layers": 1 + max(int(name.partition(".")[0]) for name in states),
        "inputs": inputs | _patterns(PAST, "past", kinds=kinds),
        "outputs": {"logits": "logits"} | _patterns(PRESENT, "present", kinds=kinds),
        **beside,
    }
    section = {
        **sections,
        "context_length": length,
        "vocab_size": int(model.get_input_embeddings().num_embeddings),
        **_tokens(model, config),
        "decoder": decoder,
    }
    buffers = program.model.metadata_props.get(CACHE_BUFFERS, "").split()
    shared = {f"{PAST}.{name}" for name in states} <= set(buffers)
    return {"genai_config.json": {"model": section, "search": _search(model, length, shared)}}


def _search(model: Model, length: int, shared: bool) -> dict[str, object]:
    """How the runtime generates: the likeliest token, by the rules of the model's settings that it knows."""
    settings = getattr(model, "generation_config", None)
    rules = {name: getattr(settings, name, None) for name in ("min_length", "repetition_penalty")}
    search = {"do_sample": False, "max_length": length, "num_beams": 1, "past_present_share_buffer": shared}
    return search | {name: value for name, value in rules.items() if value is not None}


def speech_genai_config(model: Model, parts: Sequence[Part], programs: Sequence[ONNXProgram]) -> Described:
    """The file for an encoder and decoder; none unless the encoder hears what the runtime's processor makes.

    The runtime calls such a folder ``whisper``: features of 30 seconds go in, and the encoder returns keys and values
    for cross-attention, which is what our encoders do for any model.
    """
    encoder, decoder = parts
    heard = encoder.inputs(encoder.sizes)
    if {name: (*tensor.shape[2:],) for name, tensor in heard.items()} != {"input_features": (_FRAMES,)}:
        return {}
    config = model.config.get_text_config(decoder=True)
    layer = decoder.inputs(decoder.sizes)[f"{PAST}.0.decoder.key"]
    layers = 1 + max(int(name.split(".")[1]) for name in decoder.inputs(decoder.sizes) if name.startswith(PAST))
    shared = {
        "session_options": {"log_id": "onnxruntime-genai", "provider_options": []},
        "head_size": layer.shape[3],
        "hidden_size": int(model.get_input_embeddings().embedding_dim),
        "num_attention_heads": layer.shape[1],
        "num_key_value_heads": layer.shape[1],
        "num_hidden_layers": layers,
    }
    length = _number(config, "max_target_positions", "max_position_embeddings", default=_UNKNOWN_LENGTH)
    section = {
        "type": "whisper",
        "context_length": length,
        "vocab_size": int(model.get_input_embeddings().num_embeddings),
        **_tokens(model, config),
        "encoder": {
            "filename": encoder.file,
            **shared,
            "inputs": {"audio_features": "input_features"},
            "outputs": {"encoder_hidden_states": "encoder_hidden_states"}
            | _patterns(PRESENT, "cross_present", "encoder."),
        },
        "decoder": {
            "filename": decoder.file,
            **shared,
            "inputs": {"input_ids": "decoder_input_ids"}
            | _patterns(PAST, "past", "decoder.")
            | _patterns(PAST, "cross_past", "encoder."),
            "outputs": {"logits": "logits"} | _patterns(PRESENT, "present", "decoder."),
        },
    }
    return {"genai_config.json": {"model": section, "search": _search(model, length, False)}}


def _patterns(prefix: str, side: str, part: str = "", kinds: Collection[str] = ("key", "value")) -> dict[str, str]:
    return {f"{side}_{_STATES[kind]}_names": f"{prefix}.%d.{part}{kind}" for kind in sorted(kinds)}


def _number(config: Model, *names: str, default: int) -> int:
    """The first whole number that a configuration has under one of the names."""
    found = (getattr(config, name, None) for name in names)
    return next((value for value in found if isinstance(value, int)), default)


def _tokens(model: Model, config: Model) -> dict[str, int | list[int]]:
    """Tokens that begin, end and fill up. What the model does not name is 0; it is filled up with what ends it."""
    settings = getattr(model, "generation_config", None)
    found: dict[str, int | list[int]] = {}
    for kind in ("bos_token_id", "eos_token_id", "pad_token_id"):
        token = getattr(settings, kind, None)
        token = getattr(config, kind, None) if token is None else token
        if token is None and kind == "pad_token_id":
            ends = found["eos_token_id"]
            token = ends[0] if isinstance(ends, list) else ends
        found[kind] = 0 if token is None else token
    return found
