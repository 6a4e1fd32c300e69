"""The functional form of calls that write: what they compute, without writing it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from operator import getitem
from typing import Any

import torch

from onnxport.prepare.effects import effects
from onnxport.prepare.emit import Emitter, bind_node, dim_key, kinds, run_on_fakes
from onnxport.prepare.views import NoInverseError
from onnxport.torch_internals.operators import OpOverload

aten = torch.ops.aten

# What makes a new tensor: ``arange(3, dtype=…)`` beside ``arange(3, out=…)``.
_OF_THE_TENSOR = ("dtype", "layout", "device", "pin_memory")

OVERWRITING = {"aten::copy_", "aten::fill_", "aten::zero_"}
"""Writes that do not read what they replace."""


IDEMPOTENT = {"aten::fill_", "aten::zero_", "aten::relu_", "aten::clamp_", "aten::clamp_min_", "aten::clamp_max_"}
IDEMPOTENT |= {"aten::abs_", "aten::sign_", "aten::floor_", "aten::ceil_", "aten::round_", "aten::trunc_"}
"""Writes after which the same write changes nothing, and that treat all elements alike."""


@dataclass(frozen=True)
class WriteDestination:
    """A tensor that is written to: its fake value, and any node with its shape."""

    val: torch.Tensor
    shaped: torch.fx.Node


@functools.cache
def functional_overload(target: OpOverload) -> OpOverload | None:
    """The overload that returns what ``target`` writes, or nothing.

    >>> import torch
    >>> functional_overload(torch.ops.aten.pow_.Tensor)
    <OpOverload(op='aten.pow', overload='Tensor_Tensor')>
    """
    name = target._schema.name.split("::")[-1]
    namespace = getattr(torch.ops, target.namespace)
    given = [argument for argument in target._schema.arguments if not argument.is_out]
    if len(given) < len(target._schema.arguments):
        candidates = [name]
    elif name.startswith("__i") and name.endswith("__"):
        candidates = [f"__{name[3:]}"]
    elif name.endswith("_"):
        candidates = [name[:-1], f"{name[:-1]}_functional"]
    else:
        candidates = [f"{name}_functional"]
    for candidate in candidates:
        packet = getattr(namespace, candidate, None)
        if packet is None:
            continue
        # The overload of the same name comes first: several may take the same types.
        for overload in sorted(packet.overloads(), key=lambda other: other != target._overloadname):
            form: OpOverload = getattr(packet, overload)
            if _takes(form, given) and not effects(form).writes:
                return form
    return None


def _takes(form: OpOverload, given: list[Any]) -> bool:
    wanted = [(str(argument.type), argument.kwarg_only) for argument in _shared(form, given)]
    return wanted == [(str(argument.type), argument.kwarg_only) for argument in given]


def _shared(form: OpOverload, given: list[Any]) -> list[Any]:
    """The arguments of a functional form without those for which a writing form has the tensor it writes to."""
    names = {argument.name for argument in given}
    return [each for each in form._schema.arguments if each.name in names or each.name not in _OF_THE_TENSOR]


def call_functional(node: torch.fx.Node, form: OpOverload) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a writing call for its functional form."""
    bound = bind_node(node)
    given = [argument for argument in node.target._schema.arguments if not argument.is_out]  # type: ignore[union-attr]
    shared = _shared(form, given)
    positional: list[Any] = []
    keywords: dict[str, Any] = {}
    if len(shared) < len(form._schema.arguments):
        keywords |= {"dtype": node.meta["val"].dtype, "device": node.meta["val"].device}
    explicit = len([argument for argument in given[: len(node.args)] if not argument.kwarg_only])
    for index, (old, new) in enumerate(zip(given, shared, strict=True)):
        if new.kwarg_only:
            if old.name in node.kwargs or not new.has_default_value():
                keywords[new.name] = bound[old.name]
        elif index < explicit or not new.has_default_value():
            positional.append(bound[old.name])
        elif old.name in node.kwargs:
            keywords[new.name] = bound[old.name]
    return tuple(positional), keywords


def overwrite(node: torch.fx.Node, to: WriteDestination, emit: Emitter) -> torch.fx.Node:
    """The value that ``copy_``, ``fill_`` or ``zero_`` leaves behind."""
    bound = bind_node(node)
    name = node.target._schema.name  # type: ignore[union-attr]
    source = bound["src" if "src" in bound else "other"] if name == "aten::copy_" else bound.get("value", 0)
    if isinstance(source, torch.fx.Node) and isinstance(source.meta["val"], torch.Tensor):
        return emit.fit(source, to.shaped, to.val)
    if all(isinstance(size, int) for size in to.val.shape):
        options = {"dtype": to.val.dtype, "device": to.val.device, "pin_memory": False}
        return emit.call(aten.full.default, list(to.val.shape), source, val=to.val, **options)
    return emit.call(aten.full_like.default, to.shaped, source, val=to.val, pin_memory=False, dtype=to.val.dtype)


