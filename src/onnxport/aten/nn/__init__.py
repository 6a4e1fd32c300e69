"""Layers of neural networks."""

from onnxport.aten.nn import (
    adaptive_pool,
    attention,
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
    vision,
)

__all__ = [
    "adaptive_pool",
    "attention",
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
    "vision",
]
