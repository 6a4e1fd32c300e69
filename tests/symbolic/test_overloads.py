"""Which overload a symbolic function means, and with which arguments."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from onnxport.errors import TranslationError
from onnxport.symbolic.session.overloads import bind_overload

GRAPH = torch._C.Graph()
TENSOR = GRAPH.addInput()
TENSOR.setType(torch._C.TensorType.create_from_tensor(torch.ones(2, 3)))
COUNT = GRAPH.addInput()
COUNT.setType(torch._C.TensorType.create_from_tensor(torch.tensor(4)))
THREE: torch._C.Value = GRAPH.insertConstant(3)  # type: ignore[attr-defined]
AXES: torch._C.Value = GRAPH.insertConstant([0, 1])  # type: ignore[attr-defined]
NONE: torch._C.Value = GRAPH.insertConstant(None)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "overload", "arguments"),
    [
        ("relu", [TENSOR], {}, "default", [TENSOR]),
        ("add", [TENSOR, TENSOR], {}, "Tensor", [TENSOR, TENSOR, 1]),
        ("add", [TENSOR, 2], {"alpha": THREE}, "Scalar", [TENSOR, 2, 3]),
        ("sum", [TENSOR], {}, "default", [TENSOR, None]),
        ("sum", [TENSOR, AXES, True], {"dtype": 6}, "dim_IntList", [TENSOR, [0, 1], True, torch.float32]),
        ("sum", [TENSOR, NONE, 0], {}, "dim_IntList", [TENSOR, None, False, None]),
        ("expand", [TENSOR, [COUNT, 3]], {}, "default", [TENSOR, [COUNT, 3], False]),
        ("leaky_relu", [TENSOR, 1], {}, "default", [TENSOR, 1]),
        ("native_dropout", [TENSOR, 1, NONE], {}, "default", [TENSOR, 1.0, None]),
        ("cat", [[TENSOR, TENSOR], THREE], {}, "default", [[TENSOR, TENSOR], 3]),
    ],
)
def test_the_overload_that_fits(
    name: str, args: list[Any], kwargs: dict[str, Any], overload: str, arguments: list[Any]
) -> None:
    packet = getattr(torch.ops.aten, name)
    found = bind_overload(packet, args, kwargs)
    assert found.overload is getattr(packet, overload)
    assert list(found.arguments) == arguments
    assert [type(one) for one in found.arguments] == [type(one) for one in arguments]


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "why"),
    [
        ("relu", [], {}, "`self` is missing"),
        ("relu", ["text"], {}, "`self` must be a tensor"),
        ("relu", [TENSOR, 1], {}, "it has 1 arguments"),
        ("relu", [TENSOR], {"inplace": True}, "it has no inplace"),
        ("softmax", [TENSOR, TENSOR], {}, "`dim` must be a constant of type int"),
        ("softmax", [TENSOR, 0.5], {}, "`dim` is 0.5, not of type int"),
        ("permute", [TENSOR, TENSOR], {}, "`dims` must be a list of which the items are known"),
    ],
)
def test_arguments_that_fit_none(name: str, args: list[Any], kwargs: dict[str, Any], why: str) -> None:
    with pytest.raises(TranslationError) as refused:
        bind_overload(getattr(torch.ops.aten, name), args, kwargs)
    assert str(refused.value).startswith(f"aten::{name} has no form for the arguments it is given. ")
    assert why in str(refused.value)
