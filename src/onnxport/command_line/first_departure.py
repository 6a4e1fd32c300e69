"""The first node of an ONNX file whose value departs from that of the model it was made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir as ir
import torch

from onnxport.command_line.feeds import open_inputs
from onnxport.command_line.reference import TorchSide, arguments
from onnxport.errors import OnnxExporterError
from onnxport.export_call import export
from onnxport.program import ONNXProgram
from onnxport.verification import Mismatch, find_mismatch


@dataclass(frozen=True)
class Departure:
    """The node, or why it was not found."""

    mismatch: Mismatch | None
    reason: str = ""

    def text(self) -> str:
        """In sentences."""
        return f"The first wrong node was not found: {self.reason}." if self.mismatch is None else str(self.mismatch)

    def document(self) -> dict[str, object]:
        """As JSON has it."""
        found = self.mismatch
        if found is None:
            return {"found": False, "reason": self.reason}
        return {
            "found": True,
            "node": found.node.name,
            "operator": found.node.op_type,
            "module": found.module,
            "line": found.source,
            "largest_difference": found.info.max_abs_diff,
        }


def first_departure(onnx_model: ir.Model, model: TorchSide, feeds: Mapping[str, torch.Tensor]) -> Departure:
    """Export the model again, and compare the values that the file says are the same calls.

    Files of this exporter and of ``torch.onnx`` say of each node which call it stands for.
    """
    args, keywords = arguments(model, feeds)
    kwargs: dict[str, object] = dict(keywords)
    labels: dict[str, object] = {
        str(value.name): {
            axis: str(dim.value)
            for axis, dim in enumerate(value.shape or ())
            if isinstance(dim, ir.SymbolicDim) and str(dim.value).isidentifier()
        }
        for value in open_inputs(onnx_model)
    }
    shapes: dict[str, object] | tuple[object, ...] | None = labels if kwargs else tuple(labels.values())
    if isinstance(model, torch.export.ExportedProgram) or not any(labels.values()):
        shapes = None
    try:
        again = export(model, args, kwargs=kwargs or None, dynamic_shapes=shapes, verbose=False)
        program = ONNXProgram(onnx_model, again.exported_program)
        program.paths = again.paths
        found = find_mismatch(program, args, kwargs)
    except OnnxExporterError as error:
        return Departure(None, str(error).splitlines()[0].rstrip("."))
    if found is None:
        return Departure(None, "the values that both have in common agree, or the file does not say which calls it has")
    return Departure(found)
