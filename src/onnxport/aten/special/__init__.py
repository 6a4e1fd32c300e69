"""Special functions, by series that were fitted to them."""

from onnxport.aten.special import bessel, erf, gamma, polynomials

__all__ = ["bessel", "erf", "gamma", "polynomials"]
