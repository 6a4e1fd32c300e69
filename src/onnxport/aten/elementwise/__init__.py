"""Functions of single elements."""

from onnxport.aten.elementwise import activation, arithmetic, bitwise, compare, functions

__all__ = ["activation", "arithmetic", "bitwise", "compare", "functions"]
