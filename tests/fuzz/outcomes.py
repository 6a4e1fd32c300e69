"""What becomes of a program: right, refused, warned of, or a fault."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import torch

import onnxport
from fuzz.programs import SIZES, Program, inputs
from onnxport.errors import OnnxExporterError

OPSETS = (18, 23)
_AXES = ({0: torch.export.Dim.DYNAMIC}, {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC})
_DYNAMIC = ((_AXES[0], _AXES[1], _AXES[0], _AXES[0], _AXES[1]),)
_OURS = "This is a bug in the translation"


@dataclass(frozen=True)
class Outcome:
    """``kind`` is right, refused, warned, unstable, wrong or crash; the last two are faults."""

    kind: str
    detail: str = ""
    result: str | None = None

    @property
    def is_fault(self) -> bool:
        return self.kind in ("wrong", "crash")


def outcome(program: Program) -> Outcome:
    """Export a program at each opset and compare it with eager at each size."""
    found = Outcome("right")
    for opset in OPSETS:
        found = _at(program, opset)
        if found.kind != "right":
            break
    return found


def _at(program: Program, opset: int) -> Outcome:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            exported = onnxport.export(
                program.module(), inputs(SIZES[0]), dynamic_shapes=_DYNAMIC, opset_version=opset, verbose=False
            )
        except OnnxExporterError as error:
            return Outcome("crash" if _OURS in str(error) else "refused", str(error))
        except Exception as error:  # noqa: BLE001  whatever it is, it is a finding
            return Outcome("crash", f"{type(error).__name__}: {error}")
    warned = any(issubclass(warning.category, onnxport.errors.OnnxExporterWarning) for warning in caught)
    for size in SIZES:
        difference = _difference(program, exported, size, opset)
        if difference is not None:
            follows_example = warned and size != SIZES[0] and difference.is_fault
            return Outcome("warned", difference.detail) if follows_example else difference
    return Outcome("right")


def _difference(program: Program, exported: onnxport.ONNXProgram, size: tuple[int, int], opset: int) -> Outcome | None:
    where = f"opset {opset}, sizes {size}"
    expected = _eager(program, inputs(size))
    try:
        given = exported(*inputs(size))
    except Exception as error:  # noqa: BLE001  the same
        return Outcome("crash", f"{where}: {type(error).__name__}: {error}")
    for name, wanted, got in zip(program.returned, expected, given, strict=True):
        if _close(torch.as_tensor(got), wanted):
            continue
        if _unstable(program, size, name):
            return Outcome("unstable", f"{where}, {name}", name)
        return Outcome("wrong", f"{where}, {name}: {got!r} where eager has {wanted!r}", name)
    return None


def _eager(program: Program, given: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    with torch.no_grad():
        results = program.module()(*given)
    assert isinstance(results, tuple)
    return list(results)


def _close(got: torch.Tensor, wanted: torch.Tensor, tolerance: float = 1e-3) -> bool:
    if got.dtype != wanted.dtype or got.shape != wanted.shape:
        return False
    return torch.allclose(got.double(), wanted.double(), rtol=tolerance, atol=tolerance, equal_nan=True)


def _unstable(program: Program, size: tuple[int, int], name: str) -> bool:
    """Whether eager's own result jumps when its inputs move by a rounding: a tie, or a step of a rounding."""
    place = program.returned.index(name)
    still = _eager(program, inputs(size))[place]
    for sign in (1, -1):
        moved = tuple(x * (1 + sign * 1e-6) if x.is_floating_point() else x for x in inputs(size))
        if not _close(_eager(program, moved)[place], still):
            return True
    return False
