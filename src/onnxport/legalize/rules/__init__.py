"""The rules, by family; importing this package registers them all."""

from __future__ import annotations

import importlib

FAMILIES = (
    "activation",
    "arithmetic",
    "attention",
    "attention_masks",
    "contraction",
    "defaults",
    "fourier",
    "index",
    "loss",
    "normalization",
    "padding",
    "pool",
    "quantization",
    "raised",
    "recent",
    "reduction",
    "regions",
    "resize",
    "sampling",
    "slicing",
    "sorting",
    "view",
    "vision",
)

for _family in FAMILIES:
    importlib.import_module(f"{__name__}.{_family}")
