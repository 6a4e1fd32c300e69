"""Quantize: a model's weights as integers of few bits, written as the file is, block by block from torch's storage."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import onnx_ir as ir

from onnxport.errors import OpsetError
from onnxport.quantize.candidates import Candidate, Left, find_candidates
from onnxport.quantize.dynamic import DynamicForm, RoundedInputs
from onnxport.quantize.experts import find_mixtures
from onnxport.quantize.experts_form import ExpertsForm
from onnxport.quantize.graph_edits import GraphEdits
from onnxport.quantize.grid import IntegerGrid
from onnxport.quantize.half import convert_to_half
from onnxport.quantize.joined_products import SPLIT_SINCE, join_products
from onnxport.quantize.layers import QuantizationReport, QuantizedLayer
from onnxport.quantize.lazy_weight import QuantizedWeight
from onnxport.quantize.microsoft import MicrosoftForm
from onnxport.quantize.scheme import Quantization, as_quantization
from onnxport.quantize.standard import CHANNELS_SINCE, StandardForm, blocks_needed
from onnxport.quantize.static import Ranges, StaticGrids, observed_values, takes_static_grids
from onnxport.quantize.unjoined_products import unjoin_products
from onnxport.targets import Target

__all__ = [
    "Quantization",
    "QuantizationReport",
    "as_quantization",
    "opset_for",
    "quantize_model",
]

# What the entry of an initializer in a file takes, about; a weight is quantized only where the file becomes smaller.
_ENTRY_BYTES = 100
Observe = Callable[[list[ir.Value]], Ranges]
_BYTE = IntegerGrid(-128, 127, symmetric=True)


def quantize_model(
    model: ir.Model, quantization: Quantization, target: Target, observe: Observe | None = None
) -> QuantizationReport:
    """Quantize the weights of a model in place; nothing is computed before they are written or asked for.

    ``observe`` runs the model on the inputs for calibration and gives the ranges of some values.

    >>> import onnx_ir as ir, torch
    >>> from onnxport.onnx_build.literals import initializer
    >>> from onnxport.quantize import Quantization, quantize_model
    >>> from onnxport.targets import find_target
    >>> from onnxport.weights.torch_tensor import TorchTensor
    >>> weight = initializer(TorchTensor(torch.randn(64, 64)), "w")
    >>> x = ir.val("x", ir.DataType.FLOAT, [4, 64])
    >>> product = ir.node("MatMul", [x, weight])
    >>> graph = ir.Graph([x], product.outputs, nodes=[product], initializers=[weight], opset_imports={"": 21})
    >>> model = ir.Model(graph, ir_version=10)
    >>> report = quantize_model(model, Quantization("uint4"), find_target("onnx"))
    >>> [node.op_type for node in model.graph], [layer.form for layer in report.layers]
    (['DequantizeLinear', 'MatMul'], ['uint4, blocks of 32'])
    """
    _check_opset(quantization, model.opset_imports[""], target)
    if quantization.half is not None:
        names = convert_to_half(model, quantization.half)
        return QuantizationReport([], [], converted=names, scheme=quantization.scheme)
    edits = GraphEdits(model)
    joined_again = target.name == "onnxruntime" and quantization.block is not None and edits.opset >= SPLIT_SINCE
    unjoin_products(edits, quantization, always=joined_again)
    candidates, left = find_candidates(model, quantization)
    rounded = RoundedInputs(edits)
    ranges: Ranges = {}
    if quantization.scheme == "static-int8" and observe is not None:
        ranges = observe(observed_values(candidates, model.graph))
    grids = StaticGrids(edits, ranges)
    layers: list[QuantizedLayer] = []
    if target.name == "onnxruntime":
        written = _write_mixtures(edits, candidates, quantization, layers)
        candidates = [candidate for candidate in candidates if candidate.name not in written]
    for candidate in candidates:
        weight = _quantized(candidate, quantization, target)
        form = _form(edits, candidate, weight, quantization, target, rounded)
        if isinstance(form, StandardForm) and blocks_needed(candidate, weight, edits.opset):
            left.append(Left(candidate.name, "scales for its blocks need opset 21"))
            continue
        if isinstance(form, StandardForm) and edits.opset < CHANNELS_SINCE:
            left.append(Left(candidate.name, f"scales for its channels need opset {CHANNELS_SINCE}"))
            continue
        after = weight.size * weight.bits // 8 + weight.parameter_bytes
        if after + 2 * _ENTRY_BYTES >= weight.bytes_before:
            left.append(Left(candidate.name, "it would not become smaller"))
            continue
        operators = tuple(dict.fromkeys(reader.node.op_type for reader in candidate.readers))
        form.write()
        if ranges and takes_static_grids(candidate):
            grids.round(candidate, weight)
        layers.append(_layer(candidate, weight, operators, form.initializers))
    if target.name == "onnxruntime":
        join_products(edits)
    return QuantizationReport(layers, left, scheme=quantization.scheme)


def _layer(
    candidate: Candidate, weight: QuantizedWeight, operators: tuple[str, ...], initializers: Sequence[ir.Value]
) -> QuantizedLayer:
    written = sum(one.const_value.nbytes for one in initializers if one.const_value is not None)
    replaced = not any(source.uses() for source in candidate.sources)
    return QuantizedLayer(candidate.name, operators, weight.form, weight.bytes_before, written, replaced, weight)


def _write_mixtures(
    edits: GraphEdits, candidates: Sequence[Candidate], quantization: Quantization, layers: list[QuantizedLayer]
) -> set[str]:
    """Write mixtures of experts as one operator each where it fits; the names of the weights that they read."""
    readers = {reader.node: one for one in candidates for reader in one.readers if one.uses == {"matrices"}}
    written: set[str] = set()
    level, size = quantization.accuracy_level, 1 << quantization.bits
    grid = IntegerGrid(0, size - 1, quantization.is_symmetric)
    for mixture in list(find_mixtures(edits.model)) if readers else ():
        both = [readers[node] for node in (mixture.up, mixture.down) if node in readers]
        if len(both) != 2 or any(len(one.readers) > 1 or len(one.sources) > 1 for one in both):
            continue
        up, down = (
            QuantizedWeight(
                one.name, one.load, one.dtype, grid, quantization.block, refine=quantization.refine is not None
            )
            for one in both
        )
        if not ExpertsForm.fits(mixture, up, down, level):
            continue
        form = ExpertsForm(edits, mixture, up, down, level)
        form.write((both[0].sources[0], both[1].sources[0]))
        for candidate, weight, held in zip(both, (up, down), form.initializers, strict=True):
            edits.drop(candidate.sources)
            edits.take_name(held[0], candidate.name)
            layers.append(_layer(candidate, weight, ("QMoE",), held))
            written.add(candidate.name)
    return written


def _form(
    edits: GraphEdits,
    candidate: Candidate,
    weight: QuantizedWeight,
    quantization: Quantization,
    target: Target,
    rounded: RoundedInputs,
) -> StandardForm | MicrosoftForm | DynamicForm:
    """The operators that a weight is written with."""
    if quantization.scheme == "dynamic-int8" and DynamicForm.takes(candidate):
        return DynamicForm(edits, candidate, weight, rounded)
    if target.name == "onnxruntime" and MicrosoftForm.fits(candidate, weight):
        return MicrosoftForm(edits, candidate, weight, quantization.accuracy_level)
    return StandardForm(edits, candidate, weight)


def opset_for(asked: int | None, quantization: Quantization | None, target: Target) -> int:
    """The opset to write: the one asked for, or the reader's, or one that quantized weights need if it reads that."""
    needed = 0 if quantization is None else quantization.needed_opset
    opset = max(target.opset, needed) if needed <= target.newest_opset else target.opset
    opset = opset if asked is None else asked
    if quantization is not None:
        _check_opset(quantization, opset, target)
    return opset


