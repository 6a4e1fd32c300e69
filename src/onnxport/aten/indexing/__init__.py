"""Reading and writing by index, by mask and by order."""

from onnxport.aten.indexing import index, masked, scatter, sort, unique

__all__ = ["index", "masked", "scatter", "sort", "unique"]
