"""A model in torch as the reference for an ONNX file: how it is called with the file's inputs."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from onnxport.command_line.comparing import ComparedRun, compared_run, flat_outputs
from onnxport.command_line.examples import Example
from onnxport.command_line.feeds import feeds_for, in_onnxruntime
from onnxport.command_line.users_code import users_code
from onnxport.program import ONNXProgram
from onnxport.verification.running import model_outputs

TorchSide = torch.nn.Module | torch.export.ExportedProgram


def verified_run(
    file: tuple[Path, ONNXProgram],
    reference: tuple[str, TorchSide],
    examples: Sequence[Example],
    sizes: Mapping[str, int],
    tolerance: float | None,
) -> ComparedRun:
    """Run a file and its model on the same inputs."""
    path, program = file
    name, model = reference
    feeds = feeds_for(program.model, examples, sizes)
    called = model.module(check_guards=False) if isinstance(model, torch.export.ExportedProgram) else model
    args, kwargs = arguments(model, feeds)
    with users_code(f"{name}, called with {_described(feeds)},"):
        expected = model_outputs(called, args, kwargs)
    with in_onnxruntime(path):
        actual = program(**feeds)
    outputs = [str(value.name) for value in program.model.graph.outputs]
    return compared_run(sizes, feeds, outputs, expected, flat_outputs(actual), tolerance)


def arguments(
    model: TorchSide, feeds: Mapping[str, torch.Tensor]
) -> tuple[tuple[torch.Tensor, ...], dict[str, torch.Tensor]]:
    """The inputs of a file as arguments of its model: by name where all are parameters of it, else in order."""
    if isinstance(model, torch.nn.Module) and not isinstance(model, torch.jit.ScriptModule):
        parameters = inspect.signature(model.forward).parameters
        if all(name in parameters for name in feeds):
            return (), dict(feeds)
    return tuple(feeds.values()), {}


def _described(feeds: Mapping[str, torch.Tensor]) -> str:
    return ", ".join(f"{name}: {str(x.dtype).removeprefix('torch.')} {list(x.shape)}" for name, x in feeds.items())
