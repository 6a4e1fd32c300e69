"""What models are given: layouts of their inputs, found by running them; nothing is exported."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import small_models
import torch
from transformers import (
    BertConfig,
    BertForPreTraining,
    BigBirdConfig,
    BigBirdForMaskedLM,
    EncoderDecoderConfig,
    EncoderDecoderModel,
    LayoutLMv3Config,
    LayoutLMv3ForTokenClassification,
    PatchTSTConfig,
    PatchTSTForPrediction,
    SamConfig,
    SamModel,
)

from onnxport.errors import InputError, OnnxExporterWarning
from onnxport.generation.files import FeaturesAndText
from onnxport.generation.runs import pieces_of
from onnxport.pretrained.checkpoint import load_checkpoint
from onnxport.pretrained.images import find_images, prompts_with_images
from onnxport.pretrained.library_loop import counted_positions
from onnxport.pretrained.model_inputs import find_inputs, main_input
from onnxport.pretrained.padding_masks import with_masks
from onnxport.pretrained.parts import Part
from onnxport.pretrained.plain_generation import generate_plainly
from onnxport.pretrained.sounds import find_sounds
from onnxport.pretrained.tasks import detect_task, find_task
from onnxport.provenance import HEARD_WHOLE

#: Task, type of the model, way to make it small, and the layouts of its inputs.
LAYOUTS: dict[str, tuple[str, str, str, dict[str, tuple[Any, ...]]]] = {
    "several types for each token": (
        "fill-mask",
        "tapas",
        "narrow",
        {
            "input_ids": ("batch", "sequence"),
            "attention_mask": ("batch", "sequence"),
            "token_type_ids": ("batch", "sequence", 7),
        },
    ),
    "features of objects beside words": (
        "question-answering",
        "lxmert",
        "narrow",
        {
            "input_ids": ("batch", "sequence"),
            "attention_mask": ("batch", "sequence"),
            "token_type_ids": ("batch", "sequence"),
            "visual_feats": ("batch", "objects", 2048),
            "visual_pos": ("batch", "objects", 4),
        },
    ),
    "characters": (
        "text-classification",
        "canine",
        "narrow",
        {
            "input_ids": ("batch", "sequence"),
            "attention_mask": ("batch", "sequence"),
            "token_type_ids": ("batch", "sequence"),
        },
    ),
    "no types to tell apart": (
        "text-classification",
        "deberta-v2",
        "narrow",
        {"input_ids": ("batch", "sequence"), "attention_mask": ("batch", "sequence")},
    ),
    "samples that a mask says are none": (
        "ctc",
        "data2vec-audio",
        "narrow",
        {"input_values": ("batch", "samples"), "attention_mask": ("batch", "samples")},
    ),
    "samples normed over a recording": ("ctc", "wav2vec2", "narrow", {"input_values": ("batch", "samples")}),
    "an image of sound, time first": (
        "audio-classification",
        "audio-spectrogram-transformer",
        "narrow",
        {"input_values": ("batch", 1024, 16)},
    ),
    # Types are looked up among the words: none of them is another thing than zeros.
    "types that would be words": (
        "text-classification",
        "gpt2",
        "narrow",
        {"input_ids": ("batch", "sequence"), "attention_mask": ("batch", "sequence")},
    ),
    "films under the name of images": (
        "feature-extraction",
        "videomae",
        "narrow",
        {"pixel_values": ("batch", 16, 3, 32, 32)},
    ),
    "a backbone that returns several layers": (
        "depth-estimation",
        "depth_anything",
        "as set",
        {"pixel_values": ("batch", 3, "height", "width")},
    ),
    "frames that are stacked before the model": (
        "ctc",
        "granite_speech5_ctc",
        "narrow",
        {"input_features": ("batch", "frames", 64), "attention_mask": ("batch", "frames")},
    ),
    # Windows are made as small as an image that is smaller, and stay so.
    "attributes that are fitted to the last input": (
        "image-classification",
        "donut-swin",
        "few layers",
        {"pixel_values": ("batch", 3, 224, 224)},
    ),
}


@pytest.mark.parametrize("row", LAYOUTS)
def test_inputs_that_a_model_takes(row: str) -> None:
    task, kind, way, layouts = LAYOUTS[row]
    model = small_models.small_model(kind, find_task(task), way)
    found = with_masks(model, find_inputs(model, (model.main_input_name,)))[0]
    assert found.layouts == layouts
    with torch.no_grad():
        model(**found.made(found.sizes()[0]))


#: Type of the model, the sizes of one image, the axis along which images follow each other, what is said of each, and
#: how many rows of features it has.
IMAGES: dict[str, tuple[str, tuple[int, ...], int | None, dict[str, Any], int]] = {
    # Four patches become one row.
    "rows of patches and their shape": (
        "lfm2_vl",
        (24, 192),
        None,
        {"spatial_shapes": (4, 6), "pixel_attention_mask": (1,) * 24},
        6,
    ),
    "rows of patches and their places": (
        "gemma4_unified",
        (6, 1728),
        None,
        {"image_position_ids": ((0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1))},
        6,
    ),
    "patches beside each other, merged twice": ("minicpmv4_6", (1, 3, 8, 768), 3, {"target_sizes": (8, 12)}, 6),
    "sizes said with each image only": ("emu3", (3, 64, 96), None, {"image_sizes": (64, 96)}, 28),
    "patches and how many are merged": (
        "video_llama_3",
        (6, 192),
        0,
        {"image_grid_thw": (1, 2, 3), "image_merge_sizes": 1},
        6,
    ),
}


@pytest.mark.parametrize("row", IMAGES)
def test_images_that_a_model_takes(row: str) -> None:
    kind, each, joined, stated, count = IMAGES[row]
    images = find_images(small_models.small_model(kind, find_task("image-text-to-text")))
    assert (images.each, images.joined, dict(images.stated)) == (each, joined, stated)
    rows = images.features(images.pixels(2, torch.Generator()), images.numbers(2))
    assert rows.shape == (2 * count, 32)


def test_boxes_that_are_averaged_are_parts_of_the_page() -> None:
    model = small_models.small_model("udop", find_task("image-to-text"))
    found = find_inputs(model, ("input_ids", "decoder_input_ids"))[0]
    boxes = found.made(found.sizes()[0])["bbox"]
    assert boxes.dtype == torch.float32
    assert bool((boxes[..., :2] <= boxes[..., 2:]).all() and boxes.max() <= 1)


def test_a_mask_that_the_encoder_hands_on_is_the_decoders() -> None:
    _, decoder = find_task("image-to-text").parts(small_models.small_model("udop", find_task("image-to-text")))
    given = decoder.inputs(decoder.sizes)
    unseen = {**given, "past_key_values.0.encoder.value": given["past_key_values.0.encoder.value"].clone()}
    unseen["past_key_values.0.encoder.value"][-1, :, -1] = 9.0
    with torch.no_grad():
        first, second = (
            decoder.forward({name: tensor.clone() for name, tensor in one.items()}) for one in (given, unseen)
        )
    torch.testing.assert_close(first["logits"], second["logits"])


def test_a_model_takes_texts_and_images_together_where_it_can() -> None:
    task = find_task("feature-extraction")
    (part,) = task.parts(small_models.small_model("vilt", task))
    text = {0: "batch", 1: "sequence"}
    assert part.axes == {
        **dict.fromkeys(("input_ids", "attention_mask", "token_type_ids"), text),
        "pixel_values": {0: "batch", 2: "height", 3: "width"},
    }


def test_a_model_that_can_do_without_images_is_exported_without_where_it_must() -> None:
    config = LayoutLMv3Config(
        vocab_size=67,
        hidden_size=48,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=48,
        max_2d_position_embeddings=64,
        coordinate_size=8,
        shape_size=8,
        input_size=32,
        patch_size=8,
    )
    part: Part | None
    (part,) = find_task("token-classification").parts(LayoutLMv3ForTokenClassification(config).eval())
    taken = []
    while part is not None:
        taken.append("pixel_values" in part.inputs(part.sizes))
        part = None if part.narrower is None else part.narrower()
    assert taken[0] and not taken[-1]


def test_a_classifier_with_a_decoder_reads_a_text_that_ends() -> None:
    task = find_task("text-classification")
    (part,) = task.parts(small_models.small_model("bart", task))
    given = part.inputs(part.sizes)
    assert list(given) == ["input_ids", "attention_mask"]
    assert (given["input_ids"][:, -1] == small_models.small_configuration("bart").eos_token_id).all()


def test_an_architecture_without_a_task_is_exported_as_it_is(tmp_path: Path) -> None:
    config = small_models.small_configuration("bert")
    BertForPreTraining(config).save_pretrained(tmp_path)
    found = load_checkpoint(tmp_path, None, None)
    assert (type(found.model), found.task.name) == (BertForPreTraining, "feature-extraction")
    assert type(load_checkpoint(tmp_path, "fill-mask", None).model).__name__ == "BertForMaskedLM"
    with pytest.raises(InputError, match="What LlamaForMaskedLM is used for is none of the tasks"):
        detect_task(config, "LlamaForMaskedLM")


def test_films_beside_texts() -> None:
    task = find_task("zero-shot-image-classification")
    (part,) = task.parts(small_models.small_model("videoprism", task))
    assert part.axes["pixel_values_videos"] == {0: "images"}
    assert part.inputs(part.sizes)["pixel_values_videos"].shape == (4, 16, 3, 32, 32)


def test_recordings_whose_mask_is_read_can_be_heard_whole() -> None:
    found = find_sounds(small_models.small_model("qwen3_asr", find_task("audio-text-to-text")))
    first, last = found[0], found[-1]
    assert first.inputs.layouts == {"input_features": ("sounds", 16, 100), "input_features_mask": ("sounds", 100)}
    assert last.inputs.layouts == {"input_features": (1, 16, 100)}
    given = first.inputs.made({"sounds": 1})
    with torch.no_grad():
        heard = last.features({"input_features": given["input_features"]})
        half = first.features(given)
    assert len(half) < len(heard) == 13


class _HearsAll:
    """An encoder of sound that takes no mask."""

    def get_modelmeta(self) -> Any:
        return SimpleNamespace(custom_metadata_map={HEARD_WHOLE: "input_features_mask"})


def test_a_mask_that_an_encoder_does_without_may_leave_nothing_out() -> None:
    files = FeaturesAndText(None, _HearsAll())  # type: ignore[arg-type]
    with pytest.raises(InputError, match="hears all of a recording, and input_features_mask leaves some of it out"):
        files.begin([[1]], {"input_features_mask": torch.tensor([[1, 1, 0]])}, 0, 0)


def test_a_file_takes_images_beside_each_other_one_by_one() -> None:
    two = torch.arange(24.0).reshape(1, 3, 1, 8)
    assert [piece.shape[3] for piece in pieces_of(two, [1, 3, 1, 4])] == [4, 4]
    assert len(pieces_of(two, ["images", 3, 1, 8])) == 1


def test_positions_are_counted_in_a_prompt_with_an_image() -> None:
    model = small_models.small_model("minicpmv4_7", find_task("image-text-to-text"))
    _, prompt = prompts_with_images(find_images(model), 1)
    assert (counted_positions(model).rows, counted_positions(model, prompt).rows) == (0, 3)
    # The loop leaves in the model how far positions are ahead of tokens.
    assert model.model.rope_deltas is None


def test_a_model_that_asks_for_images_in_every_call_generates_by_the_one_inside_it() -> None:
    model = small_models.small_model("blip-2", find_task("image-text-to-text"))
    *_, decoder = find_task("image-text-to-text").parts(model)
    given = decoder.inputs(decoder.sizes)
    with torch.no_grad():
        assert decoder.forward(given)["logits"].shape == (2, 4, 99)
    _, prompt = prompts_with_images(find_images(model), 1)
    assert generate_plainly(model, prompt, max_new_tokens=3).sequences.shape == (1, prompt["input_ids"].shape[1] + 3)


def test_features_of_a_model_without_its_head() -> None:
    model = small_models.small_model("deepseek_vl", find_task("image-text-to-text"))
    assert not hasattr(model, "get_image_features")
    images = find_images(model)
    assert images.features(images.pixels(2, torch.Generator()), {}).shape[1] == 32


@pytest.mark.parametrize(
    ("task", "kind", "name"),
    [
        ("automatic-speech-recognition", "speech-encoder-decoder", "input_values"),
        ("image-to-text", "vision-encoder-decoder", "pixel_values"),
        ("image-to-text", "pix2struct", "flattened_patches"),
    ],
)
def test_the_main_input_is_what_the_encoder_takes(task: str, kind: str, name: str) -> None:
    model = small_models.small_model(kind, find_task(task))
    assert main_input(model) == name
    assert detect_task(model.config, type(model).__name__).name == task


def test_patches_behind_their_places_are_encoded() -> None:
    encoder, _ = find_task("image-to-text").parts(small_models.small_model("pix2struct", find_task("image-to-text")))
    rows = {0: "batch", 1: "encoder_sequence"}
    assert encoder.axes == {"flattened_patches": rows, "attention_mask": rows}
    patches = encoder.inputs(encoder.sizes)["flattened_patches"]
    assert patches[0, :4, :2].tolist() == [[1, 1], [1, 2], [1, 3], [2, 1]]


def test_a_decoder_without_a_cache_of_its_encoder_is_refused() -> None:
    model = small_models.small_model("pp_formulanet", find_task("image-to-text"))
    with pytest.raises(InputError, match="PPFormulaNetForConditionalGeneration keeps no keys and values of its cross"):
        find_task("image-to-text").parts(model)


def test_a_decoder_that_takes_one_token_at_a_time_is_said() -> None:
    model = small_models.small_model("prophetnet", find_task("text2text-generation"))
    with pytest.warns(OnnxExporterWarning, match=r"decoder.onnx takes one token at a time.*length 1"):
        _, decoder = find_task("text2text-generation").parts(model)
    assert decoder.axes["decoder_input_ids"] == {0: "batch"}
    assert decoder.inputs(decoder.sizes)["decoder_input_ids"].shape == (2, 1)


def test_looking_for_inputs_leaves_no_trace() -> None:
    # Its code takes another attention for good once it has seen a short text.
    config = BigBirdConfig(
        vocab_size=40, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8, block_size=4
    )
    model = BigBirdForMaskedLM(config).eval()
    find_task("fill-mask").parts(model)
    assert model.bert.attention_type == model.bert.encoder.layer[0].attention.attention_type == "block_sparse"


def test_a_decoder_is_given_tokens_of_its_own_vocabulary() -> None:
    small = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
    decoder = BertConfig(vocab_size=20, is_decoder=True, add_cross_attention=True, **small).to_dict()
    config = EncoderDecoderConfig(encoder=BertConfig(vocab_size=500, **small).to_dict(), decoder=decoder)
    _, step = find_task("text2text-generation").parts(EncoderDecoderModel(config).eval())
    assert int(step.inputs(step.sizes)["decoder_input_ids"].max()) < 20


@pytest.mark.parametrize(
    ("kind", "task", "mask", "heard_whole"),
    [
        # What the encoder returns is as long as its mask, which the decoder takes, too.
        ("pix2struct", "image-to-text", ("batch", "encoder_sequence"), None),
        # It is shorter, so that a recording is heard whole.
        ("speech_to_text", "automatic-speech-recognition", None, "attention_mask"),
        # The mask changes nothing.
        ("whisper", "automatic-speech-recognition", None, None),
    ],
)
def test_masks_of_padding(kind: str, task: str, mask: Any, heard_whole: str | None) -> None:
    encoder, _ = find_task(task).parts(small_models.small_model(kind, find_task(task)))
    assert encoder.axes.get("attention_mask") == (None if mask is None else dict(enumerate(mask)))
    assert encoder.metadata.get(HEARD_WHOLE) == heard_whole


def test_places_in_images_are_inputs() -> None:
    small = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = SamConfig(
        vision_config={
            **small,
            "mlp_dim": 8,
            "output_channels": 16,
            "image_size": 32,
            "patch_size": 8,
            "num_pos_feats": 8,
        },
        prompt_encoder_config={"hidden_size": 16, "image_size": 32, "patch_size": 8, "mask_input_channels": 4},
        mask_decoder_config={**small, "hidden_size": 16, "mlp_dim": 8, "iou_head_hidden_dim": 8},
    )
    (part,) = find_task("feature-extraction").parts(SamModel(config).eval())
    points = {0: "batch", 1: "prompts", 2: "points"}
    assert part.axes == {"pixel_values": {0: "batch"}, "input_points": points, "input_labels": points}


def test_values_over_time_are_inputs() -> None:
    config = PatchTSTConfig(num_input_channels=3, context_length=16, patch_length=4, d_model=8, num_attention_heads=2)
    (part,) = find_task("feature-extraction").parts(PatchTSTForPrediction(config).eval())
    assert list(part.inputs({"batch": 4})["past_values"].shape) == [4, 16, 3]
