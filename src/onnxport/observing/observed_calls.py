"""Observed calls: their arguments by name, kept as they were when the call was made."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

from onnxport.capture.request.trees import Leaf, copied, leaves, register_containers
from onnxport.torch_internals import pytree

_PLAIN = (bool, int, float, str, type(None))


@dataclass
class ObservedCall:
    """One call: arguments by parameter name, which of them came by position, and what came out."""

    arguments: dict[str, object]
    positional: tuple[str, ...]
    outputs: list[torch.Tensor] = field(default_factory=list)
    seconds: float = 0.0
    output_names: list[str] | None = None

    def leaves(self, name: str) -> list[Leaf]:
        """The leaves of one argument; none if it was not given."""
        return leaves(self.arguments[name], name, (name,)) if name in self.arguments else []

    def tensors(self) -> int:
        """How many tensors the call was given."""
        return sum(isinstance(leaf.value, torch.Tensor) for name in self.arguments for leaf in self.leaves(name))


def bound(signature: inspect.Signature, args: Sequence[object], kwargs: dict[str, object]) -> ObservedCall:
    """Copy the arguments of a call, by name. What equals the parameter's default is left out."""
    register_containers([list(args), kwargs], lambda message: None)
    arguments: dict[str, object] = {}
    by_position: list[str] = []
    left = list(args)
    for name, value in signature.bind(*args, **kwargs).arguments.items():
        parameter = signature.parameters[name]
        if parameter.kind is parameter.VAR_KEYWORD:
            arguments.update(value)
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            by_position += [f"{name}_{index}" for index in range(len(value))]
            arguments.update(zip(by_position[-len(value) :], value, strict=True))
            continue
        if left and name not in kwargs:
            left.pop(0)
            by_position.append(name)
        elif isinstance(value, _PLAIN) and value == parameter.default:
            continue
        arguments[name] = value
    return ObservedCall(copied(arguments), tuple(by_position))


def result_tensors(result: object) -> list[torch.Tensor]:
    """Copies of the tensors in what a call returned, in the order of the outputs of an export."""
    register_containers(result, lambda message: None)
    return [leaf.detach().clone() for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def varying_axes(declared: object) -> list[int]:
    """The axes of a leaf that vary, of what is declared for it: axes of a tensor, a number that varies, or nothing."""
    return list(declared) if isinstance(declared, dict) else []


def nested(value: object, make: Callable[[Leaf], object], name: str) -> object:
    """What ``make`` gives for the leaves of an argument, in the argument's structure."""
    made = [make(leaf) for leaf in leaves(value, name, (name,))]
    return pytree.tree_unflatten(made, pytree.tree_structure(value))
