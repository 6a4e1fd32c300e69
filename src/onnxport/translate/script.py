"""ONNX Script functions as translations: scripted ones become functions of the model, plain ones are traced.

The package does not need ONNX Script: whoever hands over such a function has imported it.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol, TypeGuard, TypeVar, get_args

import numpy as np
import onnx
import onnx_ir as ir
import torch

from onnxport.errors import TranslationError
from onnxport.onnx_build.opsets import CANONICAL_OPSET
from onnxport.onnx_build.schemas import schema_of
from onnxport.translate.builder import Builder
from onnxport.translate.dims import Dim, Int
from onnxport.translate.tensor import Tensor
from onnxport.weights.dtypes import carrier_dtype, from_torch_dtype, to_torch_dtype


class _ScriptParameter(Protocol):
    name: str
    required: bool
    type: ir.AttributeType
    type_constraint: Any

    def is_attribute(self) -> bool: ...
    def has_default(self) -> bool: ...


class _ScriptSignature(Protocol):
    params: Sequence[_ScriptParameter]


class _ScriptCalls(Protocol):
    def get_called_functions(self) -> Mapping[str, ScriptedFunction]: ...


class _ScriptOpset(Protocol):
    domain: str
    version: int


class ScriptedFunction(Protocol):
    """A function that ``onnxscript.script`` has turned into one of ONNX, as far as it is looked at here."""

    name: str
    opset: _ScriptOpset
    op_signature: _ScriptSignature
    function_ir: _ScriptCalls

    def to_function_proto(self) -> onnx.FunctionProto:
        """The function as ONNX stores it."""
        ...


class ScriptOperator(Protocol):
    """An operator of one of ONNX Script's opsets."""

    name: str
    opset: _ScriptOpset
    op_schema: onnx.defs.OpSchema | None


@dataclass(frozen=True)
class Script:
    """A scripted function as the table of translations wants it."""

    parameters: Sequence[inspect.Parameter]
    emit: Callable[..., object]
    refuses: Callable[[str, object], str | None]


def is_script(value: object) -> TypeGuard[ScriptedFunction]:
    """Whether a value is a function that ONNX Script has turned into a function of ONNX."""
    return hasattr(value, "to_function_proto") and hasattr(value, "op_signature")


def script_function(function: ScriptedFunction) -> Script:
    """Calls of a scripted function: a node each, and the function itself in the model once."""
    known = {parameter.name: parameter for parameter in function.op_signature.params}

    def emit(op: Builder, *args: object, **kwargs: object) -> object:
        results = _call_function(op, function, args, kwargs, _expected(op))
        return results[0] if len(results) == 1 else results

    def refuses(name: str, value: object) -> str | None:
        parameter = known[name]
        if parameter.is_attribute():
            if isinstance(value, Tensor | Dim):
                return f"`{name}` is an attribute, but here it is known only at run time"
        elif isinstance(value, Tensor):
            allowed = {getattr(one, "dtype", None) for one in parameter.type_constraint.allowed_types}
            if ir.DataType.UNDEFINED not in allowed and value.value.dtype not in allowed:
                return f"`{name}` may not be of {value.dtype}"
        return None

    empty = inspect.Parameter.empty
    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=empty if parameter.required and not parameter.has_default() else None,
        )
        for name, parameter in known.items()
    ]
    return Script(parameters, emit, refuses)


def element_types(annotation: object) -> frozenset[ir.DataType]:
    """The element types that ONNX Script's annotations allow (``FLOAT``, a union of such, a type variable over it).

    There are none where an annotation is another, or leaves the element type open.
    """
    bound = annotation.__bound__ or annotation.__constraints__ if isinstance(annotation, TypeVar) else annotation
    parts = bound if isinstance(bound, tuple) else get_args(bound)
    if parts:
        allowed = [element_types(part) for part in parts if part is not type(None)]
        return frozenset().union(*allowed) if all(allowed) else frozenset()
    dtype = getattr(bound, "dtype", None) if isinstance(bound, type) else None
    return frozenset({dtype}) if isinstance(dtype, ir.DataType) and dtype is not ir.DataType.UNDEFINED else frozenset()


def traced_function(function: Callable[..., object]) -> Callable[..., object]:
    """Calls of a plain function: what it calls on ONNX Script's opsets is emitted where it stands."""

    def emit(op: Builder, *args: object, **kwargs: object) -> object:
        with _evaluated_by(ScriptEvaluator(op)):
            return function(*args, **kwargs)

    return emit


