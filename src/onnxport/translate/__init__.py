"""Translate: a functional FX graph becomes an ``ir.Model`` at the canonical opset."""

from onnxport.translate import control_flow, sequences  # noqa: F401  (registers their operators)
from onnxport.translate.builder import Builder
from onnxport.translate.custom import lookup
from onnxport.translate.dims import Dim, Int
from onnxport.translate.model import Names, translate, translate_path
from onnxport.translate.registry import REGISTRY, is_translated, one_node, translates
from onnxport.translate.tensor import Number, Tensor

__all__ = [
    "REGISTRY",
    "Builder",
    "Dim",
    "Int",
    "Names",
    "Number",
    "Tensor",
    "is_translated",
    "lookup",
    "one_node",
    "translate",
    "translate_path",
    "translates",
]
