"""The readers: each takes a file and inputs and gives outputs, or raises what the reader says. No torch in here."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx

Arrays = list[np.ndarray[Any, Any]]
Reader = Callable[[Path, Arrays], Arrays]


def run_onnxruntime(path: Path, inputs: Arrays) -> Arrays:
    """Load the file as it is and run it."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return list(session.run(None, dict(zip([i.name for i in session.get_inputs()], inputs, strict=True))))


def run_opencv(path: Path, inputs: Arrays) -> Arrays:
    """OpenCV's dnn module, with the engine that it takes by itself."""
    import cv2

    net = cv2.dnn.readNetFromONNX(str(path))
    for index, array in enumerate(inputs):
        net.setInput(array, f"in{index}")
    return [net.forward()]


def run_tract(path: Path, inputs: Arrays) -> Arrays:
    """tract, with the sizes of the inputs set by the caller."""
    import tract

    model = tract.onnx().load(str(path))
    for index, array in enumerate(inputs):
        sizes = ",".join(str(size) for size in array.shape)
        model.set_input_fact(index, f"{sizes},{_TRACT_TYPES[str(array.dtype)]}")
    for index in range(model.output_count()):
        model.set_output_fact(index, None)
    results = model.into_model().into_runnable().run(inputs)
    return [result.to_numpy() for result in results]


_TRACT_TYPES = {"float32": "f32", "int64": "i64"}


# Not the command `mnnconvert` of MNN 3.6: at each call it installs a package into the Python that comes first on PATH
# and reports the conversion to a server. The function behind it does neither.
_MNN_CONVERT = "import sys, _tools; _tools.mnnconvert(sys.argv)"


def run_mnn(path: Path, inputs: Arrays) -> Arrays:
    """Convert with MNN's tool, and run what comes out."""
    import MNN

    converted = path.with_suffix(".mnn")
    converted.unlink(missing_ok=True)
    given = ["-f", "ONNX", "--modelFile", path, "--MNNModel", converted, "--bizCode", "MNN"]
    command = [sys.executable, "-c", _MNN_CONVERT, *given]
    told = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if told.returncode or not converted.exists():
        raise RuntimeError(f"mnnconvert: {(told.stdout + told.stderr).strip()[-300:]}")
    module = MNN.nn.load_module_from_file(str(converted), [f"in{index}" for index in range(len(inputs))], ["out"])
    # MNN has no int64: its converter makes such inputs int32.
    arrays = [array.astype(np.int32) if array.dtype == np.int64 else array for array in inputs]
    values = [MNN.expr.const(a, list(a.shape), MNN.expr.NCHW, _mnn_type(a)) for a in arrays]
    result = module.onForward(values)[0]
    return [MNN.expr.convert(result, MNN.expr.NCHW).read().copy()]


def _mnn_type(array: np.ndarray[Any, Any]) -> Any:
    import MNN

    return MNN.expr.int if array.dtype == np.int32 else MNN.expr.float


def run_ncnn(path: Path, inputs: Arrays) -> Arrays:
    """Convert with pnnx, and run what comes out in ncnn, which has no batch axis: there is one row of each input."""
    import ncnn

    made = path.with_suffix(".ncnn")
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir()
    shutil.copy(path, made / "model.onnx")
    command = [Path(sys.executable).with_name("pnnx"), "model.onnx", "fp16=0"]
    told = subprocess.run(command, cwd=made, capture_output=True, text=True, timeout=120)
    if not (made / "model.ncnn.param").exists():
        raise RuntimeError(f"pnnx: {(told.stdout + told.stderr).strip()[-300:]}")
    net = ncnn.Net()
    net.opt.use_fp16_storage = net.opt.use_fp16_arithmetic = net.opt.use_fp16_packed = False
    if net.load_param(str(made / "model.ncnn.param")) or net.load_model(str(made / "model.ncnn.bin")):
        raise RuntimeError("ncnn does not load what pnnx wrote")
    extractor = net.create_extractor()
    for index, array in enumerate(inputs):
        row = array[0].astype(np.int32) if array.dtype == np.int64 else array[0]
        extractor.input(f"in{index}", ncnn.Mat(np.ascontiguousarray(row)))
    failed, result = extractor.extract("out0")
    if failed:
        raise RuntimeError(f"ncnn does not run what pnnx wrote ({failed})")
    return [np.array(result)[None]]


def run_openvino(path: Path, inputs: Arrays) -> Arrays:
    """OpenVINO's front end and its CPU plugin, in full precision."""
    import openvino

    compiled = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return [np.asarray(value) for value in compiled(inputs).values()]


