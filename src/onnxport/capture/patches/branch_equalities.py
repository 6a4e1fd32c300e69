"""Sizes that one way of a branch takes for equal, and that differ where the other is taken.

What an operator finds of sizes torch knows from then on, of the whole model. In ``if a.size(0) == b.size(0)`` the sum
of both says that the sizes are one, and with that what the branch asked has an answer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import sympy  # type: ignore[import-untyped]
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from onnxport.capture.patches.replacing import attributes_replaced
from onnxport.torch_internals.operators import cond_op, higher_order_calls
from onnxport.torch_internals.symbolic_sizes import example_sizes

_evaluate = ShapeEnv.evaluate_expr


@contextlib.contextmanager
def equalities_of_branches_forgotten() -> Iterator[None]:
    """While this is open, what one way of ``cond`` finds of two sizes, that they are equal, holds only there."""
    owner: Any = type(cond_op)
    call: Callable[..., object] = owner.__call__
    # Until torch 2.12 there was none: what the ways of torch.cond in a model's code find there holds in all of it.
    compiled: Callable[..., object] | None = getattr(higher_order_calls, "_hop_compile_and_call", None)

    def call_in_branch(op: object, *given: object) -> object:
        with in_branch():
            return call(op, *given)

    def compile_in_branch(function: Callable[..., object], *given: object) -> object:
        assert compiled is not None
        # Of torch.cond in the code of a model torch looks at the ways before the operator is called.
        with in_branch() if function.__qualname__.startswith("cond.") else contextlib.nullcontext():
            return compiled(function, *given)

    rows: list[tuple[object, str, object]] = [(owner, "__call__", call_in_branch)]
    if compiled is not None:
        rows.append((higher_order_calls, compiled.__name__, compile_in_branch))
    with attributes_replaced(rows):
        yield


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
