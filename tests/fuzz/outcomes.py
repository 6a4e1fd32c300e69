"""What becomes of a program: right, refused, warned of, without a defined result, or a fault."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace

import onnx_ir as ir
import torch

import onnxport
from fuzz.programs import INPUTS, SIZES, Program, inputs, scope_of
from fuzz.undefined import undefined
from onnxport.errors import InputError, OnnxExporterError, OnnxExporterWarning
from onnxport.provenance import STACK_TRACE

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
_LIMITED = "is at least 1"
_OF_BUFFERS = "Each run of the file starts from the saved value"
"""A warning that is no excuse: every comparison is a first run."""


@dataclass(frozen=True)
class Outcome:
    """``kind`` is right, refused, warned, undefined, limited, empty, wrong or crash; the last two are faults.

    ``limited`` is a call that is refused by a limit of the file, for an axis that has no elements there.

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


def outcome(program: Program) -> Outcome:
    """Export a program at each opset and compare it with eager at each size."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            exports = _exports(program)
        except OnnxExporterError as error:
            kind = "crash" if _OURS in str(error) else "refused"
            return Outcome(kind, str(error), statements=_named(str(error), program)[:1])
        except Exception as error:  # noqa: BLE001  whatever it is, it is a finding
            return Outcome("crash", f"{type(error).__name__}: {error}")
    told = [str(each.message) for each in caught if issubclass(each.category, OnnxExporterWarning)]
    warned = "\n".join(dict.fromkeys(text for text in told if not text.startswith(_OF_BUFFERS)))
    for size in SIZES:
        expected = _eager(program, inputs(size))
        for opset, exported in exports.items():
            fault = _fault(program, exported, expected, size, f"opset {opset}, sizes {size}")
            if fault is not None:
                return _judged(fault, program, size, warned)
    return Outcome("right")


@torch._dynamo.config.patch(fake_tensor_cache_enabled=False)
def _exports(program: Program) -> dict[int, onnxport.ONNXProgram]:
    """The program at each opset, all of one capture, unless there are several ways through it.

    Results of fake tensors are hardly ever asked for twice in a random program: keeping them took half of the time.
    """
    exports: dict[int, onnxport.ONNXProgram] = {}
    for opset in OPSETS:
        first = next(iter(exports.values()), None)
        captured = first.exported_program if first is not None and len(first.paths) == 1 else None
        if captured is not None:
            exports[opset] = onnxport.export(captured, opset_version=opset, verbose=False)
        else:
            example = inputs(SIZES[0])
            exports[opset] = onnxport.export(
                program.module(), example, dynamic_shapes=_DYNAMIC, opset_version=opset, verbose=False
            )
    return exports


def _judged(fault: Outcome, program: Program, size: tuple[int, int], warned: str) -> Outcome:
    """What a difference amounts to: a fault, unless there is no defined result or a warning told of it."""
    if chance := undefined(program, size):
        return Outcome("undefined", next(iter(chance.values())), statements=tuple(chance))
    if warned and size != SIZES[0]:
        return Outcome("warned", warned, statements=_named(warned, program))
    if fault.kind == "crash" and 0 in size:
        return replace(fault, kind="empty")
    return fault


def _named(text: str, program: Program) -> tuple[int, ...]:
    """The statements whose lines a text names."""
    lines = re.findall(rf'{re.escape(str(program.path))}(?::|", line )(\d+)', text)
    return tuple(dict.fromkeys(int(line) - 2 for line in lines if int(line) - 2 < len(program.statements)))


def _fault(
    program: Program,
    exported: onnxport.ONNXProgram,
    expected: list[torch.Tensor],
    size: tuple[int, int],
    where: str,
) -> Outcome | None:
    try:
        given = exported(*inputs(size))
    except InputError as error:
        kind = "limited" if 0 in size and _LIMITED in str(error) else "crash"
        return Outcome(kind, f"{where}: InputError: {error}", statements=_named(str(error), program)[:1])
    except Exception as error:  # noqa: BLE001  the same
        text = f"{where}: {type(error).__name__}: {error}"
        return Outcome("crash", text, statements=_named(_origin(exported, text), program)[:1])
    for name, wanted, got in zip(program.returned, expected, given, strict=True):
        if not _close(torch.as_tensor(got), wanted) and not _unstable(program, size, name):
            return Outcome("wrong", f"{where}, {name}: {got!r} where eager has {wanted!r}", name)
    return None


def _origin(exported: onnxport.ONNXProgram, text: str) -> str:
    """Where the node comes from that an error of the runtime names."""
    failed = re.search(r"Name:'([^']*)'", text)
    nodes = ir.traversal.RecursiveGraphIterator(exported.model.graph)
    named = [node for node in nodes if failed is not None and node.name == failed[1]]
    return "".join(node.metadata_props.get(STACK_TRACE, "") for node in named)


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
    for move in (_all_up, _all_down, _each_to_a_side, _flushed):
        moved = tuple(move(x) if x.is_floating_point() else x for x in inputs(size))
        if not _close(_eager(program, moved)[place], still) or not _close(
            _moved_on_the_way(program, size, move)[name], still
        ):
            return True
    return False


def _rounding(x: torch.Tensor) -> float:
    """How far apart two computations of a number may come out; a millionth of one in float16 would move nothing."""
    return torch.finfo(x.dtype).eps if x.dtype == torch.float16 else 1e-6


def _all_up(x: torch.Tensor) -> torch.Tensor:
    return x * (1 + _rounding(x))


def _all_down(x: torch.Tensor) -> torch.Tensor:
    return x * (1 - _rounding(x))


def _each_to_a_side(x: torch.Tensor) -> torch.Tensor:
    """Those that were equal are no longer."""
    sides = torch.arange(x.numel(), dtype=torch.float64).reshape(x.shape) % 3 - 1
    return (x * (1 + _rounding(x) * sides)).to(x.dtype)


def _flushed(x: torch.Tensor) -> torch.Tensor:
    """Subnormal numbers as zeros: in eager after ``torch.set_flush_denormal(True)``, and in kernels of onnxruntime."""
    return torch.where(x.abs() < torch.finfo(x.dtype).tiny, 0, x)


def _moved_on_the_way(
    program: Program, size: tuple[int, int], move: Callable[[torch.Tensor], torch.Tensor]
) -> dict[str, torch.Tensor]:
    """The results where those of calls that round are a rounding away from what they are."""
    scope = scope_of(size)
    with torch.no_grad():
        for name, statement in program.statements:
            exec(statement, scope)
            result = scope[name]
            assert isinstance(result, torch.Tensor)
            # onnxruntime computes float16 in float32, and rounds what it computes of it elsewhere than eager does.
            inexact = result.dtype == torch.float16 or any(call in statement for call in _ROUNDING)
            if result.is_floating_point() and inexact:
                scope[name] = move(result)
    return {name: value for name, value in scope.items() if isinstance(value, torch.Tensor)}
