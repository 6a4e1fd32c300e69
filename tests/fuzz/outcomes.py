"""What becomes of a program: right, refused, warned of, without a defined result, or a fault."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass

import torch

import onnxport
from fuzz.programs import INPUTS, SIZES, Program, inputs, scope_of
from fuzz.undefined import undefined
from onnxport.errors import OnnxExporterError, OnnxExporterWarning

OPSETS = (18, 23)
_AXES = ({0: torch.export.Dim.DYNAMIC}, {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC})
_DYNAMIC = dict(zip(INPUTS, (_AXES[0], _AXES[1], _AXES[0], _AXES[0], _AXES[1]), strict=True))
_ROUNDING = (
    "sigmoid",
    "tanh",
    "exp",
    "softmax",
    "gelu",
    "silu",
    "norm",
    "self.",
    "mean",
    "var",
    "std",
    " / ",
    " @ ",
    "einsum",
)
_OURS = "This is a fault of onnxport"
_OF_BUFFERS = "Each run of the file starts from the saved value"
"""A warning that is no excuse: every comparison is a first run."""


@dataclass(frozen=True)
class Outcome:
    """``kind`` is right, refused, warned, undefined, empty, wrong or crash; the last two are faults.

    ``empty`` is an error at run time for an axis that has no elements there: torch takes sizes to be at least 1 when it
    simplifies shapes, and runtimes lack many a kernel for tensors of none. ``statements`` are those that a refusal or a
    warning names, or that have no defined result.
    """

    kind: str
    detail: str = ""
    result: str | None = None
    statements: tuple[int, ...] = ()

    @property
    def is_fault(self) -> bool:
        return self.kind in ("wrong", "crash")


def outcome(program: Program, opset: int) -> Outcome:
    """Export a program at an opset and compare it with eager at each size."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            exported = onnxport.export(
                program.module(), inputs(SIZES[0]), dynamic_shapes=_DYNAMIC, opset_version=opset, verbose=False
            )
        except OnnxExporterError as error:
            kind = "crash" if _OURS in str(error) else "refused"
            return Outcome(kind, str(error), statements=_named(str(error), program)[:1])
        except Exception as error:  # noqa: BLE001  whatever it is, it is a finding
            return Outcome("crash", f"{type(error).__name__}: {error}")
    told = [str(each.message) for each in caught if issubclass(each.category, OnnxExporterWarning)]
    warned = "\n".join(text for text in told if not text.startswith(_OF_BUFFERS))
    for size in SIZES:
        fault = _fault(program, exported, size, opset)
        if fault is None:
            continue
        if chance := undefined(program, size):
            return Outcome("undefined", next(iter(chance.values())), statements=tuple(chance))
        if warned and size != SIZES[0]:
            return Outcome("warned", warned, statements=_named(warned, program))
        if fault.kind == "crash" and 0 in size:
            return Outcome("empty", fault.detail)
        return fault
    return Outcome("right")


def _named(text: str, program: Program) -> tuple[int, ...]:
    """The statements whose lines a text names."""
    lines = re.findall(rf"{re.escape(str(program.path))}:(\d+)", text)
    return tuple(dict.fromkeys(int(line) - 2 for line in lines if int(line) - 2 < len(program.statements)))


def _fault(program: Program, exported: onnxport.ONNXProgram, size: tuple[int, int], opset: int) -> Outcome | None:
    where = f"opset {opset}, sizes {size}"
    expected = _eager(program, inputs(size))
    try:
        given = exported(*inputs(size))
    except Exception as error:  # noqa: BLE001  the same
        return Outcome("crash", f"{where}: {type(error).__name__}: {error}")
    for name, wanted, got in zip(program.returned, expected, given, strict=True):
        if not _close(torch.as_tensor(got), wanted) and not _unstable(program, size, name):
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
    if not wanted.is_floating_point():
        return torch.equal(got, wanted)
    if wanted.dtype == torch.float16:
        tolerance = 1e-2
    return torch.allclose(got.double(), wanted.double(), rtol=tolerance, atol=tolerance, equal_nan=True)


def _unstable(program: Program, size: tuple[int, int], name: str) -> bool:
    """Whether eager's result jumps when inputs, or inexact results on the way, move by a rounding: a tie, or a step."""
    place = program.returned.index(name)
    still = _eager(program, inputs(size))[place]
    for factor in (1 + 1e-6, 1 - 1e-6):
        moved = tuple(x * factor if x.is_floating_point() else x for x in inputs(size))
        if not _close(_eager(program, moved)[place], still) or not _close(
            _moved_on_the_way(program, size, factor)[name], still
        ):
            return True
    return False


def _moved_on_the_way(program: Program, size: tuple[int, int], factor: float) -> dict[str, torch.Tensor]:
    """The results where those of calls that round are a rounding away from what they are."""
    scope = scope_of(size)
    with torch.no_grad():
        for name, statement in program.statements:
            exec(statement, scope)
            result = scope[name]
            assert isinstance(result, torch.Tensor)
            if result.is_floating_point() and any(call in statement for call in _ROUNDING):
                scope[name] = result * factor
    return {name: value for name, value in scope.items() if isinstance(value, torch.Tensor)}
