"""``onnxport doctor``: which versions there are, what they can do, and what is missing."""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from onnxport.command_line.answers import ExitCode, Json, answering
from onnxport.command_line.tables import show_table
from onnxport.versions import OLDEST, VERSION, is_older

if TYPE_CHECKING:
    from rich.console import Console

_NEEDED = ("torch", "onnx", "onnx_ir", "onnxruntime", "numpy", "ml_dtypes", "rich", "typer")
_OPTIONAL = {
    "transformers": "checkpoints of language models",
    "safetensors": "writing weights as safetensors files",
    "onnxscript": "translations written as ONNX Script functions",
    "timm": "models by name: timm:NAME",
    "torchvision": "models by name: torchvision:NAME",
}


@dataclass(frozen=True)
class Package:
    """An installed package, or one that is not, and what that means."""

    name: str
    version: str
    state: str
    needed: bool

    @property
    def fails(self) -> bool:
        """Whether nothing works without another version of it."""
        return self.needed and self.state != "ok"


@dataclass(frozen=True)
class Check:
    """Something that was tried."""

    what: str
    result: str
    ok: bool


def doctor_command(as_json: Json = False) -> None:
    """Show versions, and what is missing. An export is tried, too."""
    with answering(as_json=as_json) as answer:
        packages = list(_packages())
        checks = [] if any(package.fails for package in packages) else list(_checks())
        healthy = not any(package.fails for package in packages) and all(check.ok for check in checks)
        document = {
            "onnxport": VERSION,
            "python": platform.python_version(),
            "platform": platform.platform(terse=True),
            "healthy": healthy,
            "packages": [asdict(package) for package in packages],
            "checks": [asdict(check) for check in checks],
        }
        rows = [(package.name, package.version, package.state) for package in packages]
        tried = [(check.what, check.result) for check in checks]
        title = f"onnxport {VERSION}, Python {platform.python_version()}, {platform.platform(terse=True)}"

        def show(console: Console) -> None:
            show_table(console, title, ("package", "version", ""), rows)
            show_table(console, "What works", ("", ""), tried)

        answer.give(document, show, ExitCode.DONE if healthy else ExitCode.REFUSED)


def _packages() -> Iterator[Package]:
    for name in _NEEDED:
        version = _version(name)
        oldest = OLDEST.get(name)
        if not version:
            yield Package(name, "", f"missing: pip install {name}", needed=True)
        elif oldest is not None and is_older(version, oldest):
            yield Package(name, version, f"too old: pip install --upgrade '{name}>={oldest}'", needed=True)
        else:
            yield Package(name, version, "ok", needed=True)
    for name, use in _OPTIONAL.items():
        version = _version(name)
        yield Package(name, version, "ok" if version else f"not installed; it is for {use}", needed=False)


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _checks() -> Iterator[Check]:
    import onnxruntime
    import torch

    from onnxport.export_call import export
    from onnxport.legalize.runtime_gaps import measured_runtime
    from onnxport.legalize.versions import NEWEST_IR
    from onnxport.onnx_build.opsets import DEFAULT_OPSET, NEWEST_OPSET, OLDEST_OPSET

    yield Check("opsets that are written", f"{OLDEST_OPSET} to {NEWEST_OPSET}, {DEFAULT_OPSET} by default", ok=True)
    yield Check("newest IR version", str(NEWEST_IR), ok=True)
    yield Check("providers of onnxruntime", ", ".join(onnxruntime.get_available_providers()), ok=True)
    known = measured_runtime()
    others = "" if known == onnxruntime.__version__ else f"; {onnxruntime.__version__} may lack others"
    yield Check("kernels known to be missing", f"those of onnxruntime {known}{others}", ok=True)
    shapes = ({0: "batch"},)
    program = export(torch.nn.Linear(3, 2), (torch.ones(4, 3),), dynamic_shapes=shapes, verify=True, verbose=False)
    assert program.verification is not None
    yield Check("export of a layer", program.verification.verdict, program.verification.matches)
