"""The protocols of TorchScript's graphs name what torch's classes have."""

import pytest
import torch

from onnxport import torch_graph

_LIST = torch._C.ListType(torch._C.IntType.get())
_TUPLE = torch._C.TupleType([torch._C.IntType.get()])


@pytest.mark.parametrize(
    ("protocol", "theirs"),
    [
        (torch_graph.Graph, [torch._C.Graph]),
        (torch_graph.Block, [torch._C.Block]),
        (torch_graph.Node, [torch._C.Node]),
        (torch_graph.Value, [torch._C.Value]),
        (torch_graph.Type, [torch._C.TensorType.get(), _LIST, _TUPLE]),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_torch_has_what_a_protocol_names(protocol, theirs):
    named = [name for name in vars(protocol) if not name.startswith("_")]
    assert named
    assert [name for name in named if not any(hasattr(one, name) for one in theirs)] == []
