"""Inputs for a model that is called once, from what its forward takes and what its configuration says.

A parameter's name says what it holds, and the configuration how large that is. Where a model may take any size or one
only (images of any height and width, or those of its position embeddings), it is asked: it is run at two sizes.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import torch

from onnxport.capture.preserved import attributes_preserved
from onnxport.errors import InputError
from onnxport.pretrained.example_sizes import EXAMPLE_SIZES, OTHER_SIZES
from onnxport.pretrained.parts import Sizes, Tensors

Model: TypeAlias = Any
Candidate = TypeVar("Candidate")
Layout: TypeAlias = tuple[int | str, ...]
"""The sizes of an input: a number where it is fixed, the name of the axis where it varies."""
Draw: TypeAlias = Callable[[tuple[int, ...], torch.Generator], torch.Tensor]
"""Makes the values of an input of a shape."""

_COMPANIONS = {
    "input_ids": ("attention_mask", "token_type_ids", "bbox", "visual_feats", "visual_pos"),
    "inputs": ("attention_mask",),
    "decoder_input_ids": (),
    "input_points": ("input_labels",),
}
"""What else a model is given with an input, where its forward takes it."""


@dataclass(frozen=True)
class ModelInputs:
    """The inputs of a model: the layout of each, how tokens are drawn, and what is said of sizes beside them.

    Code reads what is said, so that it is part of the file.
    """

    layouts: Mapping[str, Layout]
    draws: Mapping[str, Draw]
    stated: Mapping[str, torch.Tensor] = field(default_factory=dict)

    def made(self, sizes: Sizes) -> Tensors:
        """Inputs of these sizes; the same sizes give the same values."""
        found = {}
        for index, (name, layout) in enumerate(self.layouts.items()):
            shape = tuple(sizes[size] if isinstance(size, str) else size for size in layout)
            found[name] = self.draws[name](shape, torch.Generator().manual_seed(index))
        return found

    def axes(self) -> dict[str, dict[int, str]]:
        """The axes that vary, by input."""
        return {
            name: {axis: size for axis, size in enumerate(layout) if isinstance(size, str)}
            for name, layout in self.layouts.items()
        }

    def sizes(self) -> tuple[Sizes, tuple[Sizes, ...]]:
        """The sizes of the example, and others to compare at."""
        names = {size for layout in self.layouts.values() for size in layout if isinstance(size, str)}
        example, *others = ({name: sizes[name] for name in sorted(names)} for sizes in (EXAMPLE_SIZES, *OTHER_SIZES))
        return example, tuple(others)


def main_input(model: Model) -> str:
    """The name of what a model is about: as it says, or its encoder, or the first that its forward takes."""
    encoder = getattr(model, "encoder", None)
    stated = [getattr(one, "main_input_name", "") for one in (model, encoder)]
    takes = inspect.signature(model.forward).parameters
    # A model around an encoder of any kind calls what it hands on "inputs".
    stated.sort(key=lambda name: name == "inputs")
    return next((name for name in (*stated, *takes) if name in _KINDS), model.main_input_name)


def find_inputs(model: Model, principal: Sequence[str], leading: Sequence[str] = ()) -> list[ModelInputs]:
    """The inputs of a model: the layouts that it runs with, those with most axes that vary first; one at least.

    Args:
        model: A model of transformers.
        principal: The inputs that the task is about; what goes with them is added where forward takes it.
        leading: Axes before the others of each input, after the batch: choices, frames of a video.
    """
    takes = inspect.signature(model.forward).parameters
    names = []
    for name in principal:
        names += [name, *(other for other in _COMPANIONS.get(name, ()) if other in takes)]
    is_beside = "token_type_ids" in names and "token_type_ids" not in principal
    if is_beside and (setting(model.config, "type_vocab_size") == 0 or _types_are_words(model)):
        # There are no types that could be told apart.
        names = [name for name in names if name != "token_type_ids"]
    unknown = [name for name in names if name not in _KINDS]
    stated = _stated(model, takes) if "pixel_values" in names else {}
    required = required_besides([*names, *stated], takes)
    if unknown or required:
        raise InputError(
            f"{type(model).__name__} takes {', '.join([*unknown, *required])}, and the configuration doesn't say what "
            "that is. Export the model with onnxport.export and inputs of your own."
        )

    def refusal(inputs: ModelInputs) -> Exception | None:
        return refusal_of(model, lambda tensors: model(**tensors, **stated), inputs)

    def taken(draws: Mapping[str, Draw]) -> list[ModelInputs]:
        candidates = (ModelInputs(layouts, draws, stated) for layouts in _combinations(model, names, leading))
        return list(those_taken(model, candidates, refusal, "inputs", "model"))

    first = {name: _KINDS[name].draw(model) for name in names}
    second = {name: other(model) for name in names if (other := _KINDS[name].otherwise) is not None}
    try:
        return taken(first)
    except InputError:
        if not second:
            raise
    return taken({**first, **second})


def _types_are_words(model: Model) -> bool:
    """Whether types of tokens have no table but that of words: none of them is another thing than zeros then."""
    if setting(model.config, "type_vocab_size", "type_vocab_sizes") is not None:
        return False
    tokens = draw_tokens(model)((1, 4), torch.Generator().manual_seed(0))
    types = (None, torch.zeros_like(tokens), torch.ones_like(tokens))
    try:
        with torch.no_grad(), attributes_preserved(model):
            none, zeros, ones = (model(input_ids=tokens, token_type_ids=each, return_dict=True)[0] for each in types)
    except Exception:  # noqa: BLE001 - a model that takes no such tokens, or only with others, says it in its own way
        return False
    return not torch.equal(none, zeros) and not torch.equal(zeros, ones)


def those_taken(
    model: Model, candidates: Iterable[Candidate], refusal: Callable[[Candidate], Exception | None], what: str, of: str
) -> Iterator[Candidate]:
    """Those of the things to try that a model takes, as they are found; one at least.

    Args:
        model: The model.
        candidates: What may be what the model takes.
        refusal: What the model raises for one of them; None if it takes it.
        what: What is tried, in words.
        of: The part of the model that takes it, in words.
    """
    is_any, last = False, None
    for candidate in candidates:
        error = refusal(candidate)
        if error is None:
            is_any = True
            yield candidate
        else:
            last = error
    if not is_any:
        raise InputError(
            f"{type(model).__name__} takes none of the {what} that its configuration describes; the last was refused "
            f"with {last!r}. Export the {of} with onnxport.export and inputs of your own."
        )


def required_besides(names: Sequence[str], takes: Mapping[str, inspect.Parameter]) -> list[str]:
    """The parameters without a default that have none of these names."""
    return [
        parameter.name
        for parameter in takes.values()
        if parameter.default is parameter.empty
        and parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
        and parameter.name not in names
    ]


def _combinations(model: Model, names: Sequence[str], leading: Sequence[str]) -> Iterator[dict[str, Layout]]:
    """Layouts to try, those with more axes that vary first; inputs that have one layout only don't multiply them."""
    options = {name: _KINDS[name].layouts(model) for name in names}
    for index in range(max(map(len, options.values()))):
        chosen = {name: layouts[min(index, len(layouts) - 1)] for name, layouts in options.items()}
        yield {name: (layout[0], *leading, *layout[1:]) for name, layout in chosen.items()}


