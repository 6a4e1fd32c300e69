"""The result of an export: a model that can be run, saved, printed and given other weights."""

from onnxport.program.onnx_program import ONNXProgram
from onnxport.program.values import ComputedValues

__all__ = ["ComputedValues", "ONNXProgram"]
