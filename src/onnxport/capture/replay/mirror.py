"""Mirrors of TorchScript modules: ordinary modules of the same tree, weights and signature, whose forward is a replay.

The names of weights, the paths of modules and their classes are those of the original, so that everything
that is derived from them is the same as for the module it was scripted or traced from.
"""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import torch

from onnxport.capture.replay.interpreter import Interpreter, Scripted
from onnxport.capture.replay.ops.grids import on_grids
from onnxport.capture.replay.ops.python_ops import to_bool, to_float, to_int
from onnxport.capture.replay.values.stand_ins import ReplayValue
from onnxport.errors import InputError
from onnxport.torch_graph import Function
from onnxport.torch_internals.torchscript import BufferDict, JitType, ParameterDict

Model = TypeVar("Model")
Bind = Callable[[Sequence[object], Mapping[str, object]], list[ReplayValue]]
"""Arguments as Python code gives them, one for each parameter of a script."""

_MANGLING = re.compile(r"___torch_mangle_\d+\.")


class Method(str):
    """The name of the method that a script calls of a module."""


class Mirror(Scripted):
    """A module that replays the graphs of a TorchScript module or function."""

    interpreter: Interpreter

    def forward(self, *args: object, **kwargs: object) -> ReplayValue:
        """Replay the method that a script calls: forward, or one that the tracer made for another call of it.

        Python code that the module is part of calls it with the arguments only.
        """
        if args and type(args[0]) is Method:
            return self.interpreter.method(self, str(args[0]), args[1:])
        return self.called("forward", *args, **kwargs)

    def called(self, name: str, *args: object, **kwargs: object) -> ReplayValue:
        """Replay a method that Python code calls."""
        method = self.methods[name]
        _, bind = signature_of(method, 1)
        return self.interpreter.run_top(self, method, bind(args, kwargs))

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__
        if name in own.get("methods", ()):
            return functools.partial(self.called, name)
        try:
            return super().__getattr__(name)
        except AttributeError:
            core = own.get("core")
            if core is None or not core.hasattr(name):
                raise
            return core.getattr(name)

    def attribute(self, name: str) -> object:
        """A parameter, buffer or child, or what else the script keeps under a name."""
        if name in self._parameters or name in self._buffers or name in self._modules or name in self.__dict__:
            return getattr(self, name)
        value = self.core.getattr(name)
        self.__dict__[name] = value
        return value


def as_mirror(model: Model) -> Model | Mirror:
    """The mirror of a TorchScript module or function; any other model itself."""
    if isinstance(model, torch.jit.ScriptFunction):
        root = _make("torch.jit", str(model.name))
        root.methods["forward"] = cast(Function, model)
        skipped = 0
    elif isinstance(model, torch.jit.ScriptModule):
        root = mirror_of(model, Interpreter(), {})
        skipped = 1
    else:
        return model
    interpreter = root.__dict__.setdefault("interpreter", Interpreter())
    interpreter.is_whole = True
    method = _entry(root)
    signature, bind = signature_of(method, skipped)

    def forward(*args: object, **kwargs: object) -> ReplayValue:
        interpreter.forget()
        return interpreter.run_top(root, method, on_grids(interpreter, bind(args, kwargs)))

    vars(forward)["__signature__"] = signature
    root.__dict__["forward"] = forward
    return root


def _entry(root: Mirror) -> Function:
    """The method that a call of a script runs."""
    if "forward" not in root.methods:
        kept = f"; it has {', '.join(root.methods)}" if root.methods else ""
        raise InputError(
            f"The script {type(root).__name__} has no method `forward`, so that it can't be called{kept}. TorchScript "
            "drops it where forward has overloads, as in nn.LSTM: script a module whose forward calls this one, or "
            "export the module itself."
        )
    return root.methods["forward"]


def mirror_of(script: torch.jit.ScriptModule, interpreter: Interpreter, made: dict[int, Mirror]) -> Mirror:
    """The mirror of a TorchScript module, as part of a model; ``made`` are those that there are already."""
    mirror = made.get(id(script)) or _mirror(script, made, {})
    for module in mirror.modules():
        module.__dict__["interpreter"] = interpreter
    return mirror


def _make(module: str, name: str) -> Mirror:
    kind = type(name, (Mirror,), {"__module__": module, "__qualname__": name})
    made: Mirror = kind()
    made.__dict__["methods"] = {}
    return made


def _mirror(script: torch.jit.ScriptModule, made: dict[int, Mirror], tied: dict[int, torch.nn.Parameter]) -> Mirror:
    core = script._c
    kind = core._type().qualified_name()
    path = _MANGLING.sub("", kind).removeprefix("__torch__.")
    module, _, name = path.rpartition(".")
    original = getattr(script, "original_name", None)
    mirror = _make(module if module else "__main__", original if original else name)
    made[id(script)] = mirror
    mirror.training = bool(getattr(script, "training", False))
    for name, weight in ParameterDict(core).items():  # type: ignore[attr-defined]
        mirror.register_parameter(name, _parameter(weight, tied))
    for name, buffer in BufferDict(core).items():  # type: ignore[attr-defined]
        mirror.register_buffer(name, buffer)
    for name, child in script.named_children():
        assert isinstance(child, torch.jit.ScriptModule)
        mirror.add_module(name, made.get(id(child)) or _mirror(child, made, tied))
    for method in core._method_names():
        mirror.methods[method] = core._get_method(method)
    mirror.__dict__["core"] = core
    return mirror


def _parameter(weight: torch.Tensor, tied: dict[int, torch.nn.Parameter]) -> torch.nn.Parameter:
    """A weight as a parameter; those of a file are plain tensors, the same one where they were tied."""
    if isinstance(weight, torch.nn.Parameter):
        return weight
    key = weight.data_ptr() if weight.numel() else id(weight)
    found = tied.get(key)
    if found is None or found.shape != weight.shape:
        found = tied[key] = torch.nn.Parameter(weight, requires_grad=weight.requires_grad)
    return found


def optional_parameters(model: object) -> list[str]:
    """The names of a script's parameters that may be None."""
    if not isinstance(model, Mirror):
        return []
    arguments = model.methods["forward"].schema.arguments
    return [argument.name for argument in arguments if argument.type.kind() == "OptionalType"]


_NUMBERS = {"IntType": to_int, "FloatType": to_float, "BoolType": to_bool}


def _kind(type_: JitType) -> str:
    return str((type_.getElementType() if type_.kind() == "OptionalType" else type_).kind())


def _fitted(value: ReplayValue, kind: str) -> ReplayValue:
    """An argument as the script declares it: a number may be given as a tensor, whose value only run time knows."""
    if isinstance(value, torch.Tensor) and kind in _NUMBERS:
        return _NUMBERS[kind](value)
    return value


def signature_of(method: Function, skipped: int) -> tuple[inspect.Signature, Bind]:
    """The signature of a script without its first parameters, and what binds arguments to it."""
    parameters = []
    arguments = method.schema.arguments[skipped:]
    for argument in arguments:
        default = argument.default_value if argument.has_default_value() else inspect.Parameter.empty
        kind = inspect.Parameter.KEYWORD_ONLY if argument.kwarg_only else inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters.append(inspect.Parameter(argument.name, kind, default=default))
    signature = inspect.Signature(parameters)
    kinds = [_kind(argument.type) for argument in arguments]

    def bind(args: Sequence[object], kwargs: Mapping[str, object]) -> list[ReplayValue]:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return [_fitted(value, kind) for value, kind in zip(bound.arguments.values(), kinds, strict=True)]

    return signature, bind
