"""An ONNX model of any writer at another opset, for another reader, or simplified: the stages that end an export."""

from __future__ import annotations

import onnx_ir as ir

from onnxport.events import EventLog
from onnxport.legalize import check_ir_version, check_opset, legalize
from onnxport.onnx_build.opsets import CANONICAL_OPSET
from onnxport.optimize import optimize
from onnxport.targets import Target, check_fit, find_target, narrow_inputs
from onnxport.targets.fit import check_target_opset


def convert_model(
    model: ir.Model, *, opset: int | None = None, ir_version: int | None = None, target: str | Target = "onnx"
) -> Target:
    """Rewrite a model in place for an opset, a version of the file format, or a reader, and return the reader.

    Without an opset, it is the model's own where the reader takes it, else the reader's.

    Raises:
        OpsetError: The opset can't hold what is in it; all of it is named.
        TargetError: The reader can't.

    >>> import onnx_ir as ir
    >>> from onnxport.conversion import convert_model
    >>> model = ir.from_onnx_text(
    ...     '<ir_version: 6, opset_import: ["": 11]>'
    ...     'agraph (float[2] x) => (float[1, 2] y) { y = Unsqueeze<axes=[0]>(x) }'
    ... )
    >>> convert_model(model, opset=21).name, model.opset_imports[""], len(model.graph[0].inputs)
    ('onnx', 21, 2)
    """
    reader = find_target(target)
    if opset is None:
        opset = reader.opset_for(model.opset_imports.get("", CANONICAL_OPSET))
    check_target_opset(reader, check_opset(opset))
    check_ir_version(ir_version)
    legalize(
        model,
        opset,
        ir_version=reader.ir_version if ir_version is None else ir_version,
        rewritten=reader.rewritten,
    )
    if reader.int32_inputs:
        narrow_inputs(model)
    check_fit(model, reader)
    return reader


def optimize_model(model: ir.Model, *, fold_batch_norm: bool = False) -> EventLog:
    """Simplify a model in place, at its own opset; the log says what was done.

    The rules read operators in the form of the canonical opset, so that an older model is taken there and back.

    >>> import onnx_ir as ir
    >>> from onnxport.conversion import optimize_model
    >>> model = ir.from_onnx_text(
    ...     '<ir_version: 6, opset_import: ["": 11]> agraph (float[2] x) => (float[2] y) {a = Identity(x) y = Relu(a)}'
    ... )
    >>> events = optimize_model(model)
    >>> [node.op_type for node in model.graph], model.opset_imports[""]
    (['Relu'], 11)
    """
    events = EventLog()
    own, version = model.opset_imports.get("", CANONICAL_OPSET), model.ir_version
    if own < CANONICAL_OPSET:
        legalize(model, CANONICAL_OPSET, kernels=False)
    optimize(model, events, fold_batch_norm=fold_batch_norm)
    if own < CANONICAL_OPSET:
        legalize(model, own, kernels=False)
    model.ir_version = version
    return events
