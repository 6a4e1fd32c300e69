"""Literals: constants of a graph that are no weights; equal ones are one initializer."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnxport.onnx_build.names import UniqueNames

INT64_MAX = 2**63 - 1
"""Where a slice ends that goes on to the end."""
INT64_MIN = -(2**63)
"""Where a slice ends that goes backwards, down to the first element and with it."""

#: Tensors above this are never read here: no kernel runs on them and their content is never hashed.
READ_LIMIT = 64 * 1024

Array = npt.NDArray[np.generic]


class Contents:
    """An array and its element type, with what tells it from others."""

    __slots__ = ("array", "dtype", "key")

    def __init__(self, array: Array, dtype: ir.DataType) -> None:
        self.array = np.asarray(array, order="C")
        self.dtype = dtype
        self.key = literal_key(dtype, self.array)


def literal_key(dtype: ir.DataType, array: Array) -> Hashable:
    """What makes two literals the same: type, shape and bytes (so that 0.0 and -0.0 differ)."""
    return (dtype, array.shape, array.tobytes())


def readable(tensor: ir.TensorProtocol) -> bool:
    """Whether the content of a tensor is at hand and small enough to look at."""
    if tensor.nbytes > READ_LIMIT or isinstance(tensor, ir.StringTensor | ir.ExternalTensor):
        return False
    raw = getattr(tensor, "raw", None)
    if raw is None or isinstance(raw, np.ndarray):
        return True
    # Torch tensors made under a fake mode or on the meta device have a shape and nothing else.
    return not getattr(raw, "is_meta", False) and getattr(raw, "fake_mode", None) is None


def attribute_key(attribute: ir.Attr) -> Hashable | None:
    """What makes two attributes the same; None for a graph, and for a tensor that is not :func:`readable`."""
    if attribute.is_ref():
        return ("ref", attribute.ref_attr_name)
    kind = attribute.type
    if kind is ir.AttributeType.INT or kind is ir.AttributeType.INTS or kind is ir.AttributeType.STRING:
        return (kind, attribute.value)
    if kind is ir.AttributeType.FLOAT or kind is ir.AttributeType.FLOATS:
        # By its digits: 0.0 equals -0.0 and is not the same.
        return (kind, repr(attribute.value))
    if kind is ir.AttributeType.STRINGS:
        return (kind, tuple(attribute.value))
    if kind is ir.AttributeType.TENSOR:
        # Not as_tensor(), whose check of the tensor's protocol costs more than all the rest.
        tensor: ir.TensorProtocol = attribute.value
        return literal_key(tensor.dtype, tensor.numpy()) if readable(tensor) else None
    return None


def initializer(tensor: ir.TensorProtocol, name: str) -> ir.Value:
    """A value that holds a tensor; it is up to the caller to register it in a graph."""
    shape = ir.Shape(tensor.shape.numpy())
    return ir.Value(name=name, type=ir.TensorType(tensor.dtype), shape=shape, const_value=tensor)


class Literals:
    """The literals made so far, one initializer for each distinct content.

    They are named by ``named``, and registered in ``graph`` when made if there is a graph yet.
    """

    def __init__(self, names: UniqueNames, named: Callable[[Contents], str], graph: ir.Graph | None = None) -> None:
        self._names = names
        self._named = named
        self._graph = graph
        self._known: dict[Hashable, ir.Value] = {}

    def value(self, contents: Contents) -> ir.Value:
        """The initializer that holds these contents."""
        known = self._known.get(contents.key)
        # One that nothing read may have been taken out of the graph.
        if known is not None and (self._graph is None or known.is_initializer()):
            return known
        name = self._names.unique(self._named(contents))
        made = initializer(ir.Tensor(contents.array, contents.dtype, name=name), name)
        if self._graph is not None:
            self._graph.register_initializer(made)
        self._known[contents.key] = made
        return made

    def used(self) -> list[ir.Value]:
        """Those that some node reads, in the order in which they were made."""
        return [value for value in self._known.values() if value.uses()]


_SHORT = {"float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "int64": "i64", "int32": "i32"}


def shown_name(contents: Contents) -> str:
    """The name of a literal of the translation, which shows a small one: ``i64_1_-1_32``, ``scalar_f32_0.5``."""
    array = contents.array
    kind = _SHORT.get(str(array.dtype), str(array.dtype))
    if array.size == 0 or array.size > 8:
        return f"literal_{kind}"
    shown = "_".join(_shown(item) for item in array.ravel().tolist())
    return f"scalar_{kind}_{shown}" if array.ndim == 0 else f"{kind}_{shown}"


def _shown(item: object) -> str:
    if item == INT64_MAX:
        return "max"
    return f"{item:.6g}" if isinstance(item, float) else str(item)


def added_name(contents: Contents) -> str:
    """The name of a literal that legalisation adds, told from the translation's: ``literal_int64_m1``."""
    kind = contents.dtype.name.lower()
    if contents.array.size > 4 or not np.issubdtype(contents.array.dtype, np.integer):
        return f"literal_{kind}"
    items = contents.array.reshape(-1).tolist()
    return "_".join([f"literal_{kind}", *(str(item).replace("-", "m") for item in items)])
