"""Reading ONNX files that may be damaged or mean harm: every tensor lies where it says, inside the model's own folder.

A model may keep tensors in files of their own. Their names stand in the model, so that a model from elsewhere could
name any file on this machine; only files below the model's folder are read, also after symbolic links, and only bytes
that are there.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path, PureWindowsPath

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError, Message  # type: ignore[import-untyped]

from onnxport.errors import InputError
from onnxport.weights.inner_shapes import know_sizes_by_name


def read_model(path: str | os.PathLike[str]) -> ir.Model:
    """Read an ONNX file; tensors in files of their own are mapped when they are first looked at.

    Raises:
        InputError: The file, or one that it refers to, can't be read, is damaged, or lies outside of its folder.

    >>> import pathlib, tempfile, onnxport, torch
    >>> from onnxport.weights.external_data import read_model
    >>> path = pathlib.Path(tempfile.mkdtemp(), "linear.onnx")
    >>> onnxport.export(torch.nn.Linear(2, 3), (torch.ones(1, 2),), verbose=False).save(path, external_data=True)
    >>> sorted(read_model(path).graph.initializers)
    ['bias', 'weight']
    """
    file = Path(path)
    proto = _parsed(file)
    tensors = list(_tensors_of_model(proto))
    for tensor in tensors:
        _check_elements(file, tensor)
    outside = [tensor for tensor in tensors if tensor.data_location == onnx.TensorProto.EXTERNAL]
    folder = _move_to_one_folder(file, outside) if outside else file.parent
    know_sizes_by_name(proto)
    try:
        model = ir.serde.deserialize_model(proto)
    except Exception as error:
        raise _refused(file, f"its parts don't fit together: {error}") from error
    ir.external_data.set_base_dir(model.graph, folder)
    return model


def _refused(file: Path, reason: str) -> InputError:
    return InputError(f"{file} can't be read as an ONNX model: {reason}.")


def _parsed(file: Path) -> onnx.ModelProto:
    try:
        content = file.read_bytes()
    except (OSError, ValueError) as error:
        raise _refused(file, getattr(error, "strerror", None) or str(error)) from error
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(content)
    except DecodeError as error:
        raise _refused(file, "it is not in protobuf's format, or a part of it is missing") from error
    if proto.ir_version <= 0 or not proto.HasField("graph") or not proto.opset_import:
        raise _refused(file, "it has no graph, version of the format or opset, as every model does")
    if not _is_text(proto):
        raise _refused(file, "a name or text in it is not UTF-8")
    return proto


def _is_text(message: Message) -> bool:
    """Whether all text in a message is some: protobuf reads any bytes, and gives those that are none as bytes."""
    for field in message.DESCRIPTOR.fields:
        if field.type == field.TYPE_STRING:
            value = getattr(message, field.name)
            if isinstance(value, bytes) or not (isinstance(value, str) or all(isinstance(one, str) for one in value)):
                return False
        elif field.type == field.TYPE_MESSAGE:
            value = getattr(message, field.name)
            inner = value if not isinstance(value, Message) else [value] if message.HasField(field.name) else []
            if not all(map(_is_text, inner)):
                return False
    return True


# Tensors, wherever they stand


def _tensors_of_model(model: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    yield from _tensors_of_graph(model.graph)
    for function in model.functions:
        yield from _tensors_of_nodes(function.node)


def _tensors_of_graph(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    yield from _tensors_of_nodes(graph.node)


def _tensors_of_nodes(nodes: Sequence[onnx.NodeProto]) -> Iterator[onnx.TensorProto]:
    for node in nodes:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t
            yield from attribute.tensors
            for graph in (attribute.g, *attribute.graphs):
                yield from _tensors_of_graph(graph)


def _check_elements(file: Path, tensor: onnx.TensorProto) -> None:
    """Refuse shapes that are none and raw bytes of another number than the shape says."""
    if any(size < 0 for size in tensor.dims):
        raise _refused(file, f"the tensor {tensor.name!r} has the shape {list(tensor.dims)}")
    if tensor.data_type not in onnx.TensorProto.DataType.values() or tensor.data_type == onnx.TensorProto.UNDEFINED:
        raise _refused(file, f"the tensor {tensor.name!r} is of the unknown type {tensor.data_type}")
    inside = tensor.HasField("raw_data") and tensor.data_location == onnx.TensorProto.DEFAULT
    if inside and len(tensor.raw_data) != _bytes_of(tensor):
        sizes = f"{len(tensor.raw_data)} bytes where its shape takes {_bytes_of(tensor)}"
        raise _refused(file, f"the tensor {tensor.name!r} has {sizes}")


def _bytes_of(tensor: onnx.TensorProto) -> int:
    if tensor.data_type == onnx.TensorProto.STRING:
        return -1
    bits: int = math.prod(tensor.dims) * ir.DataType(tensor.data_type).bitwidth
    return -(-bits // 8)


# Files beside the model


def _move_to_one_folder(file: Path, tensors: Sequence[onnx.TensorProto]) -> Path:
    """Check every tensor's place, and return the folder that their locations count from.

    That is the folder of the model, or, where the model is a symbolic link, as in a cache of downloads, the folder that
    it leads to, if all of its data is there.
    """
    here, there = file.parent.resolve(), file.resolve().parent
    found = {location: external_file(file, location) for location in {_place(file, tensor)[0] for tensor in tensors}}
    for tensor in tensors:
        location, offset, length = _place(file, tensor)
        needed, size = _bytes_of(tensor), found[location].stat().st_size
        if length is not None and length != needed:
            raise _refused(file, f"the tensor {tensor.name!r} has {length} bytes where its shape takes {needed}")
        if needed < 0 or offset < 0 or offset + needed > size:
            reach = f"bytes {offset} to {offset + needed} of {location}, which has {size}"
            raise _refused(file, f"the tensor {tensor.name!r} is to be {reach}")
    if all(path.is_relative_to(here) for path in found.values()):
        return here
    for tensor in tensors:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = str(found[entry.value].relative_to(there))
    return there


def _place(file: Path, tensor: onnx.TensorProto) -> tuple[str, int, int | None]:
    """The location, offset and length of a tensor in a file of its own."""
    entries = {entry.key: entry.value for entry in tensor.external_data}
    try:
        length = int(entries["length"]) if "length" in entries else None
        return entries["location"], int(entries.get("offset", 0)), length
    except (KeyError, ValueError) as error:
        raise _refused(file, f"the tensor {tensor.name!r} does not say where its data is: {entries}") from error


def external_file(model: str | os.PathLike[str], location: str) -> Path:
    """The file that a model's location of external data means, with symbolic links followed.

    Raises:
        InputError: It is not below the folder of the model, or not there.
    """
    file = Path(model)
    named, windows = Path(location), PureWindowsPath(location)
    if (
        named.is_absolute()
        or windows.drive
        or windows.root
        or ".." in (*named.parts, *windows.parts)
        or not named.parts
    ):
        raise _refused(file, f"its data is to be in {location!r}, which is no place below its own folder")
    try:
        found = (file.parent / named).resolve(strict=True)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _refused(file, f"its data is in {location!r}, which can't be read: {reason}") from error
    if not any(found.is_relative_to(folder) for folder in (file.parent.resolve(), file.resolve().parent)):
        raise _refused(file, f"its data is to be in {location!r}, a link that leads out of its folder to {found}")
    if not found.is_file():
        raise _refused(file, f"its data is to be in {location!r}, which is not a file")
    return found
