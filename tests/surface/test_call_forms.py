"""Calls as code for the TorchScript exporter makes them, and what models return there: with either front end."""

from __future__ import annotations

import collections
from typing import Any

import pytest
import torch
from torch import nn

import onnxport

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
X, Y = torch.randn(3, 4), torch.randn(3, 4)


class Scale(nn.Module):
    def forward(self, x: Any, scale: Any = None, shift: Any = None) -> Any:
        y = x if scale is None else x * scale
        return y if shift is None else y + shift


class Product(nn.Module):
    def forward(self, a: Any, b: Any) -> Any:
        return a * b


class OfDict(nn.Module):
    def forward(self, inputs: Any) -> Any:
        return inputs["a"] + inputs["b"]


class Collects(nn.Module):
    def forward(self, x: Any, **others: Any) -> Any:
        return x + sum(others.values())


class Nested(nn.Module):
    def forward(self, x: Any, pair: Any) -> Any:
        return x + pair[0]["u"].sum(), pair[1] * 2


CALLS = {
    "keywords at the end": (Scale(), (X, {"scale": Y}), ["x", "scale"]),
    "keywords out of order": (Scale(), (X, {"shift": Y, "scale": X}), ["x", "scale", "shift"]),
    "no keywords at the end": (Scale(), (X, {}), ["x"]),
    "all as keywords": (Product(), ({"a": X, "b": Y},), ["a", "b"]),
    "a bare dict of keywords": (Product(), {"a": X, "b": Y}, ["a", "b"]),
    "a dict as an argument": (OfDict(), ({"a": X, "b": Y},), ["inputs_a", "inputs_b"]),
    "a dict as an argument, and no keywords": (OfDict(), ({"a": X, "b": Y}, {}), ["inputs_a", "inputs_b"]),
    "keywords that forward collects": (Collects(), (X, {"z": Y}), ["x", "z"]),
    "nested": (Nested(), (X, ({"u": Y}, X)), ["x", "pair_0_u", "pair_1"]),
}


@pytest.mark.parametrize("dynamo", [True, False])
@pytest.mark.parametrize(("model", "args", "names"), CALLS.values(), ids=CALLS.keys())
def test_forms_of_args(model: nn.Module, args: Any, names: list[str], dynamo: bool) -> None:
    axes = {name: {0: "n"} for name in names}
    program = onnxport.export(model, args, dynamo=dynamo, dynamic_axes=axes)
    assert [value.name for value in program.model.graph.inputs] == names
    feeds = [torch.randn(5, 4) for _ in names]
    if isinstance(model, OfDict):
        given, keywords = ({"a": feeds[0], "b": feeds[1]},), {}
    elif isinstance(model, Nested):
        given, keywords = (feeds[0], ({"u": feeds[1]}, feeds[2])), {}
    else:
        given, keywords = (), dict(zip(names, feeds, strict=True))
    expected = torch.utils._pytree.tree_leaves(model(*given, **keywords))
    for found, wanted in zip(program(*given, **keywords), expected, strict=True):
        torch.testing.assert_close(found, wanted)


def test_nested_names_of_dynamic_axes() -> None:
    args = (X, ({"u": Y}, X))
    names = ["x", "u", "v"]
    program = onnxport.export(Nested(), args, dynamo=False, input_names=names, dynamic_axes={"u": [0], "v": {0: "k"}})
    assert [str(value.shape[0]) for value in program.model.graph.inputs] == ["3", "u_dynamic_axes_1", "k"]  # type: ignore[index]


class Kept(dict):  # type: ignore[type-arg]
    """A dict with a name of its own."""


class Ordered(collections.OrderedDict):  # type: ignore[type-arg]
    """One that makes itself."""

    def __init__(self, *, limit: int = 3) -> None:
        super().__init__()
        self.limit = limit


class Wrapped(collections.UserDict):  # type: ignore[type-arg]
    """As tokenizers return them."""


class Returns(nn.Module):
    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, x: Any) -> Any:
        result = self.kind()
        result["sum"] = x + 1
        result["twice"] = x * 2
        return result


@pytest.mark.parametrize("dynamo", [True, False])
@pytest.mark.parametrize("kind", [dict, collections.OrderedDict, collections.defaultdict, Kept, Ordered, Wrapped])
def test_dicts_of_any_class_as_results(kind: Any, dynamo: bool) -> None:
    program = onnxport.export(Returns(kind), (X,), dynamo=dynamo, input_names=["x"], dynamic_axes={"x": [0]})
    x = torch.randn(5, 4)
    for found, wanted in zip(program(x), (x + 1, x * 2), strict=True):
        torch.testing.assert_close(found, wanted)


class TensorKeys(nn.Module):
    def forward(self, table: Any) -> Any:
        keys = list(table)
        return {keys[0]: table[keys[0]] * 2, keys[1]: table[keys[1]] + 1}


@pytest.mark.parametrize("dynamo", [True, False])
def test_dicts_with_tensors_as_keys(dynamo: bool) -> None:
    table = {torch.tensor(1): X, torch.tensor(2): Y}
    program = onnxport.export(TensorKeys(), (table, {}), dynamo=dynamo)
    torch.testing.assert_close(list(program(table)), [X * 2, Y + 1])


class Numbers(nn.Module):
    def forward(self, x: Any) -> Any:
        return x + 1, x.shape[0], 3, 0.5, True


class Shared(nn.Module):
    def forward(self, x: Any) -> Any:
        y = torch.zeros(2)
        y.set_(x * 2)
        return y + 1


class Counts(nn.Module):
    def forward(self, x: Any) -> Any:
        y = torch.zeros(x.shape[0], dtype=torch.int64)
        torch.arange(x.shape[0], out=y)
        return y, torch.arange(0.5, 4.7, 1.3, dtype=torch.int64), torch.arange(0.0, x.shape[0] - 0.5, dtype=torch.int64)


class Windows(nn.Module):
    def forward(self, x: Any) -> Any:
        n = x.shape[0]
        return (
            torch.hann_window(n),
            torch.hamming_window(n, periodic=False),
            torch.hamming_window(n, True, 0.6),
            torch.blackman_window(n),
            torch.bartlett_window(n, periodic=False),
        )


@pytest.mark.parametrize("dynamo", [True, False])
@pytest.mark.parametrize("model", [Numbers(), Shared(), Counts(), Windows()], ids=lambda model: type(model).__name__)
def test_results_by_size(model: nn.Module, dynamo: bool) -> None:
    program = onnxport.export(model, (X,), dynamo=dynamo, input_names=["x"], dynamic_axes={"x": [0]})
    for size in (6, 1):
        x = torch.randn(size, 4)
        expected = model(x)
        expected = expected if isinstance(expected, tuple) else (expected,)
        for found, wanted in zip(program(x), expected, strict=True):
            torch.testing.assert_close(found, torch.as_tensor(wanted), rtol=1e-5, atol=1e-6)
