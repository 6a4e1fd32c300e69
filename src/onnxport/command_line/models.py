"""Models as the command line names them: files of several kinds, names in Python code, names in libraries of models."""

from __future__ import annotations

import importlib
from pathlib import Path

import torch

from onnxport.command_line.model_files import load_file, with_weights
from onnxport.command_line.python_models import Call, called, load_python, parse_call
from onnxport.errors import InputError

TorchModel = torch.nn.Module | torch.export.ExportedProgram

#: Libraries of models: where the function is that makes one by name.
_LIBRARIES = {"timm": ("timm", "create_model"), "torchvision": ("torchvision.models", "get_model")}
_KINDS = """A model is a captured program (model.pt2), a TorchScript file (model.pt), a name in Python (file.py:name
or package.module:name), or one of a library (timm:name, torchvision:name)."""


def check_there(reference: str) -> None:
    """Refuse a file that is not there, before anything else is looked at."""
    call, path = parse_call(reference), Path(reference)
    if call.place not in _LIBRARIES and path.suffix != ".py" and not call.name and not path.exists():
        raise InputError(f"There is no file or folder {reference}. {' '.join(_KINDS.split())}")


def load_model(reference: str, *, allow_pickle: bool = False, arch: str | None = None) -> TorchModel:
    """Return the module, TorchScript module or captured program that a reference names.

    With ``arch``, the reference is a file of weights, and ``arch`` names the model that they are of. Code in a file
    (pickles, compiled libraries) is run only with ``allow_pickle``; without it such a file is refused.

    >>> from onnxport.command_line.models import load_model
    >>> load_model("torch.nn:Identity"), load_model("torch.nn:Linear(3, out_features=2)")
    (Identity(), Linear(in_features=3, out_features=2, bias=True))
    """
    if arch is not None:
        return with_weights(load_model(arch, allow_pickle=allow_pickle), Path(reference))
    call = parse_call(reference)
    if call.place in _LIBRARIES:
        return _checked(reference, _of_library(call))
    path = Path(reference)
    if path.suffix == ".py" or call.name:
        return _checked(reference, load_python(call, reference))
    if path.is_dir():
        raise InputError(f"{reference} is a folder, not a file. {' '.join(_KINDS.split())}")
    check_there(reference)
    return _checked(reference, load_file(path, allow_pickle=allow_pickle))


def _of_library(call: Call) -> object:
    package, function = _LIBRARIES[call.place]
    try:
        make = getattr(importlib.import_module(package), function)
    except Exception as error:
        # A native library that does not fit torch raises anything.
        if isinstance(error, ModuleNotFoundError) and error.name == call.place:
            raise InputError(f"{call.place} is not installed: pip install {call.place}") from error
        reason = str(error).strip().partition("\n")[0]
        needed = f"Install what it needs, in the build for torch {torch.__version__}."
        raise InputError(f"{call.place} can't be imported ({reason}). {needed}") from error
    return called(f"{call.place}:{call.name}", lambda *args, **kwargs: make(call.name, *args, **kwargs), call)


def _checked(reference: str, model: object) -> TorchModel:
    if not isinstance(model, torch.nn.Module | torch.export.ExportedProgram):
        raise InputError(f"{reference} gives an object of type {type(model).__name__}, not a torch.nn.Module.")
    return model.eval() if isinstance(model, torch.nn.Module) else model
