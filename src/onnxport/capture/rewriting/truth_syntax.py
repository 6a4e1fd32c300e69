"""The syntax of conditions in rewritten functions, and of numbers that they choose: without effects, and left open."""

from __future__ import annotations

import ast

from onnxport.capture.rewriting.names import may_matter
from onnxport.capture.rewriting.syntax_parts import helper, placed


class Truths(ast.NodeTransformer):
    """Makes ``and``, ``or`` and ``not`` of a loop's condition operations on truths that only run time knows."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        nothing = ast.arguments([], [], None, [], [], None, [])
        parts = [ast.Lambda(nothing, value) for value in node.values]
        # What follows may fail where the first does not hold: `i < n and x[i] > 0`.
        in_turn = any(map(may_matter, node.values[1:]))
        return placed(
            node, helper("all_of" if isinstance(node.op, ast.And) else "any_of", ast.Constant(in_turn), *parts)
        )

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return placed(node, helper("negated", node.operand)) if isinstance(node.op, ast.Not) else node


class TruthsOfSizes(ast.NodeTransformer):
    """Makes ``and``, ``or`` and ``not`` of a condition operations on truths that sizes tell."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        return placed(node, helper("every" if isinstance(node.op, ast.And) else "some", *node.values))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return placed(node, helper("opposite", node.operand)) if isinstance(node.op, ast.Not) else node


class WithNewNumbers(ast.NodeTransformer):
    """Makes ``k += n`` bind another number: what else it may be, a tensor or list, is not changed by looking."""

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.stmt:
        if not isinstance(node.target, ast.Name):
            return node
        value = ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value)
        return placed(node, ast.Assign([node.target], value))


def with_joined_truths(node: ast.Call) -> None:
    """Let ``any`` and ``all`` of a comprehension be given truths that only run time knows."""
    if not isinstance(node.func, ast.Name) or node.func.id not in ("any", "all") or len(node.args) != 1:
        return
    (given,) = node.args
    if isinstance(given, ast.GeneratorExp | ast.ListComp):
        given.elt = Truths().visit(given.elt)
