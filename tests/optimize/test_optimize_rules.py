"""Each rule: a graph before, the operators after, and the same values from both."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest
from onnx_rows import feeds, ops, optimized, parse, run

from onnxport.optimize import run_passes
from onnxport.optimize.rules import RULES
from onnxport.optimize.rules.casts import passes_through

T = ir.DataType

ROWS = {
    "identity": ("(float[2] x) => (float[2] y) { a = Identity(x) y = Relu(a) }", ["Relu"]),
    "identity before an output": ("(float[2] x) => (float[2] y) { a = Relu(x) y = Identity(a) }", ["Relu"]),
    "identity of an input as output": ("(float[2] x) => (float[2] y) { y = Identity(x) }", ["Identity"]),
    "copy of an input as output": ("(float[2] x) => (float[2] y) { a = Identity(x) y = Identity(a) }", ["Identity"]),
    "copy of an output": (
        "(float[2] x) => (float[2] y, float[2] z) { y = Relu(x) z = Identity(y) }",
        ["Relu", "Identity"],
    ),
    "neutral op as output": (
        "(float[2] x) => (float[2] y) <float one = {1}> { y = Mul(x, one) }",
        ["Identity"],
    ),
    "dropout": ("(float[2] x) => (float[2] y) { a = Dropout(x) y = Relu(a) }", ["Relu"]),
    "dropout with its mask used": (
        "(float[2] x) => (float[2] y, bool[2] m) { a, m = Dropout(x) y = Relu(a) }",
        ["Dropout", "Relu"],
    ),
    "truth that is asked of its number": (
        "(float[2] x) => (float[2] y) <float limit = {0}, int64 zero = {0}> "
        "{ m = ReduceMax<keepdims = 0>(x) t = Greater(m, limit) "
        "i = Cast<to = 7>(t) e = Equal(i, zero) n = Not(e) y = Where(n, x, m) }",
        ["ReduceMax", "Greater", "Where"],
    ),
    "truth whose number is one": (
        "(float[2] x) => (bool[2] y) <float limit = {0}, int64 one = {1}> "
        "{ t = Greater(x, limit) i = Cast<to = 7>(t) y = Equal(i, one) }",
        ["Greater"],
    ),
    "same operation as one that lost its transpositions": (
        "(float[2,2] x) => (float[2,2] y, float[2,2] z) { t = Transpose<perm = [1, 0]>(x) a = Exp(t) "
        "y = Transpose<perm = [1, 0]>(a) z = Exp(t) }",
        ["Transpose", "Exp", "Exp"],
    ),
    "results without elements": (
        "(float[0,3] x, float[2] z) => (float[2] y) <int64[2] sizes = {2, 1}> { a, b = Split<axis = 1>(x, sizes) "
        "c = Concat<axis = 1>(b, a) n = ReduceSum<keepdims = 0>(c) y = Add(z, n) }",
        ["Add"],
    ),
    "zeros before a maximum": (
        "(float[1,1,4,4] x) => (float[1,1,5,5] y) <int64[8] pads = {0,0,1,1,0,0,1,1}> "
        "{ a = Abs(x) b = Pad(a, pads) y = MaxPool<kernel_shape = [2, 2]>(b) }",
        ["Abs", "Pad", "MaxPool"],
    ),
    "weights of two products": (
        "(float[2,3] x, float[2,3] z) => (float[2,2] y) <float[2,3] w = {1, 2, 3, 4, 5, 6}> "
        "{ a = Gemm<transB = 1>(x, w) b = Gemm<transB = 1>(z, w) y = Add(a, b) }",
        ["Gemm", "Gemm", "Add"],
    ),
    "weights of one product": (
        "(float[2,3] x) => (float[2,2] y) <float[2,3] w = {1, 2, 3, 4, 5, 6}> { y = Gemm<transB = 1>(x, w) }",
        ["Gemm"],
    ),
    "softmax under a mask of everything": (
        "(float[b,2,3] x) => (float[b,2,3] y) <bool[1,2,1] all = {1, 1}, float zero = {0}, float least = {-9}, "
        "int64[2] tail = {2, 3}> { n = Shape<start = 0, end = 1>(x) s = Concat<axis = 0>(n, tail) e = Expand(all, s) "
        "m = Where(e, zero, least) a = Add(x, m) y = Softmax(a) }",
        ["Softmax"],
    ),
    "softmax under a mask of some": (
        "(float[2,2,3] x, float[3] least) => (float[2,2,3] y) <bool[1,2,1] some = {1, 0}, float zero = {0}> "
        "{ m = Where(some, zero, least) a = Add(x, m) y = Softmax(a) }",
        ["Where", "Add", "Softmax"],
    ),
    "transposes of both operands": (
        "(float[2,n] x, float[2,n] z) => (float[2,n] y) { a = Transpose<perm = [1, 0]>(x) "
        "b = Transpose<perm = [1, 0]>(z) c = Sub(a, b) y = Transpose<perm = [1, 0]>(c) }",
        ["Sub"],
    ),
    "transposes of both operands, one of them read elsewhere": (
        "(float[2,3] x, float[2,3] z) => (float[3,2] y, float[3,2] w) { a = Transpose<perm = [1, 0]>(x) "
        "b = Transpose<perm = [1, 0]>(z) y = Sub(a, b) w = Exp(a) }",
        ["Transpose", "Transpose", "Sub", "Exp"],
    ),
    "transposes of operands that are broadcast": (
        "(float[2,3] x, float[1,3] z) => (float[3,2] y) { a = Transpose<perm = [1, 0]>(x) "
        "b = Transpose<perm = [1, 0]>(z) y = Sub(a, b) }",
        ["Transpose", "Transpose", "Sub"],
    ),
    "expand of expand": (
        "(float[1,1,3] x) => (float[2,4,3] y) <int64[3] s = {1,4,3}, int64[3] t = {2,4,3}> "
        "{ a = Expand(x, s) y = Expand(a, t) }",
        ["Expand"],
    ),
    "expand of expand that leaves a size": (
        "(float[1,1,3] x) => (float[2,4,3] y) <int64[3] s = {1,4,3}, int64[3] t = {2,1,1}> "
        "{ a = Expand(x, s) y = Expand(a, t) }",
        ["Expand", "Expand"],
    ),
    "axes of a reshape": (
        "(float[n,6] x) => (float[1,n,2,3] y) <int64[3] s = {-1,2,3}, int64[1] at = {0}> "
        "{ a = Reshape(x, s) y = Unsqueeze(a, at) }",
        ["Reshape"],
    ),
    "axes of a reshape with two free dimensions": (
        "(float[n,m,6] x) => (float[1,n,m,2,3] y) <int64[4] s = {0,0,2,3}, int64[1] at = {0}> "
        "{ a = Reshape(x, s) y = Unsqueeze(a, at) }",
        ["Reshape", "Unsqueeze"],
    ),
    "moves before quantization": (
        "(float[n,3] x, float[2,3] z) => (float[2,n] y) <float s = {0.1}, int8 p = {3}> { q = QuantizeLinear(x, s, p) "
        "d = DequantizeLinear(q, s, p) t = Transpose<perm = [1, 0]>(d) y = MatMul(z, t) }",
        ["Transpose", "QuantizeLinear", "DequantizeLinear", "MatMul"],
    ),
    "moves of integers": (
        "(float[n,3] x) => (float[3,n] y) <float s = {0.1}, int8 p = {3}> { q = QuantizeLinear(x, s, p) "
        "d = DequantizeLinear(q, s, p) t = Transpose<perm = [1, 0]>(d) r = QuantizeLinear(t, s, p) "
        "y = DequantizeLinear(r, s, p) }",
        ["QuantizeLinear", "DequantizeLinear", "Transpose", "QuantizeLinear", "DequantizeLinear"],
    ),
    "moves of numbers with a scale for each row": (
        "(float[2,3] x, float[2,3] z) => (float[2,2] y) <float[2] s = {0.1, 0.2}, int8[2] p = {3, 0}> "
        "{ q = QuantizeLinear<axis = 0>(x, s, p) d = DequantizeLinear<axis = 0>(q, s, p) "
        "t = Transpose<perm = [1, 0]>(d) y = MatMul(z, t) }",
        ["QuantizeLinear", "DequantizeLinear", "Transpose", "MatMul"],
    ),
    "length of another": (
        "(float[2,3] x, float[2,3] z) => (float[2,3] y) <int64[1] at = {1}> { a = ReduceL2(x, at) y = Div(z, a) }",
        ["ReduceSumSquare", "Sqrt", "Div"],
    ),
    "length of its own": (
        "(float[2,3] x) => (float[2,3] y) <int64[1] at = {1}> { a = ReduceL2(x, at) y = Div(x, a) }",
        ["ReduceL2", "Div"],
    ),
    "reduction of all axes": (
        "(float[n,3] x) => (float y) <int64[2] at = {1, -2}> { y = ReduceMax<keepdims = 0>(x, at) }",
        ["ReduceMax"],
    ),
    "concat of one": ("(float[2] x) => (float[2] y) { a = Concat<axis = 0>(x) y = Relu(a) }", ["Relu"]),
    "cast to the same type": ("(float[2] x) => (float[2] y) { a = Cast<to = 1>(x) y = Relu(a) }", ["Relu"]),
    "cast by way of a wider type": (
        "(int32[2] x) => (float[2] y) { a = Cast<to = 7>(x) b = Cast<to = 1>(a) y = Neg(b) }",
        ["Cast", "Neg"],
    ),
    "cast there and back": (
        "(int32[2] x) => (int32[2] y) { a = Cast<to = 7>(x) b = Cast<to = 6>(a) y = Neg(b) }",
        ["Neg"],
    ),
    "truths counted": (
        "(bool[2,3] x) => (int32[2,3] y) <int64 at = {1}>"
        " { a = Cast<to = 7>(x) b = CumSum(a, at) c = Cast<to = 6>(b) y = Neg(c) }",
        ["Cast", "CumSum", "Neg"],
    ),
    "cast by way of half": (
        "(float[2] x) => (float[2] y) { a = Cast<to = 10>(x) y = Cast<to = 1>(a) }",
        ["Cast", "Cast"],
    ),
    "cast by way of integers": (
        "(float[2] x) => (float[2] y) { a = Cast<to = 7>(x) y = Cast<to = 1>(a) }",
        ["Cast", "Cast"],
    ),
    "transposes that cancel": (
        "(float[2,3] x) => (float[2,3] y) { a = Transpose<perm = [1, 0]>(x) b = Transpose(a) y = Relu(b) }",
        ["Relu"],
    ),
    "transposes that compose": (
        "(float[2,3,4] x) => (float[4,2,3] y) "
        "{ a = Transpose<perm = [1, 2, 0]>(x) b = Transpose<perm = [1, 2, 0]>(a) y = Relu(b) }",
        ["Transpose", "Relu"],
    ),
    "transpose of nothing": (
        "(float[2,3] x) => (float[2,3] y) { a = Transpose<perm = [0, 1]>(x) y = Relu(a) }",
        ["Relu"],
    ),
    "inner transpose still used": (
        "(float[2,3] x) => (float[2,3] y, float[3,2] z) "
        "{ a = Transpose<perm = [1, 0]>(x) b = Transpose<perm = [1, 0]>(a) y = Relu(b) z = Exp(a) }",
        ["Transpose", "Relu", "Exp"],
    ),
    "transposes around a chain of elements": (
        "(float[2,n,4] x) => (float[2,n,4] y) <float two = {2}> { a = Transpose<perm = [0, 2, 1]>(x) b = Relu(a) "
        "c = Mul(two, b) d = Transpose<perm = [0, 2, 1]>(c) y = Neg(d) }",
        ["Relu", "Mul", "Neg"],
    ),
    "transposes around elements that compose": (
        "(float[2,3,4] x) => (float[4,2,3] y) "
        "{ a = Transpose<perm = [1, 2, 0]>(x) b = Relu(a) y = Transpose<perm = [1, 2, 0]>(b) }",
        ["Relu", "Transpose"],
    ),
    "transposes around elements that are read again": (
        "(float[2,3] x) => (float[2,3] y, float[3,2] z) "
        "{ a = Transpose<perm = [1, 0]>(x) b = Relu(a) y = Transpose<perm = [1, 0]>(b) z = Neg(b) }",
        ["Transpose", "Relu", "Transpose", "Neg"],
    ),
    "transposes around elements that meet again": (
        "(float[2,n,4] x) => (float[2,n,4] y) <float zero = {0}> { a = Transpose<perm = [0, 2, 1]>(x) b = Tanh(a) "
        "c = Add(a, b) d = Greater(c, zero) e = Where(d, c, b) y = Transpose<perm = [0, 2, 1]>(e) }",
        ["Tanh", "Add", "Greater", "Where"],
    ),
    "transposes around elements and a weight": (
        "(float[2,n,4] x) => (float[2,n,4] y) <float[4] w = {1, 2, 3, 4}, float[1,4,1] v = {4, 3, 2, 1}, "
        "int64[1] one = {1}> { a = Transpose<perm = [0, 2, 1]>(x) u = Unsqueeze(w, one) b = Mul(a, u) c = Sub(v, b) "
        "y = Transpose<perm = [0, 2, 1]>(c) }",
        ["Mul", "Sub"],
    ),
    "transposes around elements and a row that is short": (
        "(float[2,5,4] x) => (float[2,5,4] y) <float[1,5] w = {1, 2, 3, 4, 5}> "
        "{ a = Transpose<perm = [0, 2, 1]>(x) b = Mul(a, w) y = Transpose<perm = [0, 2, 1]>(b) }",
        ["Mul"],
    ),
    "transposes around elements of two orders": (
        "(float[2,2,2] x) => (float[2,2,2] y) { a = Transpose<perm = [0, 2, 1]>(x) b = Transpose<perm = [1, 0, 2]>(x) "
        "c = Add(a, b) y = Transpose<perm = [0, 2, 1]>(c) }",
        ["Transpose", "Transpose", "Add", "Transpose"],
    ),
    "transposes around elements and a matrix": (
        "(float[2,5,4] x, float[4,5] z) => (float[2,5,4] y) "
        "{ a = Transpose<perm = [0, 2, 1]>(x) b = Mul(a, z) y = Transpose<perm = [0, 2, 1]>(b) }",
        ["Transpose", "Mul", "Transpose"],
    ),
    "transposes around a softmax": (
        "(float[2,3] x) => (float[2,3] y) "
        "{ a = Transpose<perm = [1, 0]>(x) b = Softmax(a) y = Transpose<perm = [1, 0]>(b) }",
        ["Transpose", "Softmax", "Transpose"],
    ),
    "transpose before matmul": (
        "(float[2,3] x, float[2,3] w) => (float[2,2] y) { a = Transpose<perm = [1, 0]>(w) y = MatMul(x, a) }",
        ["Transpose", "MatMul"],
    ),
    "reshape of reshape": (
        "(float[2,6] x) => (float[3,4] y) <int64[2] s = {4, 3}, int64[2] t = {3, -1}> "
        "{ a = Reshape(x, s) b = Reshape(a, t) y = Relu(b) }",
        ["Reshape", "Relu"],
    ),
    "reshape that copies a dimension of the first": (
        "(float[2,6] x) => (float[4,3] y) <int64[3] s = {4, 1, 3}, int64[2] t = {0, -1}> "
        "{ a = Reshape(x, s) b = Reshape(a, t) y = Relu(b) }",
        ["Reshape", "Relu"],
    ),
    "reshape back": (
        "(float[n,6] x) => (float[n,6] y) <int64[3] s = {0, 2, 3}, int64[2] t = {0, 6}> "
        "{ a = Reshape(x, s) b = Reshape(a, t) y = Relu(b) }",
        ["Relu"],
    ),
    "reshape of a flattened free dimension": (
        "(float[n,6] x) => (float[m,1] y) <int64[1] s = {-1}, int64[2] t = {0, 1}> "
        "{ a = Reshape(x, s) b = Reshape(a, t) y = Relu(b) }",
        ["Reshape", "Relu"],
    ),
    "reshape to its own shape": (
        "(float[2,6] x) => (float[2,6] y) <int64[2] s = {2, -1}> { a = Reshape(x, s) y = Relu(a) }",
        ["Relu"],
    ),
    "reshape that keeps zero": (
        "(float[0,6] x) => (float[3,0] y) <int64[2] s = {2, 0}, int64[2] t = {3, 0}> "
        "{ a = Reshape<allowzero = 1>(x, s) b = Reshape<allowzero = 1>(a, t) y = Relu(b) }",
        ["Relu"],
    ),
    "squeeze of unsqueeze": (
        "(float[2,3] x) => (float[2,3] y) <int64[1] p = {1}, int64[1] q = {-2}> "
        "{ a = Unsqueeze(x, p) b = Squeeze(a, q) y = Relu(b) }",
        ["Relu"],
    ),
    "unsqueeze of squeeze": (
        "(float[2,1,3] x) => (float[2,1,3] y) <int64[1] p = {1}, int64[1] q = {-2}> "
        "{ a = Squeeze(x, p) b = Unsqueeze(a, q) y = Relu(b) }",
        ["Relu"],
    ),
    "squeeze of another axis": (
        "(float[1,3] x) => (float[1,3] y) <int64[1] p = {1}, int64[1] q = {0}> "
        "{ a = Unsqueeze(x, p) b = Squeeze(a, q) y = Relu(b) }",
        ["Unsqueeze", "Squeeze", "Relu"],
    ),
    "unsqueeze of unsqueeze": (
        "(float[2,3] x) => (float[1,2,1,3,1] y) <int64[2] p = {2, 0}, int64[1] q = {4}> "
        "{ a = Unsqueeze(x, p) b = Unsqueeze(a, q) y = Relu(b) }",
        ["Unsqueeze", "Relu"],
    ),
    "unsqueezes that interleave": (
        "(float[2,3] x) => (float[1,1,2,3,1] y) <int64[1] p = {2}, int64[1] q = {0}> "
        "{ a = Unsqueeze(x, p) b = Unsqueeze(a, q) c = Unsqueeze(b, q) y = Relu(c) }",
        ["Unsqueeze", "Relu"],
    ),
    "unsqueeze of unsqueeze from the end": (
        "(float[2,3] x) => (float[1,2,3,1] y) <int64[1] p = {-1}, int64[1] q = {0}> "
        "{ a = Unsqueeze(x, p) b = Unsqueeze(a, q) y = Relu(b) }",
        ["Unsqueeze", "Unsqueeze", "Relu"],
    ),
    "and with true": (
        "(bool[2] x) => (bool[2] y) <bool t = {1}> { a = And(t, x) y = Not(a) }",
        ["Not"],
    ),
    "and with false": ("(bool[2] x) => (bool[2] y) <bool f = {0}> { y = And(x, f) }", ["And"]),
    "or with false": (
        "(bool[2] x) => (bool[2] y) <bool f = {0}> { a = Or(x, f) y = Not(a) }",
        ["Not"],
    ),
    "expand before broadcasting": (
        "(float[n,3] x, float[1,3] w) => (float[n,3] y) { s = Shape(x) e = Expand(w, s) a = Add(e, x) y = Relu(a) }",
        ["Add", "Relu"],
    ),
    "expand that decides the shape": (
        "(float[1,3] x, float[1,3] w) => (float[2,3] y) <int64[2] s = {2, 3}> { e = Expand(w, s) y = Add(e, x) }",
        ["Expand", "Add"],
    ),
    "fill before broadcasting": (
        "(int64[n,3] x) => (int64[n,3] y) "
        "{ s = Shape(x) f = ConstantOfShape<value = int64[1] {2}>(s) a = Min(x, f) y = Neg(a) }",
        ["Min", "Neg"],
    ),
    "fill that decides the shape": (
        "(float[n,3] x, float[3] w) => (float[n,3] y) { s = Shape(x) f = ConstantOfShape(s) y = Min(w, f) }",
        ["Shape", "ConstantOfShape", "Min"],
    ),
    "expand to its own shape": (
        "(float[2,3] x) => (float[2,3] y) <int64[2] s = {1, 3}> { a = Expand(x, s) y = Relu(a) }",
        ["Relu"],
    ),
    "expand by ones": (
        "(float[n,3] x) => (float[n,3] y) <int64[1] s = {1}> { a = Expand(x, s) y = Relu(a) }",
        ["Relu"],
    ),
    "expand that enlarges": (
        "(float[1,3] x) => (float[2,3] y) <int64[2] s = {2, 3}> { a = Expand(x, s) y = Relu(a) }",
        ["Expand", "Relu"],
    ),
    "slice of everything": (
        "(float[n,3] x) => (float[n,3] y) <int64[1] b = {0}, int64[1] e = {9223372036854775807}> "
        "{ a = Slice(x, b, e, b) y = Relu(a) }",
        ["Relu"],
    ),
    "slice of a fixed everything": (
        "(float[2,3] x) => (float[2,3] y) <int64[1] b = {-3}, int64[1] e = {3}, int64[1] d = {1}> "
        "{ a = Slice(x, b, e, d) y = Relu(a) }",
        ["Relu"],
    ),
    "slice that reverses": (
        "(float[3] x) => (float[3] y) <int64[1] b = {-1}, int64[1] e = {-9}, int64[1] d = {0}, int64[1] s = {-1}> "
        "{ a = Slice(x, b, e, d, s) y = Relu(a) }",
        ["Slice", "Relu"],
    ),
    "times one": ("(float[2] x) => (float[2] y) <float one = {1}> { a = Mul(one, x) y = Neg(a) }", ["Neg"]),
    "divided by one": ("(float[2] x) => (float[2] y) <float one = {1}> { a = Div(x, one) y = Neg(a) }", ["Neg"]),
    "one divided by": ("(float[2] x) => (float[2] y) <float one = {1}> { y = Div(one, x) }", ["Div"]),
    "times one that enlarges": (
        "(float[2] x) => (float[1,2] y) <float[1,1] one = {1}> { a = Mul(x, one) y = Neg(a) }",
        ["Mul", "Neg"],
    ),
    "integer plus zero": ("(int64[2] x) => (int64[2] y) <int64 z = {0}> { a = Add(z, x) y = Neg(a) }", ["Neg"]),
    "float plus zero": ("(float[2] x) => (float[2] y) <float z = {0}> { a = Add(x, z) y = Neg(a) }", ["Add", "Neg"]),
    "float minus zero": ("(float[2] x) => (float[2] y) <float z = {0}> { a = Sub(x, z) y = Neg(a) }", ["Neg"]),
    "zero minus": ("(float[2] x) => (float[2] y) <float z = {0}> { y = Sub(z, x) }", ["Sub"]),
    "to the power of one": ("(float[2] x) => (float[2] y) <float p = {1}> { a = Pow(x, p) y = Neg(a) }", ["Neg"]),
    "decided where": (
        "(float[2] x, float[2] w) => (float[2] y) <bool c = {0}> { a = Where(c, x, w) y = Neg(a) }",
        ["Neg"],
    ),
    "where that enlarges": (
        "(float[2] x, float[3,2] w) => (float[3,2] y) <bool c = {1}> { a = Where(c, x, w) y = Neg(a) }",
        ["Where", "Neg"],
    ),
    "pad by nothing": (
        "(float[2] x) => (float[2] y) <int64[2] p = {0, 0}> { a = Pad(x, p) y = Neg(a) }",
        ["Neg"],
    ),
    "clip without bounds": ("(float[2] x) => (float[2] y) { a = Clip(x) y = Neg(a) }", ["Neg"]),
    "reshape by a computed shape with one free dimension": (
        "(float[n,6] x) => (float[n,2,3] y) <int64 zero = {0}, int64[1] b = {0}, int64[2] tail = {2, 3}> "
        "{ s = Shape(x) i = Gather(s, zero) n1 = Unsqueeze(i, b) t = Concat<axis = 0>(n1, tail) y = Reshape(x, t) }",
        ["Reshape"],
    ),
    "reshape by a computed shape with copied free dimensions": (
        "(float[n,m,6] x) => (float[n,m,2,3] y) <int64[2] tail = {2, 3}> "
        "{ s = Shape<start = 0, end = 2>(x) t = Concat<axis = 0>(s, tail) a = Reshape(x, t) y = Relu(a) }",
        ["Reshape", "Relu"],
    ),
    "slice to an output with the name of another size": (
        "(float[n] x) => (float[n] y) <int64[1] b = {1}, int64[1] e = {9223372036854775807}> { y = Slice(x, b, e) }",
        ["Slice"],
    ),
    "reshape to an output with the names of other sizes": (
        "(float[n,m] x) => (float[n,m] y) "
        "{ n1 = Shape<start = 0, end = 1>(x) m1 = Shape<start = 1>(x) t = Concat<axis = 0>(m1, n1) y = Reshape(x, t) }",
        ["Shape", "Shape", "Concat", "Reshape"],
    ),
    "reshape by a computed shape with free dimensions moved": (
        "(float[n,2,m] x) => (float[k,m] y) <int64[1] two = {2}> { n1 = Shape<start = 0, end = 1>(x) "
        "k1 = Mul(n1, two) m1 = Shape<start = 2, end = 3>(x) t = Concat<axis = 0>(k1, m1) y = Reshape(x, t) }",
        ["Shape", "Mul", "Shape", "Concat", "Reshape"],
    ),
}


@pytest.mark.parametrize(("text", "expected"), ROWS.values(), ids=ROWS.keys())
def test_rule(text: str, expected: list[str]) -> None:
    assert ops(optimized(text)) == expected


NEWEST = {
    "root mean square norm": (
        "(float[2,3] x, float[3] w) => (float[2,3] y) <float e = {0.001}, int64[1] last = {-1}> "
        "{ s = Mul(x, x) m = ReduceMean(s, last) a = Add(m, e) "
        "r = Sqrt(a) i = Reciprocal(r) n = Mul(x, i) y = Mul(w, n) }",
        ["RMSNormalization"],
    ),
    "root mean square norm by power": (
        "(float[2,3] x, float[3] w) => (float[2,3] y) <float e = {0.001}, float two = {2}, int64[1] last = {1}> "
        "{ s = Pow(x, two) m = ReduceMean(s, last) a = Add(m, e) "
        "r = Sqrt(a) i = Reciprocal(r) n = Mul(x, i) y = Mul(n, w) }",
        ["RMSNormalization"],
    ),
    "root mean square over another axis": (
        "(float[3,3] x, float[3] w) => (float[3,3] y) <float e = {0.001}, int64[1] first = {0}> "
        "{ s = Mul(x, x) m = ReduceMean(s, first) a = Add(m, e) "
        "r = Sqrt(a) i = Reciprocal(r) n = Mul(x, i) y = Mul(w, n) }",
        ["Mul", "ReduceMean", "Add", "Sqrt", "Reciprocal", "Mul", "Mul"],
    ),
    "keys shared by heads": (
        "(float[3,4,n,2] q, float[3,2,5,2] k, float[3,2,5,2] v) => (float[3,4,n,2] y) "
        "<int64[1] two = {2}, int64[5] times = {1, 1, 2, 1, 1}, int64[4] s = {0, 4, 5, 2}> "
        "{ k1 = Unsqueeze(k, two) k2 = Expand(k1, times) k3 = Reshape(k2, s) "
        "v1 = Unsqueeze(v, two) v2 = Expand(v1, times) v3 = Reshape(v2, s) y = Attention(q, k3, v3) }",
        ["Attention"],
    ),
    "keys repeated as a whole": (
        "(float[3,4,n,2] q, float[3,2,5,2] k) => (float[3,4,n,2] y) "
        "<int64[1] one = {1}, int64[5] times = {1, 2, 1, 1, 1}, int64[4] s = {0, 4, 5, 2}> "
        "{ k1 = Unsqueeze(k, one) k2 = Expand(k1, times) k3 = Reshape(k2, s) y = Attention(q, k3, k3) }",
        ["Unsqueeze", "Expand", "Reshape", "Attention"],
    ),
    "norm by a division": (
        "(float[2,3] x, float[3] w) => (float[2,3] y) <float e = {0.001}, float two = {2}, int64[1] last = {1}> "
        "{ s = Pow(x, two) m = ReduceMean(s, last) a = Add(e, m) r = Sqrt(a) n = Div(x, r) y = Mul(n, w) }",
        ["RMSNormalization"],
    ),
    "norm by a negative power": (
        "(float[2,3] x, float[3] w) => (float[2,3] y) <float e = {0.001}, float h = {-0.5}, int64[1] last = {-1}> "
        "{ s = Mul(x, x) m = ReduceMean(s, last) a = Add(m, e) r = Pow(a, h) n = Mul(r, x) y = Mul(n, w) }",
        ["RMSNormalization"],
    ),
    "norm of differences": (
        "(float[n,3] x, float[3] w, float[3] b) => (float[n,3] y) "
        "<float e = {0.001}, float two = {2}, int64[1] last = {-1}> { u = ReduceMean(x, last) d = Sub(x, u) "
        "s = Pow(d, two) m = ReduceMean(s, last) a = Add(m, e) r = Sqrt(a) n = Div(d, r) z = Mul(w, n) y = Add(z, b) }",
        ["LayerNormalization"],
    ),
    "norm of differences to something else": (
        "(float[n,3] x, float[n,3] v, float[3] w) => (float[n,3] y) "
        "<float e = {0.001}, float two = {2}, int64[1] last = {-1}> { u = ReduceMean(v, last) d = Sub(x, u) "
        "s = Pow(d, two) m = ReduceMean(s, last) a = Add(m, e) r = Sqrt(a) n = Div(d, r) y = Mul(w, n) }",
        ["ReduceMean", "Sub", "RMSNormalization"],
    ),
    "norm along another axis": (
        "(float[3,3] x, float[3] w) => (float[3,3] y) <float e = {0.001}, int64[1] first = {0}> "
        "{ s = Mul(x, x) m = ReduceMean(s, first) a = Add(m, e) r = Sqrt(a) n = Div(x, r) y = Mul(n, w) }",
        ["Mul", "ReduceMean", "Add", "Sqrt", "Div", "Mul"],
    ),
    "log of a sigmoid": (
        "(float[n,3] x) => (float[n,3] y) { a = Sigmoid(x) y = Log(a) }",
        ["Neg", "Exp", "Add", "Log", "Neg"],
    ),
    "log of a sigmoid with a number added": (
        "(float[n,3] x) => (float[n,3] y) <float small = {1e-9}> { a = Sigmoid(x) b = Add(small, a) y = Log(b) }",
        ["Neg", "Exp", "Add", "Reciprocal", "Add", "Log"],
    ),
    "log of a sigmoid and something else": (
        "(float[n,3] x, float[n,3] z) => (float[n,3] y) { a = Sigmoid(x) b = Add(a, z) y = Log(b) }",
        ["Sigmoid", "Add", "Log"],
    ),
    "hard sigmoid": (
        "(float[n,3] x) => (float[n,3] y) <float three = {3}, float zero = {0}, float six = {6}> "
        "{ a = Add(x, three) b = Clip(a, zero, six) y = Div(b, six) }",
        ["HardSigmoid"],
    ),
    "hard swish": (
        "(float[n,3] x) => (float[n,3] y) <float three = {3}, float zero = {0}, float six = {6}> "
        "{ a = Add(x, three) b = Clip(a, zero, six) c = Div(b, six) y = Mul(x, c) }",
        ["HardSwish"],
    ),
    "hard swish divided at the end": (
        "(float[n,3] x) => (float[n,3] y) <float three = {3}, float zero = {0}, float six = {6}, "
        "float sixth = {0.16666667}> { a = Add(three, x) b = Clip(a, zero, six) c = Mul(b, x) y = Mul(c, sixth) }",
        ["HardSwish"],
    ),
    "hard swish of something else": (
        "(float[n,3] x, float[n,3] z) => (float[n,3] y) <float three = {3}, float zero = {0}, float six = {6}> "
        "{ a = Add(x, three) b = Clip(a, zero, six) c = Mul(b, z) y = Div(c, six) }",
        ["Add", "Clip", "Mul", "Div"],
    ),
    "gelu": (
        "(float[n,3] x) => (float[n,3] y) <float half = {0.5}, float root = {1.41421356}, float one = {1}> "
        "{ a = Mul(x, half) b = Div(x, root) c = Erf(b) d = Add(c, one) y = Mul(a, d) }",
        ["Gelu"],
    ),
    "gelu with the half at the end": (
        "(float[n,3] x) => (float[n,3] y) <float half = {0.5}, float root = {0.70710678}, float one = {1}> "
        "{ b = Mul(root, x) c = Erf(b) d = Add(one, c) e = Mul(x, d) y = Mul(e, half) }",
        ["Gelu"],
    ),
    "gelu divided at the end": (
        "(float[n,3] x) => (float[n,3] y) <float two = {2}, float root = {1.4142135}, float one = {1}> "
        "{ b = Div(x, root) c = Erf(b) d = Add(c, one) e = Mul(x, d) y = Div(e, two) }",
        ["Gelu"],
    ),
    "gelu of a product, of halves": (
        "(float[n,3] z, float[n,3] w) => (float[n,3] y) <float half = {0.5}, float root = {1.4142135}> "
        "{ x = Mul(z, w) b = Div(x, root) c = Erf(b) d = Mul(c, half) e = Add(half, d) y = Mul(e, x) }",
        ["Mul", "Gelu"],
    ),
    "gelu without its half": (
        "(float[n,3] x) => (float[n,3] y) <float root = {1.4142135}, float one = {1}> "
        "{ b = Div(x, root) c = Erf(b) d = Add(c, one) y = Mul(x, d) }",
        ["Div", "Erf", "Add", "Mul"],
    ),
    "gelu by a sigmoid": (
        "(float[n,3] x) => (float[n,3] y) <float f = {1.5957691}, float c = {0.044715}> "
        "{ p = Mul(c, x) q = Mul(p, x) r = Mul(q, x) s = Add(x, r) t = Mul(f, s) u = Sigmoid(t) y = Mul(u, x) }",
        ["Gelu"],
    ),
    "gelu by a sigmoid of something else": (
        "(float[n,3] x) => (float[n,3] y) <float f = {1.5957691}, float c = {0.05}> "
        "{ p = Mul(c, x) q = Mul(p, x) r = Mul(q, x) s = Add(x, r) t = Mul(f, s) u = Sigmoid(t) y = Mul(u, x) }",
        ["Mul", "Mul", "Mul", "Add", "Mul", "Sigmoid", "Mul"],
    ),
    "silu by a division": (
        "(float[n,3] x) => (float[n,3] y) <float one = {1}> { a = Neg(x) b = Exp(a) c = Add(one, b) y = Div(x, c) }",
        ["Sigmoid", "Mul"],
    ),
    "silu by a reciprocal": (
        "(float[n,3] x) => (float[n,3] y) <float one = {1}> "
        "{ a = Neg(x) b = Exp(a) c = Add(b, one) d = Reciprocal(c) y = Mul(d, x) }",
        ["Sigmoid", "Mul"],
    ),
    "mish": (
        "(float[n,3] x) => (float[n,3] y) { a = Softplus(x) b = Tanh(a) y = Mul(b, x) }",
        ["Mish"],
    ),
    "mish by a logarithm": (
        "(float[n,3] x) => (float[n,3] y) <float one = {1}> "
        "{ a = Exp(x) b = Add(a, one) c = Log(b) d = Tanh(c) y = Mul(x, d) }",
        ["Mish"],
    ),
    "clipped line": (
        "(float[n,3] x) => (float[n,3] y) <float six = {6}, float half = {0.5}, float zero = {0}, float one = {1}> "
        "{ a = Div(x, six) b = Add(a, half) c = Clip(b, zero, one) y = Mul(x, c) }",
        ["HardSwish"],
    ),
    "clipped line of another slope": (
        "(float[n,3] x) => (float[n,3] y) <float f = {0.2}, float half = {0.4}, float zero = {0}, float one = {1}> "
        "{ a = Mul(x, f) b = Add(half, a) y = Clip(b, zero, one) }",
        ["HardSigmoid"],
    ),
    "norm after its weight": (
        "(float[n,4] x) => (float[n,4] y) <float[4] w = {1, 2, 3, 4}, float e = {0.001}, int64[1] last = {-1}> "
        "{ s = Mul(x, x) m = ReduceMean(s, last) a = Add(m, e) r = Sqrt(a) i = Reciprocal(r) p = Mul(w, x) "
        "y = Mul(p, i) }",
        ["RMSNormalization"],
    ),
    "norm of differences after its weight, by a division": (
        "(float[n,4] x) => (float[n,4] y) <float[4] w = {1, 2, 3, 4}, float e = {0.001}, int64[1] last = {-1}> "
        "{ c = ReduceMean(x, last) d = Sub(x, c) s = Mul(d, d) m = ReduceMean(s, last) a = Add(m, e) r = Sqrt(a) "
        "p = Mul(d, w) y = Div(p, r) }",
        ["LayerNormalization"],
    ),
    "gelu of something else": (
        "(float[n,3] x, float[n,3] z) => (float[n,3] y) "
        "<float half = {0.5}, float root = {1.41421356}, float one = {1}> "
        "{ a = Mul(x, half) b = Div(z, root) c = Erf(b) d = Add(c, one) y = Mul(a, d) }",
        ["Mul", "Div", "Erf", "Add", "Mul"],
    ),
    "gelu with another root": (
        "(float[n,3] x) => (float[n,3] y) <float half = {0.5}, float root = {1.5}, float one = {1}> "
        "{ a = Mul(x, half) b = Div(x, root) c = Erf(b) d = Add(c, one) y = Mul(a, d) }",
        ["Mul", "Div", "Erf", "Add", "Mul"],
    ),
    "gelu by tanh": (
        "(float[n,3] x) => (float[n,3] y) <float half = {0.5}, float f = {0.79788456}, float c = {0.044715}, "
        "float three = {3}, float one = {1}> { h = Mul(half, x) p = Pow(x, three) q = Mul(c, p) s = Add(x, q) "
        "t = Mul(f, s) u = Tanh(t) v = Add(one, u) y = Mul(h, v) }",
        ["Gelu"],
    ),
    "gelu by tanh and a square": (
        "(float[n,3] x) => (float[n,3] y) <float half = {0.5}, float f = {0.79788456}, float c = {0.044715}, "
        "float one = {1}> { h = Mul(half, x) g = Mul(x, f) q = Mul(c, x) r = Mul(q, x) s = Add(one, r) "
        "t = Mul(g, s) u = Tanh(t) v = Add(one, u) y = Mul(h, v) }",
        ["Gelu"],
    ),
    "mask of everything": (
        "(float[b,2,n,2] q, float[b,2,m,2] k) => (float[b,2,n,2] y) "
        "<int64 zero = {0}, int64 one = {1}, int64[2] axes = {0, 1}, int64[1] last = {3}> "
        "{ c1 = Shape<start = 2, end = 3>(q) c0 = Shape<start = 2, end = 3>(k) c = Squeeze(c1) r = Range(zero, c, one) "
        "u = Unsqueeze(r, axes) t = GreaterOrEqual(u, zero) w = Unsqueeze(t, last) "
        "shape = Concat<axis = 0>(c1, c0) e = Expand(w, shape) y = Attention(q, k, k, e) }",
        ["Attention"],
    ),
    "mask of something": (
        "(float[b,2,n,2] q) => (float[b,2,n,2] y) "
        "<int64 zero = {0}, int64 one = {1}, int64[1] last = {1}> "
        "{ c1 = Shape<start = 2, end = 3>(q) c = Squeeze(c1) r = Range(zero, c, one) t = GreaterOrEqual(r, one) "
        "u = Unsqueeze(t, last) shape = Concat<axis = 0>(c1, c1) e = Expand(u, shape) y = Attention(q, q, q, e) }",
        ["Shape", "Squeeze", "Range", "GreaterOrEqual", "Unsqueeze", "Concat", "Expand", "Attention"],
    ),
    "and with everything": (
        "(bool[b,1,n] x) => (bool[b,n,n] y) <int64 zero = {0}, int64 one = {1}, int64[1] last = {1}> "
        "{ c1 = Shape<start = 2, end = 3>(x) c = Squeeze(c1) r = Range(zero, c, one) u = Unsqueeze(r, last) "
        "t = LessOrEqual(zero, u) a = And(x, t) y = Not(a) }",
        ["Shape", "Squeeze", "Range", "Unsqueeze", "LessOrEqual", "Shape", "Expand", "Not"],
    ),
}
"""Rules that give an operator of the newest opset; its kernel may round differently in the last place."""


@pytest.mark.parametrize(("text", "expected"), NEWEST.values(), ids=NEWEST.keys())
def test_rule_of_the_newest_opset(text: str, expected: list[str]) -> None:
    model = parse(text, 23)
    before = {n: run(model, feeds(model, {"n": n})) for n in (1, 3, 5)}
    run_passes(model)
    assert ops(model) == expected
    for n, values in before.items():
        found = run(model, feeds(model, {"n": n}))[0]
        assert found.shape == values[0].shape
        np.testing.assert_allclose(found, values[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("reduced", "inputs"),
    [
        ("float y) <int64[2] at = {0, 1}> { y = ReduceSum<keepdims = 0>(x, at) }", 1),
        ("float[1,1] y) <int64[2] at = {0, 1}> { y = ReduceSum(x, at) }", 2),
        ("float[n] y) <int64[1] at = {1}> { y = ReduceSum<keepdims = 0>(x, at) }", 2),
        ("float y) <int64[2] at = {0, 1}> { y = ReduceSum<keepdims = 0, noop_with_empty_axes = 1>(x, at) }", 2),
        ("float[n,3] y) <int64[0] at = {}> { y = ReduceSum<keepdims = 0, noop_with_empty_axes = 1>(x, at) }", 2),
    ],
)
def test_only_a_reduction_to_one_number_names_no_axes(reduced: str, inputs: int) -> None:
    assert len(optimized(f"(float[n,3] x) => ({reduced}").graph[0].inputs) == inputs


def test_every_rule_has_a_row() -> None:
    hits: set[str] = set()
    for text, _ in ROWS.values():
        hits.update(run_passes(parse(text)))
    for text, _ in NEWEST.values():
        hits.update(run_passes(parse(text, 23)))
    assert {rule.name for rule in RULES} <= hits


AT_EVERY_OPSET = ["identity", "dropout", "reshape back", "squeeze of unsqueeze", "transposes that cancel"]


@pytest.mark.parametrize("opset", [13, 18, 23])
@pytest.mark.parametrize("row", AT_EVERY_OPSET)
def test_rule_at_opset(row: str, opset: int) -> None:
    text, expected = ROWS[row]
    assert ops(optimized(text, opset)) == expected


@pytest.mark.parametrize("n", [0, 1, 7])
@pytest.mark.parametrize("row", [name for name in ROWS if "free dimension" in name or "reshape back" in name])
def test_rule_at_size(row: str, n: int) -> None:
    text, expected = ROWS[row]
    assert ops(optimized(text, sizes={"n": n})) == expected


@pytest.mark.parametrize(
    ("source", "middle", "target", "expected"),
    [
        (T.INT32, T.INT64, T.FLOAT, True),
        (T.FLOAT16, T.FLOAT, T.FLOAT16, True),
        (T.BOOL, T.FLOAT, T.BOOL, True),
        (T.UINT8, T.FLOAT, T.INT64, True),
        (T.INT8, T.FLOAT, T.UINT8, False),
        (T.INT64, T.FLOAT, T.INT64, False),
        (T.FLOAT, T.INT64, T.FLOAT, False),
        (T.FLOAT, T.BFLOAT16, T.FLOAT, False),
        (T.FLOAT8E4M3FN, T.FLOAT, T.INT64, False),
    ],
)
def test_casts_that_pass_through(source: ir.DataType, middle: ir.DataType, target: ir.DataType, expected: bool) -> None:
    assert passes_through(source, middle, target) is expected
