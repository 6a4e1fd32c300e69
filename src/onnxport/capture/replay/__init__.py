"""TorchScript as a way to capture a model: graphs, scripted or traced, are replayed for ``torch.export``.

``docs/architecture/replay.md`` follows one call through these modules.
"""

# Each of these registers the handlers of its nodes; every kind of node has one, so their order does not matter.
from onnxport.capture.replay.control import branches, choices, loops  # noqa: F401
from onnxport.capture.replay.embedded import scripts_replayed
from onnxport.capture.replay.mirror import Mirror, as_mirror, optional_parameters
from onnxport.capture.replay.ops import (  # noqa: F401
    counted,
    language,
    lists,
    objects,
    onednn,
    packed,
    quantized,
    quantized_dynamic,
    tensors,
)
from onnxport.capture.replay.tracing import Recording, has_packed_weights, replaying, script_of, traced

__all__ = [
    "Mirror",
    "Recording",
    "as_mirror",
    "has_packed_weights",
    "optional_parameters",
    "replaying",
    "script_of",
    "scripts_replayed",
    "traced",
]
