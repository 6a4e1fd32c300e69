"""Dtypes and sizes of what a function returns, found by running it: for code that can't be run without values."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch

from onnxport.capture.patches.replacing import attributes_replaced, items_replaced
from onnxport.errors import warn
from onnxport.torch_internals import pytree
from onnxport.torch_internals.fake_tensors import FakeTensor, disable_current_modes
from onnxport.torch_internals.operators import (
    OPDEFS,
    DispatchKey,
    OpOverload,
    dispatch_has_kernel_for_dispatch_key,
    library_registry,
)

_IMPLICIT = DispatchKey.CompositeImplicitAutograd
_EXPLICIT = DispatchKey.CompositeExplicitAutograd
Run = Callable[[Sequence[torch.Tensor], Sequence[int]], list[torch.Tensor]]


def warn_of_example(what: str) -> None:
    """Say that the sizes of results are what they were in a few runs."""
    warn(f"{what}; the dtypes and sizes of its results are taken from runs on made-up values.")


@contextlib.contextmanager
def operators_by_example(operators: Iterable[OpOverload]) -> Iterator[None]:
    """While this is open, operators that say nothing of their results without values are run on made-up ones."""
    with contextlib.ExitStack() as undo:
        for operator in operators:
            _let_tell(operator, undo)
        yield


def _let_tell(operator: OpOverload, undo: contextlib.ExitStack) -> None:
    """Let an operator tell its results without values, in the way that suits how it was defined."""
    name = operator.name()
    definition = OPDEFS.get(name)
    if definition is not None:
        # torch gives such an operator a fake kernel that refuses, until the user brings one.
        if definition._abstract_fn is None:
            definition._abstract_fn = _by_example(operator)
            undo.callback(setattr, definition, "_abstract_fn", None)
        return
    if _has_kernel(name, "Meta") or library_registry.find(name).fake_impl.kernel is not None:
        return
    if _has_kernel(name, _IMPLICIT.name):
        # Such a kernel is called for whatever tensors there are, as C++ extensions mostly define theirs.
        if _IMPLICIT not in operator.py_kernels:
            operator.py_impl(_IMPLICIT)(_if_it_can(operator, _IMPLICIT))
            undo.callback(operator._dispatch_cache.clear)
            undo.callback(operator.py_kernels.pop, _IMPLICIT)
        return
    explicit = _has_kernel(name, _EXPLICIT.name)
    library = torch.library.Library(operator.namespace, "FRAGMENT")
    undo.callback(library._destroy)
    fake = _if_it_can(operator, _EXPLICIT) if explicit else _by_example(operator)
    torch.library.register_fake(operator, fake, lib=library)


def _has_kernel(name: str, key: str) -> bool:
    return bool(dispatch_has_kernel_for_dispatch_key(name, key))


def _if_it_can(operator: OpOverload, key: DispatchKey) -> Callable[..., object]:
    """The operator's own kernel, which may be made of operators that need no values; if it needs some, made-up ones."""
    by_example = _by_example(operator)

    def run(*args: object, **kwargs: object) -> object:
        tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, FakeTensor)]
        try:
            with sizes_kept_symbolic(tensors):
                return operator._op_dk(key, *args, **kwargs)
        except Exception as error:
            if not tensors:
                raise
            forget_numbers(tensors)
            try:
                return by_example(*args, **kwargs)
            except Exception as other:
                if isinstance(error, SizeFixed):
                    # At other sizes it fails, so that the size is this one to all of the model.
                    return operator._op_dk(key, *args, **kwargs)
                raise other from error

    return run


class SizeFixed(RuntimeError):
    """Code that is not looked into, but only run to learn the sizes of its results, made a number of a size."""


@contextlib.contextmanager
def sizes_kept_symbolic(tensors: Iterable[torch.Tensor]) -> Iterator[None]:
    """While this is open, no size that varies may become a number: it would be one in all of the model.

    A loop over the rows of a tensor makes one of their count; at another size the same code has other rows.
    """
    with contextlib.ExitStack() as undo:
        environments: dict[int, tuple[Any, set[sympy.Symbol]]] = {}
        for tensor in tensors:
            env = getattr(getattr(tensor, "fake_mode", None), "shape_env", None)
            if env is not None:
                known = environments.setdefault(id(env), (env, set()))[1]
                known.update(symbol for size in tensor.shape for symbol in _free_symbols(size))
        for env, symbols in environments.values():
            undo.enter_context(_without_numbers(env, symbols))
        # Nor may numpy take part, as it may in the model's own code: what it counts here is in no graph.
        undo.enter_context(attributes_replaced([(FakeTensor, "numpy", _refuse_numpy)]))
        yield


def _refuse_numpy(tensor: torch.Tensor, *, force: bool = False) -> object:
    raise RuntimeError("numpy() was called on a tensor without values")


