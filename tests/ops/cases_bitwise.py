"""Rows for aten/bitwise.py."""

from __future__ import annotations

import torch

from cases import B, I, R, case

A = torch.ops.aten


def _both(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x & y, x | y, x ^ y, ~x, A.__and__.Tensor(x, y), A.__or__.Tensor(x, y), A.__xor__.Tensor(x, y)


def _shifts(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return x << y, x >> y, A.__lshift__.Tensor(x, y), A.__rshift__.Tensor(x, y)


def _fixed_shifts(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    left = [x << by for by in (0, 3, 7, 31, 63, 64, -1)]
    right = [x >> by for by in (0, 3, 7, 31, 63, 64, -1)]
    return *left, *right, A.__lshift__.Scalar(x, 2), A.__rshift__.Scalar(x, 2)


def _scalars(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (
        *(A.bitwise_and.Scalar(x, 6), A.bitwise_or.Scalar(x, 6), A.bitwise_xor.Scalar(x, 6)),
        *(A.bitwise_and.Scalar_Tensor(6, x), A.bitwise_or.Scalar_Tensor(6, x), A.bitwise_xor.Scalar_Tensor(6, x)),
        *(A.__and__.Scalar(x, 6), A.__or__.Scalar(x, 6), A.__xor__.Scalar(x, 6)),
    )


LOGIC = (
    "aten::bitwise_and.Tensor aten::bitwise_or.Tensor aten::bitwise_xor.Tensor aten::bitwise_not "
    "aten::__and__.Tensor aten::__or__.Tensor aten::__xor__.Tensor"
)
SCALARS = " ".join(
    f"aten::bitwise_{name}.Scalar aten::bitwise_{name}.Scalar_Tensor aten::__{name}__.Scalar"
    for name in ("and", "or", "xor")
)
SHIFTS = (
    "aten::bitwise_left_shift.Tensor aten::bitwise_right_shift.Tensor aten::__lshift__.Tensor aten::__rshift__.Tensor"
)
FIXED = (
    "aten::bitwise_left_shift.Tensor_Scalar aten::bitwise_right_shift.Tensor_Scalar "
    "aten::__lshift__.Scalar aten::__rshift__.Scalar"
)

CASES = [
    case(LOGIC, _both, I("n", 4, low=-99, high=99), I("n", 4, low=-99, high=99)),
    case(LOGIC, _both, B("n", 4), B("n", 4), name="bool"),
    case(LOGIC, _both, R("n", 4, dtype=torch.uint8, high=255), R("n", 4, dtype=torch.uint8, high=255), name="uint8"),
    case(SCALARS, _scalars, I("n", 4, low=-99, high=99)),
    *(
        case(
            SHIFTS,
            _shifts,
            R("n", 9, dtype=dtype, low=-99 if dtype.is_signed else 0, high=99),
            R("n", 9, dtype=dtype, low=-2 if dtype.is_signed else 0, high=70),
            name=str(dtype).removeprefix("torch."),
        )
        for dtype in (torch.int64, torch.int32, torch.int8, torch.uint8)
    ),
    *(
        case(
            FIXED,
            _fixed_shifts,
            R("n", 9, dtype=dtype, low=-99, high=99),
            name=str(dtype).removeprefix("torch."),
        )
        for dtype in (torch.int64, torch.int32, torch.int8)
    ),
    case(
        "aten::bitwise_left_shift.Scalar_Tensor aten::bitwise_right_shift.Scalar_Tensor",
        lambda x: (A.bitwise_left_shift.Scalar_Tensor(-5, x), A.bitwise_right_shift.Scalar_Tensor(-500, x)),
        I("n", 4, low=0, high=9),
    ),
]
