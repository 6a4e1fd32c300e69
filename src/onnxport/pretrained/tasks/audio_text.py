"""Models that answer about sound: its features, the embedding that takes them in, and the decoder, a file each.

``audio.onnx`` makes rows of features of recordings, ``embedding.onnx`` puts them in the places of the audio tokens of a
prompt, and ``model.onnx`` generates.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from onnxport.errors import InputError
from onnxport.pretrained.audio_text_check import check_audio_text
from onnxport.pretrained.parts import Part, Tensors
from onnxport.pretrained.sounds import SoundInputs, find_sounds, sound_function
from onnxport.pretrained.tasks.embedded import embedded_decoder_part, embedding_part
from onnxport.pretrained.tasks.task import Model, Task
from onnxport.provenance import HEARD_WHOLE

_FEATURES = "audio_features"


def audio_part(found: Sequence[SoundInputs]) -> Part:
    """Recordings to rows of features, with as many axes that vary as can be exported."""
    sounds, *narrower = found

    def features(tensors: Tensors) -> Tensors:
        return {_FEATURES: sounds.features(tensors)}

    example, others = sounds.inputs.sizes()
    axes, made = sounds.inputs.axes(), sounds.inputs.made
    less = None if not narrower else partial(audio_part, narrower)
    metadata = {HEARD_WHOLE: ",".join(sounds.unpadded)} if sounds.unpadded else {}
    return Part("audio", sounds.model, features, made, axes, example, others, (_FEATURES,), less, metadata)


def audio_text_parts(model: Model, *, last_logits: bool = False) -> Sequence[Part]:
    """The three files."""
    if sound_function(model) is None or model.config.is_encoder_decoder:
        raise InputError(f"{type(model).__name__} has no features of sound to put in the places of tokens.")
    text = embedded_decoder_part(model, last_logits=last_logits)
    return [audio_part(find_sounds(model)), embedding_part(model, "audio", has_types="token_types" in text.axes), text]


AUDIO_TEXT = Task(
    "audio-text-to-text",
    # The library has these beside encoder-decoders.
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING",
    audio_text_parts,
    (
        "import onnxport.generation",
        "",
        "session = onnxport.generation.Session(folder)",
        "# prompts: tokens with those of sound in their places; inputs: tensors by name, as the processor makes them",
        "print(session.generate(prompts, max_new_tokens=40, inputs=inputs))",
    ),
    check_audio_text,
    last_logits=partial(audio_text_parts, last_logits=True),
    encoder_decoder=False,
)
