"""The form of files that readers other than onnxruntime need; values are compared where the operators are tested."""

from __future__ import annotations

from collections.abc import Callable

import onnx
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import onnxport
from comparison import assert_close


class Call(nn.Module):
    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Tensor) -> Tensor:
        return self.function(*args)


def operators(program: onnxport.ONNXProgram) -> list[str]:
    return [node.op_type for node in program.model_proto.graph.node]


def by_counting(x: Tensor) -> Tensor:
    rows, columns = torch.arange(x.shape[0]), torch.arange(x.shape[1]) + 0
    return x[rows[:, None, None, None], columns[None, None, None, :]]


def turned(x: Tensor) -> Tensor:
    return x[torch.arange(x.shape[0]), torch.arange(x.shape[1])[:, None]]


def diagonal(x: Tensor) -> Tensor:
    return x[torch.arange(x.shape[0]), torch.arange(x.shape[0])]


def shifted(x: Tensor) -> Tensor:
    return x[torch.arange(1, x.shape[0])[:, None], torch.arange(x.shape[1])]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    ("read", "looked_up"), [(by_counting, False), (turned, False), (diagonal, True), (shifted, True)]
)
def test_counting_through_dimensions_looks_nothing_up(read, looked_up: bool, dynamic: bool) -> None:
    shapes = ({0: "rows", 1: "columns"},) if dynamic else None
    x = torch.randn(3, 4) > 0
    program = onnxport.export(Call(read), (x,), dynamic_shapes=(shapes,) if dynamic else None)
    assert ("GatherND" in operators(program)) == looked_up
    other = torch.randn(5, 6) > 0 if dynamic else torch.randn(3, 4) > 0
    assert torch.equal(program(other)[0], read(other))


def test_a_single_row_counts_too() -> None:
    x = torch.randn(1, 4)
    program = onnxport.export(Call(by_counting), (x,))
    assert "GatherND" not in operators(program)
    assert torch.equal(program(x)[0], by_counting(x))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_name_all_outputs(kind: type[nn.RNNBase]) -> None:
    layer = kind(3, 4)
    program = onnxport.export(Call(lambda x: layer(x)[0]), (torch.randn(5, 2, 3),))
    (node,) = [node for node in program.model_proto.graph.node if node.op_type == kind.__name__]
    assert len(node.output) == (3 if kind is nn.LSTM else 2)
    assert all(node.output)


@pytest.mark.parametrize("settings", [{"bias": False}, {"elementwise_affine": False}], ids=str)
def test_norms_have_a_bias(settings: dict[str, bool]) -> None:
    """onnxruntime's optimizer looks for it without asking."""
    model, example = nn.LayerNorm(6, **settings), torch.randn(2, 6)
    program = onnxport.export(model, (example,))
    (norm,) = program.model_proto.graph.node
    assert (norm.op_type, len(norm.input)) == ("LayerNormalization", 3)
    assert_close(program(example)[0], model(example))


def test_sums_of_whole_numbers_divide_by_no_more_than_32_bits_hold() -> None:
    """To OpenCV the lower half of 2³² is 0."""
    program = onnxport.export(Call(lambda x: x.sum(1)), (torch.ones(2, 3, dtype=torch.int64),))
    held = [onnx.numpy_helper.to_array(tensor) for tensor in program.model_proto.graph.initializer]
    assert max(abs(int(array.max())) for array in held) < 2**31
    x = torch.tensor([[2**62, 2**62 - 1, -3], [-(2**63), 5, 2**53 + 1]])
    assert_close(program(x)[0], x.sum(1))


def test_hard_sigmoid_leaves_out_what_is_default() -> None:
    program = onnxport.export(nn.Sequential(nn.Hardsigmoid(), nn.Hardswish()), (torch.randn(3),), opset_version=13)
    found = [node for node in program.model_proto.graph.node if node.op_type == "HardSigmoid"]
    assert [[attribute.name for attribute in node.attribute] for node in found] == [["alpha"], ["alpha"]]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("settings", [{}, {"ceil_mode": True}, {"count_include_pad": False}])
@pytest.mark.parametrize("size", [7, 8])
def test_a_pool_over_one_element_is_a_slice(settings: dict[str, bool], size: int, dynamic: bool) -> None:
    model = nn.Sequential(nn.ConstantPad2d((-1, 1, -1, 1), 0.0), nn.AvgPool2d(1, 2, **settings))
    shapes = ({2: "height", 3: "width"},) if dynamic else None
    program = onnxport.export(model, (torch.randn(2, 3, size, 8),), dynamic_shapes=shapes)
    assert "AveragePool" not in operators(program)
    x = torch.randn(2, 3, 11, 6) if dynamic else torch.randn(2, 3, size, 8)
    assert_close(program(x)[0], model(x))


