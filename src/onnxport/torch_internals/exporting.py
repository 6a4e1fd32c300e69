"""torch.export, and the bytecode tracing behind one form of it.

Loading these takes seconds, so that this module is imported by functions that capture a model, never at the top.
"""

import torch._dynamo.config as dynamo_config
import torch._functorch.config as functorch_config
from torch._dynamo.exc import UncapturedHigherOrderOpError, UserError, UserErrorType
from torch._dynamo.trace_rules import _numpy_function_ids as known_numpy_functions
from torch._dynamo.variables.torch import tracing_state_functions
from torch._export.non_strict_utils import _NonStrictTorchFunctionHandler as FunctionHandler
from torch._logging.structured import INTERN_TABLE
from torch.export import _trace as export_trace
from torch.export._draft_export import FailureType
from torch.onnx._internal.exporter import _flags as onnx_flags  # noqa: TID251  what torch.onnx.is_in_onnx_export() reads

__all__ = [
    "INTERN_TABLE",
    "LOGGERS",
    "FailureType",
    "FunctionHandler",
    "UncapturedHigherOrderOpError",
    "UserError",
    "UserErrorType",
    "dynamo_config",
    "export_trace",
    "functorch_config",
    "known_numpy_functions",
    "onnx_flags",
    "tracing_state_functions",
    "with_open_indices",
]

# How a function is called instead where an index among its arguments is a symbol: ``x[n]`` as a select.
with_open_indices = FunctionHandler()._override

#: The loggers that tell of a failed capture, and of profilers, which a graph has not.
LOGGERS = (
    "torch._dynamo.variables.ctx_manager",
    "torch._dynamo.variables.torch",
    "torch._guards",
    "torch._subclasses.fake_tensor",
    "torch.export._draft_export",
    "torch.export._trace",
    "torch.fx.experimental.symbolic_shapes",
)
