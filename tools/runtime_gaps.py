"""Ask onnxruntime which operators it cannot compute in which element types, and write the answer down.

``make kernels`` builds a model of one node for every operator of ai.onnx, every version of it and every element type
its schema allows, and opens a session on it. What onnxruntime says it has no implementation for goes into
``src/onnxport/legalize/runtime_gaps.json``: operator, then version, then type variable, then the missing types.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.defs
import onnxruntime
from onnx import TensorProto, helper

Table = dict[str, dict[str, dict[str, str]]]
TABLE = Path(__file__).parents[1] / "src" / "onnxport" / "legalize" / "runtime_gaps.json"
OLDEST = 7

TYPES = {
    f"tensor({name.lower()})": number
    for name, number in TensorProto.DataType.items()
    if name.lower()
    in {
        "float", "double", "float16", "bfloat16", "bool",
        "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
    }
}  # fmt: skip
"""The element types asked about: those of torch tensors that arithmetic is done in."""

# What a variable is bound to while another one is asked about, best first.
USUAL = ("tensor(float)", "tensor(int64)", "tensor(bool)", "tensor(int32)", "tensor(uint8)", "tensor(uint32)")

LEFT_OUT = frozenset({
    "BitCast", "Constant", "If", "Loop", "Optional", "OptionalGetElement", "OptionalHasElement", "Scan", "SequenceMap",
    "TfIdfVectorizer", "DequantizeLinear", "QLinearConv", "QLinearMatMul", "QuantizeLinear",
})  # fmt: skip
"""Operators that take any element type, or whose element types are what they are about."""

# Attributes without which a node means nothing; for the rest the defaults will do.
ATTRIBUTES: dict[str, dict[str, Any]] = {
    "Attention": {"q_num_heads": 1, "kv_num_heads": 1},
    "AveragePool": {"kernel_shape": [1]},
    "BitShift": {"direction": "LEFT"},
    "Cast": {"to": TensorProto.FLOAT},
    "Concat": {"axis": 0},
    "ConcatFromSequence": {"axis": 0},
    "DepthToSpace": {"blocksize": 1},
    "Einsum": {"equation": "a,b->ab"},
    "GRU": {"hidden_size": 1},
    "GroupNormalization": {"num_groups": 1},
    "LRN": {"size": 1},
    "LSTM": {"hidden_size": 1},
    "LpPool": {"kernel_shape": [1]},
    "MaxPool": {"kernel_shape": [1]},
    "MaxRoiPool": {"pooled_shape": [1, 1]},
    "MaxUnpool": {"kernel_shape": [1]},
    "Pad": {"pads": [0, 0]},
    "RNN": {"hidden_size": 1},
    "RandomNormal": {"shape": [1]},
    "RandomUniform": {"shape": [1]},
    "Slice": {"starts": [0], "ends": [1]},
    "SpaceToDepth": {"blocksize": 1},
    "TopK": {"k": 1},
    "Unsqueeze": {"axes": [0]},
    "Upsample": {"scales": [1.0]},
}
# What other variables are bound to where float would not be usual; ``*`` is the type asked about.
BOUND: dict[str, dict[str, str]] = {
    "Attention": {"T1": "*", "T2": "*"},
    "BatchNormalization": {"T": "*", "T1": "*", "T2": "*", "U": "*"},
    "OneHot": {"T1": "tensor(int64)", "T2": "tensor(int64)"},
    "RMSNormalization": {"T": "*", "V": "*"},
}
OUTPUT_TYPE = ("dtype", "to")
"""Attributes that say the element type of the output where no input does."""


def newest_opset() -> int:
    """The newest opset that onnxruntime reads."""
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, None)
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])], "g", [value], [onnx.ValueInfoProto(name="y")]
    )
    opset = OLDEST
    while not verdict(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset + 1)], ir_version=8)):
        opset += 1
    return opset


def versions(op_type: str, newest: int) -> Iterator[tuple[onnx.defs.OpSchema, int, int]]:
    """Every form an operator has had in the opsets that can be written, with the first and last opset that has it."""
    found: dict[int, tuple[onnx.defs.OpSchema, int, int]] = {}
    for opset in range(OLDEST, newest + 1):
        try:
            schema = onnx.defs.get_schema(op_type, opset, "")
        except onnx.defs.SchemaError:
            continue
        if not schema.deprecated:
            _, first, _ = found.get(schema.since_version, (schema, opset, opset))
            found[schema.since_version] = (schema, first, opset)
    yield from found.values()


def one_node(schema: onnx.defs.OpSchema, variable: str, dtype: str, opset: int, full: bool) -> onnx.ModelProto | None:
    """A model of the operator with one type variable bound as told, None if the schema has no such node.

    It has the inputs it cannot do without, or all of them.
    """
    allowed = {one.type_param_str: one.allowed_type_strs for one in schema.type_constraints}
    bound = {name: next((kind for kind in USUAL if kind in kinds), "") for name, kinds in allowed.items()}
    bound[variable] = dtype
    for name, rule in BOUND.get(schema.name, {}).items():
        if name in allowed and name != variable and (rule != "*" or dtype in allowed[name]):
            bound[name] = dtype if rule == "*" else rule
    places = [position for position, formal in enumerate(schema.inputs) if formal.type_str == variable]
    count = len(schema.inputs) if full else max(schema.min_input, places[0] + 1 if places else 0)
    inputs = []
    for position, formal in enumerate(schema.inputs[:count]):
        kind = bound.get(formal.type_str, formal.type_str)
        if kind not in TYPES:
            return None
        inputs.append(helper.make_tensor_value_info(f"in{position}", TYPES[kind], None))
    attributes = {name: value for name, value in ATTRIBUTES.get(schema.name, {}).items() if name in schema.attributes}
    if not places:
        name = next((name for name in OUTPUT_TYPE if name in schema.attributes), None)
        if name is not None:
            attributes[name] = TYPES[dtype]
        elif schema.name == "ConstantOfShape":
            attributes["value"] = onnx.helper.make_tensor("value", TYPES[dtype], [1], [0])
        else:
            return None
    outputs = [f"out{position}" for position in range(max(schema.min_output, 1))]
    node = helper.make_node(schema.name, [value.name for value in inputs], outputs, **attributes)
    graph = helper.make_graph([node], "g", inputs, [onnx.ValueInfoProto(name=name) for name in outputs])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def verdict(model: onnx.ModelProto, run: bool = False) -> str:
    """``""`` if onnxruntime takes the model, ``"missing"`` if it lacks the implementation, else what it says."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        if run:
            session.run(None, {})
    except Exception as error:  # noqa: BLE001  (onnxruntime's exceptions have no common base; all are reported)
        text = str(error)
        # An operator without an implementation is replaced by its definition, which does not fit every type it is for.
        within = "Type Error" in text and f"({model.graph.node[0].op_type})" not in text
        if "NOT_IMPLEMENTED" in text or within:
            return "missing"
        # There is one, and it wants to know more than its types.
        return "" if "Exception during initialization" in text else text
    return ""


