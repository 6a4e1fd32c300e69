"""Modules that know how they are exported: their example inputs, names and axes that vary."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

import torch

from onnxport.errors import with_plain_errors
from onnxport.export_call import export
from onnxport.program import ONNXProgram


class ExportableModule(torch.nn.Module, abc.ABC):
    """A module that brings along what ``export`` asks for.

    Only ``example_arguments`` must be written. ``export(module)`` uses what the methods return where it is not
    given arguments of its own.

    >>> import torch, onnxport
    >>> class Double(onnxport.ExportableModule):
    ...     def forward(self, x):
    ...         return x * 2
    ...     def example_arguments(self):
    ...         return (torch.ones(2, 3),), None
    ...     def dynamic_shapes(self):
    ...         return ({0: "batch"},)
    ...     def output_names(self):
    ...         return ["doubled"]
    >>> program = Double().to_onnx()
    >>> output = program.model.graph.outputs[0]
    >>> output.name, str(output.shape)
    ('doubled', '[batch,3]')
    """

    @abc.abstractmethod
    def example_arguments(self) -> tuple[tuple[object, ...], dict[str, object] | None]:
        """Return example inputs of ``forward``: the positional ones, and those by keyword or None."""

    def dynamic_shapes(self) -> Any:
        """Return the axes that vary, in any form that ``export`` takes; None if none does."""
        return None

    def input_names(self) -> Sequence[str] | None:
        """Return names for the inputs of the ONNX model; None for those of ``forward``'s parameters."""
        return None

    def output_names(self) -> Sequence[str] | None:
        """Return names for the outputs of the ONNX model; None for those of the captured graph."""
        return None

    @with_plain_errors
    def to_onnx(self, **options: Any) -> ONNXProgram:
        """Export this module; ``options`` are those of ``export``."""
        program: ONNXProgram = export(self, **options)
        return program
