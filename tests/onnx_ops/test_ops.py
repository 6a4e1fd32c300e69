"""``onnxport.ops``: what each operator becomes, what it says of wrong arguments, that torch can trust it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import onnx_ir as ir
import pytest
import torch

import onnxport
from cases import Wrapped
from comparison import assert_agrees, assert_close, exported_and_compared
from onnxport import ops

DYNAMIC = torch.export.Dim.DYNAMIC
TABLE, ROW = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([5.0])


def exported(function: Callable[..., Any], *inputs: torch.Tensor, **options: Any) -> ir.Model:
    return onnxport.export(Wrapped(function), inputs, **options).model


# Symbolic operators


@pytest.mark.parametrize(
    "value, kind, expected",
    [
        (3, "INT", 3),
        (True, "INT", 1),
        (0.5, "FLOAT", 0.5),
        ("text", "STRING", "text"),
        ([1, 2], "INTS", (1, 2)),
        ((True, False), "INTS", (1, 0)),
        ([1, 2.5], "FLOATS", (1.0, 2.5)),
        (["a", "b"], "STRINGS", ("a", "b")),
    ],
    ids=str,
)
def test_symbolic_attributes(value: Any, kind: str, expected: Any) -> None:
    (node,) = exported(
        lambda x: ops.symbolic("my::Op", (x,), {"key": value}, dtype=x.dtype, shape=x.shape), torch.ones(2)
    ).graph
    assert node.attributes["key"].type.name == kind
    assert node.attributes["key"].value == expected


def test_symbolic_tensor_attributes() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return ops.symbolic("my::Op", (x,), {"one": TABLE, "two": [TABLE, ROW]}, dtype=x.dtype, shape=x.shape)

    model = exported(function, torch.ones(2))
    node = model.graph[-1]
    assert node.attributes["one"].value.numpy().tolist() == TABLE.tolist()
    assert [tensor.numpy().tolist() for tensor in node.attributes["two"].value] == [TABLE.tolist(), [5.0]]
    assert not model.graph.initializers


def test_symbolic_tensor_attribute_must_be_known() -> None:
    with pytest.raises(onnxport.errors.TranslationError, match="`key` is a tensor that is computed at run time"):
        exported(lambda x: ops.symbolic("my::Op", (), {"key": x}, dtype=x.dtype, shape=x.shape), torch.ones(2))


@pytest.mark.parametrize(
    "attrs, error", [({"key": []}, ValueError), ({"key": {}}, TypeError), ({"k": [1, "a"]}, TypeError)]
)
def test_symbolic_refuses_other_attributes(attrs: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match="The attribute k"):
        ops.symbolic("my::Op", (), attrs, dtype=torch.float32, shape=[])


@pytest.mark.parametrize("strict", [False, True])
def test_symbolic_node(strict: bool) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        shape = [x.shape[0], 2 * x.shape[0]]
        props = {"key": "value"}
        y = ops.symbolic("my.domain::Op", (x, None, x), dtype=torch.int64, shape=shape, version=3, metadata_props=props)
        return y + 1

    program = torch.export.export(Wrapped(function), (torch.ones(4),), dynamic_shapes=(({0: DYNAMIC},),), strict=strict)
    model = onnxport.export(program).model
    node, _ = model.graph
    assert (node.domain, node.op_type, len(node.inputs), node.inputs[1]) == ("my.domain", "Op", 3, None)
    assert node.metadata_props["key"] == "value"
    assert model.opset_imports["my.domain"] == 3
    size = model.graph.inputs[0].shape[0]
    assert node.outputs[0].dtype == ir.DataType.INT64
    assert node.outputs[0].shape == (size, f"2*{size}")


def test_symbolic_with_several_outputs() -> None:
    def function(x: torch.Tensor) -> Any:
        return ops.symbolic_multi_out("Op", (x,), dtypes=[x.dtype, torch.bool, 22], shapes=[[1], [], x.shape])

    x = torch.ones(2)
    assert [(y.dtype, tuple(y.shape)) for y in function(x)] == [(x.dtype, (1,)), (torch.bool, ()), (torch.int8, (2,))]
    with pytest.raises(onnxport.errors.OpsetError, match="Op"):
        exported(function, x)
    custom = exported(lambda x: ops.symbolic_multi_out("a::Op", (x,), dtypes=[1, 22], shapes=[[1], [2]]), x)
    assert [value.dtype.name for value in custom.graph.outputs] == ["FLOAT", "INT4"]


@pytest.mark.parametrize("shape", [[], [2, 3]])
def test_symbolic_without_inputs(shape: list[int]) -> None:
    node, _ = exported(lambda x: x + ops.symbolic("my::Op", (), dtype=x.dtype, shape=shape), torch.ones(2, 3)).graph
    assert (node.op_type, len(node.inputs)) == ("Op", 0)


def test_symbolic_operator_of_onnx_runs() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return ops.symbolic("HardSigmoid", (x,), {"alpha": 0.5, "beta": 0.25}, dtype=x.dtype, shape=x.shape, version=22)

    x = torch.tensor([-1.0, 0.0, 1.0])
    program = onnxport.export(Wrapped(function), (x,), opset_version=20)
    assert program(x)[0].tolist() == [0.0, 0.25, 0.75]


def test_symbolic_shapes_and_dtypes_go_together() -> None:
    with pytest.raises(ValueError, match="1 dtypes and 2 shapes"):
        ops.symbolic_multi_out("Op", (), dtypes=[1], shapes=[[1], [2]])


# torch's own


def test_torch_symbolic() -> None:
    import torch.onnx.ops as theirs

    def function(x: torch.Tensor) -> Any:
        attrs = {"i": 1, "f": 0.5, "s": "a", "is": [1, 2], "fs": [0.5], "ss": ["a", "b"]}
        props = {"key": "value"}
        y = theirs.symbolic("my::One", (x,), attrs, dtype=x.dtype, shape=x.shape, version=2, metadata_props=props)
        return theirs.symbolic_multi_out("my::Two", (y,), dtypes=(1, torch.int64), shapes=([1], []), version=2)

    one, two = exported(function, torch.ones(2)).graph
    assert {name: attribute.value for name, attribute in one.attributes.items()} == {
        "i": 1,
        "f": 0.5,
        "s": "a",
        "is": (1, 2),
        "fs": (0.5,),
        "ss": ("a", "b"),
    }
    assert one.metadata_props["key"] == "value"
    assert [value.dtype.name for value in two.outputs] == ["FLOAT", "INT64"]


@pytest.mark.parametrize("opset", [20, 23])
def test_torch_operators(opset: int) -> None:
    import torch.onnx.ops as theirs

    def function(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        turned = theirs.rotary_embedding(x, cos, sin)
        return theirs.attention(turned, turned, x, is_causal=True)[0]

    inputs = torch.rand(1, 2, 3, 4), torch.rand(1, 3, 2), torch.rand(1, 3, 2)
    program = onnxport.export(Wrapped(function), inputs, opset_version=opset)
    assert_close(program(*inputs)[0], function(*inputs))
    if opset == 23:
        assert [node.op_type for node in program.model.graph] == ["RotaryEmbedding", "Attention"]


# Operators with kernels

ROTARY = torch.rand(2, 3, 4, 8), torch.rand(50, 4), torch.rand(50, 4), torch.randint(0, 50, (2, 3))


def test_rotary_embedding_exports_whatever_the_positions() -> None:
    class Model(torch.nn.Module):
        def forward(self, input_data, cos_cache_data, sin_cache_data, position_ids_data):
            return ops.rotary_embedding(input_data, cos_cache_data, sin_cache_data, position_ids_data)

    program = onnxport.export(
        Model(),
        ROTARY,
        dynamic_shapes={
            "input_data": {0: DYNAMIC},
            "cos_cache_data": None,
            "sin_cache_data": None,
            "position_ids_data": {0: DYNAMIC},
        },
        opset_version=23,
    )
    text = str(program)
    assert '%"position_ids_data"<INT64,[batch,3]>' in text
    assert (
        '%"output"<FLOAT,[batch,3,4,8]> ⬅️ '
        '::RotaryEmbedding(%"input_data", %"cos_cache_data", %"sin_cache_data", %"position_ids_data")'
    ) in text
    with pytest.raises(ValueError, match="its sequence axis is 2"):
        Model()(*ROTARY)


@pytest.mark.parametrize(
    "call, why",
    [
        (lambda: ops.rotary_embedding(torch.ones(2), *ROTARY[1:]), r"not a tensor of shape \(2,\)"),
        (lambda: ops.rotary_embedding(torch.ones(2, 3, 8), *ROTARY[1:]), "needs num_heads"),
        (lambda: ops.rotary_embedding(*ROTARY[:3]), "Without position_ids the caches have 3 axes"),
        (lambda: ops.rotary_embedding(torch.ones(2, 4, 3, 6), *ROTARY[1:]), "need 3 columns"),
        (lambda: ops.attention(*[torch.ones(1, 2, 8)] * 3), "q_num_heads and kv_num_heads stated"),
        (lambda: ops.attention(*[torch.ones(1, 2, 2, 8)] * 5), "past_key and past_value together"),
        (lambda: ops.attention(torch.ones(1, 3, 2, 8), *[torch.ones(1, 2, 2, 8)] * 2), "The 3 heads of Q"),
        (lambda: ops.attention(*[torch.ones(1, 2, 2, 8)] * 3, qk_matmul_output_mode=4), "0, 1, 2 or 3, not 4"),
        (lambda: ops.bit_cast(torch.ones(2), to=torch.int64), "keeps the width"),
        (lambda: ops.tensor_scatter(torch.ones(2, 3), torch.ones(2, 1), axis=0), "behind the first"),
        (lambda: ops.tensor_scatter(torch.ones(2, 3), torch.ones(2, 1), axis=1, mode="odd"), "not 'odd'"),
    ],
)
def test_wrong_arguments_are_named(call: Callable[[], Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        call()


CALLS = {
    "rotary": (ops.rotary_embedding, torch.rand(2, 3, 4, 8), torch.rand(2, 4, 4), torch.rand(2, 4, 4)),
    "attention": (
        lambda q, k, m: ops.attention(q, k, k, m, is_causal=True),
        *[torch.rand(2, 2, 3, 4)] * 2,
        torch.rand(3, 3),
    ),
    "rms": (lambda x, s: ops.rms_normalization(x, s, axis=1), torch.rand(2, 3, 4), torch.rand(3, 4)),
    "swish": (lambda x: ops.swish(x, alpha=0.5), torch.rand(2, 3)),
    "scatter": (ops.tensor_scatter, torch.rand(2, 5, 3), torch.rand(2, 2, 3), torch.tensor([1, 3])),
    "cum_prod": (lambda x: ops.cum_prod(x, -1, reverse=True), torch.rand(2, 3)),
    "bit_cast": (lambda x: ops.bit_cast(x.to(torch.int32), to=torch.uint32), torch.ones(2, 3)),
}


@pytest.mark.parametrize("name", CALLS)
def test_decompositions_compute_the_same(name: str) -> None:
    function, *inputs = CALLS[name]
    program = torch.export.export(Wrapped(function), tuple(inputs))
    decomposed = program.run_decompositions(ops.aten_decompositions())
    assert not any("onnxport" in str(node.target) for node in decomposed.graph.nodes)
    assert_close(decomposed.module()(*inputs), function(*inputs))


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("opset", [20, 24])
def test_batches_of_any_size(name: str, opset: int) -> None:
    function, *inputs = CALLS[name]
    varying = [x.shape[0] == 2 for x in inputs]
    shapes = (tuple({0: DYNAMIC} if varies else None for varies in varying),)
    program = onnxport.export(Wrapped(function), tuple(inputs), dynamic_shapes=shapes, opset_version=opset)
    others = [torch.cat([x, x]) if varies else x for x, varies in zip(inputs, varying, strict=True)]
    assert_agrees(program, function, others)


@pytest.mark.parametrize("name", ["rotary", "attention", "rms", "swish", "cum_prod", "scatter"])
def test_gradients(name: str) -> None:
    function, *inputs = CALLS[name]
    leaves = [x.double().requires_grad_() if x.is_floating_point() else x for x in inputs]

    def first(*tensors: torch.Tensor) -> torch.Tensor:
        result = function(*tensors)
        return result[0] if isinstance(result, tuple) else result

    assert torch.autograd.gradcheck(first, leaves)


@pytest.mark.parametrize("name", CALLS)
def test_fake_kernels_agree(name: str) -> None:
    function, *inputs = CALLS[name]
    program = torch.export.export(Wrapped(function), tuple(inputs))
    (node,) = (node for node in program.graph.nodes if "onnxport" in str(node.target))
    env = {node.name: x for node, x in zip(program.graph.find_nodes(op="placeholder"), inputs, strict=True)}
    if all(arg.name in env for arg in node.all_input_nodes):
        args = torch.fx.node.map_arg(node.args, lambda arg: env[arg.name])
        torch.library.opcheck(node.target, args, dict(node.kwargs), test_utils=("test_schema", "test_faketensor"))


def _read(which: int, q: torch.Tensor) -> torch.Tensor:
    return ops.attention(q, q, q)[which]


def test_masked_rows_and_absent_outputs() -> None:
    """The node has the outputs that are read, and no more than up to the last of them."""
    q = torch.rand(1, 2, 3, 4)
    for read, count in ((0, 1), (1, 2), (3, 4)):
        function = partial(_read, read)
        program = exported_and_compared(function, (q,), opset_version=23)
        (node,) = program.model.graph
        assert len(node.outputs) == count


def test_windows_in_older_opsets_have_dynamic_lengths() -> None:
    def function(q: torch.Tensor, k: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return ops.attention(q, k, k, None, None, None, lengths, is_causal=True, left_window_size=2)[0]

    def inputs(queries: int, keys: int) -> tuple[torch.Tensor, ...]:
        return torch.rand(2, 4, queries, 8), torch.rand(2, 2, keys, 8), torch.tensor([keys, keys - 1])

    shapes = (({2: DYNAMIC}, {2: DYNAMIC}, None),)
    program = onnxport.export(Wrapped(function), inputs(3, 6), dynamic_shapes=shapes, opset_version=20)
    assert_agrees(program, function, *(inputs(*sizes) for sizes in ((3, 6), (1, 9), (5, 5))))
