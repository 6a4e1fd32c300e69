"""``prim::If``: followed where the graph knows the way, captured as ``cond`` where only run time does.

Two branches may give tensors with different numbers of axes, and no tensor of a captured graph stands for both: then
what follows them, to the end of the graph, is run inside of each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch.fx.experimental.symbolic_shapes import has_free_unbacked_symbols

from onnxport.capture.patches.branch_equalities import in_whole_model
from onnxport.capture.replay.control.any_size import at_other_sizes
from onnxport.capture.replay.control.closures import Body, Closure, Operand, free_values, sampling
from onnxport.capture.replay.control.specs import NumberSpec, UnlikeBranches, UnlikeRanks, ValueSpec, spec_of
from onnxport.capture.replay.interpreter import Env, Finished, NodeCall, handles, result_of
from onnxport.capture.replay.values.stand_ins import ReplayValue, Truth, known_truth, plain_number
from onnxport.errors import OnnxExporterError
from onnxport.torch_graph import Block, nodes_of
from onnxport.torch_internals.operators import cond_op

Condition = torch.SymBool | Truth


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
    bodies = [_body(call, block) for block in blocks]
    try:
        return result_of(call.node, chosen(call, condition, bodies, blocks))
    except UnlikeBranches:
        # Where sizes decide, following the example is a guard, and that is reported.
        if not isinstance(condition, torch.SymBool) or has_free_unbacked_symbols(condition):
            raise
    with in_whole_model():
        taken = bool(condition)
    return _followed(call, blocks[0 if taken else 1])


def _followed(call: NodeCall, block: Block) -> ReplayValue:
    return result_of(call.node, call.run.block(block, call.env, goes_on=True))


def _raises(block: Block) -> bool:
    return any(node.kind() == "prim::RaiseException" for node in nodes_of(block))


def _body(call: NodeCall, block: Block) -> Body:
    return lambda env: call.run.block(block, env)


def chosen(
    call: NodeCall, condition: Condition, bodies: Sequence[Body], blocks: Sequence[Block], names: Sequence[int] = ()
) -> list[ReplayValue]:
    """What one of two bodies gives, where only run time knows which.

    ``blocks`` are those that the bodies run, if they do; ``names`` are the values that they read otherwise.
    """
    run = call.run
    frame = run.frames[-1]
    goes_on, frame.goes_on = frame.goes_on, False
    try:
        return _captured(call, condition, bodies, [*names, *free_values(blocks)])
    except UnlikeRanks:
        if not goes_on or not all(outer.goes_on for outer in run.frames[:-1]) or not run.returns_at_once():
            raise
    finally:
        frame.goes_on = goes_on
    rest = [_with_rest(call, body, blocks[n] if blocks else None) for n, body in enumerate(bodies)]
    results = _captured(call, condition, rest, [*names, *free_values(blocks, run.frames)], returned=True)
    raise Finished(results)


def _with_rest(call: NodeCall, body: Body, block: Block | None) -> Body:
    """A body and all that follows the node, to the end of the graph."""

    def run_all(env: Env) -> list[ReplayValue]:
        try:
            results = body(env) if block is None else call.run.block(block, env, goes_on=True)
        except Finished as finished:
            return finished.results
        return call.run.rest(env, results)

    return run_all


def _captured(
    call: NodeCall, condition: Condition, bodies: Sequence[Body], names: Sequence[int], returned: bool = False
) -> list[ReplayValue]:
    """Both branches as the functions of a ``cond``.

    They are run first to see what they give: from the two values of a variable follows how it leaves.
    """
    call.trace()
    closure = Closure(call.run, call.env, list(dict.fromkeys(names)))
    with sampling():
        sampled = [_sampled(closure, body, condition, holds=n == 0) for n, body in enumerate(bodies)]
        bodies, samples = [body for body, _ in sampled], [sample for _, sample in sampled]
        if closure.attributes or closure.containers:
            samples = [closure.sampled(body) for body in bodies]
        count = len(samples[0]) - len(closure.attributes) - len(closure.containers)
        specs = [
            spec_of(one, other, closure.symbols, returned=returned and position < count)
            for position, (one, other) in enumerate(zip(*samples, strict=True))
        ]
    effects = closure.writes or samples[0][count:]
    if isinstance(condition, torch.SymBool) and _chooses_numbers(specs, samples) and not effects:
        return _numbers(condition, specs, [closure.block(body, closure.operands) for body in bodies])

    def branch(which: int) -> Callable[..., tuple[torch.Tensor, ...]]:
        def run_branch(*operands: Operand) -> tuple[torch.Tensor, ...]:
            own = closure.own(operands)
            results = closure.block(bodies[which], own)
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
    closure.assign(results[count:])
    return results[:count]


def _sampled(closure: Closure, body: Body, condition: Condition, holds: bool) -> tuple[Body, list[ReplayValue]]:
    """A body and what it gives; one that fails at the example's sizes is tried at any that lead to it."""
    try:
        return body, closure.sampled(body)
    except OnnxExporterError:
        raise
    except RuntimeError:
        elsewhere = at_other_sizes(body, closure.names, condition, holds)
        if elsewhere is None:
            raise
        return elsewhere, closure.sampled(elsewhere)


def _chooses_numbers(specs: Sequence[ValueSpec], samples: Sequence[Sequence[ReplayValue]]) -> bool:
    """Whether nothing but numbers differs between the branches, and such as no tensor holds."""
    if not all(type(spec) in (ValueSpec, NumberSpec) for spec in specs):
        return False
    chosen = [pair for spec, *pair in zip(specs, *samples, strict=True) if isinstance(spec, NumberSpec)]
    return bool(chosen) and not any(isinstance(value, Truth) for pair in chosen for value in pair)


def _numbers(
    condition: torch.SymBool, specs: Sequence[ValueSpec], results: Sequence[Sequence[ReplayValue]]
) -> list[ReplayValue]:
    """Numbers of which sizes choose one: such stay numbers that other sizes are computed from."""
    return [
        _number(condition, one, other) if isinstance(spec, NumberSpec) else one
        for spec, one, other in zip(specs, *results, strict=True)
    ]


def _number(condition: torch.SymBool, one: ReplayValue, other: ReplayValue) -> ReplayValue:
    kinds = (bool, torch.SymBool)
    if isinstance(one, kinds) and isinstance(other, kinds):
        return _either(condition, one, other)
    first, second = plain_number(one), plain_number(other)
    weight = torch.sym_ite(condition, 1, 0)
    if isinstance(first, float | torch.SymFloat) or isinstance(second, float | torch.SymFloat):
        return first * torch.sym_float(weight) + second * torch.sym_float(1 - weight)
    return second + weight * (first - second)


def _either(condition: torch.SymBool, one: bool | torch.SymBool, other: bool | torch.SymBool) -> ReplayValue:
    otherwise = torch.sym_not(condition)
    first = (condition if one else None) if isinstance(one, bool) else condition & one
    second = (otherwise if other else None) if isinstance(other, bool) else otherwise & other
    if first is None or second is None:
        return second if first is None else first
    return first | second
