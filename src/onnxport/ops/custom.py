"""Operators of the user's own domain, made from calls as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onnxport.torch_internals.operators import OpOverload
from onnxport.translate.builder import Builder
from onnxport.translate.registry import STORAGE_ARGUMENTS
from onnxport.translate.tensor import Tensor

_TENSORS = frozenset({"Tensor", "Optional[Tensor]", "List[Tensor]", "List[Optional[Tensor]]"})


def custom_op(domain_op: str, version: int = 1) -> Callable[..., Any]:
    """A translation for ``custom_translation_table`` that makes one node of the domain out of each call.

    Tensor arguments become the inputs, in order; all others become attributes by their names. The outputs are
    what the operator's fake kernel says.

    Args:
        domain_op: Domain and operator, ``"mydomain::MyOp"``.
        version: The version of the domain's operators.

    >>> import torch, onnxport
    >>> @torch.library.custom_op("onnxport_docs::scale", mutates_args=())
    ... def scale(x: torch.Tensor, by: float) -> torch.Tensor:
    ...     return x * by
    >>> @scale.register_fake
    ... def _(x: torch.Tensor, by: float) -> torch.Tensor:
    ...     return torch.empty_like(x)
    >>> class Model(torch.nn.Module):
    ...     def forward(self, x):
    ...         return scale(x, 2.0)
    >>> table = {scale: onnxport.ops.custom_op("my.domain::Scale")}
    >>> program = onnxport.export(Model(), (torch.ones(3),), custom_translation_table=table)
    >>> [(node.domain, node.op_type, node.attributes["by"].value) for node in program.model.graph]
    [('my.domain', 'Scale', 2.0)]
    """
    domain, separator, op_type = domain_op.partition("::")
    if not separator:
        raise ValueError(f'A custom operator is named with its domain, "mydomain::{domain_op}", not {domain_op!r}.')

    def emit(op: Builder, **arguments: Any) -> Tensor | tuple[Tensor, ...]:
        assert op.call is not None
        target = op.call.target
        assert isinstance(target, OpOverload)
        types = {argument.name: str(argument.type) for argument in target._schema.arguments}
        inputs: list[Tensor | None] = []
        attributes = {}
        for name, value in arguments.items():
            if types[name] in _TENSORS:
                inputs.extend(value if isinstance(value, list) else [value])
            elif name not in STORAGE_ARGUMENTS:
                attributes[name] = value
        while inputs and inputs[-1] is None:
            inputs.pop()
        value = op.call.meta["val"]
        several = isinstance(value, list | tuple)
        dtypes = [one.dtype for one in (value if several else [value])]
        outputs = list(zip(dtypes, op.result_shapes(), strict=True))
        results = op.custom(domain, op_type, inputs, attributes, outputs, version)
        return results if several else results[0]

    return emit
