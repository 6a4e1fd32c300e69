"""One call of a symbolic function: the TorchScript graph it writes into, and that graph's way into the ONNX model.

A symbolic function reads and writes ``torch._C`` graphs: values with types, nodes with attributes. It gets a real
one, so whatever it asks of a value is answered by torch itself. What it wrote is emitted when it has returned, or when
it hands values to one of our translations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

import numpy as np
import onnx
import onnx_ir as ir
import torch

from onnxport.errors import TranslationError
from onnxport.torchscript import given
from onnxport.torchscript.attributes import onnx_attributes
from onnxport.torchscript.blocks import BRANCHES, CONTROLS, block_results, has_blocks
from onnxport.torchscript.forms import Form, form_of
from onnxport.torchscript.given import constant_of
from onnxport.torchscript.inference import Known, Result, Sizes, infer, of_one_dtype
from onnxport.translate import Builder, Dim, Int, Tensor
from onnxport.translate.promotion import result_dtype
from onnxport.translate.regions import inside, region, region_input
from onnxport.translate.signatures import CANONICAL_OPSET
from onnxport.weights.dtypes import from_torch_dtype
from onnxport.weights.torch_tensor import TorchTensor

Value = torch._C.Value
Expected: TypeAlias = "Sequence[tuple[torch.dtype, Sequence[Int] | None]]"
# An input of a node: a value of the graph, or the content of an attribute that has become an input.
Source: TypeAlias = "Value | list[int] | list[float] | int | float | None"
Write: TypeAlias = "Callable[[Builder, Sequence[Tensor]], Sequence[Tensor]]"

_PLAIN_DTYPES: dict[type, torch.dtype] = {bool: torch.bool, int: torch.int64, float: torch.float32}
_DOMAINS = {"onnx": "", "aten": "org.pytorch.aten"}
_SESSIONS: WeakValueDictionary[int, Session] = WeakValueDictionary()


def session_of(graph: torch._C.Graph) -> Session:
    """The session that writes a graph."""
    found = _SESSIONS.get(id(graph))
    if found is None:
        raise TranslationError("this TorchScript graph is not one that is being written; use the `g` of the function")
    return found


@dataclass(frozen=True)
class Call:
    """A node as ONNX takes it."""

    domain: str
    op_type: str
    inputs: list[Source]
    attributes: dict[str, ir.Attr]
    form: Form | None


class Session:
    """The graph of one call: values given to it, values written in it, and the tensors they have become.

    ``parameters`` are the weights among what is given, by the names of their values.
    """

    def __init__(self, op: Builder, opset: int, domains: Mapping[str, int]) -> None:
        self.op = op
        self.opset = opset
        self._domains = domains
        self.graph = torch._C.Graph()
        self.parameters: dict[str, torch.Tensor] = {}
        self._tensors: dict[int, Tensor] = {}
        self._numbers: dict[int, int | float] = {}
        self._shapes: dict[int, Sizes] = {}
        self._expected: dict[int, tuple[torch.dtype, Sequence[Int] | None]] = {}
        self._writers: dict[int, Write] = {}
        _SESSIONS[id(self.graph)] = self

    # --- from our side into the graph --------------------------------------------------------------------------

    def give(self, argument: Any, *, requires_grad: bool = False) -> Value:
        """An argument of a translation as a value: tensors are inputs of the graph, the rest are constants in it."""
        if isinstance(argument, Dim):
            argument = self.op.scalar(argument, torch.float64 if argument.kind is float else torch.int64)
        if isinstance(argument, Tensor):
            return self._give_tensor(argument, requires_grad)
        if isinstance(argument, list | tuple):
            return self._give_list([given.plain(item) for item in argument])
        value = given.constant(self.graph, argument)
        content = given.plain(argument)
        if isinstance(content, int | float):
            self._numbers[value.unique()] = content
        return value

    def number(self, value: Value) -> int | float | None:
        """The number that a value is, if it was given as one: it has no dtype of its own."""
        return self._numbers.get(value.unique())

    def _content(self, value: Value) -> Any:
        number = self.number(value)
        return constant_of(value) if number is None else number

    def _give_list(self, items: list[Any]) -> Value:
        kinds = {type(item) for item in items}
        kind: type | None = None
        if kinds <= {bool, int, float, str}:
            kind = float if kinds == {int, float} else next(iter(kinds), int)
        elif kinds <= {int, Dim}:
            kind = int
        values = [self.give(float(item) if kind is float else item) for item in items]
        return given.list_of(self.graph, values, kind)

    def _give_tensor(self, tensor: Tensor, requires_grad: bool) -> Value:
        content = tensor.value.const_value
        if content is None or tensor.value.metadata_props or tensor.is_complex or tensor.dtype == torch.bfloat16:
            value = self.graph.addInput()
            if isinstance(content, TorchTensor) and tensor.value.name is not None:
                value.setDebugName(tensor.value.name)
                self.parameters[value.debugName()] = content.raw
        else:
            node = self.add("onnx::Constant", [], 1)
            node.t_("value", torch.tensor(content.numpy(), dtype=tensor.dtype))
            value = node.output()
        self.bind(value, tensor, requires_grad=requires_grad)
        return value

    def bind(self, value: Value, tensor: Tensor, *, requires_grad: bool = False) -> None:
        """Let a value stand for a tensor that exists already."""
        value.setType(given.tensor_type(tensor.dtype, tensor.known_shape, requires_grad=requires_grad))
        self._tensors[value.unique()] = tensor
        if tensor.known_shape is not None:
            self._shapes[value.unique()] = tensor.known_shape

    def add(self, kind: str, inputs: Sequence[Value], outputs: int) -> torch._C.Node:
        """A new node where the graph is being written; :meth:`infer` types its outputs when it has its attributes."""
        node = self.graph.create(kind, list(inputs), outputs)
        self.graph.insertNode(node)
        return node

    def add_call(self, kind: str, inputs: Sequence[Value], results: Expected, write: Write) -> torch._C.Node:
        """A node that ``write`` emits in its own way, when it is its turn."""
        node = self.add(kind, inputs, len(results))
        for value, (dtype, shape) in zip(node.outputs(), results, strict=True):
            self._set(value, Result(dtype, None if shape is None else tuple(shape)))
            self._writers[value.unique()] = write
        return node

    def infer(self, node: torch._C.Node) -> None:
        """Set the types of a node's outputs as far as its operator determines them."""
        content = constant_of(node.output()) if node.kind() == "onnx::Constant" else None
        if isinstance(content, torch.Tensor):
            node.output().setType(given.tensor_type(content.dtype, tuple(content.shape)))
            return
        call = self._call(node)
        if call.form is None:
            return
        known = of_one_dtype([self._known(source) for source in call.inputs], _type_variables(call))
        label = self.op.shared.dim_names.label
        count = node.outputsSize()
        found = infer(call.op_type, call.attributes, known, count, call.form.opset, label)
        if any(result.dtype is not None and result.shape is None and not result.is_sequence for result in found):
            # Old operators say less of their results than they do since.
            form = form_of(call.op_type, len(call.inputs), count, call.attributes, CANONICAL_OPSET)
            if form is not None and form.opset == CANONICAL_OPSET and not form.moved:
                found = infer(call.op_type, call.attributes, known, count, CANONICAL_OPSET, label)
        for value, result in zip(node.outputs(), found, strict=True):
            self._set(value, result)

    def _set(self, value: Value, result: Result) -> None:
        if result.dtype is None:
            return
        if result.is_sequence:
            value.setType(torch._C.ListType(given.tensor_type(result.dtype, None)))
            return
        value.setType(given.tensor_type(result.dtype, result.shape))  # type: ignore[arg-type]
        if result.shape is not None:
            self._shapes[value.unique()] = result.shape

    def settle(self, value: Value) -> Value:
        """Type a value that nobody has typed as far as it is known by now: its blocks may have been written since."""
        node = value.node()
        if _is_typed(value) or not has_blocks(node):
            return value
        for output, result in zip(node.outputs(), block_results(node, self._described), strict=True):
            self._set(output, result)
        return value

    def _described(self, value: Value) -> Result:
        known = self._known(value)
        return Result() if known is None else Result(known.dtype, known.shape, known.is_sequence)

    def shape_of(self, value: Value) -> Sizes | None:
        """The sizes of a value: what its type states, and names for sizes that vary."""
        kind = value.type()
        sizes = kind.varyingSizes() if isinstance(kind, torch._C.TensorType) else None
        inferred = self._shapes.get(value.unique())
        if sizes is None:
            return inferred
        if inferred is None or len(inferred) != len(sizes):
            return tuple(sizes)
        return tuple(own if size is None else size for size, own in zip(sizes, inferred, strict=True))

    def _known(self, source: Source) -> Known | None:
        content = self._content(source) if isinstance(source, Value) else source
        if content is None and not isinstance(source, Value):
            return None
        if isinstance(content, torch.Tensor):
            data = TorchTensor(content.detach().cpu()).numpy() if content.numel() <= 64 else None
            return Known(content.dtype, tuple(content.shape), data)
        if isinstance(content, list | int | float):
            dtype = _plain_dtype(content)
            array = np.asarray(content, dtype=torch.empty(0, dtype=dtype).numpy().dtype)
            return Known(dtype, array.shape, array, is_number=True)
        assert isinstance(source, Value)
        if source.node().mustBeNone():
            return None
        kind = self.settle(source).type()
        sequence = _sequence_dtype(source)
        if sequence is not None:
            return Known(sequence, None, is_sequence=True)
        if isinstance(kind, torch._C.ListType):
            return Known(torch.int64, (len(list(source.node().inputs())),))
        return Known(kind.dtype() if isinstance(kind, torch._C.TensorType) else None, self.shape_of(source))

    # --- from the graph into the model -------------------------------------------------------------------------

    def take(self, values: Sequence[Value], expected: Expected = ()) -> list[Tensor]:
        """The tensors that values have become; what was written of them so far is emitted first.

        ``expected`` is what torch says of the values, for operators that no one knows.
        """
        for value, one in zip(values, expected, strict=False):
            self._expected[value.unique()] = one
        self._emit_needed(values)
        tensors = []
        for position, value in enumerate(values):
            dtype = expected[position][0] if position < len(expected) else None
            tensor = self._tensor(value, dtype)
            if tensor is None:
                raise TranslationError("the symbolic function returned a value that is None")
            tensors.append(tensor)
        return tensors

    def _emit_needed(self, values: Iterable[Value]) -> None:
        needed: set[int] = set()
        pending = list(values)
        while pending:
            value = pending.pop()
            if value.unique() in needed or value.unique() in self._tensors:
                continue
            node = value.node()
            needed.update(output.unique() for output in node.outputs())
            pending.extend(node.inputs())
            pending.extend(output for block in node.blocks() for output in block.outputs())
        self._emit_all(self.graph.nodes(), needed)

    def _emit_all(self, nodes: Iterable[torch._C.Node], needed: set[int]) -> None:
        for node in nodes:
            outputs = list(node.outputs())
            if outputs and outputs[0].unique() in needed and not node.kind().startswith("prim::"):
                self._emit(node, outputs, needed)

    def _emit(self, node: torch._C.Node, outputs: list[Value], needed: set[int]) -> None:
        if outputs[0].unique() in self._tensors:
            return
        content = self._content(outputs[0])
        if isinstance(content, torch.Tensor):
            self._tensors[outputs[0].unique()] = self._literal(content)
        if content is not None:
            return
        write = self._writers.get(outputs[0].unique())
        results = self._emit_node(node, outputs, needed) if write is None else write(self.op, self._given(node))
        self._tensors.update(zip((value.unique() for value in outputs), results, strict=True))

    def _given(self, node: torch._C.Node) -> list[Tensor]:
        return [tensor for tensor in (self._tensor(value, None) for value in node.inputs()) if tensor is not None]

    def _emit_node(self, node: torch._C.Node, outputs: list[Value], needed: set[int]) -> Sequence[Tensor]:
        call = self._call(node)
        if not call.domain and call.form is None:
            raise TranslationError(
                f"{call.op_type}, which the symbolic function writes, is not an operator of ONNX; "
                f'name its domain, "mydomain::{call.op_type}"'
            )
        inputs = self._inputs(call)
        for position, dtype in CONTROLS.get(node.kind(), {}).items():
            control = inputs[position] if position < len(inputs) else None
            inputs[position : position + 1] = [None if control is None else self.op.cast(control, dtype)]
        graphs, returned = self._blocks(node, inputs, needed)
        if not graphs and not all(_is_typed(value) for value in outputs):
            # Who wrote it did so past `g.op`, or knew less of its inputs than is known by now.
            self.infer(node)
        results = self.op.custom(
            call.domain,
            call.op_type,
            inputs,
            call.attributes | {name: ir.AttrGraph(name, graph) for name, graph in graphs.items()},
            [self._output(self.settle(value), inputs, returned.get(at)) for at, value in enumerate(outputs)],
            version=self._domains.get(call.domain) if call.form is None else call.form.version(call.op_type),
        )
        for value, tensor in zip(outputs, results, strict=True):
            if _sequence_dtype(value) is not None:
                tensor.value.type = ir.SequenceType(ir.TensorType(from_torch_dtype(tensor.dtype)))
        return results

    def _blocks(
        self, node: torch._C.Node, inputs: Sequence[Tensor | None], needed: set[int]
    ) -> tuple[dict[str, ir.Graph], dict[int, torch.dtype]]:
        """The blocks of a node as graphs by attribute, and the dtypes of the node's results by their position."""
        names = BRANCHES.get(node.kind(), ())
        blocks = list(node.blocks())
        if len(blocks) != len(names):
            raise TranslationError(
                f"{node.kind()} has {len(blocks)} blocks, where the operator of ONNX has {len(names)}"
            )
        graphs: dict[str, ir.Graph] = {}
        dtypes: dict[int, torch.dtype] = {}
        if node.kind() == "onnx::Loop":
            # The first result of the body is its condition.
            dtypes = {-1: torch.bool}
        for name, block in zip(names, blocks, strict=True):
            graphs[name] = self._block(node, name, block, inputs, needed, dtypes)
        return graphs, dtypes

    def _block(
        self,
        node: torch._C.Node,
        name: str,
        block: Any,
        inputs: Sequence[Tensor | None],
        needed: set[int],
        dtypes: dict[int, torch.dtype],
    ) -> ir.Graph:
        outer, self.op = self.op, self.op.subgraph()
        try:
            entering = [self._block_input(node, at, value, inputs) for at, value in enumerate(block.inputs())]
            self._emit_all(block.nodes(), needed)
            first = -1 if node.kind() == "onnx::Loop" else 0
            leaving = []
            for position, value in enumerate(block.outputs(), start=first):
                tensor = self._tensor(value, dtypes.get(position))
                if tensor is None:
                    raise TranslationError(f"a block of {node.kind()} returns None")
                dtype = dtypes.setdefault(position, tensor.dtype)
                leaving.append(self.op.cast(tensor, dtype))
            return region(self.op, name, entering, leaving)
        finally:
            self.op = outer

    def _block_input(self, node: torch._C.Node, position: int, value: Value, inputs: Sequence[Tensor | None]) -> Tensor:
        is_loop = node.kind() == "onnx::Loop"
        source = inputs[position] if position < len(inputs) else None
        if is_loop and position < 2:
            dtype, shape = (torch.int64, torch.bool)[position], ()
        elif source is None:
            raise TranslationError(f"a block of {node.kind()} has more inputs than the node hands to it")
        else:
            dtype, shape = source.dtype, None
        entering = region_input(self.op, ("iteration", "condition")[position] if shape == () else "state", dtype, shape)
        if source is not None and isinstance(source.value.type, ir.SequenceType):
            entering.value.type = source.value.type
        if _is_typed(value):
            self._tensors[value.unique()] = entering
        else:
            self.bind(value, entering)
        return entering

    def _call(self, node: torch._C.Node) -> Call:
        namespace, _, op_type = node.kind().rpartition("::")
        domain = _DOMAINS.get(namespace, namespace)
        inputs: list[Source] = list(node.inputs())
        while inputs and isinstance(inputs[-1], Value) and inputs[-1].node().mustBeNone():
            inputs.pop()
        attributes = onnx_attributes(node)
        if domain:
            return Call(domain, op_type, inputs, attributes, None)
        written = [*attributes, *(BRANCHES.get(node.kind(), ()) if has_blocks(node) else ())]
        form = form_of(op_type, len(inputs), node.outputsSize(), written, self.opset)
        for name, position in () if form is None else form.moved.items():
            inputs.extend([None] * (position + 1 - len(inputs)))
            content = attributes.pop(name).value
            inputs[position] = list(content) if isinstance(content, Sequence) else content
        return Call(domain, op_type, inputs, attributes, form)

    def _inputs(self, call: Call) -> list[Tensor | None]:
        """The inputs as tensors; those that must be of one dtype are, and numbers take it from them."""
        kinds = _type_variables(call)
        own: dict[str, list[Tensor]] = {}
        for source, kind in zip(call.inputs, kinds, strict=True):
            is_tensor = isinstance(source, Value) and isinstance(source.type(), torch._C.TensorType)
            if kind and isinstance(source, Value) and is_tensor and self.number(source) is None:
                tensor = self._tensor(source, None)
                if tensor is not None:
                    own.setdefault(kind, []).append(tensor)
        dtypes = {kind: _common_dtype(tensors) for kind, tensors in own.items()}
        inputs: list[Tensor | None] = []
        for source, kind in zip(call.inputs, kinds, strict=True):
            dtype = dtypes.get(kind)
            tensor = self._tensor(source, dtype) if isinstance(source, Value) else self._plain(source, dtype)
            inputs.append(tensor if tensor is None or dtype is None else self.op.cast(tensor, dtype))
        return inputs

    def _tensor(self, value: Value, dtype: torch.dtype | None) -> Tensor | None:
        """A value as a tensor: ``dtype`` is for numbers, which have none of their own."""
        found = self._tensors.get(value.unique())
        if found is not None:
            return found if found.op is self.op else inside(self.op, found)
        node = value.node()
        if node.mustBeNone():
            return None
        content = self._content(value)
        if isinstance(content, torch.Tensor):
            return self._literal(content)
        if isinstance(content, str):
            raise TranslationError(f"the text {content!r} is given to an operator as a tensor; pass it as an attribute")
        if content is not None:
            return self._plain(content, dtype)
        if node.kind() == "prim::ListConstruct":
            parts = [self._tensor(item, torch.int64) for item in node.inputs()]
            if all(part is not None and part.known_shape == () for part in parts):
                vectors = [self.op.reshape(part, [1]) for part in parts if part is not None]
                return self.op.Concat(*vectors, axis=0).with_shape([len(vectors)])
            raise TranslationError(
                "a list of tensors is given to an operator as one input; unpack it with symbolic_helper._unpack_list"
            )
        raise TranslationError(f"{node.kind()} of the symbolic function has no ONNX form")

    def _plain(self, content: Any, dtype: torch.dtype | None) -> Tensor | None:
        if content is None:
            return None
        chosen = _plain_dtype(content) if dtype is None else dtype
        return self.op.const(content, chosen)

    def _literal(self, content: torch.Tensor) -> Tensor:
        return self.op.const(TorchTensor(content.detach().cpu()).numpy(), content.dtype)

    def _output(
        self, value: Value, inputs: Sequence[Tensor | None], dtype: torch.dtype | None
    ) -> tuple[torch.dtype, Sequence[Int] | None]:
        expected = self._expected.get(value.unique())
        if dtype is None:
            kind = value.type()
            dtype = kind.dtype() if isinstance(kind, torch._C.TensorType) else _sequence_dtype(value)
        if dtype is None:
            first = next((tensor.dtype for tensor in inputs if tensor is not None), torch.float32)
            dtype = first if expected is None else expected[0]
        return dtype, self._stated_shape(value, expected)

    def _stated_shape(self, value: Value, expected: Any) -> Sequence[Int] | None:
        shape = self.shape_of(value)
        if shape is not None and all(size is not None for size in shape):
            return [size for size in shape if size is not None]
        return None if expected is None else expected[1]


