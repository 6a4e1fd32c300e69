"""Pretrained models of transformers: from a checkpoint directory to a folder that runs its task."""

from onnxport.pretrained.exporting import PretrainedFolder, export_pretrained

__all__ = ["PretrainedFolder", "export_pretrained"]
