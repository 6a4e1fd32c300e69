"""Branches and loops of a TorchScript graph. Importing this package fills the interpreter's table."""

from onnxport.capture.replay.control import branches, loops

__all__ = ["branches", "loops"]
