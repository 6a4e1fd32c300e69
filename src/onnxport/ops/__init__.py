"""ONNX operators as torch operators: they run in PyTorch, survive ``torch.export`` whole and export as one node."""

from __future__ import annotations

from onnxport.ops.attention import attention
from onnxport.ops.custom import custom_op
from onnxport.ops.library import KERNELS, Kernel
from onnxport.ops.recent import bit_cast, cum_prod, rms_normalization, swish, tensor_scatter
from onnxport.ops.rotary import rotary_embedding
from onnxport.ops.symbolic import symbolic, symbolic_multi_out
from onnxport.torch_internals.operators import OpOverload

__all__ = [
    "aten_decompositions",
    "attention",
    "bit_cast",
    "cum_prod",
    "custom_op",
    "rms_normalization",
    "rotary_embedding",
    "swish",
    "symbolic",
    "symbolic_multi_out",
    "tensor_scatter",
]


def aten_decompositions() -> dict[OpOverload, Kernel]:
    """What each operator of this package is made of in ATen, for ``ExportedProgram.run_decompositions``.

    >>> import torch, onnxport
    >>> class Model(torch.nn.Module):
    ...     def forward(self, x, cos, sin):
    ...         return onnxport.ops.rotary_embedding(x, cos, sin)
    >>> program = torch.export.export(Model(), (torch.ones(1, 2, 3, 4), torch.ones(1, 3, 2), torch.ones(1, 3, 2)))
    >>> decomposed = program.run_decompositions(onnxport.ops.aten_decompositions())
    >>> any("rotary" in str(node.target) for node in decomposed.graph.nodes)
    False
    """
    return dict(KERNELS)
