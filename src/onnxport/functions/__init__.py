"""Modules as ONNX functions: the nodes of each module call leave the graph for a function that equal calls share."""

from onnxport.functions.inline import inline_functions
from onnxport.functions.modules import ModuleCalls, check_request, function_calls
from onnxport.functions.outline import outline

__all__ = ["ModuleCalls", "check_request", "function_calls", "inline_functions", "outline"]
