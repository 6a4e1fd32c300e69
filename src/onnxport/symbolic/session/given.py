"""What a symbolic function is given: the arguments of a call as values of a TorchScript graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from onnxport.symbolic.session.scalar_types import JitScalarType
from onnxport.torch_internals.torchscript import (
    BoolType,
    FloatType,
    IntType,
    JitGraph,
    JitType,
    JitValue,
    ListType,
    OptionalType,
    StringType,
    TensorType,
)
from onnxport.translate import Int

_ITEMS: dict[type, Callable[[], JitType]] = {
    bool: BoolType.get,
    int: IntType.get,
    float: FloatType.get,
    str: StringType.get,
}


def tensor_type(dtype: torch.dtype, shape: Sequence[Int | None] | None, *, requires_grad: bool = False) -> JitType:
    """The TorchScript type of a tensor; sizes that vary are left open."""
    kind = TensorType
    if shape is None:
        return kind.get().with_dtype(dtype)
    sizes = [size if isinstance(size, int) else None for size in shape]
    example = torch.empty([1 if size is None else size for size in sizes], dtype=dtype, device="meta")
    needs = requires_grad and (dtype.is_floating_point or dtype.is_complex)
    full: TensorType = kind.create_from_tensor(example.requires_grad_(needs)).with_device(torch.device("cpu"))  # type: ignore[attr-defined]
    return full.with_sizes(sizes) if None in sizes else full


def as_torchscript(value: object) -> object:
    """An argument that TorchScript has no type for, as the number or text it uses instead."""
    if isinstance(value, torch.dtype):
        return int(JitScalarType.from_dtype(value))
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, torch.memory_format):
        return _MEMORY_FORMATS.index(value)
    if isinstance(value, torch.layout):
        return 0
    return value


# By the numbers that TorchScript gives them.
_MEMORY_FORMATS = (torch.contiguous_format, torch.preserve_format, torch.channels_last, torch.channels_last_3d)


def add_constant(graph: JitGraph, value: object) -> JitValue:
    """A number, text or tensor as an ``onnx::Constant``, as TorchScript's exporter has them; None stays ``prim``."""
    content = as_torchscript(value)
    if content is None:
        none: JitValue = graph.insertConstant(None)  # type: ignore[attr-defined]
        return none
    node = graph.create("onnx::Constant", [], 1)
    graph.insertNode(node)
    if isinstance(content, str):
        node.s_("value", content)
        node.output().setType(StringType.get())
        return node.output()
    # A Python float has the precision of a double.
    dtype = torch.float64 if isinstance(content, float) else None
    tensor = content if isinstance(content, torch.Tensor) else torch.tensor(content, dtype=dtype)
    node.t_("value", tensor)
    node.output().setType(tensor_type(tensor.dtype, tuple(tensor.shape)))
    return node.output()


def list_of(graph: JitGraph, items: Sequence[JitValue], kind: type | None) -> JitValue:
    """Values as one ``prim::ListConstruct``; ``kind`` is that of its items, None for tensors."""
    node = graph.create("prim::ListConstruct", list(items), 1)
    graph.insertNode(node)
    item = TensorType.get() if kind is None else _ITEMS[kind]()
    if kind is None and any(value.node().mustBeNone() for value in items):
        item = OptionalType(item)
    node.output().setType(ListType(item))
    return node.output()


def constant_content(value: JitValue) -> object:
    """The content of a value that is a constant: a tensor, number, text or list of numbers; None if it is not."""
    node = value.node()
    match node.kind():
        case "onnx::Constant" if node.hasAttribute("value"):
            return node.s("value") if node.kindOf("value") == "s" else node.t("value")
        case "prim::Constant":
            return value.toIValue()
        case "prim::ListConstruct":
            items = [_number(constant_content(item)) for item in node.inputs()]
            return items if all(isinstance(item, bool | int | float) for item in items) else None
        case _:
            return None


def _number(content: object) -> object:
    return content.item() if isinstance(content, torch.Tensor) and content.dim() == 0 else content
