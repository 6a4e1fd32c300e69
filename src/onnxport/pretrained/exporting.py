"""``export_pretrained()``: from a checkpoint, or a model of transformers, to a folder that runs its task."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import torch

from onnxport.errors import DifferenceError, InputError, OnnxExporterError, Problem, SaveError, with_plain_errors
from onnxport.pretrained.adapters import AdapterUse, leave_open, without_wrapper
from onnxport.pretrained.checkpoint import Checkpoint, load_checkpoint, model_task
from onnxport.pretrained.folder import write_configuration, write_readme, write_tables
from onnxport.pretrained.parts import Part, Sizes, comparisons, difference, export_widest
from onnxport.pretrained.referenced import check_reference, placed_beside
from onnxport.pretrained.tasks import Task
from onnxport.program import ONNXProgram
from onnxport.quantize import Quantization, as_quantization, opset_for
from onnxport.targets import find_target
from onnxport.verification import VerificationInfo


@dataclass(frozen=True)
class PretrainedFolder:
    """What was written: where, for which task, and the models in it.

    ``parameters`` is how many each file has, ``largest_difference`` that of an output from the model's, if it was
    verified, and ``seconds`` is by stage, of all models together.
    """

    path: Path
    task: str
    files: tuple[str, ...]
    verified: bool
    parameters: Mapping[str, int] = field(default_factory=dict)
    largest_difference: float | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)


@with_plain_errors
def export_pretrained(
    model: str | os.PathLike[str] | torch.nn.Module,
    out: str | os.PathLike[str],
    *,
    task: str | None = None,
    dtype: torch.dtype | None = None,
    quantize: str | Quantization | None = None,
    target: str | None = None,
    opset_version: int | None = None,
    verify: bool = True,
    weights: Literal["copy", "reference"] = "copy",
    last_logits: bool = False,
    adapters: AdapterUse = "keep",
) -> PretrainedFolder:
    """Export a pretrained model of transformers to a folder that runs its task.

    Inputs follow from the model's configuration and its forward, axes that vary have the names of what they count
    (``batch``, ``sequence``, ``past``), and inputs and outputs the names that runtimes of language models know.

    Args:
        model: The directory of a checkpoint, or of an adapter that peft wrote, a name on the hub that transformers can
            reach, or a model of it.
        out: The folder to write; files in it that have the same names are replaced.
        task: What the model is used for, as transformers' pipelines call it; None for what its architecture says.
        dtype: The element type of weights; None for the checkpoint's own.
        quantize: How to quantize the weights, as in :func:`onnxport.export`; after the files were verified.
        target: The reader that files are written for, as in :func:`onnxport.export`.
        opset_version: The opset of the files.
        verify: Run the task with the folder and with the model, and fail where they differ.
        weights: ``"reference"`` leaves the weights in the checkpoint's safetensors files, in their element type, and
            refers to them there. Readers take data from the model's own folder alone, so the files get a second name
            in it (a hard link, which takes no space), unless the folder is the checkpoint's own.
        last_logits: Return logits of the last position alone, which is all that generating asks for: the others of a
            prompt are not computed. Rows are then padded on the left.
        adapters: What becomes of LoRA adapters of a model of peft: ``"keep"`` computes them as the model does,
            ``"merge"`` adds them to the weights, and ``"inputs"`` makes their weights inputs that have these values
            where none are given (``get_overridable_initializers`` in onnxruntime), as the file holds them.

    Returns:
        What was written.

    Raises:
        OnnxExporterError: The model can't be exported.
        DifferenceError: The folder does not do what the model does.

    >>> import tempfile, torch, onnxport
    >>> from transformers import LlamaConfig, LlamaForCausalLM
    >>> config = LlamaConfig(
    ...     vocab_size=50, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2
    ... )
    >>> with tempfile.TemporaryDirectory() as out:
    ...     folder = onnxport.export_pretrained(LlamaForCausalLM(config).eval(), out)
    ...     generated = onnxport.generation.Session(out).generate([[1, 2, 3]], max_new_tokens=4)
    >>> folder.task, folder.files, len(generated[0])
    ('text-generation', ('model.onnx',), 4)
    """
    if weights == "reference":
        check_reference(model, quantize)
    started, largest = time.perf_counter(), None
    _check_weights(dtype, quantize, adapters)
    if isinstance(model, torch.nn.Module):
        plain = without_wrapper(model, adapters)
        loaded = Checkpoint(plain if dtype is None else plain.to(dtype), model_task(plain, task))
    else:
        loaded = load_checkpoint(os.fspath(model), task, dtype, as_stored=weights == "reference")
        loaded = replace(loaded, model=without_wrapper(loaded.model, adapters))
    built, found = loaded.model, loaded.task
    reader = "onnx" if target is None else target
    opset = opset_for(opset_version, None if quantize is None else as_quantization(quantize), find_target(reader))
    path = _made_folder(out)
    in_place = placed_beside(loaded.files, path) if weights == "reference" else None
    was_training = built.training
    built.eval()
    try:
        chosen = found.chosen_parts(built, last_logits=last_logits)
        exported = [export_widest(part, opset_version=opset, target=reader) for part in chosen]
        parts = tuple(part for part, _ in exported)
        programs = {part.file: program for part, program in exported}
        if quantize is not None and not verify:
            _quantize(programs, quantize)
        if adapters == "inputs":
            leave_open(programs.values())
        for file, program in programs.items():
            program.save(path / file, external_data=True, in_place=in_place)
        write_configuration(built, loaded.folders, path)
        if not any(map(path.samefile, loaded.folders)):
            write_readme(found, parts, built, path)
        if found.describe is not None:
            write_tables(found.describe(built, parts, list(programs.values())), path)
        if verify:
            largest = _verify(found, parts, built, path)
        if quantize is not None and verify:
            _quantize(programs, quantize)
            for file, program in programs.items():
                program.save(path / file, external_data=True)
    finally:
        built.train(was_training)
    return _written(path, found, programs, verify, largest, time.perf_counter() - started)


def _check_weights(dtype: torch.dtype | None, quantize: object, adapters: AdapterUse) -> None:
    if dtype is not None and not dtype.is_floating_point:
        raise InputError(f"dtype is {dtype}; weights are floating-point numbers. For integers pass quantize.")
    if adapters == "inputs" and quantize is not None:
        raise InputError('Weights that are left open are not quantized: leave out quantize, or adapters="inputs".')


def _made_folder(out: str | os.PathLike[str]) -> Path:
    path = Path(out)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SaveError(f"The folder {path} can't be made: {error.strerror}.") from error
    return path


def _written(
    path: Path, task: Task, programs: dict[str, ONNXProgram], verified: bool, largest: float | None, whole: float
) -> PretrainedFolder:
    counts = {file: program.summary().parameters for file, program in programs.items()}
    seconds = _seconds(programs.values(), whole)
    return PretrainedFolder(path, task.name, tuple(programs), verified, counts, largest, seconds)


def _seconds(programs: Iterable[ONNXProgram], whole: float) -> dict[str, float]:
    """The seconds of each stage; what is left of the whole is loading the model, saving files and comparing."""
    stages: dict[str, float] = {}
    for program in programs:
        for stage, seconds in program.summary().seconds.items():
            stages[stage] = stages.get(stage, 0.0) + seconds
    return {**stages, "load and compare": max(whole - sum(stages.values()), 0.0)}


def _quantize(programs: dict[str, ONNXProgram], quantization: str | Quantization) -> None:
    for program in programs.values():
        program.quantize(quantization)


def _verify(task: Task, parts: tuple[Part, ...], model: object, path: Path) -> float:
    """Compare the files with the model; return the largest difference of an output."""
    compared: list[tuple[Part, Sizes, VerificationInfo]] = []
    problems: list[Problem] = []
    for part in parts:
        with _failure_among(problems, part.file):
            compared += ((part, *comparison) for comparison in comparisons(part, path))
    problems += [difference(part, sizes, info) for part, sizes, info in compared if not info.matches]
    if task.check is not None:
        with _failure_among(problems, "Generating with the folder"):
            problems += task.check(model, path)
    if problems:
        raise DifferenceError(
            f"The files in {path} don't do what the model does for {task.name}:",
            problems,
            "They are left there to look at, and should not be used.",
        )
    return max((info.max_abs_diff for _, _, info in compared), default=0.0)


@contextlib.contextmanager
def _failure_among(problems: list[Problem], what: str) -> Iterator[None]:
    """Take it for a difference if the block fails: onnxruntime does not run what torch does."""
    try:
        yield
    except OnnxExporterError:
        raise
    except Exception as error:  # noqa: BLE001 - what onnxruntime raises has no class of its own
        problems.append(Problem(f"{what} fails: {type(error).__name__}: {error}"))
