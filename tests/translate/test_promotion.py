"""Promotion is PyTorch's: every pair of dtypes, in every combination of dimensioned, 0-d and Python number."""

from __future__ import annotations

import itertools

import pytest
import torch

from onnxport.translate.promotion import number_dtype, promoted_to_float, result_dtype

DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128,
]  # fmt: skip
NUMBERS = [True, 3, 1.5, 1 + 2j]


@pytest.mark.parametrize("left_dims", [0, 1])
@pytest.mark.parametrize("right_dims", [0, 1])
@pytest.mark.parametrize(("left", "right"), list(itertools.product(DTYPES, DTYPES)))
def test_two_tensors(left: torch.dtype, right: torch.dtype, left_dims: int, right_dims: int) -> None:
    groups: dict[int, list[torch.dtype]] = {0: [], 1: []}
    groups[left_dims].append(left)
    groups[right_dims].append(right)
    operands = [torch.ones([2] * dims, dtype=dtype) for dims, dtype in ((left_dims, left), (right_dims, right))]
    assert result_dtype(groups[1], groups[0], []) == torch.result_type(*operands)


@pytest.mark.parametrize("dims", [0, 1])
@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_tensor_and_number(dtype: torch.dtype, number: complex, dims: int) -> None:
    tensor = torch.ones([2] * dims, dtype=dtype)
    dimensioned, zero_dim = ([dtype], []) if dims else ([], [dtype])
    assert result_dtype(dimensioned, zero_dim, [number_dtype(number)]) == torch.result_type(tensor, number)


@pytest.mark.parametrize("dtype", DTYPES)
def test_functions_of_real_numbers(dtype: torch.dtype) -> None:
    assert promoted_to_float(dtype) == torch.sin(torch.ones(1, dtype=dtype)).dtype
