"""TorchScript: graphs with nodes and values, the types of values, functions, and the tracer."""

from typing import TYPE_CHECKING

from torch import _C
from torch._C import Block as JitBlock
from torch._C import (
    BoolType,
    FloatType,
    IntType,
    ListType,
    NoneType,
    NumberType,
    OptionalType,
    StringType,
    TensorType,
    _create_graph_by_tracing,
    _get_tracing_state,
    _jit_pass_inline,
)
from torch._C import Graph as JitGraph
from torch._C import Node as JitNode
from torch._C import Value as JitValue
from torch.jit import _state as jit_state
from torch.jit import _trace as jit_trace
from torch.jit._trace import TracerWarning

if TYPE_CHECKING:
    # The stubs have another name for it than torch itself.
    from torch._C import JitType
else:
    from torch._C import Type as JitType

if TYPE_CHECKING:
    from torch._C import JitType
else:
    # The base of all types, which torch's stubs call by another name than torch does.
    from torch._C import Type as JitType

__all__ = [
    "BoolType",
    "BufferDict",
    "FloatType",
    "IntType",
    "JitBlock",
    "JitGraph",
    "JitNode",
    "JitType",
    "JitValue",
    "ListType",
    "NoneType",
    "NumberType",
    "OptionalType",
    "ParameterDict",
    "StringType",
    "TensorType",
    "TracerWarning",
    "create_graph_by_tracing",
    "get_tracing_state",
    "interpret_graph",
    "jit_bindings",
    "jit_state",
    "jit_trace",
    "pass_inline",
]

# Where functions in Python look up whether a tracer records.
jit_bindings = _C
create_graph_by_tracing = _create_graph_by_tracing
get_tracing_state = _get_tracing_state
interpret_graph = _C._jit_interpret_graph  # type: ignore[attr-defined]
pass_inline = _jit_pass_inline

# What a script module holds, by name, as it is and not as the wrappers in Python show it.
BufferDict = _C.BufferDict
ParameterDict = _C.ParameterDict
