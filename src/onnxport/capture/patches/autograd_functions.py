"""``torch.autograd.Function`` kept whole: captured as one call, so that its ``symbolic`` method can write it.

While capturing, the ``forward`` of such a class calls one opaque operator instead. ``apply`` looks ``forward`` up when
it runs, so a model that has kept ``MyFunction.apply`` in a variable is caught as well, and a traced model on replay.
"""

from __future__ import annotations

import collections
import contextlib
import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch

from onnxport.capture.patches.fake_kernels import (
    SizeFixed,
    forget_numbers,
    results_by_example,
    sizes_kept_symbolic,
    warn_of_example,
)
from onnxport.capture.patches.replacing import attributes_replaced
from onnxport.torch_internals import pytree
from onnxport.torch_internals.layers import is_setup_context_defined
from onnxport.torch_internals.operators import OpOverload

FunctionClass = type[torch.autograd.Function]
_NAMESPACE = "onnxport"


@dataclass(frozen=True)
class TensorPlace:
    """The place of a tensor among the arguments of a call, by its number."""

    index: int


@dataclass(frozen=True)
class SizePlace:
    """The place of a number that varies, by its number."""

    index: int


@dataclass
class FunctionCall:
    """A call of an autograd function: the class, its own forward, and its arguments with places for what varies.

    ``result`` says what it returned when it last ran: the structure, and all that is not a tensor in it. ``key`` is
    what the call is known by in the graph, the same in every run of a program.
    """

    function: FunctionClass
    forward: Callable[..., object]
    takes_context: bool
    leaves: Sequence[object]
    structure: pytree.TreeSpec
    result: tuple[pytree.TreeSpec, Sequence[object]] | None = None
    number: int = 1
    key: str = field(init=False)

    def __post_init__(self) -> None:
        name = f"{self.function.__module__}.{self.function.__qualname__}"
        self.key = f"{name}({', '.join(_shown(leaf) for leaf in self.leaves)})"

    def arguments(self, tensors: Sequence[object], sizes: Sequence[object]) -> list[Any]:
        """The arguments with something in the places of tensors and sizes."""
        filled = [
            tensors[leaf.index]
            if isinstance(leaf, TensorPlace)
            else sizes[leaf.index]
            if isinstance(leaf, SizePlace)
            else leaf
            for leaf in self.leaves
        ]
        return list(pytree.tree_unflatten(filled, self.structure))

    def run(self, tensors: Sequence[torch.Tensor], sizes: Sequence[int]) -> object:
        """Run the function's own forward."""
        arguments = self.arguments(tensors, sizes)
        return self.forward(_Context(), *arguments) if self.takes_context else self.forward(*arguments)


# Arguments that are equal if they look equal.
_COMPARED = (bool, int, float, complex, str, type(None), torch.dtype, torch.device, TensorPlace, SizePlace)

CALLS: collections.OrderedDict[str, FunctionCall] = collections.OrderedDict()
"""The calls that captured programs contain, by the key in the graph; those made longest ago are forgotten."""
_MOST_CALLS = 4096


class _Context:
    """What ``forward`` is given as ``ctx`` where nobody goes backward: it takes everything and keeps attributes."""

    needs_input_grad: tuple[bool, ...] = ()

    def save_for_backward(self, *tensors: object) -> None:
        self.saved_tensors = tensors

    def save_for_forward(self, *tensors: object) -> None:
        self.saved_for_forward = tensors

    def mark_dirty(self, *tensors: object) -> None:
        self.dirty_tensors = tensors

    def mark_non_differentiable(self, *tensors: object) -> None:
        self.non_differentiable = tensors

    def set_materialize_grads(self, value: bool) -> None:
        self.materialize_grads = value