def refusal_of(model: Model, function: Callable[[Tensors], object], inputs: ModelInputs) -> Exception | None:
    """What a function of the model raises for inputs at the example's sizes or at others; None if it takes them all."""
    example, others = inputs.sizes()
    for sizes in (example, *others):
        try:
            with torch.no_grad(), attributes_preserved(model):
                function(inputs.made(sizes))
        except Exception as error:  # noqa: BLE001 - a model says in its own way that it takes no such sizes
            return error
    return None


@dataclass(frozen=True)
class _Kind:
    """What a parameter of forward holds: the layouts it may have, and how its values are drawn, or else are."""

    layouts: Callable[[Model], list[Layout]]
    draw: Callable[[Model], Draw]
    otherwise: Callable[[Model], Draw] | None = None


def setting(config: object, *names: str) -> Any:
    """The first of these settings that a configuration has, or one of the configurations inside it."""
    nested = [value for value in vars(config).values() if hasattr(value, "model_type") and hasattr(value, "to_dict")]
    for name in names:
        if getattr(config, name, None) is not None:
            return getattr(config, name)
    for inner in nested:
        found = setting(inner, *names)
        if found is not None:
            return found
    return None


def draw_tokens(model: Model) -> Draw:
    """Tokens that mean nothing special."""
    # Characters have no vocabulary; they are told apart by as many hashes as there are buckets.
    named = setting(model.config, "vocab_size", "num_hash_buckets")
    embedding = None
    with contextlib.suppress(NotImplementedError, AttributeError):
        # A part of the model that reads no text may name a vocabulary too, and a larger one.
        embedding = model.get_input_embeddings()
    held = getattr(embedding, "num_embeddings", None)
    return _among(min(int(size) for size in (named, held) if size), model)


