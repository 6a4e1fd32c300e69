"""The interface of the TorchScript exporter, over the same translations as everything else."""

from onnxport.torchscript.types import OperatorExportTypes, TrainingMode

__all__ = ["OperatorExportTypes", "TrainingMode"]
