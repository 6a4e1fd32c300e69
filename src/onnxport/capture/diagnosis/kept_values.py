"""Values that a model keeps from one call for the next: every call of the file is a first one."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import torch

from onnxport.capture.diagnosis.user_lines import describe
from onnxport.capture.preserved import KeptValue, buffers_preserved, preserved
from onnxport.capture.request.eager_calls import called_eagerly
from onnxport.errors import Problem, listing, warn
from onnxport.events import EventLog
from onnxport.torch_internals import pytree
from onnxport.torch_internals.fake_tensors import FakeTensor


def report_kept_values(
    kept: Collection[KeptValue], model: object, args: Sequence[Any], kwargs: Mapping[str, Any], events: EventLog
) -> None:
    """Warn of what the code left behind, if the model then gives another result when it is called again.

    Whether it does is tried: a table that is made once, or a result that is there to be looked at, makes no difference.
    """
    if not kept or not isinstance(model, torch.nn.Module) or not _differs_when_called_again(model, args, kwargs):
        return
    problems = []
    for value in sorted(kept, key=str):
        what = f"`{value}` has nothing of an earlier call"
        problems.append(Problem(what, _where_written(value)))
        events.add("assumption", "capture", what, where=problems[-1].where)
    headline = (
        "A result depends on what the model kept from the call before, and every call of the file is a first one:"
    )
    warn(listing(headline, problems, "Make them inputs and outputs of forward."))


def _differs_when_called_again(model: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    weights = [*model.parameters(), *model.buffers()]
    if any(isinstance(tensor, FakeTensor) or tensor.is_meta for tensor in (*tensors, *weights)):
        return False
    results = []
    with preserved(model):
        for _ in range(2):
            # Buffers have a warning of their own.
            with buffers_preserved(model), torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
                try:
                    results.append(pytree.tree_leaves(called_eagerly(model, args, kwargs)))
                except Exception:  # noqa: BLE001  whatever the model raises: it is the second call that fails
                    return len(results) == 1
    first, second = results
    return len(first) != len(second) or not all(map(_is_same, first, second))


def _is_same(one: object, other: object) -> bool:
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return type(one) is type(other)
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    if not one.is_floating_point():
        return torch.equal(one, other)
    # Small types of floating-point numbers have no kernels to compare them.
    return torch.allclose(one.double(), other.double(), equal_nan=True)


def _where_written(value: KeptValue) -> str:
    """The line in a function that assigns to a name, or changes what it holds; '' where there is none."""
    try:
        tree = ast.parse("".join(linecache.getlines(value.file)))
    except SyntaxError:
        return ""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and function.name != "__init__":
            for node in ast.walk(function):
                if any(_is_named(part, value) for part in _changed_by(node)):
                    return describe((value.file, getattr(node, "lineno", function.lineno), function.name))
    return ""


def _changed_by(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.Assign):
        yield from node.targets
    elif isinstance(node, ast.AugAssign | ast.AnnAssign):
        yield node.target
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        yield node.func.value


def _is_named(node: ast.expr, value: KeptValue) -> bool:
    while isinstance(node, ast.Subscript):
        node = node.value
    if value.is_attribute:
        return isinstance(node, ast.Attribute) and node.attr == value.name
    return isinstance(node, ast.Name) and node.id == value.name
