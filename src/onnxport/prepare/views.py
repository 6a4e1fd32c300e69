"""Views and their inverses: how a value written through a view gets back into the tensor it is a view of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import getitem
from typing import Any

import torch

from onnxport.prepare.effects import effects
from onnxport.prepare.emit import Dim, Emitter, bind_node, dim_key, run_on_fakes, same_shape

aten = torch.ops.aten
Size = int | torch.fx.Node
_LAST = 2**62
"""Ends beyond this mean "to the end": Python's and torch's largest indices both lie above it."""


class NoInverseError(Exception):
    """A write has no functional form; ``remedy`` says what to write instead."""

    def __init__(
        self,
        why: str,
        remedy: str = "Write to the tensor itself, or build the result with torch.where, torch.cat or torch.stack.",
    ) -> None:
        super().__init__(why)
        self.remedy = remedy


@dataclass(frozen=True)
class View:
    """One step from a tensor to a view of it: a call, or one piece of a call that returns several."""

    node: torch.fx.Node
    target: Any
    parameter: str
    args: dict[str, Any]
    val: torch.Tensor
    piece: int | None = None

    @classmethod
    def of(cls, node: torch.fx.Node) -> View:
        """The step that a call to a view operator makes."""
        known = effects(node.target)
        target = node.target if known.as_view is None else known.as_view
        assert known.returns[0] is not None
        return cls(node, target, known.returns[0], bind_node(node), node.meta["val"])

    def piece_of(self, index: int) -> View:
        """One of the views that a call returned."""
        count = len(self.node.meta["val"])
        index = index % count
        return View(self.node, self.target, self.parameter, self.args, self.node.meta["val"][index], index)

    @property
    def name(self) -> str:
        """Operator name without namespace and overload."""
        return str(self.target._schema.name.split("::")[-1])

    def replay(self, emit: Emitter, source: torch.fx.Node) -> torch.fx.Node:
        """Take the same view of another value."""
        if self.piece is not None:
            return self._replay_piece(emit, source)
        if self.name in _RESHAPES and self.target is not aten.view.dtype:
            return self._reshape(emit, source)
        if self.name == "as_strided":
            source = emit.call(aten.contiguous.default, source, val=source.meta["val"])
        return self._call(emit, source, val=self.val)

    def places(self, emit: Emitter, numbers: torch.fx.Node) -> torch.fx.Node:
        """The numbers of the source's elements that the view shows, given those of the source."""
        shown = self.replay(emit, numbers)
        shown.meta["val"] = run_on_fakes(aten.to.dtype, (shown, torch.int64), {})
        return shown

    @property
    def repeats_elements(self) -> bool:
        """Whether the view may show one element of its source in several places."""
        if self.name in ("expand", "expand_as", "broadcast_to"):
            source = self.args[self.parameter].meta["val"]
            shown = [dim_key(size) for size in self.val.shape[self.val.dim() - source.dim() :]]
            added = self.val.shape[: self.val.dim() - source.dim()]
            return [dim_key(size) for size in source.shape] != shown or any(dim_key(size) != 1 for size in added)
        step, size = self.args.get("step"), self.args.get("size")
        if self.name == "unfold":
            return not (isinstance(step, int) and isinstance(size, int) and step >= size)
        return False

    def replay_all(self, emit: Emitter, source: torch.fx.Node) -> torch.fx.Node:
        """Repeat a call that returns several views."""
        return self._call(emit, source, val=self.val)

    def invert(self, write: Write) -> torch.fx.Node:
        """The source of the view with the written value in place of what the view shows."""
        if self.piece is not None:
            return _write_piece(self, write)
        inverse = _INVERSES.get(f"{self.name}.{self.target._overloadname}") or _INVERSES.get(self.name)
        return _by_position(self, write) if inverse is None else inverse(self, write)

    def _call(self, emit: Emitter, source: torch.fx.Node, val: object = None) -> torch.fx.Node:
        positional, keywords = [], {}
        for parameter in self.target._schema.arguments:
            if parameter.name not in self.args:
                continue
            argument = source if parameter.name == self.parameter else self.args[parameter.name]
            if not parameter.kwarg_only:
                positional.append(argument)
            elif argument != parameter.default_value:
                keywords[parameter.name] = argument
        while len(positional) > 1:
            last = self.target._schema.arguments[len(positional) - 1]
            if not last.has_default_value() or isinstance(positional[-1], torch.fx.Node):
                break
            if positional[-1] != last.default_value:
                break
            positional.pop()
        return emit.call(self.target, *positional, val=val, **keywords)

    def _reshape(self, emit: Emitter, source: torch.fx.Node) -> torch.fx.Node:
        # A written value need not have the strides of the tensor it replaces, which `view` would insist on.
        if self.name in ("view", "_reshape_alias", "_unsafe_view", "reshape"):
            return emit.call(
                aten.reshape.default, source, self.args["size" if "size" in self.args else "shape"], val=self.val
            )
        if self.name == "view_as":
            return emit.call(aten.reshape_as.default, source, self.args["other"], val=self.val)
        return self._call(emit, source, val=self.val)

    def _replay_piece(self, emit: Emitter, source: torch.fx.Node) -> torch.fx.Node:
        dim, start, size = _extent(self, emit)
        if size is None:
            return emit.call(aten.select.int, source, dim, start, val=self.val)
        return emit.call(aten.slice.Tensor, source, dim, start, emit.add(start, size), val=self.val)


