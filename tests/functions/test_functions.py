"""Modules as ONNX functions: what becomes one, what is shared, and that nothing else changes."""

from __future__ import annotations

import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch

import onnxport
from onnxport.errors import InputError, OnnxExporterError, OpsetError
from zoo import ZOO

pytestmark = pytest.mark.filterwarnings("ignore:`export_modules_as_functions`:DeprecationWarning")


class Block(torch.nn.Module):
    """Has a function of its own, two in it, and a size that depends on the input."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(width, width)
        self.norm = torch.nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.fc(x)).relu()
        return x + y.reshape(x.shape[0] * x.shape[1], x.shape[2]).reshape(x.shape)


class Stack(torch.nn.Module):
    """Three equal blocks, and one that is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList([Block() for _ in range(3)])
        self.again = Block()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.again(self.again(x))


class Wide(torch.nn.Module):
    """Linear layers of different widths, one without a bias, and one whose middle result is an output too."""

    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Linear(4, 8)
        self.down = torch.nn.Linear(8, 4)
        self.out = torch.nn.Linear(4, 2, bias=False)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.down(self.up(x).relu())
        return self.out(y), y


class Pair(torch.nn.Module):
    """Two inputs, two outputs, a constant and a branch."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(4))
        self.register_buffer("table", torch.arange(400.0).reshape(100, 4))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        z = torch.cond(x.sum() > 0, lambda a: a * self.scale + 2.0, lambda a: a - self.scale, (x,))
        return z + self.table[3], z * y.shape[0] - y


class Pairs(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Pair(), Pair()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, b = self.first(x, x + 1.0)
        a, b = self.second(a, b)
        return a - b


class Tied(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.two.weight = self.one.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.two(self.one(x))


STEPS: dict[str, tuple[type[torch.nn.Module], Any, Counter[str]]] = {
    "all": (Stack, True, Counter(Block=5)),
    "blocks": (Stack, {Block}, Counter(Block=5)),
    "linear": (Stack, {torch.nn.Linear}, Counter(Linear=5)),
    "two-kinds": (Stack, {torch.nn.Linear, torch.nn.LayerNorm}, Counter(Linear=5, LayerNorm=5)),
    "widths": (Wide, True, Counter({"Linear": 2, "Linear.1": 1})),
    "branches": (Pairs, True, Counter(Pair=2)),
    "tied": (Tied, True, Counter(Linear=2)),
}


def as_functions(model: torch.nn.Module, which: Any = True, **options: Any) -> onnxport.ONNXProgram:
    sizes = {0: "batch", 1: "length"}
    return onnxport.export(
        model, (torch.randn(2, 3, 4),), dynamic_shapes=(sizes,), export_modules_as_functions=which, **options
    )


def called(program: onnxport.ONNXProgram) -> Counter[str]:
    functions = {identifier[:2] for identifier in program.model.functions}
    return Counter(node.op_type for node in program.model.graph if (node.domain, node.op_type) in functions)


def agree(program: onnxport.ONNXProgram, model: torch.nn.Module, *inputs: Any) -> None:
    expected = model(*inputs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    torch.testing.assert_close(program(*inputs), expected, atol=1e-5, rtol=1e-4)


@pytest.mark.filterwarnings("ignore:The exported model follows the example")
@pytest.mark.parametrize("opset", [15, 17, 20, 23])
@pytest.mark.parametrize("step", STEPS)
def test_functions_are_called_checked_and_run_at_other_sizes(step: str, opset: int) -> None:
    kind, which, expected = STEPS[step]
    model = kind().eval()
    program = as_functions(model, which, opset_version=opset)
    assert called(program) == expected
    assert program.model.opset_imports[""] == opset
    onnx.checker.check_model(program.model_proto, full_check=True)
    for shape in [(2, 3, 4), (5, 7, 4), (1, 1, 4)]:
        agree(program, model, torch.randn(shape))


@pytest.mark.filterwarnings("ignore:The exported model follows the example")
@pytest.mark.parametrize("step", STEPS)
def test_inlining_gives_the_flat_graph_again(step: str) -> None:
    kind, which, _ = STEPS[step]
    model = kind().eval()
    program = as_functions(model, which)
    program.inline_functions()
    assert not program.model.functions
    assert list(program.model.opset_imports) == [""]
    onnx.checker.check_model(program.model_proto, full_check=True)
    agree(program, model, torch.randn(5, 7, 4))


def test_domain_is_the_python_module_and_modules_nest() -> None:
    model = Stack().eval()
    program = as_functions(model)
    agree(program, model, torch.randn(5, 7, 4))
    identifiers = [identifier[:2] for identifier in program.model.functions]
    assert identifiers == [
        ("torch.nn.modules.linear", "Linear"),
        ("torch.nn.modules.normalization", "LayerNorm"),
        (__name__, "Block"),
    ]
    block = program.model.functions[__name__, "Block", ""]
    assert {"Linear", "LayerNorm"} <= {node.op_type for node in block}
    assert [value.name for value in block.inputs] == ["input_0", "fc.weight", "fc.bias", "norm.weight", "norm.bias"]


def test_a_class_in_a_function_is_named_after_its_python_module() -> None:
    class Local(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.sin() + 1.0

    model = torch.nn.Sequential(Local())
    program = as_functions(model)
    agree(program, model, torch.randn(2, 3, 4))
    assert [identifier[:2] for identifier in program.model.functions] == [(__name__, "Local")]


def test_sizes_that_differ_between_calls_are_left_open() -> None:
    program = as_functions(Wide())
    linear = program.model.functions["torch.nn.modules.linear", "Linear", ""]
    assert not any(isinstance(dim, int) for value in linear.inputs for dim in value.shape or ())
    assert [len(value.shape or ()) for value in linear.inputs] == [3, 2, 1]


class Annotated(torch.nn.Module):
    rate: float
    sizes: tuple[int, ...]
    mode: str
    on: bool
    missing: int | None
    weight: torch.nn.Parameter

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate, self.sizes, self.mode, self.on, self.missing = rate, (1, 2), "fast", True, None
        self.plain = 3
        self.weight = torch.nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.weight


def test_annotated_variables_are_attributes_of_the_calls() -> None:
    model = torch.nn.Sequential(Annotated(0.5), Annotated(0.25))
    program = as_functions(model)
    (function,) = program.model.functions.values()
    assert list(function.attributes) == ["rate", "sizes", "mode", "on"]
    found = [{name: attribute.value for name, attribute in node.attributes.items()} for node in program.model.graph]
    assert found == [{"rate": rate, "sizes": (1, 2), "mode": "fast", "on": 1} for rate in (0.5, 0.25)]
    onnx.checker.check_model(program.model_proto, full_check=True)
    agree(program, model, torch.randn(5, 7, 4))


def fake_with_weights(model: torch.nn.Module) -> onnxport.ONNXProgram:
    with onnxport.enable_fake_mode():
        fake, x = Stack().eval(), torch.randn(2, 3, 4)
    sizes = {0: "batch", 1: "length"}
    program = onnxport.export(fake, (x,), dynamic_shapes=(sizes,), export_modules_as_functions=True)
    program.apply_weights(model.state_dict())
    return program


def optimized_again(model: torch.nn.Module) -> onnxport.ONNXProgram:
    program = as_functions(model)
    program.optimize()
    return program


def from_a_program(model: torch.nn.Module, strict: bool = False) -> onnxport.ONNXProgram:
    dynamic = torch.export.Dim.DYNAMIC
    shapes = ({0: dynamic, 1: dynamic},)
    captured = torch.export.export(model, (torch.randn(2, 3, 4),), dynamic_shapes=shapes, strict=strict)
    return onnxport.export(captured, export_modules_as_functions=True)


WAYS = {
    "fake": fake_with_weights,
    "optimized": optimized_again,
    "program": from_a_program,
    "strict": lambda model: from_a_program(model, strict=True),
}


@pytest.mark.parametrize("way", WAYS)
def test_other_ways_to_a_program_with_functions(way: str) -> None:
    model = Stack().eval()
    program = WAYS[way](model)
    assert called(program) == Counter(Block=5)
    agree(program, model, torch.randn(5, 7, 4))


def test_without_optimization_too() -> None:
    model = Stack().eval()
    program = as_functions(model, optimize=False)
    agree(program, model, torch.randn(5, 7, 4))
    assert called(program)["Block"] >= 1


def test_equal_modules_of_two_classes_have_two_functions() -> None:
    class Other(torch.nn.ReLU):
        pass

    program = as_functions(torch.nn.Sequential(torch.nn.ReLU(), Other()))
    assert len(program.model.functions) == 2


def test_saved_loaded_printed_weighed_and_computed(tmp_path: Path) -> None:
    import onnxruntime

    model = Stack().eval()
    program = as_functions(model, f=tmp_path / "model.onnx")
    assert "def torch.nn.modules.linear::Linear(" in str(program)
    x = torch.randn(5, 7, 4)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    torch.testing.assert_close(torch.from_numpy(session.run(None, {"x": x.numpy()})[0]), model(x), atol=1e-5, rtol=1e-4)

    other = Stack().eval()
    program.apply_weights(other.state_dict())
    agree(program, other, x)
    torch.testing.assert_close(program.compute_values(["add"], (x,))["add"], other.blocks[0](x), atol=1e-5, rtol=1e-4)
    assert onnxport.verification.find_mismatch(program) is not None
    program.apply_weights(model.state_dict())
    assert onnxport.verification.find_mismatch(program) is None


def test_report_and_verification(tmp_path: Path) -> None:
    program = as_functions(Stack().eval(), report=True, verify=True, artifacts_dir=tmp_path)
    assert program.verification is not None and all(run.matches for run in program.verification.runs)
    page = next(tmp_path.glob("*_success.html")).read_text()
    assert "Block" in page
    assert next(tmp_path.glob("*_success.md")).read_text().count("::Block") >= 5


def test_deterministic(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = Stack().eval()
    for name in "ab":
        as_functions(model, f=tmp_path / name, external_data=False)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.parametrize("which", [True, {torch.nn.Linear}])
def test_old_opsets_have_no_functions(which: Any) -> None:
    with pytest.raises(OpsetError, match="need opset 15 or newer, not 14") as caught:
        as_functions(Stack(), which, opset_version=14)
    assert isinstance(caught.value, OnnxExporterError)


@pytest.mark.parametrize("which", [{"Linear"}, {int}, torch.nn.Linear, "all"])
def test_other_requests_are_refused(which: Any) -> None:
    with pytest.raises(InputError, match="takes True or a set of module classes"):
        as_functions(Stack(), which)


@pytest.mark.parametrize("which", [False, set()])
def test_nothing_asked_nothing_done(which: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DeprecationWarning)
        assert not as_functions(Stack(), False).model.functions
    assert not as_functions(Stack(), which).model.functions


class Unlike(torch.nn.Module):
    """Blocks that differ in numbers only, one of them in another block."""

    class Block(torch.nn.Module):
        def __init__(self, number: float) -> None:
            super().__init__()
            self.norm = torch.nn.LayerNorm(3, eps=number)
            self.celu = torch.nn.CELU(1 + number)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.as_tensor(self.celu(self.norm(x)))

    def __init__(self) -> None:
        super().__init__()
        self.blocks = torch.nn.ModuleList(self.Block(number) for number in (0.1, 0.5, 0.5))
        self.wide, self.narrow = torch.nn.Conv1d(2, 2, 3, padding=1), torch.nn.Conv1d(2, 2, 1, stride=2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return torch.as_tensor(self.narrow(self.wide(x)))


def test_calls_state_the_attributes_that_they_differ_in() -> None:
    torch.manual_seed(0)
    model = Unlike().eval()
    program = onnxport.export(
        model, (torch.rand(1, 2, 3),), dynamic_shapes=({0: "n"},), opset_version=17, export_modules_as_functions=True
    )
    functions = {name: function for (_, name, _), function in program.model.functions.items()}
    assert sorted(functions) == ["Block", "CELU", "Conv1d", "LayerNorm"]
    stated = {name: [a for a in function.attributes if "::" in a] for name, function in functions.items()}
    assert stated["CELU"] == ["inferred::alpha"] and stated["LayerNorm"] == ["inferred::epsilon"]
    assert stated["Conv1d"] == ["inferred::kernel_shape", "inferred::pads", "inferred::strides"]
    calls = [node for node in program.model.graph if node.op_type == "Block"]
    alphas = [call.attributes[stated["Block"][-1]].as_float() for call in calls]
    assert alphas == pytest.approx([1.1, 1.5, 1.5])
    onnx.checker.check_model(program.model_proto, full_check=True)
    x = torch.randn(4, 2, 3)
    expected = model(x).detach()
    torch.testing.assert_close(program(x)[0], expected, rtol=1e-5, atol=1e-6)
    program.inline_functions()
    torch.testing.assert_close(program(x)[0], expected, rtol=1e-5, atol=1e-6)


def test_a_class_that_is_not_called_is_a_warning() -> None:
    program = as_functions(Stack(), {torch.nn.Conv2d})
    assert program.events is not None
    assert [event.message for event in program.events.of("warning") if event.stage == "functions"] == [
        "No module of class torch.nn.modules.conv.Conv2d is called: there is no function of it."
    ]


ROWS = {zoo.name: zoo for zoo in ZOO}


@pytest.mark.parametrize(("name", "opset", "layer"), [("llama", 23, "LlamaDecoderLayer"), ("gpt2", 15, "GPT2Block")])
def test_whole_models(name: str, opset: int, layer: str) -> None:
    zoo = ROWS[name]
    torch.manual_seed(0)
    model = zoo.build().eval()
    program = onnxport.export(
        model,
        kwargs=zoo.inputs(*zoo.traced),
        dynamic_shapes=zoo.dynamic_shapes,
        opset_version=opset,
        export_modules_as_functions=True,
    )
    assert sum(identifier[1].startswith(layer) for identifier in program.model.functions) == 1
    for size in zoo.others:
        inputs = zoo.inputs(*size)
        with torch.no_grad():
            expected = torch.utils._pytree.tree_leaves(model(**inputs).to_tuple())
        torch.testing.assert_close(list(program(**inputs)), expected, rtol=zoo.tolerance, atol=zoo.tolerance)
