"""Targets: what the file of each looks like, what is refused, and profiles of the user's own."""

from __future__ import annotations

from pathlib import Path

import onnx
import onnx_ir as ir
import pytest
import torch
from torch import Tensor, nn

import onnxport
from comparison import assert_close
from onnxport.errors import InputError, TargetError
from onnxport.legalize import check_ir_version, check_opset
from onnxport.program.targeted import fitted
from onnxport.targets import PROFILES, Target
from onnxport.weights.external_data import read_model


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.fc = nn.LayerNorm(8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.gelu(self.fc(self.norm(x)))


def x(batch: int = 2) -> Tensor:
    return torch.randn(batch, 3, 8)


DYNAMIC = ({0: "batch"},)


@pytest.mark.parametrize("name", PROFILES)
def test_every_profile_writes_a_file_that_onnxruntime_runs(name: str, tmp_path: Path) -> None:
    target, model = PROFILES[name], Block()
    check_opset(target.opset)
    check_ir_version(target.ir_version)
    assert target.basis
    shapes = None if target.fixed_sizes else DYNAMIC
    program = onnxport.export(model, (x(),), tmp_path / "m.onnx", target=name, dynamic_shapes=shapes)
    proto = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(proto, full_check=True)
    assert proto.opset_import[0].version == target.opset
    assert bool(proto.graph.value_info) == target.inner_shapes
    assert not target.rewritten & {node.op_type for node in proto.graph.node}
    other = x(2 if target.fixed_sizes else 5)
    assert_close(program(other)[0], model(other))


@pytest.mark.parametrize("name", PROFILES)
def test_a_program_can_be_saved_for_another_target(name: str, tmp_path: Path) -> None:
    program = onnxport.export(Block(), (x(),), opset_version=20)
    before = str(program.model)
    program.save(tmp_path / "m.onnx", target=name)
    proto = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(proto, full_check=True)
    target = PROFILES[name]
    assert proto.opset_import[0].version == (20 if target.newest_opset >= 20 else target.opset)
    assert bool(proto.graph.value_info) == target.inner_shapes
    assert str(program.model) == before


def test_sizes_inside_are_left_to_the_reader_by_name(tmp_path: Path) -> None:
    class Halves(nn.Module):
        def forward(self, x: Tensor, take: Tensor) -> Tensor:
            return torch.cond(take.all(), lambda x: (x + 1).exp(), lambda x: (x - 1).sin(), (x.relu(),)).neg()

    inputs = (x(), torch.tensor([True]))
    program = onnxport.export(Halves(), inputs, tmp_path / "m.onnx", dynamic_shapes=({0: "batch"}, None))
    proto = onnx.load(tmp_path / "m.onnx")
    (branch,) = (node for node in proto.graph.node if node.op_type == "If")
    inner = [info for graph in (proto.graph, *(part.g for part in branch.attribute)) for info in graph.value_info]
    named = {dim.dim_param for info in inner for dim in info.type.tensor_type.shape.dim if dim.dim_param}
    assert named == {"unk__batch"}
    stated = [info.type.tensor_type.shape.dim[0].dim_param for info in (proto.graph.input[0], proto.graph.output[0])]
    assert stated == ["batch", "batch"]
    # Whoever reads the file here knows them by name again.
    read = read_model(tmp_path / "m.onnx")
    sizes = {str(dim) for node in read.graph for out in node.outputs if out.shape for dim in out.shape}
    assert "batch" in sizes and "unk__batch" not in sizes
    assert_close(program(other := x(5), inputs[1])[0], Halves()(other, inputs[1]))


class Growing(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[x > 0].sort().values


def test_sizes_that_vary_are_refused_by_name_and_line() -> None:
    with pytest.raises(TargetError, match="the input x has sizes that vary: batch") as caught:
        onnxport.export(Block(), (x(),), target="rknn", dynamic_shapes=DYNAMIC)
    # What is computed of it varies too, and is not told.
    assert len(caught.value.problems) == 1
    with pytest.raises(TargetError, match="known at run time only") as caught:
        onnxport.export(Growing(), (torch.randn(5),), target="ncnn")
    assert any("test_targets.py" in problem.where for problem in caught.value.problems)


@pytest.mark.parametrize("target", ["tract", "mnn"])
def test_attributes_that_a_target_does_not_read_are_refused(target: str) -> None:
    given = (torch.randn(3, 2, 4),)
    with pytest.raises(TargetError, match="RNN states activations, an attribute that it does not read"):
        onnxport.export(nn.RNN(4, 5, nonlinearity="relu"), given, target=target)
    program = onnxport.export(nn.RNN(4, 5), given, target=target)
    assert "RNN" in {node.op_type for node in program.model.graph}


class Random(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.unique(x).double().sum() + torch.randn_like(x).sum()


def test_operators_and_types_that_a_target_has_not_are_all_told() -> None:
    drawing = frozenset({"Unique", "RandomNormal", "RandomNormalLike"})
    own = Target("mine", refused=drawing, refused_types=frozenset({ir.DataType.DOUBLE}))
    with pytest.raises(TargetError, match="The target mine can't hold this model") as caught:
        onnxport.export(Random(), (torch.randn(5),), target=own)
    told = str(caught.value)
    assert "Unique is" in told and "RandomNormal" in told and "gives double" in told and "test_targets.py" in told


@pytest.mark.parametrize("opset", [17, 18, 20, 22])
def test_operators_of_an_own_target_are_rewritten(opset: int) -> None:
    own = Target("mine", opset=opset, rewritten=frozenset({"LayerNormalization", "Gelu"}))
    model = Block()
    program = onnxport.export(model, (x(),), target=own, dynamic_shapes=DYNAMIC)
    assert program.model.opset_imports[""] == opset
    assert not own.rewritten & {node.op_type for node in program.model.graph}
    assert_close(program(other := x(5))[0], model(other))


class Meeting(nn.Module):
    """Rows that are added where others are too, kept where nothing is, and sizes between pixels in two ways."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        places = torch.tensor([1, 0, 1])
        added, kept = x.index_add(1, places, x), x.index_copy(1, places[:2], x[:, :2])
        ways = [nn.functional.interpolate(x[:, None], scale_factor=2.0, mode=mode) for mode in ("bicubic", "bilinear")]
        return added, kept, ways[0], ways[1]


def test_operators_that_state_an_attribute_are_rewritten() -> None:
    example, other = (torch.randn(rows, 3, 4) for rows in (2, 5))
    program = onnxport.export(Meeting(), (example,), target="mnn", dynamic_shapes=DYNAMIC)
    nodes = list(program.model.graph.all_nodes())
    assert not any("reduction" in node.attributes for node in nodes)
    assert [node.attributes["mode"].value for node in nodes if node.op_type == "Resize"] == ["linear"]
    for found, wanted in zip(program(other), Meeting()(other), strict=True):
        assert_close(found, wanted)
    later = onnxport.export(Meeting(), (example,))
    assert any("reduction" in node.attributes for node in later.model.graph)
    assert not any("reduction" in node.attributes for node in fitted(later.model, PROFILES["mnn"]).graph)


class Frames(nn.Module):
    def __init__(self, samples: int) -> None:
        super().__init__()
        self.samples = samples

    def forward(self, x: Tensor) -> Tensor:
        return torch.stft(x, self.samples, window=torch.hann_window(self.samples), return_complex=True).abs()


@pytest.mark.parametrize(
    ("samples", "target", "transforms"),
    [(8, "onnx", False), (1030, "onnx", False), (2048, "onnx", True), (2048, "opencv", False)],
)
def test_frames_are_transformed_by_products(samples: int, target: str, transforms: bool) -> None:
    model = Frames(samples)
    program = onnxport.export(model, (torch.randn(2, 3000),), target=target, dynamic_shapes=({0: "n", 1: "t"},))
    assert ("STFT" in {node.op_type for node in program.model.graph}) == transforms
    x = torch.randn(3, 3500)
    torch.testing.assert_close(program(x)[0], model(x), rtol=1e-3, atol=1e-3)


class Loss(nn.Module):
    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return nn.functional.cross_entropy(x, y)


def test_losses_are_rewritten_for_tensorrt() -> None:
    example = (torch.randn(4, 3), torch.tensor([0, 2, 1, 1]))
    assert "SoftmaxCrossEntropyLoss" in {n.op_type for n in onnxport.export(Loss(), example).model.graph}
    program = onnxport.export(Loss(), example, target="tensorrt")
    assert not PROFILES["tensorrt"].rewritten & {node.op_type for node in program.model.graph}
    assert_close(program(*example)[0], Loss()(*example))


class Scaled(nn.Module):
    """Something over the length of something else, and a vector over its own."""

    def __init__(self, kept: bool) -> None:
        super().__init__()
        self.kept = kept

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return y / x.norm(dim=1, keepdim=self.kept), x / x.norm(dim=-1, keepdim=True)


@pytest.mark.parametrize("kept", [True, False])
def test_opencv_does_not_take_a_division_by_a_length_for_a_normalization(kept: bool) -> None:
    axes = ({0: "batch"}, {0: "batch"})

    def given(batch: int) -> tuple[Tensor, Tensor]:
        return x(batch), torch.randn(batch, 3, 8) if kept else torch.randn(batch, 8)

    # A file of the default target may be saved for OpenCV afterwards.
    program = onnxport.export(Scaled(kept), given(2), target="opencv" if kept else "onnx", dynamic_shapes=axes)
    assert "ReduceL2" not in {node.op_type for node in program.model.graph}
    other = given(5)
    assert_close(list(program(*other)), list(Scaled(kept)(*other)))


class Padded(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(2, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(nn.functional.pad(x, (2, 0)))


def test_pnnx_reads_pads_and_groups() -> None:
    """It knows no mode of a Pad that is not stated, and groups only where the whole shape behind them is."""
    example = torch.randn(1, 4, 5)
    program = onnxport.export(Padded(), (example,), target="ncnn")
    nodes = {node.op_type: node for node in program.model.graph}
    assert nodes["Pad"].attributes.get_string("mode") == "constant"
    shape = ir.convenience.get_const_tensor(nodes["Reshape"].inputs[1])
    assert shape is not None and shape.numpy().tolist() == [1, 4, 7]
    assert_close(program(example)[0], Padded()(example))


def test_what_does_not_go_together_is_refused() -> None:
    with pytest.raises(TargetError, match="rknn reads opsets 12 to 19, not 20"):
        onnxport.export(Block(), (x(),), target="rknn", opset_version=20)
    with pytest.raises(InputError, match="did you mean 'opencv'"):
        onnxport.export(Block(), (x(),), target="opencl")


class Lookup(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 4)

    def forward(self, tokens: Tensor, x: Tensor) -> Tensor:
        return self.embed(tokens) + x + tokens.sum()


class Gated(nn.Module):
    """Halves of an axis, and a mask of what comes before, whose sizes operators other than torch's give."""

    def forward(self, x: Tensor) -> Tensor:
        y = nn.functional.glu(x, 1)
        return nn.functional.scaled_dot_product_attention(y, y, y, is_causal=True)


@pytest.mark.parametrize("target", ["rknn", "ncnn"])
def test_sizes_that_are_fixed_are_known_everywhere(target: str) -> None:
    program = onnxport.export(Gated(), (torch.randn(1, 4, 3, 8),), target=target)
    dims = [dim for node in program.model.graph for value in node.outputs for dim in value.shape or [None]]
    assert all(isinstance(dim, int) for dim in dims)
    other = torch.randn(1, 4, 3, 8)
    assert_close(program(other)[0], Gated()(other))


def test_inputs_are_int32_for_readers_without_int64(tmp_path: Path) -> None:
    model, example = Lookup(), (torch.tensor([[1, 2, 3]]), torch.randn(1, 3, 4))
    program = onnxport.export(model, example, tmp_path / "m.onnx", target="rknn")
    proto = onnx.load(tmp_path / "m.onnx")
    assert [value.type.tensor_type.elem_type for value in proto.graph.input] == [6, 1]
    other = (torch.tensor([[9, 0, 4]]), torch.randn(1, 3, 4))
    assert_close(program(*other)[0], model(*other))
    with pytest.raises(InputError, match=r"tokens: expected torch.int32, got torch.int64"):
        program(torch.tensor([[2**40, 0, 4]]), other[1])
    plain = onnxport.export(model, example)
    # pnnx looks at what numbers make of int64 to find the shapes, and of int32 at whatever is in memory.
    for target, kind in (("rknn", 6), ("ncnn", 7)):
        plain.save(tmp_path / "m.onnx", target=target)
        assert onnx.load(tmp_path / "m.onnx").graph.input[0].type.tensor_type.elem_type == kind
    assert plain.model.graph.inputs[0].dtype == ir.DataType.INT64