@dataclass(frozen=True)
class Write:
    """A value on its way back through one view."""

    emit: Emitter
    value: torch.fx.Node
    current: Callable[[], torch.fx.Node]
    """The present value of the view's source; asked for only when part of it survives the write."""
    shaped: torch.fx.Node
    """Any node with the shape of the source."""
    val: torch.Tensor
    """Fake value of the source."""

    def result(self, target: Callable[..., object], *args: object, **kwargs: object) -> torch.fx.Node:
        """Emit the call that makes the new source."""
        return self.emit.call(target, *args, val=self.val, **kwargs)


def _identity(view: View, write: Write) -> torch.fx.Node:
    return write.value


def _again(view: View, write: Write) -> torch.fx.Node:
    return view._call(write.emit, write.value, val=write.val)


def _conj(view: View, write: Write) -> torch.fx.Node:
    return _again(view, write) if write.val.is_complex() else write.value


def _reshape_back(view: View, write: Write) -> torch.fx.Node:
    if same_shape(view.val, write.val):
        return write.value
    return write.emit.reshape_like(write.value, write.shaped, val=write.val)


def _slice(view: View, write: Write) -> torch.fx.Node:
    args = view.args
    return _write_slice(write, args["dim"], args["start"], args["end"], args["step"])


def _write_slice(write: Write, dim: int, start: object, end: object, step: object = 1) -> torch.fx.Node:
    size: Dim = write.val.shape[dim]
    to_end = end is None or (isinstance(end, int) and (end >= _LAST or (isinstance(size, int) and end >= size)))
    if (start is None or (isinstance(start, int) and start == 0)) and to_end and isinstance(step, int) and step == 1:
        return write.value
    options = (start, end) if isinstance(step, int) and step == 1 else (start, end, step)
    return write.result(aten.slice_scatter.default, write.current(), write.value, dim, *options)


def _narrow(view: View, write: Write) -> torch.fx.Node:
    dim, start, length = view.args["dim"], view.args["start"], view.args["length"]
    if isinstance(start, torch.fx.Node) and isinstance(start.meta["val"], torch.Tensor):
        return _by_position(view, write)
    if isinstance(start, int) and start < 0:
        start = write.emit.add(write.emit.size(write.shaped, dim), start)
    return _write_slice(write, dim, start, write.emit.add(start, length))


def _select(view: View, write: Write) -> torch.fx.Node:
    return write.result(aten.select_scatter.default, write.current(), write.value, view.args["dim"], view.args["index"])


def _diagonal(view: View, write: Write) -> torch.fx.Node:
    options = (view.args["offset"], view.args["dim1"], view.args["dim2"])
    return write.result(aten.diagonal_scatter.default, write.current(), write.value, *options)


def _as_strided(view: View, write: Write) -> torch.fx.Node:
    source = write.emit.call(aten.contiguous.default, write.current(), val=write.val)
    options = (view.args["size"], view.args["stride"], view.args["storage_offset"])
    return write.result(aten.as_strided_scatter.default, source, write.value, *options)


def _permute(view: View, write: Write) -> torch.fx.Node:
    rank = write.val.dim()
    inverse = [0] * rank
    for position, dim in enumerate(view.args["dims"]):
        inverse[dim % rank] = position
    return write.result(aten.permute.default, write.value, inverse)


def _movedim(view: View, write: Write) -> torch.fx.Node:
    return write.result(view.target, write.value, view.args["destination"], view.args["source"])


def _unsqueeze(view: View, write: Write) -> torch.fx.Node:
    return write.result(aten.squeeze.dim, write.value, view.args["dim"])


def _squeeze_dim(view: View, write: Write) -> torch.fx.Node:
    if view.val.dim() == write.val.dim():
        return write.value
    return write.result(aten.unsqueeze.default, write.value, view.args["dim"])


def _expand(view: View, write: Write) -> torch.fx.Node:
    """Where it adds no element: the others are written by position."""
    return _reshape_back(view, write)


def _real(view: View, write: Write) -> torch.fx.Node:
    if not write.val.is_complex():
        return write.value
    return write.result(aten.complex.default, write.value, write.emit.call(aten.imag.default, write.current()))


def _imag(view: View, write: Write) -> torch.fx.Node:
    return write.result(aten.complex.default, write.emit.call(aten.real.default, write.current()), write.value)


def _view_dtype(view: View, write: Write) -> torch.fx.Node:
    return write.result(aten.view.dtype, write.value, write.val.dtype)


def _by_position(view: View, write: Write) -> torch.fx.Node:
    return write_by_position([view], write)


