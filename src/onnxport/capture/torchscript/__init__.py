"""TorchScript as a way to capture a model: graphs, scripted or traced, are replayed for ``torch.export``."""

from onnxport.capture.torchscript import control, lists, loops, objects, onednn, prims, quantized
from onnxport.capture.torchscript.embedded import scripts_replayed
from onnxport.capture.torchscript.mirror import Mirror, mirrored
from onnxport.capture.torchscript.tracing import has_packed_weights, replaying, script_of, traced

__all__ = [
    "Mirror",
    "control",
    "has_packed_weights",
    "lists",
    "loops",
    "mirrored",
    "objects",
    "onednn",
    "prims",
    "quantized",
    "replaying",
    "script_of",
    "scripts_replayed",
    "traced",
]
