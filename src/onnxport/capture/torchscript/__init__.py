"""TorchScript as a way to capture a model: graphs, scripted or traced, are replayed for ``torch.export``."""

from onnxport.capture.torchscript import control, lists, loops, objects, onednn, prims
from onnxport.capture.torchscript.embedded import scripts_replayed
from onnxport.capture.torchscript.mirror import Mirror, mirrored
from onnxport.capture.torchscript.tracing import replaying, traced

__all__ = [
    "Mirror",
    "control",
    "lists",
    "loops",
    "mirrored",
    "objects",
    "onednn",
    "prims",
    "replaying",
    "scripts_replayed",
    "traced",
]
