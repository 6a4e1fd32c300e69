"""Translations of ATen operators, by family. Importing this package fills the registry."""

from onnxport.aten import (  # noqa: F401
    complex,
    elementwise,
    indexing,
    linalg,
    nn,
    onnx_ops,
    random,
    reduction,
    shapes,
    special,
)
