"""What a call does to memory: which arguments it writes to, and which ones its results are views of."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import getitem
from typing import Any

import torch

from onnxport.prepare.emit import Dim, bind_node, run_on_fakes
from onnxport.torch_internals.operators import OpOverload, OpOverloadPacket

aten = torch.ops.aten

# In-place calls that change how a tensor is seen but not what it holds: they are views by another name.
_RESHAPING = {
    "t_": "t",
    "transpose_": "transpose",
    "swapaxes_": "swapaxes",
    "swapdims_": "swapdims",
    "squeeze_": "squeeze",
    "unsqueeze_": "unsqueeze",
    "as_strided_": "as_strided",
    "detach_": "detach",
    "requires_grad_": "alias",
}
# Annotated as views although they may copy.
_MAY_COPY = {"reshape", "reshape_as", "flatten", "ravel", "contiguous", "to", "cpu", "cuda", "type_as"}
_MAY_COPY |= {"resolve_conj", "resolve_neg", "_autocast_to_full_precision", "_autocast_to_reduced_precision"}
# Whether they copy depends on the strides alone.
_BY_STRIDES = {"reshape", "reshape_as", "flatten", "ravel", "contiguous"}
# Return their argument, or a view of it, without saying so in the schema.
_UNDECLARED = {"unsafe_chunk", "unsafe_split", "unsafe_split_with_sizes", "type_as", "conj_physical"}
_DROPOUTS = {"dropout", "feature_dropout", "alpha_dropout", "feature_alpha_dropout"}
# The same, but as several views: only their decomposition says which.
COMPOSED = {"einsum", "meshgrid", "broadcast_tensors", "atleast_1d", "atleast_2d", "atleast_3d", "sum_to_size"}
COMPOSED |= {"cartesian_prod"}
# Write to their running statistics without saying so in the schema.
NORMS = {"aten::batch_norm": "training", "aten::instance_norm": "use_input_stats"}


@dataclass(frozen=True)
class Effects:
    """The memory behaviour of one operator, by parameter name."""

    writes: tuple[str, ...] = ()
    returns: tuple[str | None, ...] = ()
    """For each result, the parameter it shares memory with."""
    several: bool = False
    """The (one) result is a list of views."""
    as_view: OpOverload | None = None
    """The view that an in-place change of shape amounts to."""

    @property
    def view_of(self) -> str | None:
        """The parameter that the result is a view of, for operators that only make views."""
        return None if self.writes or not self.returns else self.returns[0]


NONE = Effects()


@functools.cache
def effects(target: object) -> Effects:
    """Read the effects of an operator off its schema; anything but an ATen-style operator has none."""
    if not isinstance(target, OpOverload):
        return NONE
    schema = target._schema
    name = schema.name.split("::")[-1]
    if name in _UNDECLARED or name in _DROPOUTS:
        return Effects(returns=(schema.arguments[0].name,), several=name.startswith("unsafe"))
    by_set: dict[str, str] = {}
    writes = []
    for parameter in schema.arguments:
        if parameter.alias_info is not None:
            for label in parameter.alias_info.before_set | (parameter.alias_info.after_set & {"*"}):
                by_set[label] = parameter.name
            if parameter.alias_info.is_write:
                writes.append(parameter.name)
    if not by_set and not writes:
        return NONE
    returns = tuple(
        next((by_set[label] for label in _labels(result) if label in by_set), None) for result in schema.returns
    )
    if writes and name in _RESHAPING and target.namespace == "aten":
        return Effects(returns=returns, as_view=_same_call(getattr(aten, _RESHAPING[name]), target))
    several = len(schema.returns) == 1 and str(schema.returns[0].type).startswith("List")
    return Effects(tuple(writes), returns, several)


def _labels(result: Any) -> set[str]:
    # The labels of a list are those of its elements, which the schema does not let us see; the parameter they
    # come from is marked with a star.
    if result.alias_info is None:
        return set()
    labels: set[str] = result.alias_info.before_set
    return labels or {"*"}


def _same_call(packet: OpOverloadPacket, target: OpOverload) -> OpOverload:
    overloads = packet.overloads()
    name = target._overloadname if target._overloadname in overloads else overloads[0]
    found: OpOverload = getattr(packet, name)
    return found


def updates_statistics(node: torch.fx.Node) -> bool:
    """Whether a call is a normalisation that updates its running statistics."""
    target = node.target
    if not isinstance(target, OpOverload) or target._schema.name not in NORMS:
        return False
    bound = bind_node(node)
    return bool(bound[NORMS[target._schema.name]]) and isinstance(bound["running_mean"], torch.fx.Node)


def memory_key(value: torch.Tensor) -> int:
    """Identity of the memory behind a tensor."""
    key: int = value.untyped_storage()._cdata
    return key


def shares_memory(node: torch.fx.Node, source: torch.fx.Node) -> bool:
    """Whether a call that may return a view of ``source`` does."""
    target = node.target
    assert isinstance(target, OpOverload)
    name = target._schema.name.split("::")[-1]
    if name in _DROPOUTS:
        bound = bind_node(node)
        return not bound["train"] or bound["p"] == 0
    if name == "conj_physical":
        return not source.meta["val"].is_complex()
    if name not in _MAY_COPY:
        return True
    given, result = source.meta["val"], node.meta["val"]
    if given.dtype != result.dtype:
        return False
    if name in _BY_STRIDES:
        layout = node.kwargs.get("memory_format", torch.contiguous_format) if name == "contiguous" else None
        assert layout is None or isinstance(layout, torch.memory_format)
        by_strides = _keeps_strides(given, result, layout)
        if by_strides is not None:
            return by_strides
    # The capture ran the call on tensors with memory, so equal memory is proof. Different memory is not: a program
    # that was saved and loaded has the strides it was captured with, but every value has memory of its own.
    if memory_key(given) == memory_key(result):
        return True
    return memory_key(run_on_fakes(target, node.args, node.kwargs)) == memory_key(given)


def _keeps_strides(given: torch.Tensor, result: torch.Tensor, layout: torch.memory_format | None) -> bool | None:
    """Whether eager returns a view, asked of tensors with example sizes; nothing when there is no example.

    With symbolic sizes the capture cannot always tell and then copies, where eager does not.
    """
    # A size of one makes views possible that other sizes do not: it is no example for a dynamic axis.
    for least in (2, 0):
        shape, strides = _example(given.shape, least), _example(given.stride(), least)
        wanted = _example(result.shape, least)
        if shape is None or strides is None or wanted is None:
            return None
        if math.prod(shape) == math.prod(wanted):
            source = torch.empty_strided(shape, strides, dtype=given.dtype, device="meta")
            made = source.reshape(wanted) if layout is None else source.contiguous(memory_format=layout)
            return memory_key(made) == memory_key(source)
    return None


def copies_at_some_sizes(node: torch.fx.Node, source: torch.fx.Node) -> bool:
    """Whether a call returns a view of ``source`` at some sizes of dynamic axes and a copy at others."""
    target = node.target
    if not isinstance(target, OpOverload) or target._schema.name.split("::")[-1] not in _BY_STRIDES:
        return False
    given, result = source.meta["val"], node.meta["val"]
    layout = node.kwargs.get("memory_format", torch.contiguous_format) if "contiguous" in str(target) else None
    assert layout is None or isinstance(layout, torch.memory_format)
    dims = [*given.shape, *given.stride(), *result.shape]
    return {True, False} <= {_view_at(given, result, layout, sizes) for sizes in _trials(dims)}


def returned_at_some_sizes(node: torch.fx.Node) -> list[tuple[torch.fx.Node, torch.fx.Node]]:
    """The results of a call, with the arguments that they are at some sizes of dynamic axes and not at others."""
    if node.target is not aten.broadcast_tensors.default:
        return []
    given = bind_node(node)["tensors"]
    pairs = [(user, given[user.args[1]]) for user in node.users if user.target is getitem]
    return [(result, of) for result, of in pairs if _equal_at_some_sizes(of.meta["val"], result.meta["val"])]


def _equal_at_some_sizes(given: torch.Tensor, result: torch.Tensor) -> bool:
    def at(dims: Sequence[Dim], sizes: Mapping[object, int]) -> list[int] | None:
        try:
            return _at(dims, sizes)
        except ZeroDivisionError:
            return None

    trials = _trials([*given.shape, *result.shape])
    return len({at(given.shape, sizes) == at(result.shape, sizes) for sizes in trials}) == 2


def _trials(dims: Sequence[Dim]) -> list[dict[object, int]]:
    """Sizes for the symbols of dimensions: common ones, and those at which one of them or all are small."""
    symbols = {symbol for dim in dims if not isinstance(dim, int) for symbol in dim.node.expr.free_symbols}
    usual = dict.fromkeys(symbols, 8)
    small = (0, 1, 2, 3, 8)
    alone = [usual | {symbol: size} for symbol in symbols for size in small]
    return alone + [dict.fromkeys(symbols, size) for size in small]


def _at(dims: Sequence[Dim], sizes: Mapping[object, int]) -> list[int]:
    return [dim if isinstance(dim, int) else int(dim.node.expr.xreplace(sizes)) for dim in dims]


def _view_at(
    given: torch.Tensor, result: torch.Tensor, layout: torch.memory_format | None, sizes: Mapping[object, int]
) -> bool | None:
    """Whether eager returns a view at sizes of the symbols; nothing where it would refuse them."""
    try:
        shape, strides, wanted = (_at(dims, sizes) for dims in (given.shape, given.stride(), result.shape))
    except ZeroDivisionError:
        return None
    if math.prod(shape) != math.prod(wanted) or any(size <= 0 for size in shape):
        return None
    source = torch.empty_strided(shape, strides, dtype=given.dtype, device="meta")
    made = source.reshape(wanted) if layout is None else source.contiguous(memory_format=layout)
    return memory_key(made) == memory_key(source)


def _example(dims: Sequence[Dim], least: int) -> list[int] | None:
    """Sizes for the example values of their symbols, small ones raised above ``least``."""
    found = []
    for dim in dims:
        if not isinstance(dim, int):
            environment = dim.node.shape_env
            # The second is what older versions of torch call it; newer ones warn about it.
            name = "backed_var_to_val" if hasattr(environment, "backed_var_to_val") else "var_to_val"
            examples = getattr(environment, name)
            symbols = dim.node.expr.free_symbols
            if any(symbol not in examples for symbol in symbols):
                return None
            values = {symbol: examples[symbol] if examples[symbol] >= least else least + 1 for symbol in symbols}
            dim = int(dim.node.expr.xreplace(values))
        found.append(dim)
    return found
