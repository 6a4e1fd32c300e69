from __future__ import annotations

import io
import os
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import programs
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import Dim

import onnxport
from onnxport.errors import InputError, OnnxExporterError, OnnxExporterWarning, SaveError
from onnxport.events import EventLog
from onnxport.program import ComputedValues, ONNXProgram, runtime
from onnxport.weights import saving
from onnxport.weights.dtypes import TORCH_TO_ONNX
from onnxport.weights.torch_tensor import TorchTensor

Pair = namedtuple("Pair", "left right")


def linear_program(**kwargs) -> ONNXProgram:
    return ONNXProgram(programs.linear(), None, **kwargs)


def expected_linear(program: ONNXProgram, x: torch.Tensor) -> torch.Tensor:
    weights = {name: v.const_value.raw for name, v in program.model.graph.initializers.items()}
    return x @ weights["fc.weight"] + weights["fc.bias"] + weights["one"]


def identity(dtype: torch.dtype, shape: tuple[int | str, ...] = ("n",), opset: int = 21) -> ONNXProgram:
    x, y = programs.value("x", dtype, shape), programs.value("y", dtype, shape)
    made = programs.model([x], [y], [programs.node("Identity", [x], y)])
    made.graph.opset_imports[""] = opset
    return ONNXProgram(made, None)


# Running


def test_call() -> None:
    program = linear_program()
    x = torch.randn(3, 8, requires_grad=True)
    for result in (program(x), program(x=x), program.call_reference(x)):
        assert isinstance(result, tuple) and len(result) == 1
        torch.testing.assert_close(result[0], expected_linear(program, x.detach()))


@pytest.mark.parametrize("dtype", [d for d in TORCH_TO_ONNX if not d.is_complex and d != torch.float8_e8m0fnu], ids=str)
@pytest.mark.parametrize("size", [3, 0])
def test_every_dtype_goes_in_and_out(dtype: torch.dtype, size: int) -> None:
    program = identity(dtype)
    x = torch.arange(size).to(dtype)
    for result in (program(x), program.call_reference(x)):
        assert result[0].dtype == dtype and result[0].shape == x.shape
        assert result[0].to(torch.float64).tolist() == x.to(torch.float64).tolist()


def test_scalar_and_non_contiguous_inputs() -> None:
    assert identity(torch.float32, ())(torch.tensor(2.5))[0].shape == ()
    x = torch.arange(6.0).reshape(2, 3)
    for view in (x.t(), x[:, ::2], x[:1].expand(4, 3)):
        assert torch.equal(identity(torch.float32, ("a", "b"))(view)[0], view)


def test_complex_inputs_become_their_parts() -> None:
    x = torch.tensor([1 + 2j, 3 - 4j]).conj()
    assert torch.equal(identity(torch.float32, ("n", 2))(x)[0], torch.view_as_real(x.resolve_conj()))


def test_results_outlive_the_session() -> None:
    for dtype in (torch.float32, torch.bfloat16):
        program = identity(dtype)
        (result,) = program(torch.ones(1000, dtype=dtype))
        program.release()
        for _ in range(3):
            identity(dtype)(torch.zeros(1000, dtype=dtype))
        assert torch.equal(result, torch.ones(1000, dtype=dtype))


# Inputs as the torch model takes them


class Nested(torch.nn.Module):
    def forward(self, x, pair, named, scale=2, *, shift=None, last=None):
        return x + pair.left * scale - named["b"][0] / named["a"] + last


def nested_program() -> tuple[ONNXProgram, tuple, dict]:
    """A program whose graph returns its inputs one by one, so that what reaches it can be seen."""
    t = [torch.full((2, 3), float(i)) for i in range(7)]
    args = (t[0], Pair(t[1], t[2]), {"b": [t[3]], "a": t[4]}, 4)
    kwargs = {"last": t[5], "shift": None}
    exported = torch.export.export(Nested(), args, kwargs, strict=False)
    inputs = [programs.value(name, shape=(2, 3)) for name in ("x", "left", "right", "b", "a", "last")]
    outputs = [programs.value(f"{value.name}_out", shape=(2, 3)) for value in inputs]
    nodes = [programs.node("Identity", [i], o) for i, o in zip(inputs, outputs, strict=True)]
    return ONNXProgram(programs.model(inputs, outputs, nodes), exported), args, kwargs


