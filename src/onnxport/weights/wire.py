"""A model as a list of pieces to write one after another: protobuf bytes, and tensors that are still in torch's memory.

``ModelProto.SerializeToString`` needs every weight inside the proto and again in the bytes. Here the proto is made
without the weights, and the wire format around each of them (a tag and a length) is written by hand; the result is
byte for byte what protobuf would have written.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

import onnx
import onnx_ir as ir

from onnxport.errors import OnnxExporterError, Problem
from onnxport.torch_internals.fake_tensors import disable_current_modes
from onnxport.weights.arrangement import Arrangement, arrange
from onnxport.weights.in_place import WeightsInPlace
from onnxport.weights.inner_shapes import forget_inner_shapes, leave_sizes_to_the_reader
from onnxport.weights.kinds import is_weight
from onnxport.weights.metadata import Metadata, inner_graphs, trim_metadata
from onnxport.weights.torch_tensor import TorchTensor
from onnxport.weights.written_arithmetic import Computed, compute_written_weights
from onnxport.weights.written_norms import fold_written_norms, join_written_layers

# Smaller tensors stay in the protobuf: the entry that points elsewhere would be as large as they are.
INLINE_BYTES = 256
# Runtimes map large tensors from disk, which needs them to start on a page (64 KiB is the largest page in use).
PAGE_BYTES = 1 << 16
PAGED_FROM_BYTES = 1 << 20
ALIGNMENT_BYTES = 64

_MODEL_GRAPH = 7
_GRAPH_INITIALIZER = 5
_TENSOR_RAW_DATA = 9
_TENSOR_EXTERNAL_DATA = 13
_ENTRY_KEY = 1
_ENTRY_VALUE = 2
_LENGTH_DELIMITED = 2

Piece = bytes | ir.TensorProtocol


@dataclass(frozen=True)
class Selection:
    """What of the model goes into the file; of inputs that nothing reads all, or those with some names."""

    weights: bool = True
    weights_as_inputs: bool = False
    unread_inputs: Collection[str] | None = None
    outputs: Sequence[ir.Value] | None = None
    metadata: Metadata = "full"
    inner_shapes: bool = True
    fold_batch_norm: bool = False
    computed_weights: Computed = "never"
    in_place: WeightsInPlace | None = None


@dataclass
class Layout:
    """The pieces of one file, and of its data file if it has one."""

    model: list[Piece] = field(default_factory=list)
    data: list[Piece] = field(default_factory=list)

    @property
    def size(self) -> int:
        """The bytes of the model file."""
        return sum(_length(piece) for piece in self.model)


def require_content(model: ir.Model) -> None:
    """Raise, with all their names, if some weights have a shape but no values."""
    empty = [
        Problem(f"{name}: {tensor.dtype.name} {tensor.shape}")
        for name, value in model.graph.initializers.items()
        if isinstance(tensor := value.const_value, TorchTensor) and not tensor.has_content
    ]
    if empty:
        raise OnnxExporterError(
            f"{len(empty)} weights have no values: the model was made with fake or meta tensors. Call "
            "ONNXProgram.apply_weights(state_dict) first, or save with include_initializers=False.",
            empty,
        )


def is_read(value: ir.Value) -> bool:
    """Whether a node reads a value, or the graph returns it."""
    return bool(value.uses()) or value.is_graph_output()


def single_file(model: ir.Model, selection: Selection) -> Layout:
    """Lay the model out as one file that holds everything."""
    arrangement = _arrangement(model, selection)
    tensors = _spliced(arrangement, selection)
    proto = _skeleton(model, selection, arrangement, tensors, lambda name: ("", 0))
    initializers: list[Piece] = []
    for initializer in proto.graph.initializer:
        body: list[Piece] = [initializer.SerializeToString()]
        if initializer.name in tensors:
            initializer.ClearField("external_data")
            initializer.ClearField("data_location")
            head, tail = _split(initializer.SerializeToString(), _TENSOR_RAW_DATA)
            body = [head, *_delimited(_TENSOR_RAW_DATA, [tensors[initializer.name]]), tail]
        initializers += _delimited(_GRAPH_INITIALIZER, body)
    return Layout(model=_assemble(proto, initializers))


def with_data_file(model: ir.Model, selection: Selection, location: str) -> Layout:
    """Lay the model out as a small file and a data file that it refers to as ``location``.

    Weights that stand in files already are referred to there, and are not in the data file.
    """
    arrangement = _arrangement(model, selection)
    tensors = _spliced(arrangement, selection)
    places: dict[str, tuple[str, int]] = {}
    data: list[Piece] = []
    end = 0
    for name, tensor in tensors.items():
        if not selection.weights and is_weight(arrangement.initializers[name]):
            continue
        there = None if selection.in_place is None else selection.in_place.place(tensor)
        if there is not None:
            places[name] = there
            continue
        boundary = PAGE_BYTES if tensor.nbytes >= PAGED_FROM_BYTES else ALIGNMENT_BYTES
        offset = -(-end // boundary) * boundary
        data += [bytes(offset - end), tensor]
        places[name], end = (location, offset), offset + tensor.nbytes
    proto = _skeleton(model, selection, arrangement, tensors, lambda name: places.get(name, (location, 0)))
    return Layout(model=[proto.SerializeToString()], data=data)


def as_proto(model: ir.Model, selection: Selection) -> onnx.ModelProto:
    """The model of a single file as an object, of any size."""
    arrangement = _arrangement(model, selection)
    tensors = _spliced(arrangement, selection)
    proto = _skeleton(model, selection, arrangement, tensors, lambda name: ("", 0))
    for initializer in proto.graph.initializer:
        if initializer.name in tensors:
            initializer.ClearField("external_data")
            initializer.ClearField("data_location")
            initializer.raw_data = tensors[initializer.name].tobytes()
    return proto


def relocated(model: bytes, usual: str, location: str) -> bytes:
    """The model of a layout with a data file, referring to that file by another name than its usual one."""
    proto = onnx.ModelProto.FromString(model)
    for initializer in proto.graph.initializer:
        for entry in initializer.external_data:
            if entry.key == "location" and entry.value == usual:
                entry.value = location
    return bytes(proto.SerializeToString())


def external_locations(model: bytes | mmap.mmap) -> set[str]:
    """The names of the data files that the initializers of a file refer to; none if it is not a model.

    >>> from onnxport.weights.wire import external_locations
    >>> external_locations(b"neither a model nor anything else")
    set()
    """
    locations = set()
    try:
        for graph in _fields(model, (0, len(model)), _MODEL_GRAPH):
            for initializer in _fields(model, graph, _GRAPH_INITIALIZER):
                for entry in _fields(model, initializer, _TENSOR_EXTERNAL_DATA):
                    key, value = (
                        b"".join(model[slice(*at)] for at in _fields(model, entry, number))
                        for number in (_ENTRY_KEY, _ENTRY_VALUE)
                    )
                    if key == b"location":
                        locations.add(value.decode())
    except (IndexError, UnicodeDecodeError):
        return set()
    return locations


def _fields(message: bytes | mmap.mmap, within: tuple[int, int], number: int) -> Iterator[tuple[int, int]]:
    """Where the parts of a serialized message begin and end that are field ``number``; nothing else is read."""
    position, end = within
    while position < end:
        tag, body = _read_varint(message, position)
        position = _skip(message, body, tag & 0b111)
        if position > end:
            raise IndexError("a field is longer than what it is in")
        if tag >> 3 == number and tag & 0b111 == _LENGTH_DELIMITED:
            yield _read_varint(message, body)[1], position


def _arrangement(model: ir.Model, selection: Selection) -> Arrangement:
    """What is written of the graph; weights that others are to attach or override are those of the state dict."""
    graph = model.graph
    if not selection.weights or selection.weights_as_inputs:
        return Arrangement(dict(graph.initializers))
    outputs = graph.outputs if selection.outputs is None else selection.outputs
    stays = (lambda tensor: False) if selection.in_place is None else selection.in_place.holds
    # A mode that makes all new tensors fake would make views of weights so.
    with disable_current_modes():
        arrangement = arrange(graph, outputs, stays)
        if selection.computed_weights != "never":
            compute_written_weights(graph, outputs, arrangement, selection.computed_weights)
        if selection.fold_batch_norm:
            fold_written_norms(graph, outputs, arrangement)
    return arrangement


def _spliced(arrangement: Arrangement, selection: Selection) -> dict[str, ir.TensorProtocol]:
    """The initializers whose bytes protobuf never sees."""
    tensors: dict[str, ir.TensorProtocol] = {}
    for name, value in arrangement.initializers.items():
        tensor = value.const_value
        if tensor is None:
            continue
        absent = not selection.weights and is_weight(value)
        if absent or (tensor.nbytes >= INLINE_BYTES and tensor.dtype != ir.DataType.STRING):
            tensors[name] = tensor
    return tensors


def _inputs(graph: ir.Graph, selection: Selection) -> list[ir.Value]:
    kept = selection.unread_inputs
    inputs = [value for value in graph.inputs if kept is None or is_read(value) or value.name in kept]
    if selection.weights_as_inputs:
        present = {value.name for value in inputs}
        inputs += [value for name, value in graph.initializers.items() if is_weight(value) and name not in present]
    return inputs


def _skeleton(
    model: ir.Model,
    selection: Selection,
    arrangement: Arrangement,
    tensors: dict[str, ir.TensorProtocol],
    place: Callable[[str], tuple[str, int]],
) -> onnx.ModelProto:
    """Serialize the model with stand-ins for the spliced tensors; the model itself is not touched."""
    graph = model.graph
    view = ir.GraphView(
        _inputs(graph, selection),
        graph.outputs if selection.outputs is None else selection.outputs,
        nodes=[node for node in graph if node not in arrangement.left_out] if arrangement.left_out else graph,
        initializers=[
            _stand_in(
                value,
                _reference(name, tensors[name], place(name)) if name in tensors else value.const_value,
                absent=not selection.weights and is_weight(value),
            )
            for name, value in arrangement.initializers.items()
        ],
        doc_string=graph.doc_string,
        opset_imports=graph.opset_imports,
        name=graph.name,
        metadata_props=graph.metadata_props,
    )
    proto = ir.serde.serialize_model(
        ir.Model(
            cast(ir.Graph, view),
            ir_version=model.ir_version,
            producer_name=model.producer_name,
            producer_version=model.producer_version,
            domain=model.domain,
            model_version=model.model_version,
            doc_string=model.doc_string,
            functions=list(model.functions.values()),
            metadata_props=model.metadata_props,
            device_configurations=model.device_configurations,
        )
    )
    for entry in proto.graph.initializer:
        for key, text in arrangement.initializers[entry.name].metadata_props.items():
            entry.metadata_props.add(key=key, value=text)
    if arrangement.renamed:
        _rename_inputs(proto.graph, arrangement.renamed)
    if arrangement.joined:
        join_written_layers(proto.graph, arrangement.joined)
    if not selection.weights:
        kept = [entry for entry in proto.graph.initializer if not is_weight(graph.initializers[entry.name])]
        proto.graph.ClearField("initializer")
        proto.graph.initializer.extend(kept)
    if selection.inner_shapes:
        leave_sizes_to_the_reader(proto)
    else:
        forget_inner_shapes(proto.graph)
    trim_metadata(proto, selection.metadata)
    return proto


def _stand_in(value: ir.Value, tensor: ir.TensorProtocol | None, *, absent: bool) -> ir.Value:
    """An initializer of which only the tensor is written, or if that is absent only what is known of it.

    A tensor states its own type and shape. A second statement in ``value_info`` is not expected by tools that replace
    initializers, and would be wrong once they have.
    """
    stand_in = ir.Value(name=value.name, const_value=tensor)
    if absent:
        stand_in.type, stand_in.shape = value.type, value.shape
        stand_in.metadata_props.update(value.metadata_props)
    stand_in.meta.update(value.meta)
    return stand_in


def _reference(name: str, tensor: ir.TensorProtocol, place: tuple[str, int]) -> ir.ExternalTensor:
    location, offset = place
    return ir.ExternalTensor(
        location,
        offset,
        tensor.nbytes,
        tensor.dtype,
        shape=ir.Shape(tensor.shape.numpy()),
        name=name,
        doc_string=tensor.doc_string,
        metadata_props=dict(tensor.metadata_props),
    )


def _rename_inputs(graph: onnx.GraphProto, renamed: dict[str, str]) -> None:
    for node in graph.node:
        for index, name in enumerate(node.input):
            if name in renamed:
                node.input[index] = renamed[name]
        for inner in inner_graphs(node):
            _rename_inputs(inner, renamed)


def _assemble(proto: onnx.ModelProto, initializers: list[Piece]) -> list[Piece]:
    proto.graph.ClearField("initializer")
    before, after = _split(proto.graph.SerializeToString(), _GRAPH_INITIALIZER)
    graph = _delimited(_MODEL_GRAPH, [before, *initializers, after])
    proto.ClearField("graph")
    head, tail = _split(proto.SerializeToString(), _MODEL_GRAPH)
    return [head, *graph, tail]


def _delimited(number: int, body: list[Piece]) -> list[Piece]:
    length = sum(_length(piece) for piece in body)
    return [_varint(number << 3 | _LENGTH_DELIMITED) + _varint(length), *body]


def _length(piece: Piece) -> int:
    return len(piece) if isinstance(piece, bytes) else piece.nbytes


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


def _split(message: bytes, number: int) -> tuple[bytes, bytes]:
    """Split a serialized message where field ``number`` belongs: protobuf writes fields by rising number."""
    position = 0
    while position < len(message):
        tag, body = _read_varint(message, position)
        if tag >> 3 > number:
            break
        position = _skip(message, body, tag & 0b111)
    return message[:position], message[position:]


def _read_varint(message: bytes | mmap.mmap, position: int) -> tuple[int, int]:
    number = shift = 0
    while message[position] & 0x80:
        number |= (message[position] & 0x7F) << shift
        shift += 7
        position += 1
    return number | message[position] << shift, position + 1


def _skip(message: bytes | mmap.mmap, position: int, wire_type: int) -> int:
    if wire_type == _LENGTH_DELIMITED:
        length, start = _read_varint(message, position)
        return start + length
    if wire_type == 0:
        return _read_varint(message, position)[1]
    return position + (8 if wire_type == 1 else 4)
