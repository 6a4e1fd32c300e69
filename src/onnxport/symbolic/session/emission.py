"""What a symbolic function has written, on its way into the ONNX model: nodes, and blocks as graphs within them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx_ir as ir
import torch

from onnxport.errors import TranslationError
from onnxport.symbolic.session.blocks import BRANCHES, CONTROLS
from onnxport.symbolic.session.session import (
    Expected,
    ExpectedResult,
    OnnxCall,
    SymbolicSession,
    is_list_of_tensors,
    is_typed,
    plain_dtype,
    sequence_dtype,
    type_variables,
)
from onnxport.torch_internals.torchscript import JitBlock, JitNode, JitValue, TensorType
from onnxport.translate import Int, Tensor
from onnxport.translate.promotion import result_dtype
from onnxport.translate.regions import inside, region, region_input
from onnxport.weights.dtypes import from_torch_dtype
from onnxport.weights.torch_tensor import TorchTensor

_SEQUENCES_SINCE = 11


class Emission:
    """Emits what a session's graph holds; ``op`` builds the graph or block that is being emitted."""

    def __init__(self, session: SymbolicSession) -> None:
        self.session = session
        self.op = session.op
        self._tensors = session.tensors
        self._expected: dict[int, ExpectedResult] = {}
        self._needed: set[int] = set()

    def take(self, values: Sequence[JitValue | None], expected: Expected) -> list[Tensor | None]:
        """The tensors that values have become; what was written of them is emitted first.

        ``expected`` is what torch says of the values, for operators that no one knows.
        """
        known = [value for value in values if value is not None]
        for value, one in zip(values, expected, strict=True):
            if value is not None:
                self._expected[value.unique()] = one
        self._emit_needed(known)
        return [
            None if value is None else self._tensor(value, dtype)
            for value, (dtype, _) in zip(values, expected, strict=True)
        ]

    def _emit_needed(self, values: Iterable[JitValue]) -> None:
        needed = self._needed
        pending = list(values)
        while pending:
            value = pending.pop()
            if value.unique() in needed or value.unique() in self._tensors:
                continue
            node = value.node()
            needed.update(output.unique() for output in node.outputs())
            pending.extend(node.inputs())
            pending.extend(output for block in node.blocks() for output in block.outputs())
        self._emit_all(self.session.graph.nodes())

    def _emit_all(self, nodes: Iterable[JitNode]) -> None:
        for node in nodes:
            outputs = list(node.outputs())
            if outputs and outputs[0].unique() in self._needed and not node.kind().startswith("prim::"):
                self._emit(node, outputs)

    def _emit(self, node: JitNode, outputs: list[JitValue]) -> None:
        if outputs[0].unique() in self._tensors:
            return
        content = self.session.content(outputs[0])
        if isinstance(content, torch.Tensor):
            self._tensors[outputs[0].unique()] = self._literal(content)
        if content is not None:
            return
        write = self.session.writers.get(outputs[0].unique())
        results = self._emit_node(node, outputs) if write is None else write(self.op, self._given(node))
        for value, tensor in zip(outputs, results, strict=True):
            self._tensors[value.unique()] = tensor
            if not is_typed(value):
                self.session.bind(value, tensor)

    def _given(self, node: JitNode) -> list[Tensor]:
        return [tensor for tensor in (self._tensor(value, None) for value in node.inputs()) if tensor is not None]

    def _emit_node(self, node: JitNode, outputs: list[JitValue]) -> Sequence[Tensor]:
        call = self.session.call(node)
        if not call.domain and call.form is None:
            raise TranslationError(
                f"{call.op_type}, which the symbolic function writes, is not an operator of ONNX; "
                f'name its domain, "mydomain::{call.op_type}"'
            )
        inputs = self._inputs(call)
        for position, dtype in CONTROLS.get(node.kind(), {}).items():
            control = inputs[position] if position < len(inputs) else None
            inputs[position : position + 1] = [None if control is None else self.op.cast(control, dtype)]
        graphs, returned = self._blocks(node, inputs)
        if not graphs and not all(is_typed(value) for value in outputs):
            # Who wrote it did so past `g.op`, or knew less of its inputs than is known by now.
            self.session.infer(node)
        results = self.op.custom(
            call.domain,
            call.op_type,
            inputs,
            call.attributes | {name: ir.AttrGraph(name, graph) for name, graph in graphs.items()},
            [self._output(self.session.settle(value), inputs, returned.get(at)) for at, value in enumerate(outputs)],
            version=self.session.domains.get(call.domain) if call.form is None else call.form.version(call.op_type),
        )
        for value, tensor in zip(outputs, results, strict=True):
            if sequence_dtype(value) is not None:
                tensor.value.type = ir.SequenceType(ir.TensorType(from_torch_dtype(tensor.dtype)))
        return results

    def _blocks(
        self, node: JitNode, inputs: Sequence[Tensor | None]
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
            # The first result of the body is its condition; what follows is handed to it again.
            states = [tensor.dtype for tensor in inputs[2:] if tensor is not None]
            dtypes = {-1: torch.bool, **dict(enumerate(states))}
        for name, block in zip(names, blocks, strict=True):
            graphs[name] = self._block(node, name, block, inputs, dtypes)
        return graphs, dtypes

    def _block(
        self,
        node: JitNode,
        name: str,
        block: JitBlock,
        inputs: Sequence[Tensor | None],
        dtypes: dict[int, torch.dtype],
    ) -> ir.Graph:
        outer, self.op = self.op, self.op.subgraph()
        try:
            entering = [self._block_input(node, at, value, inputs) for at, value in enumerate(block.inputs())]
            self._emit_all(block.nodes())
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

    def _block_input(self, node: JitNode, position: int, value: JitValue, inputs: Sequence[Tensor | None]) -> Tensor:
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
        if is_typed(value):
            self._tensors[value.unique()] = entering
        else:
            self.session.bind(value, entering)
        return entering

    def _inputs(self, call: OnnxCall) -> list[Tensor | None]:
        """The inputs as tensors; those that must be of one dtype are, and numbers take it from them."""
        kinds = type_variables(call)
        own: dict[str, list[Tensor]] = {}
        for source, kind in zip(call.inputs, kinds, strict=True):
            is_tensor = isinstance(source, JitValue) and isinstance(source.type(), TensorType)
            if kind and isinstance(source, JitValue) and is_tensor and self.session.number(source) is None:
                tensor = self._tensor(source, None)
                if tensor is not None:
                    own.setdefault(kind, []).append(tensor)
        dtypes = {kind: _common_dtype(tensors) for kind, tensors in own.items()}
        inputs: list[Tensor | None] = []
        for source, kind in zip(call.inputs, kinds, strict=True):
            dtype = dtypes.get(kind)
            tensor = self._tensor(source, dtype) if isinstance(source, JitValue) else self._plain(source, dtype)
            inputs.append(tensor if tensor is None or dtype is None else self.op.cast(tensor, dtype))
        return inputs

    def _tensor(self, value: JitValue, dtype: torch.dtype | None) -> Tensor | None:
        """A value as a tensor: ``dtype`` is for numbers, which have none of their own."""
        found = self._tensors.get(value.unique())
        if found is not None:
            return found if found.op is self.op else inside(self.op, found)
        node = value.node()
        if node.mustBeNone():
            return None
        content = self.session.content(value)
        if isinstance(content, torch.Tensor):
            return self._literal(content)
        if isinstance(content, str):
            raise TranslationError(f"the text {content!r} is given to an operator as a tensor; pass it as an attribute")
        if content is not None:
            return self._plain(content, dtype)
        if is_list_of_tensors(value):
            return self._sequence(node)
        if node.kind() == "prim::ListConstruct":
            return self._vector(node)
        raise TranslationError(f"{node.kind()} of the symbolic function has no ONNX form")

    def _vector(self, node: JitNode) -> Tensor:
        """A list of numbers, of which some are computed."""
        parts = [self._tensor(item, torch.int64) for item in node.inputs()]
        numbers = [part for part in parts if part is not None and part.known_shape == ()]
        if len(numbers) != len(parts):
            raise TranslationError(
                "a list that is no list of tensors or of numbers is given to an operator as one input; "
                "unpack it with symbolic_helper._unpack_list"
            )
        return self.op.Concat(*(self.op.reshape(part, [1]) for part in numbers), axis=0).with_shape([len(numbers)])

    def _sequence(self, node: JitNode) -> Tensor:
        """A list of tensors as a sequence of ONNX."""
        if self.session.options.opset < _SEQUENCES_SINCE:
            raise TranslationError(
                f"a list of tensors is given to an operator as one input, for which ONNX has sequences from opset "
                f"{_SEQUENCES_SINCE} on; unpack it with symbolic_helper._unpack_list"
            )
        items = [tensor for tensor in (self._tensor(item, None) for item in node.inputs()) if tensor is not None]
        dtype = _common_dtype(items)
        (result,) = self.op.custom(
            "", "SequenceConstruct", [self.op.cast(item, dtype) for item in items], {}, [(dtype, None)]
        )
        result.value.type = ir.SequenceType(ir.TensorType(from_torch_dtype(dtype)))
        return result

    def _plain(self, content: object, dtype: torch.dtype | None) -> Tensor | None:
        if content is None:
            return None
        chosen = plain_dtype(content) if dtype is None else dtype
        return self.op.const(content, chosen)

    def _literal(self, content: torch.Tensor) -> Tensor:
        return self.op.const(TorchTensor(content.detach().cpu()).numpy(), content.dtype)

    def _output(self, value: JitValue, inputs: Sequence[Tensor | None], dtype: torch.dtype | None) -> ExpectedResult:
        expected = self._expected.get(value.unique())
        if dtype is None:
            kind = value.type()
            dtype = kind.dtype() if isinstance(kind, TensorType) else sequence_dtype(value)
        if dtype is None:
            first = next((tensor.dtype for tensor in inputs if tensor is not None), torch.float32)
            dtype = first if expected is None else expected[0]
        return dtype, self._stated_shape(value, expected)

    def _stated_shape(self, value: JitValue, expected: ExpectedResult | None) -> Sequence[Int] | None:
        shape = self.session.shape_of(value)
        if shape is not None and all(size is not None for size in shape):
            return [size for size in shape if size is not None]
        return None if expected is None else expected[1]


def _common_dtype(tensors: Sequence[Tensor]) -> torch.dtype:
    single = [tensor.dtype for tensor in tensors if tensor.known_shape == ()]
    return result_dtype([tensor.dtype for tensor in tensors if tensor.known_shape != ()], single, [])
