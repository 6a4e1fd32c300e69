"""Names of a package that are loaded when they are first asked for, as attributes and as modules to import."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType


class LateNames(MetaPathFinder, Loader):
    """The names of a package by the module that each is defined in; those that are modules can also be imported.

    So ``onnxport.utils``, ``from onnxport import utils`` and ``import onnxport.utils`` are one module, which stands
    elsewhere.

    >>> from onnxport.late_names import LateNames
    >>> names = LateNames("onnxport", {"onnxport.errors": "OnnxExporterError SaveError"})
    >>> names.get("SaveError").__name__
    'SaveError'
    """

    def __init__(self, package: str, names: Mapping[str, str]) -> None:
        """Args: the package, and the names (with spaces between them) by the module that has them."""
        self.package = package
        self.places = {name: module for module, listed in names.items() for name in listed.split()}
        sys.meta_path.append(self)

    def get(self, name: str) -> object:
        """The ``__getattr__`` of the package."""
        if name not in self.places:
            raise AttributeError(f"module {self.package!r} has no attribute {name!r}")
        value = self._found(name)
        setattr(sys.modules[self.package], name, value)
        return value

    def listed(self) -> list[str]:
        """The ``__dir__`` of the package."""
        return sorted({*vars(sys.modules[self.package]), *self.places})

    def _found(self, name: str) -> object:
        place = self.places[name]
        if place == self.package:
            return importlib.import_module(f"{place}.{name}")
        module = importlib.import_module(place)
        return getattr(module, name) if hasattr(module, name) else importlib.import_module(f"{place}.{name}")

    # Importing a name as a module of the package

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module of a name, if it is one that stands elsewhere."""
        package, _, name = fullname.rpartition(".")
        if package != self.package or self.places.get(name, package) == package:
            return None
        return ModuleSpec(fullname, self) if isinstance(self._found(name), ModuleType) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """The module itself, which keeps what it says of where it was loaded from."""
        module = self._found(spec.name.rpartition(".")[2])
        assert isinstance(module, ModuleType)
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is run: it was, in its own place."""
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state
