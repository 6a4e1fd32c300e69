"""The targets that have a name. docs/consumers.md shows what those readers take that can be installed anywhere."""

from __future__ import annotations

import difflib

import onnx_ir as ir

from onnxport.errors import InputError
from onnxport.onnx_build.operators import operator_set
from onnxport.targets.target import Target

_D = ir.DataType
_SEQUENCES = operator_set(
    "ConcatFromSequence SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength "
    "SequenceMap SplitToSequence Optional OptionalGetElement OptionalHasElement"
)
_TEXT = operator_set("RegexFullMatch StringConcat StringNormalizer StringSplit TfIdfVectorizer")
_LOSSES = operator_set("NegativeLogLikelihoodLoss SoftmaxCrossEntropyLoss")
_NO_NUMBERS = frozenset({_D.STRING, _D.COMPLEX64, _D.COMPLEX128})
_OTHER_ACTIVATIONS = frozenset({"RNN.activations"})
_MEASURED = "Measured by `make consumers`: docs/consumers.md."

PROFILES: dict[str, Target] = {
    target.name: target
    for target in (
        Target("onnx", basis="Standard operators in the form that most readers take."),
        Target(
            "onnxruntime",
            newest_opset=23,
            refused_types=frozenset({_D.COMPLEX64, _D.COMPLEX128}),
            contributed=True,
            fusions=("residual", "heads", "written heads", "pool", "scale", "rotary", "cache"),
            basis=_MEASURED,
        ),
        Target(
            "onnxruntime-web",
            newest_opset=21,
            refused_types=frozenset({_D.COMPLEX64, _D.COMPLEX128, _D.BFLOAT16}),
            contributed=True,
            basis=_MEASURED,
        ),
        Target("openvino", opset=17, newest_opset=22, rewritten=operator_set("STFT"), basis=_MEASURED),
        Target(
            "tensorrt",
            opset=17,
            newest_opset=20,
            rewritten=_LOSSES,
            refused=_SEQUENCES
            | _TEXT
            | operator_set(
                "Bernoulli BitShift ConvInteger Det DynamicQuantizeLinear MatMulInteger MaxRoiPool MaxUnpool "
                "Multinomial QLinearConv QLinearMatMul RandomNormal RandomNormalLike Unique"
            ),
            refused_types=_NO_NUMBERS | {_D.INT16, _D.UINT16, _D.UINT32, _D.UINT64},
            basis="The support matrix of its parser: docs/operators.md in the repository onnx/onnx-tensorrt.",
        ),
        Target(
            "opencv",
            opset=17,
            newest_opset=22,
            rewritten=operator_set("STFT"),
            refused=_SEQUENCES | operator_set("Loop RNN Scan"),
            basis=_MEASURED,
        ),
        Target(
            "tract",
            opset=17,
            newest_opset=22,
            # The names in inner shapes would contradict the sizes that a caller sets.
            inner_shapes=False,
            refused=_SEQUENCES | operator_set("Loop"),
            unread=_OTHER_ACTIVATIONS,
            basis=_MEASURED,
        ),
        Target(
            "mnn",
            opset=17,
            newest_opset=22,
            # It takes updates that meet for ones that do not, and begins cubic interpolation at a wrong place.
            rewritten=operator_set("IsNaN") | {"ScatterND.reduction", "ScatterElements.reduction", "Resize.mode=cubic"},
            refused=operator_set("Scan"),
            unread=_OTHER_ACTIVATIONS,
            basis=_MEASURED,
        ),
        Target(
            "ncnn",
            opset=13,
            newest_opset=17,
            fixed_sizes=True,
            refused=_SEQUENCES | _TEXT | operator_set("If Loop Scan"),
            refused_types=_NO_NUMBERS | {_D.DOUBLE},
            basis="Its converter pnnx, which is given the sizes of all inputs: github.com/pnnx/pnnx.",
        ),
        Target(
            "rknn",
            opset=12,
            oldest_opset=12,
            newest_opset=19,
            int32_inputs=True,
            fixed_sizes=True,
            refused=_SEQUENCES | _TEXT | operator_set("If Loop Scan"),
            refused_types=_NO_NUMBERS | {_D.DOUBLE, _D.BFLOAT16},
            basis="The user guide of RKNN-Toolkit2: opsets 12 to 19, and sizes that are fixed when it converts.",
        ),
    )
}


def find_target(target: str | Target) -> Target:
    """The profile of a name; a profile passes.

    >>> from onnxport.targets import find_target
    >>> find_target("tract").inner_shapes
    False
    """
    if isinstance(target, Target):
        return target
    if target not in PROFILES:
        close = difflib.get_close_matches(str(target), PROFILES, n=1, cutoff=0.65)
        meant = f"; did you mean {close[0]!r}? Known" if close else "; known"
        raise InputError(f"There is no target {target!r}{meant} are {', '.join(map(repr, PROFILES))}.")
    return PROFILES[target]
