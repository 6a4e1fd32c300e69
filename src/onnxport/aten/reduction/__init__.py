"""Sums, extremes, norms, statistics: many elements to one, at once or step by step."""

from onnxport.aten.reduction import distance, reduce, scan, segment, statistics

__all__ = ["distance", "reduce", "scan", "segment", "statistics"]
