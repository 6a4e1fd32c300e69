"""Which nodes read weights that can be quantized, and how each of them reads its weight."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import onnx_ir as ir
import torch

from onnxport.graphs import bodies
from onnxport.onnx_build.opsets import ONNX_DOMAINS
from onnxport.provenance import aliases
from onnxport.quantize.scheme import Quantization
from onnxport.weights.arrangement import Arranged, weights_behind
from onnxport.weights.dtypes import from_torch_dtype
from onnxport.weights.torch_tensor import storage_key

Use = Literal["right", "left", "table", "matrices", "channels", "recurrent"]
_FLOATS = (torch.float32, torch.float16, torch.bfloat16)
_REAL = {from_torch_dtype(dtype): dtype for dtype in _FLOATS}
_HEADS = ("lm_head", "embed_out", "output_projection")


@dataclass(frozen=True)
class Reader:
    """A node that reads a weight: as the right or left side of a product, as a table of rows or of such right sides, by
    channels, by gates.
    """

    node: ir.Node
    index: int
    use: Use


@dataclass
class Candidate:
    """A weight that can be quantized, with all that read it in that sense.

    ``load`` gives it as matrices whose rows are outputs, as QuantizedWeight takes them, and ``dtype`` is the type in
    which it is read.
    """

    name: str
    load: Callable[[], torch.Tensor]
    dtype: torch.dtype
    sources: tuple[ir.Value, ...]
    readers: list[Reader] = field(default_factory=list)

    @property
    def uses(self) -> set[Use]:
        """How it is read."""
        return {reader.use for reader in self.readers}


@dataclass(frozen=True)
class Left:
    """A weight that stays as it is, and why."""

    name: str
    reason: str


def find_candidates(model: ir.Model, quantization: Quantization) -> tuple[list[Candidate], list[Left]]:
    """The weights of a model that are to be quantized, in the order of their first readers, and those that are not."""
    known: dict[ir.Value, Arranged | None] = {}
    found: dict[Hashable, Candidate] = {}
    left: dict[str, Left] = {}
    for node in _nodes(model.graph):
        for reader in _readers(node):
            value = node.inputs[reader.index]
            if value is None:
                continue
            real = value.dtype
            # What onnxruntime has no kernels for is computed in another type: the weight is read through a Cast.
            cast = value.producer()
            if cast is not None and cast.op_type == "Cast" and cast.domain == "" and cast.inputs[0] is not None:
                value = cast.inputs[0]
            arranged = weights_behind(value, known)
            if arranged is None or len(arranged.shape) < 2 or arranged.parts[0].dtype not in _FLOATS:
                continue
            if real not in _REAL:
                continue
            if reader.use in ("table", "matrices") and real == ir.DataType.BFLOAT16:
                # No runtime dequantizes to it.
                real = ir.DataType.FLOAT
            load = _rows(arranged, reader)
            key = (storage_key(load()) if len(arranged.parts) == 1 else (value, reader.use), real)
            made = Candidate(_name(arranged, value), load, _REAL[real], tuple(arranged.sources))
            candidate = found.setdefault(key, made)
            candidate.readers.append(reader)
    tables = {candidate.load().shape[0] for candidate in found.values() if "table" in candidate.uses}
    chosen = []
    for candidate in found.values():
        if len(candidate.uses) > 1:
            # No form of the integers serves products and look-ups of matrices both.
            candidate.readers[:] = [reader for reader in candidate.readers if reader.use != "matrices"]
        reason = _excluded(candidate, quantization, tables)
        if reason:
            left[candidate.name] = Left(candidate.name, reason)
        if candidate.readers and not reason:
            chosen.append(candidate)
    return chosen, list(left.values())


def state_dict_names(sources: Iterable[ir.Value]) -> list[str]:
    """The names of weights in the state dict, where tied weights have several."""
    return [name for source in sources for name in (str(source.name), *aliases(source))]


def left_by_pattern(names: Sequence[str], quantization: Quantization) -> str:
    """Why patterns leave a weight with these names as it is, empty if they don't."""
    if not any(fnmatch.fnmatch(name, pattern) for name in names for pattern in quantization.include):
        return "not included by a pattern"
    if any(fnmatch.fnmatch(name, pattern) for name in names for pattern in quantization.exclude):
        return "excluded by a pattern"
    return ""


def _excluded(candidate: Candidate, quantization: Quantization, tables: set[int]) -> str:
    """Why a weight is not quantized, empty if it is; a table that only products may have so loses its other readers."""
    names = state_dict_names(candidate.sources)
    reason = left_by_pattern(names, quantization)
    if reason:
        return reason
    if not quantization.include_lm_head and _is_head(candidate, names, tables):
        candidate.readers[:] = [reader for reader in candidate.readers if reader.use == "table"]
        if not candidate.readers or not quantization.include_embeddings:
            return "include_lm_head is False"
    if not quantization.include_embeddings and "table" in candidate.uses:
        candidate.readers[:] = [reader for reader in candidate.readers if reader.use != "table"]
        if not candidate.readers:
            return "include_embeddings is False"
    return ""


def _is_head(candidate: Candidate, names: list[str], tables: set[int]) -> bool:
    """Whether a product gives a score for each row of a table of embeddings, or is called as such products are."""
    if "right" not in candidate.uses:
        return False
    called = any(part in _HEADS for name in names for part in name.split("."))
    return called or candidate.load().shape[-2] in tables


def _nodes(graph: ir.Graph) -> Iterator[ir.Node]:
    for node in graph:
        yield node
        for body in bodies(node):
            yield from _nodes(body)


def _readers(node: ir.Node) -> Iterator[Reader]:
    if node.domain not in ONNX_DOMAINS:
        return
    match node.op_type:
        case "MatMul":
            yield Reader(node, 1, "right")
            yield Reader(node, 0, "left")
        case "Gemm":
            if node.attributes.get_int("transA", 0) == 0:
                yield Reader(node, 1, "right")
        case "Gather":
            if node.attributes.get_int("axis", 0) == 0 and node.outputs[0].shape is not None:
                yield Reader(node, 0, "matrices" if _takes_a_matrix(node) else "table")
        case "Conv" | "ConvTranspose":
            yield Reader(node, 1, "channels")
        case "LSTM" | "GRU" | "RNN":
            yield Reader(node, 1, "recurrent")
            yield Reader(node, 2, "recurrent")
        case _:
            return


def _takes_a_matrix(gather: ir.Node) -> bool:
    """Whether one of several matrices is taken, and products read it as their right side."""
    table, index = gather.inputs[:2]
    if table is None or table.shape is None or len(table.shape) != 3 or index is None or index.shape is None:
        return False
    users = list(gather.outputs[0].uses())
    if len(users) == 1 and users[0][0].op_type == "Cast" and users[0][0].domain == "":
        users = list(users[0][0].outputs[0].uses())
    products = all(user.op_type == "MatMul" and user.domain == "" and place == 1 for user, place in users)
    return len(index.shape) == 0 and bool(users) and products


def _rows(arranged: Arranged, reader: Reader) -> Callable[[], torch.Tensor]:
    """What gives a weight as matrices with a row for each output."""
    transposed = reader.use in ("right", "matrices") and reader.node.attributes.get_int("transB", 0) == 0

    def load() -> torch.Tensor:
        tensor = arranged.joined()
        if reader.use == "channels":
            return tensor.flatten(1)
        return tensor.transpose(-1, -2) if transposed else tensor

    return load


def _name(arranged: Arranged, value: ir.Value) -> str:
    (first, *others) = arranged.sources
    return str(value.name) if others else str(first.name)
