"""What torch works out of each captured call and nobody reads, left out.

Beside the fake tensor that a node gives, torch notes in which memory format it lies, for which it multiplies out the
strides three times where sizes vary; and it writes Python code of the graph, and compiles it, after each of its own
passes over it. Code that somebody asks for, or runs, is still written. And each size that torch reads of a tensor to
remember which node it is of goes through the modes that look for calls of the model's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import torch

from onnxport.capture.patches.replacing import attributes_replaced
from onnxport.torch_internals.fake_tensors import DisableTorchFunction, lazy_graph_modules, proxy_tensor


@contextlib.contextmanager
def unread_facts_left_out() -> Iterator[None]:
    """While this is open, graphs are compiled when they are run, and nodes say no memory format."""
    extract: Callable[..., object] = vars(proxy_tensor)["_extract_tensor_metadata"]
    track: Callable[..., object] = proxy_tensor.track_tensor

    def _extract_tensor_metadata(result: torch.Tensor) -> object:
        with DisableTorchFunction():
            return extract(result, include_contiguity=False)

    def track_tensor(*args: object, **kwargs: object) -> object:
        with DisableTorchFunction():
            return track(*args, **kwargs)

    replaced = [_extract_tensor_metadata, track_tensor]
    rows = [(proxy_tensor, function.__name__, function) for function in replaced]
    with lazy_graph_modules(True), attributes_replaced(rows):
        yield
