"""Opsets: the one that translations are written for, the one that is written by default, and the limits."""

from __future__ import annotations

import onnx.defs

CANONICAL_OPSET = 23
"""The opset translations are written for; legalisation goes on from here."""

DEFAULT_OPSET = 20
"""The opset of the file where the user asks for none."""

OLDEST_OPSET = 7
NEWEST_OPSET: int = onnx.defs.onnx_opset_version()

ONNX_DOMAINS = ("", "ai.onnx")
"""The two names of the domain of ONNX's own operators."""

CONTRIBUTED_DOMAIN = "com.microsoft"
"""The domain of the operators that onnxruntime adds to ONNX's."""