@pytest.mark.parametrize(
    "call",
    [
        lambda p, a, k: p(*a, **k),
        lambda p, a, k: p(*a, shift=None, last=k["last"]),
        lambda p, a, k: p(*a, last=k["last"]),
        lambda p, a, k: p(*a[:3], last=k["last"]),
        lambda p, a, k: p(a[0], a[1], {"a": a[2]["a"], "b": a[2]["b"]}, 4, **k),
        lambda p, a, k: p(a[0], scale=4, named=a[2], pair=a[1], **k),
        lambda p, a, k: p.call_reference(*a, **k),
        lambda p, a, k: p.compute_values([v.name for v in p.model.graph.outputs], a, k),
    ],
    ids=[
        "as exported",
        "keywords reordered",
        "None left out",
        "what is part of the graph left out",
        "dict reordered",
        "all by keyword",
        "reference",
        "values",
    ],
)
def test_nested_inputs(call) -> None:
    program, args, kwargs = nested_program()
    assert [result[0, 0].item() for result in call(program, args, kwargs)] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("call", "messages"),
    [
        (lambda p, a, k: p(*a), ["last: missing"]),
        (lambda p, a, k: p(a[0], **k), ["pair: missing", "named: missing"]),
        (lambda p, a, k: p(*a, *a, **k), ["8 arguments are too many", "The model takes x, pair, named, scale"]),
        (lambda p, a, k: p(*a, x=a[0], **k), ["x: given twice"]),
        (lambda p, a, k: p(*a, lost=1, **k), ["lost: not an argument"]),
        (lambda p, a, k: p(a[0], a[1], {"b": [], "a": a[0]}, 4, **k), ["named: not of the structure"]),
        (lambda p, a, k: p(a[0], [a[0], a[0]], a[2], 4, **k), ["pair: not of the structure"]),
        (lambda p, a, k: p(*a[:3], 5, **k), ["scale: exported as 4, which is part of the graph now; got 5"]),
        (lambda p, a, k: p(*a[:3], a[0], **k), ["scale: exported as 4.*got a tensor FLOAT \\[2, 3\\]"]),
        (lambda p, a, k: p(*a, last=a[0], shift=a[0]), ["shift: exported as None"]),
        (lambda p, a, k: p(None, *a[1:], **k), ["x: expected a tensor, got None \\(NoneType\\)"]),
        (lambda p, a, k: p("x", *a[1:], **k), ["x: expected a tensor, got 'x' \\(str\\)"]),
        (lambda p, a, k: p(a[0].double(), *a[1:], **k), ["x: expected torch.float32, got torch.float64"]),
        (
            lambda p, a, k: p(a[0][0], *a[1:], last=torch.ones(2, 5)),
            [
                "x: expected 2 dimensions \\[2,3\\], got 1: \\[3\\]",
                "last: dimension 1 is fixed at 3, got 5 in \\[2, 5\\]",
            ],
        ),
    ],
)
def test_inputs_that_do_not_fit(call, messages: list[str]) -> None:
    program, args, kwargs = nested_program()
    with pytest.raises(InputError, match="(?s)The inputs do not fit the model.*" + ".*".join(messages)):
        call(program, args, kwargs)


