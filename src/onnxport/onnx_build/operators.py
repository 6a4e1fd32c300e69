"""Facts about ONNX operators that no schema states: what they do to shapes, and whether they look at elements."""

from __future__ import annotations


def operator_set(text: str) -> frozenset[str]:
    """A set of operators, written as a sentence."""
    return frozenset(text.split())


SAME_SHAPE = operator_set(
    "Abs Acos Acosh Asin Asinh Atan Atanh BatchNormalization BitwiseNot Cast CastLike Ceil Celu Clip Cos Cosh CumSum "
    "Dropout Elu Erf Exp Floor Gelu GroupNormalization HardSigmoid HardSwish Hardmax Identity InstanceNormalization "
    "IsInf IsNaN LayerNormalization LeakyRelu Log LogSoftmax LpNormalization LRN MeanVarianceNormalization Mish Neg "
    "Not RMSNormalization Reciprocal Relu ReverseSequence Round Scatter ScatterElements ScatterND Selu Shrink Sigmoid "
    "Sign Sin Sinh Softmax Softplus Softsign Sqrt Swish Tan Tanh ThresholdedRelu Trilu"
)
"""Operators whose first output has the shape of the first input."""

BROADCASTING = operator_set(
    "Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less LessOrEqual Max Mean Min "
    "Mod Mul Or Pow PRelu Sub Sum Where Xor"
)
"""Operators whose output has the shape the inputs broadcast to."""

STRUCTURAL = operator_set(
    "Concat Expand Gather GatherND Identity Loop Reshape Scan ScatterND Slice Split Squeeze Transpose Unsqueeze"
)
"""Operators that move elements without looking at them, so that a complex tensor's pairs stay together."""

RANDOM = operator_set("RandomNormal RandomNormalLike RandomUniform RandomUniformLike Multinomial Bernoulli")
"""Operators that give another answer when asked again."""
