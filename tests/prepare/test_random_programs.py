"""Random programs of views, writes and reads: the functional graph computes what the program does, exactly.

The graphs are built node by node, as a capture would build them, because a real capture takes a hundred times
longer; where sizes are static, small real tensors serve as their own fakes, which is faster again.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable
from typing import Any

import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental import _config as symbolic_config
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

from onnxport.prepare.effects import effects
from onnxport.prepare.functionalize import functionalize, writes

aten = torch.ops.aten
Node = torch.fx.Node
SHAPE, OTHER = (6, 8), (7, 10)


class Program:
    """A graph under construction; every call is run as it is added, on fake tensors where sizes are dynamic."""

    def __init__(self, dynamic: bool) -> None:
        self.graph = torch.fx.Graph()
        self.mode = FakeTensorMode(shape_env=ShapeEnv()) if dynamic else contextlib.nullcontext()
        self.pool: list[Node] = []
        for name in ("x", "y"):
            node = self.graph.placeholder(name)
            node.meta["val"] = torch.zeros(SHAPE, dtype=torch.int64)
            if isinstance(self.mode, FakeTensorMode):
                # Its own source, or both inputs would share their symbols.
                source = torch._dynamo.source.LocalSource(name)
                context = StatelessSymbolicContext([DimDynamic.DYNAMIC] * 2)
                node.meta["val"] = self.mode.from_tensor(node.meta["val"], source=source, symbolic_context=context)
            self.pool.append(node)
        self.pool.append(self.call(aten.mul.Tensor, self.pool[0], 3))

    def call(self, target: Any, *args: Any) -> Node:
        values = torch.fx.node.map_arg(args, lambda node: node.meta["val"])
        with self.mode, torch.no_grad(), symbolic_config.patch(backed_size_oblivious=True):
            value = target(*values)
        node = self.graph.call_function(target, args)
        node.meta["val"] = value
        return node


def axis(node: Node, number: int) -> int:
    return number % node.meta["val"].dim()


def pieces(program: Program, node: Node, a: int, b: int) -> Node:
    parts = program.call(aten.split.Tensor, node, 2, axis(node, a))
    return program.call(operator.getitem, parts, b % 2)


def bound_pieces(program: Program, node: Node, a: int, b: int) -> Node:
    parts = program.call(aten.chunk.default, node, 2, axis(node, a))
    return program.call(operator.getitem, parts, b % 2)


VIEWS: list[Callable[[Program, Node, int, int], Node]] = [
    lambda p, n, a, b: p.call(aten.slice.Tensor, n, axis(n, a), b % 3, 2**63 - 1),
    lambda p, n, a, b: p.call(aten.slice.Tensor, n, axis(n, a), 0, 2**63 - 1, 1 + b % 3),
    lambda p, n, a, b: p.call(aten.slice.Tensor, n, axis(n, a), -3, -1),
    lambda p, n, a, b: p.call(aten.select.int, n, axis(n, a), b % 2 - 1),
    lambda p, n, a, b: p.call(aten.narrow.default, n, axis(n, a), b % 2, 1),
    lambda p, n, a, b: p.call(aten.transpose.int, n, axis(n, a), axis(n, b)),
    lambda p, n, a, b: p.call(aten.permute.default, n, list(range(n.meta["val"].dim()))[::-1]),
    lambda p, n, a, b: p.call(aten.movedim.int, n, axis(n, a), axis(n, b)),
    lambda p, n, a, b: p.call(aten.unsqueeze.default, n, a % 2),
    lambda p, n, a, b: p.call(aten.squeeze.dim, n, axis(n, a)),
    lambda p, n, a, b: p.call(aten.view.default, n, [-1]),
    lambda p, n, a, b: p.call(aten.reshape.default, n, [-1]),
    lambda p, n, a, b: p.call(aten.reshape.default, n, [2, -1]),
    lambda p, n, a, b: p.call(aten.flatten.using_ints, n),
    lambda p, n, a, b: p.call(aten.contiguous.default, n),
    lambda p, n, a, b: p.call(aten.to.dtype, n, torch.int64),
    lambda p, n, a, b: p.call(aten.detach.default, n),
    lambda p, n, a, b: p.call(aten.diagonal.default, n, b % 2),
    lambda p, n, a, b: p.call(aten.unfold.default, n, axis(n, a), 2, 2 + b % 2),
    lambda p, n, a, b: p.call(aten.unflatten.int, n, axis(n, a), [2, -1]),
    pieces,
    bound_pieces,
]
WRITES: list[Callable[[Program, Node, int, int], Node]] = [
    lambda p, n, a, b: p.call(aten.add_.Tensor, n, a),
    lambda p, n, a, b: p.call(aten.neg_.default, n),
    lambda p, n, a, b: p.call(aten.clamp_.default, n, -a, b),
    lambda p, n, a, b: p.call(aten.fill_.Scalar, n, a),
    lambda p, n, a, b: p.call(aten.zero_.default, n),
    lambda p, n, a, b: p.call(aten.copy_.default, n, p.call(aten.sum.default, p.pool[b % len(p.pool)])),
    lambda p, n, a, b: p.call(aten.copy_.default, n, p.call(aten.flip.default, n, [0])),
    # A copy: torch does not define what a write reads of an operand that it partly overwrites.
    lambda p, n, a, b: p.call(aten.add_.Tensor, n, p.call(aten.clone.default, p.pool[b % len(p.pool)])),
    lambda p, n, a, b: p.call(aten.ge_.Scalar, n, a),
    lambda p, n, a, b: p.call(aten.masked_fill_.Scalar, n, p.call(aten.gt.Scalar, n, 2), b),
]
READS: list[Callable[[Program, Node, int, int], Node]] = [
    lambda p, n, a, b: p.call(aten.add.Tensor, n, a),
    lambda p, n, a, b: p.call(aten.clone.default, n),
    lambda p, n, a, b: p.call(aten.mul.Tensor, n, p.call(aten.sum.default, p.pool[b % len(p.pool)])),
]
KINDS = [VIEWS, VIEWS, WRITES, READS]
NUMBER = st.integers(0, 9)
STEPS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30), NUMBER, NUMBER, NUMBER), min_size=2, max_size=14)


def build(steps: list[tuple[int, int, int, int, int]], dynamic: bool) -> torch.fx.Graph:
    """The program of some steps; a step that torch refuses at these shapes is left out."""
    program = Program(dynamic)
    for kind, which, where, a, b in steps:
        choices = KINDS[kind]
        source = program.pool[-1 - where % len(program.pool)]
        if source.meta["val"].dim() == 0 and kind < 2:
            continue
        count = len(program.graph.nodes)
        try:
            program.pool.append(choices[which % len(choices)](program, source, a, b))
        except (RuntimeError, IndexError, ValueError):
            for node in reversed(list(program.graph.nodes)[count:]):
                program.graph.erase_node(node)
    program.graph.output(tuple(program.pool))
    return program.graph


def copy(graph: torch.fx.Graph) -> torch.fx.Graph:
    made, copies = torch.fx.Graph(), {}
    made.output(made.graph_copy(graph, copies))
    return made


class Strideless(torch.fx.Interpreter):
    """Functional values need not have the strides that the program's tensors had, and `view` is strict about them."""

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target is aten.view.default and not args[0].is_contiguous():
            target = aten.reshape.default
        return super().call_function(target, args, kwargs)


