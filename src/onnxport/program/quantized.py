"""A model with its weights quantized: checked before, and fit for its reader afterwards."""

from __future__ import annotations

import onnx_ir as ir

from onnxport.errors import OnnxExporterError
from onnxport.legalize import legalize
from onnxport.quantize import Quantization, QuantizationReport, quantize_model
from onnxport.targets import PROFILES, Target, check_fit
from onnxport.weights.wire import require_content


def quantized(model: ir.Model, quantization: Quantization, target: Target) -> QuantizationReport:
    """Quantize a model in place; it must have its weights, and must fit its reader afterwards."""
    try:
        require_content(model)
    except OnnxExporterError as error:
        raise OnnxExporterError(
            "The model can't be quantized before it has its weights: call ONNXProgram.apply_weights first, and then "
            "ONNXProgram.quantize.",
            error.problems,
        ) from error
    report = quantize_model(model, quantization, target)
    if quantization.half is not None:
        # For what onnxruntime has no kernels in this type.
        legalize(model, model.opset_imports[""], ir_version=target.ir_version, rewritten=target.rewritten)
    if target != PROFILES["onnx"]:
        check_fit(model, target)
    return report
