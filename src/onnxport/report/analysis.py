"""The analysis in the report: what the model has, takes and returns, and which operators it is made of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

import torch
from torch.export.graph_signature import ArgumentSpec, ConstantArgument, InputKind, OutputKind, TensorArgument

from onnxport.capture import Captured
from onnxport.prepare import FunctionalProgram
from onnxport.provenance import source_line
from onnxport.report.account import operator_counts
from onnxport.torch_internals.layers import extract_tensor_metadata
from onnxport.torch_internals.operators import HigherOrderOperator, OpOverload
from onnxport.translate.engine import has_complex
from onnxport.translate.registry import Lookup


def analysis(captured: Captured, functional: FunctionalProgram | None, find: Lookup) -> str:
    """Return the text between ``## Analysis`` and the comparison of decompositions."""
    program = captured.program
    graph = program.graph if functional is None else functional.graph
    signature = program.graph_signature if functional is None else functional.signature
    parameters, buffers = _count(program.parameters()), _count(program.buffers())
    lines = [
        "PyTorch ONNX Conversion Analysis",
        "",
        "## Model Information",
        "",
        f"The model has {sum(parameters.values())} parameters and {sum(buffers.values())} buffers "
        "(non-trainable parameters).",
        "Number of parameters per dtype:",
        *_block(parameters),
        "Number of buffers per dtype:",
        *_block(buffers),
        "",
        "Inputs:",
        *_described(graph, [spec.arg for spec in signature.input_specs if spec.kind is InputKind.USER_INPUT]),
        "",
        "Outputs:",
        *_described(graph, [spec.arg for spec in signature.output_specs if spec.kind is OutputKind.USER_OUTPUT]),
        "",
        f"The FX graph has {len(graph.nodes)} nodes in total. Number of FX nodes per op:",
    ]
    kinds: defaultdict[str, int] = defaultdict(int)
    for node in graph.nodes:
        kinds[node.op] += 1
    lines += [f"- `{kind}`: {count}" for kind, count in kinds.items()]
    lines += ["", "", "Of the call_function nodes, the counts of operators used are:", ""]
    # Sorting keeps the order of equals: that of the graph.
    ranked = sorted(operator_counts(graph).items(), key=lambda entry: -entry[1])
    lines += [f"- `{target}`: {count}" for target, count in ranked]
    lines += ["", "## ONNX Conversion Information", "", *_conversion(graph, find)]
    return "\n".join(lines) + "\n"


def decomposition_comparison(captured: Captured, functional: FunctionalProgram) -> str:
    """Which operators preparing the captured graph took away, and which it brought."""
    before, after = set(operator_counts(captured.program.graph)), set(operator_counts(functional.graph))
    return (
        f"Ops exist only in the ExportedProgram before decomposition: `{sorted(before - after)}`\n\n"
        f"Ops exist only in the ExportedProgram after decomposition: `{sorted(after - before)}`\n"
    )


def printed_program(captured: Captured, functional: FunctionalProgram | None) -> str:
    """The prepared graph as torch prints an exported program; the captured one if none was prepared."""
    program = captured.program
    if functional is None or functional.graph is program.graph:
        return str(program)
    # The graph belongs to no module; a copy gets one, for torch prints modules only.
    copy = torch.fx.Graph()
    copy.output(copy.graph_copy(functional.graph, {}))
    module = torch.fx.GraphModule(functional.owner, copy, class_name="GraphModule")
    text = module.print_readable(print_output=False, colored=False).replace("\n", "\n    ")
    signature = str(functional.signature).replace("\n", "\n    ")
    return (
        f"ExportedProgram:\n    {text}\nGraph signature: {signature}\n"
        f"Range constraints: {dict(functional.range_constraints)}\n"
    )


def missing_translations(graph: torch.fx.Graph, find: Lookup) -> dict[str, list[torch.fx.Node]]:
    """The calls that have no translation, by operator."""
    missing: dict[str, list[torch.fx.Node]] = {}
    for node in graph.nodes:
        target = node.target
        operator = isinstance(target, HigherOrderOperator) or (
            isinstance(target, OpOverload) and not target._schema.name.startswith("aten::sym_")
        )
        if operator and find(target, has_complex(node)) is None:
            missing.setdefault(str(target), []).append(node)
    return missing


def _conversion(graph: torch.fx.Graph, find: Lookup) -> Iterator[str]:
    missing = missing_translations(graph, find)
    if not missing:
        yield "All operators in the model have registered ONNX decompositions."
        return
    yield "Some operators of the model have no translation to ONNX. Errors grouped by operator:"
    yield ""
    for target, nodes in sorted(missing.items()):
        first = nodes[0]
        yield (
            f"- `{target}`: no translation; first at {source_line(first)}. "
            f"Example node: `{first.format_node()}`. All nodes: `{nodes}`"
        )


def _count(tensors: Iterable[torch.Tensor]) -> defaultdict[torch.dtype, int]:
    counts: defaultdict[torch.dtype, int] = defaultdict(int)
    for tensor in tensors:
        counts[tensor.dtype] += tensor.numel()
    return counts


def _block(counts: defaultdict[torch.dtype, int]) -> list[str]:
    return ["```python", str(counts), "```"]


def _described(graph: torch.fx.Graph, arguments: Iterable[ArgumentSpec]) -> Iterator[str]:
    nodes = {node.name: node for node in graph.nodes}
    for argument in arguments:
        if isinstance(argument, ConstantArgument):
            continue
        if isinstance(argument, TensorArgument):
            meta = nodes[argument.name].meta
            noted, shown = meta.get("tensor_meta"), extract_tensor_metadata(meta["val"])
            # A capture of ours notes no memory formats.
            shown = shown if noted is None else noted._replace(memory_format=shown.memory_format)
            yield f"- `{argument.name}`: `{shown}`"
        else:
            yield f"- `{argument.name}`: `{type(argument).__name__.removesuffix('Argument')}`"
