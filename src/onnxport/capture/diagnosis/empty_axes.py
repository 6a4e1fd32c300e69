"""Axes that a program takes for ones that have elements, where torch told Python so.

torch takes every size that varies for positive, so that ``x[:1]`` has one row, a plain number. What operators do with
those rows is right at run time whatever their number, but a size that code has read, and what operators compute of it
themselves, is the number. Such an axis has a limit: the file holds where it has elements.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch.fx.node import map_arg

from onnxport.capture.diagnosis.guards import limit_of, shape_env_of
from onnxport.events import EventLog
from onnxport.provenance import source_line
from onnxport.size_limits import SizeLimit
from onnxport.torch_internals.operators import OpOverload
from onnxport.torch_internals.symbolic_sizes import example_sizes, recorded_tensor

_READ = "onnxport_sizes_read"
_OTHERWISE = "the size of a part of the axis was read as that of one with elements"
_READERS = frozenset(
    (
        torch.Tensor.shape.__get__,  # type: ignore[attr-defined]
        torch.Tensor.size,
        torch.Tensor.__len__,
        torch.Tensor.numel,
        torch.Tensor.nelement,
        torch.numel,
    )
)
# Beside what works element by element: what is written for them leaves the number of elements to run time.
_OPEN = frozenset(
    (
        *("alias", "as_strided", "contiguous", "copy", "detach", "diag_embed", "diagonal", "expand", "expand_as"),
        *("flatten", "flip", "mT", "movedim", "moveaxis", "narrow", "numpy_T", "permute", "reshape", "select"),
        *("slice", "split", "split_with_sizes", "swapaxes", "swapdims", "t", "to", "transpose", "type_as", "unbind"),
        *("unfold", "unsqueeze", "view"),
        *("_to_copy", "clone", "constant_pad_nd", "pad", "repeat", "repeat_interleave", "roll", "tile", "tril"),
        "triu",
        *("cat", "concat", "hstack", "stack", "vstack"),
        *("_unique2", "embedding", "gather", "index", "index_select", "masked_scatter", "masked_select", "nonzero"),
        *(
            "masked_fill",
            "scatter",
            "scatter_add",
            "searchsorted",
            "squeeze",
            "take_along_dim",
            "where",
        ),
        *("_log_softmax", "_softmax", "all", "amax", "amin", "any", "argmax", "argmin", "argsort", "count_nonzero"),
        *("cummax", "cummin", "cumprod", "cumsum", "kthvalue", "linalg_vector_norm", "log_softmax", "logcumsumexp"),
        *("logsumexp", "max", "median", "min", "norm", "prod", "softmax", "sort", "sum", "topk"),
        *("addmm", "batch_norm", "bmm", "cdist", "conv1d", "conv2d", "chunk", "dropout", "einsum", "glu", "layer_norm"),
        *("linear", "matmul", "mm", "rms_norm", "scaled_dot_product_attention"),
    )
)
# What makes a tensor of the sizes of another: told apart (`translate/first_elements.py`) beside what keeps all sizes.
_LIKE = frozenset(("empty_like", "fill", "full_like", "ones_like", "zero", "zeros_like"))
# What divides by the number of elements.
_COUNTING = frozenset(("mean", "std", "std_mean", "var", "var_mean"))
_KEEPING = frozenset(
    ("_to_copy", "clone", "contiguous", "detach", "flip", "index", "mT", "permute", "swapaxes", "t", "to", "transpose")
)
# Whose reading of sizes only asks whether they vary.
_ASKING = "onnxport.capture.forks.cutting"

# What stands for sizes that only data tell.
_SOME = sympy.Integer(5)


@dataclass(frozen=True)
class LimitedPath:
    """A program, and the conditions on sizes under which another way through the model is gone."""

    program: torch.export.ExportedProgram
    unless: Sequence[sympy.Basic] = ()


def note_size_read(func: object, args: Sequence[Any]) -> None:
    """Note in the graph that is being recorded that code reads sizes of a tensor."""
    if func in _READERS and (node := recorded_tensor(args[0])) is not None and not _is_only_asked():
        node.meta[_READ] = True


def _is_only_asked() -> bool:
    """Whether the function that reads sizes only wants to know whether they vary."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_name in ("_override", "__torch_function__"):
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__") == _ASKING


def note_that_reads_are_noted(program: torch.export.ExportedProgram) -> None:
    """Note that a program was captured while reading sizes was noted; it may be exported again."""
    program.graph_module.meta[_READ] = True


