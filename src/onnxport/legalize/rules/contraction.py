"""Einsum before it had an operator."""

from __future__ import annotations

import functools

import onnx_ir as ir

from onnxport.legalize.rewriter import Replacement, lowers
from onnxport.legalize.rule_builder import RuleBuilder
from onnxport.legalize.rules.counting import axis_length, upto
from onnxport.onnx_build.equations import lettered


@lowers("Einsum", below=12)
def einsum(op: RuleBuilder, node: ir.Node) -> Replacement:
    """Operands one after the other: a matrix product where one label of each kind is left, else products summed up."""
    operands = [op.needed(position) for position in range(len(node.inputs))]
    terms, result = lettered(op.attr_string("equation", ""), [op.rank(operand) for operand in operands])
    work = [_diagonal(op, term, value) for term, value in zip(terms, operands, strict=True)]
    while len(work) > 1:
        (left, one), (right, other), *rest = work
        needed = set(result).union(*(term for term, _ in rest))
        work = [_pair(op, left, one, right, other, needed), *rest]
    term, value = work[0]
    term, value = _sum_out(op, term, value, set(result))
    return _arranged(op, term, value, result)


def _diagonal(op: RuleBuilder, term: str, value: ir.Value) -> tuple[str, ir.Value]:
    """What lies on the diagonal of axes with the same label, as the sum of it and of zeros beside it."""
    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            first, second = term.index(letter), term.rindex(letter)
            places = upto(op, axis_length(op, value, first))
            rows = op.unsqueeze(places, list(range(1, second - first + 1)))
            on = op.Equal(rows, places)
            behind = len(term) - 1 - second
            on = op.unsqueeze(on, list(range(second - first + 1, second - first + 1 + behind))) if behind else on
            value = op.reduce("ReduceSum", op.where(on, value, op.like(0, value)), [second], keepdims=False)
            term = term[:second] + term[second + 1 :]
    return term, value


def _sum_out(op: RuleBuilder, term: str, value: ir.Value, needed: set[str]) -> tuple[str, ir.Value]:
    gone = [at for at, letter in enumerate(term) if letter not in needed]
    if gone:
        value = op.reduce("ReduceSum", value, gone, keepdims=False)
    return "".join(letter for letter in term if letter in needed), value


def _arranged(op: RuleBuilder, term: str, value: ir.Value, wanted: str) -> ir.Value:
    """Axes in the order of ``wanted``, of length one where the term lacks a label."""
    order = [term.index(letter) for letter in wanted if letter in term]
    if order != sorted(order):
        value = op.Transpose(value, perm=order)
    missing = [at for at, letter in enumerate(wanted) if letter not in term]
    return op.unsqueeze(value, missing) if missing else value


def _pair(
    op: RuleBuilder, left: str, one: ir.Value, right: str, other: ir.Value, needed: set[str]
) -> tuple[str, ir.Value]:
    left, one = _sum_out(op, left, one, needed | set(right))
    right, other = _sum_out(op, right, other, needed | set(left))
    summed = [letter for letter in left if letter in right and letter not in needed]
    batch = "".join(letter for letter in left if letter in right and letter in needed)
    rows = "".join(letter for letter in left if letter not in right)
    columns = "".join(letter for letter in right if letter not in left)
    if len(summed) == 1 and len(rows) <= 1 and len(columns) <= 1:
        product = op.MatMul(
            _arranged(op, left, one, batch + (rows or "?") + summed[0]),
            _arranged(op, right, other, batch + summed[0] + (columns or "!")),
        )
        extra = [len(batch) + at for at, letters in enumerate((rows, columns)) if not letters]
        return batch + rows + columns, op.squeeze(product, extra) if extra else product
    every = batch + rows + columns + "".join(summed)
    product = functools.reduce(op.Mul, (_arranged(op, left, one, every), _arranged(op, right, other, every)))
    return _sum_out(op, every, product, needed)
