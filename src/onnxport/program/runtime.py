"""Running a model in onnxruntime with torch tensors; onnxruntime is imported when something is run, not before."""

from __future__ import annotations

import ctypes
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import torch

from onnxport.versions import require
from onnxport.weights.converted import ConvertedTensor
from onnxport.weights.disk import Disk
from onnxport.weights.dtypes import to_torch_dtype
from onnxport.weights.saving import save_model, to_bytes
from onnxport.weights.torch_tensor import TorchTensor
from onnxport.weights.wire import Selection

if TYPE_CHECKING:
    import onnxruntime

Output: TypeAlias = "torch.Tensor | list[torch.Tensor] | None"
"""What a model computes: a tensor, or a list of tensors where it is a sequence of ONNX."""

Initializer = Callable[["str | bytes"], "onnxruntime.InferenceSession"]

# Element types numpy has no name for cross over as unsigned integers of the same width.
_CARRIERS: dict[int, type[np.uint8 | np.uint16]] = {1: np.uint8, 2: np.uint16}
_ERROR_SEVERITY = 3
_FLOAT32_ACCURACY = "1"
_WHOLE = ("seq", "optional")


def default_session(model: str | bytes) -> onnxruntime.InferenceSession:
    """Open a session on CUDA where there is one, else on the CPU, that speaks up only about errors."""
    return _session(model, optimized=True)


def unoptimized_session(model: str | bytes) -> onnxruntime.InferenceSession:
    """Open a session that runs the graph as it stands, each operator by its own kernel."""
    return _session(model, optimized=False)


def _session(model: str | bytes, *, optimized: bool) -> onnxruntime.InferenceSession:
    import onnxruntime

    require(["onnxruntime"])
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _ERROR_SEVERITY
    # Products with dequantized weights are fused to MatMulNBits, which by default rounds the other side to 8 bits too.
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", _FLOAT32_ACCURACY)
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    available = onnxruntime.get_available_providers()
    providers = [name for name in ("CUDAExecutionProvider", "CPUExecutionProvider") if name in available]
    return onnxruntime.InferenceSession(model, sess_options=options, providers=providers)


@dataclass
class RuntimeSession:
    """An open session, with the folder of its files when the model was too large to hand over as bytes."""

    session: onnxruntime.InferenceSession
    folder: tempfile.TemporaryDirectory[str] | None = None

    @classmethod
    def open(cls, model: ir.Model, initializer: Initializer, selection: Selection) -> RuntimeSession:
        """Hand the model to the initializer, as bytes or, above 2 GB, as the path of a temporary file."""
        content = to_bytes(model, selection)
        if content is not None:
            return cls(initializer(content))
        folder = tempfile.TemporaryDirectory(prefix="onnxport-")
        try:
            path = Path(folder.name) / "model.onnx"
            save_model(model, path, selection=selection, external_data=True, disk=Disk(sync=False))
            return cls(initializer(str(path)), folder)
        except BaseException:
            folder.cleanup()
            raise

    def run(self, names: Sequence[str], feeds: Mapping[str, torch.Tensor]) -> list[Output]:
        """Compute the named outputs: tensors, and lists of tensors for sequences."""
        values = {name: to_ort_value(TorchTensor(tensor)) for name, tensor in feeds.items()}
        if any(output.type.startswith(_WHOLE) for output in self.session.get_outputs() if output.name in names):
            # onnxruntime hands out the items of a sequence, and what is optional, only as arrays.
            return [output_to_torch(output) for output in self.session.run(list(names), values)]
        return [from_ort_value(value) for value in self.session.run_with_ort_values(list(names), values)]


def to_torch(tensor: ir.TensorProtocol) -> torch.Tensor:
    """Return a tensor of the model as a torch tensor, the very one where it came from torch."""
    if isinstance(tensor, TorchTensor) and not isinstance(tensor, ConvertedTensor):
        raw = tensor.raw
        return torch.view_as_real(raw.resolve_conj()) if raw.is_complex() else raw
    return array_to_torch(tensor.numpy(), tensor.dtype)


def array_to_torch(array: npt.NDArray[np.generic], dtype: ir.DataType | None = None) -> torch.Tensor:
    """Return an array as a torch tensor; ``dtype`` says what it is where its own type does not."""
    onnx = ir.DataType.from_numpy(array.dtype) if dtype is None else dtype
    wanted = to_torch_dtype(onnx)
    # ascontiguousarray makes a scalar one-dimensional, so the shape is put back.
    plain = np.ascontiguousarray(array).reshape(array.shape)
    if not plain.flags.writeable:
        plain = plain.copy()
    if wanted in _CARRIED:
        return torch.from_numpy(plain.view(_CARRIERS[wanted.itemsize])).view(wanted)
    # numpy has two types for some integers (uint64 and ulonglong), of which torch takes only one.
    return torch.from_numpy(plain.view(onnx.numpy()))


def output_to_torch(
    output: npt.NDArray[np.generic] | list[npt.NDArray[np.generic]] | None, dtype: ir.DataType | None = None
) -> Output:
    """Return what a runtime computed, an array, a list of arrays or nothing, as a torch tensor or a list of them."""
    if output is None:
        return None
    if isinstance(output, list):
        return [array_to_torch(np.asarray(item), dtype) for item in output]
    return array_to_torch(output, dtype)


_CARRIED = frozenset(
    {
        torch.bfloat16,
        torch.float8_e4m3fn,
        torch.float8_e4m3fnuz,
        torch.float8_e5m2,
        torch.float8_e5m2fnuz,
        torch.float8_e8m0fnu,
    }
)


def to_ort_value(tensor: TorchTensor) -> onnxruntime.OrtValue:
    """A tensor as onnxruntime takes it, over the same memory."""
    import onnxruntime

    array = tensor.numpy()
    if tensor.raw.dtype in _CARRIED:
        carrier = array.view(_CARRIERS[array.dtype.itemsize])
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(carrier, int(tensor.dtype))
    return onnxruntime.OrtValue.ortvalue_from_numpy(array)


def from_ort_value(value: onnxruntime.OrtValue) -> torch.Tensor:
    """What onnxruntime computed, as a torch tensor."""
    dtype = ir.DataType(value.element_type())
    if to_torch_dtype(dtype) not in _CARRIED:
        return array_to_torch(value.numpy(), dtype)
    # onnxruntime makes no array of these, so the bytes are copied from where they are.
    # (OrtValue.tensor_size_in_bytes() is younger than the oldest onnxruntime that is declared.)
    content = ctypes.string_at(value.data_ptr(), math.prod(value.shape()) * int(dtype.itemsize))
    flat = np.frombuffer(content, dtype=_CARRIERS[int(dtype.itemsize)])
    return array_to_torch(flat.reshape(value.shape()), dtype)
