"""Matrix products."""

from __future__ import annotations

from onnxport.translate import Builder, Number, Tensor, translates


@translates("aten::linear")
def linear(op: Builder, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    if input.rank == 2 and weight.rank == 2 and (bias is None or bias.rank == 1):
        return op.Gemm(input, weight, bias, transB=1)
    transposed = op.transpose(weight, [1, 0]) if weight.rank == 2 else weight
    product = input @ transposed
    return product if bias is None else product + bias


@translates("aten::matmul", "aten::mm", "aten::bmm")
def matmul(op: Builder, self: Tensor, other: Tensor | None = None, mat2: Tensor | None = None) -> Tensor:
    right = other if mat2 is None else mat2
    assert right is not None
    return self @ right


@translates("aten::addmm")
def addmm(op: Builder, self: Tensor, mat1: Tensor, mat2: Tensor, beta: Number, alpha: Number) -> Tensor:
    return op.Gemm(mat1, mat2, self, alpha=alpha, beta=beta)


@translates("aten::embedding")
def embedding(
    op: Builder, weight: Tensor, indices: Tensor, padding_idx: int, scale_grad_by_freq: bool, sparse: bool
) -> Tensor:
    return op.Gather(weight, indices)