def _draw_decoded(model: Model) -> Draw:
    """The same for a decoder, which may have a vocabulary of its own."""
    named = getattr(model.config.get_text_config(decoder=True), "vocab_size", None)
    return draw_tokens(model) if named is None else _among(int(named), model)


def _among(size: int, model: Model) -> Draw:
    special = {value for name, value in _settings(model.config) if name.endswith(("_token_id", "_token_index"))}
    plain = torch.tensor([token for token in range(min(size, 2000)) if token not in special])
    return lambda shape, generator: plain[torch.randint(0, len(plain), shape, generator=generator)]


def _draw_ended(model: Model) -> Draw:
    """The same with the token that ends a text in the last place: some read what they return from there."""
    words, named = draw_tokens(model), setting(model.config, "eos_token_id")
    end = named[0] if isinstance(named, (list, tuple)) else named

    def draw(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
        tokens = words(shape, generator)
        if end is not None:
            tokens[..., -1] = int(end)
        return tokens

    return draw


def _settings(config: object) -> Iterator[tuple[str, Any]]:
    for name, value in vars(config).items():
        if hasattr(value, "model_type") and hasattr(value, "to_dict"):
            yield from _settings(value)
        elif isinstance(value, int):
            yield name, value


def placeholder(model: Model, kind: str) -> int:
    """The token in whose places features of a kind (image, audio) go."""
    token = setting(model.config, f"{kind}_token_id", f"{kind}_token_index")
    if token is None:
        raise InputError(f"The configuration of {type(model).__name__} doesn't say which token stands for {kind}.")
    return int(token)


def draw_mask(model: Model) -> Draw:
    """Ones, but for the end of the last row."""

    def draw(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
        mask = torch.ones(shape, dtype=torch.int64)
        mask[-1, ..., max(shape[-1] // 2, 1) :] = 0
        return mask

    return draw


def _type_layouts(model: Model) -> list[Layout]:
    """A number for each token, or several where the configuration has a vocabulary for each."""
    counts = setting(model.config, "type_vocab_sizes")
    return [("batch", "sequence") if counts is None else ("batch", "sequence", len(counts))]


def _types(model: Model) -> Draw:
    counts = setting(model.config, "type_vocab_sizes")
    if counts is not None:
        limits = torch.tensor(counts)
        return lambda shape, generator: (torch.rand(shape, generator=generator) * limits).long()
    count = setting(model.config, "type_vocab_size")
    count = min(count, 2) if isinstance(count, int) else 1
    return lambda shape, generator: torch.randint(0, count, shape, generator=generator)


def _boxes(model: Model) -> Draw:
    """Left, upper, right and lower, in order."""
    limit = int(setting(model.config, "max_2d_position_embeddings") or 1000)
    return lambda shape, generator: torch.randint(0, limit, shape, generator=generator).sort(-1).values


def _unit_boxes(model: Model) -> Draw:
    """The same as parts of the page."""
    dtype = draw_numbers(model)((), torch.Generator()).dtype
    return lambda shape, generator: torch.rand(shape, generator=generator).sort(-1).values.to(dtype)


def _points(model: Model) -> Draw:
    """Places in an image, in pixels."""
    _, height, width = fixed_image_sizes(model, otherwise=(32, 32))
    dtype = draw_numbers(model)((), torch.Generator()).dtype
    limits = torch.tensor([width, height], dtype=torch.float32)
    return lambda shape, generator: (torch.rand(shape, generator=generator) * limits).to(dtype)


def _point_labels(model: Model) -> Draw:
    """Whether points are of what is looked for (1) or beside it (0)."""
    return lambda shape, generator: torch.randint(0, 2, shape, generator=generator)


def draw_numbers(model: Model) -> Draw:
    """Normal numbers, in the model's own element type."""
    dtype = next((weight.dtype for weight in model.parameters() if weight.is_floating_point()), torch.float32)
    return lambda shape, generator: torch.randn(shape, generator=generator).to(dtype)


def image_layouts(model: Model) -> list[Layout]:
    """Images of any height and width, and of those that the configuration names; beside texts as many as there are."""
    channels = int(setting(model.config, "num_channels", "in_channels", "in_chans") or 3)
    size = setting(model.config, "image_size", "img_size", "input_size", "resolution")
    is_beside_text = "input_ids" in inspect.signature(model.forward).parameters and not model.config.is_encoder_decoder
    layouts: list[Layout] = []
    if isinstance(size, Mapping):
        size = tuple(size.values())
    # As many images as there are, one for each text, or one with all the texts that it is searched for.
    for batch in ("images", "batch", 1) if is_beside_text else ("batch",):
        layouts.append((batch, channels, "height", "width"))
        if size is not None:
            height, width = size if isinstance(size, (list, tuple)) else (size, size)
            layouts.append((batch, channels, int(height), int(width)))
    return layouts


def _stated(model: Model, takes: Iterable[str]) -> Tensors:
    """What is said of an image that comes as a row of flat patches: how many are above and beside each other."""
    side = _patches_beside(model)
    found = {
        "spatial_shapes": torch.tensor([[side, side]]),
        "pixel_attention_mask": torch.ones(1, side * side, dtype=torch.int64),
    }
    return {name: found[name] for name in found if name in takes} if "spatial_shapes" in takes else {}


def _patches_beside(model: Model) -> int:
    return int(int(setting(model.config, "num_patches") or 256) ** 0.5)


def _pixel_layouts(model: Model) -> list[Layout]:
    """Images, or films where the configuration says of how many; or a row of flat patches, whose shape is said."""
    if "spatial_shapes" in inspect.signature(model.forward).parameters:
        ((_, _, numbers),) = patch_layouts(model)
        assert isinstance(numbers, int)
        return [(1, _patches_beside(model) ** 2, numbers - 2)]
    films = _film_layouts(model) if setting(model.config, "num_frames") is not None else []
    return [*image_layouts(model), *films]


def _film_layouts(model: Model) -> list[Layout]:
    """Images one after another, as many as the configuration names."""
    frames = int(setting(model.config, "num_frames", "frames_per_clip") or 8)
    return [(batch, frames, *each) for batch, *each in image_layouts(model)]


def fixed_image_sizes(model: Model, otherwise: tuple[int, int] | None = None) -> tuple[int, ...]:
    """Channels, height and width that the configuration names, or another height and width where it names none."""
    _, *sizes = image_layouts(model)[-1]
    named = tuple(size for size in sizes if isinstance(size, int))
    if len(named) < len(sizes) and otherwise is not None:
        return (*named, *otherwise)
    if len(named) < len(sizes):
        raise InputError(f"The configuration of {type(model).__name__} doesn't say how large its images are.")
    return named


def patch_layouts(model: Model) -> list[Layout]:
    """Rows of flat patches, each behind its row and column in the image."""
    side = int(setting(model.config, "patch_size") or 16)
    channels = int(setting(model.config, "num_channels") or 3)
    width = setting(model.config, "patch_embed_hidden_size")
    return [("batch", "patches", 2 + (channels * side * side if width is None else int(width)))]


def draw_patches(model: Model) -> Draw:
    """Flat patches that begin with their row and column, in rows of three."""
    numbers = draw_numbers(model)

    def draw(shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
        patches = numbers(shape, generator)
        # Three to a row; what is 0 is padding.
        place = torch.arange(shape[1])
        patches[:, :, 0], patches[:, :, 1] = 1 + place // 3, 1 + place % 3
        return patches

    return draw


_HALF_LENGTHS = ("max_source_positions", "n_window")
"""Settings that count frames after the first convolution, which halves them."""


def feature_layouts(model: Model) -> list[Layout]:
    """Features of audio: over time, or time over features; some models take one length only."""
    config = model.config
    names = (
        "num_mel_bins",
        "input_feat_per_channel",
        "feature_size",
        "feature_projection_input_dim",
        "n_mels",
        "input_dim",
    )
    found = [getattr(config, name) for name in names if isinstance(getattr(config, name, None), int)]
    inner = setting(config, *names)
    # Processors may stack frames, and only the first layer knows how many.
    first = [layer.in_features for layer in model.modules() if isinstance(layer, torch.nn.Linear)][:1]
    sizes = list(dict.fromkeys([*found, *([inner] if isinstance(inner, int) else []), *first]))
    lengths = [setting(config, "max_length"), *(2 * (setting(config, name) or 0) for name in _HALF_LENGTHS)]
    layouts: list[Layout] = []
    if setting(config, "spec_size") is not None:
        # An image of one channel.
        layouts += [("batch", 1, "frames", size) for size in sizes]
    for size in sizes:
        layouts += [("batch", "frames", size), ("batch", size, "frames")]
        # Time first: code that turns them into an image may take either, and the libraries' processors give this one.
        layouts += [("batch", length, size) for length in lengths if length]
        layouts += [("batch", size, length) for length in lengths if length]
    return layouts or [("batch", "frames", 80)]


def _series_layouts(model: Model) -> list[Layout]:
    """Values over the time that a model looks back, of so many variables, or of one that has no axis."""
    length = int(setting(model.config, "context_length") or 64)
    channels = int(setting(model.config, "num_input_channels", "input_size") or 1)
    return [("batch", length, channels), ("batch", length), (1, length)]


_KINDS: Mapping[str, _Kind] = {
    "input_ids": _Kind(lambda model: [("batch", "sequence")], draw_tokens, _draw_ended),
    "inputs": _Kind(lambda model: [("batch", "sequence")], draw_tokens),
    "flattened_patches": _Kind(patch_layouts, draw_patches),
    "decoder_input_ids": _Kind(lambda model: [("batch", "decoder_sequence")], _draw_decoded),
    "attention_mask": _Kind(lambda model: [("batch", "sequence")], draw_mask),
    "token_type_ids": _Kind(_type_layouts, _types),
    "bbox": _Kind(lambda model: [("batch", "sequence", 4)], _boxes, _unit_boxes),
    "visual_feats": _Kind(lambda model: [("batch", "objects", int(model.config.visual_feat_dim))], draw_numbers),
    "visual_pos": _Kind(lambda model: [("batch", "objects", int(model.config.visual_pos_dim))], _unit_boxes),
    "pixel_values": _Kind(_pixel_layouts, draw_numbers),
    "input_points": _Kind(lambda model: [("batch", "prompts", "points", 2)], _points),
    "input_labels": _Kind(lambda model: [("batch", "prompts", "points")], _point_labels),
    "pixel_values_videos": _Kind(_film_layouts, draw_numbers),
    "input_values": _Kind(lambda model: [("batch", "samples"), *feature_layouts(model)], draw_numbers),
    "input_features": _Kind(feature_layouts, draw_numbers),
    "past_values": _Kind(_series_layouts, draw_numbers),
}