def fill_diagonal(node: torch.fx.Node, to: WriteDestination, emit: Emitter) -> torch.fx.Node:
    """The value that ``fill_diagonal_`` leaves behind."""
    bound = bind_node(node)
    current, fill, wrap = bound["self"], bound["fill_value"], bound["wrap"]
    shape = to.val.shape
    if len(shape) == 2 and not wrap:
        diagonal = emit.call(aten.diagonal.default, current)
        filled = emit.call(aten.full_like.default, diagonal, fill, pin_memory=False)
        return emit.call(aten.diagonal_scatter.default, current, filled, val=to.val)
    if not all(isinstance(size, int) for size in shape):
        raise NoInverseError("it fills a diagonal with wrapping, or in more than two dimensions, of a dynamic size")
    # In row-major order the diagonal lies at equal distances, and wrapping just means going on to the end.
    distance, stride = 0, 1
    for size in reversed(shape):
        distance, stride = distance + stride, stride * size
    end = stride if wrap and len(shape) == 2 else min(stride, min(shape) * distance)
    flat = emit.call(aten.reshape.default, current, [-1])
    count = -(-end // distance)
    options = {"dtype": to.val.dtype, "device": to.val.device, "pin_memory": False}
    filled = emit.call(aten.full.default, [count], fill, like=to.val, **options)
    written = emit.call(aten.slice_scatter.default, flat, filled, 0, 0, end, distance)
    return emit.reshape_like(written, to.shaped, val=to.val)


def resized(node: torch.fx.Node, to: WriteDestination, emit: Emitter) -> torch.fx.Node:
    """The value that ``resize_`` leaves behind: the same memory in another shape, and 0 where it grew."""
    bound = bind_node(node)
    current, wanted = bound["self"], node.meta["val"]
    if not to.val.is_contiguous():
        raise NoInverseError("it resizes a tensor that is not contiguous", "Make the tensor contiguous first.")
    sizes = emit.sizes(bound["the_template"]) if "the_template" in bound else bound["size"]
    old, new = to.val.numel(), wanted.numel()
    if dim_key(old) == dim_key(new):
        return emit.call(aten.reshape.default, current, sizes, val=wanted)
    if not isinstance(old, int) or not isinstance(new, int):
        raise NoInverseError("it resizes a tensor of a dynamic size", "Use reshape, slicing or padding.")
    current = emit.call(aten.reshape.default, current, [-1])
    if new < old:
        current = emit.call(aten.slice.Tensor, current, 0, 0, new)
    else:
        current = emit.call(aten.constant_pad_nd.default, current, [0, new - old])
    return emit.call(aten.reshape.default, current, sizes, val=wanted)


def shared(node: torch.fx.Node, to: WriteDestination, emit: Emitter) -> torch.fx.Node:
    """The value that ``set_`` leaves behind: the elements of another tensor, in its shape."""
    bound = bind_node(node)
    source = bound.get("source")
    if len(bound) != 2 or not isinstance(source, torch.fx.Node) or not isinstance(source.meta["val"], torch.Tensor):
        raise NoInverseError("it lets a tensor be part of another's memory", "Use slicing or as_strided instead.")
    return emit.call(aten.clone.default, source, val=source.meta["val"])


RESIZING = {"aten::resize_", "aten::resize_as_", "aten::set_"}
SPECIAL: dict[str, Callable[[torch.fx.Node, WriteDestination, Emitter], torch.fx.Node]] = {
    "aten::copy_": overwrite,
    "aten::fill_": overwrite,
    "aten::zero_": overwrite,
    "aten::fill_diagonal_": fill_diagonal,
    "aten::resize_": resized,
    "aten::resize_as_": resized,
    "aten::set_": shared,
}


def new_statistics(node: torch.fx.Node, emit: Emitter) -> tuple[torch.fx.Node, torch.fx.Node]:
    """Running mean and variance after a normalisation in training mode."""
    bound = bind_node(node)
    mean, var, momentum = bound["running_mean"], bound["running_var"], bound["momentum"]
    values = bound["input"]
    if any(isinstance(size, int) and size == 0 for size in values.meta["val"].shape):
        return mean, var
    if node.target._schema.name == "aten::batch_norm":  # type: ignore[union-attr]
        arguments = (values, bound["weight"], bound["bias"], mean, var, True, momentum, bound["eps"])
        normalised = emit.call(aten._native_batch_norm_legit_functional.default, *arguments)
        results = normalised.meta["val"]
        new_mean = emit.call(getitem, normalised, 3, val=results[3])
        return new_mean, emit.call(getitem, normalised, 4, val=results[4])
    axes = list(range(2, values.meta["val"].dim()))
    seen_mean = emit.call(aten.mean.dim, emit.call(aten.mean.dim, values, axes), [0])
    seen_var = emit.call(aten.mean.dim, emit.call(aten.var.correction, values, axes, correction=1), [0])

    def blend(old: torch.fx.Node, seen: torch.fx.Node) -> torch.fx.Node:
        kept = emit.call(aten.mul.Tensor, old, 1 - momentum)
        return emit.call(aten.add.Tensor, kept, emit.call(aten.mul.Tensor, seen, momentum), val=old.meta["val"])

    return blend(mean, seen_mean), blend(var, seen_var)


_FITS: dict[object, bool] = {}


def keeps_dtype(form: OpOverload, args: tuple[object, ...], kwargs: dict[str, object], dtype: torch.dtype) -> bool:
    """Whether a functional call returns the dtype of the tensor it is stored to; equal kinds of calls are run once."""
    key = (form, dtype, kinds((args, kwargs)))
    if key not in _FITS:
        _FITS[key] = run_on_fakes(form, args, kwargs).dtype == dtype
    return _FITS[key]
