"""Learning from calls what an export needs: example inputs, and which of their axes vary."""

from onnxport.observing.observer import InputObserver

__all__ = ["InputObserver"]
