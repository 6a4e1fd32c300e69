"""What a task is: a row of the table that the export of pretrained models goes by."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from onnxport.errors import InputError, Problem
from onnxport.pretrained.parts import Part
from onnxport.program import ONNXProgram

Model: TypeAlias = Any
"""A ``transformers.PreTrainedModel``, whose class is known only when the library is there."""


@dataclass(frozen=True)
class Task:
    """One thing that pretrained models are used for.

    A task is added as a module beside this one, with a ``Task`` in it, and a row in ``tasks/__init__.py``.

    Attributes:
        name: As the library's pipelines call it: ``"text-generation"``.
        mapping: The library's table from configurations to classes of models for it, in
            ``transformers.models.auto.modeling_auto``: ``"MODEL_FOR_CAUSAL_LM_MAPPING"``. A model has this task if its
            class is in there for its configuration.
        parts: What becomes a file, from a model in evaluation mode. Inputs follow from the model's configuration and
            from what its forward takes, never from the name of a model. A model that can't be exported for this task
            is refused with an ``OnnxExporterError`` here.
        readme: Lines of Python that run the folder, for its README; they come after ``folder = "..."``.
        check: Runs the task in the saved folder and in the library, and returns where the two differ, beyond the
            comparison of each part at all its sizes, which every task has.
        describe: Files besides the models, as a table of JSON by file name, from the model, the parts and what was
            exported of them.
        last_logits: The parts that return logits of the last position alone, which is all that generating asks for.
            None for tasks that don't generate.
        encoder_decoder: Whether it is for models of an encoder and a decoder or for others, where the library's table
            has both; None for all that are in it.
    """

    name: str
    mapping: str
    parts: Callable[[Model], Sequence[Part]]
    readme: Sequence[str]
    check: Callable[[Model, Path], list[Problem]] | None = None
    describe: Callable[[Model, Sequence[Part], Sequence[ONNXProgram]], dict[str, dict[str, object]]] | None = None
    last_logits: Callable[[Model], Sequence[Part]] | None = None
    encoder_decoder: bool | None = None

    def takes(self, config: Model) -> bool:
        """Whether models of a configuration have this task, if the library's table has them."""
        return self.encoder_decoder is None or self.encoder_decoder == bool(config.is_encoder_decoder)

    def chosen_parts(self, model: Model, *, last_logits: bool) -> Sequence[Part]:
        """What becomes a file, with the logits that are asked for."""
        if not last_logits:
            return self.parts(model)
        if self.last_logits is None:
            raise InputError(
                f"last_logits is for models that generate, and {self.name} has no positions to choose from."
            )
        return self.last_logits(model)
