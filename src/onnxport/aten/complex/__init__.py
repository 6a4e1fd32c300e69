"""Complex tensors, as pairs of real numbers."""

from onnxport.aten.complex import (
    complex_elimination,
    complex_orthogonal,
    complex_reduce,
    fourier_transforms,
    pairs,
)

__all__ = ["complex_elimination", "complex_orthogonal", "complex_reduce", "fourier_transforms", "pairs"]
