"""Registered symbolic functions as translations of the operators they are for."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Mapping, Sequence

import torch

from onnxport.capture.diagnosis.user_lines import line_of_error, line_of_function
from onnxport.errors import OnnxExporterError, Problem, TranslationError
from onnxport.options import Options
from onnxport.symbolic.session.call_options import with_call_options
from onnxport.symbolic.session.emission import Emission
from onnxport.symbolic.session.given import tensor_type
from onnxport.symbolic.session.graph_context import CallNode, GraphContext, SymbolicContext
from onnxport.symbolic.session.registration import Symbolic
from onnxport.symbolic.session.session import Expected, SymbolicSession
from onnxport.symbolic.session.traced_names import Arrange
from onnxport.torch_internals.operators import OpOverload
from onnxport.torch_internals.torchscript import JitValue, TensorType
from onnxport.translate import Builder, Tensor
from onnxport.translate.engine import call_translation
from onnxport.translate.registry import Translation

_OUTPUTS = "_outputs"


def by_symbolic(
    function: Symbolic,
    target: OpOverload,
    own: Translation | None,
    options: Options,
    arrange: Arrange | None = None,
) -> Callable[..., object]:
    """A registered symbolic function as a translation; where it returns None, the one there is takes its place.

    ``arrange`` makes the arguments of ``target`` out of those of the call, where these are different operators.
    """

    def translate(op: Builder, **arguments: object) -> object:
        arranged = arguments if arrange is None else arrange(arguments)
        results = None if arranged is None else write(op, arranged)
        if results is not None:
            return results
        if own is None:
            raise TranslationError(f"the symbolic function registered for {target._schema.name} returned None")
        return call_translation(op, own, {name: arguments[name] for name in own.parameters if name in arguments})

    def write(op: Builder, arguments: Mapping[str, object]) -> object:
        session = SymbolicSession(op, options)
        needs = _gradients(op)
        values = [
            session.give(value, requires_grad=position < len(needs) and needs[position])
            for position, value in enumerate(arguments.values())
        ]
        expected, several = expected_results(op)
        node = session.add(target._schema.name, values, len(expected))
        taken = values[: _accepted(function, target, list(arguments.values()))]
        # How many values there are to return, for functions that want to know.
        counted = {_OUTPUTS: len(expected)} if several and _OUTPUTS in inspect.signature(function).parameters else {}
        try:
            results = run_symbolic(function, session, CallNode(node), expected, taken, counted)
        except OnnxExporterError as error:
            raise blamed(str(target), function, error) from error
        return None if results is None else tuple(results) if several else results[0]

    return translate


def run_symbolic(
    function: Symbolic,
    session: SymbolicSession,
    node: CallNode,
    expected: Expected,
    args: Sequence[object],
    kwargs: Mapping[str, object],
) -> list[Tensor | None] | None:
    """Call a symbolic function and emit what it wrote; None if it declined by returning None.

    It may return None for a result too, which nobody then may use.
    """
    for output, (dtype, shape) in zip(node.outputs(), expected, strict=True):
        output.setType(tensor_type(dtype, shape, requires_grad=any(_needs_gradient(value) for value in args)))
    block = session.graph.block()
    context = SymbolicContext(params_dict=session.parameters, cur_node=node, onnx_block=block)
    g = GraphContext(
        graph=session.graph,
        block=block,
        opset=session.options.opset,
        original_node=node,
        params_dict=context.params_dict,
        env=context.env,
        values_in_env=set(),
    )
    first: list[object] = [context, g] if wants_context(function) else [g]
    try:
        with with_call_options(session.options):
            result = function(*first, *args, **kwargs)
    except OnnxExporterError:
        raise
    except Exception as error:
        name = getattr(function, "__qualname__", repr(function))
        raise TranslationError(f"the symbolic function {name} failed with {type(error).__name__}: {error}") from error
    if result is None:
        return None
    return Emission(session).take(_returned(result, session.op, len(expected)), expected)


def blamed(name: str, function: Symbolic, error: OnnxExporterError) -> OnnxExporterError:
    """The error of a symbolic function, with its own line: it is not the model that is wrong."""
    if error.problems:
        return error
    cause = error if error.__cause__ is None else error.__cause__
    where = line_of_error(cause) or line_of_function(function)
    remedy = "The model is not to blame: correct that function."
    return TranslationError.about(Problem(f"{name}: {error}", where, remedy))


def _returned(result: object, op: Builder, count: int) -> list[JitValue | None]:
    """The values that a symbolic function returned, so many; None for one that nobody uses."""
    returned: Sequence[object] = result if isinstance(result, list | tuple) else [result]
    if len(returned) == 1 and count != 1 and isinstance(returned[0], JitValue) and _is_list(returned[0]):
        returned = list(returned[0].node().inputs())
    if len(returned) != count:
        raise TranslationError(f"the symbolic function returned {len(returned)} values where there are {count}")
    values: list[JitValue | None] = []
    for position, value in enumerate(returned):
        if value is not None and not isinstance(value, JitValue):
            raise TranslationError(f"the symbolic function returned {value!r}, which is not a value of the graph")
        if value is None and _is_used(op, position, count):
            raise TranslationError(f"the symbolic function returned None for result {position}, which the model uses")
        values.append(value)
    return values


def _is_used(op: Builder, position: int, count: int) -> bool:
    """Whether anyone reads a result of the call."""
    assert op.call is not None
    return count == 1 or any(user.target is not operator.getitem or user.args[1] == position for user in op.call.users)


def _accepted(function: Symbolic, target: OpOverload, arguments: Sequence[object]) -> int:
    """How many arguments to pass: one that has its default is left out where the function has no place for it."""
    parameters = list(inspect.signature(function).parameters.values())
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return len(arguments)
    kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    positional = [parameter for parameter in parameters if parameter.kind in kinds and parameter.name != _OUTPUTS]
    places = len(positional) - 1 - wants_context(function)
    count = len(arguments)
    for argument, value in zip(reversed(target._schema.arguments), reversed(arguments), strict=True):
        is_default = argument.has_default_value() and type(value) is type(argument.default_value)
        if count <= places or not is_default or value != argument.default_value:
            break
        count -= 1
    return count


def wants_context(function: Symbolic) -> bool:
    """Whether the first parameter of a symbolic function is annotated as the context of the call."""
    parameters = list(inspect.signature(function).parameters.values())
    if not parameters:
        return False
    annotation = parameters[0].annotation
    name = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    return name.rpartition(".")[2] == "SymbolicContext"


def expected_results(op: Builder) -> tuple[Expected, bool]:
    """What torch says of the results of the call being translated, and whether they are a list."""
    assert op.call is not None
    value = op.call.meta["val"]
    several = isinstance(value, list | tuple)
    results = [
        (one.dtype, op.shared.dim_names.shape(one)) if isinstance(one, torch.Tensor) else (torch.int64, ())
        for one in (value if several else [value])
    ]
    return results, several


def _gradients(op: Builder) -> list[bool]:
    assert op.call is not None
    return [
        isinstance(argument, torch.fx.Node) and getattr(argument.meta.get("val"), "requires_grad", False)
        for argument in op.call.args
    ]


def _needs_gradient(value: object) -> bool:
    # torch asserts that the value it is asked for is a tensor.
    return isinstance(value, JitValue) and isinstance(value.type(), TensorType) and bool(value.requiresGrad())


def _is_list(value: JitValue) -> bool:
    return value.node().kind() == "prim::ListConstruct"
