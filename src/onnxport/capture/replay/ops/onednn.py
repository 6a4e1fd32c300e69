"""What ``torch.jit.optimize_for_inference`` leaves in a graph for oneDNN: the layouts go, the computation stays."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F

from onnxport.capture.replay.interpreter import NodeCall, handles
from onnxport.capture.replay.values.stand_ins import ReplayValue
from onnxport.torch_internals.fake_tensors import disable_current_modes


@handles("prim::ConstantMKLDNNTensor")
def _constant(call: NodeCall) -> torch.Tensor:
    with disable_current_modes():
        return call.node.t("value").to_dense()


@handles("aten::to_mkldnn", "aten::to_dense")
def _same(call: NodeCall, x: ReplayValue, *_: ReplayValue) -> ReplayValue:
    return x


@handles("prim::mkldnn_convolution")
def _convolution(call: NodeCall, x: torch.Tensor, weight: torch.Tensor, *options: ReplayValue) -> torch.Tensor:
    call.trace()
    convolutions: dict[int, Callable[..., torch.Tensor]] = {3: torch.conv1d, 4: torch.conv2d, 5: torch.conv3d}
    return convolutions[weight.dim()](x, weight, *options)


@handles("prim::BroadcastMKLDNNTensors")
def _broadcast(call: NodeCall, *tensors: torch.Tensor) -> list[torch.Tensor]:
    call.trace()
    return list(torch.broadcast_tensors(*tensors))


# These nodes say the rest of their arguments in attributes.
_FUNCTIONS: dict[str, tuple[Callable[..., torch.Tensor], tuple[str, ...]]] = {
    "prim::MKLDNNHardSwish": (F.hardswish, ()),
    "prim::MKLDNNHardSigmoid": (F.hardsigmoid, ()),
    "prim::MKLDNNHardTanh": (F.hardtanh, ("min_val", "max_val")),
    "prim::MKLDNNClamp": (torch.clamp, ("min_val", "max_val")),
    "prim::MKLDNNScalarMul": (torch.mul, ()),
    "prim::MKLDNNLayerNorm": (lambda x, shape, weight, bias, eps, _: F.layer_norm(x, shape, weight, bias, eps), ()),
}


@handles(*_FUNCTIONS, *(f"{name}_" for name in _FUNCTIONS))
def _function(call: NodeCall, *values: ReplayValue) -> torch.Tensor:
    call.trace()
    function, attributes = _FUNCTIONS[call.node.kind().rstrip("_")]
    return function(*values, *(call.node.f(name) for name in attributes))
