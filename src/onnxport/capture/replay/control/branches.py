"""``prim::If``: followed where the graph knows the way, captured as ``cond`` where only run time does."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch.fx.experimental.symbolic_shapes import has_free_unbacked_symbols

from onnxport.capture.replay.control.closures import Closure, Operand, free_values, sampling
from onnxport.capture.replay.control.specs import UnlikeBranches, spec_of
from onnxport.capture.replay.interpreter import NodeCall, handles, result_of
from onnxport.capture.replay.values.stand_ins import ReplayValue, Truth, known_truth
from onnxport.torch_graph import Block, Type
from onnxport.torch_internals.operators import cond_op


@handles("prim::If")
def _if(call: NodeCall, given: ReplayValue) -> ReplayValue:
    blocks = list(call.node.blocks())
    condition = known_truth(given)
    if isinstance(condition, bool):
        return _followed(call, blocks[0 if condition else 1])
    for taken, other in ((0, 1), (1, 0)):
        # A check: the model as exported is for inputs that pass it.
        if _raises(blocks[other]):
            return _followed(call, blocks[taken])
    # Whether sizes decide: then following the example is a guard, and that is reported.
    by_size = isinstance(condition, torch.SymBool) and not has_free_unbacked_symbols(condition)
    if by_size and not _computes(blocks):
        # Nothing but numbers is chosen here.
        return _followed(call, blocks[0 if condition else 1])
    try:
        return result_of(call.node, _captured(call, condition, blocks))
    except UnlikeBranches:
        if not by_size:
            raise
    return _followed(call, blocks[0 if condition else 1])


def _followed(call: NodeCall, block: Block) -> ReplayValue:
    return result_of(call.node, call.run.block(block, call.env))


def _raises(block: Block) -> bool:
    return any(node.kind() == "prim::RaiseException" for node in block.nodes())


def _computes(blocks: Sequence[Block]) -> bool:
    """Whether blocks call anything on tensors or lists of them, or give any."""
    nodes = [node for block in blocks for node in block.nodes()]
    values = [value for node in nodes for value in (*node.outputs(), *node.inputs()) if _is_list(value.type())]
    values += [output for node in nodes for output in node.outputs()]
    values += [output for block in blocks for output in block.outputs()]
    return any(value.type().kind() == "TensorType" or _is_list(value.type()) for value in values) or any(
        node.kind() == "prim::CallMethod" for node in nodes
    )


def _is_list(type_: Type) -> bool:
    """Whether a type is that of lists of tensors."""
    return type_.kind() == "ListType" and type_.getElementType().kind() == "TensorType"


def _captured(call: NodeCall, condition: torch.SymBool | Truth, blocks: Sequence[Block]) -> list[ReplayValue]:
    """Both branches as the functions of a ``cond``.

    They are run first to see what they give: from the two values of a variable follows how it leaves.
    """
    call.trace()
    closure = Closure(call.run, call.env, free_values(blocks))
    with sampling():
        samples = [closure.sampled(block) for block in blocks]
        if closure.attributes or closure.containers:
            samples = [closure.sampled(block) for block in blocks]
        specs = [spec_of(one, other, closure.symbols) for one, other in zip(*samples, strict=True)]

    def branch(which: int) -> Callable[..., tuple[torch.Tensor, ...]]:
        def run_branch(*operands: Operand) -> tuple[torch.Tensor, ...]:
            own = closure.own(operands)
            results = closure.block(blocks[which], own)
            leaving = [x for spec, result in zip(specs, results, strict=True) for x in spec.flatten(result)]
            return (*leaving, *closure.written(own))

        return run_branch

    predicate = condition.tensor if isinstance(condition, Truth) else condition
    call.trace()
    with sampling():
        leaves = any(spec.flatten(result) for spec, result in zip(specs, samples[0], strict=True)) or closure.writes
    values = iter(cond_op(predicate, branch(0), branch(1), tuple(closure.operands)) if leaves else ())
    results = [spec.unflatten(values) for spec in specs]
    closure.write_back(list(values))
    count = call.node.outputsSize()
    closure.assign(results[count:])
    return results[:count]
