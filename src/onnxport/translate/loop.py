"""Loops: bodies written as Python functions of tensors, emitted as ONNX ``Scan`` and ``Loop``.

A body gets a builder of its own and must use that one for every node it makes; ``inside`` brings a tensor
of the outer graph in reach of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import onnx_ir as ir
import torch

from onnxport.translate.builder import Builder
from onnxport.translate.dims import Int
from onnxport.translate.regions import inside, region, region_input, region_state, with_types
from onnxport.translate.tensor import Tensor

__all__ = ["Outcome", "emit_loop", "emit_scan", "inside"]

Outcome = tuple[Sequence[Tensor], Sequence[Tensor]]
"""What the body of a scan returns: the new state, and what it contributes to the stacked results."""


def emit_scan(
    op: Builder,
    body: Callable[[Builder, Sequence[Tensor], Sequence[Tensor]], Outcome],
    state: Sequence[Tensor],
    over: Sequence[tuple[Tensor, int]],
    stack: Sequence[int] = (),
    reverse: bool = False,
) -> tuple[list[Tensor], list[Tensor]]:
    """Run ``body(op, state, slices)`` along an axis of each tensor in ``over``.

    Returns the last state, and the results stacked along the axes in ``stack``. With ``reverse`` the slices
    are taken from the end, and the results are stacked in the places of the slices they were made of.
    """
    inner = op.subgraph()
    states = [region_input(inner, f"state_{i}", x.dtype, x.known_shape) for i, x in enumerate(state)]
    slices = [
        region_input(inner, f"slice_{i}", x.dtype, [size for position, size in enumerate(x.shape) if position != axis])
        for i, (x, axis) in enumerate(over)
    ]
    following, stacked = body(inner, states, slices)
    count = over[0][0].shape[over[0][1]]
    shapes = [[*x.shape[:axis], count, *x.shape[axis:]] for x, axis in zip(stacked, stack, strict=True)]
    if any(0 in x.shape for x, _ in over):
        # There is nothing to do, and runtimes stumble over slices of nothing.
        _withdraw_uses(inner.nodes)
        return list(state), [op.full(0, shape, x.dtype) for x, shape in zip(stacked, shapes, strict=True)]
    results = op.multi(
        "Scan",
        *state,
        *(x for x, _ in over),
        outputs=len(following) + len(stacked),
        out_dtypes=[x.dtype for x in (*following, *stacked)],
        body=region(inner, "body", [*states, *slices], [*following, *stacked]),
        num_scan_inputs=len(over),
        scan_input_axes=[axis for _, axis in over],
        scan_output_axes=list(stack) if stack else None,
        scan_input_directions=[1] * len(over) if reverse else None,
        scan_output_directions=[1] * len(stack) if reverse and stack else None,
    )
    last = [result.with_shape(x.shape) for result, x in zip(results[: len(state)], state, strict=True)]
    whole = [result.with_shape(shape) for result, shape in zip(results[len(state) :], shapes, strict=True)]
    return last, whole


def _withdraw_uses(nodes: Iterable[ir.Node]) -> None:
    """Let nodes that are in no graph read nothing: what is made for them alone may then go."""
    for node in nodes:
        for index in range(len(node.inputs)):
            node.replace_input_with(index, None)
        for attribute in node.attributes.values():
            if attribute.type == ir.AttributeType.GRAPH:
                _withdraw_uses(attribute.as_graph())


def emit_loop(
    op: Builder,
    body: Callable[[Builder, Tensor, Sequence[Tensor]], Sequence[Tensor]],
    count: Int | Tensor,
    state: Sequence[Tensor],
) -> list[Tensor]:
    """Run ``body(op, iteration, state)`` a number of times; the iteration is a 0-d int64. Returns the last state.

    The number may be a 0-d int64 tensor; below 0 it counts as 0.
    """
    inner = op.subgraph()
    iteration = region_input(inner, "iteration", torch.int64, [])
    condition = region_input(inner, "condition", torch.bool, [])
    states = [region_state(inner, f"state_{i}", x, x.known_shape) for i, x in enumerate(state)]
    following = body(inner, iteration, states)
    graph = region(inner, "body", [iteration, condition, *states], [inner.Identity(condition), *following])
    dtypes = [x.dtype for x in following]
    limit = count if isinstance(count, Tensor) else op.scalar(count, torch.int64)
    inputs = [limit, None, *state]
    results = op.multi("Loop", *inputs, outputs=len(dtypes), out_dtypes=dtypes, body=graph)
    with_types(results, following)
    return [
        result if x.known_shape is None else result.with_shape(x.shape)
        for result, x in zip(results, state, strict=True)
    ]
