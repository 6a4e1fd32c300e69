"""Tasks of pretrained models other than text generation: one folder each, from a small model of random weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnx
import pytest
import small_models
import torch

import onnxport
from onnxport.errors import InputError, OnnxExporterError, OnnxExporterWarning
from onnxport.generation import Session
from onnxport.pretrained.images import find_images
from onnxport.pretrained.plain_generation import generate_plainly
from onnxport.pretrained.tasks import detect_task, find_task, image_text, model_classes

TOKENS = ["batch", "sequence"]

#: Task, type of the model, axes of the inputs, and names of the outputs.
ONE_CALL: dict[str, tuple[str, str, dict[str, list[Any]], list[str]]] = {
    "a masked language model": (
        "fill-mask",
        "bert",
        dict.fromkeys(("input_ids", "attention_mask", "token_type_ids"), TOKENS),
        ["logits"],
    ),
    "two outputs": (
        "question-answering",
        "distilbert",
        dict.fromkeys(("input_ids", "attention_mask"), TOKENS),
        ["start_logits", "end_logits"],
    ),
    "images of one size": ("image-classification", "vit", {"pixel_values": ["batch", 3, 32, 32]}, ["logits"]),
    "images of any size": (
        "image-classification",
        "poolformer",
        {"pixel_values": ["batch", 3, "height", "width"]},
        ["logits"],
    ),
    "sound": ("ctc", "wav2vec2", {"input_values": ["batch", "samples"]}, ["logits"]),
    "texts and images": (
        "zero-shot-image-classification",
        "siglip",
        {"input_ids": TOKENS, "attention_mask": TOKENS, "pixel_values": ["images", 3, 32, 32]},
        ["logits_per_image", "logits_per_text", "text_embeds", "image_embeds"],
    ),
}


def shapes(values: Any) -> dict[str, list[Any]]:
    return {
        value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in values
    }


@pytest.mark.parametrize("row", ONE_CALL)
def test_a_task_of_one_call(row: str, tmp_path: Path) -> None:
    task, kind, inputs, outputs = ONE_CALL[row]
    model = small_models.small_model(kind, find_task(task))
    assert detect_task(model.config, type(model).__name__).name == task
    # Verifying compares with eager at two other sizes.
    folder = onnxport.export_pretrained(model, tmp_path)
    assert (folder.task, folder.files, folder.verified) == (task, ("model.onnx",), True)
    graph = onnx.load(tmp_path / "model.onnx", load_external_data=False).graph
    assert shapes(graph.input) == inputs
    assert [value.name for value in graph.output] == outputs


def test_an_image_of_patches_whose_shape_is_part_of_the_file(tmp_path: Path) -> None:
    task = find_task("zero-shot-image-classification")
    config = small_models.small_configuration("siglip2")
    config.vision_config.num_patches = 9
    (kind,) = model_classes(task, config)
    with pytest.warns(OnnxExporterWarning, match=r"model.onnx takes one image of 3 x 3 patches at a time"):
        onnxport.export_pretrained(kind._from_config(config).eval(), tmp_path)
    graph = onnx.load(tmp_path / "model.onnx", load_external_data=False).graph
    assert shapes(graph.input) == {"input_ids": TOKENS, "attention_mask": TOKENS, "pixel_values": [1, 9, 192]}


def test_experts_in_a_loop_over_those_that_tokens_chose(tmp_path: Path) -> None:
    task = find_task("token-classification")
    config = small_models.small_configuration("openai_privacy_filter")
    config.num_hidden_layers = 1
    (kind,) = model_classes(task, config)
    model = kind._from_config(config).eval()
    assert onnxport.export_pretrained(model, tmp_path).verified
    assert model.get_experts_implementation() == {"": "eager"}


@pytest.mark.parametrize(
    ("task", "kind"), [("text2text-generation", "bart"), ("automatic-speech-recognition", "whisper")]
)
def test_encoder_and_decoder_generate_what_the_model_generates(task: str, kind: str, tmp_path: Path) -> None:
    model = small_models.small_model(kind, find_task(task))
    for weight in model.parameters():
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=0.3)
    folder = onnxport.export_pretrained(model, tmp_path)
    assert (folder.task, folder.files) == (task, ("encoder.onnx", "decoder.onnx"))
    decoder = onnx.load(tmp_path / "decoder.onnx", load_external_data=False).graph
    encoded = 128 if kind == "whisper" else "encoder_sequence"
    held = shapes(decoder.input)
    assert held["past_key_values.0.encoder.key"] == ["batch", 4, encoded, 8]
    assert held["past_key_values.0.decoder.key"] == ["batch", 4, "past", 8]
    assert shapes(decoder.output)["present.1.decoder.value"] == ["batch", 4, "past + sequence", 8]
    # The decoder has no weights to compute keys and values of the encoder's states with, and no branch.
    assert not [one.name for one in decoder.initializer if "encoder_attn.k_proj" in one.name]
    assert "If" not in {node.op_type for node in decoder.node}
    session, prompts = Session(tmp_path), [[5, 6, 7], [8]]
    if kind == "bart":
        # Prompts are what the encoder reads; a row that is filled up generates as it does alone.
        both = session.generate(prompts, 8, eos_token_ids=())
        assert session.generate(prompts[1:], 8, eos_token_ids=())[0] == both[1]
    else:
        with pytest.raises(InputError, match="The encoder takes input_features: pass them as inputs="):
            session.generate(prompts, 8)
        # Prompts are what the decoder goes on from.
        given = {"input_features": torch.randn(1, 16, 256, generator=torch.Generator().manual_seed(0))}
        first = session.generate([], 8, eos_token_ids=(), inputs=given)[0]
        begun = [[*session.begins.tokens, *first[:3]]]
        assert session.generate(begun, 5, eos_token_ids=(), inputs=given)[0] == first[3:]
    # The check is one that can fail.
    torch.nn.init.normal_(next(weight for name, weight in model.named_parameters() if "fc2.weight" in name))
    assert find_task(task).check(model, tmp_path)  # type: ignore[misc]


def test_images_and_text_generate_what_the_model_generates(tmp_path: Path) -> None:
    model = small_models.small_model("llava", find_task("image-text-to-text"))
    for weight in model.parameters():
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=0.3)
    folder = onnxport.export_pretrained(model, tmp_path)
    assert (folder.task, folder.files) == ("image-text-to-text", ("vision.onnx", "embedding.onnx", "model.onnx"))
    graph = onnx.load(tmp_path / "model.onnx", load_external_data=False).graph
    assert shapes(graph.input)["inputs_embeds"] == ["batch", "sequence", 32]
    # The code makes a list of what it has of the images.
    graph = onnx.load(tmp_path / "vision.onnx", load_external_data=False).graph
    assert shapes(graph.input) == {"pixel_values": ["images", 3, 32, 32]}
    graph = onnx.load(tmp_path / "embedding.onnx", load_external_data=False).graph
    assert shapes(graph.input) == {"input_ids": TOKENS, "image_features": ["image_tokens", 32]}


#: Type, what the decoder takes besides what any does, what the vision encoder takes, and how onnxruntime-genai calls
#: models that count positions so.
IMAGES: dict[str, tuple[str, dict[str, list[Any]], list[Any], str | None]] = {
    # Positions count from 1, and tokens that were generated are of another type than those of the prompt.
    "types say who sees whom": (
        "paligemma",
        {"token_types": ["batch", "sequence", 1]},
        ["images", 3, 32, 32],
        "phi3v",
    ),
    "positions in rows, and a grid of patches": (
        "qwen2_vl",
        {"position_ids": [3, "batch", "sequence"]},
        [24, 384],
        "qwen2_5_vl",
    ),
    "pieces of an image, by its size": (
        "llava_next",
        {"position_ids": ["batch", "sequence"]},
        [1, 3, 3, 32, 32],
        "phi3v",
    ),
}


@pytest.mark.filterwarnings("ignore::onnxport.errors.OnnxExporterWarning")
@pytest.mark.parametrize("row", IMAGES)
def test_what_images_bring_with_them(row: str, tmp_path: Path) -> None:
    kind, inputs, images, counted = IMAGES[row]
    model = small_models.small_model(kind, find_task("image-text-to-text"))
    for weight in model.parameters():
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=0.2)
    assert onnxport.export_pretrained(model, tmp_path).verified
    decoder = onnx.load(tmp_path / "model.onnx", load_external_data=False).graph
    held = shapes(decoder.input)
    assert {name: held[name] for name in inputs} == inputs
    vision = onnx.load(tmp_path / "vision.onnx", load_external_data=False).graph
    assert shapes(vision.input) == {"pixel_values": images}
    described = tmp_path / "genai_config.json"
    section = json.loads(described.read_text())["model"] if described.exists() else None
    assert (None if section is None else section["type"]) == counted
    if section is not None:
        assert (section["image_token_id"], section["vision"]["filename"]) == (
            model.config.image_token_id,
            "vision.onnx",
        )
        assert section.get("vision_start_token_id") == getattr(model.config, "vision_start_token_id", None)
    # Prompts without an image are counted as text is.
    tokens = torch.tensor([[5, 6, 7, 8]])
    expected = generate_plainly(model, {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)})
    assert Session(tmp_path).generate(tokens.tolist(), 20, eos_token_ids=()) == expected.sequences[:, 4:].tolist()


@pytest.mark.filterwarnings("ignore::onnxport.errors.OnnxExporterWarning")
def test_recurrences_begin_with_nothing_seen() -> None:
    # Three files do for such a model: its states are empty before a prompt, of a fixed size as they are.
    model = small_models.small_model("qwen3_5", find_task("image-text-to-text"))
    small_models.spread(model, 0.2)
    assert [part.name for part in image_text.image_text_parts(model)] == ["vision", "embedding", "model"]


@pytest.mark.parametrize("kind", ["gemma3", "git", "moss_transcribe_diarize"])
def test_models_that_read_more_than_text_are_exported_with_it(kind: str) -> None:
    config = small_models.small_configuration(kind)
    (architecture,) = model_classes(find_task("text-generation"), config)
    assert detect_task(config, architecture.__name__).name != "text-generation"


def test_sound_and_text_generate_what_the_model_generates(tmp_path: Path) -> None:
    model = small_models.small_model("audioflamingo3", find_task("audio-text-to-text"))
    for weight in model.parameters():
        if weight.dim() > 1:
            torch.nn.init.normal_(weight, std=0.3)
    folder = onnxport.export_pretrained(model, tmp_path)
    assert (folder.task, folder.files) == ("audio-text-to-text", ("audio.onnx", "embedding.onnx", "model.onnx"))
    audio = onnx.load(tmp_path / "audio.onnx", load_external_data=False).graph
    # What is padding in a recording gives no rows.
    assert shapes(audio.input) == {"input_features": ["sounds", 16, 256], "input_features_mask": ["sounds", 256]}
    embedding = onnx.load(tmp_path / "embedding.onnx", load_external_data=False).graph
    assert shapes(embedding.input) == {"input_ids": TOKENS, "audio_features": ["audio_tokens", 32]}
    # The check is one that can fail.
    torch.nn.init.normal_(next(weight for name, weight in model.named_parameters() if "multi_modal_projector" in name))
    assert find_task("audio-text-to-text").check(model, tmp_path)  # type: ignore[misc]


@pytest.mark.parametrize(("kind", "axis"), [("internvl", 0), ("smolvlm", 1)])
def test_images_stand_alone_or_by_prompt(kind: str, axis: int) -> None:
    model = small_models.small_model(kind, find_task("image-text-to-text"))
    part = image_text.vision_part(find_images(model))
    assert part.axes == {"pixel_values": {axis: "images"}}
    assert part.forward(part.inputs({"images": 2}))["image_features"].shape[1] == 32


def test_images_of_any_size_are_taken_where_positions_are_interpolated(tmp_path: Path) -> None:
    model = small_models.small_model("dinov2_with_registers", find_task("image-classification"))
    onnxport.export_pretrained(model, tmp_path)
    graph = onnx.load(tmp_path / "model.onnx", load_external_data=False).graph
    assert shapes(graph.input) == {"pixel_values": ["batch", 3, "height", "width"]}


def _looked_up(module: torch.nn.Module, given: tuple[torch.Tensor]) -> torch.Tensor:
    return given[0] * len(str(given[0].shape[-1]))


def test_sizes_that_can_not_vary_are_fixed_and_said(tmp_path: Path) -> None:
    model = small_models.small_model("dinov2_with_registers", find_task("image-classification"))
    next(module for module in model.modules() if isinstance(module, torch.nn.Conv2d)).register_forward_pre_hook(
        _looked_up
    )
    with pytest.warns(OnnxExporterWarning, match=r"(?s)one height and width only.*test_tasks.*_looked_up"):
        onnxport.export_pretrained(model, tmp_path)
    graph = onnx.load(tmp_path / "model.onnx", load_external_data=False).graph
    assert shapes(graph.input) == {"pixel_values": ["batch", 3, 32, 32]}


def test_what_has_no_task_or_inputs_is_said(tmp_path: Path) -> None:
    model = small_models.small_model("xmod", find_task("fill-mask"))
    model.config.default_language = None
    with pytest.raises(InputError, match=r"XmodForMaskedLM takes none of the inputs.*set_default_language"):
        onnxport.export_pretrained(model, tmp_path)
    with pytest.raises(OnnxExporterError, match="has no encoder and decoder"):
        onnxport.export_pretrained(
            small_models.small_model("bert", find_task("fill-mask")), tmp_path, task="text2text-generation"
        )
