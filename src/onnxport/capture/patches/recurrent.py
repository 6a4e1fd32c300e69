"""Recurrent layers with a sequence length that varies.

torch computes the shapes of ``aten::lstm`` and its kin on fake tensors by running the layer step by step, which fixes
the number of steps to the example's. While capturing, the shapes are computed as what they are: the length
of the input, and the sizes of the states.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from onnxport.capture.patches.replacing import items_replaced, kernels_replaced
from onnxport.torch_internals.fake_tensors import FakeTensor, FunctionalTensor
from onnxport.torch_internals.operators import OpOverload, decomposition_table

RECURRENT_LAYERS = [
    getattr(getattr(torch.ops.aten, name), overload)
    for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")
    for overload in ("input", "data")
]


def _shapes(operator: OpOverload) -> Callable[..., object]:
    packed = operator._overloadname == "data"
    bidirectional_at = [argument.name for argument in operator._schema.arguments].index("bidirectional")

    def kernel(*args: Any, **kwargs: object) -> object:
        sequence, hidden = args[0], args[2 if packed else 1]
        bidirectional = args[bidirectional_at] if bidirectional_at < len(args) else kwargs["bidirectional"]
        states = list(hidden) if isinstance(hidden, list | tuple) else [hidden]
        width = states[0].shape[-1] * (2 if bidirectional else 1)
        output = sequence.new_empty([*sequence.shape[:-1], width])
        return (output, *(state.new_empty(state.shape) for state in states))

    return kernel


def _chosen(shapes: Callable[..., object], original: Callable[..., object]) -> Callable[..., object]:
    def kernel(*args: Any, **kwargs: object) -> object:
        traced = isinstance(args[0], FakeTensor | FunctionalTensor) or args[0].device.type == "meta"
        return (shapes if traced else original)(*args, **kwargs)

    return kernel


@contextlib.contextmanager
def recurrences_of_any_length() -> Iterator[None]:
    """While this is open, fake tensors pass through recurrent layers without being stepped through."""
    rules = {operator: _shapes(operator) for operator in RECURRENT_LAYERS}
    kernels = {
        operator: {key: _chosen(rule, kernel) for key, kernel in operator.py_kernels.items()}
        for operator, rule in rules.items()
    }
    # In the branches of a condition torch looks for a decomposition first.
    decompositions = {operator: _chosen(rule, decomposition_table[operator]) for operator, rule in rules.items()}
    with kernels_replaced(kernels), items_replaced(decomposition_table, decompositions):
        yield
