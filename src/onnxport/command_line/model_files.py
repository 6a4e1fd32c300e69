"""Files that hold a model, or its weights: captured programs, TorchScript, pickles, state dicts, safetensors."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Mapping
from pathlib import Path

import torch

from onnxport.command_line.examples import read_tensors
from onnxport.errors import InputError, Problem
from onnxport.weights.safetensors import mapped_tensors


def load_file(path: Path, *, allow_pickle: bool) -> object:
    """The model in a file, or the sentence that fits what is in it."""
    if path.suffix == ".pt2":
        return _load_program(path, allow_pickle=allow_pickle)
    if path.suffix == ".safetensors":
        count = len(mapped_tensors(path))
        raise InputError(
            f"{path} holds {count} tensors and no model. Name the code that builds the model which they are of: "
            f"--arch model.py:build"
        )
    if path.suffix == ".onnx":
        raise InputError(f"{path} is an ONNX file already; onnxport convert writes it for another opset or reader.")
    try:
        script: torch.jit.ScriptModule = torch.jit.load(str(path), map_location="cpu")
        return script
    except (RuntimeError, ValueError, OSError) as error:
        return _unscripted(path, error, allow_pickle=allow_pickle)


def _unscripted(path: Path, not_script: Exception, *, allow_pickle: bool) -> object:
    """A file of torch.save: what was pickled if that is allowed, else what it is."""
    try:
        content: object = torch.load(path, weights_only=not allow_pickle, map_location="cpu")
    except pickle.UnpicklingError as error:
        raise InputError(
            f"{path} holds a pickled module, and loading it would run code from the file. Pass --allow-pickle if you "
            "trust where it comes from; a file of torch.export.save or torch.jit.save needs no such trust."
        ) from error
    except Exception as error:
        # torch raises anything that a wrong file makes it stumble over.
        reason = next(iter(str(not_script).splitlines()), type(not_script).__name__)
        raise InputError(f"{path} is neither a TorchScript file nor one of torch.save: {reason}") from error
    if isinstance(content, Mapping):
        raise InputError(
            f"{path} holds a state dict: {len(content)} weights, and no model. Name the code that builds the model: "
            "--arch model.py:build"
        )
    if not isinstance(content, torch.nn.Module):
        raise InputError(f"{path} holds a {type(content).__name__}, not a torch.nn.Module.")
    return content


def with_weights(model: object, path: Path) -> torch.nn.Module:
    """A model with the weights of a safetensors file or of a state dict; all of its own have to be there."""
    if not isinstance(model, torch.nn.Module):
        raise InputError("--arch names a captured program, which has its weights; name a torch.nn.Module.")
    weights = read_tensors(path)
    if not isinstance(weights, Mapping):
        raise InputError(f"{path} has tensors without names, which no weights of a model can be found by.")
    own = model.state_dict(keep_vars=True)
    given = {id(own[name]) for name in weights if name in own}
    # Tied weights are stored once.
    missing = [name for name, tensor in own.items() if name not in weights and id(tensor) not in given]
    problems = [Problem(f"the model's {name} is not in the file") for name in missing]
    problems += [Problem(f"{name} of the file is not in the model") for name in weights if name not in own]
    problems += [
        Problem(f"{name}: the model has the shape {list(own[name].shape)}, the file {list(tensor.shape)}")
        for name, tensor in weights.items()
        if name in own and own[name].shape != tensor.shape
    ]
    if problems:
        raise InputError(f"The weights of {path} are not those of the model.", problems)
    model.load_state_dict(dict(weights), strict=False)
    return model


def _load_program(path: Path, *, allow_pickle: bool) -> torch.export.ExportedProgram:
    # What reads these files takes long to import, and other models don't need it.
    from onnxport.torch_internals.archives import CodeInFileError, load_program

    if not zipfile.is_zipfile(path):
        raise InputError(f"{path} is no captured program. Write one with torch.export.save.")
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
