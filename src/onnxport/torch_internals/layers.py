"""Base classes of layers and tensors, functions that make tensors, autograd functions, what FX keeps of a tensor."""

from collections.abc import Callable

import torch
from torch import _VF as variable_functions
from torch._C import TensorBase
from torch.autograd.function import _is_setup_context_defined
from torch.fx.passes.shape_prop import _extract_tensor_metadata
from torch.nn.modules.batchnorm import _NormBase as NormBase
from torch.nn.modules.dropout import _DropoutNd as DropoutNd
from torch.nn.utils import stateless
from torch.utils._device import _device_constructors as device_constructors

__all__ = [
    "DropoutNd",
    "NormBase",
    "TensorBase",
    "convert_module",
    "device_constructors",
    "extract_tensor_metadata",
    "is_setup_context_defined",
    "make_per_tensor_quantized_tensor",
    "pretty_print_target",
    "stateless",
    "variable_functions",
]

# How a printed graph names the target of a call.
pretty_print_target = torch.fx.Node._pretty_print_target

extract_tensor_metadata = _extract_tensor_metadata

# What to, float, half and cuda do: a function of each tensor of a module, which takes the tensor's place.
convert_module: Callable[..., torch.nn.Module] = torch.nn.Module._apply

# Whether an autograd function has the two-part form, whose forward gets no context.
is_setup_context_defined: Callable[[object], bool] = _is_setup_context_defined

# A quantized tensor of its integers.
make_per_tensor_quantized_tensor: Callable[[torch.Tensor, float, int], torch.Tensor]
make_per_tensor_quantized_tensor = torch._make_per_tensor_quantized_tensor
