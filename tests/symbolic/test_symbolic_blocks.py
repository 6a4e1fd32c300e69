"""Symbolic functions that write branches and loops: each autograd function equals its forward, at other sizes too."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import onnx
import pytest
import torch

import onnxport
from cases import Wrapped
from onnxport import jit_utils, symbolic_opset9, symbolic_opset11, utils
from onnxport.errors import OnnxExporterError

Function = Callable[..., Any]


def constant(g: Any, value: Any) -> Any:
    return g.op("Constant", value_t=torch.tensor(value))


def positive(g: Any, x: Any) -> Any:
    return g.op("Greater", g.op("ReduceSum", x, keepdims_i=0), constant(g, 0.0))


def branch(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if x.sum() > 0 else x - 1


def branch_by_contexts(g: Any, x: Any) -> Any:
    result, (then, other), node = jit_utils.add_op_with_blocks(g, "If", positive(g, x), n_blocks=2)
    utils._add_output_to_block(then.block, then.op("Mul", x, constant(then, 2.0)))
    utils._add_output_to_block(other.block, other.op("Sub", x, constant(other, 1.0)))
    assert node.kind() == "onnx::If" and then.block is not other.block and then.opset == g.opset
    return result


def branch_by_blocks(g: Any, x: Any) -> Any:
    result = g.op("If", positive(g, x), outputs=1)
    then = dataclasses.replace(g, block=result.node().addBlock())
    then.block.registerOutput(then.op("Mul", x, 2.0))
    other = jit_utils.GraphContext(
        graph=g.graph,
        block=utils._add_block(result.node()),
        opset=g.opset,
        original_node=g.original_node,
        params_dict=g.params_dict,
        env=g.env,
        values_in_env=g.values_in_env,
    )
    utils._add_output_to_block(other.block, other.op("Sub", x, 1.0))
    return result


def branch_by_nodes(g: Any, x: Any) -> Any:
    """Past `g.op`, so that nothing is typed before it is emitted."""
    two, one = constant(g, 2.0), constant(g, 1.0)
    node = g.op("If", positive(g, x)).node()
    for kind, number in (("onnx::Mul", two), ("onnx::Sub", one)):
        block = node.addBlock()
        block.registerOutput(block.addNode(kind, [x, number]).output())
    return node.output()


def branch_by_torchs_own(g: Any, x: Any) -> Any:
    from torch.onnx._internal.torchscript_exporter import jit_utils as theirs  # noqa: TID251 - a user's import

    result, (then, other), _ = theirs.add_op_with_blocks(g, "If", positive(g, x), n_blocks=2)
    then.block.registerOutput(then.op("Mul", x, torch.tensor(2.0)))
    other.block.registerOutput(other.op("Sub", x, torch.tensor(1.0)))
    return result


def branch_by_delegation(g: Any, x: Any) -> Any:
    result, (then, other), _ = jit_utils.add_op_with_blocks(g, "If", positive(g, x), n_blocks=2)
    utils._add_output_to_block(then.block, symbolic_opset9.mul(then, x, 2.0))
    utils._add_output_to_block(other.block, symbolic_opset11.sub(other, x, 1.0))
    # What the branches return is known by now.
    return symbolic_opset9.add(g, result, torch.tensor(0.0))


def two_results(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return (x, x.long()) if x.sum() > 0 else (x.abs(), (x * 3).long())


def two_results_by_if(g: Any, x: Any) -> Any:
    results, (then, other), _ = jit_utils.add_op_with_blocks(g, "If", positive(g, x), n_blocks=2, outputs=2)
    utils._add_output_to_block(then.block, x)
    utils._add_output_to_block(then.block, then.op("Cast", x, to_i=7))
    utils._add_output_to_block(other.block, other.op("Abs", x))
    # Of another type than in the first branch.
    utils._add_output_to_block(other.block, other.op("Cast", other.op("Mul", x, 3), to_i=6))
    return results


def row_sums(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.sum(0), x.cumsum(0)


def row_sums_by_loop(g: Any, x: Any) -> Any:
    count = g.op("Gather", g.op("Shape", x), constant(g, 0))
    start = g.op("Mul", g.op("Gather", x, constant(g, 0)), 0.0)
    results, (body,), _ = jit_utils.add_op_with_blocks(g, "Loop", count, constant(g, True), start, outputs=2)
    row = utils._add_input_to_block(body.block)
    again = utils._add_input_to_block(body.block)
    total = utils._add_input_to_block(body.block)
    assert row.type().scalarType() == "Long" and again.type().scalarType() == "Bool" and total.type().dim() == 1
    total = body.op("Add", total, body.op("Gather", x, row))
    assert total.type().scalarType() == "Float"
    for value in (again, total, total):
        utils._add_output_to_block(body.block, value)
    return results


def row_sums_by_scan(g: Any, x: Any) -> Any:
    start = g.op("Mul", g.op("Gather", x, constant(g, 0)), 0.0)
    results, (body,), _ = jit_utils.add_op_with_blocks(g, "Scan", start, x, outputs=2, num_scan_inputs_i=1)
    total, row = utils._add_input_to_block(body.block), utils._add_input_to_block(body.block)
    assert row.type().dim() == 1
    total = body.op("Add", total, row)
    for value in (total, total):
        utils._add_output_to_block(body.block, value)
    return results


def counted(x: torch.Tensor) -> torch.Tensor:
    return torch.full_like(x[:, 0], 2, dtype=torch.int64).sum()


def counted_by_loop(g: Any, x: Any) -> Any:
    """The body computes its state in another type."""
    count = g.op("Gather", g.op("Shape", x), constant(g, 0))
    result, (body,), _ = jit_utils.add_op_with_blocks(g, "Loop", count, constant(g, True), constant(g, 0))
    _, again, number = (utils._add_input_to_block(body.block) for _ in range(3))
    utils._add_output_to_block(body.block, again)
    utils._add_output_to_block(body.block, body.op("Add", body.op("Cast", number, to_i=1), 2.0))
    return result


def doubled(x: torch.Tensor) -> torch.Tensor:
    while x.abs().sum() < 100:
        x = x * 2
    return x


def doubled_by_loop(g: Any, x: Any) -> Any:
    def is_small(g: Any, x: Any) -> Any:
        return g.op("Less", g.op("ReduceSum", g.op("Abs", x), keepdims_i=0), constant(g, 100.0))

    result, (body,), _ = jit_utils.add_op_with_blocks(g, "Loop", None, is_small(g, x), x)
    _, _, inner = (utils._add_input_to_block(body.block) for _ in range(3))
    inner = symbolic_opset9.mul(body, inner, 2.0)
    utils._add_output_to_block(body.block, is_small(body, inner))
    utils._add_output_to_block(body.block, inner)
    return result


def signed_rows(x: torch.Tensor) -> torch.Tensor:
    return torch.where(x.sum(1, keepdim=True) > 0, x * x.shape[0], -x)


def signed_rows_by_nesting(g: Any, x: Any) -> Any:
    count = g.op("Gather", g.op("Shape", x), constant(g, 0))
    result, (body,), _ = jit_utils.add_op_with_blocks(g, "Loop", count, constant(g, 1))
    number, again = utils._add_input_to_block(body.block), utils._add_input_to_block(body.block)
    row = body.op("Gather", x, number)
    chosen, (then, other), _ = jit_utils.add_op_with_blocks(body, "If", positive(body, row), n_blocks=2)
    scale = then.op("Cast", count, to_i=1)
    utils._add_output_to_block(then.block, then.op("Mul", row, scale))
    utils._add_output_to_block(other.block, other.op("Neg", row))
    utils._add_output_to_block(body.block, again)
    utils._add_output_to_block(body.block, body.op("Identity", chosen))
    return result


def reversed_rows(x: torch.Tensor) -> torch.Tensor:
    return x.flip(0)


def reversed_rows_by_sequence(g: Any, x: Any) -> Any:
    count = g.op("Gather", g.op("Shape", x), constant(g, 0))
    empty = g.op("SequenceEmpty", dtype_i=1)
    rows, (body,), _ = jit_utils.add_op_with_blocks(g, "Loop", count, constant(g, True), empty)
    number, again, so_far = (utils._add_input_to_block(body.block) for _ in range(3))
    longer = body.op("SequenceInsert", so_far, body.op("Gather", x, number), constant(body, 0))
    utils._add_output_to_block(body.block, again)
    utils._add_output_to_block(body.block, longer)
    return g.op("ConcatFromSequence", rows, axis_i=0, new_axis_i=1)


ROWS = [
    pytest.param(branch, branch_by_contexts, 11, id="if-by-contexts"),
    pytest.param(branch, branch_by_contexts, 17, id="if-by-contexts-17"),
    pytest.param(branch, branch_by_contexts, 9, id="if-by-contexts-9"),
    pytest.param(branch, branch_by_blocks, 13, id="if-by-blocks"),
    pytest.param(branch, branch_by_nodes, 13, id="if-by-nodes"),
    pytest.param(branch, branch_by_torchs_own, 20, id="if-by-torch's-own-function"),
    pytest.param(branch, branch_by_delegation, 11, id="if-by-other-symbolic-functions"),
    pytest.param(branch, branch_by_delegation, 20, id="if-by-other-symbolic-functions-20"),
    pytest.param(two_results, two_results_by_if, 16, id="if-with-two-results"),
    pytest.param(row_sums, row_sums_by_loop, 11, id="loop-with-state-and-stacked-results"),
    pytest.param(row_sums, row_sums_by_loop, 20, id="loop-with-state-and-stacked-results-20"),
    pytest.param(row_sums, row_sums_by_scan, 11, id="scan"),
    pytest.param(counted, counted_by_loop, 13, id="loop-with-a-state-of-another-type"),
    pytest.param(doubled, doubled_by_loop, 13, id="loop-by-its-condition"),
    pytest.param(signed_rows, signed_rows_by_nesting, 11, id="if-in-a-loop"),
    pytest.param(signed_rows, signed_rows_by_nesting, 19, id="if-in-a-loop-19"),
    pytest.param(reversed_rows, reversed_rows_by_sequence, 13, id="loop-with-a-sequence"),
]


def function_of(forward: Function, symbolic: Function) -> Any:
    methods = {"forward": staticmethod(lambda ctx, x: forward(x)), "symbolic": staticmethod(symbolic)}
    return type("Written", (torch.autograd.Function,), methods)


@pytest.mark.parametrize("dynamo", [True, False])
@pytest.mark.parametrize(("forward", "symbolic", "opset"), ROWS)
@pytest.mark.filterwarnings("ignore:.*made-up values", "ignore:The forward of Written can't be run without values")
def test_blocks_compute_what_the_forward_does(forward: Function, symbolic: Function, opset: int, dynamo: bool) -> None:
    written = function_of(forward, symbolic)
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(0))

    def around(x: torch.Tensor) -> Any:
        results = written.apply(x + 0.5)
        return [result * 2 for result in (results if isinstance(results, tuple) else [results])]

    names = {"input_names": ["x"], "dynamic_axes": {"x": {0: "n", 1: "m"}}}
    program = onnxport.export(Wrapped(around), (x,), opset_version=opset, dynamo=dynamo, **names)
    assert program is not None
    onnx.checker.check_model(program.model_proto, full_check=True)
    assert program.model.opset_imports[""] == opset
    for other in (x, torch.randn(5, 2), torch.full((1, 3), 2.0), torch.full((6, 1), -3.0)):
        for found, expected in zip(program(other), around(other), strict=True):
            torch.testing.assert_close(found, expected)


def in_a_block(write: Function) -> Function:
    def symbolic(g: Any, x: Any) -> Any:
        result, (then, other), _ = jit_utils.add_op_with_blocks(g, "If", positive(g, x), n_blocks=2)
        for inner in (then, other):
            utils._add_output_to_block(inner.block, write(inner, x))
        return result

    return symbolic


REFUSALS = [
    pytest.param(lambda g, x: g.op("If", positive(g, x)), "If has 0 blocks", id="no-blocks"),
    pytest.param(lambda g, x: utils._add_block(g.op("Relu", x).node()), "Relu has no blocks", id="not-control-flow"),
    pytest.param(in_a_block(lambda g, x: g.op("Reluu", x)), "mydomain::Reluu", id="not-an-operator"),
    pytest.param(in_a_block(lambda g, x: g.graph.insertConstant(None)), "returns None", id="returns-none"),
]


@pytest.mark.parametrize(("symbolic", "message"), REFUSALS)
def test_what_a_block_may_not_be_is_said(symbolic: Function, message: str) -> None:
    written = function_of(torch.relu, symbolic)
    with pytest.raises(OnnxExporterError, match=message):
        onnxport.export(Wrapped(lambda x: written.apply(x)), (torch.ones(2),))


def test_the_names_of_a_node_kind() -> None:
    assert jit_utils.parse_node_kind("mylib::join") == ("mylib", "join")
    for kind in ("join", "my::lib::join"):
        with pytest.raises(OnnxExporterError, match="namespace::name"):
            jit_utils.parse_node_kind(kind)
