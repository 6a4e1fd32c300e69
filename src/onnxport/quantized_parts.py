"""Quantized tensors as models take and return them: as integers, a scale and a zero point, each a tensor of its own.

ONNX has no tensor that knows its scale, so a quantized input of a model is three inputs of the file, and a quantized
result three outputs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from onnxport.errors import InputError
from onnxport.torch_internals import pytree
from onnxport.torch_internals.layers import make_per_tensor_quantized_tensor

#: The types of quantized tensors, by those of their integers.
QUANTIZED_DTYPES = {torch.uint8: torch.quint8, torch.int8: torch.qint8, torch.int32: torch.qint32}


class QuantizedParts(NamedTuple):
    """What a quantized tensor consists of."""

    value: torch.Tensor
    scale: torch.Tensor
    zero_point: torch.Tensor


def is_quantized(tree: object) -> bool:
    """Whether there is a quantized tensor among these."""
    return any(isinstance(leaf, torch.Tensor) and leaf.is_quantized for leaf in pytree.tree_leaves(tree))


def taken_apart(tree: object, scale: torch.dtype = torch.float64, zero_point: torch.dtype | None = torch.int64) -> Any:
    """The same with each quantized tensor as its parts, of which scale and zero point have these types.

    >>> import torch
    >>> from onnxport.quantized_parts import taken_apart
    >>> taken_apart(torch.quantize_per_tensor(torch.ones(2), 0.5, 10, torch.quint8)).value
    tensor([12, 12], dtype=torch.uint8)
    """

    def parts(tensor: torch.Tensor) -> object:
        if not tensor.is_quantized:
            return tensor
        if tensor.qscheme() != torch.per_tensor_affine:
            raise InputError(
                "A model is given or returns a tensor with a scale for each channel, which has no form as an input or "
                "output of a file. Quantize it with one scale, or dequantize it."
            )
        integers = tensor.int_repr()
        kind = integers.dtype if zero_point is None else zero_point
        return QuantizedParts(
            integers, torch.tensor(tensor.q_scale(), dtype=scale), torch.tensor(tensor.q_zero_point(), dtype=kind)
        )

    return pytree.tree_map_only(torch.Tensor, parts, tree)


def put_together(tree: object) -> object:
    """The same with quantized tensors in the place of their parts."""

    def tensor(leaf: object) -> object:
        if not isinstance(leaf, QuantizedParts):
            return leaf
        made = make_per_tensor_quantized_tensor(leaf.value, float(leaf.scale), int(leaf.zero_point))
        return made

    return pytree.tree_map(tensor, tree, is_leaf=lambda node: isinstance(node, QuantizedParts))


class TakingParts(torch.nn.Module):
    """A model that takes and returns the parts of quantized tensors, as the file of it does."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *args: object, **kwargs: object) -> object:
        """Call the model with quantized tensors."""
        args, kwargs = put_together((args, kwargs))  # type: ignore[misc]
        return taken_apart(self.model(*args, **kwargs), torch.float32, None)
