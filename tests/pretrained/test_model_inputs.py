"""What models are given: layouts of their inputs, found by running them; nothing is exported."""

from __future__ import annotations

from typing import Any

import pytest
import small_models
import torch

from onnxport.errors import OnnxExporterWarning
from onnxport.pretrained.images import find_images
from onnxport.pretrained.model_inputs import find_inputs, main_input
from onnxport.pretrained.tasks import detect_task, find_task

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
    "a backbone that returns several layers": (
        "depth-estimation",
        "depth_anything",
        "as set",
        {"pixel_values": ("batch", 3, "height", "width")},
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
    found = find_inputs(model, (model.main_input_name,))[0]
    assert found.layouts == layouts
    with torch.no_grad():
        model(**found.made(found.sizes()[0]))


def test_patches_of_an_image_whose_shape_is_said() -> None:
    images = find_images(small_models.small_model("lfm2_vl", find_task("image-text-to-text")))
    assert images.stated == (("spatial_shapes", (4, 6)), ("pixel_attention_mask", (1,) * 24))
    rows = images.features(images.pixels(2, torch.Generator()), images.numbers(2))
    # Four patches become one row.
    assert rows.shape == (2 * 6, 32)


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
    ],
)
def test_the_main_input_is_what_the_encoder_takes(task: str, kind: str, name: str) -> None:
    model = small_models.small_model(kind, find_task(task))
    assert main_input(model) == name
    assert detect_task(model.config, type(model).__name__).name == task


def test_a_decoder_that_takes_one_token_at_a_time_is_said() -> None:
    model = small_models.small_model("prophetnet", find_task("text2text-generation"))
    with pytest.warns(OnnxExporterWarning, match=r"decoder.onnx takes one token at a time.*length 1"):
        _, decoder = find_task("text2text-generation").parts(model)
    assert decoder.axes["decoder_input_ids"] == {0: "batch"}
    assert decoder.inputs(decoder.sizes)["decoder_input_ids"].shape == (2, 1)