def values(graph: torch.fx.Graph, shape: tuple[int, int], final: dict[Node, Node]) -> list[torch.Tensor]:
    """What a graph returns, followed by what its inputs hold afterwards."""
    inputs = [torch.arange(torch.Size(shape).numel()).reshape(shape) * sign + sign for sign in (1, -1)]
    interpreter = Strideless(torch.nn.Module(), graph=graph, garbage_collect_values=False)
    outputs = list(interpreter.run(*inputs))
    placeholders = graph.find_nodes(op="placeholder")
    return outputs + [interpreter.env[final.get(node, node)] for node in placeholders]


def check(steps: list[tuple[int, int, int, int, int]], dynamic: bool) -> None:
    graph = build(steps, dynamic)
    functional = copy(graph)
    final = functionalize(functional, lambda name, value: name) if writes(functional) else {}
    assert not [node for node in functional.nodes if effects(node.target).writes]
    for shape in [SHAPE, OTHER] if dynamic else [SHAPE]:
        try:
            expected = values(graph, shape, {})
        except RuntimeError:  # the program is not one for these sizes
            continue
        torch.testing.assert_close(values(functional, shape, final), expected, rtol=0, atol=0)


def test_a_list_of_views_is_taken_again_as_a_whole():
    program = Program(dynamic=False)
    x = program.pool[0]
    parts = program.call(aten.split.Tensor, x, 2, 1)
    program.call(aten.add_.Tensor, x, 1)
    graph = program.graph
    graph.output((program.call(aten.cat.default, parts),))
    functional = copy(graph)
    final = functionalize(functional, lambda name, value: name)
    torch.testing.assert_close(values(functional, SHAPE, final), values(graph, SHAPE, {}))


@settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(STEPS)
def test_random_program(steps):
    check(steps, dynamic=False)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(STEPS)
def test_random_program_with_dynamic_sizes(steps):
    check(steps, dynamic=True)
