"""Pages of mapped files, given back when a weight was read for the last time: they would count as memory in use."""

from __future__ import annotations

import bisect
import contextlib
import mmap
import sys
import weakref
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

# What tells Linux that pages can go. They are read again when they are needed, and pages that were written to stay.
_PAGE_OUT = 21


@dataclass(frozen=True)
class _Mapping:
    start: int
    end: int
    offset: int
    pages: weakref.ref[mmap.mmap]


_mappings: list[_Mapping] = []


def remember_mapping(content: np.memmap[Any, np.dtype[np.uint8]]) -> None:
    """Remember where a mapped file lies, as long as it is mapped."""
    pages = content.base
    if not isinstance(pages, mmap.mmap):
        return
    start = content.__array_interface__["data"][0]
    gone = [mapping for mapping in _mappings if mapping.pages() is None]
    for mapping in gone:
        _mappings.remove(mapping)
    made = _Mapping(start, start + content.nbytes, len(pages) - content.nbytes, weakref.ref(pages))
    bisect.insort(_mappings, made, key=lambda mapping: mapping.start)


def give_back_pages(tensor: torch.Tensor) -> None:
    """Let the system take back the memory of a tensor that lies in a mapped file; of any other nothing happens.

    >>> import torch
    >>> from onnxport.weights.mapped_pages import give_back_pages
    >>> give_back_pages(torch.ones(2))
    """
    if not sys.platform.startswith("linux") or tensor.numel() == 0:
        return
    storage = tensor.untyped_storage()
    start, size = storage.data_ptr(), storage.nbytes()
    found = bisect.bisect_right(_mappings, start, key=lambda mapping: mapping.start) - 1
    if found < 0 or start >= _mappings[found].end:
        return
    mapping = _mappings[found]
    pages = mapping.pages()
    if pages is None:
        return
    # Whole pages only: those at the ends are shared with the neighbours.
    begin = -(-(start - mapping.start + mapping.offset) // mmap.PAGESIZE) * mmap.PAGESIZE
    end = (start - mapping.start + mapping.offset + size) // mmap.PAGESIZE * mmap.PAGESIZE
    if begin < end:
        # An older kernel does not know the advice, and keeps the pages: it is only that.
        with contextlib.suppress(OSError):
            pages.madvise(_PAGE_OUT, begin, end - begin)
