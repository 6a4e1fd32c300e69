"""The types of TorchScript graphs: ``torch._C.Graph``, ``Block``, ``Node``, ``Value`` and ``Type``, as used here.

torch's own stubs leave out methods that exist (``Graph.findAllNodes``, ``Node.pyobj``, ``Block.addInputToBlock``) and
call iterators lists. These protocols say what torch's classes have, and no more than is used: a graph has nodes, a node
has inputs, outputs, attributes and blocks, and a block has nodes again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, cast

import torch

from onnxport.torch_internals.operators import FunctionSchema
from onnxport.torch_internals.torchscript import JitGraph


class Type(Protocol):
    """The type of a value, a ``torch._C.JitType``. Of a tensor it may tell dtype and sizes, of a list its items."""

    annotation_str: str

    def kind(self) -> str:
        """The name of torch's class: ``TensorType``, ``ListType``, ``FunctionType``."""
        ...

    def isSubtypeOf(self, other: Type) -> bool:
        """Whether each value of this type is one of the other."""
        ...

    def getElementType(self) -> Type:
        """Of a list or an optional: the type of what is in it."""
        ...

    def containedTypes(self) -> list[Type]:
        """Of a tuple or a dict: the types of its parts."""
        ...

    def dtype(self) -> torch.dtype | None:
        """Of a tensor: its dtype, if known."""
        ...

    def dim(self) -> int | None:
        """Of a tensor: the number of its axes, if known."""
        ...

    def varyingSizes(self) -> list[int | None] | None:
        """Of a tensor: its sizes, each None if it isn't known; None if not even their number is."""
        ...

    def device(self) -> torch.device | None:
        """Of a tensor: its device, if known."""
        ...


class Use(Protocol):
    """One input of a node that a value is."""

    @property
    def user(self) -> Node:
        """The node."""
        ...

    @property
    def offset(self) -> int:
        """Which of its inputs."""
        ...


class Value(Protocol):
    """What a node gives, or a graph or block gets. ``unique`` is its number within the graph."""

    def unique(self) -> int:
        """The number that no other value of the graph has."""
        ...

    def debugName(self) -> str:
        """Its name in the printed graph."""
        ...

    def setDebugName(self, name: str) -> None:
        """Name it, if the name is free."""
        ...

    def node(self) -> Node:
        """The node that gives it; of a graph's input, its ``prim::Param``."""
        ...

    def uses(self) -> list[Use]:
        """Where it is read."""
        ...

    def type(self) -> Type:
        """Its type, as far as it is known."""
        ...

    def setType(self, t: object) -> Value:
        """Give it a type."""
        ...

    def requiresGrad(self) -> bool:
        """Whether a tensor takes part in gradients."""
        ...

    def toIValue(self) -> object:
        """What a constant holds, as Python's value; None of anything else."""
        ...

    def replaceAllUsesWith(self, val: Value) -> None:
        """Let all that read it read another."""
        ...


class Node(Protocol):
    """One step of a graph: an operator (``aten::add``) or a construct of the language (``prim::Loop``)."""

    def kind(self) -> str:
        """The name of the operator or construct."""
        ...

    def schema(self) -> str:
        """The overload that was chosen, as text; ``(no schema)`` of what has none."""
        ...

    def inputs(self) -> Iterator[Value]:
        """The values it reads."""
        ...

    def inputsAt(self, idx: int) -> Value:
        """One of them."""
        ...

    def inputsSize(self) -> int:
        """Their number."""
        ...

    def addInput(self, value: Value) -> Value:
        """Read one more."""
        ...

    def output(self) -> Value:
        """Its only output."""
        ...

    def outputs(self) -> Iterator[Value]:
        """The values it gives."""
        ...

    def outputsAt(self, idx: int) -> Value:
        """One of them."""
        ...

    def outputsSize(self) -> int:
        """Their number."""
        ...

    def addOutput(self) -> Value:
        """Give one more."""
        ...

    def blocks(self) -> Iterator[Block]:
        """The branches of an If, the body of a Loop."""
        ...

    def addBlock(self) -> Block:
        """Have one more."""
        ...

    def owningBlock(self) -> Block:
        """The block that it stands in."""
        ...

    def prev(self) -> Node:
        """The node before it; before the first of a block, the one that gives its inputs."""
        ...

    def mustBeNone(self) -> bool:
        """Whether it gives None, always."""
        ...

    def scopeName(self) -> str:
        """The path of scopes that was open when it was made."""
        ...

    def sourceRange(self) -> str:
        """The user's lines that it comes from, as text."""
        ...

    def attributeNames(self) -> list[str]:
        """The names of its attributes."""
        ...

    def hasAttribute(self, name: str) -> bool:
        """Whether it has one of that name."""
        ...

    def kindOf(self, name: str) -> str:
        """The letters of an attribute's type, under which its accessor is found: ``i``, ``s``, ``t``, ``fs``."""
        ...

    def i(self, name: str) -> int:
        """An integer."""
        ...

    def f(self, name: str) -> float:
        """A float."""
        ...

    def s(self, name: str) -> str:
        """A text."""
        ...

    def s_(self, name: str, val: str) -> Node:
        """Set a text."""
        ...

    def t(self, name: str) -> torch.Tensor:
        """A tensor."""
        ...

    def t_(self, name: str, val: torch.Tensor) -> Node:
        """Set a tensor."""
        ...

    def g(self, name: str) -> Graph:
        """A graph."""
        ...

    def tys(self, name: str) -> list[Type]:
        """A list of types."""
        ...

    def pyobj(self) -> object:
        """Of a ``prim::PythonOp``: the function that it calls."""
        ...

    def scalar_args(self) -> list[object]:
        """Of a ``prim::PythonOp``: those arguments that aren't tensors."""
        ...

    def cconv(self) -> str:
        """Of a ``prim::PythonOp``: a letter for each argument, ``c`` where it is one of ``scalar_args``."""
        ...

    def insertBefore(self, n: Node) -> Node:
        """Stand before another node."""
        ...

    def destroy(self) -> None:
        """Leave the graph; nothing may read its outputs."""
        ...


