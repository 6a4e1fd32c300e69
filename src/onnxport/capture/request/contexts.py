"""Where a capture is asked for: contexts of the caller's, and what becomes of a capture in each."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch

from onnxport.capture.patches.export_flag import is_in_onnx_export
from onnxport.errors import InputError
from onnxport.torch_internals.transforms import transform_under_way

_AUTOCAST = "onnxport_autocast"
_DEVICES = ("cpu", "cuda")
_autocast: Any = torch.autocast


def check_contexts(model: object) -> None:
    """Refuse to capture within another capture, a transform of torch.func, or a default device that has no values."""
    if is_in_onnx_export():
        raise InputError(
            "A model can't be exported while another model is being captured, from its forward or a hook of it: "
            "both would be traced at once. Export this one before or after the other."
        )
    transform = transform_under_way()
    if transform is not None:
        raise InputError(
            f"A model can't be exported within torch.func.{transform}: its inputs are values of the transform, and the "
            "exported model would lack it. Export outside; to export the transformed computation, wrap it in a "
            "torch.nn.Module whose forward calls the transform."
        )
    devices = {tensor.device.type for tensor in model.parameters()} if isinstance(model, torch.nn.Module) else set()
    if torch.get_default_device().type == "meta" and devices and devices != {"meta"}:
        raise InputError(
            "The default device is meta (`with torch.device('meta')`, or torch.set_default_device), so that tensors "
            "which the model makes would have no values, while its weights have. Export outside of that context."
        )


@contextlib.contextmanager
def outside_of_inference_mode() -> Iterator[None]:
    """Tensors count their versions, as bodies of loops need them to: without gradients, they are the same."""
    if not torch.is_inference_mode_enabled():
        yield
        return
    with torch.inference_mode(False), torch.no_grad():
        yield


def note_autocast(program: torch.export.ExportedProgram) -> None:
    """Note that a program was captured inside of the caller's ``torch.autocast``, of which its graph says nothing."""
    for device in _autocast_devices()[:1]:
        program.graph_module.meta[_AUTOCAST] = (device, torch.get_autocast_dtype(device))


def autocast_around(program: torch.export.ExportedProgram) -> tuple[str, torch.dtype] | None:
    """The device and the dtype of the autocast that was noted, if there was one."""
    noted: tuple[str, torch.dtype] | None = program.graph_module.meta.get(_AUTOCAST)
    return noted


@contextlib.contextmanager
def outside_of_autocast() -> Iterator[None]:
    """While the block runs, the caller's ``torch.autocast`` changes nothing of what is computed."""
    with contextlib.ExitStack() as stack:
        for device in _autocast_devices():
            stack.enter_context(_autocast(device, enabled=False))
        yield


def _autocast_devices() -> list[str]:
    return [device for device in _DEVICES if torch.is_autocast_enabled(device)]
