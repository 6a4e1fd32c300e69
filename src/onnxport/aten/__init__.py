"""Translations of ATen operators, by family. Importing this package fills the registry."""

from onnxport.aten import (  # noqa: F401
    activation,
    adaptive_pool,
    attention,
    compare,
    conv,
    create,
    elementwise,
    fold,
    index,
    join,
    linear,
    masked,
    norm,
    pad,
    pool,
    random,
    rearrange,
    reduce,
    scatter,
    view,
)
