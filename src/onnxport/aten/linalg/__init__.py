"""Matrix products, equations and factorisations."""

from onnxport.aten.linalg import elimination, ldl, orthogonal, products

__all__ = ["elimination", "ldl", "orthogonal", "products"]
