"""One operator as a row: run at the canonical opset, legalised to others, and compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
from onnx import helper

from onnxport.errors import OpsetError
from onnxport.legalize import legalize

OPSETS = range(7, 27)
# Those between which most rules lie.
EACH_CHANGE = (7, 8, 9, 10, 11, 12, 13, 15, 17, 19, 21, 26)
RNG = np.random.default_rng(0)


@dataclass(frozen=True)
class Literal:
    """An input that is a constant of the graph."""

    array: np.ndarray


@dataclass(frozen=True)
class Case:
    """An operator with inputs; from opset ``lowest`` to ``highest`` it must work, beside that it may be refused."""

    op: str
    inputs: Sequence[np.ndarray | Literal | None]
    attributes: dict[str, object] = field(default_factory=dict)
    outputs: int = 1
    lowest: int = 9
    highest: int = 26
    source: int = 23
    dynamic: bool = False
    expected: Callable[..., np.ndarray] | None = None
    note: str = ""
    tolerance: float = 1e-5

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


def check(one: Case, opsets: Sequence[int], place: str = "", lowest: int | None = None) -> None:
    """Compare at all these opsets; what is refused below the lowest is refused with reasons, not written wrongly."""
    model = model_of(one, place)
    reference = expected_of(one, model_of(one))
    needed = one.lowest if lowest is None else lowest
    faults: list[str] = []
    for opset in opsets:
        try:
            written = at_opset(model, opset)
        except OpsetError as error:
            if needed <= opset <= one.highest:
                faults.append(f"{opset}: {error}")
            continue
        if opset > one.highest:
            continue
        try:
            _compare(run(written, one), reference, one.tolerance)
        except Exception as error:  # noqa: BLE001  (onnxruntime's exceptions have no common base)
            faults.append(f"{opset}: {type(error).__name__} {error}")
    assert not faults, "\n".join(faults)


def _compare(got: list[np.ndarray], expected: list[np.ndarray], tolerance: float) -> None:
    for result, reference in zip(got, expected, strict=True):
        assert result.dtype == reference.dtype
        assert result.shape == reference.shape
        if result.dtype == object:
            assert result.tolist() == reference.tolist()
            continue
        np.testing.assert_allclose(
            result.astype(np.float64), reference.astype(np.float64), rtol=tolerance, atol=tolerance
        )
