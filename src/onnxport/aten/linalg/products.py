"""Matrix products and what is made of them."""

from __future__ import annotations

import functools
import string
from collections.abc import Sequence

import torch

from onnxport.aten.axes import axis_of
from onnxport.onnx_build.equations import explicit_equation, lettered
from onnxport.translate import Builder, Dim, Int, Number, Tensor, translates
from onnxport.translate.dims import broadcast, is_static
from onnxport.translate.loop import Outcome, emit_loop, emit_scan, inside

_SMALL_INTEGERS = (torch.int8, torch.uint8, torch.int16)


def product_of(op: Builder, a: Tensor, b: Tensor) -> Tensor:
    """A matrix product; ONNX has none of small integers, which are multiplied in int32 and wrap when cast back.

    Sums of no products are 0, which runtimes don't always write.
    """
    if 0 in (a.known_shape or ())[-1:]:
        return op.full(0, product_shape(a, b), a.dtype)
    if a.dtype in _SMALL_INTEGERS:
        return op.cast(op.MatMul(op.cast(a, torch.int32), op.cast(b, torch.int32)), a.dtype)
    if b.known_shape is not None and b.rank == 1 and a.rank > 1 and op.may_be_empty(a.shape):
        # As a matrix of one column: runtimes take no vector beside an empty batch of rows.
        return op.squeeze(op.MatMul(a, op.unsqueeze(b, [1])).with_shape([*a.shape[:-1], 1]), [a.rank - 1])
    if len(b.known_shape or ()) == 1 and (before := op.untransposed(a)) is not None:
        # onnxruntime 1.31 fuses the two nodes and then multiplies by the matrix as it was.
        return op.MatMul(b, op.cast(before, a.dtype))
    return op.MatMul(a, b)


def product_shape(a: Tensor, b: Tensor) -> list[Int]:
    """The shape of a matrix product, of vectors too."""
    batch = broadcast([a.shape[:-2], b.shape[:-2]])
    assert batch is not None
    return [*batch, *(a.shape[-2:-1]), *(b.shape[-1:] if b.rank > 1 else ())]


def _scaled_sum(op: Builder, start: Tensor, product: Tensor, beta: Number, alpha: Number) -> Tensor:
    """``beta * start + alpha * product``, where a beta of 0 means that ``start`` is not looked at, NaN or not."""
    if alpha != 1:
        product = product * alpha
    if beta == 0:
        return product
    return (start if beta == 1 else start * beta) + product


def transposed(op: Builder, x: Tensor) -> Tensor:
    """The last two dimensions exchanged."""
    last = x.rank - 1
    return op.transpose(x, [*range(last - 1), last, last - 1])


