"""Adding nodes to a graph: values are computed on fake tensors, provenance comes from the node they stand for."""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator
from typing import Any

import torch

from onnxport.capture.patches import patched_torch
from onnxport.torch_internals import pytree
from onnxport.torch_internals.fake_tensors import FakeTensor, FakeTensorMode, enable_python_dispatcher
from onnxport.torch_internals.symbolic_sizes import optimization_hint, were_other_counts

Dim = int | torch.SymInt
PROVENANCE_META = ("stack_trace", "nn_module_stack", "torch_fn", "source_fn_stack", "from_node", "custom")

aten = torch.ops.aten


def value_of(argument: Any) -> Any:
    """The fake values of all nodes in an argument, which may be nested."""
    return torch.fx.node.map_arg(argument, lambda node: node.meta["val"])


def dim_key(dim: Dim) -> object:
    """Something equal for sizes known to be equal: the integer, or the symbolic expression."""
    return dim if isinstance(dim, int) else dim.node.expr


def same_shape(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether two shapes are the same for every value of their symbols."""
    return left.dim() == right.dim() and all(
        dim_key(a) == dim_key(b) for a, b in zip(left.shape, right.shape, strict=True)
    )


def fake_mode_of(values: object) -> FakeTensorMode | None:
    """The mode of the first fake tensor in a nest of values."""
    for leaf in pytree.tree_leaves(values):
        if isinstance(leaf, FakeTensor):
            return leaf.fake_mode
    return None


@contextlib.contextmanager
def on_fake_values(mode: FakeTensorMode | None) -> Iterator[None]:
    """Run operators on fake values without leaving a trace in the capture: no guard, no specialised size."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(patched_torch())
        if mode is not None:
            stack.enter_context(mode)
            if mode.shape_env is not None:
                stack.enter_context(mode.shape_env.suppress_guards())
                stack.enter_context(mode.shape_env.ignore_fresh_unbacked_symbols())
        yield


def run_on_fakes(target: Any, args: object, kwargs: object, like: object = None) -> Any:
    """Call an operator on the fake values of its node arguments; ``like`` has the mode if no argument has."""
    values, keywords = value_of(args), value_of(kwargs)
    # Only the kernels written in Python compute with symbolic sizes throughout.
    with on_fake_values(fake_mode_of((values, keywords, like))), enable_python_dispatcher():
        return target(*values, **keywords)


def kinds(arguments: object) -> tuple[object, ...]:
    """What type promotion looks at: dtypes, whether a tensor has axes, and the types of numbers."""
    leaves = pytree.tree_leaves(value_of(arguments))
    return tuple(
        (leaf.dtype, leaf.dim() == 0)
        if isinstance(leaf, torch.Tensor)
        else leaf
        if isinstance(leaf, torch.dtype)
        else type(leaf)
        for leaf in leaves
    )


def bind_node(node: torch.fx.Node) -> dict[str, Any]:
    """The arguments of an operator call by name, defaults filled in."""
    bound: dict[str, Any] = {}
    for index, parameter in enumerate(node.target._schema.arguments):  # type: ignore[union-attr]
        if index < len(node.args) and not parameter.kwarg_only:
            bound[parameter.name] = node.args[index]
        elif parameter.name in node.kwargs:
            bound[parameter.name] = node.kwargs[parameter.name]
        else:
            bound[parameter.name] = parameter.default_value
    return bound


class Emitter:
    """Inserts calls before ``anchor``; they carry the provenance of ``source``."""

    def __init__(self, anchor: torch.fx.Node, source: torch.fx.Node) -> None:
        self.anchor = anchor
        self.source = source

    def call(self, target: Any, *args: Any, val: object = None, like: object = None, **kwargs: Any) -> torch.fx.Node:
        """Insert a call; its fake value is ``val`` or, when not given, computed."""
        with self.anchor.graph.inserting_before(self.anchor):
            node = self.anchor.graph.call_function(target, args, kwargs)
        node.meta.update({key: self.source.meta[key] for key in PROVENANCE_META if key in self.source.meta})
        node.meta["val"] = run_on_fakes(target, args, kwargs, like) if val is None else val
        return node

    def size(self, node: torch.fx.Node, dim: int) -> int | torch.fx.Node:
        """One size of a node: an integer when static, else a node that reads it."""
        size = node.meta["val"].shape[dim]
        return size if isinstance(size, int) else self.call(aten.sym_size.int, node, dim, val=size)

    def sizes(self, node: torch.fx.Node) -> list[int | torch.fx.Node]:
        """All sizes of a node."""
        return [self.size(node, dim) for dim in range(node.meta["val"].dim())]

    def add(self, left: int | torch.fx.Node, right: int | torch.fx.Node) -> int | torch.fx.Node:
        """Sum of two sizes, folded when both are known."""
        if isinstance(left, int) and isinstance(right, int):
            return left + right
        return self.call(operator.add, left, right)

    def numel(self, node: torch.fx.Node) -> int | torch.fx.Node:
        """Number of elements of a node."""
        total: int | torch.fx.Node = 1
        for size in self.sizes(node):
            if isinstance(total, int) and isinstance(size, int):
                total *= size
            elif total == 1:
                total = size
            else:
                total = self.call(operator.mul, total, size)
        return total

    def reshape_like(self, value: torch.fx.Node, like: torch.fx.Node, val: object = None) -> torch.fx.Node:
        """Give a value the shape of another node."""
        wanted = like.meta["val"]
        unknown = [dim for dim, size in enumerate(wanted.shape) if not isinstance(size, int)]
        if len(unknown) == 1 and 0 not in [size for size in wanted.shape if isinstance(size, int)]:
            shape: list[int | torch.fx.Node] = [-1 if dim in unknown else s for dim, s in enumerate(wanted.shape)]
        else:
            shape = self.sizes(like)
        return self.call(aten.reshape.default, value, shape, val=wanted if val is None else val)

    def fit(self, value: torch.fx.Node, like: torch.fx.Node, wanted: torch.Tensor) -> torch.fx.Node:
        """Cast and expand a value to what a write to ``wanted`` stores; nothing is added when it fits."""
        given = value.meta["val"]
        if given.dtype != wanted.dtype:
            with_dtype = run_on_fakes(aten.to.dtype, (value, wanted.dtype), {})
            value = self.call(aten.to.dtype, value, wanted.dtype, val=with_dtype)
        padding = wanted.dim() - given.dim()
        if any(map(were_other_counts, given.shape, wanted.shape[padding:])):
            # torch takes counts of data for equal where they meet, but one that is 1 is broadcast.
            both = self.call(aten.broadcast_tensors.default, [value, like], val=[wanted, wanted])
            return self.call(operator.getitem, both, 0, val=wanted)
        grows = padding != 0 or any(
            optimization_hint(have, 2) == 1 and dim_key(have) != dim_key(want)
            for have, want in zip(given.shape, wanted.shape, strict=True)
        )
        if grows:
            value = self.call(aten.expand.default, value, self.sizes(like), val=wanted)
        return value
