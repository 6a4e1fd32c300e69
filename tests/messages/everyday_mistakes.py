"""Models, inputs and translations as they are first written, each with what the error says; rows of the table."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from failing_programs import Net, Pair, X, says, twist, twisted
from torch import nn

import onnxport

RELU = Net(torch.relu)
TWIST = torch.ops.onnxport_words.twist.default


class Batch(nn.Module):
    def forward(self, batch: Any) -> Any:
        return batch["a"] + batch["b"]


class Stateful(nn.Module):
    def forward(self, x: Any, state: Any) -> Any:
        return x + state[0][0], state[0][1] * 2


def eigenvalues(x: Any) -> Any:
    return torch.linalg.eigvals(x[:, :3]).real  # here


def rotated(x: Any) -> Any:
    return twist(x, 3)


@says("The script LSTM has no method `forward`", "export the module itself")
def script_of_a_layer_with_overloads(folder: Path) -> None:
    onnxport.export(torch.jit.script(nn.LSTM(4, 3)), (torch.ones(5, 2, 4),), dynamo=False)  # here


# Shapes in another tree than the inputs.


@says("At batch: expected a dict with keys 'a', 'b'", "got a dict with keys 'a'")
def shapes_of_half_a_dict(folder: Path) -> None:
    onnxport.export(Batch(), ({"a": X, "b": X},), dynamic_shapes={"batch": {"a": {0: "n"}}})  # here


@says("At batch: expected a dict with keys 'a', 'b'", "got a dict with keys 'a', 'c'")
def shapes_by_another_key(folder: Path) -> None:
    shapes = {"batch": {"a": {0: "n"}, "c": {0: "n"}}}
    onnxport.export(Batch(), ({"a": X, "b": X},), dynamic_shapes=shapes)  # here


@says("At state: expected a list or tuple with 1 entries, because the input is a list", "got a dict with keys 0")
def flat_shapes_of_a_nested_input(folder: Path) -> None:
    onnxport.export(Stateful(), (X, [(X, X)]), dynamic_shapes=({0: "n"}, {0: "n"}))  # here


@says("At state[0]: expected a list or tuple with 2 entries", "got a tuple with 1 entries")
def shapes_of_half_a_pair(folder: Path) -> None:
    onnxport.export(Stateful(), (X, [(X, X)]), dynamic_shapes=({0: "n"}, [({0: "n"},)]))  # here


@says("got a list with 1 entries", "Write {0: 'name'}, with a name for each axis that varies.")
def a_list_of_axes(folder: Path) -> None:
    onnxport.export(RELU, (X,), dynamic_shapes=([0],))  # here


@says("axis '0' is no whole number; the input has 2 axes")
def an_axis_as_text(folder: Path) -> None:
    onnxport.export(RELU, (X,), dynamic_shapes=({"0": "n"},))  # here


@says("got 'batch'", "Write {0: 'batch'} for the first axis.")
def a_name_for_an_input(folder: Path) -> None:
    onnxport.export(RELU, (X,), dynamic_shapes={"x": "batch"})  # here


@says("expected a name, a Dim", "for axis 0 of input 'x', got True")
def a_truth_for_a_size(folder: Path) -> None:
    onnxport.export(RELU, (X,), dynamic_shapes={"x": {0: True}})  # here


@says("declared to be -1, but the example has 3", "A size that varies has a name: 'batch'.")
def minus_one_for_a_size(folder: Path) -> None:
    onnxport.export(RELU, (X,), dynamic_shapes={"x": {0: -1}})  # here


@says("or a tuple with 2 dimensions, got a tuple with 3 entries")
def more_dimensions_than_axes(folder: Path) -> None:
    onnxport.export(RELU, (X,), dynamic_shapes={"x": ("n", None, None)})  # here


@says("For 'x': expected a dict from axis to name, or a list of axes, got a dict with keys '0'")
def legacy_axes_as_text(folder: Path) -> None:
    onnxport.export(RELU, (X,), dynamic_axes={"x": {"0": "n"}})  # here


# Inputs that the model does not take.


@says("Shapes do not fit together", "Expected 3D (unbatched) or 4D (batched) input to conv2d", "[3, 4]")
def a_matrix_for_an_image(folder: Path) -> None:
    onnxport.export(nn.Conv2d(3, 8, 3), (X,))  # here


@says("to have 4 channels, but got 8 channels instead", "at the module '1', a Conv2d")
def layers_that_do_not_fit(folder: Path) -> None:
    onnxport.export(nn.Sequential(nn.Conv2d(3, 8, 1), nn.Conv2d(4, 8, 1)), (torch.randn(1, 3, 2, 2),))  # here


@says("the input 'input' is float32, 0.weight is float16", "at the module '0', a Linear", "x.to(torch.float16)")
def an_input_for_a_model_in_half(folder: Path) -> None:
    onnxport.export(nn.Sequential(nn.Linear(4, 4)).half(), (X,))  # here


@says("the input 'x' is float32, ones is int64", "Convert one of them on that line: ones.to(torch.float32).")
def whole_numbers_in_a_product(folder: Path) -> None:
    onnxport.export(Net(lambda x: x @ torch.ones(4, 4, dtype=torch.int64)), (X,))  # here


@says("Expected hidden[0] size (1, 1, 5), got [1, 3, 5]", "another shape than it takes")
def a_state_of_another_batch(folder: Path) -> None:
    state = (torch.zeros(1, 3, 5), torch.zeros(1, 3, 5))
    onnxport.export(nn.LSTM(4, 5, batch_first=True), (X[None], state))  # here


@says(
    "'y' is missing", "Pair.forward(x, y); given: (an object of type tuple)", "one entry for each positional argument"
)
def inputs_in_one_tuple_too_many(folder: Path) -> None:
    onnxport.export(Pair(), ((X, X),))  # here


@says("'x' is missing", "Net.forward(x); given: ()")
def no_inputs(folder: Path) -> None:
    onnxport.export(RELU)  # here


@says("2 positional argument(s) were given, but forward takes 1", "an object of type int")
def a_shape_for_an_input(folder: Path) -> None:
    onnxport.export(RELU, (3, 4))  # here


@says("needs a tensor, and what it is given is of type str")
def text_for_an_input(folder: Path) -> None:
    onnxport.export(RELU, ("hello",))  # here


@says("not an object of type NoneType", "torch.nn.Module")
def no_model(folder: Path) -> None:
    onnxport.export(None, (X,))  # type: ignore[arg-type]  # here


@says("not an object of type tuple", "torch.nn.Module")
def model_and_inputs_swapped(folder: Path) -> None:
    onnxport.export((X,), RELU)  # type: ignore[arg-type]  # here


@says("not an object of type list", "torch.nn.Module")
def a_list_for_a_model(folder: Path) -> None:
    onnxport.export([nn.Linear(4, 4)], (X,))  # type: ignore[arg-type]  # here


@says("ModuleList could not be captured", "has no forward")
def layers_without_a_forward(folder: Path) -> None:
    onnxport.export(nn.ModuleList([nn.Linear(4, 4)]), (X,))  # here


@says("more than one value to take the mean of", "the module '0', a BatchNorm1d", "model.eval()")
def one_value_in_training_mode(folder: Path) -> None:
    onnxport.export(nn.Sequential(nn.BatchNorm1d(4)).train(), (X[:1],), training=onnxport.TrainingMode.TRAINING)  # here


# What the code of a model does.


@says("aten.linalg_eig.default has no translation", "in eigenvalues:", "def linalg_eig(op, self)")
def an_unknown_operator_in_a_helper(folder: Path) -> None:
    onnxport.export(Net(lambda x: eigenvalues(x * 2)), (X,))


@says("onnxport_words.twist.default has no translation", "in rotated: return twist(x, 3)", "def twist(op, x, turns")
def a_custom_operator_in_a_helper(folder: Path) -> None:
    onnxport.export(Net(lambda x: rotated(x) + 1), (X,))


@says("A view of a tensor needs its elements in memory", "reshape(...) instead of view(...)")
def a_view_of_what_is_transposed(folder: Path) -> None:
    onnxport.export(Net(lambda x: x.t().view(-1)), (X,))  # here


@says("Shapes do not fit together: shape '[5, -1]' is invalid for input of size 12")
def a_view_that_does_not_divide(folder: Path) -> None:
    onnxport.export(Net(lambda x: x.view(5, -1)), (X,))  # here


@says("Sizes of tensors must match except in dimension 0")
def joined_tensors_of_two_widths(folder: Path) -> None:
    onnxport.export(Net(lambda x: torch.cat([x, x.new_zeros(3, 5)])), (X,))  # here


@says("einsum(): output subscript l does not appear")
def letters_that_einsum_does_not_know(folder: Path) -> None:
    onnxport.export(Net(lambda x: torch.einsum("ij,kj->ikl", x, x)), (X,))  # here


@says("The name functional is not defined", "Define or import it")
def a_name_that_is_not_imported(folder: Path) -> None:
    onnxport.export(Net(lambda x: functional.relu(x)), (X,))  # type: ignore[name-defined]  # noqa: F821  # here


@says("aten._to_sparse.default has no translation", "ONNX has dense tensors only")
def a_sparse_output(folder: Path) -> None:
    onnxport.export(Net(lambda x: x.to_sparse()), (X,))  # here


@says("output['label'] is of type str: 'cat'", "leave this value out")
def text_in_a_dict_of_outputs(folder: Path) -> None:
    onnxport.export(Net(lambda x: {"y": x, "label": "cat"}), (X,))  # here


@says("output is of type Normal", "Return tensors")
def a_distribution_as_an_output(folder: Path) -> None:
    onnxport.export(Net(lambda x: torch.distributions.Normal(x, 1.0)), (X,))  # here


@says("output is a generator", "Return tuple(...) of it")
def a_forward_that_yields(folder: Path) -> None:
    class Yielding(nn.Module):
        def forward(self, x: torch.Tensor) -> Iterator[torch.Tensor]:
            yield x
            yield x * 2

    onnxport.export(Yielding(), (X,))  # here


@says("RuntimeError: too large", "The model's own code raises this", "in refuse:")
def a_hook_that_raises(folder: Path) -> None:
    def refuse(module: nn.Module, inputs: object, output: object) -> None:
        raise RuntimeError("too large")  # here

    model = nn.Sequential(nn.Linear(4, 4))
    model[0].register_forward_hook(refuse)
    onnxport.export(model, (X,))


@says("writes through a view that shows an element several times", "build the result with torch.where")
def a_write_to_what_is_expanded(folder: Path) -> None:
    onnxport.export(Net(lambda x: x[:1].expand(3, 4).add_(1)), (X,))  # here


@says("repeats a decision on data", "torch.while_loop")
def a_recursion_on_data(folder: Path) -> None:
    def halved(x: Any) -> Any:
        return halved(x * 0.5) if x.sum() > 0 else x  # here

    onnxport.export(Net(halved), (X,))


# Translations and symbolic functions that are wrong.


@says("`unfit` of onnxport_words.twist.default emits what ONNX does not take: Mul: B has inconsistent type", "correct")
def a_translation_of_two_types(folder: Path) -> None:
    def unfit(op: Any, x: Any, turns: Any) -> Any:  # here
        return op.Mul(x, op.Constant(value_int=2))

    onnxport.export(Net(twisted), (X,), custom_translation_table={TWIST: unfit})


@says("Transpose: Invalid attribute perm {1, 0, 2}", "correct the function")
def a_translation_of_another_rank(folder: Path) -> None:
    def unfit(op: Any, x: Any, turns: Any) -> Any:  # here
        return op.Transpose(x, perm=[1, 0, 2])

    onnxport.export(Net(twisted), (X,), custom_translation_table={TWIST: unfit})


@says("its result has the shape [4, 3], and that of the operator [3, 4]")
def a_translation_of_another_shape(folder: Path) -> None:
    def unfit(op: Any, x: Any, turns: Any) -> Any:  # here
        return op.Transpose(x, perm=[1, 0])

    onnxport.export(Net(twisted), (X,), custom_translation_table={TWIST: unfit})


@says("Mul", "has input size 3 not in range [min=2, max=2]")
def a_translation_with_an_input_too_many(folder: Path) -> None:
    def unfit(op: Any, x: Any, turns: Any) -> Any:  # here
        return op.Mul(x, x, x)

    onnxport.export(Net(twisted), (X,), custom_translation_table={TWIST: unfit})


@says("returned 2 value(s)", "It has to return the tensor")
def a_translation_with_two_results(folder: Path) -> None:
    def unfit(op: Any, x: Any, turns: Any) -> Any:  # here
        return x, x

    onnxport.export(Net(twisted), (X,), custom_translation_table={TWIST: unfit})


@says("must be Tensor, not Tensor", "compute with `op`, as op.Mul(x, y), not with torch")
def a_translation_written_in_torch(folder: Path) -> None:
    def unfit(op: Any, x: Any, turns: Any) -> Any:
        return torch.mul(x, turns)  # here

    onnxport.export(Net(twisted), (X,), custom_translation_table={TWIST: unfit})


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * x

    @staticmethod
    def symbolic(g: Any, x: Any) -> Any:
        return g.op("Squaree", x)


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, by: float) -> torch.Tensor:
        return x * by

    @staticmethod
    def symbolic(g: Any, x: Any) -> Any:
        return g.op("Mul", x, x)


@says("Square: Squaree, which the symbolic function writes, is not an operator of ONNX", "def symbolic", "correct")
def a_symbolic_method_with_an_unknown_operator(folder: Path) -> None:
    onnxport.export(Net(Square.apply), (X,), dynamo=False)


@says(
    "Scale: the symbolic function Scale.symbolic failed with TypeError", "takes 2 positional arguments but 3", "def sym"
)
def a_symbolic_method_of_other_parameters(folder: Path) -> None:
    onnxport.export(Net(lambda x: Scale.apply(x, 2.0)), (X,), dynamo=False)


class Unfinished(nn.Module):
    def __init__(self) -> None:
        self.scale = 3

    def forward(self, x: Any) -> Any:
        return x * self.scale


@says("Unfinished has no layers or parameters yet: call super().__init__() first in Unfinished.__init__.")
def a_module_without_its_base(folder: Path) -> None:
    onnxport.export(Unfinished(), (X,))  # here


@says("At input: 0 and -2 are the same axis.", "Write {0: 'm'}.")
def one_axis_by_two_numbers(folder: Path) -> None:
    onnxport.export(nn.ReLU(), (X,), dynamic_shapes=({0: "n", -2: "m"},))  # here


class Scaled(nn.Module):
    def forward(self, x: Any, *, scale: Any) -> Any:
        return x * scale


@says("'scale' is missing", "Pass kwargs={'scale': ...}.")
def a_keyword_that_is_missing(folder: Path) -> None:
    onnxport.export(Scaled(), (X,))  # here


@says("the model forces it to be 3", "Make the model work for any size")
def channels_of_a_normalization(folder: Path) -> None:
    onnxport.export(nn.BatchNorm2d(3).eval(), (torch.ones(2, 3, 4, 4),), dynamic_shapes=({1: "c"},))  # here
