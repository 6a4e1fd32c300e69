"""What the user passed, bound to forward's signature: positional, keyword, nested, and named."""

from __future__ import annotations

import contextlib
import inspect
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from onnxport.capture.patches.replacing import method_replaced
from onnxport.capture.request.caches import check_cache
from onnxport.capture.request.trees import Leaf, leaves, register_containers
from onnxport.errors import ArgumentTypeError, InputError, Problem, warn
from onnxport.torch_internals import pytree

Model = torch.nn.Module | torch.export.ExportedProgram


@dataclass(frozen=True)
class Inputs:
    """The example inputs as torch.export takes them, and the same by parameter name."""

    args: tuple[object, ...]
    kwargs: dict[str, Any]
    arguments: dict[str, Any]
    leaves: list[Leaf]
    var_positional: str | None = None
    var_keyword: str | None = None
    extra: tuple[str, ...] = ()

    @property
    def tensors(self) -> list[Leaf]:
        """The leaves that are tensors, in order: these become inputs of the ONNX model."""
        return [leaf for leaf in self.leaves if isinstance(leaf.value, torch.Tensor)]


def check_model(model: object) -> None:
    """Refuse what is no model, with the way to make one of it."""
    if isinstance(model, torch.nn.Module) and not hasattr(model, "_modules"):
        name = type(model).__name__
        raise InputError(f"{name} has no layers or parameters yet: call super().__init__() first in {name}.__init__.")
    if isinstance(model, (torch.nn.Module, torch.export.ExportedProgram, torch.jit.ScriptFunction)):
        return
    remedy = "Pass an instance of torch.nn.Module, a function of tensors, or a torch.export.ExportedProgram."
    if isinstance(model, type):
        remedy = f"Pass an instance: {model.__name__}(...), not the class."
    elif isinstance(model, str | os.PathLike):
        remedy = "Load it first: torch.export.load for a .pt2 file, torch.jit.load for TorchScript, else torch.load."
    elif isinstance(model, Mapping):
        remedy = "Make the module and give it these weights, module.load_state_dict(...), and pass the module."
    raise ArgumentTypeError(
        f"The model must be a torch.nn.Module or a torch.export.ExportedProgram, not {_describe(model)}. {remedy}"
    )


def bind(model: Model, args: object, kwargs: Mapping[str, object] | None, report: Callable[[str], None]) -> Inputs:
    """Bind example inputs to the model's parameters, in signature order."""
    positional = args if isinstance(args, tuple) and not hasattr(args, "_fields") else (args,)
    keywords = dict(kwargs) if kwargs is not None else {}
    if isinstance(model, torch.export.ExportedProgram):
        return _bind_program(model, positional, keywords)
    signature = inspect.signature(model.forward)
    positional, keywords = keywords_at_the_end(signature, positional, keywords)
    try:
        given = signature.bind(*positional, **keywords).arguments
    except TypeError as error:
        raise _mismatch(model, signature, positional, keywords) from error
    # Before anything takes a cache apart: one that is refused can't be put together again.
    for name, value in {**given, **keywords}.items():
        limit = check_cache(name, value)
        if limit is not None:
            report(limit)
            warn(limit)
    _refuse_nested(given)
    register_containers([positional, keywords], report)
    positional, keywords = _distinct(positional, keywords)
    variadic = {p.kind: p.name for p in signature.parameters.values()}
    arguments = signature.bind(*positional, **keywords).arguments
    # What **kwargs swallowed are inputs like the others, each under its own name.
    extra: dict[str, Any] = arguments.pop(variadic.get(inspect.Parameter.VAR_KEYWORD, ""), {})
    arguments.update(extra)
    # torch.export keeps the order in which keywords were given; inputs of the model follow the signature.
    known = {name: keywords[name] for name in signature.parameters if name in keywords}
    ordered = known | {name: value for name, value in keywords.items() if name not in known}
    return Inputs(
        args=positional,
        kwargs=ordered,
        arguments=dict(arguments),
        leaves=[leaf for name, value in arguments.items() for leaf in leaves(value, name, (name,))],
        var_positional=variadic.get(inspect.Parameter.VAR_POSITIONAL),
        var_keyword=variadic.get(inspect.Parameter.VAR_KEYWORD),
        extra=tuple(extra),
    )


