"""The one place for torch's private names: each exists in this torch."""

import importlib
import pkgutil

import pytest

from onnxport import torch_internals

MODULES = [f"{torch_internals.__name__}.{module.name}" for module in pkgutil.iter_modules(torch_internals.__path__)]
NAMES = [(module, name) for module in MODULES for name in importlib.import_module(module).__all__]


@pytest.mark.parametrize(("module", "name"), NAMES, ids=lambda part: part.rpartition(".")[2])
def test_name_exists(module: str, name: str) -> None:
    assert hasattr(importlib.import_module(module), name)
