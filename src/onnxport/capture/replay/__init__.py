"""TorchScript as a way to capture a model: graphs, scripted or traced, are replayed for ``torch.export``."""

from onnxport.capture.replay import control, ops  # noqa: F401  (their handlers)
from onnxport.capture.replay.embedded import scripts_replayed
from onnxport.capture.replay.mirror import Mirror, mirrored
from onnxport.capture.replay.tracing import has_packed_weights, replaying, script_of, traced

__all__ = [
    "Mirror",
    "has_packed_weights",
    "mirrored",
    "replaying",
    "script_of",
    "scripts_replayed",
    "traced",
]
