"""From a functional program to an ``ir.Model``: inputs, weights, calls, outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import onnx_ir as ir
import torch
from torch.export.graph_signature import (
    ConstantArgument,
    CustomObjArgument,
    InputKind,
    InputSpec,
    SymIntArgument,
    TensorArgument,
)

from onnxport.capture.diagnosis.guards import environment_of
from onnxport.capture.forks.decisions import DECIDED
from onnxport.errors import InputError, Problem, TranslationError, with_article
from onnxport.events import EventLog
from onnxport.onnx_build.opsets import CANONICAL_OPSET
from onnxport.prepare.functional import FunctionalProgram
from onnxport.provenance import (
    GRAPH_SIGNATURE,
    INPUT_KIND,
    INPUT_PERSISTENT,
    ORIGINAL_NAME,
    OUTPUT_KIND,
    RANGE_CONSTRAINTS,
    add_aliases,
    source_line,
)
from onnxport.translate.builder import Builder, Shared
from onnxport.translate.constant_names import constant_name
from onnxport.translate.dims import Dim, DimNames, Int
from onnxport.translate.engine import Engine
from onnxport.translate.first_elements import sizes_of_parts
from onnxport.translate.registry import Lookup
from onnxport.translate.tensor import Tensor
from onnxport.weights.dtypes import COMPLEX_PARTS, from_torch_dtype
from onnxport.weights.torch_tensor import StorageKey, TorchTensor, storage_key

_STATE = (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)


@dataclass(frozen=True)
class Names:
    """The names the user chose for inputs, outputs and run-time sizes, and those the model has for its outputs.

    ``way`` tells one of several ways through a model from the others in the names of sizes that are its own.
    """

    inputs: Sequence[str] = ()
    outputs: Sequence[str] = ()
    called: Sequence[str] = ()
    dims: Mapping[str, str] = field(default_factory=dict)
    same_dims: Mapping[str, str] = field(default_factory=dict)
    output_dims: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    way: str = ""


def translate(program: FunctionalProgram, find: Lookup, names: Names, events: EventLog) -> ir.Model:
    """Translate a program to an ONNX model at the canonical opset."""
    return translate_path(program, find, names, events)[0]


def _declared_ranges(program: FunctionalProgram) -> Mapping[Any, Any]:
    """The ranges of sizes, without those that may be what torch concluded from what it asked of the example."""
    if all(known.lower <= 0 for known in program.range_constraints.values()):
        return program.range_constraints
    environment = environment_of(program.graph)
    guards = () if environment is None else environment.guards
    asked = {symbol for guard in guards for symbol in guard.expr.free_symbols}
    return {symbol: known for symbol, known in program.range_constraints.items() if symbol not in asked}


def translate_path(
    program: FunctionalProgram, find: Lookup, names: Names, events: EventLog
) -> tuple[ir.Model, dict[torch.fx.Node, ir.Value | bool]]:
    """Translate one way through a model; return also what its code asked for, by the calls that mark the decisions.

    A condition that is settled on this way is a bool.
    """
    dim_names = DimNames(names.dims, names.same_dims, _declared_ranges(program), names.way)
    shared = Shared(dim_names, sizes_of_parts(program.graph))
    op = Builder(shared)
    engine = Engine(op, find, program.owner, events)
    inputs, weights = _inputs(program, engine, names)
    output_names = _output_names(program, shared, names, {str(value.name) for value in (*inputs, *weights)})
    engine.run(program.graph)
    outputs = _outputs(program, engine, output_names, names.output_dims)
    literals = shared.literals.used()
    graph = ir.Graph(
        inputs,
        outputs,
        nodes=op.nodes,
        initializers=[*weights, *literals],
        opset_imports={"": CANONICAL_OPSET, **shared.opset_imports},
        name="main_graph",
        metadata_props={
            GRAPH_SIGNATURE: str(program.signature),
            RANGE_CONSTRAINTS: str(dict(program.range_constraints)),
        },
    )
    model = ir.Model(
        graph,
        ir_version=10,
        producer_name="pytorch",
        producer_version=torch.__version__,
        functions=list(shared.functions.values()),
    )
    conditions = {mark: engine.env[mark] for mark in program.graph.find_nodes(op="call_function", target=DECIDED)}
    return model, {mark: c.value if isinstance(c, Tensor) else c for mark, c in conditions.items()}


def _inputs(program: FunctionalProgram, engine: Engine, names: Names) -> tuple[list[ir.Value], list[ir.Value]]:
    placeholders = [node for node in program.graph.nodes if node.op == "placeholder"]
    pairs = list(zip(placeholders, program.signature.input_specs, strict=True))
    pairs = [(node, spec) for node, spec in pairs if node.users or not _is_object(spec)]
    user = [pair for pair in pairs if pair[1].kind is InputKind.USER_INPUT]
    state = [pair for pair in pairs if pair[1].kind in _STATE]
    if objects := [_object(node, spec) for node, spec in pairs if _is_object(spec)]:
        raise TranslationError("ONNX models take tensors only, but this one takes objects:", objects)
    chosen = iter(names.inputs)
    inputs = []
    for node, spec in user:
        if isinstance(spec.arg, ConstantArgument):
            engine.env[node] = spec.arg.value
        else:
            inputs.append(_user_input(engine, node, spec, next(chosen, None)))
    weights: dict[StorageKey, ir.Value] = {}
    for node, spec in state:
        _weight(program, engine, node, spec, next(chosen, None), weights)
    return inputs, list(weights.values())


def _is_object(spec: InputSpec) -> bool:
    return spec.kind not in (InputKind.USER_INPUT, *_STATE) or isinstance(spec.arg, CustomObjArgument)


def _object(node: torch.fx.Node, spec: InputSpec) -> Problem:
    """What to say of an input that is no tensor."""
    kind = getattr(spec.arg, "class_fqn", spec.kind.name).removeprefix("torch._C.")
    if kind == "Generator":
        remedy = "Leave out `generator`: an ONNX runtime draws random numbers with its own."
    else:
        remedy = "Compute what depends on it before the exported model, and pass the result as a tensor."
    return Problem(f"{node.name} is a {kind}", source_line(next(iter(node.users))), remedy)


def _user_input(engine: Engine, node: torch.fx.Node, spec: InputSpec, chosen: str | None) -> ir.Value:
    op = engine.op
    name = op.shared.names.unique(node.name if chosen is None else chosen)
    metadata = {INPUT_KIND: spec.kind.name, INPUT_PERSISTENT: str(spec.persistent)}
    if name != node.name:
        metadata[ORIGINAL_NAME] = node.name
    if isinstance(spec.arg, SymIntArgument):
        value = ir.Value(name=name, type=ir.TensorType(ir.DataType.INT64), shape=ir.Shape([]), metadata_props=metadata)
        size = op.shared.dim_names.read(node.meta["val"])
        if isinstance(size, Dim):
            op.scope = name
            op.sizes.define(size.expr, op.reshape(Tensor(op, value, torch.int64, []), [1]))
        return value
    if not isinstance(spec.arg, TensorArgument):
        raise TranslationError(
            f"The input {name} is {with_article(type(spec.arg).__name__)}; ONNX models take tensors only."
        )
    example = node.meta["val"]
    if example.dtype.is_complex:
        engine.events.add("note", "translate", f"{name} is complex: the file has its parts on a last axis.")
    tensor = _tensor(engine, name, example.dtype, op.shared.dim_names.shape(example), metadata)
    engine.env[node] = tensor
    engine.add_sources(tensor)
    engine.add_multiples(tensor)
    return tensor.value


def _weight(
    program: FunctionalProgram,
    engine: Engine,
    node: torch.fx.Node,
    spec: InputSpec,
    chosen: str | None,
    weights: dict[StorageKey, ir.Value],
) -> None:
    """Bind a parameter, buffer or constant to an initializer that refers to its storage; tied ones share one."""
    assert spec.target is not None
    content = program.state[spec.target]
    if content.layout is not torch.strided:
        # Operators that take a sparse weight for a dense one give the same for its dense form.
        content = content.to_dense()
    key = storage_key(content)
    if key in weights:
        value = weights[key]
        add_aliases(value, spec.target)
        tensor = Tensor(engine.op, value, content.dtype, engine.op.shared.dim_names.shape(content))
    else:
        name = engine.op.shared.names.unique(constant_name(node, spec.target) if chosen is None else chosen)
        metadata = {
            INPUT_KIND: spec.kind.name,
            INPUT_PERSISTENT: str(spec.persistent),
            ORIGINAL_NAME: node.name,
        }
        tensor = _tensor(engine, name, content.dtype, engine.op.shared.dim_names.shape(content), metadata)
        value = tensor.value
        value.const_value = TorchTensor(content, name, shape=value.shape, key=key)
        if name != spec.target:
            add_aliases(value, spec.target)
        weights[key] = value
    engine.env[node] = tensor


def _tensor(engine: Engine, name: str, dtype: torch.dtype, shape: tuple[Int, ...], metadata: dict[str, str]) -> Tensor:
    op = engine.op
    stored = COMPLEX_PARTS[dtype] if dtype.is_complex else dtype
    onnx_value = ir.Value(
        name=name,
        type=ir.TensorType(from_torch_dtype(stored)),
        shape=op.ir_shape((*shape, 2) if dtype.is_complex else shape),
        metadata_props=metadata,
    )
    return Tensor(op, onnx_value, dtype, shape)


def _output_names(program: FunctionalProgram, shared: Shared, names: Names, taken: set[str]) -> list[str]:
    """Reserve names for all outputs: the user's, then what the model calls them, apart from inputs and weights."""
    count = len(_results(program))
    if len(names.outputs) > count:
        raise InputError(
            f"`output_names` has {len(names.outputs)} names ({', '.join(names.outputs)}), "
            f"but the model has {count} output(s)."
        )
    if clashes := [name for name in names.outputs if name in taken]:
        raise InputError(
            f"{', '.join(clashes)} in `output_names` is the name of an input or weight; every value needs its own."
        )
    chosen = [shared.names.unique(name) for name in names.outputs]
    called = names.called if len(names.called) == count else [f"output_{index}" for index in range(count)]
    free = [f"{name}_out" if name in taken else name for name in called[len(chosen) :]]
    return [*chosen, *map(shared.names.unique, free)]


