"""Functions of torch that cut an axis: of one that varies they give pieces, of which only run time knows how many."""

from __future__ import annotations

import dis
import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from types import FrameType

import torch

from onnxport.capture.diagnosis.user_lines import asker
from onnxport.capture.forks.expressions import is_start_of_for
from onnxport.capture.patches.pieces import Cut, Pieces, Size, chunks_of, split_of
from onnxport.capture.patches.tensor_numbers import ListedTensor
from onnxport.torch_internals.symbolic_sizes import get_proxy_mode

_Parts = Callable[..., Sequence[torch.Tensor]]
_LONGEST_EXPRESSION = 24
"""Of a size that is cut, in operations: that of a piece is some thirty longer, and sympy takes minutes for a piece of a
piece of a piece. Beyond it torch's own number of pieces stands, of which its guards tell."""


def cuts_left_open(rewrite: Callable[..., None]) -> Iterator[tuple[object, str, object]]:
    """The functions, with what the model's code calls in their place: owner, name, function.

    ``rewrite`` has the function that is running rewritten, where it goes through rows or pieces one by one.
    """
    for owner in (torch, torch.Tensor):
        yield owner, "split", _split(owner.split, rewrite)
        yield owner, "chunk", _chunk(owner.chunk)
        yield owner, "unbind", _unbind(owner.unbind, rewrite)
    yield Pieces, "__iter__", _unpacked(Pieces.__iter__)


def _unpacked(plain: Callable[[Pieces], Iterator[object]]) -> Callable[[Pieces], Iterator[object]]:
    """``a, b = x.split(4)``: whether there are so many pieces is asked, and Python raises where there are not."""

    def pieces_in_turn(pieces: Pieces) -> Iterator[object]:
        wanted = _names_to_bind(sys._getframe(1)) if pieces.cut.size is not None and pieces.cut.most is None else None
        if wanted is None or get_proxy_mode() is None or asker() == "torch":
            return plain(pieces)
        return iter([pieces[place] for place in range(wanted)]) if pieces.cut.count == wanted else plain(pieces)

    return pieces_in_turn


def _names_to_bind(frame: FrameType) -> int | None:
    """How many names the code of a frame binds to the items of what it is looking at right now."""
    code, place = frame.f_code.co_code, frame.f_lasti
    return code[place + 1] if code[place] == dis.opmap["UNPACK_SEQUENCE"] else None


def _is_open(tensor: torch.Tensor, dim: int) -> bool:
    """Whether the model's code cuts an axis whose size varies."""
    if not isinstance(dim, int) or not -tensor.dim() <= dim < tensor.dim():
        return False
    size = tensor.shape[dim]
    if not isinstance(size, torch.SymInt) or get_proxy_mode() is None or asker() == "torch":
        return False
    return bool(size.node.expr.count_ops() <= _LONGEST_EXPRESSION)


def _pieces(cut: Cut, plain: Callable[[], Sequence[torch.Tensor]]) -> Sequence[torch.Tensor]:
    is_known = isinstance(cut.count, int) or cut.count.node.expr.is_number
    return plain() if is_known else Pieces(cut, plain)


def _split(original: _Parts, rewrite: Callable[..., None]) -> _Parts:
    def split(tensor: torch.Tensor, split_size_or_sections: object, dim: int = 0) -> Sequence[torch.Tensor]:
        def plain() -> Sequence[torch.Tensor]:
            rewrite(is_start_of_for)
            return original(tensor, split_size_or_sections, dim)

        size = split_size_or_sections
        if isinstance(size, ListedTensor) and get_proxy_mode() is not None and asker() != "torch":
            rewrite()
        if not isinstance(size, Size) or not _is_open(tensor, dim) or (isinstance(size, int) and size < 1):
            return original(tensor, size, dim)
        return _pieces(split_of(tensor, size, dim % tensor.dim()), plain)

    return split


def _chunk(original: _Parts) -> _Parts:
    def chunk(input: torch.Tensor, chunks: int, dim: int = 0) -> Sequence[torch.Tensor]:
        plain = functools.partial(original, input, chunks, dim)
        if not isinstance(chunks, int) or chunks < 2 or not _is_open(input, dim):
            return plain()
        return _pieces(chunks_of(input, chunks, dim % input.dim()), plain)

    return chunk


def _unbind(original: _Parts, rewrite: Callable[[], None]) -> _Parts:
    def unbind(input: torch.Tensor, dim: int = 0) -> Sequence[torch.Tensor]:
        if not _is_open(input, dim):
            return original(input, dim)

        def plain() -> Sequence[torch.Tensor]:
            rewrite()
            return original(input, dim)

        return Pieces(Cut(input, dim % input.dim(), input.shape[dim], None), plain)

    return unbind
