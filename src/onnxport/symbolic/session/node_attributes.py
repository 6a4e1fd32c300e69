"""Attributes between TorchScript nodes and ONNX: ``alpha_f=0.5`` on the way in, typed attributes on the way out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as ir
import torch

from onnxport.errors import OnnxExporterError, TranslationError
from onnxport.symbolic.session.given import constant_content
from onnxport.torch_internals.torchscript import JitNode, JitValue
from onnxport.weights.torch_tensor import TorchTensor

_KEYWORD = re.compile(r"(.+)_([ifstgz]|[ifst]s|ty)")
# kindOf() names lists of floats by the letter of complex numbers.
_KINDS = {"c": "fs"}


def set_attribute(node: JitNode, key: str, value: object) -> None:
    """Set what ``g.op(..., key=value)`` means: the end of the key says the type, and a list makes it a list.

    >>> import torch
    >>> graph = torch._C.Graph()
    >>> node = graph.create("onnx::Concat", 1)
    >>> set_attribute(node, "axis_i", 1)
    >>> node.attributeNames(), node.i("axis")
    (['axis'], 1)
    """
    match = _KEYWORD.fullmatch(key)
    if match is None:
        raise OnnxExporterError(
            f"The attribute {key!r} of {node.kind()} does not say its type: write {key}_i for an int, {key}_f for "
            f"a float, {key}_s for text or {key}_t for a tensor; lists are written alike."
        )
    name, kind = match[1], match[2]
    if isinstance(value, JitValue):
        value = constant_content(value)
        if value is None:
            raise TranslationError(f"the attribute `{name}` of {node.kind()} is known only at run time")
    if kind == "z":
        kind, value = "t", value if isinstance(value, torch.Tensor) else torch.tensor(value)
    if isinstance(value, torch.Tensor) and kind != "t":
        value = value.tolist()
    if kind in ("i", "f", "s", "t") and isinstance(value, Sequence | np.ndarray) and not isinstance(value, str):
        kind += "s"
    if kind == "t" and not isinstance(value, torch.Tensor):
        value = torch.tensor(value)
    setter = getattr(node, f"{kind}_")
    setter(name, _converted(kind, value))


def attribute_name(key: str) -> str:
    """The name of the attribute that a key such as ``alpha_f`` means.

    >>> attribute_name("alpha_f"), attribute_name("alpha")
    ('alpha', 'alpha')
    """
    match = _KEYWORD.fullmatch(key)
    return key if match is None else match[1]


def _converted(kind: str, value: Any) -> object:
    match kind:
        case "i":
            return int(value)
        case "f":
            return float(value)
        case "is":
            return [int(item) for item in value]
        case "fs":
            return [float(item) for item in value]
        case "ss" | "ts":
            return list(value)
        case _:
            return value


def get_attribute(node: JitNode, name: str) -> object:
    """The value of an attribute of a node."""
    content: object = getattr(node, attribute_kind(node, name))(name)
    return content


def attribute_kind(node: JitNode, name: str) -> str:
    """The type of an attribute, as the letters its accessors are named by."""
    kind = node.kindOf(name)
    return _KINDS.get(kind, kind)


def onnx_attributes(node: JitNode) -> dict[str, ir.Attr]:
    """All attributes of a node as ONNX's."""
    return {name: _onnx_attribute(node, name) for name in node.attributeNames()}


def _onnx_attribute(node: JitNode, name: str) -> ir.Attr:
    kind = attribute_kind(node, name)
    value = getattr(node, kind)(name)
    match kind:
        case "i":
            return ir.AttrInt64(name, value)
        case "f":
            return ir.AttrFloat32(name, value)
        case "s":
            return ir.AttrString(name, value)
        case "t":
            return ir.AttrTensor(name, TorchTensor(value.detach().cpu()))
        case "is":
            return ir.AttrInt64s(name, list(value))
        case "fs":
            return ir.AttrFloat32s(name, list(value))
        case "ss":
            return ir.AttrStrings(name, list(value))
        case "ts":
            return ir.AttrTensors(name, [TorchTensor(item.detach().cpu()) for item in value])
        case _:
            raise TranslationError(f"the attribute `{name}` of {node.kind()} is of a kind ({kind}) ONNX has not")
