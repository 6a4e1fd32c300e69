"""One call of a symbolic function: the TorchScript graph it writes into, and that graph's way into the ONNX model.

A symbolic function reads and writes ``torch._C`` graphs: values with types, nodes with attributes. It gets a real
one, so whatever it asks of a value is answered by torch itself. What it wrote is emitted when it has returned, or when
it hands values to one of our translations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from weakref import WeakValueDictionary

import numpy as np
import onnx
import onnx_ir as ir
import torch

from onnxport.errors import TranslationError
from onnxport.onnx_build.opsets import CANONICAL_OPSET
from onnxport.options import Options
from onnxport.symbolic.session import given
from onnxport.symbolic.session.blocks import BRANCHES, block_results, has_blocks
from onnxport.symbolic.session.given import constant_content
from onnxport.symbolic.session.inference import InferredType, Known, PartialShape, infer_outputs, of_one_dtype
from onnxport.symbolic.session.node_attributes import onnx_attributes
from onnxport.symbolic.session.opset_forms import OpsetForm, opset_form
from onnxport.torch_internals.torchscript import JitGraph, JitNode, JitValue, ListType, TensorType
from onnxport.translate import Builder, Dim, Int, Tensor
from onnxport.weights.torch_tensor import TorchTensor

# What torch says of a result of the call: its dtype, and its sizes if they are known.
ExpectedResult: TypeAlias = "tuple[torch.dtype, Sequence[Int] | None]"
Expected: TypeAlias = "Sequence[ExpectedResult]"
# An input of a node: a value of the graph, or the content of an attribute that has become an input.
Source: TypeAlias = "JitValue | list[int] | list[float] | int | float | None"
Numbers: TypeAlias = "int | float | list[int] | list[float]"
Write: TypeAlias = "Callable[[Builder, Sequence[Tensor]], Sequence[Tensor]]"

_PLAIN_DTYPES: dict[type, torch.dtype] = {bool: torch.bool, int: torch.int64, float: torch.float32}
_LIST_DTYPES: dict[type | None, torch.dtype] = {bool: torch.bool, int: torch.int64, float: torch.float64}
_DOMAINS = {"onnx": "", "aten": "org.pytorch.aten"}
_SESSIONS: WeakValueDictionary[int, SymbolicSession] = WeakValueDictionary()


def session_of(graph: JitGraph) -> SymbolicSession:
    """The session that writes a graph."""
    found = _SESSIONS.get(id(graph))
    if found is None:
        raise TranslationError("this TorchScript graph is not one that is being written; use the `g` of the function")
    return found


@dataclass(frozen=True)
class OnnxCall:
    """A node as ONNX takes it."""

    domain: str
    op_type: str
    inputs: list[Source]
    attributes: dict[str, ir.Attr]
    form: OpsetForm | None


class SymbolicSession:
    """The graph of one call: values given to it, values written in it, and the tensors they have become.

    ``parameters`` are the weights among what is given, by the names of their values.
    """

    def __init__(self, op: Builder, options: Options) -> None:
        self.op = op
        self.options = options
        self.domains = {} if options.custom_opsets is None else options.custom_opsets
        self.graph = JitGraph()
        self.parameters: dict[str, torch.Tensor] = {}
        self.tensors: dict[int, Tensor] = {}
        self._numbers: dict[int, Numbers] = {}
        self._shapes: dict[int, PartialShape] = {}
        self.writers: dict[int, Write] = {}
        _SESSIONS[id(self.graph)] = self

    def give(self, argument: object, *, requires_grad: bool = False) -> JitValue:
        """An argument of a translation as a value: tensors are inputs of the graph, the rest are constants in it."""
        if isinstance(argument, Dim):
            argument = self.op.scalar(argument, torch.float64 if argument.kind is float else torch.int64)
        if isinstance(argument, Tensor):
            return self._give_tensor(argument, requires_grad)
        if isinstance(argument, list | tuple):
            return self._give_list([given.as_torchscript(item) for item in argument])
        value = given.add_constant(self.graph, argument)
        content = given.as_torchscript(argument)
        if isinstance(content, int | float):
            self._numbers[value.unique()] = content
        return value

    def number(self, value: JitValue) -> Numbers | None:
        """The number or numbers that a value is, if it was given as such: they have no dtype of their own."""
        return self._numbers.get(value.unique())

    def content(self, value: JitValue) -> object:
        """What a value is known to be: a number, text, tensor or list; None if it is computed."""
        number = self.number(value)
        return constant_content(value) if number is None else number

    def _give_list(self, items: list[object]) -> JitValue:
        kinds = {type(item) for item in items}
        kind: type | None = None
        if kinds <= {bool, int, float, str}:
            kind = float if kinds == {int, float} else next(iter(kinds), int)
        elif kinds <= {int, Dim}:
            kind = int
        if kinds <= {bool, int, float}:
            # A list that is known altogether reaches symbolic functions as one constant.
            known = [item for item in items if isinstance(item, int | float)]
            numbers: list[float] = [float(item) for item in known] if kind is float else known
            value = given.add_constant(self.graph, torch.tensor(numbers, dtype=_LIST_DTYPES.get(kind)))
            self._numbers[value.unique()] = numbers
            return value
        return given.list_of(self.graph, [self.give(item) for item in items], kind)

    def _give_tensor(self, tensor: Tensor, requires_grad: bool) -> JitValue:
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

    def bind(self, value: JitValue, tensor: Tensor, *, requires_grad: bool = False) -> None:
        """Let a value stand for a tensor, or a sequence of them, that exists already."""
        self.tensors[value.unique()] = tensor
        if isinstance(tensor.value.type, ir.SequenceType):
            self._set(value, InferredType(tensor.dtype, is_sequence=True))
            return
        value.setType(given.tensor_type(tensor.dtype, tensor.known_shape, requires_grad=requires_grad))
        if tensor.known_shape is not None:
            self._shapes[value.unique()] = tensor.known_shape

    def add(self, kind: str, inputs: Sequence[JitValue], outputs: int) -> JitNode:
        """A new node where the graph is being written; :meth:`infer` types its outputs when it has its attributes."""
        node = self.graph.create(kind, list(inputs), outputs)
        self.graph.insertNode(node)
        return node

    def add_call(self, kind: str, inputs: Sequence[JitValue], results: Sequence[InferredType], write: Write) -> JitNode:
        """A node that ``write`` emits in its own way, when it is its turn."""
        node = self.add(kind, inputs, len(results))
        for value, result in zip(node.outputs(), results, strict=True):
            self._set(value, result)
            self.writers[value.unique()] = write
        return node

    def infer(self, node: JitNode) -> None:
        """Set the types of a node's outputs as far as its operator determines them."""
        content = constant_content(node.output()) if node.kind() == "onnx::Constant" else None
        if isinstance(content, torch.Tensor):
            node.output().setType(given.tensor_type(content.dtype, tuple(content.shape)))
            return
        call = self.call(node)
        if call.form is None:
            return
        known = of_one_dtype([self._known(source) for source in call.inputs], type_variables(call))
        label = self.op.shared.dim_names.label
        count = node.outputsSize()
        found = infer_outputs(call.op_type, call.attributes, known, count, call.form.opset, label)
        if any(result.dtype is not None and result.shape is None and not result.is_sequence for result in found):
            # Old operators say less of their results than they do since.
            form = opset_form(call.op_type, len(call.inputs), count, call.attributes, CANONICAL_OPSET)
            if form is not None and form.opset == CANONICAL_OPSET and not form.moved:
                found = infer_outputs(call.op_type, call.attributes, known, count, CANONICAL_OPSET, label)
        for value, result in zip(node.outputs(), found, strict=True):
            self._set(value, result)

    def _set(self, value: JitValue, result: InferredType) -> None:
        if result.dtype is None:
            return
        if result.is_sequence:
            value.setType(ListType(given.tensor_type(result.dtype, None)))
            return
        value.setType(given.tensor_type(result.dtype, result.shape))
        if result.shape is not None:
            self._shapes[value.unique()] = result.shape

    def settle(self, value: JitValue) -> JitValue:
        """Type a value that nobody has typed as far as it is known by now: its blocks may have been written since."""
        node = value.node()
        if is_typed(value) or not has_blocks(node):
            return value
        for output, result in zip(node.outputs(), block_results(node, self._described), strict=True):
            self._set(output, result)
        return value

    def _described(self, value: JitValue) -> InferredType:
        known = self._known(value)
        return InferredType() if known is None else InferredType(known.dtype, known.shape, known.is_sequence)

    def shape_of(self, value: JitValue) -> PartialShape | None:
        """The sizes of a value: what its type states, and names for sizes that vary."""
        kind = value.type()
        sizes = kind.varyingSizes() if isinstance(kind, TensorType) else None
        inferred = self._shapes.get(value.unique())
        if sizes is None:
            return inferred
        if inferred is None or len(inferred) != len(sizes):
            return tuple(sizes)
        return tuple(own if size is None else size for size, own in zip(sizes, inferred, strict=True))

    def _known(self, source: Source) -> Known | None:
        content = self.content(source) if isinstance(source, JitValue) else source
        if content is None and not isinstance(source, JitValue):
            return None
        if isinstance(content, torch.Tensor):
            data = TorchTensor(content.detach().cpu()).numpy() if content.numel() <= 64 else None
            return Known(content.dtype, tuple(content.shape), data)
        if isinstance(content, list | int | float):
            dtype = plain_dtype(content)
            array = np.asarray(content, dtype=torch.empty(0, dtype=dtype).numpy().dtype)
            return Known(dtype, array.shape, array, is_number=True)
        assert isinstance(source, JitValue)
        if source.node().mustBeNone():
            return None
        kind = self.settle(source).type()
        sequence = sequence_dtype(source)
        if sequence is not None:
            return Known(sequence, None, is_sequence=True)
        if isinstance(kind, ListType):
            items = list(source.node().inputs())
            if is_list_of_tensors(source):
                described = [self._known(item) for item in items]
                first = next((item.dtype for item in described if item is not None), None)
                return Known(first, None, is_sequence=True)
            return Known(torch.int64, (len(items),))
        return Known(kind.dtype() if isinstance(kind, TensorType) else None, self.shape_of(source))

    def call(self, node: JitNode) -> OnnxCall:
        """A node as ONNX takes it, in the form of the file's opset."""
        namespace, _, op_type = node.kind().rpartition("::")
        domain = _DOMAINS.get(namespace, namespace)
        inputs: list[Source] = list(node.inputs())
        while inputs and isinstance(inputs[-1], JitValue) and inputs[-1].node().mustBeNone():
            inputs.pop()
        attributes = onnx_attributes(node)
        if domain:
            return OnnxCall(domain, op_type, inputs, attributes, None)
        written = [*attributes, *(BRANCHES.get(node.kind(), ()) if has_blocks(node) else ())]
        form = opset_form(op_type, len(inputs), node.outputsSize(), written, self.options.opset)
        for name, position in () if form is None else form.moved.items():
            inputs.extend([None] * (position + 1 - len(inputs)))
            content = attributes.pop(name).value
            inputs[position] = list(content) if isinstance(content, Sequence) else content
        return OnnxCall(domain, op_type, inputs, attributes, form)


