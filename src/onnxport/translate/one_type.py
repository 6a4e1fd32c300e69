"""Operators whose operands torch wants in one element type; a capture, which computes nothing, lets others pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from onnxport.errors import Problem
from onnxport.provenance import operator_name, source_line
from onnxport.translate.tensor import Tensor

_aten = torch.ops.aten

#: The positions of the operands that must agree.
_OPERANDS: dict[object, tuple[int, ...]] = {
    _aten.linear.default: (0, 1, 2),
    _aten.matmul.default: (0, 1),
    _aten.mm.default: (0, 1),
    _aten.bmm.default: (0, 1),
    _aten.mv.default: (0, 1),
    _aten.dot.default: (0, 1),
    _aten.vdot.default: (0, 1),
    _aten.addmm.default: (0, 1, 2),
    _aten.addmv.default: (0, 1, 2),
    _aten.addbmm.default: (0, 1, 2),
    _aten.baddbmm.default: (0, 1, 2),
    _aten.conv1d.default: (0, 1, 2),
    _aten.conv2d.default: (0, 1, 2),
    _aten.conv3d.default: (0, 1, 2),
    _aten.convolution.default: (0, 1, 2),
    _aten.layer_norm.default: (0, 2, 3),
    _aten.group_norm.default: (0, 2, 3),
    _aten.batch_norm.default: (0, 1, 2, 3, 4),
    _aten.instance_norm.default: (0, 1, 2, 3, 4),
}
#: Normalisations keep weights and statistics in single precision where the values have half.
_NORMS = frozenset(
    {_aten.layer_norm.default, _aten.group_norm.default, _aten.batch_norm.default, _aten.instance_norm.default}
)
_HALVES = (torch.float16, torch.bfloat16)


def operands_of_one_type(target: object) -> tuple[int, ...]:
    """The positions of the operands of an operator that must be of one type; none for most operators."""
    return _OPERANDS.get(target, ())


def mixed_types(node: torch.fx.Node, positions: tuple[int, ...], env: Mapping[torch.fx.Node, object]) -> Problem | None:
    """What to say of a call that eager execution refuses because its operands are of different types."""
    tensors: list[torch.fx.Node] = []
    types: list[torch.dtype] = []
    alike = True
    for operand in [node.args[at] for at in positions if at < len(node.args)]:
        if type(operand) is torch.fx.Node and type(tensor := env.get(operand)) is Tensor:
            tensors.append(operand)
            types.append(tensor.dtype)
            alike = alike and types[0] is tensor.dtype
    if alike:
        return None
    if node.target in _NORMS and types[0] in _HALVES and set(types[1:]) <= {torch.float32, types[0]}:
        return None
    shown = ", ".join(f"{_role(tensor, env)} is {_short(dtype)}" for tensor, dtype in zip(tensors, types, strict=True))
    return Problem(
        f"{node.target} takes operands of one type, but {shown}",
        source_line(node),
        _remedy(tensors, types, env),
        operator=operator_name(node.target),
    )


def _remedy(tensors: Sequence[torch.fx.Node], types: Sequence[torch.dtype], env: Mapping[torch.fx.Node, object]) -> str:
    if _is_weight(tensors[1], env):
        weight = _short(types[1])
        return (
            f"Pass an example of the type of the weights, x.to(torch.{weight}), or convert the model to that of the "
            "input."
        )
    # Of numbers with a fraction and without, those without are converted.
    converted, other = (0, 1) if types[1].is_floating_point and not types[0].is_floating_point else (1, 0)
    return f"Convert one of them on that line: {tensors[converted].name}.to(torch.{_short(types[other])})."


def _is_weight(node: torch.fx.Node, env: Mapping[torch.fx.Node, object]) -> bool:
    tensor = env.get(node)
    return node.op == "placeholder" and isinstance(tensor, Tensor) and tensor.value.const_value is not None


def _role(node: torch.fx.Node, env: Mapping[torch.fx.Node, object]) -> str:
    tensor = env.get(node)
    if node.op != "placeholder" or not isinstance(tensor, Tensor):
        return node.name
    return str(tensor.value.name) if _is_weight(node, env) else f"the input {tensor.value.name!r}"


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
