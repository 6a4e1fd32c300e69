"""One operator as a row: run at the canonical opset, legalised to others, and compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
from onnx import helper

from onnxport.errors import OpsetError
from onnxport.legalize import legalize

OPSETS = range(7, 27)
# Operators whose rules need what came after the oldest opset: Where, Scatter, OneHot, or integers in an operator.
_FROM_9 = """
BitShift BitwiseAnd BitwiseOr BitwiseXor Compress DeformConv EyeLike GatherElements GatherND GridSample MatMul
MatMulInteger Min NegativeLogLikelihoodLoss NonZero OneHot QuantizeLinear Range Relu Round ScatterElements ScatterND
SoftmaxCrossEntropyLoss ThresholdedRelu Trilu Where
"""
FIRST_OPSET = {"ConstantOfShape": 8, **dict.fromkeys(_FROM_9.split(), 9), "ReverseSequence": 10, "Unique": 11}
HALF = np.float16
BOTH = (False, True)
RNG = np.random.default_rng(0)


@dataclass(frozen=True)
class Literal:
    """An input that is a constant of the graph."""

    array: np.ndarray


@dataclass(frozen=True)
class Case:
    """An operator with inputs; from opset ``lowest`` on it is written, below it is refused.

    Up to ``highest`` onnxruntime runs what is written, and right; above it can't, or does it wrong.
    """

    op: str
    inputs: Sequence[np.ndarray | Literal | None]
    attributes: dict[str, object] = field(default_factory=dict)
    outputs: int = 1
    lowest: int = 0
    highest: int = 26
    source: int = 23
    dynamic: bool = False
    expected: Callable[..., np.ndarray] | None = None
    note: str = ""
    atol: float = 1e-5
    rtol: float = 1e-5

    def __post_init__(self) -> None:
        if not self.lowest:
            object.__setattr__(self, "lowest", FIRST_OPSET.get(self.op, OPSETS[0]))

    def __str__(self) -> str:
        attributes = ",".join(f"{name}={value}" for name, value in self.attributes.items())
        first = next((one for one in self.inputs if isinstance(one, np.ndarray)), np.zeros(0))
        return (
            f"{self.op}-{first.dtype}{list(first.shape)}-{attributes}-{self.note}{'-dynamic' if self.dynamic else ''}"
        )


def case(op: str, *inputs: np.ndarray | Literal | None, **options: object) -> Case:
    own = {name: options.pop(name) for name in list(options) if name in Case.__dataclass_fields__}
    return Case(op, inputs, options, **own)  # type: ignore[arg-type]


def F(*shape: int, dtype: type = np.float32) -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


def I(*shape: int, low: int = -9, high: int = 9, dtype: type = np.int64) -> np.ndarray:  # noqa: E743
    return RNG.integers(low, high, shape).astype(dtype)


def B(*shape: int) -> np.ndarray:
    return I(*shape, low=0, high=2, dtype=np.bool_)


def U(*shape: int, high: int = 256, dtype: type = np.uint8) -> np.ndarray:
    return I(*shape, low=0, high=high, dtype=dtype)


def one_at_run_time(item: float, dtype: type = np.int64) -> np.ndarray:
    return np.array(item, dtype)


def at_run_time(*items: float, dtype: type = np.int64) -> np.ndarray:
    return np.array(items, dtype)


def ints(*items: int) -> Literal:
    return Literal(np.array(items, np.int64))


def floats(*items: float) -> Literal:
    return Literal(np.array(items, np.float32))


def scalar(item: float, dtype: type = np.float32) -> Literal:
    return Literal(np.array(item, dtype))


def _parts(one: Case) -> tuple[onnx.NodeProto, list[onnx.ValueInfoProto], list[onnx.TensorProto]]:
    names, inputs, initializers = [], [], []
    for position, value in enumerate(one.inputs):
        name = f"in{position}" if value is not None else ""
        names.append(name)
        if isinstance(value, Literal):
            initializers.append(onnx.numpy_helper.from_array(value.array, name))
        elif value is not None:
            # How many axes, bounds or sizes there are is part of a graph.
            is_list = position > 0 and value.ndim == 1 and np.issubdtype(value.dtype, np.integer)
            varies = one.dynamic and not is_list
            shape = [f"d{position}_{axis}" for axis in range(value.ndim)] if varies else list(value.shape)
            dtype = helper.np_dtype_to_tensor_dtype(value.dtype)
            inputs.append(helper.make_tensor_value_info(name, dtype, shape))
    outputs = [f"out{position}" for position in range(one.outputs)]
    return helper.make_node(one.op, names, outputs, name="node", **one.attributes), inputs, initializers


def _untyped(names: Sequence[str]) -> list[onnx.ValueInfoProto]:
    return [onnx.ValueInfoProto(name=name) for name in names]


def model_of(one: Case, place: str = "") -> onnx.ModelProto:
    """A model of the one operator: in the graph itself, in a ``branch``, in a ``loop`` or in a ``function``."""
    node, inputs, initializers = _parts(one)
    names = list(node.output)
    inner = [f"{name}_inner" for name in names]
    functions: list[onnx.FunctionProto] = []
    nodes = [node]
    if place:
        node.output[:] = inner
    if place == "branch":
        inputs = [*inputs, helper.make_tensor_value_info("condition", onnx.TensorProto.BOOL, [])]
        branches = {}
        for at, name in enumerate(("then_branch", "else_branch")):
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            copy.name, copy.output[:] = f"node{at}", [f"{each}{at}" for each in inner]
            branches[name] = helper.make_graph([copy], name, [], _untyped(copy.output))
        nodes = [helper.make_node("If", ["condition"], names, name="if", **branches)]
    elif place == "loop":
        initializers = [
            *initializers,
            onnx.numpy_helper.from_array(np.array(1), "once"),
            onnx.numpy_helper.from_array(np.array([0]), "first"),
        ]
        given = [
            helper.make_tensor_value_info("step", onnx.TensorProto.INT64, []),
            helper.make_tensor_value_info("going", onnx.TensorProto.BOOL, []),
        ]
        on = helper.make_node("Identity", ["going"], ["still"])
        body = helper.make_graph([node, on], "body", given, _untyped(["still", *inner]))
        stacked = [f"{name}_stacked" for name in names]
        nodes = [helper.make_node("Loop", ["once", ""], stacked, name="loop", body=body)]
        nodes += [
            helper.make_node("Squeeze", [many, "first"], [name]) for many, name in zip(stacked, names, strict=True)
        ]
    elif place == "function":
        imports = [helper.make_opsetid("", one.source)]
        constants = [helper.make_node("Constant", [], [tensor.name], value=tensor) for tensor in initializers]
        arguments = [value.name for value in inputs]
        functions = [helper.make_function("local", "block", arguments, inner, [*constants, node], imports)]
        nodes, initializers = [helper.make_node("block", arguments, names, domain="local", name="call")], []
    graph = helper.make_graph(nodes, "graph", inputs, _untyped(names), initializers)
    imports = [helper.make_opsetid("", one.source), *([helper.make_opsetid("local", 1)] if functions else [])]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10, functions=functions)
    return onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)


def run(model: onnx.ModelProto, one: Case) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    feed = {f"in{at}": value for at, value in enumerate(one.inputs) if isinstance(value, np.ndarray)}
    if any(value.name == "condition" for value in model.graph.input):
        feed["condition"] = np.array(True)
    return list(session.run(None, feed))


def at_opset(model: onnx.ModelProto, opset: int) -> onnx.ModelProto:
    ours = ir.from_proto(model)
    legalize(ours, opset)
    proto = ir.to_proto(ours)
    assert [entry.version for entry in proto.opset_import if entry.domain == ""] == [opset]
    onnx.checker.check_model(proto, full_check=True)
    return proto


def expected_of(one: Case, model: onnx.ModelProto) -> list[np.ndarray]:
    if one.expected is not None:
        arrays = [value.array if isinstance(value, Literal) else value for value in one.inputs]
        result = one.expected(*arrays)
        return list(result) if isinstance(result, tuple) else [result]
    return run(model, one)


def check(one: Case, opsets: Iterable[int], place: str = "", lowest: int = OPSETS[0]) -> None:
    """Compare at these opsets; below the lowest of the row, or of the place it is put, it must be refused."""
    model = model_of(one, place)
    reference = expected_of(one, model_of(one))
    lowest = max(one.lowest, lowest)
    faults = [f"{opset}: {fault}" for opset in opsets if (fault := _fault(one, model, reference, opset, lowest))]
    assert not faults, "\n".join(faults)


def _fault(one: Case, model: onnx.ModelProto, reference: list[np.ndarray], opset: int, lowest: int) -> str:
    """What is wrong with a row at an opset; empty if nothing is."""
    try:
        written = at_opset(model, opset)
    except OpsetError as error:
        return f"{error}" if opset >= lowest else ""
    if opset < lowest:
        return f"written, though the row says that it is refused below {lowest}"
    try:
        _compare(run(written, one), reference, one)
    except Exception as error:  # noqa: BLE001  (onnxruntime's exceptions have no common base)
        return f"{type(error).__name__} {error}" if opset <= one.highest else ""
    return "" if opset <= one.highest else f"runs, though the row says that it does not above {one.highest}"


def _compare(got: list[np.ndarray], expected: list[np.ndarray], one: Case) -> None:
    for result, reference in zip(got, expected, strict=True):
        assert result.dtype == reference.dtype
        assert result.shape == reference.shape
        if result.dtype == object:
            assert result.tolist() == reference.tolist()
            continue
        np.testing.assert_allclose(
            result.astype(np.float64), reference.astype(np.float64), rtol=one.rtol, atol=one.atol
        )
