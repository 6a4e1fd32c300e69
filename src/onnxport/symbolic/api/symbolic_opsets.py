"""``symbolic_opset7`` to ``symbolic_opset20``: operators by name, for symbolic functions that build on others.

In ``torch.onnx`` these are modules of symbolic functions, one per opset. Here each name is the translation that the
exporter itself uses, and what it writes is taken to the opset of the file like all else, so the modules are alike.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType

import torch

from onnxport.symbolic.helper import writing
from onnxport.symbolic.helper.parsing import _maybe_get_const, _parse_arg
from onnxport.symbolic.helper.questions import _get_tensor_rank, _is_packed_list
from onnxport.symbolic.helper.writing import Values
from onnxport.symbolic.session.delegation import delegate
from onnxport.symbolic.session.graph_context import GraphContext
from onnxport.symbolic.session.registration import Symbolic
from onnxport.torch_internals.torchscript import JitValue

_OTHER_NAMES = {"_slice": "slice", "_reshape_from_tensor": "reshape"}


class SymbolicOpset(ModuleType):
    """The operators of ATen as symbolic functions: ``symbolic_opset9.relu(g, x)``.

    >>> from onnxport import symbolic_opset9
    >>> symbolic_opset9.relu.__name__
    'relu'
    """

    def __getattr__(self, name: str) -> Symbolic:
        function = _symbolic(name)
        if function is None:
            raise AttributeError(f"ATen has no operator {name!r}, so {self.__name__} has none.")
        setattr(self, name, function)
        return function


def _symbolic(name: str) -> Symbolic | None:
    if name in _OWN:
        return _OWN[name]
    operator = _OTHER_NAMES.get(name, name)
    if name.startswith("__") or not hasattr(torch.ops.aten, operator):
        return None

    def symbolic(g: GraphContext, *args: object, **kwargs: object) -> Values:
        return delegate(g, operator, args, kwargs)

    symbolic.__name__ = symbolic.__qualname__ = name
    symbolic.__doc__ = f"Write a call of ``aten::{operator}``."
    return symbolic


def _by_shape(operator: str, write: Callable[[GraphContext, JitValue, JitValue], JitValue]) -> Symbolic:
    """An operator that takes a shape, which may also be computed: then as a tensor, not as numbers."""

    def symbolic(g: GraphContext, self: JitValue, shape: object, *rest: object) -> Values:
        known = _maybe_get_const(shape, "is")
        if isinstance(known, JitValue) and not _is_packed_list(known):
            return write(g, self, known)
        return delegate(g, operator, (self, shape, *rest), {})

    symbolic.__name__ = symbolic.__qualname__ = operator
    symbolic.__doc__ = f"Write a call of ``aten::{operator}``."
    return symbolic


def _size(g: GraphContext, self: JitValue, dim: int | JitValue | None = None) -> JitValue:
    """Write the shape of a tensor, or one size of it."""
    return g.op("Shape", self) if dim is None else writing._size_helper(g, self, dim)


def _select(g: GraphContext, self: JitValue, dim: object, index: object) -> Values:
    """Write the slice at an index of an axis; an index that is a vector takes several, and the axis stays."""
    axis = _maybe_get_const(dim, "i")
    if isinstance(index, JitValue) and _get_tensor_rank(index) == 1 and isinstance(axis, int):
        return g.op("Gather", self, index, axis_i=axis)
    return delegate(g, "select", (self, dim, index), {})


def _padded(mode: str) -> Symbolic:
    """Padding of any number of dimensions, which ATen has an operator for each of."""

    def symbolic(g: GraphContext, input: JitValue, padding: object) -> Values:
        dimensions = len(_parse_arg(padding, "is")) // 2
        return delegate(g, f"{mode}{dimensions}d", (input, padding), {})

    symbolic.__name__ = symbolic.__qualname__ = mode
    symbolic.__doc__ = f"Write a call of ``aten::{mode}1d``, ``2d`` or ``3d``."
    return symbolic


def _onnx_paddings(dim: int, pad: Sequence[int]) -> list[int]:
    """Paddings in the order of ONNX: all beginnings, then all ends; torch has them by axis, from the last one on."""
    missing = dim - len(pad) // 2
    begins, ends = list(pad[0::2])[::-1], list(pad[1::2])[::-1]
    return [*[0] * missing, *begins, *[0] * missing, *ends]


def _tanhshrink(g: GraphContext, self: JitValue) -> JitValue:
    """Write ``x - tanh(x)``."""
    return g.op("Sub", self, g.op("Tanh", self))


def _unused(g: GraphContext) -> JitValue:
    """Write nothing: an input that an operator leaves out."""
    return writing._optional_input_placeholder_tensor(g)


def _chunk(g: GraphContext, self: JitValue, chunks: object, dim: object) -> Values:
    """Write the parts of a tensor, so many of them along an axis."""
    return delegate(g, "chunk", (self, chunks, dim), {})


def _split(g: GraphContext, self: JitValue, split_size: object, dim: object) -> Values:
    """Write the parts of a tensor, so long each along an axis."""
    return delegate(g, "split", (self, split_size, dim), {})


_OWN: dict[str, Symbolic] = {
    "size": _size,
    "select": _select,
    "reflection_pad": _padded("reflection_pad"),
    "replication_pad": _padded("replication_pad"),
    "_prepare_onnx_paddings": _onnx_paddings,
    "tanhshrink": _tanhshrink,
    "unused": _unused,
    "prim_constant_chunk": _chunk,
    "prim_constant_split": _split,
    "prim_shape": _size,
    "reshape": _by_shape("reshape", writing._reshape_helper),
    "view": _by_shape("view", writing._reshape_helper),
    "expand": _by_shape("expand", lambda g, self, shape: g.op("Expand", self, shape)),
}


def _opset(number: int) -> SymbolicOpset:
    name = f"onnxport.symbolic_opset{number}"
    return SymbolicOpset(name, f"The operators of ATen as symbolic functions, for opset {number}.")


symbolic_opset7 = _opset(7)
symbolic_opset8 = _opset(8)
symbolic_opset9 = _opset(9)
symbolic_opset10 = _opset(10)
symbolic_opset11 = _opset(11)
symbolic_opset12 = _opset(12)
symbolic_opset13 = _opset(13)
symbolic_opset14 = _opset(14)
symbolic_opset15 = _opset(15)
symbolic_opset16 = _opset(16)
symbolic_opset17 = _opset(17)
symbolic_opset18 = _opset(18)
symbolic_opset19 = _opset(19)
symbolic_opset20 = _opset(20)
