"""What ``torch.jit.optimize_for_inference`` leaves in a graph for oneDNN: the layouts go, the computation stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from onnxport.capture.replay.interpreter import Env, Interpreter, handles
from onnxport.torch_internals.fake_tensors import disable_current_modes


@handles("prim::ConstantMKLDNNTensor")
def _constant(run: Interpreter, node: Any, values: list[Any], env: Env) -> torch.Tensor:
    with disable_current_modes():
        return node.t("value").to_dense()  # type: ignore[no-any-return]


@handles("aten::to_mkldnn", "aten::to_dense")
def _same(run: Interpreter, node: Any, values: list[Any], env: Env) -> Any:
    return values[0]


@handles("prim::mkldnn_convolution")
def _convolution(run: Interpreter, node: Any, values: list[Any], env: Env) -> torch.Tensor:
    run.trace()
    x, weight, bias, stride, padding, dilation, groups = values
    convolution = {3: torch.conv1d, 4: torch.conv2d, 5: torch.conv3d}[weight.dim()]
    return convolution(x, weight, bias, stride, padding, dilation, groups)


@handles("prim::BroadcastMKLDNNTensors")
def _broadcast(run: Interpreter, node: Any, values: list[Any], env: Env) -> list[torch.Tensor]:
    run.trace()
    return list(torch.broadcast_tensors(*values))


def _layer_norm(x: torch.Tensor, shape: list[int], weight: Any, bias: Any, eps: float, enabled: bool) -> torch.Tensor:
    return F.layer_norm(x, shape, weight, bias, eps)


# These nodes say the rest of their arguments in attributes.
_FUNCTIONS: dict[str, tuple[Callable[..., torch.Tensor], tuple[str, ...]]] = {
    "prim::MKLDNNHardSwish": (F.hardswish, ()),
    "prim::MKLDNNHardSigmoid": (F.hardsigmoid, ()),
    "prim::MKLDNNHardTanh": (F.hardtanh, ("min_val", "max_val")),
    "prim::MKLDNNClamp": (torch.clamp, ("min_val", "max_val")),
    "prim::MKLDNNScalarMul": (torch.mul, ()),
    "prim::MKLDNNLayerNorm": (_layer_norm, ()),
}


@handles(*_FUNCTIONS, *(f"{name}_" for name in _FUNCTIONS))
def _function(run: Interpreter, node: Any, values: list[Any], env: Env) -> torch.Tensor:
    run.trace()
    function, attributes = _FUNCTIONS[node.kind().rstrip("_")]
    return function(*values, *(node.f(name) for name in attributes))
