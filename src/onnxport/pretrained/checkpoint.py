"""A checkpoint directory as a model: built without memory for its weights, which are mapped from the files."""

from __future__ import annotations

import contextlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch.nn.modules.module import register_module_parameter_registration_hook

from onnxport.errors import InputError, warn, with_article
from onnxport.pretrained.adapters import adapted_checkpoint, with_adapter
from onnxport.pretrained.library import transformers
from onnxport.pretrained.tasks import Model, Task, detect_task, find_task, model_classes, named_class
from onnxport.weights.safetensors import MappedFile, mapped_file

_SINGLE, _INDEX = "model.safetensors", "model.safetensors.index.json"


@dataclass(frozen=True)
class Checkpoint:
    """A model of a checkpoint, its task, the files that its weights are mapped from, if they are, and its folders."""

    model: Model
    task: Task
    files: tuple[MappedFile, ...] = ()
    folders: tuple[Path, ...] = ()


def load_checkpoint(
    place: str | Path, task: str | None, dtype: torch.dtype | None, *, as_stored: bool = False
) -> Checkpoint:
    """The model of a directory, or of a name on the hub that the library can reach, and its task.

    Args:
        place: A directory with ``config.json`` and weights, or one that peft wrote of an adapter.
        task: The name of the task; None for the one that the configuration's architecture has.
        dtype: The element type of weights; None for that of the configuration.
        as_stored: Take the element type that most of the weights are stored in, and no other.
    """
    library = transformers()
    directory = Path(place)
    if (base := adapted_checkpoint(directory)) is not None:
        loaded = load_checkpoint(base, task, dtype, as_stored=as_stored)
        return replace(loaded, model=with_adapter(loaded.model, directory), folders=(*loaded.folders, directory))
    if directory.is_dir() and not (directory / "config.json").is_file():
        raise InputError(f"{directory} has no config.json, so it is no checkpoint of transformers.")
    # A name on the hub is "model" or "owner/model".
    is_path = directory.is_absolute() or len(directory.parts) > 2 or str(place).startswith(".")
    if is_path and not directory.exists():
        raise InputError(f"There is no folder {directory}.")
    try:
        config = library.AutoConfig.from_pretrained(str(place))
    except OSError as error:
        raise InputError(
            f"{place} is no folder with a checkpoint, and can't be loaded by that name: {_first_line(error)}"
        ) from error
    except Exception as error:
        raise InputError(f"transformers can't read config.json in {place}: {_first_line(error)}") from error
    found = _task(config, task)
    kind = _model_class(found, config, by_name=task is None)
    files = tuple(map(mapped_file, _weight_files(directory)))
    wanted = dtype if dtype is not None else _dtype(config)
    if as_stored:
        wanted = _stored_dtype(files, wanted)
        if dtype not in (None, wanted):
            raise InputError(
                f"The weights in {place} are stored as {wanted} and can't be referred to there as {dtype}: leave out "
                'the dtype, or weights="reference".'
            )
    folders = (directory,) if directory.is_dir() else ()
    model = _mapped_model(kind, config, files, wanted)
    if model is not None:
        return Checkpoint(model.eval(), found, files, folders)
    return Checkpoint(_loaded_model(kind, place, wanted).eval(), found, folders=folders)


def _loaded_model(kind: Model, place: str | Path, dtype: torch.dtype) -> Model:
    """The model as the library loads it, which draws weights that no file has: that is said."""
    try:
        model, told = kind.from_pretrained(str(place), dtype=dtype, output_loading_info=True)
    except Exception as error:
        raise InputError(f"transformers can't load {place} as {kind.__name__}: {_first_line(error)}") from error
    lacking = sorted(told["missing_keys"])
    if lacking:
        more = f" and {len(lacking) - 3} more" if len(lacking) > 3 else ""
        warn(
            f"No file in {place} has {', '.join(lacking[:3])}{more}. These weights of {kind.__name__} are random, and "
            "what follows from them means nothing."
        )
    return model