@functools.cache
def _operator() -> OpOverload:
    # Defined when a model first needs it: registering a fake kernel reads the source of its caller.
    library = torch.library.Library(_NAMESPACE, "FRAGMENT")
    _LIBRARIES.append(library)
    library.define("autograd_function(Tensor[] tensors, SymInt[] sizes, str key) -> Tensor[]")
    library.impl("autograd_function", _results, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{_NAMESPACE}::autograd_function", _fake_results, lib=library)
    overload: OpOverload = torch.ops.onnxport.autograd_function.default
    return overload


# torch releases a library's operators with the object.
_LIBRARIES: list[torch.library.Library] = []


def _results(tensors: Sequence[torch.Tensor], sizes: Sequence[int], key: str) -> list[torch.Tensor]:
    call = CALLS[key]
    with torch.no_grad():
        leaves, structure = pytree.tree_flatten(call.run(tensors, sizes))
    call.result = structure, _template(leaves)
    # An operator may not return what it was given.
    known = {id(tensor) for tensor in tensors}
    results = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    return [result.clone() if id(result) in known else result for result in results]


def _fake_results(tensors: Sequence[torch.Tensor], sizes: Sequence[int], key: str) -> list[torch.Tensor]:
    try:
        with sizes_kept_symbolic(tensors):
            return _results(tensors, sizes, key)
    except Exception as error:  # noqa: BLE001 - foreign code may raise anything where it finds tensors without values
        forget_numbers(tensors)
        function = CALLS[key].function.__name__
        try:
            results = results_by_example(partial(_results, key=key), tensors, sizes)
        except Exception as other:
            if isinstance(error, SizeFixed):
                # At other sizes it fails, so that the size is this one to all of the model.
                return _results(tensors, sizes, key)
            raise other from error
        warn_of_example(f"The forward of {function} can't be run without values ({type(error).__name__}: {error})")
        return results


def functions_kept(wanted: Callable[[FunctionClass], bool]) -> contextlib.AbstractContextManager[None]:
    """While this is open, calls of the wanted autograd functions are one call of an operator each."""
    kept = [function for function in _subclasses(torch.autograd.Function) if wanted(function)]
    return attributes_replaced([(function, "forward", staticmethod(_whole(function))) for function in kept])


def _subclasses(base: type) -> list[FunctionClass]:
    found: dict[FunctionClass, None] = {}
    pending: list[FunctionClass] = list(base.__subclasses__())
    while pending:
        function = pending.pop()
        if function not in found:
            found[function] = None
            pending.extend(function.__subclasses__())
    return list(found)


def _whole(function: FunctionClass) -> Callable[..., object]:
    original = function.forward
    takes_context = not is_setup_context_defined(function.setup_context)

    @functools.wraps(original)
    def forward(*given: object, **kwargs: object) -> object:
        args = given[1:] if takes_context else given
        leaves, structure = pytree.tree_flatten(list(args))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        if kwargs or not tensors:
            return original(*given, **kwargs)
        sizes = [leaf for leaf in leaves if isinstance(leaf, torch.SymInt)]
        call = _known_call(FunctionCall(function, original, takes_context, _template(leaves), structure))
        results = _operator()(tensors, sizes, call.key)
        assert call.result is not None
        returned, places = call.result
        return pytree.tree_unflatten(
            [results[place.index] if isinstance(place, TensorPlace) else place for place in places], returned
        )

    return forward


def _known_call(call: FunctionCall) -> FunctionCall:
    """The call as it was made before, if it was; otherwise it is remembered under a key of its own."""
    plain = call.key
    while True:
        known = CALLS.get(call.key)
        if known is None or known.function is not call.function:
            CALLS[call.key] = known = call
            while len(CALLS) > _MOST_CALLS:
                CALLS.popitem(last=False)
        alike = known.structure == call.structure and len(known.leaves) == len(call.leaves)
        if alike and all(_same(one, other) for one, other in zip(known.leaves, call.leaves, strict=True)):
            CALLS.move_to_end(call.key)
            return known
        # Two arguments that look alike, but are not the same.
        call.number += 1
        call.key = f"{plain} #{call.number}"


def _same(one: object, other: object) -> bool:
    return one is other or (isinstance(one, _COMPARED) and type(one) is type(other) and one == other)


def _template(leaves: Sequence[object]) -> list[Any]:
    template: list[Any] = []
    tensors = sizes = 0
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor):
            template.append(TensorPlace(tensors))
            tensors += 1
        elif isinstance(leaf, torch.SymInt):
            template.append(SizePlace(sizes))
            sizes += 1
        else:
            template.append(leaf)
    return template


def _shown(leaf: object) -> str:
    if isinstance(leaf, TensorPlace | SizePlace):
        return "_"
    # What else there may be shows an address, or all that is in it.
    return repr(leaf) if isinstance(leaf, _COMPARED) else type(leaf).__qualname__