def write_by_position(views: Sequence[View], write: Write) -> torch.fx.Node:
    """Number the elements of the source, take the views of the numbers, and scatter to the numbers they show."""
    emit = write.emit
    options = {"device": write.val.device, "pin_memory": False}
    numbers = emit.call(aten.arange.default, emit.numel(write.shaped), like=write.val, **options)
    shown = emit.call(aten.reshape.default, numbers, emit.sizes(write.shaped))
    for view in views:
        shown = view.places(emit, shown)
    places = emit.call(aten.reshape.default, shown, [-1])
    values = emit.call(aten.reshape.default, write.value, [-1])
    flat = emit.call(aten.reshape.default, write.current(), [-1])
    scattered = emit.call(aten.scatter.src, flat, 0, places, values, val=flat.meta["val"])
    return emit.reshape_like(scattered, write.shaped, val=write.val)


def shows_each_once(val: torch.Tensor, source: torch.Tensor) -> bool:
    """Whether each axis of a view is known to go along another axis of its source, so that nothing is shown twice."""
    # The stride of a size of 1 leads nowhere, and may be that of another axis.
    axes = zip(source.shape, source.stride(), strict=True)
    owned = [dim_key(stride) for size, stride in axes if not (isinstance(size, int) and size == 1)]
    for size, stride in zip(val.shape, val.stride(), strict=True):
        if isinstance(size, int) and size == 1:
            continue
        if dim_key(stride) not in owned:
            return False
        owned.remove(dim_key(stride))
    return True


def _write_piece(view: View, write: Write) -> torch.fx.Node:
    dim, start, size = _extent(view, write.emit)
    if size is None:
        return write.result(aten.select_scatter.default, write.current(), write.value, dim, start)
    if len(view.node.meta["val"]) == 1:
        return write.value
    return _write_slice(write, dim, start, write.emit.add(start, size))


def _extent(view: View, emit: Emitter) -> tuple[int, Size, Size | None]:
    """Axis, start and size of one piece of a split; unbind has no size."""
    assert view.piece is not None
    rank = view.val.dim()
    if view.name == "unbind":
        return view.args["dim"], view.piece, None
    stacked = {"hsplit": 0 if rank == 1 else 1, "vsplit": 0, "dsplit": 2}
    dim = stacked[view.name] if view.name in stacked else view.args["dim"]
    start: Size = 0
    for index in range(view.piece):
        start = emit.add(start, _piece_size(view, emit, index, dim))
    return dim, start, _piece_size(view, emit, view.piece, dim)


def _piece_size(view: View, emit: Emitter, index: int, dim: int) -> Size:
    size = view.node.meta["val"][index].shape[dim]
    if isinstance(size, int):
        return size
    given = view.args.get("split_sizes")
    if given is not None:
        return given[index]  # type: ignore[no-any-return]
    for user in view.node.users:
        if user.target is getitem and user.args[1] == index:
            return emit.call(aten.sym_size.int, user, dim, val=size)
    piece = emit.call(getitem, view.node, index, val=view.node.meta["val"][index])
    return emit.call(aten.sym_size.int, piece, dim, val=size)


_Inverse = Callable[[View, Write], torch.fx.Node]


def _rows(inverse: _Inverse, *names: str) -> dict[str, _Inverse]:
    return dict.fromkeys(names, inverse)


_RESHAPES = {"view", "reshape", "_reshape_alias", "_unsafe_view", "view_as"}
_INVERSES: dict[str, _Inverse] = {
    **_rows(_identity, "alias", "detach", "contiguous", "to", "lift_fresh", "positive", "resolve_conj", "resolve_neg"),
    **_rows(_identity, "cpu", "cuda", "type_as", "conj_physical", "dropout", "feature_dropout", "alpha_dropout"),
    **_rows(_identity, "feature_alpha_dropout", "_autocast_to_full_precision", "_autocast_to_reduced_precision"),
    **_rows(_again, "t", "transpose", "swapaxes", "swapdims", "numpy_T", "mT", "mH", "matrix_H", "adjoint"),
    **_rows(_conj, "_conj", "conj"),
    **_rows(_reshape_back, *_RESHAPES, "reshape_as", "flatten", "unflatten", "ravel", "squeeze"),
    **_rows(_slice, "slice"),
    **_rows(_narrow, "narrow"),
    **_rows(_select, "select"),
    **_rows(_diagonal, "diagonal", "linalg_diagonal"),
    **_rows(_as_strided, "as_strided"),
    **_rows(_permute, "permute"),
    **_rows(_movedim, "movedim", "moveaxis"),
    **_rows(_unsqueeze, "unsqueeze"),
    **_rows(_squeeze_dim, "squeeze.dim"),
    **_rows(_expand, "expand", "expand_as", "broadcast_to"),
    **_rows(_real, "real"),
    **_rows(_imag, "imag"),
    **_rows(lambda view, write: write.result(aten.view_as_complex.default, write.value), "view_as_real"),
    **_rows(lambda view, write: write.result(aten.view_as_real.default, write.value), "view_as_complex"),
    **_rows(lambda view, write: write.result(aten.neg.default, write.value), "_neg_view"),
    **_rows(_view_dtype, "view.dtype"),
}
