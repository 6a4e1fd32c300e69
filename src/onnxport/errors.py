"""Everything onnxport raises or warns with, in one family under ``OnnxExporterError``."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType

_PACKAGE = os.path.dirname(__file__) + os.sep


class OnnxExporterError(RuntimeError):
    """Errors raised by the exporter. The base class of all exporter errors.

    >>> from onnxport.errors import OnnxExporterError, CaptureError
    >>> issubclass(CaptureError, OnnxExporterError)
    True
    """


class OnnxExporterWarning(UserWarning):
    """Warnings the exporter gives: the export goes on, but the user should know."""


def warn(message: str) -> None:
    """Warn at the line that called the package, however deep inside the cause was found."""
    level, depth = 2, 1
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        depth += 1
        if frame.f_code.co_filename.startswith(_PACKAGE):
            level = depth + 1
        frame = frame.f_back
    warnings.warn(message, OnnxExporterWarning, stacklevel=level)


class CaptureError(OnnxExporterError):
    """No strategy could turn the model into a graph; ``failures`` has each one's name and error."""

    failures: Sequence[tuple[str, Exception]] = ()


class InputError(OnnxExporterError, ValueError):
    """What was passed to ``export`` does not fit the model."""


class DynamicShapeError(InputError):
    """The declared dynamic shapes do not fit the inputs, or the model forces a size."""


class TranslationError(OnnxExporterError):
    """An operator, or a use of one, has no translation to ONNX."""


class UnsupportedOperatorError(TranslationError):
    """What code that adds operators raises when an opset does not have what one of them needs.

    >>> from onnxport.errors import UnsupportedOperatorError
    >>> str(UnsupportedOperatorError("aten::grid_sampler", 15, 16))
    'The operator aten::grid_sampler cannot be written in opset 15. It can from opset 16 on: pass opset_version=16.'
    """

    def __init__(self, name: str, version: int, supported_version: int | None = None) -> None:
        message = f"The operator {name} cannot be written in opset {version}."
        if supported_version is not None:
            message += f" It can from opset {supported_version} on: pass opset_version={supported_version}."
        elif "::" in name and name.partition("::")[0] not in ("aten", "prim", "quantized"):
            message += " Register a symbolic function for it, or pass a translation in `custom_translation_table`."
        super().__init__(message)


class SymbolicValueError(TranslationError):
    """What code that adds operators raises about a value of the graph that it cannot work with."""

    def __init__(self, msg: str, value: object) -> None:
        super().__init__(f"{msg}\n    because of the value {value}")


class OpsetError(OnnxExporterError, ValueError):
    """The requested opset cannot hold the model, or is not an opset."""


class SaveError(OnnxExporterError, OSError):
    """The model could not be written; whatever stood at the destination is untouched."""


@dataclass(frozen=True)
class Problem:
    """One thing that went wrong, where, and what to do about it."""

    what: str
    where: str = ""
    remedy: str = ""
    count: int = 1

    def __str__(self) -> str:
        times = f" ({self.count} times)" if self.count > 1 else ""
        lines = [f"{self.what}{times}"]
        if self.where:
            lines.append(f"    first at {self.where}" if self.count > 1 else f"    at {self.where}")
        if self.remedy:
            lines.append(f"    {self.remedy}")
        return "\n".join(lines)


def listing(headline: str, problems: Sequence[Problem]) -> str:
    """Format a headline and all problems, one after another."""
    return "\n".join([headline, *(f"  - {problem}" for problem in problems)])
