"""Random programs of the operators the optimizer knows: the same values before and after, and nothing left to do."""

from __future__ import annotations

import random

import pytest
from onnx_rows import optimized

LITERALS = """<float one = {1}, float zero = {0}, float two = {2}, float[1,1] ones = {1}, int64[1] i0 = {0},
 int64[1] i1 = {1}, int64[1] im = {-1}, int64[1] far = {9223372036854775807}, int64[2] s23 = {2, 3},
 int64[2] s32 = {3, 2}, int64[1] flat = {-1}, int64[2] keep = {0, -1}, int64[3] s231 = {2, 3, 1}>"""

#: No Where among them: onnxruntime's loses the sign of zeros, so that leaving it out shows.
#: Templates from matrix to matrix ([2,3] or [n,3]) by way of whatever shapes; {x} and {y} are earlier matrices.
STEPS = [
    "{o} = Identity({x})",
    "{o} = Relu({x})",
    "{o} = Exp({x})",
    "{o} = Add({x}, {y})",
    "{o} = Mul({x}, one)",
    "{o} = Add({x}, zero)",
    "{o} = Sub({x}, zero)",
    "{o} = Mul({x}, ones)",
    "{o} = Concat<axis = 0>({x})",
    "{o}a = Transpose<perm = [1, 0]>({x}) {o} = Transpose<perm = [1, 0]>({o}a)",
    "{o}a = Transpose<perm = [1, 0]>({x}) {o}b = Relu({o}a) {o} = Transpose<perm = [1, 0]>({o}b)",
    "{o}a = Unsqueeze({x}, i1) {o} = Squeeze({o}a, i1)",
    "{o}a = Unsqueeze({x}, i0) {o}b = Neg({o}a) {o} = Squeeze({o}b, i0)",
    "{o}a = Shape({x}) {o} = Reshape({x}, {o}a)",
    "{o}a = Shape({x}) {o} = Expand({x}, {o}a)",
    "{o}a = Unsqueeze({x}, im) {o}s = Shape({y}) {o} = Reshape({o}a, {o}s)",
    "{o}s = Shape({x}) {o}a = Reshape({x}, flat) {o} = Reshape({o}a, {o}s)",
    "{o}s = Shape({x}) {o}g = Gather({o}s, i1) {o}c = Cast<to = 1>({o}g) {o} = Mul({x}, {o}c)",
    "{o}s = Size({x}) {o}c = Cast<to = 1>({o}s) {o} = Mul({x}, {o}c)",
    "{o}a = Cast<to = 11>({x}) {o}b = Cast<to = 1>({o}a) {o} = Neg({o}b)",
    "{o}a = Cast<to = 10>({x}) {o} = Cast<to = 1>({o}a)",
    "{o}a = Cast<to = 9>({x}) {o}b = Cast<to = 7>({o}a) {o} = Cast<to = 1>({o}b)",
    "{o} = Slice({x}, i0, far, i1)",
    "{o}a = Slice({x}, im, far, i1) {o} = Add({x}, {o}a)",
    "{o}c = Add(one, two) {o}d = Sqrt({o}c) {o} = Mul({o}d, {x})",
    "{o}c = Constant<value_float = 2.0>() {o} = Mul({x}, {o}c)",
    "{o}a = ReduceMax({x}, i1) {o} = Sub({x}, {o}a)",
    "{o}a = Reshape({x}, keep) {o} = Abs({o}a)",
    "{o}, {o}m = Dropout({x})",
]


def program(seed: int) -> str:
    """Text of a graph of a dozen steps with one to three outputs."""
    pick = random.Random(seed)
    rows = pick.choice(["2", "n"])
    values, steps = ["x"], []
    for index in range(12):
        name = f"v{index}"
        recent = values[-4:]
        steps.append(pick.choice(STEPS).format(o=name, x=pick.choice(recent), y=pick.choice(values)))
        values.append(name)
    outputs = pick.sample(values[1:], pick.randint(1, 3))
    typed = ", ".join(f"float[{rows},3] {name}" for name in outputs)
    return f"(float[{rows},3] x) => ({typed}) {LITERALS} {{ {' '.join(steps)} }}"


@pytest.mark.parametrize("seed", range(100))
def test_random_program(seed: int) -> None:
    optimized(program(seed), sizes={"n": 1 + seed % 3})