def _check_opset(quantization: Quantization, opset: int, target: Target) -> None:
    """Raise if an opset can't hold what was asked for."""
    needed = quantization.needed_opset
    # The operators of onnxruntime have blocks.
    if opset >= needed or (target.name == "onnxruntime" and quantization.block is not None):
        return
    others = '`quantize="int8"` without a block size needs 13. ' if needed == 21 else ""
    own = "" if quantization.block is None else 'With target="onnxruntime" its own operators are written, in any opset.'
    raise OpsetError(
        f"Quantization to {quantization.scheme} needs opset {needed}, and the model has {opset}: export it with "
        f"opset_version={needed}. {others}{own}".rstrip()
    )


def _quantized(candidate: Candidate, quantization: Quantization, target: Target) -> QuantizedWeight:
    """The weight in the grid that its readers take."""
    refine = quantization.refine is not None
    name, load, dtype = candidate.name, candidate.load, candidate.dtype
    integers = quantization.scheme in ("dynamic-int8", "static-int8")
    if integers and (DynamicForm.takes(candidate) or takes_static_grids(candidate)):
        grid = IntegerGrid(-64, 63, symmetric=True) if quantization.reduce_range else _BYTE
        return QuantizedWeight(name, load, dtype, grid, None, refine=refine)
    if candidate.uses & {"channels", "recurrent"}:
        return QuantizedWeight(name, load, dtype, _BYTE, None, refine=refine)
    whole = "table" not in candidate.uses or quantization.block is None or load().shape[-1] % quantization.block == 0
    for_microsoft = target.name == "onnxruntime" and MicrosoftForm.takes(candidate) and whole
    if quantization.bits == 4 and {"right", "table"} <= candidate.uses and not for_microsoft:
        # Gather takes no 4-bit numbers, and DequantizeLinear no two of them in one byte of its own type.
        quantization = quantization.with_eight_bits()
    signed = quantization.scheme != "uint4"
    if quantization.bits == 4:
        signed = signed and candidate.uses not in ({"table"}, {"matrices"})
    signed = signed and not (for_microsoft and quantization.block is not None)
    size = 1 << quantization.bits
    least = -size // 2 if signed else 0
    grid = IntegerGrid(least, least + size - 1, quantization.is_symmetric)
    return QuantizedWeight(name, load, dtype, grid, quantization.block, refine=refine)
