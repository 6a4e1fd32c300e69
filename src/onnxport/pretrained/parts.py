"""Parts: what of a pretrained model becomes one ONNX file, as a function from named tensors to named tensors."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import torch

from onnxport.capture.patches.replacing import method_replaced
from onnxport.capture.preserved import attributes_preserved
from onnxport.errors import OnnxExporterError, OnnxExporterWarning, Problem, warn
from onnxport.export_call import export
from onnxport.pretrained.dry_run import dry_run
from onnxport.pretrained.experts import experts_at_once
from onnxport.pretrained.known_numbers import KnownNumbers
from onnxport.program import ONNXProgram
from onnxport.program.runtime import RuntimeSession, default_session
from onnxport.provenance import CACHE_BUFFERS
from onnxport.verification import VerificationInfo
from onnxport.verification.ties import jumps

Tensors: TypeAlias = dict[str, torch.Tensor]
"""Inputs or outputs of a file, by their names in it."""

Sizes: TypeAlias = Mapping[str, int]
"""A size for each name of an axis that varies: ``{"batch": 2, "sequence": 4}``."""


_SHORT = (torch.float16, torch.bfloat16)
"""Element types in which the roundings of each layer add up to more than is allowed of one."""


@dataclass(frozen=True)
class Part:
    """One ONNX file of a folder.

    Attributes:
        name: The file is ``<name>.onnx``.
        module: The module that holds the weights. Initializers are named as in its state dict.
        forward: What the file computes, of its inputs by name. The names of what it returns are those of the outputs.
        inputs: Makes inputs whose axes that vary have the given sizes. The same sizes give the same values.
        axes: The axes that vary, by input and index. Axes of one name have one size, and one whose name is a sum
            (``past + sequence``, ``past + 1``) is as long as these are together.
        sizes: The sizes of the example. None of them is 0 or 1, which torch and Python code take for something special,
            and no two are equal.
        others: Sizes at which the file is compared with ``forward``, smallest and empty ones among them.
        outputs: The names of what ``forward`` returns, where it is known already; else it is run on fake tensors.
        metadata: What the file says of itself besides, by key.
        narrower: Makes the part to export where this one can't be, or would follow its example: with fewer axes that
            vary. None where there is no such part.
        filled: The axes that are never empty, which code need not ask then.
        constants: Tensors whose numbers are part of the file, for code that reads them.
    """

    name: str
    module: torch.nn.Module
    forward: Callable[[Tensors], Tensors]
    inputs: Callable[[Sizes], Tensors]
    axes: Mapping[str, Mapping[int, str]]
    sizes: Sizes
    others: Sequence[Sizes] = ()
    outputs: Sequence[str] = ()
    narrower: Callable[[], Part | None] | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    filled: Sequence[str] = ()
    constants: Sequence[torch.Tensor] = ()

    @property
    def file(self) -> str:
        """The name of the file in the folder."""
        return f"{self.name}.onnx"


def export_part(part: Part, *, opset_version: int, target: str) -> ONNXProgram:
    """Export one part; inputs and outputs have their names and axes in the file."""
    example = part.inputs(part.sizes)
    outputs = list(part.outputs)
    if not outputs:
        with experts_at_once(part.module), dry_run(part.module) as mode:
            outputs = list(part.forward({name: mode.from_tensor(tensor) for name, tensor in example.items()}))

    def forward(tensors: Tensors) -> Tensors:
        _state_sizes(part, tensors)
        if not part.constants:
            return part.forward(tensors)
        with KnownNumbers(part.constants):
            return part.forward(tensors)

    declared = {label: torch.export.Dim(label, min=1) for label in part.filled}
    with method_replaced(part.module, forward, inspect.signature(forward)), experts_at_once(part.module):
        program = export(
            part.module,
            (example,),
            dynamic_shapes=(
                {
                    name: {axis: declared.get(label, label) for axis, label in part.axes.get(name, {}).items()}
                    for name in example
                },
            ),
            input_names=list(example),
            output_names=outputs,
            opset_version=opset_version,
            target=target,
        )
    program.model.metadata_props.update(part.metadata)
    return program


def export_widest(part: Part, *, opset_version: int, target: str) -> tuple[Part, ONNXProgram]:
    """Export a part, or the first narrower one that needs no warning; say which axes are fixed, and why."""
    narrower = None if part.narrower is None else part.narrower()
    if narrower is None:
        return part, export_part(part, opset_version=opset_version, target=target)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", OnnxExporterWarning)
        try:
            program = export_part(part, opset_version=opset_version, target=target)
            reasons = [str(one.message) for one in told if issubclass(one.category, OnnxExporterWarning)]
            if not reasons:
                return part, program
        except OnnxExporterError as error:
            reasons = [str(error)]
    warn(f"{part.file} takes {_lost(part, narrower)}. With any, it could not be exported:\n{reasons[0]}")
    return export_widest(narrower, opset_version=opset_version, target=target)


def _lost(part: Part, narrower: Part) -> str:
    """What a narrower part doesn't take that another does, in words."""
    fixed = sorted({axis for axes in part.axes.values() for axis in axes.values()} - set(narrower.sizes))
    dropped = sorted(set(part.inputs(part.sizes)) - set(narrower.inputs(narrower.sizes)))
    one = [f"one {' and '.join(fixed)} only"] if fixed else []
    return " and ".join([*one, *(f"no {name}" for name in dropped)]) or "inputs in another layout only"


