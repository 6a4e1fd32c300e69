"""What a model may return: tensors and numbers; None is left out; anything else has no place in ONNX."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.export.graph_signature import ConstantArgument, OutputKind

from onnxport.capture.patches.pieces import Pieces
from onnxport.capture.request.trees import leaves, register_containers, steps_of
from onnxport.errors import CaptureError, InputError, Problem, warn
from onnxport.events import EventLog
from onnxport.torch_internals import pytree
from onnxport.torch_internals.fake_tensors import FakeTensor

_NUMBERS = (bool, int, float, complex, torch.SymInt, torch.SymFloat, torch.SymBool)
_REMEDY = "Return tensors (in tuples, lists, dicts or dataclasses); leave this value out, or wrap the model to drop it."


def _unfit(path: str, value: object) -> Problem:
    # A list that the capture keeps open, because its length varies, is none of the user's classes.
    if getattr(value, "has_open_length", False):
        what = f"{path} is a list whose length varies with a size, and a file has a fixed number of outputs."
        return Problem(what, remedy="Return one tensor instead: torch.stack(items), or the tensor they are taken from.")
    if inspect.isgenerator(value):
        what = f"{path} is a generator ({value.__qualname__}), of which a graph can't tell what it yields."
        return Problem(what, remedy="Return tuple(...) of it, or the tensors themselves.")
    if inspect.iscoroutine(value):
        value.close()
        what = f"{path} is a coroutine: {value.__qualname__} is an `async` function, which nobody awaits in a graph."
        return Problem(what, remedy="Write it without `async`.")
    shown = repr(value)
    # The address of an object tells nothing.
    told = f": {shown[:60]}" if " at 0x" not in shown else ""
    return Problem(f"{path} is of type {type(value).__qualname__}{told}.", remedy=_REMEDY)


def _refusal(unfit: list[tuple[str, object]]) -> InputError:
    problems = [_unfit(path, value) for path, value in unfit]
    return InputError("The model returns what an ONNX model cannot:", problems)


@contextlib.contextmanager
def watched(model: object, report: Callable[[str], None]) -> Iterator[None]:
    """While the block runs, register the containers that the model returns and refuse what cannot be an output."""
    if not isinstance(model, torch.nn.Module):
        yield
        return

    def look(module: torch.nn.Module, args: object, output: object) -> object:
        open_lists = list(_open_lists("output", output))
        if open_lists:
            raise _refusal(open_lists)
        output = _with_plain_pieces(output)
        register_containers(output, report)
        kinds = (torch.Tensor, str, type(None), *_NUMBERS)
        unfit = [(leaf.path, leaf.value) for leaf in leaves(output, "output", ()) if not isinstance(leaf.value, kinds)]
        if unfit:
            raise _refusal(unfit)
        return output

    handle = model.register_forward_hook(look)
    try:
        yield
    finally:
        handle.remove()


def _open_lists(path: str, value: object) -> Iterator[tuple[str, object]]:
    """The lists among what is returned whose length only run time knows."""
    if getattr(value, "has_open_length", False):
        yield path, value
    elif isinstance(value, tuple | list):
        for place, item in enumerate(value):
            yield from _open_lists(f"{path}[{place}]", item)
    elif isinstance(value, dict) or dataclasses.is_dataclass(value):
        for name, item in (value if isinstance(value, dict) else vars(value)).items():
            yield from _open_lists(f"{path}.{name}", item)


def _with_plain_pieces(output: Any) -> Any:
    """What is returned, with as many pieces of a tensor as the example has: a file has a fixed number of outputs."""
    if type(output) in (tuple, list):
        return type(output)(_with_plain_pieces(each) for each in output)
    if type(output) is dict:
        return {key: _with_plain_pieces(each) for key, each in output.items()}
    return tuple(output) if type(output) is Pieces else output


_QUANTIZING = tuple(
    getattr(torch.ops.aten, name)
    for name in ("quantize_per_tensor", "quantize_per_tensor_dynamic", "quantize_per_channel")
)


def check_kept(program: torch.export.ExportedProgram) -> None:
    """Refuse a capture that lacks something: the scales of what it quantizes, or values computed where it can't see."""
    overloads = (getattr(packet, name) for packet in _QUANTIZING for name in packet.overloads())
    if any(program.graph.find_nodes(op="call_function", target=overload) for overload in overloads):
        raise CaptureError("The model quantizes a tensor, of which torch.export does not keep the scale.")
    if _has_unseen_values(program):
        raise CaptureError("There is a fake tensor in the exported program constants.")


def _has_unseen_values(program: torch.export.ExportedProgram) -> bool:
    """Whether a result needs a constant without values, though all that was given had some.

    torch.export asks this itself from 2.10 on. What torch.vmap leaves behind is of no use to a result.
    """
    unseen = {
        spec.arg.name
        for spec in program.graph_signature.input_specs
        if isinstance(program.constants.get(str(spec.target)), FakeTensor) and "lifted_tensor" in str(spec.target)
    }
    if not unseen:
        return False
    given = pytree.tree_leaves((program.example_inputs, list(program.state_dict.values())))
    return not any(isinstance(value, FakeTensor) for value in given) and not unseen.isdisjoint(_needed(program.graph))


def _needed(graph: torch.fx.Graph) -> set[str]:
    """The names of all that the results are computed from."""
    needed: set[str] = set()
    waiting = list(graph.find_nodes(op="output"))
    while waiting:
        for node in waiting.pop().all_input_nodes:
            if node.name not in needed:
                needed.add(node.name)
                waiting.append(node)
    return needed


def check_outputs(program: torch.export.ExportedProgram, events: EventLog) -> None:
    """Refuse strings and empty results; say which None outputs the ONNX model leaves out."""
    user = [spec.arg for spec in program.graph_signature.output_specs if spec.kind == OutputKind.USER_OUTPUT]
    constants = {i: arg.value for i, arg in enumerate(user) if isinstance(arg, ConstantArgument)}
    unfit = [i for i, value in constants.items() if value is not None and not isinstance(value, _NUMBERS)]
    absent = [i for i, value in constants.items() if value is None]
    if unfit or absent:
        paths = _paths(program.call_spec.out_spec, len(user))
        if unfit:
            raise _refusal([(paths[i], constants[i]) for i in unfit])
    if len(absent) == len(user):
        raise InputError(
            f"The model returns no tensor ({_returned(len(absent))}), so there is nothing to compute. "
            "Return at least one tensor from forward."
        )
    if absent:
        listed = ", ".join(paths[i] for i in absent)
        message = f"The model returns None at {listed}; ONNX has no None, so the ONNX model leaves it out."
        events.add("warning", "capture", message)
        warn(message)


def _returned(count: int) -> str:
    return f"it returns {', '.join(['None'] * count)}" if count else "its result is empty"


def _paths(spec: pytree.TreeSpec | None, count: int) -> list[str]:
    if spec is None:
        return [f"output[{index}]" for index in range(count)]
    found: list[str] = []
    _walk(spec, "output", found)
    return found


def _walk(spec: pytree.TreeSpec, path: str, found: list[str]) -> None:
    if spec.is_leaf():
        found.append(path)
        return
    for step, child in zip(steps_of(spec), pytree.children_of(spec), strict=True):
        _walk(child, f"{path}[{step!r}]", found)