def test_pools_over_one_element_that_go_nowhere_or_have_no_batch() -> None:
    for model, x in ((nn.AvgPool2d(1), torch.randn(1, 3, 4, 4)), (nn.AvgPool1d(1, 3), torch.randn(2, 7))):
        assert_close(onnxport.export(model, (x,))(x)[0], model(x))


@pytest.mark.parametrize(("padding", "counted"), [(0, None), (1, 0)])
def test_pools_state_whether_padding_counts(padding: int, counted: int | None) -> None:
    model = nn.AvgPool2d(3, 2, padding, count_include_pad=False)
    (node,) = onnxport.export(model, (torch.randn(1, 3, 8, 8),)).model_proto.graph.node
    assert {a.name: a.i for a in node.attribute}.get("count_include_pad") == counted


@pytest.mark.parametrize(
    ("model", "sizes"),
    [
        (nn.AvgPool3d(2), (4, 4, 4)),
        (nn.MaxPool3d(2), (4, 4, 4)),
        (nn.AdaptiveMaxPool3d(2), (4, 4, 4)),
        (nn.AdaptiveAvgPool3d(2), (4, 4, 4)),
        (nn.LocalResponseNorm(3), (4, 5)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_pools_state_that_nothing_is_padded(model: nn.Module, sizes: tuple[int, ...]) -> None:
    """MNN ends the process otherwise, for three axes."""
    nodes = onnxport.export(model, (torch.randn(1, 2, *sizes),)).model_proto.graph.node
    assert all("pads" in {a.name for a in node.attribute} for node in nodes if node.op_type.endswith("Pool"))


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    ("settings", "padded"),
    [((3, 2, 1), True), ((3, 2, 0), False), ((2, 3, 1), False), ((3, 2, 1, True, False), False)],
    ids=str,
)
def test_pools_that_count_padding_and_round_up_read_what_is_padded(
    settings: tuple[int, ...], padded: bool, dynamic: bool
) -> None:
    """OpenVINO and OpenCV count what windows reach over the end if the pool counts padding."""
    model = nn.AvgPool2d(*settings[:3], *(settings[3:] or (True,)))
    shapes = ({2: "height", 3: "width"},) if dynamic else None
    program = onnxport.export(model, (torch.randn(1, 3, 8, 6),), dynamic_shapes=shapes)
    assert ("Pad" in operators(program)) == padded
    for height, width in ((8, 6), (9, 7), (7, 5), (5, 10)) if dynamic else ((8, 6),):
        x = torch.randn(1, 3, height, width)
        assert_close(program(x)[0], model(x))


def test_pools_that_come_out_even_do_not_round_up() -> None:
    model = nn.Sequential(nn.MaxPool2d(2, ceil_mode=True), nn.AvgPool2d(3, 2, 1, ceil_mode=True))
    program = onnxport.export(model, (x := torch.randn(1, 3, 10, 14),))
    assert all("ceil_mode" not in {a.name for a in node.attribute} for node in program.model_proto.graph.node)
    assert operators(program) == ["MaxPool", "AveragePool"]
    assert_close(program(x)[0], model(x))


def test_products_of_three_are_taken_in_pairs() -> None:
    """All that MNN takes of an Einsum is two factors."""
    model = Call(lambda x, y, z: torch.einsum("bqd,bkd,bkde->bqe", x, y, z))
    inputs = (torch.randn(2, 3, 4), torch.randn(2, 5, 4), torch.randn(2, 5, 4, 6))
    program = onnxport.export(model, inputs)
    assert all(len(node.input) == 2 for node in program.model_proto.graph.node if node.op_type == "Einsum")
    assert_close(program(*inputs)[0], model(*inputs))


def test_logsumexp_is_its_formula() -> None:
    """onnxruntime takes longer for the operator, and OpenVINO reduces over all axes below opset 18."""
    program = onnxport.export(Call(lambda x: x.logsumexp(1)), (torch.randn(2, 3, 4),), opset_version=17)
    assert "ReduceLogSumExp" not in operators(program)


@pytest.mark.parametrize("opset", [17, 20])
@pytest.mark.parametrize("dynamic", [False, True])
def test_resizing_by_factors_names_no_axes(opset: int, dynamic: bool) -> None:
    model = nn.Sequential(nn.Upsample(scale_factor=2.0), nn.Upsample(scale_factor=2.0, mode="bilinear"))
    shapes = ({0: "batch", 2: "height"},) if dynamic else None
    program = onnxport.export(model, (torch.randn(2, 3, 4, 5),), dynamic_shapes=shapes, opset_version=opset)
    found = [node for node in program.model_proto.graph.node if node.op_type == "Resize"]
    assert len(found) == 2
    assert all("axes" not in {attribute.name for attribute in node.attribute} for node in found)
    x = torch.randn(3, 3, 7, 5) if dynamic else torch.randn(2, 3, 4, 5)
    assert_close(program(x)[0], model(x))


def test_resizing_to_sizes_names_no_axes_where_all_are_known() -> None:
    model = Call(lambda x: functional.interpolate(x, (7, 9), mode="bilinear"))
    program = onnxport.export(model, (torch.randn(2, 3, 4, 5),))
    (node,) = program.model_proto.graph.node
    assert "axes" not in {attribute.name for attribute in node.attribute}
    assert_close(program(x := torch.randn(2, 3, 4, 5))[0], model(x))


def attend(x: Tensor, mask: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(x, x, x, attn_mask=mask[:, None, None, :])


@pytest.mark.parametrize("opset", [17, 20, 23])
def test_masked_rows_are_counted_and_nan_stays(opset: int) -> None:
    x, mask = torch.randn(2, 3, 4, 8), torch.ones(2, 4, dtype=torch.bool)
    program = onnxport.export(Call(attend), (x, mask), opset_version=opset)
    assert "ReduceMax" not in operators(program)
    # onnxruntime quantizes what a Where reads to a file that it can't load.
    made = {name: node.op_type for node in program.model_proto.graph.node for name in node.output}
    choices = [node for node in program.model_proto.graph.node if node.op_type == "Where"]
    assert "MatMul" not in {made.get(name) for node in choices for name in node.input}
    mask[1] = False
    x[0, 0, 0, 0] = torch.nan
    torch.testing.assert_close(program(x, mask)[0], attend(x, mask), equal_nan=True, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("allowed", [torch.ones(4, 4, dtype=torch.bool), torch.ones(4, 4).tril().bool()])
def test_a_mask_that_is_known_is_one_literal(allowed: Tensor) -> None:
    model = Call(lambda x: functional.scaled_dot_product_attention(x, x, x, attn_mask=allowed))
    program = onnxport.export(model, (x := torch.randn(2, 3, 4, 8),), opset_version=17)
    assert "Where" not in operators(program)
    assert operators(program).count("Add") == int(not allowed.all())
    assert_close(program(x)[0], model(x))


def test_onnx_follows_all_shapes() -> None:
    program = onnxport.export(Call(attend), (torch.randn(2, 3, 4, 8), torch.ones(2, 4) > 0), opset_version=20)
    proto = program.model_proto
    proto.graph.ClearField("value_info")
    inferred = onnx.shape_inference.infer_shapes(proto, strict_mode=True, data_prop=True)
    stated = {info.name for info in (*inferred.graph.value_info, *inferred.graph.output)}
    assert stated == {name for node in proto.graph.node for name in node.output}


def test_no_size_is_copied_behind_a_reshape() -> None:
    def apart(x: Tensor) -> Tensor:
        y = x.reshape(-1, 6)
        return y.reshape(y.shape[0], 2, 3)

    program = onnxport.export(Call(apart), (torch.randn(2, 12),), dynamic_shapes=(({0: "batch"},),))
    assert operators(program) == ["Reshape"]
    assert_close(program(x := torch.randn(5, 12))[0], apart(x))
    assert program(torch.randn(0, 12))[0].shape == (0, 2, 3)


def test_rows_of_any_length_are_bags_of_one_length() -> None:
    bags = nn.EmbeddingBag(9, 3)
    example = (torch.randint(0, 9, (2, 5)),)
    program = onnxport.export(bags, example, dynamic_shapes=({0: "batch", 1: "length"},))
    assert not {"ScatterND", "ScatterElements", "Range"} & set(operators(program))
    for shape in ((4, 7), (1, 1), (3, 2)):
        assert_close(program(x := torch.randint(0, 9, shape))[0], bags(x))


def test_angles_of_a_sinusoidal_embedding_are_literals() -> None:
    def embed(x: Tensor) -> Tensor:
        return (x[:, None] * torch.exp(torch.arange(4) * -0.7)[None]).sin()

    program = onnxport.export(Call(embed), (torch.randn(2),))
    assert operators(program) == ["Unsqueeze", "Mul", "Sin"]
    proto = program.model_proto
    onnx.shape_inference.infer_shapes(proto, strict_mode=True, data_prop=True)
    assert_close(program(x := torch.randn(2))[0], embed(x))


def test_what_has_no_elements_is_not_written() -> None:
    model = Call(lambda x: x.slice_scatter(x[:, 3::2] + 1, 1, 3, 9, 2) * 2)
    program = onnxport.export(model, (x := torch.randn(4, 2),), dynamic_shapes=({0: "batch"},))
    assert operators(program) == ["Mul"]
    assert_close(program(x[:3])[0], model(x[:3]))