def limits_of_empty_axes(paths: Sequence[LimitedPath], names: Mapping[str, str], events: EventLog) -> list[SizeLimit]:
    """The limits of axes that programs take for ones with elements, by the user's names of symbols; each is told."""
    limits: dict[sympy.Basic, SizeLimit] = {}
    for path in paths:
        for condition, where in _conditions(path.program):
            symbols = [symbol.name for symbol in condition.free_symbols]
            if any(name not in names for name in symbols):
                continue
            limit = limit_of(condition, path.unless, names, _OTHERWISE, where)
            if not limit.is_kept({names[name]: 0 for name in symbols}):
                limits.setdefault(limit.condition, limit)
    for limit in limits.values():
        events.add("assumption", "capture", f"{limit.words} (else {limit.otherwise})", where=limit.where)
    return list(limits.values())


def _conditions(program: torch.export.ExportedProgram) -> Iterator[tuple[sympy.Basic, str]]:
    """What must hold of sizes, and the line, for sizes that were told of an axis with elements and that matter."""
    environment = shape_env_of(program)
    sources = [] if environment is None else list(_parts(program.graph))
    if not sources:
        return
    example = example_sizes(environment)
    ranges = {**environment.var_to_range, **program.range_constraints}
    may_be_zero = [symbol for symbol in example if ranges[symbol].lower == 0]
    found: set[sympy.Symbol] = set()
    for symbols in sorted({some for _, axes in sources for some in _emptied(axes, may_be_zero)}, key=len):
        if len(symbols) > 1 and found.intersection(symbols):
            continue
        walk = _Walk({**example, **dict.fromkeys(symbols, sympy.S.Zero)}, _READ in program.graph_module.meta)
        condition = sympy.Ge(sympy.Add(*(sympy.Symbol(size.name, integer=True) for size in symbols)), 1)
        for node in walk.parts_that_matter(program.graph, {node for node, _ in sources}):
            found.update(symbols)
            yield condition, source_line(node)


def _parts(graph: torch.fx.Graph) -> Iterator[tuple[torch.fx.Node, Sequence[sympy.Basic]]]:
    """The calls whose results have a plain number for the size of a part of axes that vary, with the sizes of those."""
    for target in (torch.ops.aten.slice.Tensor, torch.ops.aten.diagonal.default):
        for node in graph.find_nodes(op="call_function", target=target):
            whole, part = node.args[0].meta["val"].shape, node.meta["val"].shape
            places = [node.args[1] if len(node.args) > 1 else 0]
            if target is torch.ops.aten.diagonal.default:
                places = [*(node.args[2:] or (0, 1))]
            size = part[places[0] if len(places) == 1 else -1]
            varying = [whole[place].node.expr for place in places if isinstance(whole[place], torch.SymInt)]
            if varying and _expression(size).is_Integer:
                yield node, varying


def _emptied(axes: Sequence[sympy.Basic], may_be_zero: Collection[sympy.Symbol]) -> Iterator[tuple[sympy.Symbol, ...]]:
    """The symbols that are 0 where axes are empty: each of them, and all."""
    symbols = sorted({symbol for size in axes for symbol in size.free_symbols if symbol in may_be_zero}, key=str)
    yield from ((one,) for one in symbols)
    if len(symbols) > 1:
        yield tuple(symbols)


