"""The numbers that a block of weights may take: where the grid lies, the nearest of it, and what they stand for."""

from __future__ import annotations

from dataclasses import dataclass

import torch

# The half-quadratic method: the norm whose error is made small (below 1, so that outliers count little), how firmly the
# grid is held to what it stands for at first, by how much more in each step, and how many steps there are.
_NORM = 0.7
_FIRMNESS = 5.0
_GROWTH = 1.05
_STEPS = 20


@dataclass(frozen=True)
class IntegerGrid:
    """Integers from ``least`` to ``most`` that stand for ``scale * (integer - zero)``.

    >>> import torch
    >>> from onnxport.quantize.grid import IntegerGrid
    >>> grid = IntegerGrid(0, 15, symmetric=False)
    >>> scale, zero = grid.fit(torch.tensor([[-1.0, 0.0, 0.5, 2.0]]))
    >>> scale.tolist(), zero.tolist()
    ([0.20000000298023224], [5.0])
    >>> grid.nearest(torch.tensor([-1.0, 2.0]), scale, zero).tolist()
    [0.0, 15.0]
    """

    least: int
    most: int
    symmetric: bool

    def fit(self, blocks: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Scale and zero point of each block (the last axis), so that the grid spans it and has zero on it."""
        low, high = torch.aminmax(blocks, dim=-1)
        low, high = low.clamp(max=0), high.clamp(min=0)
        if self.symmetric:
            middle = (self.least + self.most + 1) // 2
            scale = torch.maximum(high / (self.most - middle), low / (self.least - middle))
            scale = torch.where(scale == 0, 1, scale)
            return scale, torch.full_like(scale, middle)
        scale = (high - low) / (self.most - self.least)
        scale = torch.where(scale == 0, 1, scale)
        return scale, self._within(self.least - low / scale)

    def nearest(self, numbers: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor) -> torch.Tensor:
        """The integers of the grid that stand for numbers best, as floating point."""
        return self._within(numbers / scale + zero)

    def refined(
        self, blocks: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Scale and zero point of each block at which rounding loses less, as the half-quadratic method finds them.

        What the grid can't reach is split off with a shrinking step, and the grid is fitted to the rest by least
        squares, in turn; of all grids on the way the best is taken, block by block.
        """
        best_scale, best_zero, best_loss = scale, zero, self._loss(blocks, scale, zero)
        firmness = _FIRMNESS
        for _ in range(_STEPS):
            spread, at = scale.unsqueeze(-1), zero.unsqueeze(-1)
            integers = self.nearest(blocks, spread, at)
            missed = _shrunk((blocks - spread * (integers - at)) / spread, firmness) * spread
            scale, zero = self._fitted(blocks - missed, integers, scale, zero)
            loss = self._loss(blocks, scale, zero)
            better = loss < best_loss
            best_scale, best_zero = torch.where(better, scale, best_scale), torch.where(better, zero, best_zero)
            best_loss = torch.where(better, loss, best_loss)
            firmness *= _GROWTH
        return best_scale, best_zero

    def _fitted(
        self, numbers: torch.Tensor, integers: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        moved = integers - zero.unsqueeze(-1)
        squares = moved.square().sum(-1)
        fitted = (numbers * moved).sum(-1) / squares.clamp(min=1)
        scale = torch.where((squares > 0) & (fitted > 0), fitted, scale)
        if self.symmetric:
            return scale, zero
        return scale, self._within((integers - numbers / scale.unsqueeze(-1)).mean(-1))

    def _loss(self, blocks: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor) -> torch.Tensor:
        spread, at = scale.unsqueeze(-1), zero.unsqueeze(-1)
        return (blocks - spread * (self.nearest(blocks, spread, at) - at)).abs().pow(_NORM).sum(-1)

    def _within(self, numbers: torch.Tensor) -> torch.Tensor:
        return numbers.round().clamp(self.least, self.most)


def _shrunk(errors: torch.Tensor, firmness: float) -> torch.Tensor:
    """What is left of errors after the proximal step of the norm: nothing of small ones, most of large ones."""
    size = errors.abs()
    return errors.sign() * (size - size.clamp(min=1e-6).pow(_NORM - 1) / firmness).clamp(min=0)
