"""Regions: the graphs inside If, Loop and Scan, and the values that enter and leave them."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir
import torch

from onnxport.translate.builder import Builder
from onnxport.translate.dims import Int
from onnxport.translate.tensor import Tensor
from onnxport.weights.dtypes import COMPLEX_PARTS, from_torch_dtype


def inside(op: Builder, x: Tensor) -> Tensor:
    """A tensor of an outer graph as one that arithmetic in this graph may use."""
    return Tensor(op, x.value, x.dtype, x.known_shape)


def region_input(op: Builder, name: str, dtype: torch.dtype, shape: Sequence[Int] | None) -> Tensor:
    """An input of a region, such as a loop's state."""
    stored = from_torch_dtype(COMPLEX_PARTS.get(dtype, dtype))
    value = ir.Value(name=op.shared.names.unique(f"{op.scope}_{name}"), type=ir.TensorType(stored))
    if shape is not None:
        value.shape = op.ir_shape((*shape, 2) if dtype.is_complex else shape)
    return Tensor(op, value, dtype, shape)


def region_state(op: Builder, name: str, like: Tensor, shape: Sequence[Int] | None) -> Tensor:
    """An input of a region of the type of what it starts from: a tensor, or a sequence of tensors."""
    state = region_input(op, name, like.dtype, None if like.is_handle else shape)
    if like.is_handle:
        state.value.type = like.value.type
    return state


def with_types(made: Sequence[Tensor], results: Sequence[object]) -> None:
    """Let what a node gives be sequences, or other handles, where its regions give such."""
    for value, result in zip(made, results, strict=True):
        if isinstance(result, Tensor) and result.is_handle:
            value.value.type = result.value.type


def region(op: Builder, name: str, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> ir.Graph:
    """The nodes a builder made as a graph."""
    made = {value for node in op.nodes for value in node.outputs}
    results: list[ir.Value] = []
    for x in outputs:
        # What a region returns must be made in it, and only once.
        fresh = x.value in made and x.value not in results
        results.append(x.value if fresh else op.Identity(inside(op, x)).value)
    return ir.Graph([x.value for x in inputs], results, nodes=op.nodes, name=f"{op.scope}_{name}")
