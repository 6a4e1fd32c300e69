"""Batch normalisation in inference, taken up by the weights of the layer before it.

``BatchNormalization(Conv(x, w, b), scale, shift, mean, variance)`` is ``Conv(x, w f, (b - mean) f + shift)`` with
``f = scale / sqrt(variance + ε)``. The elements are computed (in double precision) each time they are written, piece
by piece, so nothing is held in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

Array = npt.NDArray[Any]

_PIECE_ELEMENTS = 1 << 18

LAYERS = frozenset({"Conv", "ConvTranspose", "Gemm"})
"""The operators whose weights can take up what follows."""


class ScaledTensor(ir.LazyTensor):
    """A tensor times factors along one or two of its first axes, multiplied piece by piece as it is written."""

    def __init__(self, tensor: ir.TensorProtocol, factors: Callable[[], Array], name: str) -> None:
        shape = ir.Shape(tensor.shape.numpy())
        super().__init__(self._product, dtype=tensor.dtype, shape=shape, name=name)
        self._source = tensor
        self._factors = factors

    def _product(self) -> ir.Tensor[Array]:
        pieces = list(self._pieces())
        array = np.concatenate(pieces) if pieces else self._source.numpy()
        return ir.Tensor(array, dtype=self.dtype, name=self.name)

    def _pieces(self) -> Iterator[Array]:
        array, factors = self._source.numpy(), self._factors()
        step = max(1, _PIECE_ELEMENTS // max(1, array[0].size)) if len(array) else 1
        for start in range(0, len(array), step):
            piece = array[start : start + step]
            along = factors if len(factors) == 1 else factors[start : start + step]
            yield np.multiply(piece, along, out=np.empty_like(piece), casting="same_kind")

    def tobytes(self) -> bytes:
        """Return the elements as bytes in C order."""
        return b"".join(self.slabs())

    def slabs(self) -> Iterator[memoryview]:
        """Yield the elements as bytes, piece by piece."""
        for piece in self._pieces():
            # Not every element type has a buffer of its own.
            yield np.ascontiguousarray(piece).view(np.uint8).reshape(-1).data


@dataclass(frozen=True)
class FoldedNorm:
    """A layer and the BatchNormalization that follows it, with the tensors of both.

    >>> import numpy as np, onnx_ir as ir
    >>> from onnxport.weights.batch_norm import FoldedNorm
    >>> conv, norm = ir.node("Conv", [None, None]), ir.node("BatchNormalization", [None] * 5, {"epsilon": 0.0})
    >>> numbers = [ir.tensor(np.array([value], np.float32)) for value in (3.0, 1.0, 0.0, 4.0)]
    >>> folded = FoldedNorm(conv, norm, ir.tensor(np.ones((1, 1, 1), np.float32)), None, *numbers)
    >>> folded.weight("w").numpy().tolist(), folded.bias("b").numpy().tolist()
    ([[[1.5]]], [1.0])
    """

    layer: ir.Node
    norm: ir.Node
    kernel: ir.TensorProtocol
    old_bias: ir.TensorProtocol | None
    scale: ir.TensorProtocol
    shift: ir.TensorProtocol
    mean: ir.TensorProtocol
    variance: ir.TensorProtocol

    def weight(self, name: str) -> ir.LazyTensor:
        """The weight of the layer that does both."""
        return ScaledTensor(self.kernel, self._along_kernel, name)

    def bias(self, name: str) -> ir.LazyTensor:
        """The bias of the layer that does both."""
        dtype = self.scale.dtype

        def evaluate() -> ir.Tensor[Array]:
            start = 0.0 if self.old_bias is None else _double(self.old_bias)
            array = (start - _double(self.mean)) * self._factor() + _double(self.shift)
            return ir.Tensor(array.astype(dtype.numpy()), dtype=dtype, name=name)

        return ir.LazyTensor(evaluate, dtype=dtype, shape=ir.Shape(self.scale.shape.numpy()), name=name)

    @property
    def absorbed(self) -> str:
        """How the state dict calls the normalisation."""
        scale = self.norm.inputs[1]
        return str(scale.name if scale is not None else self.norm.name).removesuffix(".weight")

    def _factor(self) -> Array:
        epsilon = self.norm.attributes.get_float("epsilon", 1e-5)
        factor: Array = _double(self.scale) / np.sqrt(_double(self.variance) + epsilon)
        return factor

    def _along_kernel(self) -> Array:
        factor, shape = self._factor(), self.kernel.shape.numpy()
        match self.layer.op_type:
            case "ConvTranspose":
                # [inputs, outputs / groups, ...]: the outputs of group g belong to the g-th part of the inputs.
                groups = self.layer.attributes.get_int("group", 1)
                rows = np.repeat(factor.reshape(groups, -1), shape[0] // groups, axis=0)
                return rows.reshape(*rows.shape, *[1] * (len(shape) - 2))
            case "Gemm" if not self.layer.attributes.get_int("transB", 0):
                return factor.reshape(1, -1)
            case _:
                return factor.reshape(-1, *[1] * (len(shape) - 1))


def pair_of(norm: ir.Node) -> ir.Node | None:
    """The layer before a BatchNormalization, if the two compute what one layer with other weights would."""
    result = norm.inputs[0]
    layer = result.producer() if result is not None else None
    if layer is None or layer.domain != "" or layer.op_type not in LAYERS or layer.graph is not norm.graph:
        return None
    if norm.attributes.get_int("training_mode", 0) != 0 or len(norm.outputs) != 1:
        return None
    if layer.op_type == "Gemm":
        ones = {layer.attributes.get_float(name, 1.0) for name in ("alpha", "beta")}
        bias = layer.inputs[2] if len(layer.inputs) > 2 else None
        flat = bias is None or (bias.shape is not None and bias.shape.rank() == 1)
        if ones != {1.0} or not flat:
            return None
    return layer


def folded_norm(layer: ir.Node, norm: ir.Node, tensors: Mapping[ir.Value, ir.TensorProtocol]) -> FoldedNorm | None:
    """The two as one, if all weights are among ``tensors`` and of the sizes that they should have."""
    kernel, bias = layer.inputs[1], layer.inputs[2] if len(layer.inputs) > 2 else None
    found = [tensors.get(value) if value is not None else None for value in (kernel, *norm.inputs[1:5])]
    known = [tensor for tensor in found if tensor is not None]
    old_bias = None if bias is None else tensors.get(bias)
    if len(known) != 5 or (bias is not None and old_bias is None):
        return None
    channels = known[1].shape[0]
    if old_bias is not None and old_bias.shape[0] != channels:
        return None
    return FoldedNorm(layer, norm, known[0], old_bias, *known[1:])


def _double(tensor: ir.TensorProtocol) -> Array:
    return tensor.numpy().astype(np.float64)
