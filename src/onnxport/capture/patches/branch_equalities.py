"""Branches of graphs: sizes that one way takes for equal, and numbers of data that are read from around.

What an operator finds of sizes torch knows from then on, of the whole model. In ``if a.size(0) == b.size(0)`` the sum
of both says that the sizes are one, and with that what the branch asked has an answer. A number that is not whole,
``score = x.max().item()``, is to a graph's ways what one is that is whole.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from onnxport.capture.patches.replacing import attributes_replaced
from onnxport.torch_internals.operators import BEFORE_HIGHER_ORDER_CALLS, CHECKS_OF_OPERANDS, cond_op
from onnxport.torch_internals.symbolic_sizes import example_sizes

_evaluate = ShapeEnv.evaluate_expr


@contextlib.contextmanager
def equalities_of_branches_forgotten() -> Iterator[None]:
    """While this is open, what one way of ``cond`` finds of two sizes, that they are equal, holds only there."""
    owner: Any = type(cond_op)
    call: Callable[..., object] = owner.__call__

    def call_in_branch(op: object, *given: object) -> object:
        with in_branch():
            return call(op, *given)

    def looking_in_branch(look: Callable[..., object]) -> Callable[..., object]:
        def look_in_branch(function: Callable[..., object], *given: object) -> object:
            with in_branch() if function.__qualname__.startswith("cond.") else contextlib.nullcontext():
                return look(function, *given)

        return look_in_branch

    # Without what looks before, what the ways of torch.cond in a model's code find holds in all of it.
    looks = [(module, name, looking_in_branch(getattr(module, name))) for module, name in BEFORE_HIGHER_ORDER_CALLS]
    checks = [(module, name, _but_for_numbers(getattr(module, name))) for module, name in CHECKS_OF_OPERANDS]
    with attributes_replaced([(owner, "__call__", call_in_branch), *looks, *checks]):
        yield


def _but_for_numbers(check: Callable[[Sequence[object]], None]) -> Callable[[Sequence[object]], None]:
    return lambda operands: check([one for one in operands if not isinstance(one, torch.SymFloat)])


def in_branch() -> contextlib.AbstractContextManager[None]:
    """While this is open, what runs is one way of a branch."""
    return attributes_replaced([(ShapeEnv, _evaluate.__name__, _evaluate_in_branch)])


def in_whole_model() -> contextlib.AbstractContextManager[None]:
    """While this is open, the whole model is bound to what is found, also in a branch."""
    return attributes_replaced([(ShapeEnv, _evaluate.__name__, _evaluate)])


def _evaluate_in_branch(env: ShapeEnv, expression: sympy.Basic, *rest: Any, **named: Any) -> sympy.Basic:
    if not _compares_sizes(env, expression):
        return _evaluate(env, expression, *rest, **named)
    with env.suppress_guards():
        return _evaluate(env, expression, *rest, **named)


def _compares_sizes(env: ShapeEnv, expression: sympy.Basic) -> bool:
    """Whether two sizes that vary are compared, both of which an example has."""
    if not isinstance(expression, sympy.Eq | sympy.Ne) or not all(side.free_symbols for side in expression.args):
        return False
    return bool(expression.free_symbols <= example_sizes(env).keys())
