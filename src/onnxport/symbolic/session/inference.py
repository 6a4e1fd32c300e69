"""Types of what a symbolic function writes, inferred by the rules of the ONNX operators, node by node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import onnx
import onnx_ir as ir
import torch
from onnx import helper, numpy_helper, shape_inference

from onnxport.legalize.versions import ir_version_for
from onnxport.translate import Int
from onnxport.translate.promotion import result_dtype
from onnxport.weights.dtypes import ONNX_TO_TORCH, from_torch_dtype

PartialShape: TypeAlias = "tuple[Int | None, ...]"


@dataclass(frozen=True)
class InferredType:
    """What the operator determines of an output; a sequence is known by the dtype of its tensors."""

    dtype: torch.dtype | None = None
    shape: PartialShape | None = None
    is_sequence: bool = False


@dataclass(frozen=True)
class Known:
    """What is known of an input: its dtype, its sizes as far as they are, and its content if it is a constant.

    A Python number is of no dtype in particular: it takes that of the tensors beside it.
    """

    dtype: torch.dtype | None
    shape: PartialShape | None
    data: npt.NDArray[np.generic] | None = None
    is_number: bool = False
    is_sequence: bool = False

    def cast(self, dtype: torch.dtype) -> Known:
        """The same in another dtype."""
        data = None if self.data is None else self.data.astype(from_torch_dtype(dtype).numpy())
        return Known(dtype, self.shape, data)


def of_one_dtype(inputs: Sequence[Known | None], kinds: Sequence[str]) -> list[Known | None]:
    """The inputs with their common dtype where they are of the same kind, as they will be written."""
    groups: dict[str, list[Known]] = {}
    for known, kind in zip(inputs, kinds, strict=True):
        if known is not None and kind and known.dtype is not None and not (known.is_number or known.is_sequence):
            groups.setdefault(kind, []).append(known)
    dtypes = {kind: _common(group) for kind, group in groups.items()}
    return [
        known if known is None or kind not in dtypes or known.dtype is None else known.cast(dtypes[kind])
        for known, kind in zip(inputs, kinds, strict=True)
    ]


def _common(group: Sequence[Known]) -> torch.dtype:
    single = [known.dtype for known in group if known.shape == () and known.dtype is not None]
    return result_dtype([known.dtype for known in group if known.shape != () and known.dtype is not None], single, [])


def infer_outputs(
    op_type: str,
    attributes: Mapping[str, ir.Attr],
    inputs: Sequence[Known | None],
    outputs: int,
    opset: int,
    label: Callable[[Int], int | str],
) -> list[InferredType]:
    """What the operator says of each output; a size that varies keeps its name."""
    names: dict[str, Int] = {}
    given: list[str] = []
    types: dict[str, onnx.TypeProto] = {}
    data: dict[str, onnx.TensorProto] = {}
    for position, known in enumerate(inputs):
        name = "" if known is None else f"i{position}"
        given.append(name)
        if known is None:
            continue
        if known.dtype is None:
            return [InferredType()] * outputs
        sizes = None if known.shape is None else [_named(size, label, names) for size in known.shape]
        tensor = helper.make_tensor_type_proto(int(from_torch_dtype(known.dtype)), sizes)
        types[name] = helper.make_sequence_type_proto(tensor) if known.is_sequence else tensor
        if known.data is not None:
            data[name] = numpy_helper.from_array(known.data, name)
    node = helper.make_node(op_type, given, [f"o{index}" for index in range(outputs)])
    node.attribute.extend(ir.serde.serialize_attribute(attribute) for attribute in attributes.values())
    try:
        found = shape_inference.infer_node_outputs(
            onnx.defs.get_schema(op_type, opset),
            node,
            types,
            data,
            opset_imports=[helper.make_opsetid("", opset)],
            ir_version=ir_version_for(opset),
        )
    except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError, onnx.defs.SchemaError, RuntimeError):
        # A node that is wrong is refused with its name when the model is checked against the opset.
        return [InferredType()] * outputs
    return [_read(found.get(f"o{index}"), names) for index in range(outputs)]


def _named(size: Int | None, label: Callable[[Int], int | str], names: dict[str, Int]) -> int | str | None:
    if size is None or isinstance(size, int):
        return size
    text = str(label(size))
    names[text] = size
    return text


def _read(found: onnx.TypeProto | None, names: Mapping[str, Int]) -> InferredType:
    if found is None:
        return InferredType()
    if found.HasField("sequence_type"):
        item = _read(found.sequence_type.elem_type, names)
        return InferredType(item.dtype, None, is_sequence=True)
    if not found.HasField("tensor_type"):
        return InferredType()
    dtype = ONNX_TO_TORCH.get(ir.DataType(found.tensor_type.elem_type))
    if not found.tensor_type.HasField("shape"):
        return InferredType(dtype)
    sizes = tuple(
        dim.dim_value if dim.HasField("dim_value") else names.get(dim.dim_param) for dim in found.tensor_type.shape.dim
    )
    return InferredType(dtype, sizes)
