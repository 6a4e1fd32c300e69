"""Translations of ATen operators, by family. Importing this package fills the registry."""

from onnxport.aten import (  # noqa: F401
    activation,
    attention,
    compare,
    conv,
    create,
    elementwise,
    index,
    linear,
    norm,
    pool,
    reduce,
    view,
)