def _refuse_nested(given: Mapping[str, object]) -> None:
    """Refuse nested tensors: one of rows in one piece of memory is captured, as a tensor that it is not."""
    for name, value in given.items():
        for leaf in leaves(value, name, (name,)):
            if isinstance(leaf.value, torch.Tensor) and leaf.value.is_nested:
                raise InputError.about(
                    Problem(
                        f"The example input '{leaf.path}' is a nested tensor, which ONNX has not.",
                        remedy="Pass a padded tensor and the lengths, or a mask, and compute with those.",
                    )
                )


def keywords_at_the_end(
    signature: inspect.Signature, args: tuple[object, ...], kwargs: dict[str, object], *, legacy: bool = False
) -> tuple[tuple[object, ...], dict[str, Any]]:
    """A call whose last argument holds keywords, as code for the TorchScript exporter has it, as it is meant.

    A dict is keywords if the call fits so, and either its keys name parameters, after other arguments, or it does not
    fit as an argument; for ``legacy``, whenever the call fits.
    """
    last = args[-1] if args else None
    if type(last) is not dict or not all(isinstance(name, str) for name in last):
        return args, kwargs
    merged = {**last, **kwargs}
    if not _fits(signature, args[:-1], merged):
        return args, kwargs
    # A dict that is all there is may be the one argument; after others, one with the names of parameters is keywords.
    named = len(args) > 1 and all(name in signature.parameters for name in last)
    if legacy or named or not _fits(signature, args, kwargs):
        return args[:-1], merged
    return args, kwargs


def _fits(signature: inspect.Signature, args: Sequence[object], kwargs: Mapping[str, object]) -> bool:
    try:
        signature.bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def _bind_program(program: torch.export.ExportedProgram, args: tuple[object, ...], kwargs: dict[str, object]) -> Inputs:
    if not args and not kwargs and program.example_inputs is not None:
        args, kwargs = program.example_inputs[0], dict(program.example_inputs[1])
    values = {node.name: node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"}
    flat = []
    for spec in program.graph_signature.input_specs:
        if spec.kind == torch.export.graph_signature.InputKind.USER_INPUT:
            constant = isinstance(spec.arg, torch.export.graph_signature.ConstantArgument)
            flat.append(spec.arg.value if constant else values[spec.arg.name])
    in_spec = program.call_spec.in_spec
    if in_spec is None:
        return Inputs(args, kwargs, {}, [Leaf(f"input {i}", (i,), value) for i, value in enumerate(flat)])
    if (args or kwargs) and len(pytree.tree_leaves((args, kwargs))) != len(flat):
        raise InputError(
            f"The exported program takes {len(flat)} input(s) when flattened, but the example inputs flatten to "
            f"{len(pytree.tree_leaves((args, kwargs)))}. Pass the inputs it was exported with, or none."
        )
    positional, keywords = pytree.tree_unflatten(flat, in_spec)
    signature = program.module_call_graph[0].signature
    names = list(getattr(signature, "forward_arg_names", None) or [])
    names = [name for name in names if name not in keywords]
    names += [f"args_{index}" for index in range(len(names), len(positional))]
    arguments = {**dict(zip(names, positional, strict=False)), **keywords}
    found = [leaf for name, value in arguments.items() for leaf in leaves(value, name, (name,))]
    return Inputs(args, kwargs, arguments, found)


@contextlib.contextmanager
def explicit_forward(model: torch.nn.Module, inputs: Inputs) -> Iterator[None]:
    """While the block runs, forward names what it takes by **kwargs: torch mixes up dynamic shapes for them."""
    if not inputs.extra:
        yield
        return
    forward = model.forward
    before = inspect.signature(forward)
    named = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in inputs.extra]
    others = [p for p in before.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]

    def explicit(*args: object, **kwargs: object) -> object:
        return forward(*args, **kwargs)

    with method_replaced(model, explicit, before.replace(parameters=[*others, *named])):
        yield