def _results(program: FunctionalProgram) -> list[object]:
    output = next(iter(program.graph.find_nodes(op="output")))
    return [item for item in output.args[0] if item is not None]


def _outputs(
    program: FunctionalProgram, engine: Engine, names: Sequence[str], dims: Mapping[str, Mapping[int, str]]
) -> list[ir.Value]:
    outputs: list[ir.Value] = []
    for item, name in zip(_results(program), names, strict=True):
        outputs.append(_output(engine, item, name, outputs, dims.get(name, {})))
    return outputs


def _output(engine: Engine, item: object, name: str, others: Sequence[ir.Value], dims: Mapping[int, str]) -> ir.Value:
    op = engine.op
    op.scope, op.provenance = name, None
    result = engine.read(item)
    if not isinstance(result, Tensor):
        dtype = {bool: torch.bool, int: torch.int64}.get(result.kind if isinstance(result, Dim) else type(result))
        result = op.scalar(result, torch.float32 if dtype is None else dtype)
    value = result.value
    is_given = value.producer() is None
    if is_given or any(value is other for other in others):
        # A graph's output must be its own value: not an input, a weight or another output.
        value = op.Identity(result).value
        value.shape = result.value.shape
    else:
        value.metadata_props[ORIGINAL_NAME] = str(value.name)
    value.name = name
    producer = value.producer()
    if producer is not None and producer.outputs[0] is value:
        producer.name = f"node_{value.name}"
    value.metadata_props[OUTPUT_KIND] = "USER_OUTPUT"
    if dims and value.shape is not None:
        value.shape = _named_shape(name, value.shape, dims)
    return value


def _named_shape(name: str, shape: ir.Shape, dims: Mapping[int, str]) -> ir.Shape:
    """The shape of an output with the user's names for its axes, of which those that vary have one."""
    rank = len(shape)
    if absent := [axis for axis in dims if not -rank <= axis < rank]:
        raise InputError(
            f"dynamic_axes names axis {', '.join(map(str, absent))} of the output '{name}', "
            f"which has {rank} axes. Count them from 0, or leave the output out: its axes vary with those of inputs."
        )
    names = {axis % rank: dim for axis, dim in dims.items()}
    return ir.Shape([size if isinstance(size, int) else names.get(axis, size) for axis, size in enumerate(shape)])