@translates("aten::linear")
def linear(op: Builder, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    if input.rank == 2 and weight.rank == 2 and (bias is None or bias.rank == 1) and input.is_float:
        return op.Gemm(input, weight, bias, transB=1)
    product = product_of(op, input, transposed(op, weight) if weight.rank == 2 else weight)
    if bias is None:
        return product
    return product.with_shape([*input.shape[:-1], *weight.shape[:-1]]) + bias


@translates("aten::matmul", "aten::linalg_matmul", "aten::mm", "aten::bmm", "aten::mm.dtype", "aten::bmm.dtype")
def matmul(
    op: Builder,
    self: Tensor,
    other: Tensor | None = None,
    mat2: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    right = other if mat2 is None else mat2
    assert right is not None
    if out_dtype is not None:
        self, right = op.cast(self, out_dtype), op.cast(right, out_dtype)
    return product_of(op, self, right)


@translates("aten::_int_mm")
def int_mm(op: Builder, self: Tensor, mat2: Tensor) -> Tensor:
    return op.MatMulInteger(self, mat2)


@translates("aten::mv")
def mv(op: Builder, self: Tensor, vec: Tensor) -> Tensor:
    return product_of(op, self, vec)


@translates("aten::dot")
def dot(op: Builder, self: Tensor, tensor: Tensor) -> Tensor:
    return product_of(op, self, tensor)


@translates("aten::vdot")
def vdot(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    return product_of(op, self, other)


@translates("aten::outer", "aten::ger", promote=("self", "vec2"))
def outer(op: Builder, self: Tensor, vec2: Tensor) -> Tensor:
    column = op.unsqueeze(self, [1])
    return op.And(column, vec2) if self.dtype == torch.bool else column * vec2


@translates("aten::addmm", "aten::addmm.dtype")
def addmm(
    op: Builder,
    self: Tensor,
    mat1: Tensor,
    mat2: Tensor,
    beta: Number,
    alpha: Number,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    if out_dtype is not None:
        self, mat1, mat2 = op.cast(self, out_dtype), op.cast(mat1, out_dtype), op.cast(mat2, out_dtype)
    if self.is_float:
        if beta not in (0, 1) and (isinstance(mat1.shape[1], Dim) or mat1.shape[1] == 0):
            # onnxruntime's Gemm forgets beta where there is nothing to multiply.
            self, beta = self * op.scalar(beta, self.dtype), 1
        return op.Gemm(mat1, mat2, None if beta == 0 else self, alpha=alpha, beta=beta)
    return _scaled_sum(op, self, product_of(op, mat1, mat2), beta, alpha)


@translates("aten::_addmm_activation")
def addmm_activation(
    op: Builder, self: Tensor, mat1: Tensor, mat2: Tensor, beta: Number, alpha: Number, use_gelu: bool
) -> Tensor:
    result = addmm(op, self, mat1, mat2, beta, alpha)
    return op.Gelu(result, approximate="tanh") if use_gelu else op.Relu(result)


@translates("aten::baddbmm", "aten::baddbmm.dtype")
def baddbmm(
    op: Builder,
    self: Tensor,
    batch1: Tensor,
    batch2: Tensor,
    beta: Number,
    alpha: Number,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    if out_dtype is not None:
        self, batch1, batch2 = op.cast(self, out_dtype), op.cast(batch1, out_dtype), op.cast(batch2, out_dtype)
    return _scaled_sum(op, self, product_of(op, batch1, batch2), beta, alpha)


@translates("aten::addbmm")
def addbmm(op: Builder, self: Tensor, batch1: Tensor, batch2: Tensor, beta: Number, alpha: Number) -> Tensor:
    total = op.ReduceSum(product_of(op, batch1, batch2), [0], keepdims=False)
    return _scaled_sum(op, self, total, beta, alpha)


@translates("aten::addmv")
def addmv(op: Builder, self: Tensor, mat: Tensor, vec: Tensor, beta: Number, alpha: Number) -> Tensor:
    return _scaled_sum(op, self, product_of(op, mat, vec), beta, alpha)


@translates("aten::addr", promote=("self", "vec1", "vec2"))
def addr(op: Builder, self: Tensor, vec1: Tensor, vec2: Tensor, beta: Number, alpha: Number) -> Tensor:
    column = op.unsqueeze(vec1, [1])
    if self.dtype == torch.bool:
        product = op.And(column, vec2) if alpha else op.full(False, self.shape, torch.bool)
        return op.Or(self, product) if beta else product
    return _scaled_sum(op, self, column * vec2, beta, alpha)


@translates("aten::einsum")
def einsum(op: Builder, equation: str, tensors: Sequence[Tensor], path: Sequence[int] | None) -> Tensor:
    # Where a factor has a size of 1 in what is summed, eager multiplies elements, and those of different types too.
    dtype = functools.reduce(torch.promote_types, (x.dtype for x in tensors))
    equation, tensors = spelled_out(op, equation, [op.cast(x, dtype) for x in tensors])
    if not dtype.is_floating_point:
        # An axis of size 1 in one factor is added up in the other first, as int64, which the result then is.
        tensors = [op.cast(x, torch.int64) for x in tensors]
    return _contracted(op, equation, tensors) if len(tensors) < 3 else _in_pairs(op, equation, tensors, path)


def _in_pairs(op: Builder, equation: str, tensors: Sequence[Tensor], path: Sequence[int] | None) -> Tensor:
    """Three factors or more, as eager multiplies them: two at a time, and all that MNN 3.6 takes of an Einsum."""
    terms, result = lettered(equation, [x.rank for x in tensors])
    left = list(zip(terms, tensors, strict=True))
    sizes = {letter: size for term, x in left for letter, size in zip(term, x.shape, strict=True)}
    places = [0, 1] if path is None else list(path)
    while len(left) > 1:
        first, second = sorted(places[:2])
        # What was multiplied is the last factor of those that are left.
        places = places[2:] if path is not None else [0, len(left) - 2]
        (other, y), (term, x) = left.pop(second), left.pop(first)
        needed = set(result).union(*(rest for rest, _ in left))
        kept = "".join(dict.fromkeys(letter for letter in term + other if letter in needed)) if left else result
        product = _contracted(op, f"{term},{other}->{kept}", [x, y])
        left.append((kept, product.with_shape([sizes[letter] for letter in kept])))
    return left[0][1]


def _contracted(op: Builder, equation: str, tensors: Sequence[Tensor]) -> Tensor:
    product = _as_matrix_product(op, equation, tensors)
    return op.Einsum(*tensors, equation=equation) if product is None else product


def _as_matrix_product(op: Builder, equation: str, tensors: Sequence[Tensor]) -> Tensor | None:
    """Two factors that share one summed letter and have one letter of their own each: a MatMul of transposes.

    onnxruntime 1.31 takes 10 to 40 % longer for the Einsum, and divides by zero in some of an empty axis.
    """
    left, result = equation.split("->")
    terms = left.split(",")
    if len(terms) != 2 or "." in equation or any(len(set(term)) < len(term) for term in (*terms, result)):
        return None
    shared = set(terms[0]) & set(terms[1])
    batch = "".join(letter for letter in result if letter in shared)
    summed = "".join(shared.difference(batch))
    own = ["".join(letter for letter in term if letter not in shared) for term in terms]
    if (len(summed), len(own[0]), len(own[1])) != (1, 1, 1) or set(result) != {*batch, *own[0], *own[1]}:
        return None
    if result.index(own[0]) > result.index(own[1]):
        terms, own, tensors = terms[::-1], own[::-1], tensors[::-1]
    product = product_of(
        op,
        _in_order(op, tensors[0], terms[0], batch + own[0] + summed),
        _in_order(op, tensors[1], terms[1], batch + summed + own[1]),
    )
    return _in_order(op, product, batch + own[0] + own[1], result)


def _in_order(op: Builder, x: Tensor, letters: str, wanted: str) -> Tensor:
    return op.transpose(x, [letters.index(letter) for letter in wanted])


def spelled_out(op: Builder, equation: str, tensors: Sequence[Tensor]) -> tuple[str, list[Tensor]]:
    """An equation in which every letter stands for one size, as ONNX's do: a 1 that meets a longer dimension goes."""
    left, right = explicit_equation(equation).split("->")
    terms = left.split(",")
    if _differ_in_ellipses(terms, tensors):
        terms, right = lettered(equation, [x.rank for x in tensors])
    named = [
        (letter, size)
        for term, x in zip(terms, tensors, strict=True)
        if "..." not in term
        for letter, size in zip(term, x.shape, strict=True)
    ]
    longer = {letter for letter, size in named if size != 1}
    results = []
    for index, (term, x) in enumerate(zip(terms, tensors, strict=True)):
        gone = (
            []
            if "..." in term
            else [axis for axis, letter in enumerate(term) if x.shape[axis] == 1 and letter in longer]
        )
        terms[index] = "".join(letter for axis, letter in enumerate(term) if axis not in gone)
        results.append(op.squeeze(x, gone))
    return f"{','.join(terms)}->{right}", results


def _differ_in_ellipses(terms: Sequence[str], tensors: Sequence[Tensor]) -> bool:
    """Whether ellipses stand for dimensions of different sizes."""
    return len({_of_ellipsis(term, x) for term, x in zip(terms, tensors, strict=True) if "..." in term}) > 1


def _of_ellipsis(term: str, x: Tensor) -> tuple[Int, ...]:
    before, _, behind = term.partition("...")
    return tuple(x.shape[len(before) : x.rank - len(behind)])


@translates("aten::tensordot")
def tensordot(op: Builder, self: Tensor, other: Tensor, dims_self: Sequence[int], dims_other: Sequence[int]) -> Tensor:
    left = [axis_of(dim, self.rank) for dim in dims_self]
    right = [axis_of(dim, other.rank) for dim in dims_other]
    labels = string.ascii_letters[: self.rank + other.rank]
    first = labels[: self.rank]
    meeting = dict(zip(right, left, strict=True))
    second = "".join(
        first[meeting[axis]] if axis in meeting else labels[self.rank + axis] for axis in range(other.rank)
    )
    kept = [label for axis, label in enumerate(first) if axis not in left]
    kept += [label for axis, label in enumerate(second) if axis not in right]
    return einsum(op, f"{first},{second}->{''.join(kept)}", [self, other], None)


@translates("aten::inner")
def inner(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    if not self.rank or not other.rank:
        return self * other
    if other.rank <= 2:
        return product_of(op, self, transposed(op, other) if other.rank == 2 else other)
    return tensordot(op, self, other, [self.rank - 1], [other.rank - 1])


@translates("aten::kron", promote=("self", "other"))
def kron(op: Builder, self: Tensor, other: Tensor) -> Tensor:
    """Each element of one times all of the other: dimensions of both alternate, then merge in pairs."""
    rank = max(self.rank, other.rank)
    left, right = ([*[1] * (rank - x.rank), *x.shape] for x in (self, other))
    a = op.reshape(self, [size for n in left for size in (n, 1)])
    b = op.reshape(other, [size for n in right for size in (1, n)])
    products = op.And(a, b) if self.dtype == torch.bool else a * b
    alternating = products.with_shape([size for pair in zip(left, right, strict=True) for size in pair])
    return op.reshape(alternating, [m * n for m, n in zip(left, right, strict=True)])


@translates("aten::chain_matmul", "aten::linalg_multi_dot")
def chain_matmul(op: Builder, matrices: Sequence[Tensor] = (), tensors: Sequence[Tensor] = ()) -> Tensor:
    """From the left, unless the last factor is a vector: then every product from the right is one, too."""
    factors = list(matrices if len(matrices) else tensors)
    if factors[-1].rank == 1:
        result = factors[-1]
        for factor in reversed(factors[:-1]):
            result = product_of(op, factor, result)
        return result
    result = factors[0]
    for factor in factors[1:]:
        result = product_of(op, result, factor)
    return result


@translates("aten::bilinear")
def bilinear(op: Builder, input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    batch = input1.shape[:-1]
    if is_static(batch) and 0 not in batch:
        left = op.MatMul(op.unsqueeze(input1, [input1.rank - 1, input1.rank]), weight)
        right = op.unsqueeze(input2, [input2.rank - 1, input2.rank + 1])
        product = op.Squeeze(op.MatMul(left, right), [-2, -1])
    else:
        # onnxruntime's MatMul broadcasts no empty batch, so the weight is one matrix here.
        outputs, first, second = weight.shape
        matrix = op.reshape(op.transpose(weight, [1, 0, 2]), [first, outputs * second])
        rows = op.reshape(op.MatMul(input1, matrix), [*batch, outputs, second])
        product = op.Squeeze(op.MatMul(rows, op.unsqueeze(input2, [input2.rank])), [-1])
    return product if bias is None else product + bias


@translates("aten::linalg_vecdot", promote=("x", "y"))
def vecdot(op: Builder, x: Tensor, y: Tensor, dim: int) -> Tensor:
    rank = max(x.rank, y.rank)
    return op.ReduceSum(x * y, [axis_of(dim, rank)], keepdims=False)


@translates("aten::linalg_cross")
def linalg_cross(op: Builder, self: Tensor, other: Tensor, dim: int) -> Tensor:
    rank = max(self.rank, other.rank)
    axis = dim % rank - rank

    def turned(x: Tensor, order: Sequence[int]) -> Tensor:
        return op.Gather(x, op.const(order, torch.int64), axis=axis)

    once, twice = (1, 2, 0), (2, 0, 1)
    return turned(self, once) * turned(other, twice) - turned(self, twice) * turned(other, once)


@translates("aten::cross")
def cross(op: Builder, self: Tensor, other: Tensor, dim: int | None) -> Tensor:
    if dim is None:
        dim = next(axis for axis, size in enumerate(self.shape) if size == 3)
    return linalg_cross(op, self, other, dim)


# Products in groups


@translates("aten::_grouped_mm")
def grouped_mm(
    op: Builder,
    self: Tensor,
    mat2: Tensor,
    offs: Tensor | None,
    bias: Tensor | None,
    out_dtype: torch.dtype | None,
) -> Tensor:
    """Products of groups of rows, columns or terms with a matrix each; where each group ends is known at run time."""
    if out_dtype is not None:
        self, mat2 = op.cast(self, out_dtype), op.cast(mat2, out_dtype)
    if offs is None:
        result = op.MatMul(self, mat2)
    elif self.rank == 2 and mat2.rank == 3:
        result = _rows_by_group(op, self, mat2, op.cast(offs, torch.int64))
    elif self.rank == 3:
        by_row = _rows_by_group(op, transposed(op, mat2), transposed(op, self), op.cast(offs, torch.int64))
        result = op.transpose(by_row, [1, 0])
    else:
        result = _terms_by_group(op, self, mat2, op.cast(offs, torch.int64))
    return result if bias is None else result + bias


@translates("transformers::grouped_mm_fallback")
def grouped_rows(op: Builder, input: Tensor, weight: Tensor, offs: Tensor) -> Tensor:
    """What transformers' mixtures of experts call where torch has no grouped product for their dtype."""
    return _rows_by_group(op, input, weight, op.cast(offs, torch.int64))


def _starts(op: Builder, ends: Tensor) -> Tensor:
    return op.Concat(op.const([0], torch.int64), op.slice(ends, 0, 0, -1), axis=0).with_shape(ends.shape)


def _rows_by_group(op: Builder, rows: Tensor, matrices: Tensor, ends: Tensor) -> Tensor:
    """The rows of each group times its matrix, one group after the other; rows of no group are 0."""
    starts = _starts(op, ends)
    width = matrices.shape[2]
    # To take the matrix of a group is to copy it, so groups without rows are passed over.
    filled = op.Squeeze(op.NonZero(op.Greater(ends, starts)), [0])

    def body(inner: Builder, iteration: Tensor, state: Sequence[Tensor]) -> list[Tensor]:
        number = inner.Gather(filled, iteration, axis=0)
        group = inner.unsqueeze(number.with_shape([]), [0])
        first, last = (inner.Gather(inside(inner, bound), group) for bound in (starts, ends))
        product = inner.MatMul(inner.Slice(rows, first, last, [0]), inner.Gather(matrices, number, axis=0))
        return [inner.Concat(state[0], product, axis=0)]

    nothing = op.full(0, [0, width], rows.dtype)
    (done,) = emit_loop(op, body, op.Size(filled), [Tensor(op, nothing.value, nothing.dtype, None)])
    left = op.ints([rows.shape[0]]) - op.Gather(ends, op.const([-1], torch.int64))
    rest = op.Expand(op.scalar(0, rows.dtype), op.Concat(left, op.ints([width]), axis=0))
    return op.Concat(done, rest, axis=0).with_shape([rows.shape[0], width])


def _terms_by_group(op: Builder, left: Tensor, right: Tensor, ends: Tensor) -> Tensor:
    """The product of the columns of each group with the rows of the same group, stacked."""

    def body(inner: Builder, state: Sequence[Tensor], slices: Sequence[Tensor]) -> Outcome:
        first, last = (inner.unsqueeze(bound, [0]) for bound in slices)
        product = inner.MatMul(inner.Slice(left, first, last, [1]), inner.Slice(right, first, last, [0]))
        return [], [product.with_shape([left.shape[0], right.shape[1]])]

    _, (stacked,) = emit_scan(op, body, [], [(_starts(op, ends), 0), (ends, 0)], [0])
    return stacked
