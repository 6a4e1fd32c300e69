"""What ``torch.onnx`` had before ``export`` took over: ``dynamo_export`` and its options."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable

import torch

from onnxport.capture.request.callables import as_module
from onnxport.errors import warn, with_plain_errors
from onnxport.export_call import export
from onnxport.program import ONNXProgram
from onnxport.torch_internals import pytree


class ExportOptions:
    """Options of ``dynamo_export``. Deprecated: pass the arguments of ``onnxport.export``.

    Attributes:
        dynamic_shapes: True: every axis of every input may vary. False or None: none does.
    """

    def __init__(self, *, dynamic_shapes: bool | None = None) -> None:
        warnings.warn(
            "`ExportOptions` is deprecated; give `dynamic_shapes` to onnxport.export.", DeprecationWarning, stacklevel=2
        )
        self.dynamic_shapes = dynamic_shapes


@with_plain_errors
def dynamo_export(
    model: torch.nn.Module | Callable[..., object] | torch.export.ExportedProgram,
    /,
    *model_args: object,
    export_options: ExportOptions | None = None,
    **model_kwargs: object,
) -> ONNXProgram:
    """Export a model with the inputs given as in a call. Deprecated: use ``onnxport.export``.

    >>> import torch, onnxport, warnings
    >>> with warnings.catch_warnings(action="ignore"):
    ...     program = onnxport.dynamo_export(torch.nn.ReLU(), torch.ones(2))
    >>> program(torch.tensor([-1.0, 1.0]))
    (tensor([0., 1.]),)
    """
    warn("`dynamo_export` is deprecated; use onnxport.export(model, args, kwargs=kwargs).", DeprecationWarning)
    model = as_module(model)
    dynamic_shapes = None
    if export_options is not None and export_options.dynamic_shapes and isinstance(model, torch.nn.Module):
        arguments = inspect.signature(model.forward).bind(*model_args, **model_kwargs).arguments
        dynamic_shapes = pytree.tree_map(_all_axes, dict(arguments))
    return export(model, model_args, kwargs=model_kwargs, dynamic_shapes=dynamic_shapes)


def _all_axes(value: object) -> dict[int, object] | None:
    if not isinstance(value, torch.Tensor):
        return None
    # AUTO, not DYNAMIC: an axis that the model itself fixes may stay fixed.
    return dict.fromkeys(range(value.dim()), torch.export.Dim.AUTO)