def _evaluated_by(emitter: ScriptEvaluator) -> AbstractContextManager[object]:
    if "onnxscript" not in sys.modules:
        return nullcontext()
    # Never imported on our own account: a function written for ONNX Script has brought it along.
    evaluator = importlib.import_module("onnxscript.evaluator")
    context: AbstractContextManager[object] = evaluator.default_as(emitter)
    return context


class ScriptEvaluator:
    """What ONNX Script calls an evaluator: it is asked for each operator, and emits it."""

    def __init__(self, op: Builder) -> None:
        self._op = op

    def eval_op(self, operator: ScriptOperator, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        """Emit an operator of an opset object, ``opset18.Add(x, y)``."""
        schema = operator.op_schema
        if schema is None:
            raise TranslationError(f"{operator.name} is not an operator of {operator.opset}")
        formal = [parameter.name for parameter in schema.inputs]
        named = {name: value for name, value in kwargs.items() if name in formal}
        given = [*args, *[None] * (len(formal) - len(args))] if named else list(args)
        for name, value in named.items():
            given[formal.index(name)] = value
        attributes = {k: _attribute(v) for k, v in kwargs.items() if v is not None and k not in named}
        inputs = _as_tensors(self._op, given, [_formal(schema, at).type_str for at in range(len(given))])
        count = _output_count(schema, given, attributes)
        results = self._emit(schema, operator.opset.version, inputs, attributes, count)
        return results[0] if count == 1 else results

    def eval_function(self, function: ScriptedFunction, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        """Emit a call of a scripted function."""
        results = _call_function(self._op, function, args, kwargs, None)
        return results[0] if len(results) == 1 else results

    def _emit(
        self,
        schema: onnx.defs.OpSchema,
        version: int,
        inputs: Sequence[Tensor | None],
        attributes: dict[str, Any],
        count: int,
    ) -> tuple[Tensor, ...]:
        stated = _stated_dtype(schema, attributes)
        if schema.domain == "" and _reads_the_same(schema):
            values = [None if x is None else x._value for x in inputs]
            known = schema_of(schema.name, CANONICAL_OPSET)
            if stated is None and (known is None or known.result_type(0, values) is None):
                stated = _fallback_dtype(self._op, inputs)
            return self._op.multi(schema.name, *inputs, outputs=count, out_dtype=stated, **attributes)
        dtype = _fallback_dtype(self._op, inputs) if stated is None else stated
        outputs = [(dtype, None)] * count
        return self._op.custom(schema.domain, schema.name, inputs, attributes, outputs, version)


def _reads_the_same(schema: onnx.defs.OpSchema) -> bool:
    """Whether an operator of ONNX's own domain means at the canonical opset what it meant where it was taken from."""
    try:
        return bool(onnx.defs.get_schema(schema.name, CANONICAL_OPSET).since_version == schema.since_version)
    except onnx.defs.SchemaError:
        return False


def _formal(schema: onnx.defs.OpSchema, position: int) -> onnx.defs.OpSchema.FormalParameter:
    return schema.inputs[min(position, len(schema.inputs) - 1)]


def _output_count(schema: onnx.defs.OpSchema, inputs: Sequence[object], attributes: Mapping[str, Any]) -> int:
    if schema.name == "Split":
        sizes = inputs[1] if len(inputs) > 1 else None
        count = attributes.get("num_outputs", len(sizes) if isinstance(sizes, list | tuple) else None)
        if count is None:
            raise TranslationError("Split is given no `num_outputs`, which says how many parts there are")
        return int(count)
    if schema.name == "BatchNormalization" and not attributes.get("training_mode", 0):
        return 1
    return len(schema.outputs)


def _stated_dtype(schema: onnx.defs.OpSchema, attributes: Mapping[str, Any]) -> torch.dtype | None:
    for name in ("to", "dtype"):
        if isinstance(attributes.get(name), int):
            return carrier_dtype(attributes[name])
    if schema.name == "Constant":
        if "value" in attributes:
            return to_torch_dtype(attributes["value"].dtype)
        return torch.int64 if "value_int" in attributes or "value_ints" in attributes else torch.float32
    if schema.name == "ConstantOfShape":
        return to_torch_dtype(attributes["value"].dtype) if "value" in attributes else torch.float32
    return None


def _fallback_dtype(op: Builder, inputs: Sequence[Tensor | None]) -> torch.dtype:
    """The likeliest dtype where no schema tells: that of the first input, else of the call's result."""
    for value in inputs:
        if value is not None:
            return value.dtype
    expected = _expected(op)
    return torch.float32 if not expected else expected[0][0]


Expected = list[tuple[torch.dtype, Sequence[Int] | None]]


def _expected(op: Builder) -> Expected:
    """Dtypes and shapes of the results torch says the call has."""
    assert op.call is not None
    value = op.call.meta.get("val")
    parts = value if isinstance(value, list | tuple) else [value]
    numbers = {torch.SymInt: torch.int64, torch.SymFloat: torch.float64, torch.SymBool: torch.bool}
    return [
        (part.dtype, op.shared.dim_names.shape(part))
        if isinstance(part, torch.Tensor)
        else (numbers.get(type(part), torch.int64), ())
        for part in parts
    ]


def _call_function(
    op: Builder,
    function: ScriptedFunction,
    args: Sequence[object],
    kwargs: Mapping[str, object],
    expected: Expected | None,
) -> tuple[Tensor, ...]:
    parameters = list(function.op_signature.params)
    values = dict(zip((parameter.name for parameter in parameters), args, strict=False)) | dict(kwargs)
    formal = [parameter for parameter in parameters if not parameter.is_attribute()]
    kinds = [parameter.type_constraint.name for parameter in formal]
    inputs = _as_tensors(op, [values.get(parameter.name) for parameter in formal], kinds)
    while inputs and inputs[-1] is None:
        inputs.pop()
    attributes = {
        parameter.name: _typed(_attribute(values[parameter.name]), parameter.type)
        for parameter in parameters
        if parameter.is_attribute() and values.get(parameter.name) is not None
    }
    body = _register(op, function)
    count = len(body.outputs)
    if expected is None or len(expected) != count:
        expected = [(_fallback_dtype(op, inputs), None)] * count
    return op.custom(body.domain, body.name, inputs, attributes, expected, int(function.opset.version))


def _register(op: Builder, function: ScriptedFunction) -> ir.Function:
    """Put a function and those it calls into the model, each once."""
    body = ir.serde.deserialize_function(function.to_function_proto())
    known = op.shared.functions.setdefault(body.identifier(), body)
    if known is body:
        for called in function.function_ir.get_called_functions().values():
            inner = _register(op, called)
            op.shared.opset_imports.setdefault(inner.domain, int(called.opset.version))
    return known


def _as_tensors(op: Builder, values: Sequence[object], kinds: Sequence[str]) -> list[Tensor | None]:
    """Inputs as tensors; a number takes the dtype of a tensor whose type must be the same."""
    dtypes = {kind: value.dtype for kind, value in zip(kinds, values, strict=True) if isinstance(value, Tensor)}
    return [_as_tensor(op, value, dtypes.get(kind)) for value, kind in zip(values, kinds, strict=True)]


def _as_tensor(op: Builder, value: object, dtype: torch.dtype | None) -> Tensor | None:
    if value is None or isinstance(value, Tensor):
        return value
    if isinstance(value, Dim):
        return op.scalar(value, torch.int64 if dtype is None else dtype)
    if isinstance(value, list | tuple) and any(isinstance(item, Dim) for item in value):
        return op.ints(value)
    array = np.asarray(value)
    if dtype is None:
        own = torch.from_numpy(array.reshape(-1)).dtype
        dtype = torch.float32 if own == torch.float64 and not isinstance(value, np.ndarray) else own
    return op.const(array.astype(from_torch_dtype(dtype).numpy()), dtype)


def _attribute(value: object) -> Any:
    """An attribute as the builder takes it."""
    if isinstance(value, onnx.TensorProto):
        return ir.serde.deserialize_tensor(value)
    if isinstance(value, np.ndarray):
        return ir.tensor(value)
    if isinstance(value, torch.dtype):
        return int(from_torch_dtype(value))
    return value


def _typed(value: Any, kind: ir.AttributeType) -> object:
    match kind:
        case ir.AttributeType.FLOAT:
            return float(value)
        case ir.AttributeType.FLOATS:
            return [float(item) for item in value]
        case _:
            return value
