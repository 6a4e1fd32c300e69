"""Weights that the model unpacks itself, as checkpoints of GPTQ, AWQ, HQQ and others do: unpacked as they are written.

What is recognised is what is computed: ``scale * (integers - zero)`` of constants, whatever the order in which the
integers were packed. They are computed as the model does, and written as one DequantizeLinear.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir
import torch

from onnxport.optimize.constant_values import ConstantValues, Extracted
from onnxport.optimize.packed_forms import FLOAT8, MOVES, REAL, ScaledIntegers, behind_moves, is_packed, recognised
from onnxport.optimize.scope import Array, Scope
from onnxport.weights.lazy_integers import LazyIntegers, LazyParameters

_D = ir.DataType
_LEAST_BLOCK = 8
_BLOCKS_SINCE = 21
_RANGES = {_D.UINT4: (0, 15), _D.INT4: (-8, 7), _D.UINT8: (0, 255), _D.INT8: (-128, 127)}
"""What integers of few bits can be, the narrowest first."""


def store_packed_weights(scope: Scope) -> None:
    """Write what unpacks and scales integer weights as DequantizeLinear of the integers.

    ``MatMul(x, Mul(Gather(scales, g_idx), Sub(BitwiseAnd(BitShift(qweight, 0 4 8 …), 15), zeros)))`` becomes
    ``MatMul(x, DequantizeLinear(qweight: uint4, scales, zeros, axis=0, block_size=32))``.
    """
    if scope.in_function or not any(is_packed(value) for value in scope.graph.initializers.values()):
        return
    constants = ConstantValues()
    found: dict[ir.Node, ScaledIntegers] = {}
    for node in scope.graph:
        if node in scope.dead or node.domain != "" or node.op_type not in ("MatMul", "Gemm"):
            continue
        weight = node.inputs[1]
        if weight is not None and weight.producer() is not None and len(node.inputs[:2]) == 2:
            form = recognised(weight, constants)
            if form is not None:
                found[node] = form
    products = _Products(scope, constants, frozenset(found))
    for node, form in found.items():
        weight = node.inputs[1]
        assert weight is not None
        unpacked = _Unpacked(scope, constants, node, weight, form)
        if products.are_all_that_read(unpacked.held):
            unpacked.write()


class _Products:
    """The products whose weights are recognised."""

    def __init__(self, scope: Scope, constants: ConstantValues, nodes: frozenset[ir.Node]) -> None:
        self._scope = scope
        self._constants = constants
        self._nodes = nodes

    def are_all_that_read(self, value: ir.Value) -> bool:
        """Whether a weight serves nothing else: in another form it would be in the file twice."""
        if value.is_graph_output():
            return False
        for node, index in value.uses():
            if node in self._scope.dead or (node in self._nodes and index == 1):
                continue
            for result in node.outputs:
                if self._constants.sources(result) is None or not self.are_all_that_read(result):
                    return False
        return True


class _Steps:
    """How the operands of the product get to where the weight is read: what lies between them, by itself."""

    def __init__(self, found: ScaledIntegers, weight: ir.Value, opset: int, *, transposed: bool) -> None:
        self._product = _Form.of(found.product)
        self._total = None if found.total is None else _Form.of(found.total)
        self._difference = None if found.difference is None else _Form.of(found.difference)
        self._transposed = transposed
        self._inner = Extracted(found.integers, opset)
        cut = found.integers if found.difference is None else found.difference
        self._middle = Extracted(found.numbers, opset, [cut])
        self._sum = None if found.moved is None else Extracted(found.moved, opset, [found.product])
        self._outer = Extracted(weight, opset, [found.product if found.total is None else found.total])

    def of_difference(self, array: Array) -> Array:
        """What stands in the place of the numbers if an array is all that the difference has."""
        return self._middle.run(array if self._difference is None else self._difference.filled(array))

    def spread(self, array: Array) -> Array:
        """An operand of the product in the place of the weight: a row for each input of the reader."""
        given = self._product.filled(array)
        return self.spread_total(given if self._sum is None else self._sum.run(given))

    def spread_total(self, array: Array) -> Array:
        """The same of an operand of the sum of product and shift, where there is one."""
        given = array if self._total is None else self._total.filled(array)
        result = np.asarray(self._outer.run(given), np.float32)
        return result.T if self._transposed else result

    def integers(self) -> Array:
        """The integers before their zero points are taken off, a row for each input of the reader."""
        return self.spread(self.of_difference(self._inner.run()))


@dataclass(frozen=True)
class _Form:
    """The shape and the element type of a value, while it has them."""

    shape: tuple[int, ...]
    dtype: ir.DataType

    @classmethod
    def of(cls, value: ir.Value) -> _Form:
        """Those of a value now."""
        assert value.shape is not None and value.dtype is not None
        return cls(tuple(int(size) for size in value.shape.numpy()), value.dtype)

    def filled(self, array: Array) -> Array:
        """An array in that form."""
        return np.ascontiguousarray(np.broadcast_to(array, self.shape).astype(self.dtype.numpy()))


@dataclass(frozen=True)
class _Parts:
    """What DequantizeLinear takes, still with a scale and a zero point for each integer."""

    steps: _Steps
    blocks: _Blocks
    kind: ir.DataType
    scale: Array
    zero: Array | None
    whole: bool

    def pieces(self) -> Callable[[], Iterator[torch.Tensor]]:
        """What makes the integers when they are written."""
        steps, order, kind = self.steps, self.blocks.order, self.kind

        def make() -> Iterator[torch.Tensor]:
            integers = steps.integers()
            yield _bytes_of(integers if order is None else integers[order], kind)

        return make


def _kind(found: ScaledIntegers, zero: Array | None, opset: int) -> ir.DataType | None:
    """The narrowest element type that has all integers and zero points; none if the difference may wrap around."""
    integers = _behind_cast(found.integers)
    if integers.dtype in FLOAT8:
        return integers.dtype if found.zero is None else None
    bounds = _bounds(integers)
    if bounds is None:
        content = Extracted(integers, opset).run()
        bounds = int(content.min()), int(content.max())
    least, most = bounds
    if zero is not None and bool((zero == np.round(zero)).all()):
        least, most = min(least, int(zero.min())), max(most, int(zero.max()))
    kind = None if found.difference is None else found.difference.dtype
    if kind is not None and kind.is_integer() and (not kind.is_signed() or most - least >= 1 << (kind.bitwidth - 1)):
        return None
    return next((kind for kind, (low, high) in _RANGES.items() if low <= least and most <= high), None)


def _bounds(value: ir.Value) -> tuple[int, int] | None:
    """Between what integers are, where that can be told without looking at them."""
    node = value.producer()
    if node is None or node.domain != "" or not node.inputs:
        return None
    if node.op_type == "BitwiseAnd":
        masks = [one.const_value for one in node.inputs if one is not None and one.const_value is not None]
        numbers = [int(mask.numpy()) for mask in masks if mask.size == 1]
        return (0, numbers[0]) if numbers and numbers[0] >= 0 else None
    if node.op_type in MOVES or node.op_type == "Gather" or (node.op_type == "Cast" and value.dtype in REAL):
        return None if node.inputs[0] is None else _bounds(node.inputs[0])
    if node.op_type == "Concat":
        found = [None if one is None else _bounds(one) for one in node.inputs]
        known = [one for one in found if one is not None]
        whole = len(known) == len(found)
        return (min(low for low, _ in known), max(high for _, high in known)) if whole else None
    return None


class _Unpacked:
    """One weight as integers, scales and zero points in the order of its product."""

    def __init__(
        self, scope: Scope, constants: ConstantValues, reader: ir.Node, weight: ir.Value, found: ScaledIntegers
    ) -> None:
        self._scope = scope
        self._constants = constants
        self._reader = reader
        self._weight = weight
        self._found = found
        sources = constants.sources(found.integers)
        assert sources is not None
        packed = sorted(filter(is_packed, sources), key=lambda value: str(value.name))
        #: The weight that holds the integers.
        self.held = max(packed, key=lambda value: 0 if value.const_value is None else value.const_value.nbytes)
        self._transposed = reader.op_type == "Gemm" and reader.attributes.get_int("transB", 0) == 1
        assert weight.dtype is not None
        # Runtimes don't dequantize to bfloat16.
        self._computed_in = _D.FLOAT if weight.dtype == _D.BFLOAT16 else weight.dtype

    def write(self) -> None:
        """Let the product read a DequantizeLinear, if there are blocks of one scale and integers of few bits."""
        others = [user for user, _ in self._weight.uses() if user is not self._reader and user not in self._scope.dead]
        if others or self._weight.is_graph_output():
            return
        found = self._found
        steps = _Steps(found, self._weight, self._scope.opset, transposed=self._transposed)
        scale = steps.spread(Extracted(found.scale, self._scope.opset).run())
        zero = None
        if found.zero is not None:
            zero = steps.spread(steps.of_difference(Extracted(found.zero, self._scope.opset).run()))
        if found.shift is not None:
            if not scale.all():
                return
            shift = steps.spread_total(Extracted(found.shift, self._scope.opset).run()) / scale
            zero = (0.0 if zero is None else zero) + (shift if found.taken_off else -shift)
        blocks = _Blocks.of([scale] if zero is None else [scale, zero])
        kind = _kind(found, zero, self._scope.opset)
        whole = zero is None or bool((zero == np.round(zero)).all())
        if blocks is None or kind is None or (kind in FLOAT8 and self._weight.dtype == _D.BFLOAT16):
            return
        # What is left of a zero point is taken off by sums of the inputs of a block.
        if not whole and (blocks.axis == 0) != (blocks.size > 0):
            return
        if not self._is_worth_it(blocks, kind):
            return
        if not whole:
            self._computed_in = _D.FLOAT
        self._dequantize(_Parts(steps, blocks, kind, scale, zero, whole))

    def _is_worth_it(self, blocks: _Blocks, kind: ir.DataType) -> bool:
        """Whether the opset has the form. Below 21 there are no 4-bit numbers, which the model has packed anyway."""
        recent = min(self._scope.opset, self._scope.written_opset) >= _BLOCKS_SINCE
        return recent or (kind in (_D.INT8, _D.UINT8) and (blocks.size == 0 or self._scope.opset >= _BLOCKS_SINCE))

    # --- what is written -------------------------------------------------------------------------------------------

    def _dequantize(self, parts: _Parts) -> None:
        scope, name, kind, blocks = self._scope, str(self.held.name), parts.kind, parts.blocks
        factor = blocks.chosen(parts.scale)
        data = self._initializer(LazyIntegers(parts.pieces(), kind, parts.scale.shape, f"{name}_unpacked"))
        inputs = [data, self._real(factor, f"{name}_scale")]
        offset = None
        if parts.zero is not None:
            offset = np.clip(np.round(blocks.chosen(parts.zero)), *_RANGES[kind])
        if offset is not None and offset.any():
            held = torch.from_numpy(offset.astype(np.int8 if kind.is_signed() else np.uint8))
            zeros = LazyParameters(lambda: held, kind, tuple(offset.shape), f"{name}_zero_point")
            inputs.append(self._initializer(zeros))
        node = self._weight.producer()
        assert node is not None
        attributes = [ir.AttrInt64("axis", blocks.axis)]
        if blocks.size:
            attributes.append(ir.AttrInt64("block_size", blocks.size))
        if self._transposed:
            self._reader.attributes.pop("transB")
        self._weight.shape = ir.Shape(parts.scale.shape)
        self._become(node, inputs, attributes)
        if blocks.order is not None:
            self._reorder(blocks.order)
        if not parts.whole and parts.zero is not None and offset is not None:
            self._correct(blocks, (factor * (blocks.chosen(parts.zero) - offset)).astype(np.float32), name)
        scope.tally["packed weight"] += 1

    def _become(self, node: ir.Node, inputs: list[ir.Value], attributes: list[ir.Attr]) -> None:
        """Let a node dequantize, by way of float32 where the weight is dequantized to that."""
        dtype = self._weight.dtype
        if dtype is None or dtype == self._computed_in:
            self._scope.become(node, "DequantizeLinear", inputs, attributes)
            return
        shape = self._weight.shape
        assert shape is not None
        real = self._scope.insert_before(node, "DequantizeLinear", inputs, _D.FLOAT, list(shape), attributes)
        self._scope.become(node, "Cast", [real], [ir.AttrInt64("to", int(dtype))])

    def _initializer(self, tensor: LazyIntegers | LazyParameters) -> ir.Value:
        value = self._scope.add_initializer(tensor, self._scope.free_name(str(tensor.name)))
        tensor.name = value.name
        value.metadata_props.update(self.held.metadata_props)
        return value

    def _real(self, array: Array, name: str) -> ir.Value:
        """Scales as an initializer; those that were 16 bits in the model stay so."""
        dtype = self._computed_in
        sources = self._constants.sources(self._found.scale)
        narrow = {value.dtype for value in sources or () if value.dtype in REAL}
        kind = narrow.pop() if len(narrow) == 1 else dtype
        assert kind is not None
        small = array.astype(kind.numpy())
        exact = kind != dtype and bool((small.astype(np.float32) == array).all())
        content = small if exact else array.astype(dtype.numpy())
        tensor = ir.Tensor(np.ascontiguousarray(content), dtype=kind if exact else dtype, name=name)
        value = self._scope.add_initializer(tensor, self._scope.free_name(name))
        if not exact:
            return value
        to = [ir.AttrInt64("to", int(dtype))]
        return self._scope.insert_before(self._reader, "Cast", [value], dtype, array.shape, to)

    def _reorder(self, order: Array) -> None:
        """Let the reader have its inputs in the order in which the blocks are."""
        value = self._reader.inputs[0]
        assert value is not None and value.dtype is not None and value.shape is not None
        places = self._scope.literal(order.astype(np.int64), _D.INT64, f"{self.held.name!s}_order")
        axis = [ir.AttrInt64("axis", len(value.shape) - 1)]
        moved = self._scope.insert_before(self._reader, "Gather", [value, places], value.dtype, list(value.shape), axis)
        self._scope.set_input(self._reader, 0, moved)

    def _correct(self, blocks: _Blocks, missing: Array, name: str) -> None:
        """Take off what zero points between integers leave: their rest times the sum of each block of the inputs."""
        scope, reader = self._scope, self._reader
        result = reader.outputs[0]
        inputs = [self._wide(one) for one in reader.inputs if one is not None]
        value = inputs[0]
        lead = list(value.shape or ())[:-1]
        missing = np.atleast_2d(missing)
        count = len(missing)
        size = int(value.shape[-1]) // count if value.shape and isinstance(value.shape[-1], int) else blocks.size
        sizes = scope.literal(np.array([0] * len(lead) + [count, -1], np.int64), _D.INT64, f"{name}_blocks")
        split = scope.insert_before(reader, "Reshape", [value, sizes], _D.FLOAT, [*lead, count, size])
        axes = scope.literal(np.array([len(lead) + 1], np.int64), _D.INT64, f"{name}_axis")
        keep = [ir.AttrInt64("keepdims", 0)]
        sums = scope.insert_before(reader, "ReduceSum", [split, axes], _D.FLOAT, [*lead, count], keep)
        tensor = ir.Tensor(missing, dtype=_D.FLOAT, name=f"{name}_rest")
        rest = scope.add_initializer(tensor, scope.free_name(f"{name}_rest"))
        shape = [] if result.shape is None else list(result.shape)
        correction = scope.insert_before(reader, "MatMul", [sums, rest], _D.FLOAT, shape)
        attributes = list(reader.attributes.values())
        product = scope.insert_before(reader, reader.op_type, inputs, _D.FLOAT, shape, attributes)
        if result.dtype == _D.FLOAT:
            scope.become(reader, "Sub", [product, correction])
            return
        real = scope.insert_before(reader, "Sub", [product, correction], _D.FLOAT, shape)
        scope.become(reader, "Cast", [real], [ir.AttrInt64("to", int(self._weight.dtype or _D.FLOAT))])

    def _wide(self, value: ir.Value) -> ir.Value:
        """An operand of the product in float32."""
        if value.dtype == _D.FLOAT:
            return value
        cast = value.producer()
        if value is self._weight and cast is not None and cast.inputs[0] is not None:
            return cast.inputs[0]
        to = [ir.AttrInt64("to", int(_D.FLOAT))]
        return self._scope.insert_before(self._reader, "Cast", [value], _D.FLOAT, list(value.shape or ()), to)


@dataclass(frozen=True)
class _Blocks:
    """Where numbers of a matrix are the same: along an axis in blocks of a size (zero: all along it), in an order."""

    axis: int
    size: int
    order: Array | None = None

    @staticmethod
    def of(arrays: list[Array]) -> _Blocks | None:
        """The largest blocks in which all arrays are the same, of inputs in another order where that takes."""
        rows, columns = arrays[0].shape
        down, across = _run(arrays, 0), _run(arrays, 1)
        if down == rows or across == columns:
            return _Blocks(1 if down == rows else 0, 0)
        if max(down, across) >= _LEAST_BLOCK:
            return _Blocks(0, down) if down >= across else _Blocks(1, across)
        groups = np.unique(np.concatenate(arrays, axis=1), axis=0, return_inverse=True)[1].reshape(-1)
        counts = np.bincount(groups)
        if len(set(counts.tolist())) == 1 and counts[0] >= _LEAST_BLOCK:
            return _Blocks(0, int(counts[0]), np.argsort(groups, kind="stable"))
        return None

    def chosen(self, array: Array) -> Array:
        """One number for each block."""
        array = array if self.order is None else array[self.order]
        if self.size == 0:
            return np.ascontiguousarray(array[0] if self.axis == 1 else array[:, 0])
        return np.ascontiguousarray(array[:: self.size] if self.axis == 0 else array[:, :: self.size])


def _run(arrays: list[Array], axis: int) -> int:
    """The size of blocks along an axis in which nothing changes."""
    size = int(arrays[0].shape[axis])
    for array in arrays:
        moved = np.moveaxis(array, axis, 0)
        changes = np.flatnonzero((moved[1:] != moved[:-1]).any(axis=1)) + 1
        size = math.gcd(size, *(int(change) for change in changes))
    return size


def _behind_cast(value: ir.Value) -> ir.Value:
    """The integers that a value is made of, where they were converted before a real number was taken off."""
    inner = behind_moves(value)
    node = inner.producer()
    if value.dtype in REAL and node is not None and node.op_type == "Cast" and node.inputs[0] is not None:
        return node.inputs[0]
    return value


def _bytes_of(numbers: Array, kind: ir.DataType) -> torch.Tensor:
    if kind in FLOAT8:
        return torch.from_numpy(np.ascontiguousarray(numbers).astype(kind.numpy()).view(np.uint8))
    return torch.from_numpy(np.ascontiguousarray(numbers).astype(np.int8 if kind.is_signed() else np.uint8))
