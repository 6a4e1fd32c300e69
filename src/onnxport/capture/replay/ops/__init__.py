"""What the nodes of a TorchScript graph do, by kind. Importing this package fills the interpreter's table."""

from onnxport.capture.replay.ops import lists, objects, onednn, prims, quantized

__all__ = ["lists", "objects", "onednn", "prims", "quantized"]
