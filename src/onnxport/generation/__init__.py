"""Generating text with an exported folder, over onnxruntime alone: for checking, and for where no other runtime is."""

from onnxport.generation.choice import Choice
from onnxport.generation.rules import TokenRules
from onnxport.generation.session import Session

__all__ = ["Choice", "Session", "TokenRules"]