def _first_line(error: Exception) -> str:
    """What the library says first; it goes on with advice."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    # Where the first line ends in a colon, the second says it.
    return " ".join(lines[: 2 if lines and lines[0].endswith(":") else 1]) or type(error).__name__


def model_task(model: Model, task: str | None) -> Task:
    """The task of a model that is there already."""
    return detect_task(model.config, type(model).__name__) if task is None else find_task(task)


def _task(config: Model, task: str | None) -> Task:
    if task is not None:
        return find_task(task)
    named = getattr(config, "architectures", None)
    if not named:
        raise InputError("config.json names no architecture, so that the task must be said: pass task=.")
    return detect_task(config, named[0])


def _model_class(task: Task, config: Model, *, by_name: bool) -> Model:
    """The class for a task that the configuration names; or the library's first, unless the name alone decides."""
    classes = model_classes(task, config)
    named = getattr(config, "architectures", None) or []
    found = next((kind for kind in classes if kind.__name__ in named), None)
    if found is None and by_name:
        found = next((kind for name in named if (kind := named_class(config, name)) is not None), None)
    if found is None and not classes:
        raise InputError(
            f"transformers has no model for the task {task.name} with {with_article(type(config).__name__)}."
        )
    return classes[0] if found is None else found


def _dtype(config: Model) -> torch.dtype:
    dtype = getattr(config, "dtype", None)
    return dtype if isinstance(dtype, torch.dtype) else torch.float32


def _stored_dtype(files: Sequence[MappedFile], default: torch.dtype) -> torch.dtype:
    """The element type of floating point that has the most bytes."""
    count: Counter[torch.dtype] = Counter()
    for file in files:
        for tensor in file.tensors.values():
            if tensor.dtype.is_floating_point:
                count[tensor.dtype] += tensor.nbytes
    return count.most_common(1)[0][0] if count else default


def _mapped_model(kind: Model, config: Model, files: Sequence[MappedFile], dtype: torch.dtype) -> Model | None:
    """The model over mapped weights; None where files and model name their weights differently, or there are none.

    The library renames, splits and stacks the weights of some checkpoints when it loads them, and is left to it.
    """
    if not files:
        return None
    with _parameters_on_meta(), _default_dtype(dtype):
        model = kind(config)
    tensors = {name: tensor for file in files for name, tensor in file.tensors.items()}
    own = model.state_dict()
    fitting = {name: tensor for name, tensor in tensors.items() if name in own and own[name].shape == tensor.shape}
    whole = _kept_whole(model, dtype)
    dtypes = {name: torch.float32 if whole.search(name) else own[name].dtype for name in fitting}
    model.load_state_dict(
        {name: tensor.to(dtypes[name]) for name, tensor in fitting.items()}, strict=False, assign=True
    )
    model.tie_weights()
    lacking = [name for name, tensor in model.state_dict().items() if tensor.is_meta]
    return None if lacking or len(fitting) < len(tensors) else model


def _kept_whole(model: Model, dtype: torch.dtype) -> re.Pattern[str]:
    """What the names of weights contain that the library keeps in 32 bits where it loads a model of 16."""
    flags = {torch.float16: ("", "_strict"), torch.bfloat16: ("_strict",)}.get(dtype, ())
    found = [name for flag in flags for name in getattr(model, f"_keep_in_fp32_modules{flag}", None) or ()]
    return re.compile("|".join(name.replace("*", ".*") for name in found) or "(?!)")


def _weight_files(directory: Path) -> list[Path]:
    if (directory / _SINGLE).is_file():
        return [directory / _SINGLE]
    if (directory / _INDEX).is_file():
        index = json.loads((directory / _INDEX).read_text(encoding="utf-8"))
        return [directory / name for name in sorted(set(index["weight_map"].values()))]
    return []


@contextlib.contextmanager
def _default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """While this is open, modules are built with parameters of this element type."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


@contextlib.contextmanager
def _parameters_on_meta() -> Iterator[None]:
    """While this is open, parameters that modules are given have no memory; buffers are computed as always."""

    def without_memory(module: torch.nn.Module, name: str, parameter: torch.nn.Parameter | None) -> Any:
        if parameter is None or parameter.is_meta:
            return None
        return torch.nn.Parameter(parameter.to("meta"), requires_grad=parameter.requires_grad)

    handle = register_module_parameter_registration_hook(without_memory)
    try:
        yield
    finally:
        handle.remove()
