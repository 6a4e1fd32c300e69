"""The torch library that ONNX operators live in, and how one is defined: schema, eager kernel, fake kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from onnxport.torch_internals.operators import OpOverload

NAMESPACE = "onnxport"

# torch releases a library's operators with the object, so it lives as long as the module.
_LIBRARY = torch.library.Library(NAMESPACE, "FRAGMENT")

Kernel = Callable[..., Any]

KERNELS: dict[OpOverload, Kernel] = {}
"""Every operator with its eager kernel, which is written in ATen operators only."""


def define(schema: str, kernel: Kernel, fake: Kernel) -> OpOverload:
    """Define ``onnxport::name(...)`` so that ``torch.export`` keeps each call of it whole."""
    name = schema.partition("(")[0]
    _LIBRARY.define(schema)
    _LIBRARY.impl(name, kernel, "CompositeExplicitAutograd")
    # As a kernel for meta tensors and not by `torch.library.register_fake`, which looks up the source of its caller:
    # a tenth of a second at import.
    _LIBRARY.impl(name, fake, "Meta")
    overload: OpOverload = getattr(getattr(torch.ops, NAMESPACE), name).default
    return overload


def define_with_kernel(schema: str, kernel: Kernel, fake: Kernel) -> OpOverload:
    """Define an operator that computes what ONNX says: it can be trained through, and decomposed to ATen."""
    overload = define(schema, kernel, fake)
    KERNELS[overload] = kernel

    def remember(ctx: Any, inputs: Any, output: object, keyword_only_inputs: dict[str, Any] | None = None) -> None:
        tensors = [value for value in inputs if isinstance(value, torch.Tensor)]
        ctx.save_for_backward(*tensors)
        ctx.rest = [None if isinstance(value, torch.Tensor) else (value,) for value in inputs]
        ctx.options = {} if keyword_only_inputs is None else keyword_only_inputs

    def backward(ctx: Any, *gradients: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        saved = iter(ctx.saved_tensors)
        # Trailing arguments that have their default are not counted here, though they are among the inputs.
        needs = ctx.needs_input_grad
        with torch.enable_grad():
            inputs = [next(saved).detach() if rest is None else rest[0] for rest in ctx.rest]
            wanted = [
                value.requires_grad_()
                for value, needed in zip(inputs, needs, strict=False)
                if needed and isinstance(value, torch.Tensor)
            ]
            results = kernel(*inputs, **ctx.options)
        pairs = [
            (result, gradient)
            for result, gradient in zip(results if isinstance(results, tuple) else (results,), gradients, strict=True)
            if gradient is not None and result.requires_grad
        ]
        found = iter(
            torch.autograd.grad(
                [result for result, _ in pairs], wanted, [gradient for _, gradient in pairs], allow_unused=True
            )
        )
        return tuple(next(found) if needed else None for needed in needs)

    torch.library.register_autograd(f"{NAMESPACE}::{overload._opname}", backward, setup_context=remember, lib=_LIBRARY)
    return overload
