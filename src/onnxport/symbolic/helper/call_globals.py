"""``GLOBALS``, where symbolic functions written for torch look up what they write for."""

from __future__ import annotations

from onnxport.capture import is_in_onnx_export
from onnxport.export_types import OperatorExportTypes, TrainingMode
from onnxport.symbolic.session.call_options import current_options, is_call_under_way

__all__ = ["GLOBALS"]


class CallGlobals:
    """What torch has as settings of the process, and is here what the export under way was asked for.

    >>> import onnxport
    >>> from onnxport.symbolic_helper import GLOBALS
    >>> GLOBALS.export_onnx_opset_version, GLOBALS.training_mode is onnxport.TrainingMode.EVAL, GLOBALS.in_onnx_export
    (20, True, False)
    """

    @property
    def export_onnx_opset_version(self) -> int:
        """The opset of the file; ``g.opset`` is the same."""
        return current_options().opset

    @property
    def training_mode(self) -> TrainingMode:
        """The mode in which the model is exported."""
        return TrainingMode(current_options().training)

    @property
    def export_training(self) -> bool:
        """Whether that is the training mode."""
        return self.training_mode is TrainingMode.TRAINING

    @property
    def operator_export_type(self) -> OperatorExportTypes:
        """What becomes of operators without a translation."""
        return OperatorExportTypes(current_options().operator_export_type)

    @property
    def in_onnx_export(self) -> bool:
        """Whether a model is being exported."""
        return is_call_under_way() or is_in_onnx_export()


GLOBALS = CallGlobals()
