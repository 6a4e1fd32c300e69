"""Arguments of symbolic functions as Python values: ``parse_args`` and what it is made of."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any, Literal, NoReturn, TypeAlias, TypeVar, get_args, overload

import torch

from onnxport.errors import OnnxExporterWarning, SymbolicValueError, TranslationError
from onnxport.symbolic.helper.questions import _is_constant, _is_none, _is_packed_list
from onnxport.symbolic.session.given import constant_content
from onnxport.symbolic.session.registration import Symbolic
from onnxport.torch_internals.torchscript import JitValue

__all__ = [
    "_get_const",
    "_maybe_get_const",
    "_maybe_get_scalar",
    "_onnx_opset_unsupported",
    "_onnx_opset_unsupported_detailed",
    "_onnx_unsupported",
    "_parse_arg",
    "_unimplemented",
    "parse_args",
]
"""What ``torch.onnx.symbolic_helper`` has of this, under its names."""

Descriptor: TypeAlias = Literal["v", "i", "is", "f", "fs", "b", "s", "t", "none"]
F = TypeVar("F", bound=Symbolic)

_DESCRIPTORS = get_args(Descriptor)


def parse_args(*arg_descriptors: Descriptor) -> Callable[[F], F]:
    """Give a symbolic function its arguments as Python values.

    Args:
        arg_descriptors: One per argument behind ``g``: ``v`` leaves a value as it is; ``i``, ``f``, ``b``, ``s`` and
            ``t`` are a constant int, float, bool, text and tensor; ``is`` and ``fs`` lists of constant ints and
            floats; ``none`` is an argument that is not looked at. None stays None.

    >>> import onnxport
    >>> @onnxport.symbolic_helper.parse_args("v", "f")
    ... def leaky(g, x, slope):
    ...     return g.op("LeakyRelu", x, alpha_f=slope)
    """
    if unknown := [one for one in arg_descriptors if one not in _DESCRIPTORS]:
        raise ValueError(f"{unknown} are not descriptors of arguments; those are {', '.join(_DESCRIPTORS)}.")

    def decorate(function: F) -> F:
        names = list(inspect.signature(function).parameters)
        # A context may stand before `g`.
        first = names.index("g") + 1 if "g" in names else 1

        @functools.wraps(function)
        def parsed(*given: object, **kwargs: object) -> object:
            head, args = given[:first], given[first:]
            if len(args) > len(arg_descriptors):
                raise TranslationError(
                    f"{function.__name__} is described by {len(arg_descriptors)} arguments in parse_args, "
                    f"but the operator has {len(args)}."
                )
            tail = names[first:]
            values = [
                _parse_arg(arg, one, tail[at] if at < len(tail) else None, function.__name__)
                for at, (arg, one) in enumerate(zip(args, arg_descriptors, strict=False))
            ]
            return function(*head, *values, **kwargs)

        parsed._arg_descriptors = arg_descriptors  # type: ignore[attr-defined]
        return parsed  # type: ignore[return-value]

    return decorate


@overload
def _parse_arg(value: object, desc: Literal["i"], arg_name: str | None = ..., node_name: str | None = ...) -> int: ...
@overload
def _parse_arg(
    value: object, desc: Literal["is"], arg_name: str | None = ..., node_name: str | None = ...
) -> list[int]: ...
@overload
def _parse_arg(value: object, desc: Descriptor, arg_name: str | None = ..., node_name: str | None = ...) -> object: ...
def _parse_arg(value: object, desc: Descriptor, arg_name: str | None = None, node_name: str | None = None) -> object:
    """One argument by its descriptor; what is not a value of the graph passes as it is.

    >>> import torch
    >>> graph = torch._C.Graph()
    >>> _parse_arg(graph.insertConstant(3), "i"), _parse_arg(graph.insertConstant([1, 2]), "fs")
    (3, [1.0, 2.0])
    """
    if desc in ("none", "v") or not isinstance(value, JitValue):
        return value
    if _is_none(value):
        return None
    content = constant_content(value)
    if content is None and _is_packed_list(value):
        items = [constant_content(item) for item in value.node().inputs()]
        content = None if any(item is None for item in items) else items
    if content is None:
        raise SymbolicValueError(
            f"{_what(arg_name, node_name)} must be a constant ({desc}), but {value.debugName()} is computed by "
            f"{value.node().kind()}.",
            value,
        )
    try:
        return _CONVERT[desc](content)
    except (TypeError, ValueError, RuntimeError) as error:
        raise SymbolicValueError(
            f"{_what(arg_name, node_name)} is {content!r}, not of type {desc}: {error}", value
        ) from error


def _what(arg_name: str | None, node_name: str | None) -> str:
    named = "An argument" if arg_name is None else f"The argument `{arg_name}`"
    return named if node_name is None else f"{named} of {node_name}"


def _items(content: Any) -> list[int | float]:
    if isinstance(content, torch.Tensor):
        return list(content.reshape(-1).tolist())
    return [item.item() if isinstance(item, torch.Tensor) else item for item in content]


def _tensor(content: object) -> torch.Tensor:
    if isinstance(content, torch.Tensor):
        return content
    # A Python float has the precision of a double.
    return torch.tensor(content, dtype=torch.float64 if isinstance(content, float) else None)


_CONVERT: dict[Descriptor, Callable[[Any], object]] = {
    "i": int,
    "f": float,
    "b": bool,
    "s": str,
    "t": _tensor,
    "is": lambda content: [int(item) for item in _items(content)],
    "fs": lambda content: [float(item) for item in _items(content)],
}


@overload
def _get_const(value: object, desc: Literal["i"], arg_name: str) -> int: ...
@overload
def _get_const(value: object, desc: Descriptor, arg_name: str) -> object: ...
def _get_const(value: object, desc: Descriptor, arg_name: str) -> object:
    """A constant by its descriptor; anything else is refused."""
    if isinstance(value, JitValue) and not _is_constant(value) and constant_content(value) is None:
        raise SymbolicValueError(
            f"{_what(arg_name, None)} must be a constant, but is computed by {value.node().kind()}.", value
        )
    return _parse_arg(value, desc, arg_name)


@overload
def _maybe_get_const(value: object, descriptor: Literal["i"]) -> int | JitValue: ...
@overload
def _maybe_get_const(value: object, descriptor: Literal["is"]) -> list[int] | JitValue: ...
@overload
def _maybe_get_const(value: object, descriptor: Descriptor) -> object: ...
def _maybe_get_const(value: object, descriptor: Descriptor) -> object:
    """A constant by its descriptor; anything else as it is."""
    if isinstance(value, JitValue) and (_is_constant(value) or constant_content(value) is not None):
        return _parse_arg(value, descriptor)
    return value


def _maybe_get_scalar(value: object) -> object:
    """A constant of one element as a tensor of no dimensions; anything else as it is."""
    found = value
    if isinstance(value, JitValue) and _is_constant(value) and not isinstance(constant_content(value), str | list):
        found = _parse_arg(value, "t")
    return found if isinstance(found, torch.Tensor) and found.dim() == 0 else value


def _unimplemented(op: str, msg: str, value: JitValue | None = None) -> None:
    """Warn that a use of an operator can't be written; the symbolic function then returns None."""
    where = "" if value is None else f" ({value.debugName()})"
    warnings.warn(f"{op} can't be exported: {msg}{where}.", OnnxExporterWarning, stacklevel=2)


def _onnx_unsupported(op_name: str, value: JitValue | None = None) -> NoReturn:
    """Refuse an operator that ONNX can't express."""
    where = "" if value is None else f" ({value.debugName()})"
    raise TranslationError(f"{op_name} can't be expressed in ONNX{where}.")


def _onnx_opset_unsupported(
    op_name: str, current_opset: int, supported_opset: int, value: JitValue | None = None
) -> NoReturn:
    """Refuse an operator that the opset can't express."""
    _onnx_opset_unsupported_detailed(op_name, current_opset, supported_opset, "", value)


def _onnx_opset_unsupported_detailed(
    op_name: str, current_opset: int, supported_opset: int, reason: str, value: JitValue | None = None
) -> NoReturn:
    """Refuse a use of an operator that the opset can't express, with the reason."""
    why = f" ({reason})" if reason else ""
    where = "" if value is None else f" at {value.debugName()}"
    raise TranslationError(
        f"{op_name} can't be expressed in opset {current_opset}{why}{where}; pass opset_version={supported_opset}."
    )
