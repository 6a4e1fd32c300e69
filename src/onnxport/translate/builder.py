"""``Builder``: the only place that makes an ``ir.Node``.

``op.Add(a, b)`` emits an ONNX operator; the lower-case methods are the few small constructions that
nearly every translation needs and that must come out lean: constants, casts, reshapes, sizes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import onnx_ir as ir
import torch

from onnxport.errors import TranslationError
from onnxport.onnx_build.literals import INT64_MAX, Contents, Literals, shown_name
from onnxport.onnx_build.names import UniqueNames
from onnxport.onnx_build.operators import BROADCASTING, SAME_SHAPE, STRUCTURAL
from onnxport.onnx_build.opsets import CANONICAL_OPSET, ONNX_DOMAINS
from onnxport.onnx_build.schemas import schema_of, similar_operators
from onnxport.provenance import Provenance, attach
from onnxport.translate.attributes import attribute, free_attribute
from onnxport.translate.dims import Dim, DimNames, Int, broadcast, is_static
from onnxport.translate.extents import extent, sizes_to_reshape
from onnxport.translate.sizes import Sizes
from onnxport.translate.tensor import Number, Tensor
from onnxport.weights.dtypes import COMPLEX_PARTS, carrier_dtype, from_torch_dtype, to_torch_dtype

_COMPLEX_OF = {part: whole for whole, part in COMPLEX_PARTS.items()}


class Emit(Protocol):
    """What ``op.X`` is: call it with inputs and attributes."""

    def __call__(self, *inputs: Tensor | Sequence[Int] | None, **attributes: object) -> Tensor: ...


class Body(Protocol):
    """What ``op.body`` is: translates a captured graph, given its arguments, with some builder."""

    def __call__(self, op: Builder, graph: torch.fx.GraphModule, arguments: Sequence[object]) -> list[Any]: ...


class Shared:
    """What all builders of one model share: names in use, literals, and how sizes are shown."""

    def __init__(self, dim_names: DimNames, sizes_of_parts: frozenset[int] = frozenset()) -> None:
        self.dim_names = dim_names
        #: The known sizes of parts of axes that vary, which are 0 where those are empty.
        self.sizes_of_parts = sizes_of_parts
        self.names = UniqueNames()
        self.literals = Literals(self.names, shown_name)
        self.opset_imports: dict[str, int] = {}
        self.functions: dict[tuple[str, str, str], ir.Function] = {}
        self.shapes: dict[tuple[Int, ...], ir.Shape] = {}
        self.facts: dict[ir.Value, object] = {}
        #: Whether a translation has looked at more than numbers, dtypes and shapes.
        self.looked = False


class Builder:
    """Emits the nodes of one graph; ``scope`` and ``provenance`` say on whose behalf."""

    def __init__(self, shared: Shared, outer: Builder | None = None) -> None:
        self.shared = shared
        self.outer = outer
        self.nodes: list[ir.Node] = []
        self._sizes: Sizes = Sizes(self, outer._sizes if outer is not None else None)
        self.scope = ""
        self.provenance: Provenance | None = None
        self.translated: torch.fx.Node | None = None
        self.body: Body

    @property
    def call(self) -> torch.fx.Node | None:
        """The call being translated; a translation that looks at it can't be repeated for other calls."""
        self.shared.looked = True
        return self.translated

    @property
    def sizes(self) -> Sizes:
        """The run-time sizes known so far, with which the same holds."""
        self.shared.looked = True
        return self._sizes

    def __getattr__(self, op_type: str) -> Emit:
        if not op_type[0].isupper():
            raise AttributeError(op_type)
        emit = functools.partial(self._emit_one, op_type)
        setattr(self, op_type, emit)
        return emit

    def _emit_one(
        self,
        op_type: str,
        *inputs: Tensor | Sequence[Int] | None,
        out_dtype: torch.dtype | None = None,
        **attributes: object,
    ) -> Tensor:
        return self._emit(op_type, inputs, attributes, [out_dtype])[0]

    def multi(
        self,
        op_type: str,
        *inputs: Tensor | Sequence[Int] | None,
        outputs: int,
        out_dtype: torch.dtype | None = None,
        out_dtypes: Sequence[torch.dtype] | None = None,
        **attributes: object,
    ) -> tuple[Tensor, ...]:
        """Emit an operator with several outputs. Sequences of sizes among the inputs become int64 vectors.

        ``out_dtype`` states the outputs' dtype (``out_dtypes`` that of each) where the schema does not determine it.
        """
        stated = [out_dtype] * outputs if out_dtypes is None else out_dtypes
        return tuple(self._emit(op_type, inputs, attributes, stated))

    def _emit(
        self,
        op_type: str,
        inputs: Sequence[Tensor | Sequence[Int] | None],
        attributes: Mapping[str, object],
        out_dtypes: Sequence[torch.dtype | None],
    ) -> list[Tensor]:
        tensors: list[Tensor | None] = []
        complex_dtype: torch.dtype | None = None
        for x in _from_the_front(inputs) if op_type.startswith("Reduce") else inputs:
            tensor = x if x is None or isinstance(x, Tensor) else self.ints(x)
            tensors.append(tensor)
            if complex_dtype is None and tensor is not None and tensor.dtype.is_complex:
                complex_dtype = tensor.dtype
        while tensors and tensors[-1] is None:
            tensors.pop()
        known = schema_of(op_type, CANONICAL_OPSET)
        if known is None:
            raise AssertionError(f"{op_type} is no operator of opset {CANONICAL_OPSET}{similar_operators(op_type)}")
        try:
            attrs = [attribute(name, v, known.attributes[name]) for name, v in attributes.items() if v is not None]
        except KeyError as error:
            has = ", ".join(known.attributes) or "none"
            raise AssertionError(f"{op_type} has no attribute {error}; it has {has}.") from error
        if complex_dtype is not None and op_type not in STRUCTURAL:
            raise TranslationError(f"the formula for this operator ({op_type}) does not hold for complex tensors")
        implied = complex_dtype
        if implied is None and attrs:
            implied = _stated_dtype(op_type, attributes)
        values = [None if x is None else x._value for x in tensors]
        results = []
        for index, given in enumerate(out_dtypes):
            stated = implied if given is None else given
            stored: ir.DataType | None = None
            if stated is None:
                stored = known.result_type(index, values)
                if stored is None:
                    raise AssertionError(f"The output dtype of {op_type} must be stated with out_dtype.")
                stated = to_torch_dtype(stored)
            shape = _result_shape(op_type, tensors) if index == 0 else None
            results.append(self._value(op_type, stated, shape, stored))
        if op_type == "Identity" and tensors[0] is not None and tensors[0].is_handle:
            results[0]._value.type, results[0]._value.shape = tensors[0]._value.type, None
        self.append(op_type, values, attrs, [t._value for t in results])
        return results

    def custom(
        self,
        domain: str,
        op_type: str,
        inputs: Sequence[Tensor | None],
        attributes: Mapping[str, object],
        outputs: Sequence[tuple[torch.dtype | int, Sequence[Int] | None]],
        version: int | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> tuple[Tensor, ...]:
        """Emit an operator of any domain, of which nothing is known but what is passed.

        A dtype may be the number ONNX has for it. ``version`` is that of the domain's operators which the node is
        written for; the version of ONNX's own domain is the node's alone, and legalisation goes on from it.
        """
        own = domain in ONNX_DOMAINS
        if not own:
            known = self.shared.opset_imports.get(domain, 1)
            self.shared.opset_imports[domain] = known if version is None else max(known, version)
        results = [self._value(op_type, dtype, shape) for dtype, shape in outputs]
        attrs = [free_attribute(name, value) for name, value in attributes.items() if value is not None]
        values = [None if x is None else x._value for x in inputs]
        node = self.append(op_type, values, attrs, [t._value for t in results], domain="" if own else domain)
        node.version = version if own else None
        node.metadata_props.update({} if metadata is None else metadata)
        return tuple(results)

    def append(
        self,
        op_type: str,
        inputs: Sequence[ir.Value | None],
        attributes: Sequence[ir.Attr],
        outputs: Sequence[ir.Value],
        domain: str = "",
    ) -> ir.Node:
        """Add a node of which everything is known."""
        node = ir.Node(domain, op_type, inputs, attributes, outputs=outputs, name=f"node_{outputs[0].name}")
        if self.provenance is not None:
            attach(node, self.provenance)
        self.nodes.append(node)
        return node

    def _value(
        self, op_type: str, dtype: torch.dtype | int, shape: Sequence[Int] | None, stored: ir.DataType | None = None
    ) -> Tensor:
        if not isinstance(dtype, torch.dtype):
            stored, dtype = ir.DataType(dtype), carrier_dtype(dtype)
        elif stored is None:
            stored = from_torch_dtype(COMPLEX_PARTS.get(dtype, dtype))
        known = None if shape is None else self.ir_shape((*shape, 2) if dtype.is_complex else shape)
        return Tensor(self, self.fresh_value(op_type, stored, known), dtype, shape)

    def fresh_value(self, op_type: str, dtype: ir.DataType, shape: ir.Shape | None) -> ir.Value:
        """A value for an output of an operator, named after the call and the operator."""
        name = self.shared.names.unique(f"{self.scope}_{op_type}")
        return ir.Value(name=name, type=ir.TensorType(dtype), shape=shape)

    def result_shapes(self) -> list[tuple[Int, ...]]:
        """The shapes torch gives the results of the call being translated: only it can tell how many there are."""
        assert self.call is not None
        results = self.call.meta["val"]
        shape = self.shared.dim_names.shape
        return [shape(value) for value in (results if isinstance(results, list | tuple) else [results])]

    def ir_shape(self, shape: Sequence[Int]) -> ir.Shape:
        """The shape as onnx_ir holds it, run-time sizes by the user's names; equal ones are one frozen object."""
        key = tuple(shape)
        found = self.shared.shapes.get(key)
        if found is None:
            found = ir.Shape([self.shared.dim_names.label(size) for size in shape], frozen=True)
            self.shared.shapes[key] = found
        return found

    # Constants

    def const(self, value: object, dtype: torch.dtype) -> Tensor:
        """A literal of any shape; equal literals are one initializer."""
        if dtype.is_complex:
            numbers = np.asarray(value, dtype=np.complex128)
            pairs = self.const(np.stack([numbers.real, numbers.imag], axis=-1), COMPLEX_PARTS[dtype])
            return Tensor(self, pairs._value, dtype, numbers.shape)
        onnx_dtype = from_torch_dtype(dtype)
        array = np.asarray(value, dtype=onnx_dtype.numpy())
        literal = self.shared.literals.value(Contents(array, onnx_dtype))
        return Tensor(self, literal, dtype, array.shape)

    def Constant(
        self,
        *,
        value: object = None,
        value_float: float | None = None,
        value_floats: Sequence[float] | None = None,
        value_int: int | None = None,
        value_ints: Sequence[int] | None = None,
    ) -> Tensor:
        """A literal, written as ONNX's Constant is; what a translation writes is an initializer of the file."""
        for number, dtype in (
            (value_float, torch.float32),
            (value_floats, torch.float32),
            (value_int, torch.int64),
            (value_ints, torch.int64),
        ):
            if number is not None:
                return self.const(number, dtype)
        if value is None:
            raise AssertionError("Constant needs one of value, value_float, value_floats, value_int and value_ints.")
        stored = ir.tensor(value)  # type: ignore[arg-type]
        return self.const(stored.numpy(), to_torch_dtype(stored.dtype))

    def ints(self, sizes: Sequence[Int], *, of_tensor: bool = False) -> Tensor:
        """An int64 vector of numbers, static or not; those ``of_tensor`` are sizes of one, which are never below 0."""
        if is_static(sizes):
            return self.const(list(sizes), torch.int64)
        pieces: list[Tensor] = []
        run: list[int] = []
        for size in sizes:
            if isinstance(size, int):
                run.append(size)
                continue
            if run:
                pieces.append(self.const(run, torch.int64))
                run = []
            pieces.append(extent(self, size) if of_tensor else self.sizes.vector(size))
        if run:
            pieces.append(self.const(run, torch.int64))
        vector = pieces[0] if len(pieces) == 1 else self.Concat(*pieces, axis=0)
        return vector.with_shape([len(sizes)])

    def scalar(self, value: Number | Dim, dtype: torch.dtype) -> Tensor:
        """A 0-d tensor from a number or a run-time size."""
        if isinstance(value, Dim):
            return self.cast(self.Squeeze(self.sizes.vector(value), [0]).with_shape([]), dtype)
        return self.const(_wrapped(value, dtype) if type(value) is int else value, dtype)

    def like(self, value: Tensor | Number | Dim, other: Tensor) -> Tensor:
        """A number as a 0-d tensor of ``other``'s dtype; tensors pass."""
        return value if isinstance(value, Tensor) else self.scalar(value, other.dtype)

    def full(self, value: Number | Tensor | Dim, shape: Sequence[Int], dtype: torch.dtype) -> Tensor:
        """A tensor of one value; a small static one is a literal."""
        if isinstance(value, Tensor | Dim) or dtype.is_complex:
            scalar = self.cast(value, dtype) if isinstance(value, Tensor) else self.scalar(value, dtype)
            return self.expand(scalar, shape)
        number = _wrapped(value, dtype) if type(value) is int else value
        array = np.asarray(number, dtype=from_torch_dtype(dtype).numpy())
        if len(shape) == 0:
            return self.const(array, dtype)
        tensor = ir.Tensor(array.reshape(1), dtype=from_torch_dtype(dtype))
        return self.ConstantOfShape(self.ints(shape, of_tensor=True), value=tensor, out_dtype=dtype).with_shape(shape)

    # Dtypes

    def cast(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """``x`` in another dtype; the same one costs nothing."""
        if x.dtype == dtype:
            return x
        if dtype.is_complex:
            if x.is_complex:
                pairs = self.Cast(self.pairs(x), to=COMPLEX_PARTS[dtype])
            else:
                pairs = self.Pad(self.Unsqueeze(self.cast(x, COMPLEX_PARTS[dtype]), [-1]), [0, 1], None, [-1])
            return Tensor(self, pairs._value, dtype, x.known_shape)
        if x.is_complex and dtype == torch.bool:
            return self.Or(self.Cast(x.real, to=dtype), self.Cast(x.imag, to=dtype))
        return self.Cast(x.real, to=dtype)

    def complex(self, real: Tensor, imag: Tensor) -> Tensor:
        """A complex tensor from its parts."""
        shape = broadcast([real.known_shape, imag.known_shape])
        if real.known_shape != imag.known_shape and shape is not None:
            real, imag = self.expand(real, shape), self.expand(imag, shape)
        pairs = self.Concat(self.Unsqueeze(real, [-1]), self.Unsqueeze(imag, [-1]), axis=-1)
        return Tensor(self, pairs._value, _COMPLEX_OF[real.dtype], shape)

    def part(self, x: Tensor, index: int) -> Tensor:
        """One part of a complex tensor: 0 the real one, 1 the imaginary one."""
        pairs = self.pairs(x)
        part = self.Gather(pairs, self.const(index, torch.int64), axis=-1)
        return part if x.known_shape is None else part.with_shape(x.shape)

    def pairs(self, x: Tensor) -> Tensor:
        """A complex tensor as the real one it is stored as, with a last dimension of 2."""
        shape = None if x.known_shape is None else (*x.shape, 2)
        return Tensor(self, x._value, COMPLEX_PARTS[x.dtype], shape)

    # Shapes

    def shape(self, x: Tensor) -> Tensor:
        """The shape of ``x`` as an int64 vector, a literal where it is static."""
        if x.known_shape is not None and is_static(x.shape):
            return self.const(list(x.shape), torch.int64)
        stored = self.pairs(x) if x.is_complex else x
        return self.Shape(stored, end=x.rank if x.is_complex else None).with_shape([x.rank])

    def may_be_empty(self, sizes: Iterable[Int]) -> bool:
        """Whether one of the sizes can be 0 at run time; ``min`` of a declared Dim says that it is not."""
        return any(map(self.shared.dim_names.may_be_zero, sizes))

    def reshape(self, x: Tensor, shape: Sequence[Int]) -> Tensor:
        """Reshape with the leanest shape input: ``0`` for a size kept in place, one ``-1``, literals for the rest."""
        if x.known_shape == tuple(shape):
            return x
        if x.is_complex:
            return Tensor(self, self.reshape(self.pairs(x), [*shape, 2])._value, x.dtype, shape)
        sizes, allow_zero = sizes_to_reshape(self, x, shape)
        return self.Reshape(x, self.ints(sizes, of_tensor=True), allowzero=allow_zero).with_shape(shape)

    def transpose(self, x: Tensor, permutation: Sequence[int]) -> Tensor:
        """Permute the dimensions."""
        if list(permutation) == list(range(len(permutation))):
            return x
        result = self.Transpose(x, perm=[*permutation, len(permutation)] if x.is_complex else list(permutation))
        return result if x.known_shape is None else result.with_shape([x.shape[axis] for axis in permutation])

    def untransposed(self, x: Tensor) -> Tensor | None:
        """The tensor whose last two dimensions were exchanged to give ``x``, maybe cast, if it came about so."""
        node = x.value.producer()
        if node is not None and node.op_type == "Cast" and node.inputs[0] is not None:
            node = node.inputs[0].producer()
        if node is None or node.op_type != "Transpose" or x.known_shape is None:
            return None
        order, source, last = node.attributes.get("perm"), node.inputs[0], x.rank - 1
        if order is None or list(order.as_ints()) != [*range(last - 1), last, last - 1]:
            return None
        assert source is not None and source.dtype is not None
        return Tensor(self, source, to_torch_dtype(source.dtype), [*x.shape[:-2], x.shape[-1], x.shape[-2]])

    def unsqueeze(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        """Insert dimensions of size 1 at ``axes`` of the result (non-negative, ascending)."""
        if not axes:
            return x
        shape = list(x.shape)
        for axis in axes:
            shape.insert(axis, 1)
        return self.Unsqueeze(x, list(axes)).with_shape(shape)

    def squeeze(self, x: Tensor, axes: Sequence[int]) -> Tensor:
        """Remove the dimensions at ``axes`` (non-negative)."""
        if not axes:
            return x
        shape = [size for axis, size in enumerate(x.shape) if axis not in axes]
        return self.Squeeze(x, list(axes)).with_shape(shape)

    def expand(self, x: Tensor, shape: Sequence[Int]) -> Tensor:
        """Broadcast to ``shape``; nothing where it has that shape already, and 1 for a run-time size that is kept."""
        if x.known_shape == tuple(shape):
            return x
        if 0 in shape:
            # onnxruntime 1.31 leaves out an Expand to literal sizes of 0 and 1, and so a tensor of none has elements.
            empty = self.full(0, [*shape, 2] if x.is_complex else shape, COMPLEX_PARTS.get(x.dtype, x.dtype))
            return Tensor(self, empty._value, x.dtype, shape)
        wanted = list(shape)
        if x.known_shape is not None:
            new = len(shape) - x.rank
            # Of two sizes that broadcast, one that is neither 1 nor known at run time only is the result's.
            kept = [(isinstance(old, int) and old != 1) or old == shape[new + axis] for axis, old in enumerate(x.shape)]
            if new == 0 and all(kept):
                return x
            wanted[new:] = [
                1 if keep and isinstance(size, Dim) else size for keep, size in zip(kept, shape[new:], strict=True)
            ]
        sizes = self.ints([*wanted, 2] if x.is_complex else wanted, of_tensor=True)
        return self.Expand(x, sizes).with_shape(shape)

    def slice(self, x: Tensor, axis: int, start: Int, end: Int | None, step: int = 1) -> Tensor:
        """A slice of one axis; ``end=None`` goes to the end."""
        stop: Int = INT64_MAX if end is None else end
        return self.Slice(x, [start], [stop], [axis], None if step == 1 else [step])

    # What is known of a value beyond its type

    def remember(self, x: Tensor, fact: object) -> None:
        """Keep what a translation knows of a result for those that are given it."""
        self.shared.facts[x.value] = fact

    def recall(self, x: Tensor) -> object:
        """What an earlier translation knew of its result, or None."""
        return self.shared.facts.get(x.value)

    def subgraph(self) -> Builder:
        """A builder for a graph attribute (an If or Loop body) that sees this one's values."""
        self.shared.looked = True
        inner = Builder(self.shared, self)
        inner.scope, inner.provenance, inner.body = self.scope, self.provenance, self.body
        inner.translated = self.translated
        return inner


def _wrapped(value: int, dtype: torch.dtype) -> int:
    """A whole number as torch makes it fit a narrower dtype: the higher bits fall off."""
    if dtype.is_floating_point or dtype.is_complex or dtype == torch.bool:
        return value
    info = torch.iinfo(dtype)
    return value if info.min <= value <= info.max else (value - info.min) % (1 << info.bits) + info.min


def _from_the_front(inputs: Sequence[Tensor | Sequence[Int] | None]) -> Sequence[Tensor | Sequence[Int] | None]:
    """The inputs of a reduction, with axes counted from the front.

    onnxruntime 1.31 reduces nothing where an axis is negative and the tensor has no elements: it returns its shape.
    """
    if len(inputs) < 2 or not isinstance(x := inputs[0], Tensor) or x.known_shape is None:
        return inputs
    axes = inputs[1]
    if axes is None or isinstance(axes, Tensor) or all(isinstance(axis, Dim) or axis >= 0 for axis in axes):
        return inputs
    return [x, [axis + x.rank if isinstance(axis, int) and axis < 0 else axis for axis in axes], *inputs[2:]]


def _stated_dtype(op_type: str, attributes: Mapping[str, object]) -> torch.dtype | None:
    stated = attributes.get("to" if op_type == "Cast" else "dtype")
    # Translations of users may write the number that ONNX has for a type.
    return carrier_dtype(stated) if type(stated) is int else stated if isinstance(stated, torch.dtype) else None


def _result_shape(op_type: str, inputs: Sequence[Tensor | None]) -> Sequence[Int] | None:
    """The shape of the first output, where it follows from those of the inputs alone."""
    if op_type in SAME_SHAPE and inputs[0] is not None:
        return inputs[0].known_shape
    if op_type in BROADCASTING:
        return broadcast([x.known_shape for x in inputs if x is not None])
    return None
