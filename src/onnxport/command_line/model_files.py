"""Files that hold a model, or its weights: captured programs, TorchScript, pickles, state dicts, safetensors."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Mapping
from pathlib import Path

import torch

from onnxport.command_line.archive_records import check_archive, is_archive
from onnxport.command_line.examples import load_saved
from onnxport.errors import InputError, Problem, with_article
from onnxport.weights.safetensors import mapped_tensors

_MOST_NAMES = 4


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
    check_archive(path, allow_files=allow_pickle)
    try:
        script: torch.jit.ScriptModule = torch.jit.load(str(path), map_location="cpu")
        return script
    except (RuntimeError, ValueError, OSError) as error:
        return _unscripted(path, error, allow_pickle=allow_pickle)


def _is_saved(path: Path) -> bool:
    """Whether a file begins as those of torch.save do: an archive, or a pickle of a protocol that it wrote once."""
    with path.open("rb") as file:
        return file.read(2) in (b"PK", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")


def _unscripted(path: Path, not_script: Exception, *, allow_pickle: bool) -> object:
    """A file of torch.save: what was pickled if that is allowed, else what it is."""
    try:
        with warnings.catch_warnings():
            # That it looks like a TorchScript archive, which it was read as before.
            warnings.simplefilter("ignore", UserWarning)
            content: object = torch.load(path, weights_only=not allow_pickle, map_location="cpu")
    except pickle.UnpicklingError as error:
        if not _is_saved(path):
            raise InputError(f"{path} is neither a TorchScript file nor one of torch.save.") from error
        raise InputError(
            f"{path} holds a pickled module, and loading it would run code from the file. Pass --allow-pickle if you "
            "trust where it comes from; a file of torch.export.save or torch.jit.save needs no such trust."
        ) from error
    except Exception as error:
        # torch raises anything that a wrong file makes it stumble over.
        said = (line.strip() for line in str(not_script).splitlines())
        reason = next(filter(None, said), type(not_script).__name__).partition(". ")[0].removesuffix(":")
        raise InputError(f"{path} is neither a TorchScript file nor one of torch.save: {reason}.") from error
    if isinstance(content, Mapping):
        found = _state_dicts(content)
        weights = next(iter(found.values()), content)
        names = ", ".join(repr(name) for name in found if name)
        inside = f" under {names}" if names else ""
        raise InputError(
            f"{path} holds a state dict{inside}: {len(weights)} weights, and no model. Name the code that builds the "
            "model: --arch model.py:build"
        )
    if not isinstance(content, torch.nn.Module):
        raise InputError(f"{path} holds {with_article(type(content).__name__)}, not a torch.nn.Module.")
    return content


def _state_dicts(content: Mapping[object, object]) -> dict[str, Mapping[str, torch.Tensor]]:
    """The state dicts in what was saved: itself, or those that stand under a name beside epochs and optimizers."""
    if content and all(isinstance(item, torch.Tensor) for item in content.values()):
        return {"": {str(name): item for name, item in content.items() if isinstance(item, torch.Tensor)}}
    inner = [(str(name), item) for name, item in content.items() if isinstance(item, Mapping)]
    return {name: found[""] for name, item in inner if "" in (found := _state_dicts(item))}


def _read_weights(path: Path) -> Mapping[str, torch.Tensor]:
    """The one state dict of a file, in whatever it was saved with."""
    if path.suffix == ".safetensors":
        return mapped_tensors(path)
    content = load_saved(path)
    if not isinstance(content, Mapping):
        raise InputError(f"{path} has tensors without names, which no weights of a model can be found by.")
    found = _state_dicts(content)
    if len(found) != 1:
        held = f"several state dicts ({', '.join(found)})" if found else "no state dict: no names with tensors"
        raise InputError(f"{path} holds {held}. Save the one that is meant: torch.save(model.state_dict(), path)")
    (weights,) = found.values()
    return weights


def with_weights(model: object, path: Path) -> torch.nn.Module:
    """A model with the weights of a safetensors file or of a state dict; all of its own have to be there."""
    if not isinstance(model, torch.nn.Module):
        raise InputError("--arch names a captured program, which has its weights; name a torch.nn.Module.")
    if not path.is_file():
        raise InputError(f"There is no file {path}.")
    weights = _read_weights(path)
    own = model.state_dict(keep_vars=True)
    weights = _without_wrapper(weights, own)
    given = {id(own[name]) for name in weights if name in own}
    # Tied weights are stored once.
    missing = [name for name, tensor in own.items() if name not in weights and id(tensor) not in given]
    unknown = [name for name in weights if name not in own]
    problems = [Problem(f"the model's {_few(missing)} not in the file")] if missing else []
    problems += [Problem(f"{_few(unknown)} in the file and not in the model")] if unknown else []
    problems += [
        Problem(f"{name}: the model has the shape {list(own[name].shape)}, the file {list(tensor.shape)}")
        for name, tensor in weights.items()
        if name in own and own[name].shape != tensor.shape
    ][:_MOST_NAMES]
    if problems:
        raise InputError(f"The weights of {path} are not those of the model.", problems)
    model.load_state_dict(dict(weights), strict=False)
    return model


def _without_wrapper(
    weights: Mapping[str, torch.Tensor], own: Mapping[str, torch.Tensor]
) -> Mapping[str, torch.Tensor]:
    """The weights by the model's names, where all were saved from inside of a wrapper: ``module.`` of DataParallel."""
    if len({name.partition(".")[0] for name in weights}) != 1 or any(name in own for name in weights):
        return weights
    inner = {name.partition(".")[2]: tensor for name, tensor in weights.items()}
    return inner if inner.keys() <= own.keys() else weights


def _few(names: list[str]) -> str:
    """The first of some names and how many more there are, with their verb."""
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"{', '.join(names[:_MOST_NAMES])}{more} {'is' if len(names) == 1 else 'are'}"


def _load_program(path: Path, *, allow_pickle: bool) -> torch.export.ExportedProgram:
    # What reads these files takes long to import, and other models don't need it.
    from onnxport.torch_internals.archives import CodeInFileError, load_program

    if not is_archive(path):
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
