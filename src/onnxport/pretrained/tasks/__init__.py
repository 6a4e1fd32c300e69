"""The tasks of pretrained models, as a table: one module for each family, one row for each task."""

from __future__ import annotations

from onnxport.errors import InputError
from onnxport.pretrained.library import transformers
from onnxport.pretrained.tasks.audio_text import AUDIO_TEXT
from onnxport.pretrained.tasks.image_text import IMAGE_TEXT
from onnxport.pretrained.tasks.one_call import ONE_CALL
from onnxport.pretrained.tasks.seq2seq import SEQ2SEQ
from onnxport.pretrained.tasks.task import Model, Task
from onnxport.pretrained.tasks.text_generation import TEXT_GENERATION

__all__ = ["TASKS", "Model", "Task", "detect_task", "find_task", "model_classes", "named_class"]

#: The first that knows a model's architecture is its task, unless the user says another. The library has models that
#: read images or sound among those of text too, which would leave out what they read besides.
TASKS: tuple[Task, ...] = (AUDIO_TEXT, IMAGE_TEXT, TEXT_GENERATION, *SEQ2SEQ, *ONE_CALL)


def find_task(name: str) -> Task:
    """The task of a name.

    >>> from onnxport.pretrained.tasks import find_task
    >>> find_task("text-generation").mapping
    'MODEL_FOR_CAUSAL_LM_MAPPING'
    """
    for task in TASKS:
        if task.name == name:
            return task
    raise InputError(f"There is no task {name!r}; there are {', '.join(task.name for task in TASKS)}.")


def detect_task(config: Model, architecture: str) -> Task:
    """The task of an architecture, which the library's own tables know; of others all that they return."""
    for task in TASKS:
        if task.takes(config) and any(kind.__name__ == architecture for kind in model_classes(task, config)):
            return task
    if named_class(config, architecture) is not None:
        return find_task("feature-extraction")
    raise InputError(
        f"What {architecture} is used for is none of the tasks that can be exported "
        f"({', '.join(task.name for task in TASKS)}). Pass one of them as task=, or use onnxport.export."
    )


def model_classes(task: Task, config: Model) -> tuple[Model, ...]:
    """The classes of models that the library has for a configuration and a task."""
    known = getattr(transformers().models.auto.modeling_auto, task.mapping)
    if type(config) not in known:
        return ()
    classes = known[type(config)]
    return classes if isinstance(classes, tuple) else (classes,)


def named_class(config: Model, architecture: str) -> Model | None:
    """The library's class of a name, if it is for such a configuration."""
    found = getattr(transformers(), architecture, None)
    wanted = getattr(found, "config_class", None)
    return found if isinstance(wanted, type) and isinstance(config, wanted) else None