class Block(Protocol):
    """A list of nodes with inputs and outputs of its own; its nodes see the values of the blocks around it."""

    def inputs(self) -> Iterator[Value]:
        """What it gets: of a Loop's body, the number of the iteration and what is carried."""
        ...

    def outputs(self) -> Iterator[Value]:
        """What it gives: of a Loop's body, whether to go on and what is carried."""
        ...

    def nodes(self) -> Iterator[Node]:
        """Its nodes, in order."""
        ...

    def owningNode(self) -> Node:
        """The node that it is a block of."""
        ...

    def paramNode(self) -> Node:
        """The node whose outputs are its inputs."""
        ...

    def returnNode(self) -> Node:
        """The node whose inputs are its outputs."""
        ...

    def addInputToBlock(self) -> Value:
        """Get one more."""
        ...

    def registerOutput(self, n: Value) -> int:
        """Give one more."""
        ...

    def addNode(self, name: str, inputs: Sequence[Value]) -> Node:
        """Add a node at its end."""
        ...


class Graph(Protocol):
    """The nodes of one function."""

    def inputs(self) -> Iterator[Value]:
        """Its arguments; the first of a method is ``self``."""
        ...

    def outputs(self) -> Iterator[Value]:
        """Its results."""
        ...

    def nodes(self) -> Iterator[Node]:
        """Its nodes, in order."""
        ...

    def block(self) -> Block:
        """Its outermost block."""
        ...

    def findAllNodes(self, kind: str, recurse: bool = True) -> list[Node]:
        """Its nodes of one kind, those in blocks too."""
        ...

    def addInput(self, name: str = "") -> Value:
        """Get one more."""
        ...

    def registerOutput(self, n: Value) -> int:
        """Give one more."""
        ...

    def create(self, name: str, args: Iterable[Value] = (), num_outputs: int = 1) -> Node:
        """A node that does not stand anywhere yet."""
        ...

    def insertNode(self, n: Node) -> Node:
        """Put a node at the insertion point."""
        ...

    def appendNode(self, n: Node) -> Node:
        """Put a node at the end."""
        ...

    def insertConstant(self, value: object) -> Value:
        """A constant at the insertion point."""
        ...

    def insertPoint(self) -> Node:
        """The node before which nodes are put."""
        ...

    def setInsertPoint(self, n: Block | Node) -> None:
        """Put nodes before this one, or at the end of this block."""
        ...

    def copy(self) -> Graph:
        """The same nodes once more."""
        ...


class Function(Protocol):
    """A scripted function or method."""

    @property
    def graph(self) -> object:
        """Its graph."""
        ...

    @property
    def name(self) -> object:
        """Its name."""
        ...

    @property
    def schema(self) -> FunctionSchema:
        """Its parameters and results."""
        ...


def graph_of(function: Function) -> Graph:
    """The graph of a scripted function or method, typed."""
    return cast(Graph, function.graph)


def new_graph() -> Graph:
    """An empty graph."""
    return cast(Graph, JitGraph())


def inputs_of(node: Node) -> list[Value]:
    """The values that a node reads.

    So are those of ``Node.inputs``, but torch ends each of its iterators with an exception of C++, which takes longer
    than all that is read of a usual node.
    """
    return [node.inputsAt(place) for place in range(node.inputsSize())]


def outputs_of(node: Node) -> list[Value]:
    """The values that a node gives."""
    return [node.outputsAt(place) for place in range(node.outputsSize())]


def nodes_of(block: Block | Graph) -> list[Node]:
    """The nodes of a block, in order.

    >>> [node.kind() for node in nodes_of(graph_of(torch.jit.trace(torch.nn.ReLU(), torch.ones(2))))]
    ['aten::relu']
    """
    nodes = []
    node = _outermost(block).returnNode().prev()
    while node.kind() != "prim::Param":
        nodes.append(node)
        node = node.prev()
    return nodes[::-1]


def arguments_of(block: Block | Graph) -> list[Value]:
    """What a block gets."""
    return outputs_of(_outermost(block).paramNode())


def results_of(block: Block | Graph) -> list[Value]:
    """What a block gives."""
    return inputs_of(_outermost(block).returnNode())


def _outermost(block: Block | Graph) -> Block:
    return cast(Block, block.block() if isinstance(block, JitGraph) else block)
