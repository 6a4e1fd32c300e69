"""Programs as users get them wrong, each with what the error says of it.

The line that is to blame ends in ``# here``: the message, or the one frame above it, names that line.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.export import Dim

import onnxport

X = torch.linspace(-1, 1, 12).reshape(3, 4)
IDS = torch.tensor([[1, 2, 3]])


@dataclass(frozen=True)
class Program:
    """A program that fails, and pieces of what is said."""

    run: Callable[[Path], object]
    pieces: tuple[str, ...]


PROGRAMS: dict[str, Program] = {}


def says(*pieces: str) -> Callable[[Callable[[Path], object]], Callable[[Path], object]]:
    def register(program: Callable[[Path], object]) -> Callable[[Path], object]:
        PROGRAMS[program.__name__] = Program(program, pieces)
        return program

    return register


class Net(nn.Module):
    """A model of one function."""

    def __init__(self, function: Callable[..., object]) -> None:
        super().__init__()
        self.function = function
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return self.function(x)


class Pair(nn.Module):
    def forward(self, x: Any, y: Any) -> Any:
        return x + y


@torch.library.custom_op("onnxport_words::twist", mutates_args=())
def twist(x: torch.Tensor, turns: int, scale: float = 1.0) -> torch.Tensor:
    return x * turns * scale


@twist.register_fake
def _(x: torch.Tensor, turns: int, scale: float = 1.0) -> torch.Tensor:
    return torch.empty_like(x)


torch.library.define("onnxport_words::shapeless", "(Tensor x) -> Tensor")
torch.library.impl("onnxport_words::shapeless", "cpu", lambda x: x.clone())


def twisted(x: Any) -> Any:
    return twist(x, 2)


# What is passed for the model and its inputs.


@says("2 positional argument(s) were given", "forward takes 1", "Linear.forward(input)")
def too_many_inputs(folder: Path) -> None:
    onnxport.export(nn.Linear(4, 2), (X, X))  # here


@says("'y' is missing", "Pair.forward(x, y)")
def an_input_is_missing(folder: Path) -> None:
    onnxport.export(Pair(), (X,))  # here


@says("'mask' is not a parameter of forward")
def an_unknown_keyword(folder: Path) -> None:
    onnxport.export(Pair(), (X, X), kwargs={"mask": X})  # here


@says("'x' was given twice")
def an_input_given_twice(folder: Path) -> None:
    onnxport.export(Pair(), (X,), kwargs={"x": X, "y": X})  # here


@says("Linear(...)", "not the class")
def a_class_for_a_model(folder: Path) -> None:
    onnxport.export(nn.Linear, (X,))  # here


@says("not an object of type str", "torch.load")
def a_path_for_a_model(folder: Path) -> None:
    onnxport.export("model.pt", (X,))  # here


@says("OrderedDict", "load_state_dict")
def a_state_dict_for_a_model(folder: Path) -> None:
    onnxport.export(nn.Linear(4, 2).state_dict(), (X,))  # here


@says("a NumPy array", "torch.as_tensor(array)")
def an_array_for_an_input(folder: Path) -> None:
    onnxport.export(nn.Linear(4, 2), (X.numpy(),))


@says("needs a tensor, and what it is given is of type list", "torch.as_tensor")
def a_list_for_an_input(folder: Path) -> None:
    onnxport.export(nn.Linear(4, 2), ([1.0, 2.0, 3.0, 4.0],))


@says("numbers that are not integers", "x.long()")
def indices_that_are_no_integers(folder: Path) -> None:
    onnxport.export(nn.Sequential(nn.Embedding(9, 4)), (X,))


@says("Shapes do not fit together", "[3, 4] X [5, 2]", "the module '0', a Linear")
def an_input_of_another_width(folder: Path) -> None:
    onnxport.export(nn.Sequential(nn.Linear(5, 2)), (X,))


@says("takes operands of one type", "the input 'input' is float64", "0.weight is float32", "x.to(torch.float32)")
def an_input_of_another_type(folder: Path) -> None:
    onnxport.export(nn.Sequential(nn.Linear(4, 2)), (X.double(),))


@says("of type", "Settings", "register_pytree_node")
def an_object_for_an_input(folder: Path) -> None:
    class Settings:
        scale = 2

    class Scaled(nn.Module):
        def forward(self, x: Any, settings: Any) -> Any:
            return x * settings.scale

    onnxport.export(Scaled(), (X, Settings()))


@says("DataParallel has no ONNX form", "model.module")
def a_wrapped_model(folder: Path) -> None:
    onnxport.export(nn.DataParallel(nn.Linear(4, 2)), (X,), dynamo=False)  # here


@says("is a Generator", "Leave out `generator`")
def a_generator_for_an_input(folder: Path) -> None:
    class Noisy(nn.Module):
        def forward(self, x: Any, generator: Any) -> Any:
            return x + torch.rand(3, 4, generator=generator)  # here

    onnxport.export(Noisy(), (X, torch.Generator()))


# The axes that vary.


@says("has 'y', but the inputs are 'x'", "parameter names of forward")
def shapes_of_an_unknown_input(folder: Path) -> None:
    onnxport.export(Net(torch.relu), (X,), dynamic_shapes={"y": {0: "batch"}})  # here


@says("has 1 entries, but there are 2 inputs", "None for a static one")
def shapes_for_one_input_of_two(folder: Path) -> None:
    onnxport.export(Pair(), (X, X), dynamic_shapes=({0: "batch"},))  # here


@says("axis 5 is out of range", "has 2 axes", "[3, 4]")
def an_axis_that_is_not_there(folder: Path) -> None:
    onnxport.export(Net(torch.relu), (X,), dynamic_shapes=({5: "batch"},))  # here


@says("'n' names two sizes", "axis 0 of input 'x' is 3", "axis 1 of input 'x' is 4", "different names")
def one_name_for_two_sizes(folder: Path) -> None:
    onnxport.export(Net(torch.relu), (X,), dynamic_shapes=({0: "n", 1: "n"},))  # here


@says("Axis 0 of input 'x'", "the Dim 'batch', from 10 on", "example has 3", "Dim('batch', min=3)")
def a_range_without_the_example(folder: Path) -> None:
    onnxport.export(Net(torch.relu), (X,), dynamic_shapes=({0: Dim("batch", min=10)},))  # here


@says("Axis 0 of input 'x' was declared dynamic as 'batch'", "forces it to be 3", "Dim.AUTO")
def a_size_that_the_model_forces(folder: Path) -> None:
    def forward(x: Any) -> Any:
        return x.reshape(4, 3) + 1  # here

    onnxport.export(Net(forward), (X,), dynamic_shapes=({0: "batch"},))


@says("axis 0 of input 'x' (Dim 'rows')", "axis 0 of input 'y' (Dim 'lines')", "one Dim for both")
def two_dims_that_must_be_equal(folder: Path) -> None:
    onnxport.export(Pair(), (X, X), dynamic_shapes=({0: Dim("rows")}, {0: Dim("lines")}))


@says("needs n <= 8 for axis 0 of input 'x' (Dim 'n', n <= 64)", "n = Dim('n', max=8)")
def a_range_wider_than_the_model(folder: Path) -> None:
    def forward(x: Any) -> Any:
        torch._check(x.shape[0] <= 8)
        return x + 1

    onnxport.export(Net(forward), (X,), dynamic_shapes=({0: Dim("n", max=64)},))


@says("dynamic_axes names 'image'", "Inputs: 'x'")
def axes_of_an_unknown_name(folder: Path) -> None:
    onnxport.export(Net(torch.relu), (X,), dynamic_axes={"image": {0: "batch"}})  # here


@says("For 'x': expected a dict from axis to name, or a list of axes")
def axes_of_another_form(folder: Path) -> None:
    onnxport.export(Net(torch.relu), (X,), dynamic_axes={"x": "batch"})  # here


@says("expected a name, a Dim", "got 2.5")
def a_size_that_is_no_dimension(folder: Path) -> None:
    onnxport.export(Net(torch.relu), (X,), dynamic_shapes=({0: 2.5},))  # here


@says("declared to be 7, but the example has 3")
def a_number_that_the_example_has_not(folder: Path) -> None:
    onnxport.export(Net(torch.relu), (X,), dynamic_shapes=({0: 7},))  # here


@says("Axis 0 of input 'x'", "the Dim '2*half'", "example has 3", "2, 4, 6")
def a_multiple_that_the_example_is_not(folder: Path) -> None:
    onnxport.export(Net(torch.relu), (X,), dynamic_shapes=({0: 2 * Dim("half")},))  # here


# Options.


@says("opset", "3", "7")
def an_opset_too_old(folder: Path) -> None:
    onnxport.export(Net(torch.relu), (X,), opset_version=3)  # here


@says("opset_version must be an int, not 'latest'")
def an_opset_by_word(folder: Path) -> None:
    onnxport.export(Net(torch.relu), (X,), opset_version="latest")  # here


@says("IR version", "2")
def a_format_too_old(folder: Path) -> None:
    onnxport.export(Net(torch.relu), (X,), ir_version=2)  # here


@says("There is no target 'onnxruntim'", "onnxruntime")
def an_unknown_target(folder: Path) -> None:
    onnxport.export(Net(torch.relu), (X,), target="onnxruntim")  # here


@says("`branches` is 'maybe'", "export", "follow", "refuse")
def an_unknown_choice_for_branches(folder: Path) -> None:
    onnxport.export(Net(torch.relu), (X,), branches="maybe")  # here


@says("`branch_limit` is 0", "how many ways", "from 1 on")
def no_way_at_all(folder: Path) -> None:
    onnxport.export(Net(torch.relu), (X,), branch_limit=0)  # here


@says("metadata", "'some'", "full", "names", "none")
def an_unknown_amount_of_metadata(folder: Path) -> None:
    onnxport.export(Net(torch.relu), (X,), metadata="some")  # here


@says("no bfloat16 in opset 11", "pass opset_version=13")
def a_type_that_the_opset_has_not(folder: Path) -> None:
    def forward(x: Any) -> Any:
        return x.to(torch.bfloat16)  # here

    onnxport.export(Net(forward), (X,), opset_version=11)


@says("output_names repeats 'y'", "once")
def one_name_for_two_outputs(folder: Path) -> None:
    onnxport.export(Net(lambda x: (x + 1, x + 2)), (X,), output_names=["y", "y"])  # here


@says("`output_names` has 2 names (a, b), but the model has 1 output")
def more_names_than_outputs(folder: Path) -> None:
    onnxport.export(Net(torch.relu), (X,), output_names=["a", "b"])  # here


@says("x in `output_names` is the name of an input")
def an_output_with_the_name_of_an_input(folder: Path) -> None:
    onnxport.export(Net(torch.relu), (X,), output_names=["x"])  # here


@says("input_names has 9 names, but the model has 1 input")
def more_names_than_inputs(folder: Path) -> None:
    onnxport.export(nn.Linear(4, 2), (X,), input_names=list("abcdefghi"))  # here


@says("The code decides by data", "torch.where")
def a_branch_that_is_refused(folder: Path) -> None:
    def forward(x: Any) -> Any:
        if x.sum() > 0:  # here
            return x + 1
        return x - 1

    onnxport.export(Net(forward), (X,), branches="refuse")


# Operators without a translation, and translations that are wrong.


@says(
    "onnxport_words.twist",
    "custom_translation_table",
    "def twist(op, x, turns, scale=1.0):",
    "{torch.ops.onnxport_words.twist: twist}",
)
def an_operator_without_a_translation(folder: Path) -> None:
    def forward(x: Any) -> Any:
        return twist(x, 2)  # here

    onnxport.export(Net(forward), (X,))


@says("`angle`, which the operator has not", "def twist(op, x, turns, scale=1.0):")
def a_translation_of_other_parameters(folder: Path) -> None:
    def translation(op: Any, x: Any, *, angle: float) -> Any:
        return op.Mul(x, angle)

    onnxport.export(Net(twisted), (X,), custom_translation_table={twist: translation})


@says("ZeroDivisionError: division by zero")
def a_translation_that_raises(folder: Path) -> None:
    def translation(op: Any, x: Any, turns: int, scale: float) -> Any:
        return op.Mul(x, turns / 0)  # here

    onnxport.export(Net(twisted), (X,), custom_translation_table={twist: translation})


@says("returned None", "return the tensor")
def a_translation_that_returns_nothing(folder: Path) -> None:
    def translation(op: Any, x: Any, turns: int, scale: float) -> None:
        op.Mul(x, x)

    onnxport.export(Net(twisted), (X,), custom_translation_table={twist: translation})


@says("Multiply is no operator of opset 23; did you mean Mul")
def a_translation_with_an_unknown_operator(folder: Path) -> None:
    def translation(op: Any, x: Any, turns: int, scale: float) -> Any:
        return op.Multiply(x, x)  # here

    onnxport.export(Net(twisted), (X,), custom_translation_table={twist: translation})


@says("Softmax has no attribute 'dim'; it has axis")
def a_translation_with_an_unknown_attribute(folder: Path) -> None:
    def translation(op: Any, x: Any, turns: int, scale: float) -> Any:
        return op.Softmax(x, dim=1)  # here

    onnxport.export(Net(twisted), (X,), custom_translation_table={twist: translation})


@says("A key of `custom_translation_table` is an operator such as torch.ops.mylib.op", "'twist'")
def a_key_that_is_no_operator(folder: Path) -> None:
    onnxport.export(Net(twisted), (X,), custom_translation_table={"twist": lambda op, x: x})  # here


@says("A value of `custom_translation_table` is a function", "'Mul'")
def a_value_that_is_no_function(folder: Path) -> None:
    onnxport.export(Net(twisted), (X,), custom_translation_table={twist: "Mul"})  # here


@says("onnxport_words.shapeless", "def shapeless(op, x):")
def an_operator_without_a_fake_kernel(folder: Path) -> None:
    def forward(x: Any) -> Any:
        return torch.ops.onnxport_words.shapeless(x)  # here

    onnxport.export(Net(forward), (X,))


# What Python does with values.


@says("does not depend on input 'x'", "torch operators")
def numpy_in_forward(folder: Path) -> None:
    def forward(x: Any) -> Any:
        return torch.tensor(np.interp(x.numpy(), [0.0, 1.0], [0.0, 2.0]))  # here

    onnxport.export(Net(forward), (X,))


@says("does not depend on input 'x'", "torch operators")
def a_result_computed_beside_the_graph(folder: Path) -> None:
    def forward(x: Any) -> Any:
        values = np.array(x.tolist())
        return torch.tensor(values * 2)

    onnxport.export(Net(forward), (X,))


@says("only at run time", "torch._check")
def a_size_by_value(folder: Path) -> None:
    def forward(x: Any) -> Any:
        return next(iter(x[x > 0].split(2)))  # here

    onnxport.export(Net(forward), (X,))


# What is returned.


@says("output[1] is of type str", "'done'", "leave this value out")
def text_as_an_output(folder: Path) -> None:
    onnxport.export(Net(lambda x: (x + 1, "done")), (X,))


@says("returns no tensor", "None", "Return at least one tensor")
def nothing_as_an_output(folder: Path) -> None:
    onnxport.export(Net(lambda x: None), (X,))


@says("output is of type", "Path", "Return tensors")
def an_object_as_an_output(folder: Path) -> None:
    onnxport.export(Net(lambda x: Path("x")), (X,))


# Models that fail by themselves.


@says("ValueError: the width must be 8", "eager")
def a_model_that_raises(folder: Path) -> None:
    def forward(x: Any) -> Any:
        if x.shape[1] != 8:
            raise ValueError("the width must be 8")  # here
        return x

    onnxport.export(Net(forward), (X,))


@says("Tensors have no attribute 'lenght'")
def a_misspelt_attribute(folder: Path) -> None:
    def forward(x: Any) -> Any:
        return x.lenght()  # here

    onnxport.export(Net(forward), (X,))


@says("AttributeError", "'Broken' object has no attribute 'missing'")
def a_missing_layer(folder: Path) -> None:
    class Broken(Net):
        def forward(self, x: Any) -> Any:
            return self.missing(x)  # here

    onnxport.export(Broken(torch.relu), (X,))


@says("reads a file", "Load it in __init__")
def a_missing_file(folder: Path) -> None:
    def forward(x: Any) -> Any:
        return x + float((folder / "scale.txt").read_text())  # here

    onnxport.export(Net(forward), (X,))


@says("different devices", "device=x.device")
def two_devices(folder: Path) -> None:
    def forward(x: Any) -> Any:
        return x + torch.ones(4, device="meta")  # here

    onnxport.export(Net(forward), (X,))


@says("writes in place to a parameter", "weight = weight + 1")
def a_write_to_a_parameter(folder: Path) -> None:
    class Writing(Net):
        def forward(self, x: Any) -> Any:
            self.linear.weight.add_(1)  # here
            return self.linear(x)

    onnxport.export(Writing(torch.relu), (X,))


@says("calls itself without end", "loop of fixed length")
def an_endless_recursion(folder: Path) -> None:
    def forward(x: Any) -> Any:
        return forward(x) + 1  # here

    onnxport.export(Net(forward), (X,))


@says("An index lies outside", "index 10 is out of bounds for dimension 1 with size 4", "shape of the example input")
def an_index_out_of_range(folder: Path) -> None:
    def forward(x: Any) -> Any:
        return x[:, 10]  # here

    onnxport.export(Net(forward), (X,))


@says("An index lies outside", "expected to be in range of [-2, 1], but got 2")
def a_dimension_out_of_range(folder: Path) -> None:
    def forward(x: Any) -> Any:
        return x.permute(0, 1, 2)  # here

    onnxport.export(Net(forward), (X,))


@says("The index 7 lies outside an axis of size 4.", "Indices of that axis are 0 to 3.")
def constant_indices_out_of_range(folder: Path) -> None:
    def forward(x: Any) -> Any:
        return x.index_select(1, torch.tensor([0, 7])).sum(1)  # here

    onnxport.export(Net(forward), (X,), dynamic_shapes=({0: "n"},))


@says("the mask has a size of 3 where the tensor has 4")
def a_mask_of_another_width(folder: Path) -> None:
    def forward(x: Any) -> Any:
        return x.masked_select(torch.tensor([True, False, True]))  # here

    onnxport.export(Net(forward), (X,), dynamic_shapes=({0: "n"},))


# Scripts.


class Scripted(nn.Module):
    def forward(self, x: torch.Tensor, n: int) -> torch.Tensor:
        if n > 2:
            raise RuntimeError("n is at most 2")
        return x * n


@says("n is at most 2")
def a_script_that_raises(folder: Path) -> None:
    onnxport.export(torch.jit.script(Scripted()), (X, 3))


@says("'n' is missing")
def a_script_without_an_input(folder: Path) -> None:
    onnxport.export(torch.jit.script(Scripted()), (X,))  # here


# Files.


@says("absent does not exist", "Create it first")
def a_folder_that_is_not_there(folder: Path) -> None:
    onnxport.export(nn.ReLU(), (X,), folder / "absent" / "model.onnx")  # here


@says("it is a folder", "Name a file in it")
def a_folder_for_a_file(folder: Path) -> None:
    onnxport.export(nn.ReLU(), (X,), folder)  # here


@says("is not a folder")
def a_file_for_a_folder(folder: Path) -> None:
    (folder / "file").write_text("")
    onnxport.export(nn.ReLU(), (X,), folder / "file" / "model.onnx")  # here


@says("external_data=True needs a path")
def data_beside_an_open_file(folder: Path) -> None:
    onnxport.export(nn.ReLU(), (X,)).save(io.BytesIO(), external_data=True)  # here


@says("weight", "meta", "apply_weights")
def weights_without_values(folder: Path) -> None:
    with torch.device("meta"):
        model = nn.Linear(4, 2)
    onnxport.export(model, (X.to("meta"),), folder / "model.onnx")  # here


# Using the program.


@says("input: dimension 0 is fixed at 3, got 5", "Declare the dimension dynamic")
def a_call_of_another_size(folder: Path) -> None:
    program = onnxport.export(nn.Linear(4, 2), (X,))
    program(torch.ones(5, 4))  # here


@says("input: expected torch.float32, got torch.float64")
def a_call_of_another_type(folder: Path) -> None:
    program = onnxport.export(nn.Linear(4, 2), (X,))
    program(X.double())  # here


@says("y: missing")
def a_call_without_an_input(folder: Path) -> None:
    program = onnxport.export(Pair(), (X, X))
    program(X)  # here


@says("no values of these names", "'relux'", "did you mean 'relu'")
def a_value_that_is_not_there(folder: Path) -> None:
    program = onnxport.export(Net(lambda x: torch.relu(x) + 1), (X,))
    program.compute_values(["relux"], (X,))  # here


@says("weight: the model has the shape [2,4], the state dict [3,4]")
def weights_of_another_shape(folder: Path) -> None:
    program = onnxport.export(nn.Linear(4, 2), (X,))
    program.apply_weights(nn.Linear(4, 3).state_dict())  # here


@says("no axes of these names", "'batsh'", "did you mean 'batch'")
def an_axis_of_an_unknown_name(folder: Path) -> None:
    program = onnxport.export(nn.Linear(4, 2), (X,), dynamic_shapes=({0: "batch"},))
    program.rename_axes({"batsh": "n"})  # here