def run_quantized(path: Path, inputs: Arrays) -> Arrays:
    """onnxruntime's quantize_dynamic, then onnxruntime."""
    from onnxruntime.quantization import quantize_dynamic

    quantized = path.with_suffix(".quantized")
    quantize_dynamic(path, quantized)
    return run_onnxruntime(quantized, inputs)


def run_calibrated(path: Path, inputs: Arrays) -> Arrays:
    """onnxruntime's quantize_static, calibrated with the inputs, then onnxruntime."""
    import onnxruntime
    from onnxruntime.quantization import CalibrationDataReader, quantize_static

    class Once(CalibrationDataReader):
        def __init__(self) -> None:
            names = [value.name for value in onnx.load(path).graph.input]
            self.given = iter([dict(zip(names, inputs, strict=True))])

        def get_next(self) -> dict[str, np.ndarray[Any, Any]] | None:
            return next(self.given, None)

    onnxruntime.set_default_logger_severity(3)
    made = path.with_suffix(".calibrated")
    quantize_static(path, made, Once())
    return run_onnxruntime(made, inputs)


def quantized_elements(path: Path) -> int:
    """How many elements of weights quantize_dynamic has made integers."""
    model = onnx.load(path.with_suffix(".quantized"))
    small = (onnx.TensorProto.INT8, onnx.TensorProto.UINT8)
    return sum(int(np.prod(i.dims)) for i in model.graph.initializer if i.data_type in small)


def run_preprocessed(path: Path, inputs: Arrays) -> Arrays:
    """onnxruntime's quant_pre_process, symbolic shape inference included, then onnxruntime."""
    from onnxruntime.quantization.shape_inference import quant_pre_process

    made = path.with_suffix(".preprocessed")
    quant_pre_process(path, made, auto_merge=True)
    return run_onnxruntime(made, inputs)


def run_pair(path: Path, inputs: Arrays) -> Arrays:
    """Tools that read the weights beside a file by themselves: quant_pre_process, and onnxruntime's optimizer."""
    import onnxruntime
    from onnxruntime.transformers.optimizer import optimize_model

    optimize_model(str(path), opt_level=0).save_model_to_file(str(path.with_suffix(".fused")))
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.optimized_model_filepath = str(path.with_suffix(".optimized"))
    onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    run_onnxruntime(path.with_suffix(".fused"), inputs)
    return run_preprocessed(path, inputs)


def run_inferred(path: Path, inputs: Arrays) -> Arrays:
    """onnxruntime's symbolic shape inference, which must follow every value, then onnxruntime."""
    from onnxruntime.tools.symbolic_shape_infer import SymbolicShapeInference

    model = SymbolicShapeInference.infer_shapes(onnx.load(path), auto_merge=True)
    made = path.with_suffix(".inferred")
    onnx.save(model, made)
    return run_onnxruntime(made, inputs)


def run_checked(path: Path, inputs: Arrays) -> Arrays:
    """onnx's checker with its strict shape inference, then onnxruntime."""
    onnx.checker.check_model(path, full_check=True)
    onnx.shape_inference.infer_shapes(onnx.load(path), strict_mode=True, data_prop=True)
    return run_onnxruntime(path, inputs)


def run_onnxsim(path: Path, inputs: Arrays) -> Arrays:
    """Simplify with onnxsim, then onnxruntime."""
    import onnxsim

    simplified, _ = onnxsim.simplify(onnx.load(path))
    made = path.with_suffix(".simplified")
    onnx.save(simplified, made)
    return run_onnxruntime(made, inputs)


def run_onnxslim(path: Path, inputs: Arrays) -> Arrays:
    """Simplify with onnxslim, then onnxruntime."""
    import onnxslim

    made = path.with_suffix(".slim")
    onnx.save(onnxslim.slim(onnx.load(path)), made)
    return run_onnxruntime(made, inputs)


READERS: dict[str, Reader] = {
    "onnxruntime": run_onnxruntime,
    "checker": run_checked,
    "shapes": run_inferred,
    "openvino": run_openvino,
    "opencv": run_opencv,
    "tract": run_tract,
    "mnn": run_mnn,
    "ncnn": run_ncnn,
    "quantize": run_quantized,
    "calibrate": run_calibrated,
    "preprocess": run_preprocessed,
    "pair": run_pair,
    "onnxsim": run_onnxsim,
    "onnxslim": run_onnxslim,
}
