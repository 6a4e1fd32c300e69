"""What torch itself leaves to chance, or ONNX to the runtime: no comparison can be made of it."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fuzz.programs import Program, scope_of

OF_NOTHING = {"median"}
# ONNX says nothing of NaN in ReduceMax, ArgMax, MaxPool, TopK and Unique; kernels of onnxruntime go by where it stands.
IN_ORDER = {
    "amax",
    "amin",
    "argmax",
    "argmin",
    "argsort",
    "kthvalue",
    "max",
    "max_pool2d_with_indices",
    "median",
    "min",
    "sort",
    "topk",
    "_unique2",
}


class Watch(TorchDispatchMode):
    """Notes what operators are asked for that has no defined result."""

    def __init__(self) -> None:
        super().__init__()
        self.reason = ""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> object:
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.removeprefix("aten::")
        tensors = [value for value in args if isinstance(value, torch.Tensor)]
        first = result[0] if isinstance(result, tuple | list) and result else result
        if name in OF_NOTHING and tensors[0].numel() == 0 and first.numel() > 0:
            self.reason = f"{name} of no elements at all: NaN in torch, which ONNX leaves to the runtime"
        if name == "median" and any(size > 1 and step == 0 for size, step in _axes(tensors[0])):
            self.reason = "median of an expanded tensor: torch 2.13 sorts each row in the memory that they share"
        if name in IN_ORDER and any(x.is_floating_point() and bool(x.isnan().any()) for x in tensors):
            self.reason = f"{name} among numbers that are NaN, whose place ONNX leaves to the runtime"
        if name == "prod" and first.isnan().any() and all(bool(x.isfinite().all()) for x in tensors):
            self.reason = "a product that is too large before it meets a 0: runtimes multiply in another order"
        if name == "bmm" and tensors[0].shape[-1] == 0 and first.numel() > 0:
            self.reason = "batched matrices with no column: onnxruntime 1.31 leaves the result unwritten"
        if isinstance(first, torch.Tensor) and first.dtype == torch.float16:
            self._in_half(tensors, first)
        if name in ("_to_copy", "copy_") and isinstance(first, torch.Tensor) and tensors:
            self._converted(tensors[-1], first.dtype)
        return result

    def _in_half(self, given: list[torch.Tensor], result: torch.Tensor) -> None:
        """onnxruntime computes float16 in float32, and leaves out the rounding between its kernels."""
        least = torch.finfo(torch.float16).tiny
        lost = any(bool(((x != 0) & (x.abs() < least)).any()) for x in given if x.is_floating_point())
        if lost or bool(result.isinf().any()):
            self.reason = "a number beyond float16 or too small for it, which runtimes keep that compute in float32"

    def _converted(self, given: torch.Tensor, wanted: torch.dtype) -> None:
        if not given.is_floating_point() or wanted.is_floating_point or wanted == torch.bool:
            return
        limits = torch.iinfo(wanted)
        given = given.double()
        if not bool(((given > float(limits.min) - 1) & (given < float(limits.max) + 1)).all()):
            self.reason = f"a number beyond {wanted} converted to it: C++ leaves that to the processor"


def _axes(x: torch.Tensor) -> list[tuple[int, int]]:
    return list(zip(x.shape, x.stride(), strict=True))


def undefined(program: Program, size: tuple[int, int]) -> dict[int, str]:
    """The statements without a defined result at a size, with the reason."""
    found = {}
    scope = scope_of(size)
    with torch.no_grad():
        for index, (_, statement) in enumerate(program.statements):
            with Watch() as watch:
                exec(statement, scope)
            if watch.reason:
                found[index] = watch.reason
    return found
