"""One initializer for equal literals, and one for weights that are the same storage."""

from __future__ import annotations

from collections.abc import Hashable

import onnx_ir as ir
import torch

from onnxport.onnx_build.literals import literal_key, readable
from onnxport.optimize.scope import Scope
from onnxport.provenance import add_aliases, aliases
from onnxport.weights.kinds import is_weight
from onnxport.weights.torch_tensor import StorageKey, TorchTensor, storage_key


def share_initializers(scope: Scope) -> None:
    """Let values that hold the same tensor be one initializer: the first in order stays.

    Literals (constants of the graph) are compared by content when they are small; everything else only by being the
    same view of the same torch storage, as tied weights are. Weights remember the names they stand for.

    ``lm_head.weight`` tied to ``embed.weight`` -> ``embed.weight`` with ``onnxport.aliases = "lm_head.weight"``
    """
    _share(scope, scope.graph, scope.pool, {})
    for body in scope.nested:
        # A body sees the literals of the root graph, but not the other way round.
        _share(scope, body, {}, {})


def _share(scope: Scope, graph: ir.Graph, pool: dict[Hashable, ir.Value], storages: dict[Hashable, ir.Value]) -> None:
    for value in list(graph.initializers.values()):
        tensor = value.const_value
        if tensor is None or value.is_graph_input() or value.is_graph_output():
            continue
        weight = is_weight(value)
        if not weight and readable(tensor):
            content = literal_key(tensor.dtype, tensor.numpy())
            first = scope.pool.get(content) or pool.setdefault(content, value)
        elif (storage := _storage(tensor)) is not None:
            first = storages.setdefault((weight, storage), value)
        else:
            continue
        if first is value:
            continue
        if weight:
            _remember(first, value)
        _merge(scope, value, first)
        del graph.initializers[str(value.name)]
        scope.tally["shared initializer"] += 1


def _storage(tensor: ir.TensorProtocol) -> StorageKey | None:
    if isinstance(tensor, TorchTensor):
        return tensor.key
    raw = getattr(tensor, "raw", None)
    return storage_key(raw) if isinstance(raw, torch.Tensor) else None


def _merge(scope: Scope, value: ir.Value, first: ir.Value) -> None:
    for user, index in value.uses():
        user.replace_input_with(index, first)
    scope.counts[first] = scope.counts.get(first, 0) + scope.counts.pop(value, 0)


def _remember(first: ir.Value, value: ir.Value) -> None:
    add_aliases(first, str(value.name), *aliases(value))
