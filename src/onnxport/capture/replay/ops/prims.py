"""The plumbing of TorchScript: attributes, calls, containers, types, what is known of a tensor without computing."""

from __future__ import annotations

import collections
import functools
from typing import Any

import torch

from onnxport.capture.replay.calls import dtype_code, dtype_of
from onnxport.capture.replay.interpreter import Env, Interpreter, find_function, handles
from onnxport.capture.replay.values.kinds import UNINITIALIZED, Growing, Number, materialized, plain
from onnxport.errors import CaptureError
from onnxport.torch_internals.operators import parse_schema


@handles("prim::CallFunction")
def _call_function(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    kind, *arguments = values
    return run.graph(find_function(kind).graph, arguments, repr(kind).rpartition(".")[2])


@handles("prim::PythonOp", "prim::IgnoredPythonOp")
def _python_op(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    """Call the autograd function itself: what a capture does with such calls, it does with this one too."""
    tensors = iter(materialized(values))
    scalars = iter(node.scalar_args())
    arguments = [next(scalars) if letter == "c" else next(tensors) for letter in node.cconv()]
    run.trace()
    result = _function_of(node)(*arguments)
    return list(result) if node.outputsSize() > 1 else result


def _function_of(node: Any) -> Any:
    """What a node calls in Python; torch wraps methods that scripting ignored, to make a script of their module."""
    function = node.pyobj()
    free = getattr(getattr(function, "__code__", None), "co_freevars", ())
    return function.__closure__[free.index("unbound_method")].cell_contents if "unbound_method" in free else function


@handles("prim::TupleConstruct")
def _tuple(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    text = node.output().type().annotation_str
    kind = node.output().type()
    if kind.kind() == "TupleType" and not text.startswith("Tuple["):
        return _named_tuple(text.rpartition(".")[2], node)(*values)
    return tuple(values)


@functools.cache
def _named_tuple_class(name: str, fields: tuple[str, ...]) -> Any:
    return collections.namedtuple(name, fields)


def _named_tuple(name: str, node: Any) -> Any:
    schema = str(node.output().type())
    fields = tuple(part.split(":")[0].strip() for part in schema.partition("(")[2].rstrip(")").split(","))
    count = node.inputsSize()
    return _named_tuple_class(name, fields if len(fields) == count else tuple(f"field_{i}" for i in range(count)))


@handles("prim::TupleUnpack")
def _tuple_unpack(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    return values[0][0] if node.outputsSize() == 1 else list(values[0])


@handles("prim::ListUnpack")
def _list_unpack(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    items = list(values[0])
    if len(items) != node.outputsSize():
        raise CaptureError(f"A list of {len(items)} items is unpacked into {node.outputsSize()} variables.")
    return items[0] if len(items) == 1 else items


@handles("prim::TupleIndex")
def _tuple_index(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    return values[0][values[1]]


@handles("prim::TupleSlice")
def _tuple_slice(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    return values[0][node.i("beg") : node.i("end")]


@handles("prim::DictConstruct")
def _dict(run: Interpreter, node: Any, values: list[Any], env: Env) -> dict[Any, Any]:
    return dict(zip(values[::2], values[1::2], strict=True))


@handles("prim::NumToTensor")
def _num_to_tensor(run: Interpreter, node: Any, values: list[Any], env: Env) -> Number:
    return Number.of(values[0])


@handles("prim::Uninitialized")
def _uninitialized(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    return UNINITIALIZED


@handles("prim::RaiseException")
def _raise(run: Interpreter, node: Any, values: list[Any], env: Env) -> None:
    if "annotated to be ignored" in str(values[0]):
        raise CaptureError(
            "The model calls a function that is marked with torch.jit.unused, which has no code in the script. "
            "Mark it with torch.jit.ignore to have it captured as Python, or script it too."
        )
    kind = values[1] if len(values) > 1 and values[1] else "an exception"
    raise CaptureError(f"The model raises {kind} for these inputs: {values[0]}")


@handles("prim::Print", "prim::profile", "prim::Store")
def _nothing(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    return values[0] if node.outputsSize() == 1 and values else None


@handles("prim::isinstance")
def _isinstance(run: Interpreter, node: Any, values: list[Any], env: Env) -> bool:
    value = values[0]
    return any(_is_of(value, kind) for kind in node.tys("types"))


def _is_of(value: Any, kind: Any) -> bool:
    name = kind.kind()
    classes: dict[str, Any] = {
        "TensorType": (torch.Tensor, Number),
        "IntType": (int, torch.SymInt),
        "FloatType": (float, torch.SymFloat),
        "BoolType": (bool, torch.SymBool),
        "StringType": str,
        "NoneType": type(None),
        "ListType": list,
        "TupleType": tuple,
        "DictType": dict,
        "ComplexType": complex,
    }
    if name == "IntType" and isinstance(value, bool):
        return False
    if name == "ListType" and isinstance(value, list) and value:
        return _is_of(value[0], kind.getElementType())
    if name == "OptionalType":
        return value is None or _is_of(value, kind.getElementType())
    return name in classes and isinstance(value, classes[name])


@handles("prim::unchecked_cast", "prim::unchecked_unwrap_optional", "aten::_unwrap_optional", "prim::fork_value")
def _same(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    if values[0] is None and node.kind() == "aten::_unwrap_optional":
        raise CaptureError("The model unwraps an optional value that is None for these inputs.")
    return values[0]


@handles("prim::fork")
def _fork(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    """What TorchScript may run at the same time is run at once."""
    return run.graph(node.g("Subgraph"), values, run.function)


@handles("aten::wait", "prim::awaitable_wait", "prim::rangelist_value")
def _wait(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    return values[0]


@handles("prim::rangelist")
def _range_list(run: Interpreter, node: Any, values: list[Any], env: Env) -> list[int]:
    return list(range(values[0]))


@handles("prim::dtype")
def _dtype(run: Interpreter, node: Any, values: list[Any], env: Env) -> int:
    return dtype_code(values[0].dtype)


@handles("prim::device")
def _device(run: Interpreter, node: Any, values: list[Any], env: Env) -> torch.device:
    return torch.device("cpu") if isinstance(values[0], Number) else values[0].device


@handles("prim::layout")
def _layout(run: Interpreter, node: Any, values: list[Any], env: Env) -> int:
    return 0


@handles("prim::data")
def _data(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    """A tensor without its history; the values are the same."""
    return values[0] if isinstance(values[0], Number) else values[0].detach()


@handles("prim::type", "prim::index")
def _device_part(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    return getattr(values[0], node.kind().partition("::")[2])


_FLAGS = (
    "is_cuda is_quantized is_sparse is_mkldnn is_meta is_cpu requires_grad is_xpu is_mps is_nested is_ort is_vulkan "
    "itemsize name"
)
_PROPERTIES = {f"prim::{name}": name for name in _FLAGS.split()}


@handles(*_PROPERTIES)
def _property(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    return getattr(materialized(values[0]), _PROPERTIES[node.kind()], False)


@handles("aten::size", "prim::shape")
def _size(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    run.trace()
    shape = () if isinstance(values[0], Number) else values[0].shape
    return list(shape) if len(values) == 1 else shape[plain(values[1])]


@handles("aten::dim")
def _dim(run: Interpreter, node: Any, values: list[Any], env: Env) -> int:
    return 0 if isinstance(values[0], Number) else int(values[0].dim())


@handles("aten::numel")
def _numel(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    return 1 if isinstance(values[0], Number) else values[0].numel()


@handles("aten::len")
def _len(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    return values[0].shape[0] if isinstance(values[0], torch.Tensor) else len(values[0])


@handles("aten::cat", "aten::concat", "aten::concatenate", "aten::stack")
def _join(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    items, axis = values[0], plain(values[1])
    run.trace()
    if node.kind() != "aten::stack" and len(items) == 2 and isinstance(items[0], Growing) and items[0].piece is None:
        return Growing(materialized(items[1]), axis)
    return (torch.stack if node.kind() == "aten::stack" else torch.cat)(materialized(items), axis)


@handles("aten::__getitem__")
def _get_item(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    return values[0][plain(values[1])]


@handles("aten::is_floating_point", "aten::is_complex")
def _is_floating_point(run: Interpreter, node: Any, values: list[Any], env: Env) -> bool:
    dtype = values[0].dtype
    return bool(dtype.is_complex if node.kind().endswith("complex") else dtype.is_floating_point)


@handles("aten::is_grad_enabled", "aten::is_scripting")
def _disabled(run: Interpreter, node: Any, values: list[Any], env: Env) -> bool:
    return bool(node.kind() == "aten::is_scripting")


@handles("aten::cpu", "aten::cuda")
def _same_device(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    return values[0]


@handles("aten::tensor", "aten::as_tensor")
def _tensor(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    """A tensor of numbers or lists of them; numbers that vary are stacked."""
    run.trace()
    data, dtype = values[0], values[1]
    kind = None if dtype is None else dtype_of(dtype)
    if isinstance(data, torch.Tensor):
        return data if kind is None else data.to(kind)
    if _varies(data):
        return _stacked(data, kind)
    return torch.tensor(_plain(data), dtype=kind)


def _plain(data: Any) -> Any:
    return [_plain(item) for item in data] if isinstance(data, list | tuple) else plain(data)


def _varies(data: Any) -> bool:
    if isinstance(data, list | tuple):
        return any(_varies(item) for item in data)
    return not isinstance(plain(data) if isinstance(data, Number) else data, int | float | bool | complex)


def _stacked(data: Any, dtype: torch.dtype | None) -> torch.Tensor:
    if isinstance(data, list | tuple):
        return torch.stack([_stacked(item, dtype) for item in data])
    if not isinstance(data, torch.Tensor):
        number = data if isinstance(data, Number) else Number.of(data)
        if dtype is None and number.dtype == torch.float64:
            dtype = torch.get_default_dtype()
        data = materialized(number)
    tensor: torch.Tensor = data if dtype is None else data.to(dtype)
    return tensor


@handles("aten::__interpolate")
def _interpolate(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    """What torch.onnx leaves of a call of interpolate in the graphs of a module that it has exported."""
    run.trace()
    x, size, scale, *options = values
    return torch.nn.functional.interpolate(materialized(x), size, scale, *options)


@handles("aten::einsum")
def _einsum(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    run.trace()
    return torch.einsum(values[0], *materialized(values[1]))


@handles(
    "aten::_get_tracing_state",
    "aten::is_tracing",
    "aten::_has_torch_function",
    "aten::is_autocast_enabled",
    "aten::is_autocast_cpu_enabled",
)
def _no_state(run: Interpreter, node: Any, values: list[Any], env: Env) -> bool:
    return False


@handles("aten::manual_seed", "aten::warn", "aten::backward", "aten::save", "aten::set_grad_enabled")
def _ignored(run: Interpreter, node: Any, values: list[Any], env: Env) -> None:
    return None


@functools.cache
def _argument_names(schema: str) -> tuple[str, ...]:
    return tuple(argument.name for argument in parse_schema(schema).arguments)


@handles("aten::to")
def _to(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    """Conversions; where the tensor goes to another device nothing changes, there is only one in the file."""
    run.trace()
    value = values[0]
    names = _argument_names(node.schema())
    other = next((item for item in values[1:] if isinstance(item, torch.Tensor)), None)
    if other is not None:
        return materialized(value).to(other.dtype)
    codes = [item for name, item in zip(names, values, strict=False) if name == "dtype" and item is not None]
    if not codes:
        return value
    kind = dtype_of(codes[0])
    if isinstance(value, Number):
        return _converted(value, kind)
    return torch.ops.aten.to.dtype(value, kind)


def _converted(number: Number, dtype: torch.dtype) -> Any:
    symbolic = isinstance(number.value, torch.SymInt | torch.SymFloat | torch.SymBool)
    if dtype == number.dtype:
        return number
    if dtype == torch.int64 and not symbolic:
        return Number(int(number.value), dtype)  # type: ignore[arg-type]
    if dtype == torch.float64 and not symbolic:
        return Number(float(number.value), dtype)  # type: ignore[arg-type]
    return number.tensor().to(dtype)
