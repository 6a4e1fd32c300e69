"""Operators that torch computes with plain integers, where a size that varies would be fixed to the example's.

Their kernels, and some rules for their shapes, are written in C++ for numbers only. While capturing, and while
operators are taken apart, each is computed by what it stands for, in operators that take sizes of any kind; the graph
shows the operator itself as before.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence

import torch

from onnxport.capture.patches.replacing import Kernel, Kernels, kernels_replaced
from onnxport.torch_internals.operators import DispatchKey, OpOverload

_aten = torch.ops.aten


def operators_of_any_size() -> contextlib.AbstractContextManager[None]:
    """While this is open, fake tensors pass through these operators with sizes that vary."""
    composites: dict[OpOverload, Kernel] = {
        _aten.cov.default: _cov,
        _aten.corrcoef.default: _corrcoef,
        _aten.kron.default: _kron,
        _aten.max_pool1d.default: _max_pool1d,
        _aten.take_along_dim.default: _take_along_dim,
        _aten.tensor_split.sections: _tensor_split,
        _aten._dim_arange.default: _dim_arange,
        _aten._shape_as_tensor.default: _shape_as_tensor,
        _aten._reshape_from_tensor.default: _reshape_from_tensor,
        _aten.gradient.scalarint: _gradient_of_scalar,
        _aten.gradient.scalararray: _gradient_of_scalar,
        _aten.gradient.array: _gradient_of_scalar,
        _aten.gradient.scalarrayint: _gradient_of_scalars,
        _aten.gradient.scalarrayarray: _gradient_of_scalars,
        _aten.pad_sequence.default: _pad_sequence,
        _aten.fill_diagonal_.default: _fill_diagonal,
        _aten.repeat_interleave.self_Tensor: _repeat_each,
    }
    shapes: dict[OpOverload, Kernel] = {
        _aten.adaptive_max_pool3d.default: _pooled_to,
        _aten.fractional_max_pool3d.default: _pooled_at_random,
        _aten.geqrf.default: _reflections,
    }
    kernels: dict[OpOverload, Kernels] = {
        **{operator: {DispatchKey.CompositeImplicitAutograd: kernel} for operator, kernel in composites.items()},
        **{operator: {DispatchKey.Meta: kernel} for operator, kernel in shapes.items()},
    }
    return kernels_replaced(kernels)


def _cov(
    self: torch.Tensor,
    *,
    correction: int = 1,
    fweights: torch.Tensor | None = None,
    aweights: torch.Tensor | None = None,
) -> torch.Tensor:
    x = self.reshape(1, -1) if self.dim() < 2 else self
    given = [weights for weights in (fweights, aweights) if weights is not None]
    weights = given[0] if given else x.new_ones(x.shape[1], dtype=torch.int64)
    if len(given) == 2:
        weights = weights * given[1]
    total = weights.sum()
    freedom = total - correction
    if aweights is not None and correction != 0:
        freedom = total - correction * (weights * aweights).sum() / total
    centred = x - ((x * weights).sum(1) / total).unsqueeze(1)
    products = centred @ (centred * weights).t().conj() / freedom.clamp(min=0)
    alone = self.dim() < 2 or (isinstance(self.shape[0], int) and self.shape[0] == 1)
    return products.reshape([]) if alone else products


def _corrcoef(self: torch.Tensor) -> torch.Tensor:
    covariance = _cov(self)
    if covariance.dim() == 0:
        return covariance / covariance
    variances = covariance.diagonal()
    deviations = (variances.real if variances.is_complex() else variances).sqrt()
    scaled = covariance / deviations.unsqueeze(1) / deviations.unsqueeze(0)
    if scaled.is_complex():
        return torch.complex(scaled.real.clip(-1, 1), scaled.imag.clip(-1, 1))
    return scaled.clip(-1, 1)


def _kron(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    rank = max(a.dim(), b.dim())
    left = [1] * (rank - a.dim()) + list(a.shape)
    right = [1] * (rank - b.dim()) + list(b.shape)
    apart = a.reshape([size for each in left for size in (each, 1)])
    product = apart * b.reshape([size for each in right for size in (1, each)])
    return product.reshape([x * y for x, y in zip(left, right, strict=True)])


def _one(numbers: int | Sequence[int], default: int) -> int:
    if isinstance(numbers, int):
        return numbers
    return numbers[0] if len(numbers) else default


def _max_pool1d(
    self: torch.Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> torch.Tensor:
    kernel = _one(kernel_size, 1)
    pooled = _aten.max_pool2d_with_indices.default(
        self.unsqueeze(-2),
        [1, kernel],
        [1, _one(stride, kernel)],
        [0, _one(padding, 0)],
        [1, _one(dilation, 1)],
        ceil_mode,
    )
    values: torch.Tensor = pooled[0]
    return values.squeeze(-2)


def _repeat_each(
    self: torch.Tensor, repeats: torch.Tensor, dim: int | None = None, *, output_size: int | None = None
) -> torch.Tensor:
    x, axis = (self.reshape(-1), 0) if dim is None or self.dim() == 0 else (self, dim)
    if repeats.dim() == 0:
        repeats = repeats.reshape(1)
    # One count is for every element, and a number of counts that varies may be one.
    each = repeats.index_select(0, torch.remainder(torch.arange(x.shape[axis]), repeats.shape[0]))
    return x.index_select(axis, torch.repeat_interleave(each, output_size=output_size))


def _take_along_dim(self: torch.Tensor, indices: torch.Tensor, dim: int | None = None) -> torch.Tensor:
    if dim is None:
        return self.reshape(-1).gather(0, indices.reshape(-1))
    axis = dim % self.dim()
    others = torch.broadcast_shapes(
        [1 if at == axis else size for at, size in enumerate(self.shape)],
        [1 if at == axis else size for at, size in enumerate(indices.shape)],
    )
    source = [self.shape[axis] if at == axis else size for at, size in enumerate(others)]
    wanted = [indices.shape[axis] if at == axis else size for at, size in enumerate(others)]
    return self.expand(source).gather(axis, indices.expand(wanted))


def _tensor_split(self: torch.Tensor, sections: int, dim: int = 0) -> list[torch.Tensor]:
    """The first ones are longer by one where the size is no multiple, for each size another number of them."""
    size, start = self.shape[dim], 0
    parts = []
    for index in range(sections):
        length = (size + (sections - 1 - index)) // sections
        parts.append(self.narrow(dim, start, length))
        start = start + length
    return parts


def _dim_arange(like: torch.Tensor, dim: int) -> torch.Tensor:
    return torch.arange(like.shape[dim], device=like.device)


def _shape_as_tensor(self: torch.Tensor) -> torch.Tensor:
    return torch.empty([self.dim()], dtype=torch.int64)


def _reshape_from_tensor(self: torch.Tensor, shape: torch.Tensor) -> torch.Tensor:
    """What the sizes are, only run time knows: one of them may be -1."""
    sizes = [torch.empty([], dtype=torch.int64).item() for _ in range(shape.shape[0])]
    for size in sizes:
        torch._check(size >= 0)
    return self.new_empty(sizes)  # type: ignore[arg-type]


def _axes(self: torch.Tensor, dim: int | Sequence[int] | None) -> list[int]:
    if dim is None:
        return list(range(self.dim()))
    return [axis % self.dim() for axis in ([dim] if isinstance(dim, int) else dim)]


def _slope(self: torch.Tensor, axis: int, step: float, edge_order: int) -> torch.Tensor:
    """Differences of neighbours over their distance, one-sided at both ends."""
    length = self.shape[axis]

    def part(start: int, count: int = 1) -> torch.Tensor:
        return self.narrow(axis, start, count)

    inner = (part(2, length - 2) - part(0, length - 2)) / (2 * step)
    if edge_order == 1:
        start, end = part(1) - part(0), part(length - 1) - part(length - 2)
    else:
        start = 2 * part(1) - 1.5 * part(0) - 0.5 * part(2)
        end = 1.5 * part(length - 1) - 2 * part(length - 2) + 0.5 * part(length - 3)
    return torch.cat([start / step, inner, end / step], axis)


def _gradient_of_scalar(
    self: torch.Tensor, *, spacing: float | None = None, dim: int | Sequence[int] | None = None, edge_order: int = 1
) -> list[torch.Tensor]:
    step = 1 if spacing is None else spacing
    return [_slope(self, axis, step, edge_order) for axis in _axes(self, dim)]


def _gradient_of_scalars(
    self: torch.Tensor, *, spacing: Sequence[float], dim: int | Sequence[int] | None = None, edge_order: int = 1
) -> list[torch.Tensor]:
    axes = _axes(self, dim)
    return [_slope(self, axis, step, edge_order) for axis, step in zip(axes, spacing, strict=True)]


def _pad_sequence(
    sequences: Sequence[torch.Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> torch.Tensor:
    longest = functools.reduce(torch.sym_max, [sequence.shape[0] for sequence in sequences])
    behind = [0, 0] * (sequences[0].dim() - 1)
    padded = []
    for sequence in sequences:
        missing = longest - sequence.shape[0]
        amounts = [0, missing] if padding_side == "right" else [missing, 0]
        padded.append(torch.constant_pad_nd(sequence.to(sequences[0].dtype), [*behind, *amounts], padding_value))
    return torch.stack(padded, 0 if batch_first else 1)


def _fill_diagonal(self: torch.Tensor, fill_value: float, wrap: bool = False) -> torch.Tensor:
    if self.dim() == 2 and not wrap:
        self.diagonal().fill_(fill_value)
        return self
    filled: torch.Tensor = _aten.fill_diagonal_.default._op_dk(
        DispatchKey.CompositeImplicitAutograd, self, fill_value, wrap
    )
    return filled


def _pooled_to(self: torch.Tensor, output_size: Sequence[int]) -> tuple[torch.Tensor, torch.Tensor]:
    shape = [*self.shape[:-3], *output_size]
    return self.new_empty(shape), self.new_empty(shape, dtype=torch.int64)


def _pooled_at_random(
    self: torch.Tensor, kernel_size: Sequence[int], output_size: Sequence[int], random_samples: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    return _pooled_to(self, output_size)


def _reflections(self: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    *batch, rows, columns = self.shape
    return torch.empty_like(self), self.new_empty([*batch, torch.sym_min(rows, columns)])
