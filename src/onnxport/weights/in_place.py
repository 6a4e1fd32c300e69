"""Weights that stand in files beside a model already: referred to there, as they are, and written nowhere else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import onnx_ir as ir

from onnxport.weights.safetensors import MappedFile
from onnxport.weights.torch_tensor import TorchTensor


@dataclass(frozen=True)
class WeightsInPlace:
    """Mapped files, by what a model beside them calls each.

    >>> import os, tempfile, torch
    >>> from safetensors.torch import save_file
    >>> from onnxport.weights.in_place import WeightsInPlace
    >>> from onnxport.weights.safetensors import mapped_file
    >>> from onnxport.weights.torch_tensor import TorchTensor
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.safetensors")
    ...     save_file({"weight": torch.ones(2)}, path)
    ...     file = mapped_file(path)
    >>> found = WeightsInPlace({"model.safetensors": file})
    >>> found.place(TorchTensor(file.tensors["weight"])) == ("model.safetensors", file.start)
    True
    """

    files: Mapping[str, MappedFile]

    def place(self, tensor: ir.TensorProtocol) -> tuple[str, int] | None:
        """The file that a tensor stands in, and where; None for one that would have to be written."""
        if type(tensor) is not TorchTensor or not tensor.has_content or tensor.raw.is_complex():
            return None
        for location, file in self.files.items():
            offset = file.offset(tensor.raw)
            if offset is not None:
                return location, offset
        return None

    def holds(self, tensor: ir.TensorProtocol) -> bool:
        """Whether a tensor stands in one of the files."""
        return self.place(tensor) is not None
