"""Complex tensors, as pairs of real numbers."""

from onnxport.aten.complex import (
    by_parts,
    complex_elimination,
    complex_orthogonal,
    complex_reduce,
    fourier_transforms,
    pairs,
)

__all__ = ["by_parts", "complex_elimination", "complex_orthogonal", "complex_reduce", "fourier_transforms", "pairs"]
