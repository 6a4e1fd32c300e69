"""Names of constants that have none in the model: a packed weight is called as the layer that holds it calls it."""

from __future__ import annotations

import re

import torch

from onnxport.torch_internals.operators import OpOverload

_UNNAMED = re.compile(r"lifted_tensor_\d+")
"""What torch.export calls a tensor that is no attribute of the module that uses it."""

_ROLES = ("weight", "bias")
_PARTS = {
    "input": "",
    "scale": "_scale",
    "scales": "_scale",
    "zero_point": "_zero_point",
    "zero_points": "_zero_point",
}
_PASSING = ("aten::to", "aten::_to_copy", "aten::detach", "aten::clone", "aten::alias")


def constant_name(node: torch.fx.Node, target: str) -> str:
    """The name of a weight in the file: its target, or for one without a name the argument of the layer it is for.

    >>> import torch
    >>> from onnxport.translate.constant_names import constant_name
    >>> graph = torch.fx.Graph()
    >>> x, constant = graph.placeholder("x"), graph.placeholder("c_lifted_tensor_0")
    >>> _ = graph.call_function(torch.ops.aten.linear.default, (x, constant))
    >>> constant_name(constant, "encoder.lifted_tensor_0"), constant_name(constant, "encoder.kernel")
    ('encoder.weight', 'encoder.kernel')
    """
    module, _, last = target.rpartition(".")
    if _UNNAMED.fullmatch(last) is None:
        return target
    role = _role(node)
    return target if role is None else f"{module}.{role}" if module else role


def _role(node: torch.fx.Node) -> str | None:
    """The name of the argument that a value is passed as, if it says what the value is."""
    for user in node.users:
        if not isinstance(user.target, OpOverload):
            continue
        argument, operator = _argument(user, node, user.target), user.target._schema.name
        if argument in _ROLES:
            return argument
        if operator in _PASSING:
            part: str | None = ""
        elif operator.startswith("quantized_decomposed::dequantize"):
            part = _PARTS.get(argument)
        else:
            continue
        whole = None if part is None else _role(user)
        if whole is not None:
            return f"{whole}{part}"
    return None


def _argument(call: torch.fx.Node, value: torch.fx.Node, operator: OpOverload) -> str:
    """The name of the argument of a call that a value is passed as."""
    passed = zip((argument.name for argument in operator._schema.arguments), call.args, strict=False)
    return next((name for name, given in (*passed, *call.kwargs.items()) if given is value), "")
