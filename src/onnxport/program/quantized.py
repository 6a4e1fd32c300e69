"""A model with its weights quantized: checked before, and fit for its reader afterwards."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir
import torch
from torch.export import ExportedProgram

from onnxport.errors import OnnxExporterError
from onnxport.legalize import legalize
from onnxport.program.feeds import bind_inputs
from onnxport.program.runtime import RuntimeSession, default_session
from onnxport.quantize import Quantization, QuantizationReport, quantize_model
from onnxport.quantize.calibration import ObservedRange
from onnxport.targets import PROFILES, Target, check_fit
from onnxport.weights.wire import Selection, require_content


def quantized(
    model: ir.Model, quantization: Quantization, target: Target, exported: ExportedProgram | None
) -> QuantizationReport:
    """Quantize a model in place; it must have its weights, and must fit its reader afterwards."""
    try:
        require_content(model)
    except OnnxExporterError as error:
        raise OnnxExporterError(
            "The model can't be quantized before it has its weights: call ONNXProgram.apply_weights first, and then "
            "ONNXProgram.quantize.",
            error.problems,
        ) from error

    def observe(values: list[ir.Value]) -> dict[ir.Value, tuple[float, float]]:
        return observed_ranges(model, exported, quantization, values)

    report = quantize_model(model, quantization, target, observe)
    if quantization.half is not None:
        # For what onnxruntime has no kernels in this type.
        legalize(model, model.opset_imports[""], ir_version=target.ir_version, rewritten=target.rewritten)
    if target != PROFILES["onnx"]:
        check_fit(model, target)
    return report


def observed_ranges(
    model: ir.Model, exported: ExportedProgram | None, quantization: Quantization, values: list[ir.Value]
) -> dict[ir.Value, tuple[float, float]]:
    """The ranges of values of a model over the inputs for calibration."""
    if not values:
        return {}
    seen = {value: ObservedRange() for value in values}
    computed = [value for value in values if not value.is_graph_input()]
    session = RuntimeSession.open(model, default_session, Selection(outputs=computed))
    spreads = [False] if quantization.calibrate == "min-max" else [False, True]
    for spread in spreads:
        for given in quantization.calibration:
            named = dict(given) if isinstance(given, Mapping) else {}
            feeds = bind_inputs(model, exported, () if named else tuple(given), named)
            results = session.run([str(value.name) for value in computed], feeds) if computed else []
            found = dict(zip(computed, results, strict=True))
            for value, observed in seen.items():
                tensor = found[value] if value in found else feeds[str(value.name)]
                assert isinstance(tensor, torch.Tensor)
                (observed.see_spread if spread else observed.see_bounds)(tensor)
    return {value: one.range(quantization.calibrate, quantization.percentile) for value, one in seen.items()}