def test_numbers_for_symbolic_inputs() -> None:
    class Scale(torch.nn.Module):
        def forward(self, x, n):
            return x * n

    example = (torch.ones(2, 3), 3)
    exported = torch.export.export(Scale(), example, dynamic_shapes=(None, Dim.DYNAMIC))
    x, n, y = programs.value("x", shape=(2, 3)), programs.value("n", torch.int64), programs.value("y", torch.int64)
    program = ONNXProgram(programs.model([x, n], [y], [programs.node("Identity", [n], y)]), exported)
    assert program(torch.ones(2, 3), 7)[0].item() == 7
    assert program(torch.ones(2, 3), torch.tensor(8))[0].item() == 8
    with pytest.raises(InputError, match=r"n: expected torch.int64, got torch.float32"):
        program(torch.ones(2, 3), 7.5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda p: p(), "The graph has 1 inputs \\(x\\), but 0 tensors were given"),
        (lambda p: p(torch.ones(1, 8), torch.ones(1)), "but 2 tensors were given"),
        (lambda p: p(torch.ones(1, 8), x=torch.ones(1, 8)), "x: not an input that is still open \\(none is\\)"),
        (lambda p: p(z=torch.ones(1)), "z: not an input that is still open \\(x\\)"),
    ],
)
def test_inputs_without_an_exported_program(call, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call(linear_program())


def test_inputs_that_have_a_default_need_not_be_given() -> None:
    program = linear_program()
    graph = program.model.graph
    graph.inputs.append(graph.initializers["fc.weight"])
    torch.testing.assert_close(program(torch.ones(1, 8))[0], expected_linear(program, torch.ones(1, 8)))


# Sessions


def test_sessions_are_opened_once_and_released() -> None:
    opened: list[bytes | str] = []

    def initializer(model: str | bytes) -> onnxruntime.InferenceSession:
        opened.append(model)
        return runtime.default_session(model)

    program = linear_program()
    program.initialize_inference_session(initializer)
    program(torch.ones(1, 8))
    program(torch.ones(1, 8))
    assert len(opened) == 1 and isinstance(opened[0], bytes)
    changes = [
        program.release,
        program.optimize,
        lambda: program.apply_weights({}),
        lambda: program.initialize_inference_session(initializer),
    ]
    for count, change in enumerate(changes, start=2):
        change()
        program(torch.ones(1, 8))
        assert len(opened) == count


def test_large_models_are_opened_from_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "MAX_PROTOBUF_BYTES", 2000)
    opened: list[str] = []

    def initializer(model: str | bytes) -> onnxruntime.InferenceSession:
        assert isinstance(model, str) and os.path.exists(f"{model}.data")
        opened.append(model)
        return runtime.default_session(model)

    program = linear_program()
    program.initialize_inference_session(initializer)
    torch.testing.assert_close(program(torch.ones(2, 8))[0], expected_linear(program, torch.ones(2, 8)))
    program.release()
    assert opened and not os.path.exists(opened[0])

    def failing(model: str | bytes) -> onnxruntime.InferenceSession:
        opened.append(str(model))
        raise KeyError("no session today")

    with pytest.raises(KeyError, match="no session today") as caught:
        program.initialize_inference_session(failing)
    assert caught.value.__traceback__ is not None
    assert not os.path.exists(opened[1])


def test_optimize_works_in_place() -> None:
    program = linear_program()
    x = program.model.graph.inputs[0]
    program.model.graph.append(programs.node("Relu", [x], programs.value("unused", shape=("batch", 8))))
    program.optimize()
    assert "Relu" not in {node.op_type for node in program.model.graph}
    torch.testing.assert_close(program(torch.ones(1, 8))[0], expected_linear(program, torch.ones(1, 8)))


def test_batch_norms_are_folded_on_request() -> None:
    block = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4)).eval()
    with torch.no_grad():
        block[1].running_mean.uniform_(-1, 1)
        block[1].running_var.uniform_(0.5, 2)
    x = torch.randn(2, 3, 8, 8)
    program = onnxport.export(block, (x,), opset_version=13)
    program.optimize(fold_batch_norm=True)
    assert [node.op_type for node in program.model.graph] == ["Conv"]
    torch.testing.assert_close(program(x)[0], block(x), rtol=1e-4, atol=1e-5)
    with pytest.raises(OnnxExporterError, match="holds the batch normalisation 1 as well"):
        program.apply_weights(block.state_dict())


def test_onnxruntime_is_imported_only_to_run() -> None:
    code = "import sys, onnxport.program; print('onnxruntime' in sys.modules)"
    source = Path(__file__).parents[2] / "src"
    run = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(source)}, capture_output=True, text=True
    )
    assert run.stdout == "False\n", run.stderr


# Values


def test_compute_values() -> None:
    program = linear_program()
    x = torch.randn(2, 8)
    names = ["total", "y", "x", "fc.bias", "total"]
    values = program.compute_values(names, (x,))
    assert isinstance(values, tuple) and len(values) == 5
    y = expected_linear(program, x)
    torch.testing.assert_close(values[1], y)
    torch.testing.assert_close(values["total"], y - 1)
    assert values["x"] is x
    assert values["fc.bias"] is program.model.graph.initializers["fc.bias"].const_value.raw
    assert [name for name, _ in values.items()] == names and list(dict(values)) == ["total", "y", "x", "fc.bias"]
    assert "y" in values and "z" not in values
    assert torch.equal(program.compute_values("y", kwargs={"x": x})["y"], values[1])
    assert [v.name for v in program.model.graph.outputs] == ["y"]


