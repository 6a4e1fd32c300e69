"""Models whose first call is another than those after it: what their two files compute, and that they generate."""

from __future__ import annotations

from pathlib import Path

import pytest
import small_models
import torch

import onnxport
from onnxport.errors import InputError
from onnxport.generation import Session
from onnxport.pretrained.known_numbers import KnownNumbers
from onnxport.pretrained.plain_generation import generate_plainly
from onnxport.pretrained.prompts import find_prompts
from onnxport.pretrained.tasks import find_task, model_classes
from onnxport.pretrained.tasks.embedded import embedding_part
from onnxport.pretrained.tasks.prompted import PromptedModel

TASK = find_task("image-text-to-text")

#: Type, how many tokens stand for the image, what later calls take besides tokens, and the axis of their mask.
PROMPTED: dict[str, tuple[str, int, list[str], str]] = {
    "features before the tokens": ("git", 0, [], "past - 16"),
    "features that layers look at": ("mllama", 0, ["cross_attention_mask"], "past + 1"),
    "states of images that each call is given": (
        "idefics",
        0,
        ["image_attention_mask", "image_encoder_embeddings"],
        "past + 1",
    ),
    "a text besides the prompt, and a model inside that generates": ("instructblip", 32, [], "past + 1"),
    "features that forward projects": ("llama4", 4, [], "past + 1"),
}


@pytest.mark.parametrize("row", PROMPTED)
def test_two_calls_are_those_of_the_loop(row: str) -> None:
    kind, places, passed, seen = PROMPTED[row]
    model = small_models.small_model(kind, TASK)
    small_models.spread(model, 0.2)
    prompts = find_prompts(model)
    assert prompts.places == places
    first, later = PromptedModel(prompts).parts()
    assert [name for name in later.axes if name in passed] == passed
    assert later.axes["attention_mask"][1] == seen
    # The library's loop with the functions of the two files in the place of the model.
    sizes = {"batch": 2, "sequence": places + 5, "question": 4}
    tensors = first.inputs(sizes)
    given = {name: tensor for name, tensor in tensors.items() if name != "position_ids"}
    expected = generate_plainly(model, given, own_loop=True, max_new_tokens=3).sequences[:, -3:]
    with torch.no_grad():
        left = first.forward(tensors)
        made = later.inputs({"batch": 2, "past": left["present.0.key"].shape[2]})
        tokens = left["logits"][:, -1:].argmax(-1)
        mask = torch.ones(2, sizes["sequence"] + 1, dtype=torch.int64)
        states = {name.replace("present", "past_key_values"): left[name] for name in left if name.startswith("present")}
        beside = {name.removeprefix("next."): left[name] for name in left if name.startswith("next.")}
        chosen = {"input_ids": tokens, "attention_mask": mask, **states, **beside}
        second = later.forward({name: chosen.get(name, made[name]) for name in made})
    assert torch.equal(torch.cat([tokens, second["logits"].argmax(-1)], dim=1), expected[:, :2])


def test_a_folder_with_a_first_call_of_its_own(tmp_path: Path) -> None:
    config = small_models.small_configuration("idefics")
    config.num_hidden_layers = 1
    torch.manual_seed(0)
    (kind,) = model_classes(TASK, config)
    model = kind._from_config(config).eval()
    small_models.spread(model, 0.3)
    # Verifying generates with the library, one prompt and a padded batch.
    folder = onnxport.export_pretrained(model, tmp_path)
    assert (folder.task, folder.files) == ("image-text-to-text", ("prompt.onnx", "model.onnx"))
    with pytest.raises(InputError, match="The prompt needs pixel_values, image_attention_mask: pass them as inputs="):
        Session(tmp_path).generate([[5, 6]], 2)


def test_numbers_that_are_known_are_read_while_a_model_is_captured() -> None:
    grid = torch.tensor([[1, 2, 3]])

    class Cut(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
            with KnownNumbers([grid]):
                lengths = torch.repeat_interleave(grid[:, 1] * grid[:, 2], grid[:, 0]).cumsum(0)
                rows = [int(row.sum()) for row in grid]
                return [x[: lengths.tolist()[0]] * torch.arange(rows[0]), *torch.split(x, [rows[0], 1])]

    x = torch.randn(7, 6)
    program = torch.export.export(Cut(), (x,), strict=False)
    for found, expected in zip(program.module()(x), Cut()(x), strict=True):
        assert torch.equal(found, expected)


def test_tokens_of_other_kinds_are_read_as_the_model_reads_them() -> None:
    # It takes those that stand for films and sound for the token 0; the loop may generate them.
    model = small_models.small_model("muse_spark", TASK)
    embedding, film = embedding_part(model, "image"), model.config.video_token_id
    tokens = torch.tensor([[5, film, 6]])
    with torch.no_grad():
        found = embedding.forward({"input_ids": tokens, "image_features": torch.zeros(0, 32)})["inputs_embeds"]
        assert torch.equal(found, model.get_input_embeddings()(torch.tensor([[5, 0, 6]])))


def test_a_language_model_among_those_that_see_is_one_file() -> None:
    model = small_models.small_model("mistral4", TASK, "few heads")
    assert [part.file for part in TASK.parts(model)] == ["model.onnx"]


@pytest.mark.filterwarnings("ignore::onnxport.errors.OnnxExporterWarning")
def test_three_files_are_asked_whether_they_answer_alike() -> None:
    # Features are added in a layer of the decoder too, which embeddings don't tell it.
    model = small_models.small_model("qwen3_vl", TASK)
    small_models.spread(model, 0.2)
    assert [part.file for part in TASK.parts(model)] == ["prompt.onnx", "model.onnx"]
    model.config.vision_config.deepstack_visual_indexes = model.model.visual.deepstack_visual_indexes = []
    assert [part.file for part in TASK.parts(model)] == ["vision.onnx", "embedding.onnx", "model.onnx"]
