"""Models as the command line names them: files of several kinds, and names in Python code."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

import torch

from onnxport.command_line.users_code import users_code
from onnxport.errors import InputError


def load_model(reference: str, *, allow_pickle: bool = False) -> Any:
    """Return the module, TorchScript module or captured program that a reference names.

    Code in a ``.pt2`` file (pickles, compiled libraries) is run only with ``allow_pickle``; without it such a file is
    refused.

    >>> from onnxport.command_line.models import load_model
    >>> load_model("torch.nn:Identity")
    Identity()
    """
    path = Path(reference)
    if path.suffix == ".pt2" and path.exists():
        return _load_program(path, allow_pickle=allow_pickle)
    if path.exists():
        return _load_script(path)
    place, colon, name = reference.rpartition(":")
    if not colon:
        raise InputError(
            f"There is no file {reference}. A model is a captured program (model.pt2), a TorchScript file (model.pt), "
            "or a name in Python code: file.py:name or package.module:name."
        )
    found: Any = _load_module(place)
    for part in name.split("."):
        if not hasattr(found, part):
            raise InputError(f"{place} has no {name}.")
        found = getattr(found, part)
    made = callable(found) and not isinstance(found, torch.nn.Module)
    with users_code(reference):
        model = found() if made else found
    if not isinstance(model, torch.nn.Module | torch.export.ExportedProgram):
        raise InputError(f"{reference} is a {type(model).__name__}, not a torch.nn.Module.")
    return model.eval() if isinstance(model, torch.nn.Module) else model


def _load_program(path: Path, *, allow_pickle: bool) -> torch.export.ExportedProgram:
    # What reads these files takes long to import, and other models don't need it.
    from onnxport.torch_internals.archives import CodeInFileError, load_program

    try:
        return load_program(path, run_code=allow_pickle)
    except CodeInFileError as error:
        raise InputError(
            f"{path} is not loaded, since that would run code from the file: {error}. Pass --allow-pickle if you "
            "trust where it comes from."
        ) from error
    except Exception as error:
        # torch raises anything that a wrong file makes it stumble over.
        reason = next(iter(str(error).splitlines()), "")
        raise InputError(
            f"{path} can't be read as a captured program ({type(error).__name__}: {reason}). Write it with "
            "torch.export.save, in this version of torch."
        ) from error


def _load_script(path: Path) -> torch.jit.ScriptModule:
    try:
        module: torch.jit.ScriptModule = torch.jit.load(str(path), map_location="cpu").eval()
        return module
    except (RuntimeError, ValueError, OSError) as error:
        raise InputError(
            f"{path} is not a TorchScript file. Weights alone are no model: name the Python function that builds it "
            "and loads them, as file.py:name."
        ) from error


def _load_module(place: str) -> object:
    if not place.endswith(".py"):
        sys.path.insert(0, str(Path.cwd()))
        try:
            with users_code(place):
                return importlib.import_module(place)
        except InputError as error:
            if isinstance(error.__cause__, ModuleNotFoundError) and error.__cause__.name in (
                place,
                place.split(".")[0],
            ):
                raise InputError(f"There is no Python module {place} ({error.__cause__}).") from error
            raise
        finally:
            sys.path.remove(str(Path.cwd()))
    path = Path(place)
    if not path.exists():
        raise InputError(f"There is no file {place}.")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses and pickles look their module up by name.
    sys.modules.setdefault(path.stem, module)
    with users_code(place):
        spec.loader.exec_module(module)
    return module