def _distinct(args: tuple[object, ...], kwargs: dict[str, object]) -> tuple[tuple[object, ...], dict[str, object]]:
    """Give each input its own tensor object: torch merges two inputs that are one and the same object."""
    seen: set[int] = set()

    def own(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) in seen:
            return tensor.detach().requires_grad_(tensor.requires_grad)
        seen.add(id(tensor))
        return tensor

    flat, spec = pytree.tree_flatten((args, kwargs))
    tensors = [leaf for leaf in flat if isinstance(leaf, torch.Tensor)]
    if len({id(tensor) for tensor in tensors}) == len(tensors):
        return args, kwargs
    separate = [own(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in flat]
    result: tuple[tuple[object, ...], dict[str, object]] = pytree.tree_unflatten(separate, spec)
    return result


def _mismatch(
    model: torch.nn.Module, signature: inspect.Signature, args: tuple[object, ...], kwargs: dict[str, object]
) -> InputError:
    given = [_describe(value) for value in args] + [f"{name}={_describe(value)}" for name, value in kwargs.items()]
    problems = []
    slots = [p for p in signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    kinds = {p.kind for p in signature.parameters.values()}
    filled = {p.name for p in slots[: len(args)]}
    if len(args) > len(slots) and inspect.Parameter.VAR_POSITIONAL not in kinds:
        problems.append(Problem(f"{len(args)} positional argument(s) were given, but forward takes {len(slots)}."))
    for name in kwargs:
        if name in filled:
            problems.append(Problem(f"'{name}' was given twice: by position and by keyword."))
        elif name not in signature.parameters and inspect.Parameter.VAR_KEYWORD not in kinds:
            problems.append(Problem(f"'{name}' is not a parameter of forward."))
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    for parameter in signature.parameters.values():
        required = parameter.default is parameter.empty and parameter.kind not in variadic
        if required and parameter.name not in filled and parameter.name not in kwargs:
            keyword = f"Pass kwargs={{'{parameter.name}': ...}}." if parameter.kind is parameter.KEYWORD_ONLY else ""
            problems.append(Problem(f"'{parameter.name}' is missing.", remedy=keyword))
    plain = [parameter.replace(annotation=parameter.empty) for parameter in signature.parameters.values()]
    shown = signature.replace(parameters=plain, return_annotation=signature.empty)
    headline = (
        f"The example inputs do not fit {type(model).__name__}.forward{shown}; "
        f"given: ({', '.join(given)}). Pass args as a tuple with one entry for each positional argument."
    )
    return InputError(headline, problems)


def _describe(value: object) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return f"an object of type {name}" if not isinstance(value, type) else f"the class {value.__qualname__}"


def check_names(
    model: Model, inputs: Inputs, input_names: Sequence[str] | None, output_names: Sequence[str] | None
) -> None:
    """Refuse duplicate names and more input names than there are inputs and parameters to carry them."""
    for option, names in (("input_names", input_names), ("output_names", output_names)):
        repeated = sorted(name for name, count in Counter(names or ()).items() if count > 1)
        if repeated:
            raise InputError(f"{option} repeats {', '.join(map(repr, repeated))}; each name must be given once.")
    if input_names is None:
        return
    own = (model.parameters(), model.buffers())
    weights = sum(1 for group in own for _ in group)
    tensors = [leaf for leaf in inputs.leaves if isinstance(leaf.value, (torch.Tensor, torch.SymInt))]
    integers = [leaf for leaf in inputs.leaves if type(leaf.value) is int]
    if len(input_names) > len(tensors) + len(integers) + weights:
        raise InputError(
            f"input_names has {len(input_names)} names, but the model has {len(tensors)} input(s) "
            f"({', '.join(leaf.path for leaf in tensors)}) and {weights} parameter(s) and buffer(s). "
            "Give at most one name for each."
        )