def _is_typed(value: Value) -> bool:
    kind = value.type()
    return not isinstance(kind, torch._C.TensorType) or kind.dtype() is not None


def _sequence_dtype(value: Value) -> torch.dtype | None:
    """The dtype of the tensors in a sequence of ONNX; None if a value is none."""
    kind = value.type()
    if not isinstance(kind, torch._C.ListType) or value.node().kind() == "prim::ListConstruct":
        return None
    item = kind.getElementType()
    return item.dtype() if isinstance(item, torch._C.TensorType) else None


def _common_dtype(tensors: Sequence[Tensor]) -> torch.dtype:
    single = [tensor.dtype for tensor in tensors if tensor.known_shape == ()]
    return result_dtype([tensor.dtype for tensor in tensors if tensor.known_shape != ()], single, [])


def _plain_dtype(content: Any) -> torch.dtype:
    if isinstance(content, list | tuple):
        dtypes = [_PLAIN_DTYPES[type(item)] for item in content]
        return torch.float32 if torch.float32 in dtypes else next(iter(dtypes), torch.int64)
    return _PLAIN_DTYPES[type(content)]


def _type_variables(call: Call) -> list[str]:
    """Per input the name of the type it must share with others, empty where it must not."""
    if call.form is None:
        return [""] * len(call.inputs)
    schema = onnx.defs.get_schema(call.op_type, call.form.opset)
    formal = schema.inputs
    variables = {one.type_param_str for one in schema.type_constraints}
    kinds = []
    for position in range(len(call.inputs)):
        parameter = formal[min(position, len(formal) - 1)]
        shared = parameter.type_str in variables and parameter.is_homogeneous
        kinds.append(parameter.type_str if shared else "")
    return kinds