def is_typed(value: JitValue) -> bool:
    """Whether the dtype of a tensor is known."""
    kind = value.type()
    return not isinstance(kind, TensorType) or kind.dtype() is not None


def sequence_dtype(value: JitValue) -> torch.dtype | None:
    """The dtype of the tensors in a sequence of ONNX; None if a value is none."""
    kind = value.type()
    if not isinstance(kind, ListType) or value.node().kind() == "prim::ListConstruct":
        return None
    item = kind.getElementType()
    return item.dtype() if isinstance(item, TensorType) else None


def is_list_of_tensors(value: JitValue) -> bool:
    """Whether a value is a list, put together in the graph, of tensors that are not single numbers."""
    if value.node().kind() != "prim::ListConstruct":
        return False
    kinds = [item.type() for item in value.node().inputs()]
    return bool(kinds) and all(isinstance(kind, TensorType) and kind.dim() != 0 for kind in kinds)


def plain_dtype(content: object) -> torch.dtype:
    """The dtype of a number, or of a list of them, where nothing beside it has one."""
    if isinstance(content, list | tuple):
        dtypes = [_PLAIN_DTYPES[type(item)] for item in content]
        return torch.float32 if torch.float32 in dtypes else next(iter(dtypes), torch.int64)
    return _PLAIN_DTYPES[type(content)]


def type_variables(call: OnnxCall) -> list[str]:
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
