"""The engine: walks a functional FX graph and calls a translation for each node.

Everything translations need not think about is here, in one place each: binding, promotion, the
check of the result's dtype and shape, names, provenance, and reporting all problems at once.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import torch

from onnxport.capture.forks.decisions import DECIDED
from onnxport.errors import OnnxExporterError, Problem, TranslationError
from onnxport.events import EventLog
from onnxport.provenance import Provenance, operator_name, source_line
from onnxport.torch_internals.operators import HigherOrderOperator, OpOverload
from onnxport.translate.binding import Parameter, bind_parameters, parameters_of, signature_to_write
from onnxport.translate.builder import Builder
from onnxport.translate.dims import Dim, Int
from onnxport.translate.one_type import mixed_types, operands_of_one_type
from onnxport.translate.promotion import common_dtype, promoted_to_float
from onnxport.translate.registry import Lookup, Translation
from onnxport.translate.repeat import Recipe, Slots, record, seen_arguments
from onnxport.translate.tensor import Tensor

_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)

Translated: TypeAlias = Any
"""What an FX value is in translations: a tensor, a number, a Dim, None, a string, or a list of these."""


@dataclass(frozen=True, slots=True, eq=False)
class CallPlan:
    """How calls of one target are translated: what is looked up once for all of them.

    ``alike`` holds the positions of the operands that must be of one type.
    """

    translation: Translation
    parameters: Sequence[Parameter] | None
    alike: tuple[int, ...]


@dataclass
class Failed:
    """Stands for the result of a call that could not be translated, so that the walk can go on."""


class Engine:
    """Translates the nodes of one graph with one builder."""

    def __init__(self, op: Builder, find: Lookup, owner: torch.nn.Module, events: EventLog) -> None:
        self.op = op
        self.find = find
        self.owner = owner
        self.events = events
        self.env: dict[torch.fx.Node, Translated] = {}
        op.body = self.body
        self.problems: list[Problem] = []
        self._plans: dict[torch.fx.Node, CallPlan] = {}
        self._recipes: dict[tuple[Hashable, ...], Recipe | None] = {}

    def run(self, graph: torch.fx.Graph) -> None:
        """Translate every call that contributes to an output; raise with all problems if there are any."""
        live = _live(graph)
        self._look_up([node for node in graph.nodes if node in live])
        for node in graph.nodes:
            if node in live and node not in self.env:
                self._node(node)
        if self.problems:
            raise TranslationError("The model can't be translated to ONNX:", self.problems)

    def body(self, op: Builder, graph: torch.fx.GraphModule, arguments: Sequence[object]) -> list[Translated]:
        """Translate a graph that a higher-order operator calls, with its own or this graph's builder."""
        inner = Engine(op, self.find, graph, self.events)
        call, scope, provenance = op.translated, op.scope, op.provenance
        for node, argument in zip(graph.graph.find_nodes(op="placeholder"), arguments, strict=True):
            inner.bind(node, argument)
        try:
            inner.run(graph.graph)
        finally:
            op.body, op.translated, op.scope, op.provenance = self.body, call, scope, provenance
        results = graph.graph.output_node().args[0]
        return [inner.read(item) for item in (results if isinstance(results, list | tuple) else [results])]

    def bind(self, node: torch.fx.Node, argument: object) -> None:
        """Give a placeholder its argument; a number that varies is known by the symbol it was captured with."""
        value = node.meta.get("val")
        if isinstance(value, _SYMBOLIC):
            number = self.op.shared.dim_names.read(value)
            self._define(number, argument)
            self.env[node] = number
            return
        if not isinstance(argument, Tensor):
            self.env[node] = argument
            return
        tensor = Tensor(self.op, argument.value, argument.dtype, argument.known_shape)
        if isinstance(value, torch.Tensor):
            tensor = tensor.with_shape(self.op.shared.dim_names.shape(value))
            self.add_sources(tensor)
        self.env[node] = tensor

    def read(self, argument: Any) -> Translated:
        """An FX argument as translations see it: Tensor, number, Dim, or a list of these."""
        kind = type(argument)
        if kind is torch.fx.Node:
            if argument in self.env:
                return self.env[argument]
            return self.op.shared.dim_names.read(argument.meta["val"])
        if kind is int or kind is float or kind is bool or argument is None:
            return argument
        if isinstance(argument, list | tuple):
            return [self.read(item) for item in argument]
        if isinstance(argument, _SYMBOLIC):
            return self.op.shared.dim_names.read(argument)
        return argument

    def _look_up(self, nodes: Sequence[torch.fx.Node]) -> None:
        """Find the translation of every call; the calls that have none are refused together."""
        complex_valued = {node for node in nodes if _is_complex(node.meta.get("val"))}
        unknown: Counter[str] = Counter()
        first: dict[str, torch.fx.Node] = {}
        # By identity: hashing an operator runs Python.
        plans: dict[tuple[int, bool], CallPlan | None] = {}
        for node in nodes:
            if node.op != "call_function":
                continue
            of_complex = bool(complex_valued) and not complex_valued.isdisjoint((node, *node.all_input_nodes))
            key = (id(node.target), of_complex)
            if key not in plans:
                plans[key] = self._plan(node.target, of_complex)
            plan = plans[key]
            if plan is not None:
                self._plans[node] = plan
            if plan is not None or _is_plumbing(node):
                continue
            takes_complex = of_complex and not complex_valued.isdisjoint(node.all_input_nodes)
            name = f"{node.target} for complex tensors" if takes_complex else str(node.target)
            unknown[name] += 1
            first.setdefault(name, node)
        if not unknown:
            return
        problems = [
            Problem(
                f"{name} has no translation",
                source_line(node),
                _how_to_translate(node),
                count=unknown[name],
                operator=operator_name(node.target),
            )
            for name, node in first.items()
        ]
        raise TranslationError(
            f"{len(problems)} operator(s) of the model have no translation to ONNX:",
            problems,
        )

    def _plan(self, target: object, of_complex: bool) -> CallPlan | None:
        translation = self.find(target, of_complex)
        if translation is None:
            return None
        operator = isinstance(target, OpOverload)
        parameters = parameters_of(target, translation.parameters) if operator else None
        return CallPlan(translation, parameters, operands_of_one_type(target) if operator else ())

    def _node(self, node: torch.fx.Node) -> None:
        if node.op == "get_attr":
            self._attribute(node)
            return
        if node.target is operator.getitem:
            self._item(node)
            return
        plan = self._plans.get(node)
        if plan is None:
            return
        if plan.alike and (mixed := mixed_types(node, plan.alike, self.env)) is not None:
            self.problems.append(mixed)
            self.env[node] = Failed()
            return
        op = self.op
        op.translated, op.scope, op.provenance = node, node.name, Provenance(node)
        start = len(op.nodes)
        try:
            self.env[node] = self._finish(node, self._call(node, plan), start)
        except OnnxExporterError as error:
            self._fail(node, error)
        except (AssertionError, TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
            if _uses_failed(node, self.env):
                self.env[node] = Failed()
                return
            what = f"The translation of {node.target} failed with {type(error).__name__}: {error}"
            remedy = "This is a fault of onnxport; a translation of your own in `custom_translation_table` replaces it."
            raise TranslationError.about(Problem(what, source_line(node), remedy)) from error

    def _fail(self, node: torch.fx.Node, error: OnnxExporterError) -> None:
        if error.problems and all(problem.where for problem in error.problems):
            # Those of a branch or body, which know their own operators and lines.
            self.problems += [replace(one, remedy=one.remedy or error.advice) for one in error.problems]
        else:
            what = f"{node.target}: {error}"
            self.problems.append(Problem(what, source_line(node), operator=operator_name(node.target)))
        self.env[node] = Failed()

    def _call(self, node: torch.fx.Node, plan: CallPlan) -> Translated:
        if plan.parameters is None:
            return plan.translation.function(
                self.op, *self.read(node.args), **{k: self.read(v) for k, v in node.kwargs.items()}
            )
        arguments = bind_parameters(plan.parameters, node.args, node.kwargs, self.read)
        slots: Slots = {}
        described = seen_arguments(arguments.values(), slots) if plan.translation.own else None
        if described is None:
            return call_translation(self.op, plan.translation, arguments)
        key = (plan, described)
        if recipe := self._recipes.get(key):
            return recipe.follow(self.op, slots)
        return self._first_or_second(key, plan.translation, arguments, slots)

    def _first_or_second(
        self, key: tuple[Hashable, ...], translation: Translation, arguments: dict[str, object], slots: Slots
    ) -> Translated:
        """Translate a call for the first or second time its description is met; most are never met again."""
        op = self.op
        op.shared.looked = False
        start = len(op.nodes)
        result = call_translation(op, translation, arguments)
        if not op.shared.looked:
            self._recipes[key] = (
                record(slots, op.nodes[start:], op.provenance, result) if key in self._recipes else None
            )
        return result

    def _finish(self, node: torch.fx.Node, result: Translated, start: int) -> Translated:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            return self._stamp(node, node.name, result, value, start)
        if isinstance(value, list | tuple):
            return tuple(
                None if part is None else self._finish_one(node, f"{node.name}_{index}", part, expected, start)
                for index, (part, expected) in enumerate(zip(result, value, strict=True))
            )
        return self._finish_one(node, node.name, result, value, start)

    def _finish_one(
        self, node: torch.fx.Node, name: str, result: Translated, expected: object, start: int
    ) -> Translated:
        if isinstance(expected, torch.Tensor):
            return self._stamp(node, name, result, expected, start)
        if isinstance(expected, _SYMBOLIC):
            number = self.op.shared.dim_names.read(expected)
            self._define(number, result)
            return number
        return result

    def _define(self, number: object, value: Translated) -> None:
        """Let a symbol stand for a value: a tensor of one element, or another number."""
        if isinstance(number, Dim) and number != value:
            vector = self.op.reshape(value, [1]) if isinstance(value, Tensor) else self.op.sizes.vector(value)
            self.op.sizes.define(number.expr, vector)

    def _stamp(self, node: torch.fx.Node, name: str, result: Tensor, expected: torch.Tensor, start: int) -> Tensor:
        """Bring a result to the dtype torch says it has, state its shape, and name it after the FX node."""
        op = self.op
        if result.dtype != expected.dtype:
            self.events.add("cast", "translate", f"{node.name}: {result.dtype} to {expected.dtype}")
            result = op.cast(result, expected.dtype)
        shape = op.shared.dim_names.shape(expected)
        if result.known_shape != shape or result.op is not op:
            _check_shape(node, result.known_shape, shape)
            result = Tensor(op, result.value, result.dtype, shape)
        value = result.value
        producer = value.producer()
        if producer is not None and producer in op.nodes[start:]:
            value.name = own_name = op.shared.names.unique(name)
            if producer.outputs[0] is value:
                producer.name = f"node_{own_name}"
            if not result.is_handle:
                value.shape = op.ir_shape((*shape, 2) if result.is_complex else shape)
        self.add_sources(result)
        return result

    def add_sources(self, tensor: Tensor) -> None:
        """Let run-time sizes be read off this tensor."""
        for axis, size in enumerate(tensor.shape):
            if type(size) is not int and isinstance(size, Dim) and size.expr.is_Symbol:
                self.op.sizes.add_source(size.expr, tensor, axis)

    def add_multiples(self, tensor: Tensor) -> None:
        """Let what the sizes of an input are made of be read off them: ``half`` of an axis of ``2*half``."""
        for axis, size in enumerate(tensor.shape):
            if isinstance(size, Dim) and not size.expr.is_Symbol:
                self.op.sizes.add_multiple(size.expr, tensor, axis)

    def _item(self, node: torch.fx.Node) -> None:
        source, index = node.args
        assert isinstance(source, torch.fx.Node)
        parts = self.env[source]
        self.env[node] = parts if isinstance(parts, Failed) else parts[index]

    def _attribute(self, node: torch.fx.Node) -> None:
        value: Any = self.owner
        for part in str(node.target).split("."):
            value = getattr(value, part)
        if isinstance(value, torch.Tensor):
            self.op.scope = node.name
            self.env[node] = self.op.const(value.detach().cpu().numpy(), value.dtype)
        else:
            self.env[node] = value


def _how_to_translate(node: torch.fx.Node) -> str:
    """What a user writes for an operator that has no translation."""
    target = node.target
    if any(_is_sparse(one.meta.get("val")) for one in (node, *node.all_input_nodes)):
        return "ONNX has dense tensors only: leave the sparse form out of the model, as to_dense() does."
    if not isinstance(target, OpOverload):
        return "Replace the call in the model: what is no operator of torch can't be translated."
    name = target._schema.name.partition("::")[2]
    key = f"torch.ops.{target._schema.name.replace('::', '.')}"
    written = f"`{signature_to_write(target)} return op.…`"
    return f"Write {written} with operators of ONNX, and pass custom_translation_table={{{key}: {name}}}."


def _is_sparse(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.layout is not torch.strided


def call_translation(op: Builder, translation: Translation, arguments: dict[str, object]) -> Translated:
    """Call a translation with arguments bound by name: what must be fixed is, and operands have their common dtype."""
    for name in translation.static:
        if name in arguments and _has_dim(arguments[name]):
            raise TranslationError(
                f"`{name}` must be a fixed number, but here it depends on a run-time size ({arguments[name]})."
            )
    if translation.promote:
        _promote(op, arguments, translation)
    return translation.function(op, **arguments)


def _promote(op: Builder, arguments: dict[str, Translated], translation: Translation) -> None:
    operands = {name: arguments[name] for name in translation.promote if arguments.get(name) is not None}
    dtype = common_dtype(list(operands.values()))
    if translation.to_float:
        dtype = promoted_to_float(dtype)
    for name, operand in operands.items():
        if isinstance(operand, Tensor):
            arguments[name] = op.cast(operand, dtype)
        else:
            arguments[name] = op.scalar(operand, dtype)


def _live(graph: torch.fx.Graph) -> set[torch.fx.Node]:
    live: set[torch.fx.Node] = set()
    for node in reversed(graph.nodes):
        if node.op in ("output", "placeholder") or node in live or node.target is DECIDED:
            live.add(node)
            live.update(node.all_input_nodes)
    return live


_SIZES = frozenset(
    {
        torch.ops.aten.sym_size.int,
        torch.ops.aten.sym_numel.default,
        torch.ops.aten.sym_stride.int,
        torch.ops.aten.sym_storage_offset.default,
    }
)


def _is_plumbing(node: torch.fx.Node) -> bool:
    """Python arithmetic on sizes and the like: read through the expression of its value where no one translates it."""
    target = node.target
    if target is operator.getitem:
        return True
    if isinstance(target, OpOverload):
        return target in _SIZES
    return not isinstance(target, HigherOrderOperator) and isinstance(
        node.meta.get("val"), (*_SYMBOLIC, int, float, bool)
    )


def has_complex(node: torch.fx.Node) -> bool:
    """Whether a call takes or gives a complex tensor."""
    return any(_is_complex(value.meta.get("val")) for value in (node, *node.all_input_nodes))


def _is_complex(value: object) -> bool:
    if isinstance(value, torch.Tensor):
        return value.dtype.is_complex
    return isinstance(value, list | tuple) and any(_is_complex(item) for item in value)


def _uses_failed(node: torch.fx.Node, env: Mapping[torch.fx.Node, object]) -> bool:
    return any(isinstance(env.get(source), Failed) for source in node.all_input_nodes)


def _has_dim(value: object) -> bool:
    return isinstance(value, Dim) or (isinstance(value, list) and any(isinstance(item, Dim) for item in value))


def _check_shape(node: torch.fx.Node, found: tuple[Int, ...] | None, expected: tuple[Int, ...]) -> None:
    if found is None:
        return
    same_rank = len(found) == len(expected)
    if not same_rank or any(
        isinstance(a, int) and isinstance(b, int) and a != b for a, b in zip(found, expected, strict=True)
    ):
        raise AssertionError(f"{node.name} came out with shape {found} where torch has {expected}.")
