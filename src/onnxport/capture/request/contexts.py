"""Where a capture is asked for: contexts of the caller's that a model can't be captured in."""

from __future__ import annotations

import torch

from onnxport.capture.patches.export_flag import is_in_onnx_export
from onnxport.errors import InputError
from onnxport.torch_internals.transforms import transform_under_way


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