def ask(schema: onnx.defs.OpSchema, variable: str, dtype: str, first: int, last: int) -> str:
    """The verdict on an operator in one type.

    What stands in for an operator without an implementation depends on the inputs that are there and on the opset.
    Not all inputs can be there at once in every operator, so only what is said of types counts then.
    """
    least = one_node(schema, variable, dtype, first, full=False)
    answer = "" if least is None else verdict(least)
    for opset in (first, last):
        full = one_node(schema, variable, dtype, opset, full=True)
        if not answer and full is not None and verdict(full) == "missing":
            return "missing"
    return answer


def scatter(schema: onnx.defs.OpSchema, dtype: str, reduction: str, opset: int) -> onnx.ModelProto:
    """A scatter that combines what meets in one place; only when it runs does onnxruntime say that it cannot."""
    indices = [[0], [0]] if schema.name == "ScatterND" else [0, 0]
    constants = [
        helper.make_tensor("data", TYPES[dtype], [2], [1, 1]),
        helper.make_tensor("indices", TensorProto.INT64, np.shape(indices), np.ravel(indices)),
        helper.make_tensor("updates", TYPES[dtype], [2], [1, 1]),
    ]
    nodes = [
        helper.make_node(schema.name, ["data", "indices", "updates"], ["out"], reduction=reduction),
        helper.make_node("Cast", ["out"], ["result"], to=TensorProto.FLOAT),
    ]
    graph = helper.make_graph(nodes, "g", [], [onnx.ValueInfoProto(name="result")], initializer=constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def ask_reductions(newest: int) -> Iterator[tuple[str, str, list[str]]]:
    """Operator and reduction, version, and the types in which it fails."""
    for op_type in ("ScatterElements", "ScatterND"):
        for schema, first, _ in versions(op_type, newest):
            reductions = ["add", "mul", *(["max", "min"] if first >= 18 else [])] if first >= 16 else []
            for reduction in reductions:
                kinds = sorted(set(schema.type_constraints[0].allowed_type_strs) & TYPES.keys())
                failing = [kind for kind in kinds if verdict(scatter(schema, kind, reduction, first), run=True)]
                yield f"{op_type}.{reduction}", str(schema.since_version), failing


def dump(table: Table, newest: int) -> str:
    """The table as JSON with a line per form of an operator."""
    lines = [
        f"  {json.dumps(op_type)}: {{\n"
        + ",\n".join(f"   {json.dumps(version)}: {json.dumps(gaps)}" for version, gaps in forms.items())
        + "\n  }"
        for op_type, forms in table.items()
    ]
    head = f' "onnxruntime": {json.dumps(onnxruntime.__version__)},\n "newest_opset": {newest},\n'
    return "{\n" + head + ' "missing": {\n' + ",\n".join(lines) + "\n }\n}\n"


def main() -> None:
    """Write the table; complain of every node that onnxruntime refused for another reason."""
    newest = newest_opset()
    table: Table = {}
    complaints = 0
    for op_type in sorted({schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""} - LEFT_OUT):
        for schema, first, last in versions(op_type, newest):
            for constraint in schema.type_constraints:
                variable = constraint.type_param_str
                missing = []
                kinds = sorted(set(constraint.allowed_type_strs) & TYPES.keys())
                for dtype in kinds:
                    answer = ask(schema, variable, dtype, first, last)
                    if answer == "missing":
                        missing.append(dtype.removeprefix("tensor(").removesuffix(")"))
                    elif answer:
                        complaints += 1
                        print(f"{op_type} {schema.since_version} {variable} {dtype}: {answer}", file=sys.stderr)
                # Without any implementation there is nothing to compute in instead.
                if 0 < len(missing) < len(kinds):
                    gaps = table.setdefault(op_type, {}).setdefault(str(schema.since_version), {})
                    gaps[variable] = " ".join(missing)
    for name, version, failing in ask_reductions(newest):
        if failing:
            kinds = " ".join(kind.removeprefix("tensor(").removesuffix(")") for kind in failing)
            table.setdefault(name, {})[version] = {"T": kinds}
    TABLE.write_text(dump(dict(sorted(table.items())), newest), encoding="utf-8")
    sys.exit(f"{complaints} nodes were refused for other reasons than their types" if complaints else 0)


if __name__ == "__main__":
    main()
