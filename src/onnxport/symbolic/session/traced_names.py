"""Operators that a TorchScript trace has under another name than a captured graph.

Every convolution is traced as ``aten::_convolution``, and an operator that torch has several names for under one of
them, so symbolic functions are registered for those.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch

from onnxport.torch_internals.operators import OpOverload

Arrange = Callable[[Mapping[str, object]], dict[str, object] | None]

CONVOLUTION = torch.ops.aten._convolution.default
# TorchScript has one name for operators that torch has several for.
_OTHER_NAMES = {
    "inverse": "linalg_inv",
    "det": "linalg_det",
    "matrix_power": "linalg_matrix_power",
    "absolute": "abs",
    "clip": "clamp",
    "concat": "cat",
    "concatenate": "cat",
    "divide": "div",
    "true_divide": "div",
    "fix": "trunc",
    "ger": "outer",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "ne",
    "subtract": "sub",
    "swapaxes": "transpose",
    "swapdims": "transpose",
}
_PLAIN = ("conv1d", "conv2d", "conv3d")
_TRANSPOSED = ("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")


def _renamed(target: OpOverload, name: str) -> tuple[OpOverload, Arrange] | None:
    """The same operator under another name; its parameters are in the same order, and may be called otherwise."""
    packet = getattr(torch.ops.aten, name)
    overloads: list[OpOverload] = [getattr(packet, one) for one in packet.overloads()]
    same = next((overload for overload in overloads if _kinds(overload) == _kinds(target)), None)
    if same is None:
        return None
    pairs = list(zip(target._schema.arguments, same._schema.arguments, strict=True))
    return same, lambda given: {own.name: given[theirs.name] for theirs, own in pairs}


def _kinds(operator: OpOverload) -> list[tuple[str, bool]]:
    return [(str(argument.type), argument.kwarg_only) for argument in operator._schema.arguments]


def traced_as(target: OpOverload) -> tuple[OpOverload, Arrange] | None:
    """The operator that a trace has in the place of another, and how its arguments come from the other's.

    >>> import torch
    >>> from onnxport.symbolic.session.traced_names import traced_as
    >>> traced_as(torch.ops.aten.conv2d.default)[0]
    <OpOverload(op='aten._convolution', overload='default')>
    """
    namespace, _, name = target._schema.name.partition("::")
    if namespace == "aten" and name in _OTHER_NAMES:
        return _renamed(target, _OTHER_NAMES[name])
    if namespace != "aten" or name not in (*_PLAIN, *_TRANSPOSED, "convolution"):
        return None
    dims = int(name[-2]) if name != "convolution" else None

    def arrange(given: Mapping[str, object]) -> dict[str, object] | None:
        if isinstance(given["padding"], str):
            return None
        return {
            "input": given["input"],
            "weight": given["weight"],
            "bias": given["bias"],
            "stride": _per_dim(given["stride"], dims),
            "padding": _per_dim(given["padding"], dims),
            "dilation": _per_dim(given["dilation"], dims),
            "transposed": given.get("transposed", name in _TRANSPOSED),
            "output_padding": _per_dim(given.get("output_padding", [0]), dims),
            "groups": given["groups"],
            "benchmark": False,
            "deterministic": False,
            "cudnn_enabled": True,
            "allow_tf32": True,
        }

    return CONVOLUTION, arrange


def _per_dim(value: object, dims: int | None) -> list[object]:
    """One number for each dimension of the image; a single one is meant for all."""
    numbers = list(value) if isinstance(value, list | tuple) else [value]
    return numbers * dims if dims is not None and len(numbers) == 1 else numbers
