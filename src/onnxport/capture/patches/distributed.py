"""Weights that are distributed over one process (DTensor): what the process has is all there is."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any

import torch

from onnxport.capture.patches.replacing import attributes_replaced, items_replaced
from onnxport.errors import CaptureError, Problem

_HOME = "torch.distributed.tensor"
_Weights = dict[str, torch.Tensor | None]


@contextlib.contextmanager
def distributed_weights_local(model: object) -> Iterator[None]:
    """While this is open, distributed weights of a model are plain tensors, and so is what its code makes of others.

    On a mesh of one device a tensor is what each placement says of it, so to distribute, to gather and to take the
    local part give the tensor itself. Over several processes each has a part only, and is refused.
    """
    home = sys.modules.get(_HOME)
    found = [] if home is None or not isinstance(model, torch.nn.Module) else _distributed(model, home.DTensor)
    if home is None or not found:
        yield
        return
    meshes = [tensor.device_mesh for _, _, tensor in found]
    _refuse_parts([(name, tensor) for name, _, tensor in found])
    mesh = meshes[0]
    placements = (home.Replicate(),) * mesh.ndim
    rows: list[tuple[object, str, object]] = [
        (torch.Tensor, "to_local", _itself),
        (torch.Tensor, "full_tensor", _itself),
        (torch.Tensor, "redistribute", _itself),
        (torch.Tensor, "device_mesh", property(lambda _: mesh)),
        (torch.Tensor, "placements", property(lambda _: placements)),
        (home.DTensor, "from_local", staticmethod(_itself)),
        (home, "distribute_tensor", _itself),
    ]
    with contextlib.ExitStack() as undo:
        undo.enter_context(attributes_replaced(rows))
        for name, weights, tensor in found:
            undo.enter_context(items_replaced(weights, {name.rpartition(".")[2]: _local(tensor)}))
        yield


def _itself(tensor: torch.Tensor, *args: object, **kwargs: object) -> torch.Tensor:
    return tensor


def _distributed(model: torch.nn.Module, kind: type[torch.Tensor]) -> list[tuple[str, _Weights, Any]]:
    """The distributed weights, by their names, with the tables of modules that they are in."""
    tables: list[tuple[str, _Weights]] = []
    for prefix, module in model.named_modules():
        # Modules of fully_shard gather their weights by themselves before they compute.
        if "fsdp" not in type(module).__name__.lower():
            tables += [(f"{prefix}.", module._parameters), (f"{prefix}.", module._buffers)]
    return [
        (f"{prefix}{name}".lstrip("."), table, tensor)
        for prefix, table in tables
        for name, tensor in table.items()
        if isinstance(tensor, kind)
    ]


def _refuse_parts(weights: list[tuple[str, Any]]) -> None:
    for name, tensor in weights:
        count = tensor.device_mesh.size()
        if count != 1:
            problem = Problem(
                f"The weight {name} is distributed over {count} processes (torch.distributed.tensor.DTensor), of which "
                "each has a part",
                "",
                "Export the module without distribute_module or parallelize_module, with the weights that "
                "get_model_state_dict of torch.distributed.checkpoint.state_dict gives with "
                "StateDictOptions(full_state_dict=True).",
            )
            raise CaptureError("The model is not whole in this process:", [problem])


def _local(tensor: Any) -> torch.Tensor:
    local: torch.Tensor = tensor.to_local().detach()
    return torch.nn.Parameter(local, requires_grad=False) if isinstance(tensor, torch.nn.Parameter) else local
