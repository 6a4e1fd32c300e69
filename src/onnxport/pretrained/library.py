"""The transformers library: imported when a pretrained model is exported, and not before."""

from __future__ import annotations

import importlib
from types import ModuleType

from onnxport.errors import OnnxExporterError


def transformers() -> ModuleType:
    """The library, or an error that says how to have it."""
    try:
        return importlib.import_module("transformers")
    except ImportError as error:
        raise OnnxExporterError(
            f"Exporting a pretrained model needs transformers ({error}): pip install 'onnxport[transformers]'."
        ) from error
