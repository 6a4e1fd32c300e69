"""Names and provenance, as the guide describes them."""

from __future__ import annotations

import ast
import copy
import pickle
from collections.abc import Callable
from typing import Any

import onnx_ir as ir
import pytest
import torch

import onnxport
from onnxport.errors import InputError
from onnxport.functions import inline_functions
from onnxport.provenance import (
    NAME_SCOPES,
    EnclosingModule,
    Origin,
    Provenance,
    attach,
    line_of,
    origin_of,
    provenance_of,
    source_line,
    write_texts,
)


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = torch.nn.Linear(3, 4)
        self.register_buffer("offset", torch.ones(4))
        self.register_buffer("scale", torch.full((4,), 2.0), persistent=False)
        self.head = torch.nn.Linear(3, 4, bias=False)
        self.head.weight = self.fc1.weight

    def forward(self, x: torch.Tensor, unused: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.fc1(x) + self.offset
        return torch.relu(y) * self.scale, self.head(x)


@pytest.fixture(scope="module")
def program() -> onnxport.ONNXProgram:
    return onnxport.export(
        Model(), (torch.randn(2, 3), torch.randn(1)), input_names=["features"], output_names=["scores"]
    )


def _node(program: onnxport.ONNXProgram, op_type: str) -> ir.Node:
    return next(node for node in program.model.graph if node.op_type == op_type)


def test_node_metadata(program: onnxport.ONNXProgram) -> None:
    metadata = _node(program, "Gemm").metadata_props
    own = f"{__name__}.Model"
    linear = "torch.nn.modules.linear.Linear"
    assert metadata["namespace"] == f"{own}/fc1: {linear}/linear: aten.linear.default"
    assert ast.literal_eval(metadata["pkg.torch.onnx.class_hierarchy"]) == [own, linear, "aten.linear.default"]
    assert ast.literal_eval(metadata["pkg.torch.onnx.name_scopes"]) == ["", "fc1", "linear"]
    assert metadata["pkg.torch.onnx.fx_node"].startswith(
        "%linear : [num_users=1] = call_function[target=torch.ops.aten."
    )
    assert "test_metadata.py" in metadata["pkg.torch.onnx.stack_trace"]
    assert "self.fc1(x) + self.offset" in metadata["pkg.torch.onnx.stack_trace"]


def test_calls_are_shown_as_torch_shows_them(program: onnxport.ONNXProgram) -> None:
    assert program.exported_program is not None
    shown = {node.metadata_props["pkg.torch.onnx.fx_node"] for node in program.model.graph}
    assert shown <= {str(node.format_node()) for node in program.exported_program.graph.nodes}


def test_graph_metadata(program: onnxport.ONNXProgram) -> None:
    metadata = program.model.graph.metadata_props
    assert "PARAMETER target='fc1.weight'" in metadata["pkg.torch.export.ExportedProgram.graph_signature"]
    assert metadata["pkg.torch.export.ExportedProgram.range_constraints"] == "{}"


VALUES: dict[str, dict[str, str]] = {
    "features": {"InputSpec.kind": "USER_INPUT", "InputSpec.persistent": "None", "original": "x"},
    "unused": {"InputSpec.kind": "USER_INPUT"},
    "fc1.weight": {"InputSpec.kind": "PARAMETER", "original": "p_fc1_weight"},
    "offset": {"InputSpec.kind": "BUFFER", "InputSpec.persistent": "True", "original": "b_offset"},
    "scale": {"InputSpec.kind": "BUFFER", "InputSpec.persistent": "False"},
    "scores": {"OutputSpec.kind": "USER_OUTPUT", "original": "mul"},
}


@pytest.mark.parametrize("name", VALUES)
def test_value_metadata(program: onnxport.ONNXProgram, name: str) -> None:
    graph = program.model.graph
    values = {value.name: value for value in (*graph.inputs, *graph.outputs, *graph.initializers.values())}
    for key, expected in VALUES[name].items():
        full = "pkg.torch.onnx.original_node_name" if key == "original" else f"pkg.torch.export.graph_signature.{key}"
        assert values[name].metadata_props[full] == expected


def test_inputs_stay_and_tied_weights_are_one(program: onnxport.ONNXProgram) -> None:
    graph = program.model.graph
    assert [value.name for value in graph.inputs] == ["features", "unused"]
    weights = [name for name, value in graph.initializers.items() if value.shape == (4, 3)]
    assert weights == ["fc1.weight"]
    assert graph.initializers["fc1.weight"].metadata_props["onnxport.aliases"] == "head.weight"
    assert [value.name for value in graph.outputs] == ["scores", "output_1"]


def test_node_names_follow_the_values(program: onnxport.ONNXProgram) -> None:
    for node in program.model.graph:
        assert node.name == f"node_{node.outputs[0].name}"


def test_names_run_on_into_the_parameters() -> None:
    program = onnxport.export(torch.nn.Linear(3, 2), (torch.ones(1, 3),), input_names=["x", "w", "b"])
    assert set(program.model.graph.initializers) == {"w", "b"}
    program.apply_weights({"weight": torch.zeros(2, 3), "bias": torch.ones(2)})
    assert program(torch.ones(1, 3))[0].tolist() == [[1.0, 1.0]]


class Same(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> Any:
        y = x + 1
        return x, y, y


def test_outputs_are_values_of_their_own() -> None:
    program = onnxport.export(Same(), (torch.ones(2),), output_names=["a", "b", "c"])
    assert [value.name for value in program.model.graph.outputs] == ["a", "b", "c"]
    assert [float(value[0]) for value in program(torch.ones(2))] == [1.0, 2.0, 2.0]


BAD_NAMES = {
    "too many": (["a", "b", "c", "d"], "has 4 names .* 3 output"),
    "twice": (["a", "a"], "repeats 'a'"),
    "an input's": (["x"], "x in `output_names` is the name of an input or weight"),
}


@pytest.mark.parametrize("name", BAD_NAMES)
def test_bad_output_names(name: str) -> None:
    names, message = BAD_NAMES[name]
    with pytest.raises(InputError, match=message):
        onnxport.export(Same(), (torch.ones(2),), output_names=names)


class Short(torch.nn.Module):
    """Legalisation takes GELU apart below opset 20, and puts casts around the addition, which onnxruntime lacks."""

    def __init__(self) -> None:
        super().__init__()
        self.act = torch.nn.GELU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.act(torch.sin(x)) + (y := x.to(torch.int16)).add(y)


def _exported_short() -> onnxport.ONNXProgram:
    return onnxport.export(Short(), (torch.ones(3),), opset_version=17)


MADE_FOR = {
    "Cast": {"aten::to", "aten::add"},
    "Erf": {"aten::gelu"},
    "Mul": {"aten::gelu"},
    "Add": {"aten::gelu", "aten::add"},
}


@pytest.mark.parametrize("op_type", MADE_FOR)
def test_nodes_of_legalisation_come_from_the_call_they_were_made_for(op_type: str) -> None:
    program = _exported_short()
    assert program.functional is not None
    calls = {node.name: node for node in program.functional.graph.nodes}
    operators = set()
    for node in program.model.graph:
        if node.op_type == op_type:
            provenance = provenance_of(node)
            assert provenance is not None
            assert provenance.node is calls[ast.literal_eval(node.metadata_props[NAME_SCOPES])[-1]]
            assert line_of(node) == source_line(provenance.node)
            operators.add(provenance.operator)
    assert operators == MADE_FOR[op_type]


def test_one_object_for_all_nodes_of_a_call() -> None:
    made = [provenance_of(node) for node in _exported_short().model.graph if node.op_type in ("Erf", "Mul")]
    assert len(made) > 2 and len(set(made)) == 1


COPIES: dict[str, Callable[[ir.Model], ir.Model]] = {
    "file": lambda model: ir.from_proto(ir.to_proto(model)),
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "clone": lambda model: model.clone(),
    "deep-clone": lambda model: model.clone(deep_copy=True),
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("way", COPIES)
def test_copies_of_a_model_say_the_same(way: str) -> None:
    model = _exported_short().model
    other = COPIES[way](model)
    for one, two in zip(model.graph, other.graph, strict=True):
        assert one.metadata_props == two.metadata_props
        assert origin_of(one) == origin_of(two) and origin_of(one) is not None
        assert line_of(one) == line_of(two) != ""
        # What can't be written to a file is passed on where nothing is written.
        kept = way in ("clone", "deep-clone", "deepcopy")
        assert provenance_of(two) is (provenance_of(one) if kept else None)


def test_texts_are_written_last_and_leave_what_is_said() -> None:
    model = ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["": 20]> main (float[3] x) => (float[3] y) {y = Relu(x)}'
    )
    node = torch.fx.Graph().placeholder("x")
    node.meta["nn_module_stack"] = {"a": ("", "m.Model"), "b": ("fc", torch.nn.Linear)}
    attach(model.graph[0], Provenance(node))
    model.graph[0].metadata_props["namespace"] = "mine"
    assert model.graph[0].metadata_props == {"namespace": "mine"}
    write_texts(model)
    props = model.graph[0].metadata_props
    assert props["namespace"] == "mine"
    assert props[NAME_SCOPES] == "['', 'fc', 'x']"
    origin = Origin("x", (EnclosingModule("", "m.Model"), EnclosingModule("fc", "torch.nn.modules.linear.Linear")))
    assert origin_of(model.graph[0]) == origin
    attach(model.graph[0], Provenance(node).of_function("m::Linear", ""))
    assert origin_of(model.graph[0]) == Origin("x", origin.modules[:1])


FRAMES = {
    # trace -> the line that is shown
    'File "model.py", line 7, in f\n    g(x)\n  File "<eval_with_key>.5", line 9, in f\n    y': "model.py:7 in f: g(x)",
    "": "the call x = x",
    'File "model.py", line 7, in forward\n    y = x': "model.py:7 in forward: y = x",
    'File "model.py", line 7, in forward\nFile "layer.py", line 8, in call': "layer.py:8 in call",
    f'File "model.py", line 7, in f\n    g(x)\n  File "{torch.__file__}", line 1, in g': "model.py:7 in f: g(x)",
    f'File "{torch.__file__}", line 1, in g\n    return x': f"{torch.__file__}:1 in g: return x",
    f'File "model.py", line 7, in f\n    y\n  File "{onnxport.__file__}", line 1, in g\n    z': "model.py:7 in f: y",
}


@pytest.mark.parametrize("trace", FRAMES)
def test_the_line_of_a_call_is_the_innermost_of_the_users(trace: str) -> None:
    node = torch.fx.Graph().placeholder("x")
    node.meta["stack_trace"] = trace
    assert source_line(node) == FRAMES[trace]


def test_calls_that_are_inlined_pass_their_provenance_to_the_nodes_in_their_place() -> None:
    model = ir.from_onnx_text(
        '<ir_version: 10, opset_import: ["": 20, "f": 1]> main (float[3] x) => (float[3] y) {a = f.g(x) y = f.g(a)} '
        '<domain: "f", opset_import: ["": 20]> g (x) => (y) {z = Exp(x) y = Neg(z)}'
    )
    graph = torch.fx.Graph()
    calls = [Provenance(graph.placeholder(name)) for name in ("one", "two")]
    for node, provenance in zip(model.graph, calls, strict=True):
        attach(node, provenance)
    inline_functions(model)
    assert [node.op_type for node in model.graph] == ["Exp", "Neg", "Exp", "Neg"]
    assert [provenance_of(node) for node in model.graph] == [calls[0], calls[0], calls[1], calls[1]]
    assert not any(node.metadata_props for node in model.graph)


def test_a_python_function_is_written_without_its_address() -> None:
    graph = torch.fx.Graph()
    node = graph.call_function(torch.sym_not, (graph.placeholder("x"),))
    model = ir.from_onnx_text('<ir_version: 10, opset_import: ["": 20]> g (bool x) => (bool y) { y = Not(x) }')
    made = model.graph[0]
    attach(made, Provenance(node))
    write_texts(model)
    assert made.metadata_props["namespace"] == "sym_not: <function sym_not>"
    assert not [text for text in made.metadata_props.values() if " at 0x" in text]
