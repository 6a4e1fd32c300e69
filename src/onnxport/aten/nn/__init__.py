"""Layers of neural networks."""

from onnxport.aten.nn import (
    adaptive_pool,
    affine,
    attention,
    bitsandbytes,
    conv,
    embedding,
    fold,
    loss,
    norm,
    packed,
    pool,
    quantized,
    resize,
    rnn,
    scaled_products,
    vision,
)

__all__ = [
    "adaptive_pool",
    "affine",
    "attention",
    "bitsandbytes",
    "conv",
    "embedding",
    "fold",
    "loss",
    "norm",
    "packed",
    "pool",
    "quantized",
    "resize",
    "rnn",
    "scaled_products",
    "vision",
]
