"""Numbers that are part of a file, such as the sizes of its images: what is computed of them alone is known as well.

Code that cuts and places by such numbers reads them into Python. While a model is captured tensors have no content, so
that each number read would be one that only run time knows. These have: operations on them alone are done at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from onnxport.torch_internals import pytree
from onnxport.torch_internals.fake_tensors import DisableTorchFunction, disable_current_modes

_MADE_OF_NUMBERS = (torch.tensor, torch.arange)
"""What makes tensors of plain numbers that code goes on to compute with, rather than to write to."""


class KnownNumbers(TorchFunctionMode):
    """While this is open, functions of known tensors alone are run for real, and their results are known.

    >>> import torch
    >>> from onnxport.pretrained.known_numbers import KnownNumbers
    >>> sizes = torch.tensor([2, 3])
    >>> with KnownNumbers([sizes]) as known:
    ...     print((sizes * 2).tolist(), known.holds(sizes + 1), known.holds(torch.ones(2)))
    [4, 6] True False
    """

    def __init__(self, tensors: Iterable[torch.Tensor]) -> None:
        super().__init__()
        # By identity, and kept, so that no other tensor gets the place of one in memory.
        self._known = {id(tensor): tensor for tensor in tensors}

    def holds(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor is known."""
        return id(tensor) in self._known

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> Any:
        """Run a function at once if it takes nothing but known tensors and plain numbers, or makes one of these."""
        given = {} if kwargs is None else dict(kwargs)
        leaves = pytree.tree_leaves((args, given))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        is_known = all(map(self.holds, tensors)) if tensors else func in _MADE_OF_NUMBERS
        if not is_known or any(isinstance(leaf, (torch.SymInt, torch.SymFloat, torch.SymBool)) for leaf in leaves):
            return func(*args, **given)
        with DisableTorchFunction(), disable_current_modes():
            result = func(*args, **given)
            if isinstance(result, Iterator):
                result = list(result)
                self._keep(result)
                return iter(result)
        self._keep(result)
        return result

    def _keep(self, result: object) -> None:
        for leaf in pytree.tree_leaves(result):
            if isinstance(leaf, torch.Tensor):
                self._known[id(leaf)] = leaf
