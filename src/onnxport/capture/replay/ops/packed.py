"""Packing and padding in TorchScript graphs: what stands in for them while torch captures, as for Python code."""

from __future__ import annotations

import torch

from onnxport.capture.replay.interpreter import NodeCall, handles
from onnxport.capture.replay.values.stand_ins import ReplayValue, materialized, plain_number
from onnxport.torch_internals.layers import variable_functions


@handles("aten::_pack_padded_sequence", "aten::_pad_packed_sequence")
def _packed(call: NodeCall, *values: ReplayValue) -> ReplayValue:
    call.trace()
    function = getattr(variable_functions, call.node.kind().partition("::")[2])
    tensors = [materialized(value) for value in values[:2]]
    pair: tuple[torch.Tensor, torch.Tensor] = function(*tensors, *(plain_number(value) for value in values[2:]))
    return pair
