"""What is set up around an export, and looked at before one: hooks, the log, quantized tensors, fixed inputs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

import torch

from onnxport.errors import warn
from onnxport.export_types import TrainingMode
from onnxport.symbolic.api.log import disable_log, enable_log, is_onnx_log_enabled
from onnxport.symbolic.api.mode import select_model_mode_for_export

_APEX_HOOK = "O2StateDictHook"
_STORED_AS = {torch.quint8: torch.uint8, torch.qint8: torch.int8, torch.qint32: torch.int32}


@contextlib.contextmanager
def setup_onnx_logging(verbose: bool) -> Iterator[None]:
    """Switch the log on for a while, if ``verbose`` is true; a log that is on stays on.

    >>> import onnxport
    >>> with onnxport.utils.setup_onnx_logging(True):
    ...     onnxport.is_onnx_log_enabled()
    True
    >>> onnxport.is_onnx_log_enabled()
    False
    """
    was_on = is_onnx_log_enabled()
    if verbose:
        enable_log()
    try:
        yield
    finally:
        if not was_on:
            disable_log()


@contextlib.contextmanager
def disable_apex_o2_state_dict_hook(model: object) -> Iterator[None]:
    """Take the hooks of Apex's mixed precision off a model for a while: they make copies of weights in its state dict.

    >>> import torch, onnxport
    >>> with onnxport.utils.disable_apex_o2_state_dict_hook(torch.nn.ReLU()):
    ...     pass
    """
    taken: list[tuple[dict[int, Callable[..., object]], dict[int, Callable[..., object]]]] = []
    for module in model.modules() if isinstance(model, torch.nn.Module) else ():
        hooks = module._state_dict_hooks
        if any(type(hook).__name__ == _APEX_HOOK for hook in hooks.values()):
            taken.append((hooks, dict(hooks)))
            for key in [key for key, hook in hooks.items() if type(hook).__name__ == _APEX_HOOK]:
                del hooks[key]
    try:
        yield
    finally:
        for hooks, before in taken:
            # In the order in which they were.
            hooks.clear()
            hooks.update(before)


@contextlib.contextmanager
def exporter_context(model: object, mode: TrainingMode, verbose: bool) -> Iterator[None]:
    """Put a model into a mode, without the hooks of Apex, and switch the log on if ``verbose`` is true.

    >>> import torch, onnxport
    >>> model = torch.nn.Dropout()
    >>> with onnxport.utils.exporter_context(model, onnxport.TrainingMode.EVAL, verbose=False):
    ...     model.training
    False
    """
    with (
        select_model_mode_for_export(model, mode),
        disable_apex_o2_state_dict_hook(model),
        setup_onnx_logging(verbose),
    ):
        yield


def warn_on_static_input_change(input_states: Sequence[Sequence[object]]) -> None:
    """Warn of dicts and texts among a model's inputs that its forward has changed: an export has them fixed.

    Args:
        input_states: The inputs as they were before the model ran, and as they are after it.

    >>> import onnxport
    >>> onnxport.utils.warn_on_static_input_change(((("a", 1),), (("a", 1),)))
    """
    before, after = input_states
    for position, (one, other) in enumerate(zip(before, after, strict=False)):
        if isinstance(one, dict) and isinstance(other, dict) and list(one) != list(other):
            what = f"a dict with the keys {list(one)}, which have become {list(other)}"
        elif isinstance(one, str) and one != other:
            what = f"the text {one!r}, which has become {other!r}"
        else:
            continue
        warn(f"Input {position} of the model is {what}; the exported model has what it was in the example.")


def unpack_quantized_tensor(value: object, cast_onnx_accepted: bool = True) -> tuple[object, ...]:
    """A quantized tensor as its integers, scale and zero point; anything else alone.

    Args:
        value: The tensor.
        cast_onnx_accepted: Whether scale and zero point are of type double and int64, as Python numbers are, or of the
            types ONNX's operators take: float and that of the integers.

    >>> import torch, onnxport
    >>> onnxport.utils.unpack_quantized_tensor(torch.quantize_per_tensor(torch.ones(2), 0.5, 1, torch.quint8))
    (tensor([3, 3], dtype=torch.uint8), tensor(0.5000, dtype=torch.float64), tensor(1))
    """
    stored = _STORED_AS.get(value.dtype) if isinstance(value, torch.Tensor) else None
    if not isinstance(value, torch.Tensor) or stored is None:
        return (value,)
    scale, zero = (torch.float64, torch.int64) if cast_onnx_accepted else (torch.float32, stored)
    return value.int_repr(), torch.tensor(value.q_scale(), dtype=scale), torch.tensor(value.q_zero_point(), dtype=zero)
