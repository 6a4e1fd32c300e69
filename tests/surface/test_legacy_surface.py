"""What code for the TorchScript exporter finds around the call: names of nodes, shapes as tensors, forms of shapes."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.onnx.operators
from torch import nn
from torch.export import Dim

import onnxport

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
X = torch.randn(3, 4)


class Layered(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.stages = nn.Sequential(nn.Sequential(nn.Conv1d(2, 2, 1), nn.ReLU()), nn.ReLU())
        self.heads = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])

    def forward(self, x: Any) -> Any:
        y = self.stages(self.layer(x).unsqueeze(-1)).squeeze(-1)
        return self.heads[0](y) + self.heads[1](y) + self.layer(x)


def _as_torch_onnx(model: nn.Module) -> list[str]:
    """What its exporter calls nodes, but for constants, which are nodes there."""
    import io

    import onnx

    file = io.BytesIO()
    torch.onnx.export(model, (X,), file, dynamo=False)  # noqa: TID251  what ours is compared with
    names = [str(node.name) for node in onnx.load_from_string(file.getvalue()).graph.node]
    return [name for name in names if "Constant" not in name]


@pytest.mark.parametrize("kind", ["module", "trace"])
def test_nodes_are_named_by_their_modules(kind: str) -> None:
    model = Layered().eval()
    given: Any = model if kind == "module" else torch.jit.trace(model, (X,))
    program = onnxport.export(given, (X,), dynamo=False)
    assert [node.name for node in program.model_proto.graph.node] == _as_torch_onnx(model)


class ByShape(nn.Module):
    def __init__(self, operators: Any) -> None:
        super().__init__()
        self.operators = operators

    def forward(self, x: Any) -> Any:
        shape = self.operators.shape_as_tensor(x)
        turned = self.operators.reshape_from_tensor_shape(x * 2, torch.stack([shape[1], shape[0]]))
        return turned, shape, self.operators.reshape_from_tensor_shape(x, torch.tensor([2, -1]))


@pytest.mark.parametrize("dynamo", [True, False])
@pytest.mark.parametrize("operators", [onnxport.operators, torch.onnx.operators], ids=["ours", "torch"])
def test_shapes_as_tensors(operators: Any, dynamo: bool) -> None:
    model = ByShape(operators)
    program = onnxport.export(model, (X,), dynamo=dynamo, input_names=["x"], dynamic_axes={"x": [0]})
    x = torch.randn(6, 4)
    torch.testing.assert_close(list(program(x)), list(model(x)))


class Added(nn.Module):
    def forward(self, a: Any, b: Any) -> Any:
        return a + b


@pytest.mark.parametrize("dynamo", [True, False])
def test_dynamic_shapes_by_the_names_of_inputs(dynamo: bool) -> None:
    shapes = {"u": {0: "n"}, "v": {0: "n"}}
    program = onnxport.export(Added(), (X, X), dynamo=dynamo, input_names=["u", "v"], dynamic_shapes=shapes)
    assert [str(value.shape[0]) for value in program.model.graph.inputs] == ["n", "n"]  # type: ignore[index]


class Gathers(nn.Module):
    def forward(self, *args: Any) -> Any:
        return args[0] + args[1]


N = Dim("n")
OWN_FORMS: dict[str, Any] = {
    "by name": {"args": ({0: N}, {0: N})},
    "by position": (({0: N}, {0: N}),),
    "one by one": ({0: N}, {0: N}),
}


@pytest.mark.parametrize("shapes", OWN_FORMS.values(), ids=OWN_FORMS.keys())
def test_dynamic_shapes_beside_a_captured_program(shapes: Any) -> None:
    captured = torch.export.export(Gathers(), (X, X), dynamic_shapes=OWN_FORMS["by name"])
    program = onnxport.export(captured, (X, X), dynamic_shapes=shapes)
    assert [str(value.shape[0]) for value in program.model.graph.inputs] == ["n", "n"]  # type: ignore[index]


def test_saving_where_tensors_are_fake(tmp_path: Path) -> None:
    with onnxport.enable_fake_mode():
        program = onnxport.export(Layered().eval(), (torch.randn(3, 4),))
        program.save(tmp_path / "structure.onnx", include_initializers=False)
    model = Layered().eval()
    program.apply_weights(model.state_dict())
    with onnxport.enable_fake_mode():
        program.save(tmp_path / "model.onnx", external_data=False)
        whole = program.model_proto
        weights = [value.const_value for value in program.model.graph.initializers.values()]
        assert [len(weight.tobytes()) for weight in weights] == [weight.numpy().nbytes for weight in weights]
    assert whole == program.model_proto
    assert (tmp_path / "structure.onnx").stat().st_size > 0
    assert (tmp_path / "model.onnx").stat().st_size > 0
    torch.testing.assert_close(program(X)[0], model(X), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("layer", "x"), [(nn.Conv2d(2, 3, (1, 3)), (1, 2, 5, 5)), (nn.ConvTranspose1d(2, 3, 4), (1, 2, 5))]
)
def test_convolutions_say_how_large_their_kernel_is(layer: Any, x: Any) -> None:
    program = onnxport.export(layer, (torch.randn(x),))
    (node,) = program.model.graph
    assert list(node.attributes["kernel_shape"].as_ints()) == list(layer.kernel_size)


class AttendsToMore(nn.Module):
    def forward(self, q: Any, k: Any, v: Any) -> Any:
        return nn.functional.scaled_dot_product_attention(q, k, v)


@pytest.mark.parametrize("opset", [13, 18, 23])
def test_keys_with_more_heads_than_the_query(opset: int) -> None:
    args = torch.randn(2, 1, 5, 8), torch.randn(2, 4, 6, 8), torch.randn(2, 4, 6, 8)
    program = onnxport.export(AttendsToMore(), args, opset_version=opset)
    torch.testing.assert_close(program(*args)[0], AttendsToMore()(*args), rtol=1e-4, atol=1e-5)


class Refused(Exception):
    """An error of the user's with an attribute of its own."""

    def __init__(self, width: int) -> None:
        super().__init__(f"width {width}")
        self.width = width


class Refusing(nn.Module):
    """Raises what it is given."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        raise self.error


@pytest.mark.parametrize("error", [ValueError("no rows"), KeyError("rows"), Refused(3)], ids=repr)
def test_what_a_model_raises_is_caught_as_such(error: Exception) -> None:
    """The TorchScript exporter lets it through; here it is a sentence with the line as well."""
    with pytest.raises(type(error)) as caught:
        onnxport.export(Refusing(error), (torch.ones(2),), None, dynamo=False)
    assert isinstance(caught.value, onnxport.errors.CaptureError)
    assert caught.value.__cause__ is error
    assert "in forward: raise self.error" in str(caught.value)
    assert getattr(caught.value, "width", None) == getattr(error, "width", None)
    again = pickle.loads(pickle.dumps(type(caught.value)("It failed.")))
    assert isinstance(again, type(error)) and str(again) == "It failed."


class NeverThere(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor | None]:
        return x * 2, None


def test_none_among_the_results_of_a_script_says_no_sizes() -> None:
    scripted = torch.jit.script(NeverThere())
    program = onnxport.export(scripted, (X,), None, dynamo=False, opset_version=17)
    optional = program.model_proto.graph.output[1].type.optional_type.elem_type.tensor_type
    assert optional.elem_type == 1 and not optional.HasField("shape")
    doubled, nothing = program(X)
    assert torch.equal(doubled, X * 2) and nothing is None
