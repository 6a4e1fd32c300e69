"""Public functions as users call them wrongly, each with what the error says of it; rows of the table of programs."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import torch
from failing_programs import Net, Pair, X, says, twist, twisted
from torch import nn
from torch.export import Dim

import onnxport
from onnxport import verification

RELU = Net(torch.relu)


class Sum(nn.Module):
    def forward(self, parts: Any) -> Any:
        return parts[0] + parts[1]


# Arguments of export of another type than they are.


@says("export has no argument 'opset'; did you mean opset_version?")
def an_argument_that_is_not_there(folder: Path) -> None:
    onnxport.export(RELU, (X,), opset=17)  # type: ignore[call-arg]  # here


@says("`kwargs` is an object of type list", '{"mask": mask}')
def keywords_as_a_list(folder: Path) -> None:
    onnxport.export(Pair(), (X,), kwargs=[X])  # type: ignore[arg-type]  # here


@says("`input_names` is 'xy'; write a list of names")
def one_text_for_names(folder: Path) -> None:
    onnxport.export(Pair(), (X, X), input_names="xy")  # here


@says("`output_names` is ['']; write a list of names")
def an_empty_name(folder: Path) -> None:
    onnxport.export(RELU, (X,), output_names=[""])  # here


@says("Arguments of export", "`input_names` is [1]", "`dynamic_axes` is ['x']; write a dict by input name")
def two_arguments_at_once(folder: Path) -> None:
    onnxport.export(RELU, (X,), input_names=[1], dynamic_axes=["x"])  # type: ignore[arg-type]  # here


@says("`verify` is 'yes'; write True or False")
def a_word_for_a_truth(folder: Path) -> None:
    onnxport.export(RELU, (X,), verify="yes")  # type: ignore[arg-type]  # here


@says("`args` is 'model.onnx'; write the example inputs, as in (x,), and the file after them")
def a_file_for_the_inputs(folder: Path) -> None:
    onnxport.export(RELU, "model.onnx")  # here


@says("dynamic_axes names axis 5 of the output 'y', which has 2 axes")
def an_axis_that_the_output_has_not(folder: Path) -> None:
    axes = {"x": {0: "n"}, "y": {5: "n"}}
    onnxport.export(nn.ReLU(), (X,), input_names=["x"], output_names=["y"], dynamic_axes=axes)  # here


@says("`quantize` is 8", "'int8'")
def a_number_for_a_scheme(folder: Path) -> None:
    onnxport.export(RELU, (X,), quantize=8)  # type: ignore[arg-type]  # here


@says("There is no quantization 'int3'; did you mean 'int8'?")
def an_unknown_scheme(folder: Path) -> None:
    onnxport.export(RELU, (X,), quantize="int3")  # here


@says("`custom_translation_table` is", "{torch.ops.mylib.op: translation}")
def translations_as_a_list(folder: Path) -> None:
    onnxport.export(RELU, (X,), custom_translation_table=[torch.relu])  # type: ignore[arg-type]  # here


@says("`training` is 9", "EVAL, PRESERVE or TRAINING")
def an_unknown_mode(folder: Path) -> None:
    onnxport.export(RELU, (X,), training=9)  # here


@says("`custom_opsets` is {'mylib': '1'}", '{"mylib": 1}')
def a_version_as_text(folder: Path) -> None:
    onnxport.export(RELU, (X,), custom_opsets={"mylib": "1"})  # type: ignore[arg-type]  # here


@says("`artifacts_dir` is None", "the path of a folder")
def no_folder_for_a_report(folder: Path) -> None:
    onnxport.export(RELU, (X,), report=True, artifacts_dir=None)  # type: ignore[arg-type]  # here


@says("IR version 99 cannot be written", "from 3 to")
def a_format_too_new(folder: Path) -> None:
    onnxport.export(RELU, (X,), ir_version=99)  # here


@says("Opset 99 cannot be written", "from 7 to")
def an_opset_too_new(folder: Path) -> None:
    onnxport.export(RELU, (X,), opset_version=99)  # here


@says("need opset 15 or newer, not 11", "opset_version=15")
def functions_in_an_old_opset(folder: Path) -> None:
    onnxport.export(RELU, (X,), export_modules_as_functions=True, opset_version=11)  # here


# Dynamic shapes of another structure than the inputs.


@says("expected a dict by parameter name, or a tuple with 1 entries, got 'batch'")
def a_name_for_all_shapes(folder: Path) -> None:
    onnxport.export(RELU, (X,), dynamic_shapes="batch")  # type: ignore[arg-type]  # here


@says("has 0, but the inputs are 'x'", "a tuple with one entry for each input")
def axes_without_an_input(folder: Path) -> None:
    onnxport.export(RELU, (X,), dynamic_shapes={0: "batch"})  # type: ignore[arg-type]  # here


@says("At parts: expected a list or tuple with 2 entries, because the input is a list", "got a dict with keys 0")
def axes_of_a_list(folder: Path) -> None:
    onnxport.export(Sum(), ([X, X],), dynamic_shapes={"parts": {0: "batch"}})  # here


@says("At parts: expected a list or tuple with 2 entries", "got a list with 1 entries")
def axes_of_half_a_list(folder: Path) -> None:
    onnxport.export(Sum(), ([X, X],), dynamic_shapes={"parts": [{0: "batch"}]})  # here


@says("expected a name, a Dim", "got <class 'torch.export.dynamic_shapes.Dim'>")
def the_class_of_dims(folder: Path) -> None:
    onnxport.export(RELU, (X,), dynamic_shapes=({0: Dim},))  # here


@says("for the integer input 'n'", "got {0: 'm'}")
def axes_of_a_number(folder: Path) -> None:
    class Times(nn.Module):
        def forward(self, x: Any, n: Any) -> Any:
            return x * n

    onnxport.export(Times(), (X, 3), dynamic_shapes=({0: "n"}, {0: "m"}))  # here


@says("has axis 0 of input 'input' fixed at 3", "Export the program with that axis dynamic")
def axes_of_a_captured_program(folder: Path) -> None:
    captured = torch.export.export(nn.Linear(4, 2), (X,))
    onnxport.export(captured, (X,), dynamic_shapes=({0: "n"},))  # here


# Models that do what no file can.


@says("AssertionError: seven rows", "The model's own code raises this")
def an_assertion_that_fails(folder: Path) -> None:
    def forward(x: Any) -> Any:
        assert x.shape[0] == 7, "seven rows"  # here
        return x

    onnxport.export(Net(forward), (X,))


@says("Refused: ('width', 3)", "The model's own code raises this")
def an_exception_of_the_users(folder: Path) -> None:
    class Refused(Exception):
        def __init__(self, what: str, size: int) -> None:
            super().__init__(what, size)

    def forward(x: Any) -> Any:
        raise Refused("width", 3)  # here

    onnxport.export(Net(forward), (X,))


@says("asks for a device that this machine or this build of torch does not have", "device=x.device")
def a_device_that_is_none(folder: Path) -> None:
    def forward(x: Any) -> Any:
        return x.to("gpu") * 2  # here

    onnxport.export(Net(forward), (X,))


@says("asks for a device that this machine", "as .cuda() does")
def a_device_that_is_not_there(folder: Path) -> None:
    if torch.cuda.is_available():
        raise onnxport.errors.CaptureError("asks for a device that this machine has, as .cuda() does  # here")

    def forward(x: Any) -> Any:
        return x.cuda() * 2  # here

    onnxport.export(Net(forward), (X,))


@says("KeyError: 'ONNXPORT_NOT_SET'")
def a_variable_that_is_not_set(folder: Path) -> None:
    def forward(x: Any) -> Any:
        return x * float(os.environ["ONNXPORT_NOT_SET"])  # here

    onnxport.export(Net(forward), (X,))


@says("has no forward", "Define forward(self, ...)")
def a_model_without_forward(folder: Path) -> None:
    onnxport.export(nn.Module(), (X,))  # here


@says("nested tensor, which ONNX has not", "padded tensor")
def a_nested_tensor(folder: Path) -> None:
    onnxport.export(RELU, (torch.nested.nested_tensor([X, X[:2]]),))  # here


@says("output is a list whose length varies", "torch.stack(items)")
def a_list_of_as_many_outputs_as_rows(folder: Path) -> None:
    def forward(x: Any) -> Any:
        return list(x.unbind(0))

    onnxport.export(Net(forward), (X,), dynamic_shapes=({0: "n"},))  # here


@says("output is a list whose length varies", "torch.stack(items)")
def rows_of_an_axis_that_varies_as_outputs(folder: Path) -> None:
    onnxport.export(Net(lambda x: x.unbind(0)), (X,), dynamic_shapes=({0: "n"},))  # here


@says("output is of type set", "Return tensors")
def a_set_as_an_output(folder: Path) -> None:
    onnxport.export(Net(lambda x: {x + 1}), (X,))  # here


@says("aten.linalg_eig.default has no translation", "def linalg_eig(op, self)")
def an_operator_that_onnx_has_not(folder: Path) -> None:
    class Values(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.linalg.eigvals(x @ x.T).real  # here

    onnxport.export(Values(), (X,))


@says("Constant needs one of value, value_float")
def a_constant_without_a_value(folder: Path) -> None:
    def translation(op: Any, x: Any, turns: int, scale: float) -> Any:
        return op.Mul(x, op.Constant())  # here

    onnxport.export(Net(twisted), (X,), custom_translation_table={twist: translation})


# Files that can't be written.


@says("The destination must be a path or an open binary file, not an object of type int")
def a_number_for_a_file(folder: Path) -> None:
    onnxport.export(RELU, (X,), 5)  # type: ignore[arg-type]  # here


@says("it is open for text", 'mode "wb"')
def a_file_open_for_text(folder: Path) -> None:
    onnxport.export(RELU, (X,), io.StringIO())  # type: ignore[arg-type]  # here


@says("it is open for reading only", 'mode "wb"')
def a_file_open_for_reading(folder: Path) -> None:
    (folder / "model.onnx").write_bytes(b"")
    with (folder / "model.onnx").open("rb") as file:
        onnxport.export(RELU, (X,), file)  # here


@says("it is closed")
def a_file_that_is_closed(folder: Path) -> None:
    file = io.BytesIO()
    file.close()
    onnxport.export(RELU, (X,), file)  # here


@says("/proc/model.onnx failed: No such file or directory", "untouched")
def a_place_that_takes_no_files(folder: Path) -> None:
    if not Path("/proc/self").exists():
        raise onnxport.errors.SaveError("/proc/model.onnx failed: No such file or directory, and untouched  # here")
    onnxport.export(RELU, (X,), "/proc/model.onnx")  # here


# Programs, verification and what stands beside export.


@says("y: expected a tensor, got a NumPy array float32 [3, 4]", "torch.as_tensor(array)")
def a_call_with_an_array(folder: Path) -> None:
    onnxport.export(Pair(), (X, X))(X, np.zeros((3, 4), np.float32))  # here


@says("Weights are a state dict, or paths of safetensors files", "list")
def weights_as_numbers(folder: Path) -> None:
    onnxport.export(nn.Linear(4, 2), (X,)).apply_weights([1])  # type: ignore[list-item]  # here


@says("the program that export() returned, not an object of type str", "onnxport verify FILE")
def a_path_to_look_for_differences(folder: Path) -> None:
    verification.find_mismatch("model.onnx")  # type: ignore[arg-type]  # here


@says("y: missing")
def verification_without_an_input(folder: Path) -> None:
    verification.verify_onnx_program(onnxport.export(Pair(), (X, X)), (X,))  # here


@says("No call was observed. Call the model inside `with observer(model):`")
def an_observer_that_saw_nothing(folder: Path) -> None:
    onnxport.InputObserver().infer_dynamic_shapes()  # here


@says("There is no folder", "absent")
def a_checkpoint_that_is_not_there(folder: Path) -> None:
    onnxport.export_pretrained(folder / "absent", folder / "out")  # here


@says("has no model.onnx", "export_pretrained")
def generation_from_an_empty_folder(folder: Path) -> None:
    onnxport.generation.Session(folder)  # here


@says("'relu' is not the name of an operator", '"mylib::op"')
def a_symbolic_function_without_a_namespace(folder: Path) -> None:
    onnxport.register_custom_op_symbolic("relu", lambda g, x: x, 17)  # here


@says("The symbolic function for mylib::op is 5, which can't be called")
def a_number_for_a_symbolic_function(folder: Path) -> None:
    onnxport.register_custom_op_symbolic("mylib::op", 5, 17)  # type: ignore[arg-type]  # here


# What only the model itself, a module of torch, can be blamed for; and what a symbolic function does wrong.


@says("must be equal to input_size. Expected 5, got 4", "at the model, an LSTM(5, 4)", "eager mode")
def sequences_of_another_width(folder: Path) -> None:
    onnxport.export(nn.LSTM(5, 4), (X,))  # here


@says("[2, 5] does not broadcast to [3, 4].")
def shapes_that_do_not_broadcast(folder: Path) -> None:
    onnxport.export(Pair(), (X, torch.ones(2, 5)))


@says("Shapes do not fit together: The size of tensor a must match the size of tensor b")
def axes_of_two_sizes_that_must_be_one(folder: Path) -> None:
    onnxport.export(Pair(), (torch.ones(4), torch.ones(12)), dynamic_shapes=({0: "a"}, {0: "b"}))


@says("(Dim 'a') and axis 0 of input 'y' (Dim 'b') to be equal", "Declare instead: a = Dim('a', min=4, max=8); b = a.")
def two_ranges_of_one_size(folder: Path) -> None:
    ranges = ({0: Dim("a", min=2, max=8)}, {0: Dim("b", min=4, max=20)})
    onnxport.export(Pair(), (torch.ones(6), torch.ones(6)), dynamic_shapes=ranges)  # here


@says("Shapes do not fit together: stack expects each tensor to be equal size", "[3, 4]")
def a_stack_of_two_shapes(folder: Path) -> None:
    onnxport.export(Net(lambda x: torch.stack([x, x[1:]])), (X,))  # here


@says("'x' is a nested tensor, which ONNX has not", "a padded tensor and the lengths")
def rows_of_several_lengths(folder: Path) -> None:
    rows = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)], layout=torch.jagged)
    onnxport.export(RELU, (rows,))  # here


@says("output is a coroutine", "`async`")
def a_forward_that_is_awaited(folder: Path) -> None:
    async def later(x: Any) -> Any:
        return x

    onnxport.export(Net(later), (X,))  # here


@says("Frob does not exist in opset 20", "mydomain::Frob")
def a_node_without_a_domain(folder: Path) -> None:
    def node(x: Any) -> Any:
        return onnxport.ops.symbolic("Frob", (x,), dtype=x.dtype, shape=x.shape, version=1)  # here

    onnxport.export(Net(node), (X,))


@says(
    "onnxport_words.twist.default",
    "missing 1 required positional argument: 'd'",
    "lambda g, a, b, c, d",
    "correct that function",
)
def a_symbolic_function_of_other_parameters(folder: Path) -> None:
    onnxport.register_custom_op_symbolic("onnxport_words::twist", lambda g, a, b, c, d: a, 9)  # here
    try:
        onnxport.export(Net(twisted), (X,))
    finally:
        onnxport.unregister_custom_op_symbolic("onnxport_words::twist", 9)


@says("weights.safetensors can't be read: No such file or directory.")
def weights_that_are_not_there(folder: Path) -> None:
    onnxport.export(RELU, (X,)).apply_weights(folder / "weights.safetensors")  # here