@dataclass
class _Walk:
    """The calls of a program whose results have other shapes than is declared, where symbols have certain values.

    ``shapes`` are those, and ``parts`` the calls that they come from. ``kept`` are results that have the sizes of a
    part, in some order.
    """

    values: Mapping[sympy.Symbol, sympy.Integer]
    are_reads_noted: bool
    shapes: dict[torch.fx.Node, Any] = field(default_factory=dict)
    parts: dict[torch.fx.Node, torch.fx.Node] = field(default_factory=dict)
    kept: set[torch.fx.Node] = field(default_factory=set)

    def parts_that_matter(self, graph: torch.fx.Graph, parts: Collection[torch.fx.Node]) -> Iterator[torch.fx.Node]:
        """The parts whose declared size was read, or is what an operator goes by."""
        for node in graph.nodes:
            given = [one for one in node.all_input_nodes if one in self.parts]
            if (not given and node not in parts) or node.op == "output":
                continue
            source = node if not given else self.parts[given[0]]
            shapes = self._shapes(node)
            declared = self._declared(node.meta.get("val"))
            if given and not self._is_open(node, given, shapes, declared):
                yield source
            if shapes is None or shapes == declared:
                continue
            self.shapes[node], self.parts[node] = shapes, source
            if not given or (self.kept.issuperset(given) and (_is_pointwise(node) or _name(node) in _KEEPING)):
                self.kept.add(node)
            if _READ in node.meta or not self.are_reads_noted:
                yield source

    def _is_open(self, node: torch.fx.Node, given: Sequence[torch.fx.Node], shapes: Any, declared: Any) -> bool:
        """Whether what is written for a call has as many elements at run time as its inputs have there."""
        if declared is None or node.target is operator.getitem:
            return True
        if shapes is not None and len(shapes) != len(declared):
            # Of nothing there are as many chunks as were asked for, and nothing is squeezed.
            return False
        name = _name(node)
        if name == "copy":
            # What is copied is made as large as what is written to.
            return len({tuple(self._given(one).shape) for one in node.all_input_nodes}) == 1
        if name in _LIKE:
            is_literal = _is_write(node) and all(isinstance(size, int) for size in node.meta["val"].shape)
            return shapes == declared or (not is_literal and self._are_told(given))
        if name in _COUNTING:
            return self._counts_as_declared(node) or self._are_told(given)
        return _is_pointwise(node) or name in _OPEN

    def _are_told(self, given: Sequence[torch.fx.Node]) -> bool:
        """Whether translations tell the known sizes that are other ones here (`translate/first_elements.py`)."""
        if not self.kept.issuperset(given):
            return False
        for one in given:
            declared = self._declared(one.meta["val"])
            others = [size for size, here in zip(declared, self.shapes[one], strict=True) if size != here]
            if any(declared.count(size) > 1 for size in others):
                return False
        return True

    def _counts_as_declared(self, node: torch.fx.Node) -> bool:
        """Whether as many elements are reduced to one as the declared shape says."""
        x = node.args[0]
        assert isinstance(x, torch.fx.Node)
        names = [argument.name for argument in node.target._schema.arguments[: len(node.args)]]  # type: ignore[union-attr]
        dim = node.args[1] if "dim" in names else node.kwargs.get("dim")
        declared = self._declared(x.meta["val"])
        stated = [dim] if isinstance(dim, int) else dim if isinstance(dim, list | tuple) else ()
        axes = stated if stated else range(len(declared))
        here, there = (math.prod(shape[axis] for axis in axes) for shape in (self.shapes.get(x, declared), declared))
        return bool(here == there)

    def _shapes(self, node: torch.fx.Node) -> Any:
        """The shapes of what a call gives; None where that is no tensors, only data tell, or eager raises."""
        if node.target is operator.getitem:
            of, place = node.args
            pieces = self.shapes.get(of, ())  # type: ignore[arg-type]
            # Of nothing there may be no pieces either.
            return pieces[place] if -len(pieces) <= place < len(pieces) else None  # type: ignore[operator]
        if not isinstance(node.target, OpOverload):
            return None
        try:
            result = node.target(*map_arg(node.args, self._given), **map_arg(node.kwargs, self._given))
        except (RuntimeError, IndexError, NotImplementedError):
            return None
        if isinstance(result, tuple | list):
            return type(result)([*one.shape] if isinstance(one, torch.Tensor) else None for one in result)
        return [*result.shape] if isinstance(result, torch.Tensor) else None

    def _given(self, node: torch.fx.Node) -> Any:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            shape = self.shapes[node] if node in self.shapes else self._declared(value)
            return torch.empty(shape, dtype=value.dtype, device="meta")
        return self._number(value) if isinstance(value, int | torch.SymInt) else value

    def _declared(self, value: Any) -> Any:
        """Shapes as declared, at the values; None for what has none."""
        if isinstance(value, tuple | list):
            return type(value)(self._declared(one) for one in value)
        return [self._number(size) for size in value.shape] if isinstance(value, torch.Tensor) else None

    def _number(self, size: int | torch.SymInt) -> int:
        expression = _expression(size)
        numbers = {symbol: self.values.get(symbol, _SOME) for symbol in expression.free_symbols}
        try:
            number = int(expression.xreplace(numbers))
        except ZeroDivisionError:
            # The model's code divides by this size, and raises there.
            return int(_SOME)
        return max(0, number)


def _name(node: torch.fx.Node) -> str:
    """The name of an operator of torch's, that of what it does in place among them."""
    schema = node.target._schema.name if isinstance(node.target, OpOverload) else ""
    return schema.removeprefix("aten::").rstrip("_") if schema.startswith("aten::") else ""


def _is_write(node: torch.fx.Node) -> bool:
    return isinstance(node.target, OpOverload) and node.target._schema.is_mutable


def _is_pointwise(node: torch.fx.Node) -> bool:
    return isinstance(node.target, OpOverload) and torch.Tag.pointwise in node.target.tags


def _expression(size: int | torch.SymInt) -> sympy.Basic:
    return size.node.expr if isinstance(size, torch.SymInt) else sympy.Integer(size)
