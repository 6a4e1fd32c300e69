"""What ``compute_values`` returns: tensors in the order asked for, which can also be had by name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Self, SupportsIndex, overload

import torch


class ComputedValues(tuple[torch.Tensor, ...]):
    """A tuple of tensors with a name for each.

    >>> import torch
    >>> values = ComputedValues(["a", "b"], [torch.tensor(1), torch.tensor(2)])
    >>> values[1], values["a"]
    (tensor(2), tensor(1))
    >>> dict(values)
    {'a': tensor(1), 'b': tensor(2)}
    """

    _names: tuple[str, ...]

    def __new__(cls, names: Sequence[str], values: Iterable[torch.Tensor]) -> Self:
        made = super().__new__(cls, values)
        made._names = tuple(names)
        return made

    def __getnewargs__(self) -> tuple[tuple[str, ...], tuple[torch.Tensor, ...]]:
        return self._names, tuple(self)

    @overload
    def __getitem__(self, key: str | SupportsIndex) -> torch.Tensor: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[torch.Tensor, ...]: ...
    def __getitem__(self, key: str | SupportsIndex | slice) -> torch.Tensor | tuple[torch.Tensor, ...]:
        if not isinstance(key, str):
            return super().__getitem__(key)
        if key not in self._names:
            raise KeyError(f"{key!r} is not one of the computed values: {', '.join(self._names)}")
        return super().__getitem__(self._names.index(key))

    def __contains__(self, key: object) -> bool:
        return key in self._names if isinstance(key, str) else any(key is value for value in self)

    def keys(self) -> tuple[str, ...]:
        """The names, in order."""
        return self._names

    def values(self) -> tuple[torch.Tensor, ...]:
        """The tensors, in order."""
        return tuple(self)

    def items(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Pairs of name and tensor, in order."""
        return zip(self._names, self, strict=True)
