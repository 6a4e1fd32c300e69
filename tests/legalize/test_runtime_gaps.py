"""What onnxruntime does not compute in some element type comes out as in eager torch all the same."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx_ir as ir
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import onnxport
from cases import R, Wrapped
from comparison import assert_agrees, assert_close, exported_and_compared
from onnxport.events import EventLog
from onnxport.legalize import casts, legalize, runtime_gaps
from onnxport.onnx_build.schemas import schema_of

D = ir.DataType
B, I8, I16, I32, I64 = torch.bool, torch.int8, torch.int16, torch.int32, torch.int64
U8, U16, U32, U64 = torch.uint8, torch.uint16, torch.uint32, torch.uint64
BF, HF, F64 = torch.bfloat16, torch.float16, torch.float64


def mlp(x: torch.Tensor) -> torch.Tensor:
    """A chain whose every step rounds to the narrow type in eager."""
    return (x * 1.1 + x.exp()).tanh() / 3


ROWS: list[tuple[str, Callable[..., torch.Tensor], list[torch.dtype], str]] = [
    ("add", lambda x: x + x, [I8, U8, I16, BF, HF], ""),
    ("mul", lambda x: x * 3, [I8, U8, I16, BF], ""),
    ("where", lambda x: torch.where(x > 0, x, x.flip(0)), [I8, I16, U8, BF], ""),
    ("where_bool", lambda x: torch.where(x, ~x, x.flip(0)), [B], ""),
    ("clamp", lambda x: x.clamp(0, 2), [I8, I16, U8, BF, HF], ""),
    ("max", lambda x: torch.maximum(x, x.flip(1)), [I16, I8, BF], ""),
    ("argmax", lambda x: x.argmax(1), [I16, I8, BF], ""),
    ("nonzero", lambda x: x.nonzero(), [I16, I8, F64, BF], ""),
    ("triu", lambda x: x.triu(), [I8, I16, U8, BF, B], ""),
    ("pad", lambda x: F.pad(x, (1, 2), value=3), [I16, BF], ""),
    ("cumsum", lambda x: x.cumsum(0), [B, I8, BF], ""),
    ("sum", lambda x: x.sum(1), [B, I8, I16, BF, HF], ""),
    ("floor_divide", lambda x: x // 3, [I8, I16, BF], ""),
    ("matmul", lambda x: x @ x.T, [I8, I16, BF, HF], ""),
    ("chain", mlp, [BF, HF], ""),
    ("softmax", lambda x: x.softmax(1), [BF, HF], ""),
    ("gelu", F.gelu, [BF, HF], ""),
    ("gelu", F.gelu, [F64], "rounded"),
    ("argsort", lambda x: x.argsort(stable=True, dim=1), [I16, BF], ""),
    ("index_add", lambda x: x.index_add(0, torch.tensor([0, 0]), x[:2]), [BF, HF, I8], ""),
    ("amax", lambda x: x.scatter_reduce(0, (x == x).long(), x, "amax"), [BF, HF, I8], ""),
    ("sort", lambda x: x.sort(1)[0], [I16, I8, BF], ""),
]


def narrow(name: str, dtypes: list[torch.dtype]) -> list[str]:
    return [f"{name}-{str(dtype).removeprefix('torch.')}" for dtype in dtypes]


@pytest.mark.parametrize(
    ("function", "dtype", "warning"),
    [(row[1], dtype, row[3]) for row in ROWS for dtype in row[2]],
    ids=[name for row in ROWS for name in narrow(row[0], row[2])],
)
@pytest.mark.parametrize("opset", [18, 23])
def test_equals_eager(function: Callable[..., torch.Tensor], dtype: torch.dtype, warning: str, opset: int) -> None:
    x = R(4, 4, dtype=dtype).make(0, torch.Generator().manual_seed(0))
    program = onnxport.export(Wrapped(function), (x,), opset_version=opset)
    (found,) = program(x)
    expected = function(x)
    assert found.dtype == expected.dtype
    tolerance = {BF: 2e-2, HF: 2e-3, F64: 1e-6 if warning else 1e-12}.get(expected.dtype, 0)
    assert_close(found, expected, rtol=tolerance, atol=tolerance)
    assert bool(program.events.of("warning")) == bool(warning)


MODULES: list[tuple[nn.Module, R]] = [
    (nn.Linear(8, 3), R(2, 8)),
    (nn.LayerNorm(8), R(2, 8)),
    (nn.RMSNorm(8), R(2, 8)),
    (nn.Conv2d(3, 4, 3), R(2, 3, 6, 6)),
    (nn.BatchNorm1d(8), R(2, 8)),
    (nn.GroupNorm(2, 8), R(2, 8, 3)),
    (nn.LSTM(8, 4), R(5, 2, 8)),
    (nn.MaxPool2d(2), R(1, 3, 4, 4)),
    (nn.AvgPool2d(2), R(1, 3, 4, 4)),
    (nn.MultiheadAttention(8, 2, batch_first=True), R(1, 3, 8)),
]


@pytest.mark.parametrize("opset", [20, 23])
@pytest.mark.parametrize("dtype", [BF, HF], ids=["bfloat16", "float16"])
@pytest.mark.parametrize(("module", "spec"), MODULES, ids=[type(module).__name__ for module, _ in MODULES])
def test_modules_equal_eager(module: nn.Module, spec: R, dtype: torch.dtype, opset: int) -> None:
    torch.manual_seed(0)
    module = module.to(dtype).eval()
    x = R(*spec.shape, dtype=dtype).make(0, torch.Generator().manual_seed(0))
    inputs = (x, x, x) if isinstance(module, nn.MultiheadAttention) else (x,)
    exported_and_compared(module, inputs, opset_version=opset, rtol=3e-2, atol=3e-2)


def parse(body: str, inputs: str, outputs: str) -> ir.Model:
    return ir.from_onnx_text(f'<ir_version: 10, opset_import: ["": 23]> g ({inputs}) => ({outputs}) {{ {body} }}')


@pytest.mark.parametrize(
    ("body", "inputs", "outputs", "kinds"),
    [
        ("y = Where(c, x, z)", "bool[2] c, bool[2] x, bool[2] z", "bool[2] y", "Cast Cast Where Cast"),
        ("y = Mul(x, x)", "bfloat16[2] x", "bfloat16[2] y", "Cast Mul Cast"),
        # Eager rounds after each step.
        (
            "t = Mul(x, x) y = Neg(t)",
            "bfloat16[2] x",
            "bfloat16[2] y",
            "Cast Mul Cast Cast Neg Cast",
        ),
        # What moves values rounds nothing.
        ("t = Expand(x, s) y = Neg(t)", "bfloat16[1] x, int64[1] s", "bfloat16[2] y", "Cast Expand Neg Cast"),
        ("t = Expand(x, s) y = Neg(t) z = Identity(t)", "bfloat16[1] x, int64[1] s", "bfloat16[2] y, bfloat16[2] z",
         "Cast Expand Cast Neg Cast Identity"),
        ("y = NonZero(x)", "double[2] x", "int64[1,n] y", "Cast NonZero"),
        ("y = Trilu(x)", "uint64[2,2] x", "uint64[2,2] y", "Cast Trilu Cast"),
        ("y = Mul(x, x)", "float[2] x", "float[2] y", "Mul"),
    ],
)  # fmt: skip
def test_casts(body: str, inputs: str, outputs: str, kinds: str) -> None:
    model = parse(body, inputs, outputs)
    legalize(model, 20)
    assert [node.op_type for node in model.graph] == kinds.split()
    assert [str(value) for value in model.graph.outputs] == [
        str(value) for value in parse(body, inputs, outputs).graph.outputs
    ]
    for node in model.graph:
        assert node.name or node.op_type != "Cast"


def test_other_runtimes_can_do_without() -> None:
    model = parse("y = Mul(x, x)", "bfloat16[2] x", "bfloat16[2] y")
    legalize(model, 20, kernels=False)
    assert [node.op_type for node in model.graph] == ["Mul"]


def test_literals_are_written_in_the_other_type() -> None:
    events = EventLog()
    model = parse("two = Constant <value = bfloat16 {2}> () y = Mul(x, two)", "bfloat16[2] x", "bfloat16[2] y")
    program = exported_and_compared(lambda x: x * 2, (torch.tensor([1.5, -3.0], dtype=BF),), rtol=0, atol=0)
    assert [node.op_type for node in program.model.graph] == ["Cast", "Mul", "Cast"]
    assert [value.dtype for value in program.model.graph.initializers.values()] == [D.FLOAT]
    legalize(model, 20, events=events)
    assert len(events.of("cast")) == 1


def test_steps_of_one_call_are_not_rounded() -> None:
    linear = nn.Linear(3, 2).to(BF)
    program = exported_and_compared(linear, (torch.rand(1, 4, 3).to(BF),), rtol=1e-2, atol=1e-2)
    kinds = [node.op_type for node in program.model.graph]
    assert [kind for kind in kinds if kind != "Transpose"] == ["Cast", "Cast", "MatMul", "Cast", "Add", "Cast"]
    twice = exported_and_compared(lambda x: x * x + x, (torch.rand(20).to(BF),), rtol=0, atol=0)
    assert [node.op_type for node in twice.model.graph] == ["Cast", "Mul", "Cast", "Cast", "Add", "Cast"]


def test_subgraphs() -> None:
    class Branches(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.cond(x.sum() > 0, lambda y: y * 2, lambda y: y - 1, (x,))

    x = torch.tensor([1, 2], dtype=BF)
    program = onnxport.export(Branches(), (x,))
    for sign in (1, -1):
        torch.testing.assert_close(program(sign * x)[0], Branches()(sign * x))


def test_every_gap_is_filled() -> None:
    """For each gap there is something to compute in; what rounds is known."""
    unfilled, rounded = set(), set()
    for (form, since), variables in runtime_gaps._table().items():
        op_type = form.partition(".")[0]
        schema = schema_of(op_type, since)
        assert schema is not None and schema.since == since
        for variable, types in variables.items():
            there = schema.types[variable] - types
            for dtype in types:
                if casts.nearest_exact(op_type, dtype, there) is None:
                    (unfilled if casts.nearest(op_type, dtype, there) is None else rounded).add((op_type, dtype.name))
    # Indices that are floats are nobody's.
    assert {op_type for op_type, _ in unfilled} == {"OneHot"}
    assert {dtype for _, dtype in rounded if dtype in ("FLOAT16", "BFLOAT16")} == set()
    assert {op_type for op_type, dtype in rounded if dtype in ("BOOL", "INT8", "INT16")} == {
        "Attention",
        "Col2Im",
        "Erf",
        "GridSample",
        "Resize",
    }


def test_table_is_of_the_installed_onnxruntime_or_says_so() -> None:
    text = Path(runtime_gaps.__file__).with_suffix(".json").read_text(encoding="utf-8")
    assert json.loads(text)["onnxruntime"]


def test_leaves_every_node_where_nothing_is_missing() -> None:
    model = parse("y = Mul(x, x) z = Add(y, x)", "float[2] x", "float[2] z")
    before = list(model.graph)
    legalize(model, 23, kernels=True)
    assert [id(node) for node in model.graph] == [id(node) for node in before]


class Turned(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 6, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x.transpose(0, 1))


@pytest.mark.parametrize(("dtype", "scheme"), [(torch.float16, None), (torch.float32, "float16")])
def test_products_that_end_the_process(dtype: torch.dtype, scheme: Any) -> None:
    """The Transpose comes behind the product: the other way round onnxruntime fails with a segmentation fault."""
    model = Turned().to(dtype)
    axes = ({0: "rows", 1: "columns"},)
    program = onnxport.export(
        model, (torch.randn(3, 2, 4, dtype=dtype),), dynamic_shapes=axes, quantize=scheme, verify=False
    )
    operators = [node.op_type for node in program.model.graph]
    assert operators.index("MatMul") < len(operators) - 1 - operators[::-1].index("Transpose")
    assert_agrees(program, model, (torch.randn(5, 2, 4, dtype=dtype),), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int32])
def test_products_of_what_is_cast_behind_a_transposition(dtype: torch.dtype) -> None:
    """The Cast comes before the Transpose: the other way round onnxruntime fails with a segmentation fault."""

    class Converted(Turned):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x) if dtype.is_floating_point else self.linear(x.transpose(0, 1).float())

    model = Converted().to(dtype) if dtype.is_floating_point else Converted()
    program = onnxport.export(
        model, (torch.ones(3, 2, 4, dtype=dtype),), dynamic_shapes=({0: "rows", 1: "columns"},), verify=False
    )
    (product,) = (node for node in program.model.graph if node.op_type == "MatMul")
    assert product.inputs[0].producer().op_type == "Transpose"
    assert_agrees(program, model, (torch.randn(5, 2, 4).mul(9).to(dtype),), rtol=2e-2, atol=2e-2)
