"""Targets: what a reader of ONNX files takes, as data, and the table of those that have a name."""

from onnxport.targets.fit import check_fit
from onnxport.targets.inputs import narrow_inputs
from onnxport.targets.profiles import PROFILES, find_target
from onnxport.targets.target import Target, names_node

__all__ = ["PROFILES", "Target", "check_fit", "find_target", "names_node", "narrow_inputs"]