def test_compute_values_adds_each_output_once() -> None:
    opened: list[onnx.ModelProto] = []

    def initializer(model: str | bytes) -> onnxruntime.InferenceSession:
        opened.append(onnx.load_from_string(model))
        return runtime.default_session(model)

    program = linear_program()
    program.initialize_inference_session(initializer)
    program.compute_values(["total", "product", "total"], (torch.ones(1, 8),))
    assert [output.name for output in opened[-1].graph.output] == ["total", "product"]
    program.compute_values(["y", "x"], (torch.ones(1, 8),))
    assert len(opened) == 2


def test_computed_values_by_unknown_name() -> None:
    with pytest.raises(KeyError, match="'c' is not one of the computed values: a, b"):
        ComputedValues(["a", "b"], [torch.ones(1), torch.ones(1)])["c"]


def test_compute_values_of_unknown_names() -> None:
    with pytest.raises(ValueError, match=r"(?s)'totl'; did you mean 'total'\?.*'qqqq'"):
        linear_program().compute_values(["y", "totl", "qqqq"], (torch.ones(1, 8),))


# Saving


@pytest.mark.parametrize("external_data", [None, True])
def test_save_and_run(external_data, tmp_path: Path) -> None:
    program = linear_program(events=EventLog())
    program.save(tmp_path / "m.onnx", external_data=external_data)
    assert (tmp_path / "m.onnx.data").exists() == bool(external_data)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    x = np.ones((2, 8), np.float32)
    np.testing.assert_allclose(session.run(None, {"x": x})[0], program(torch.from_numpy(x))[0].numpy(), rtol=1e-5)
    assert [event.stage for event in program.events.of("stage")] == ["save"]


def test_weights_can_be_given_at_inference(tmp_path: Path) -> None:
    program = linear_program()
    program.save(tmp_path / "m.onnx", include_initializers=False, keep_initializers_as_inputs=True)
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    weights = {n: v.const_value.numpy() for n, v in program.model.graph.initializers.items() if n != "one"}
    x = torch.ones(2, 8)
    (y,) = session.run(None, {"x": x.numpy(), **weights})
    torch.testing.assert_close(torch.from_numpy(y), expected_linear(program, x))


def test_save_errors_leave_the_model_as_it_was(tmp_path: Path) -> None:
    program = linear_program()
    before = program.model_proto.SerializeToString()
    with pytest.raises(TypeError, match="needs a path"):
        program.save(io.BytesIO(), external_data=True)
    with pytest.raises(SaveError, match="does not exist"):
        program.save(tmp_path / "no" / "m.onnx", include_initializers=False, keep_initializers_as_inputs=True)
    assert program.model_proto.SerializeToString() == before


def test_model_proto() -> None:
    onnx.checker.check_model(linear_program().model_proto, full_check=True)


# Weights


def fake_program() -> ONNXProgram:
    with FakeTensorMode():
        weight, bias = torch.nn.Parameter(torch.empty(8, 64)), torch.empty(64)
    program = linear_program()
    program.model.graph.initializers["fc.weight"].const_value = TorchTensor(weight, "fc.weight")
    program.model.graph.initializers["fc.bias"].const_value = TorchTensor(bias, "fc.bias")
    return program


@pytest.mark.parametrize(
    "use", [lambda p: p.model_proto, lambda p: p(torch.ones(1, 8)), lambda p: p.save(io.BytesIO())]
)
def test_fake_weights_must_be_filled(use) -> None:
    program = fake_program()
    with pytest.raises(OnnxExporterError, match=r"(?s)2 weights have no values.*apply_weights.*fc\.weight.*fc\.bias"):
        use(program)
    program.apply_weights({"fc.weight": torch.ones(8, 64), "fc.bias": torch.zeros(64)})
    use(program)
    assert torch.equal(program(torch.ones(1, 8))[0], torch.full((1, 64), 9.0))


def test_applied_weights_reach_an_open_session() -> None:
    program = linear_program()
    program(torch.ones(1, 8))
    new = torch.nn.Parameter(torch.zeros(8, 64))
    program.apply_weights({"fc.weight": new})
    assert program.model.graph.initializers["fc.weight"].const_value.raw is new
    torch.testing.assert_close(program(torch.ones(1, 8))[0], expected_linear(program, torch.ones(1, 8)).detach())