def _state_sizes(part: Part, tensors: Tensors) -> None:
    """Tell torch which sizes are equal or sums, before the model asks: each input has symbols of its own at first."""
    found = [
        (label, tensors[name].shape[axis])
        for name, axes in part.axes.items()
        if name in tensors
        for axis, label in axes.items()
    ]
    first = dict(reversed(found))
    for label, size in found:
        terms = label.replace(" - ", " + -").split(" + ")
        numbers = [int(term) for term in terms if term.lstrip("-").isdecimal()]
        names = [term for term in terms if not term.lstrip("-").isdecimal()]
        if len(terms) > 1 and all(term in first for term in names):
            torch._check(size == sum(first[term] for term in names) + sum(numbers))
        elif size is not first[label]:
            torch._check(size == first[label])


def differences(part: Part, folder: Path) -> list[Problem]:
    """Where the file of a part and the module's own computation differ, over all sizes to compare at."""
    return [difference(part, *comparison) for comparison in comparisons(part, folder) if not comparison[1].matches]


def difference(part: Part, sizes: Sizes, info: VerificationInfo) -> Problem:
    """What to say of an output that differs."""
    return Problem(f"{part.file}: {info.name} differs by up to {info.max_abs_diff:.3g}{_shown(sizes)}.")


def comparisons(part: Part, folder: Path) -> Iterator[tuple[Sizes, VerificationInfo]]:
    """Each output of the file of a part beside that of the module's own computation, at all sizes to compare at."""
    session = RuntimeSession(default_session(str(folder / part.file)))
    buffers = CACHE_BUFFERS in session.session.get_modelmeta().custom_metadata_map
    for sizes in (part.sizes, *part.others):
        if buffers and min(sizes.get(axis, 0) for axis in ("batch", "sequence", "past")) > 0 and sizes["sequence"] > 1:
            # Several tokens behind earlier ones: onnxruntime's operator takes one row, and refuses more.
            sizes = {**sizes, "batch": 1}
        inputs = part.inputs(sizes)

        def computed(inputs: Tensors = inputs) -> Tensors:
            with torch.no_grad(), attributes_preserved(part.module):
                # Caches write to the states that they are given.
                return part.forward({name: tensor.clone() for name, tensor in inputs.items()})

        expected = computed()
        found = session.run(list(expected), inputs)
        infos, near = [], set()
        for (name, wanted), actual in zip(expected.items(), found, strict=True):
            assert isinstance(actual, torch.Tensor)
            infos.append(VerificationInfo.from_tensors(name, wanted, actual))
            if wanted.dtype in _SHORT and VerificationInfo.from_tensors(name, wanted, actual, on_average=True).matches:
                near.add(name)
        yield from ((sizes, info) for info in _without_ties(infos, computed, near, f"{part.file}{_shown(sizes)}"))


def _shown(sizes: Sizes) -> str:
    said = ", ".join(f"{axis} {size}" for axis, size in sizes.items())
    return f" ({said})" if said else ""


def _without_ties(
    infos: list[VerificationInfo], computed: Callable[[], Tensors], near: set[str], where: str
) -> list[VerificationInfo]:
    """Those that don't differ, or by more than the model's own results do when they are rounded otherwise.

    Those that are near differ in single numbers alone, which is what rounding to few digits in each layer adds up to.
    """
    wrong = [info for info in infos if not info.matches]
    own = jumps(computed) if wrong else {}
    # Draws of roundings are few, and the file's may be further apart than they are.
    tied = [info.name for info in wrong if info.max_abs_diff <= 2 * own.get(info.name, 0.0)]
    if jumping := [name for name in tied if name not in near]:
        warn(
            f"{', '.join(jumping)} of {where} can't be compared: the model chooses between numbers that are nearly "
            "equal, and its own results jump as far when they are rounded otherwise."
        )
    return [info for info in infos if info.name not in tied]
