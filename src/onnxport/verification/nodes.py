"""Comparing value by value: every result that the functional graph and the ONNX graph both have, by its name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir
import torch

from onnxport.capture.replay.values.sequences import unpack
from onnxport.errors import with_plain_errors
from onnxport.prepare import FunctionalProgram
from onnxport.program import ONNXProgram
from onnxport.program.runtime import Output
from onnxport.provenance import ORIGINAL_NAME, enclosing_modules, origin_of, source_line
from onnxport.verification import running
from onnxport.verification.info import Compared, VerificationInfo

# Values are computed in batches of about this size, so that a large model's intermediates need not all be held.
_BATCH_BYTES = 1 << 29

Key = tuple[str, str]
SharedValues = dict[Key, ir.Value]


@dataclass(frozen=True)
class Comparison:
    """One value in both graphs."""

    info: VerificationInfo
    value: ir.Value
    fx_node: torch.fx.Node


@dataclass(frozen=True)
class Mismatch:
    """The first value of an ONNX model that departs from torch's.

    Attributes:
        info: The differences.
        node: The ONNX node that computes the value.
        fx_node: The node of the captured graph that it stands for.
        module: The path of the module it belongs to, such as ``encoder.layers.0``; empty for the model itself.
        source: The line of the model's code: ``file:line in function: code``.
    """

    info: VerificationInfo
    node: ir.Node
    fx_node: torch.fx.Node
    module: str
    source: str

    def __str__(self) -> str:
        of = f" of module {self.module}" if self.module else ""
        return (
            f"{self.node.op_type} node {self.node.name}{of} is the first to depart from torch.\n"
            f"    {self.info}\n"
            f"    It stands for {self.fx_node.name} = {self.fx_node.target}\n"
            f"    at {self.source}"
        )


@with_plain_errors
def find_mismatch(
    program: ONNXProgram, args: tuple[object, ...] | None = None, kwargs: dict[str, object] | None = None
) -> Mismatch | None:
    """Return the first ONNX node, in the order of computation, whose value departs from torch's.

    Args:
        program: The program that ``export`` returned.
        args: Positional arguments of the model; without any, those of the export.
        kwargs: Keyword arguments.

    Returns:
        The node, its module and the line of code it comes from; None when all values agree.

    >>> import torch, onnxport
    >>> from onnxport.verification import find_mismatch
    >>> program = onnxport.export(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU()), (torch.ones(4, 3),))
    >>> find_mismatch(program) is None
    True
    >>> program.apply_weights({"0.bias": torch.full((2,), 9.0)})
    >>> find_mismatch(program).fx_node.name
    'linear'
    """
    positional, keywords = running.example_inputs(program, args, kwargs)
    for found in compare_nodes(program, positional, keywords):
        if not found.info.matches:
            node = found.value.producer()
            assert node is not None
            return Mismatch(found.info, node, found.fx_node, _module_path(found.fx_node), source_line(found.fx_node))
    return None


def compare_nodes(program: ONNXProgram, args: Sequence[object], kwargs: Mapping[str, object]) -> Iterator[Comparison]:
    """Compare all shared values in the order of computation, in batches: nothing beyond what is asked for is run."""
    functional = running.functional_program(program, args, kwargs)
    shared = _shared_values(program.model.graph)
    batches = _batches([node for node in functional.graph.nodes if node.op == "call_function"], shared)
    for batch in batches:
        yield from _compare_batch(program, functional, batch, shared, args, kwargs)


def _compare_batch(
    program: ONNXProgram,
    functional: FunctionalProgram,
    batch: Sequence[torch.fx.Node],
    shared: SharedValues,
    args: Sequence[object],
    kwargs: Mapping[str, object],
) -> Iterator[Comparison]:
    wanted = set(batch)
    expected: list[tuple[torch.fx.Node, Key, torch.Tensor, bool]] = []

    def visit(node: torch.fx.Node, result: object, is_random: bool) -> None:
        if node in wanted:
            expected.extend((node, key, part, is_random) for key, part in _keyed(node, result) if key in shared)

    running.NodeByNode(functional, visit).compute(program, args, kwargs)
    names = [str(shared[key].name) for _, key, _, _ in expected]
    actual = program.compute_values(names, args, kwargs)
    for (node, key, result, is_random), value in zip(expected, actual.values(), strict=True):
        onnx_value = shared[key]
        found: Output = value
        if running.is_handle(onnx_value) and not isinstance(found, list):
            found = [] if found is None else [found]
        for name, one, other in _pairs(str(onnx_value.name), result, found):
            yield Comparison(VerificationInfo.from_tensors(name, one, other, is_random=is_random), onnx_value, node)


def _pairs(name: str, expected: torch.Tensor, actual: Output) -> Iterator[tuple[str, Compared, Compared]]:
    """What to compare: two tensors, or the lengths and the items of two sequences."""
    if isinstance(actual, torch.Tensor):
        yield name, expected, actual
        return
    items = unpack(expected)
    actual = [] if actual is None else actual
    yield f"len({name})", len(items), len(actual)
    for position, (one, other) in enumerate(zip(items, actual, strict=False)):
        yield f"{name}[{position}]", one, other


def _batches(nodes: Sequence[torch.fx.Node], shared: SharedValues) -> Iterator[list[torch.fx.Node]]:
    batch: list[torch.fx.Node] = []
    size = 0
    for node in nodes:
        parts = [part for key, part in _keyed(node, node.meta.get("val")) if key in shared]
        if not parts:
            continue
        batch.append(node)
        size += sum(_bytes(part) for part in parts)
        if size > _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _keyed(node: torch.fx.Node, result: object) -> Iterator[tuple[Key, torch.Tensor]]:
    """Each tensor of a result under the names that the translation gives node and value."""
    if isinstance(result, list | tuple):
        for index, part in enumerate(result):
            if isinstance(part, torch.Tensor):
                yield (node.name, f"{node.name}_{index}"), part
    elif isinstance(result, torch.Tensor):
        yield (node.name, node.name), result


def _bytes(value: torch.Tensor) -> int:
    count = 1
    for size in value.shape:
        # The example's size stands for one that varies.
        count *= size if isinstance(size, int) else (size.node.hint if size.node.has_hint() else 1)
    return count * value.element_size()


def _shared_values(graph: ir.Graph) -> SharedValues:
    """The ONNX values, by the name of the FX node they come from and their own name."""
    found: SharedValues = {}
    for node in graph:
        origin = origin_of(node)
        if origin is not None:
            for value in node.outputs:
                found[origin.name, value.metadata_props.get(ORIGINAL_NAME, str(value.name))] = value
    return found


def _module_path(node: torch.fx.Node) -> str:
    modules = enclosing_modules(node)
    return modules[-1].path if modules else ""
