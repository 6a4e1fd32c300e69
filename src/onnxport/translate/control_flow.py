"""Control flow: higher-order operators become If, Loop and Scan, their graphs become bodies.

A body sees the values of the graphs around it, so parameters and sizes that a branch closes over need no plumbing;
only what changes from one iteration to the next is an input of the body.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx_ir as ir
import torch
from torch.fx import GraphModule

from onnxport.marks import COUNTED_LOOP, is_marked
from onnxport.translate.builder import Builder
from onnxport.translate.dims import Dim
from onnxport.translate.regions import region, region_input, region_state, with_types
from onnxport.translate.registry import translates
from onnxport.translate.tensor import Tensor

_NUMBER_DTYPES: dict[type, torch.dtype] = {bool: torch.bool, int: torch.int64, float: torch.float64}


@translates("higher_order::cond")
def cond(
    op: Builder, pred: object, true_graph: GraphModule, false_graph: GraphModule, operands: Sequence[object] = ()
) -> Sequence[Tensor]:
    if isinstance(pred, bool):
        return op.body(op, true_graph if pred else false_graph, operands)
    branches = {}
    for attribute, graph in (("then_branch", true_graph), ("else_branch", false_graph)):
        inner = op.subgraph()
        results = op.body(inner, graph, operands)
        branches[attribute] = region(inner, attribute, [], [_as_tensor(inner, item) for item in results])
    condition = op.reshape(_as_tensor(op, pred), [])
    return _emit(op, "If", [condition], branches["then_branch"].outputs, results, **branches)


@translates("onnxport::decided")
def decided(op: Builder, condition: object, index: int, outcome: bool) -> Tensor | bool:
    """The condition of a decision that Python code makes; what follows from it is joined by an If afterwards."""
    return condition if isinstance(condition, bool) else op.reshape(_as_tensor(op, condition), [])


@translates("higher_order::while_loop")
def while_loop(
    op: Builder,
    cond_fn: GraphModule,
    body_fn: GraphModule,
    carried_inputs: Sequence[object],
    additional_inputs: Sequence[object] = (),
) -> Sequence[Tensor]:
    carried = [_as_tensor(op, item) for item in carried_inputs]
    first = op.body(op, cond_fn, [*carried_inputs, *additional_inputs])
    inner = op.subgraph()
    iteration = region_input(inner, "iteration", torch.int64, [])
    condition = region_input(inner, "condition", torch.bool, [])
    states = [region_state(inner, "state", item, None) for item in carried]
    shaped = [_with_placeholder_shape(inner, body_fn, state, n) for n, state in enumerate(states)]
    results = [_as_tensor(inner, item) for item in op.body(inner, body_fn, [*shaped, *additional_inputs])]
    again = op.body(inner, cond_fn, [*results, *additional_inputs])
    body = region(inner, "body", [iteration, condition, *states], [_scalar(inner, again), *results])
    inputs = [None, _scalar(op, first), *carried]
    return _emit(op, "Loop", inputs, body.outputs[1:], results, body=body)


@translates("higher_order::scan")
def scan(
    op: Builder,
    combine_fn: GraphModule,
    init: Sequence[object],
    xs: Sequence[Tensor],
    additional_inputs: Sequence[object] = (),
) -> Sequence[Tensor]:
    states = [_as_tensor(op, item) for item in init]
    if is_marked(op.call, COUNTED_LOOP):
        return _counted(op, combine_fn, states, _trip_count(op, xs[0]), additional_inputs)
    return _scan(op, combine_fn, states, xs, additional_inputs)


def _trip_count(op: Builder, iterations: Tensor) -> Tensor:
    """How many iterations there are, by their numbers 0, 1, 2 …: the limit of the Range that gives these."""
    node = iterations.value.producer()
    limit = node.inputs[1] if node is not None and node.op_type == "Range" else None
    return op.scalar(iterations.shape[0], torch.int64) if limit is None else Tensor(op, limit, torch.int64, [])


def _counted(
    op: Builder, graph: GraphModule, init: Sequence[Tensor], count: Tensor, closure: Sequence[object]
) -> Sequence[Tensor]:
    """A loop that a script counts: a Loop of ONNX has the number of the iteration, and may run not at all."""
    inner = op.subgraph()
    iteration = region_input(inner, "iteration", torch.int64, [])
    condition = region_input(inner, "condition", torch.bool, [])
    states = [region_state(inner, "state", item, None if item.is_handle else item.shape) for item in init]
    results = [_as_tensor(inner, item) for item in op.body(inner, graph, [*states, iteration, *closure])]
    body = region(inner, "body", [iteration, condition, *states], [inner.Identity(condition), *results])
    return _emit(op, "Loop", [count, op.const(True, torch.bool), *init], body.outputs[1:], results, body=body)


@translates("higher_order::map_impl")
def map_(op: Builder, f: GraphModule, xs: Sequence[Tensor], pos_args: Sequence[object]) -> Sequence[Tensor]:
    return _scan(op, f, [], xs, pos_args)


@translates("higher_order::associative_scan")
def associative_scan(
    op: Builder, combine_fn: GraphModule, xs: Sequence[Tensor], additional_inputs: Sequence[object] = ()
) -> Sequence[Tensor]:
    """Element by element: the carry is the result so far, and the first result is the first element."""
    first = [op.Gather(x, op.const(0, torch.int64), axis=0).with_shape(x.shape[1:]) for x in xs]
    rest = [op.slice(x, 0, 1, None).with_shape([x.shape[0] - 1, *x.shape[1:]]) for x in xs]
    inner = op.subgraph()
    states = [region_input(inner, "state", x.dtype, x.shape) for x in first]
    elements = [region_input(inner, "element", x.dtype, x.shape) for x in first]
    results = op.body(inner, combine_fn, [*states, *elements, *additional_inputs])
    body = region(inner, "body", [*states, *elements], [*results, *results])
    outputs = _emit(op, "Scan", [*first, *rest], body.outputs, [*results, *results], body=body, num_scan_inputs=len(xs))
    scanned = outputs[len(xs) :]
    return [op.Concat(op.unsqueeze(start, [0]), later, axis=0) for start, later in zip(first, scanned, strict=True)]


def _scan(
    op: Builder, combine_fn: GraphModule, init: Sequence[Tensor], xs: Sequence[Tensor], closure: Sequence[object]
) -> Sequence[Tensor]:
    inner = op.subgraph()
    states = [region_input(inner, "state", item.dtype, item.shape) for item in init]
    elements = [region_input(inner, "element", x.dtype, x.shape[1:]) for x in xs]
    results = [_as_tensor(inner, item) for item in op.body(inner, combine_fn, [*states, *elements, *closure])]
    body = region(inner, "body", [*states, *elements], results)
    return _emit(op, "Scan", [*init, *xs], body.outputs, results, body=body, num_scan_inputs=len(xs))


def _emit(
    op: Builder,
    op_type: str,
    inputs: Sequence[Tensor | None],
    outputs: Sequence[ir.Value],
    results: Sequence[object],
    **attributes: Any,
) -> tuple[Tensor, ...]:
    dtypes = [item.dtype if isinstance(item, Tensor) else _NUMBER_DTYPES[type(item)] for item in results]
    made = op.multi(op_type, *inputs, outputs=len(outputs), out_dtypes=dtypes, **attributes)
    with_types(made, results)
    return made


def _as_tensor(op: Builder, item: object) -> Tensor:
    if isinstance(item, Tensor):
        return item
    assert isinstance(item, bool | int | float | Dim)
    return op.scalar(item, _NUMBER_DTYPES[item.kind if isinstance(item, Dim) else type(item)])


def _scalar(op: Builder, results: Sequence[object]) -> Tensor:
    return op.reshape(op.cast(_as_tensor(op, results[0]), torch.bool), [])


def _with_placeholder_shape(op: Builder, graph: GraphModule, state: Tensor, position: int) -> Tensor:
    """A loop's state with the shape the body was captured with, which may vary from iteration to iteration."""
    placeholder = graph.graph.find_nodes(op="placeholder")[position]
    value = placeholder.meta["val"]
    return state.with_shape(op.shared.dim_names.shape(value) if isinstance(value, torch.Tensor) else [])