@contextlib.contextmanager
def _without_numbers(env: Any, symbols: set[sympy.Symbol]) -> Iterator[None]:
    learn = env._maybe_guard_rel

    def refuse(relation: Any) -> None:
        of_one = isinstance(relation, sympy.Eq) and len(relation.free_symbols) == 1
        # That a size is a multiple of something does not fix it.
        if of_one and relation.free_symbols <= symbols and (relation.lhs - relation.rhs).is_polynomial():
            raise SizeFixed(f"a size that varies would have to satisfy {relation.lhs} == {relation.rhs}")
        learn(relation)

    # On the object, so that the capture of another model is not touched.
    with items_replaced(vars(env), {"_maybe_guard_rel": refuse}):
        yield


def _free_symbols(size: object) -> set[sympy.Symbol]:
    return set(size.node.expr.free_symbols) if isinstance(size, torch.SymInt) else set()


def forget_numbers(tensors: Iterable[torch.Tensor]) -> None:
    """Forget what a failed attempt read off tensors: torch would demand to find it among the results."""
    for tensor in tensors:
        env = getattr(getattr(tensor, "fake_mode", None), "shape_env", None)
        if env is not None:
            env.pending_fresh_unbacked_symbols.clear()


def _by_example(operator: OpOverload) -> Callable[..., object]:
    def fake(*args: object, **kwargs: object) -> object:
        leaves, structure = pytree.tree_flatten((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        numbers: list[Any] = [leaf for leaf in leaves if isinstance(leaf, torch.SymInt)]
        returned: list[pytree.TreeSpec] = []

        def run(tensors: Sequence[torch.Tensor], numbers: Sequence[int]) -> list[torch.Tensor]:
            real, fixed = iter(tensors), iter(numbers)
            filled = [
                next(real)
                if isinstance(leaf, torch.Tensor)
                else next(fixed)
                if isinstance(leaf, torch.SymInt)
                else leaf
                for leaf in leaves
            ]
            args, kwargs = pytree.tree_unflatten(filled, structure)
            results, result_structure = pytree.tree_flatten(operator(*args, **kwargs))
            returned.append(result_structure)
            return results

        warn_of_example(f"The operator {operator} has no fake kernel (see torch.library.register_fake)")
        return pytree.tree_unflatten(results_by_example(run, tensors, numbers), returned[-1])

    return fake


def results_by_example(run: Run, tensors: Sequence[torch.Tensor], sizes: Sequence[int]) -> list[torch.Tensor]:
    """Stand-ins for the results of ``run`` on fake tensors, from runs on made-up values.

    The first run has the example's sizes; then each size that varies is changed in turn, and a size of a result that
    follows it is taken to follow it always.
    """
    varying = _symbols([*(size for tensor in tensors for size in tensor.shape), *sizes])
    hints = {symbol: sympy.Integer(size.node.hint) for symbol, size in varying.items()}
    base = _shapes(run, tensors, sizes, hints)
    changes: list[tuple[torch.SymInt, int, list[list[int]]]] = []
    for symbol, size in varying.items():
        changed = _shapes(run, tensors, sizes, hints | {symbol: hints[symbol] + 1})
        changes.append((size, int(hints[symbol]), [shape for _, shape in changed]))
    results = []
    for number, (dtype, shape) in enumerate(base):
        followed = [
            _followed(extent, [(size, hint, shapes[number][axis]) for size, hint, shapes in changes])
            for axis, extent in enumerate(shape)
        ]
        results.append(tensors[0].new_empty(followed, dtype=dtype))
    return results


def _symbols(sizes: Sequence[object]) -> dict[sympy.Symbol, torch.SymInt]:
    """The sizes that are symbols by themselves; others are computed from these."""
    found: dict[sympy.Symbol, torch.SymInt] = {}
    for size in sizes:
        if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol and size.node.hint is not None:
            found.setdefault(size.node.expr, size)
    return found


def _shapes(
    run: Run, tensors: Sequence[torch.Tensor], sizes: Sequence[int], values: dict[sympy.Symbol, sympy.Integer]
) -> list[tuple[torch.dtype, list[int]]]:
    def number(size: Any) -> int:
        if not isinstance(size, torch.SymInt):
            return int(size)
        extent = size.node.expr.xreplace(values)
        return int(extent) if extent.is_number else int(size.node.hint)

    shapes = [[number(size) for size in tensor.shape] for tensor in tensors]
    numbers = [number(size) for size in sizes]
    devices = [tensor.device for tensor in tensors]
    dtypes = [tensor.dtype for tensor in tensors]
    with disable_current_modes():
        made = [_made_up(*one) for one in zip(shapes, dtypes, devices, strict=True)]
        return [(result.dtype, list(result.shape)) for result in run(made, numbers)]


def _made_up(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    if not dtype.is_floating_point:
        return torch.zeros(shape, dtype=dtype, device=device)
    count = max(int(torch.Size(shape).numel()), 1)
    return torch.linspace(0, 1, count, device=device)[: torch.Size(shape).numel()].reshape(list(shape)).to(dtype)


def _followed(extent: int, seen: Sequence[tuple[torch.SymInt, int, int]]) -> Any:
    """A size of a result as what the sizes that it changed with make of it."""
    result: object = extent
    for size, hint, changed in seen:
        slope = changed - extent
        result = result + slope * (size - hint) if slope else result
    return result