def test_weights_that_do_not_fit_change_nothing() -> None:
    program = linear_program()
    before = program.model_proto.SerializeToString()
    with pytest.raises(OnnxExporterError, match="no weight was changed") as caught:
        program.apply_weights({"fc.weight": torch.ones(64, 8), "fc.bias": torch.ones(64).double()})
    assert "fc.weight: the model has the shape [8,64], the state dict [64,8]." in str(caught.value)
    assert "fc.bias: the model has FLOAT, the state dict DOUBLE." in str(caught.value)
    assert program.model_proto.SerializeToString() == before


def test_unknown_weights_are_listed() -> None:
    program = linear_program()
    with pytest.warns(OnnxExporterWarning, match=r"(?s)2 names.*fc\.weigth; did you mean 'fc\.weight'.*qqqq") as caught:
        program.apply_weights({"fc.weigth": torch.ones(1), "qqqq": torch.ones(1), "fc.bias": torch.zeros(64)})
    assert caught[0].filename == __file__
    assert program.model.graph.initializers["fc.bias"].const_value.raw.sum() == 0


def test_tied_weights_answer_to_each_name() -> None:
    program = linear_program()
    program.model.graph.initializers["fc.bias"].metadata_props["onnxport.aliases"] = "head.bias,tail.bias"
    shared = torch.zeros(64)
    program.apply_weights({"head.bias": shared})
    assert program.model.graph.initializers["fc.bias"].const_value.raw is shared
    program.apply_weights({"tail.bias": torch.ones(64), "fc.bias": torch.ones(64)})
    with pytest.raises(OnnxExporterError, match=r"fc\.bias: shares its weight with tail\.bias, but the values differ"):
        program.apply_weights({"tail.bias": torch.ones(64), "fc.bias": torch.zeros(64)})


# Printing


def test_printing_follows_the_specification() -> None:
    x, y = programs.value("x", shape=("s0", 3)), programs.value("y", shape=("s0", 3))
    program = ONNXProgram(programs.model([x], [y], [programs.node("Sin", [x], y)]), None)
    text = str(program)
    assert '    inputs=(\n        %"x"<FLOAT,[s0,3]>\n    ),' in text
    assert '    0 |  # node_y\n         %"y"<FLOAT,[s0,3]> ⬅️ ::Sin(%"x")\n    return %"y"<FLOAT,[s0,3]>\n}' in text
    assert repr(program) == "ONNXProgram(main_graph: x[s0,3] -> y[s0,3]; opset 20, 1 node, 0 parameters)"


def test_a_program_shows_itself_in_a_notebook() -> None:
    x, y = programs.value("x<b>", shape=("s0", 3)), programs.value("y", shape=("s0", 3))
    program = ONNXProgram(programs.model([x], [y], [programs.node("Sin", [x], y)]), None)
    page = program._repr_html_()
    assert "x&lt;b&gt;</code></td><td><code>FLOAT[s0,3]" in page and "<code>Sin</code></td><td>1" in page
    assert "<script" not in page


def test_the_summary_counts_nodes_of_branches_and_functions() -> None:
    program = linear_program()
    summary = program.summary()
    assert summary.nodes == sum(summary.operators.values()) == program.model.graph.num_nodes()
    assert summary.parameters * 4 == summary.weight_bytes > 0
    lines = str(summary).splitlines()
    assert [line.split()[0] for line in lines[1:]][:2] == ["input", "output"]
    assert f"  parameters  {summary.parameters:,}" in lines


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp437"])
def test_printing_keeps_to_the_encoding_of_the_stream(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = programs.value("größe", shape=("s0",)), programs.value("y", shape=("s0",))
    program = ONNXProgram(programs.model([x], [y], [programs.node("Sin", [x], y)]), None)
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, encoding=encoding)
    monkeypatch.setattr(sys, "stdout", stream)
    print(program)
    print(repr(program))
    program.display()
    stream.flush()
    monkeypatch.undo()
    assert '<FLOAT,[s0]> <- ::Sin(%"gr' in written.getvalue().decode(encoding)


def test_display_pages(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    paged: list[str] = []
    monkeypatch.setattr("pydoc.pager", paged.append)
    program = linear_program()
    program.display(page=True)
    program.display()
    assert paged == [str(program)] and capsys.readouterr().out == f"{program}\n"


def test_the_model_is_an_onnx_ir_model() -> None:
    program, _, _ = nested_program()
    assert isinstance(program.model, ir.Model)
    assert isinstance(program.exported_program, torch.export.ExportedProgram)
