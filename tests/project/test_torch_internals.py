"""The one place for torch's private names: each exists in this torch, and no other module spells one."""

import ast
import functools
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from onnxport import torch_internals
from onnxport.torch_internals.exporting import onnx_flags
from onnxport.torch_internals.fake_tensors import fake_impls
from onnxport.torch_internals.gradients import FUNCTION_TRANSFORMS
from onnxport.torch_internals.layers import stateless, variable_functions
from onnxport.torch_internals.symbolic_sizes import DimConstraints
from onnxport.torch_internals.torchscript import jit_state, jit_trace

ROOT = Path(__file__).parents[2] / "src"
MODULES = [f"{torch_internals.__name__}.{module.name}" for module in pkgutil.iter_modules(torch_internals.__path__)]
NAMES = [(module, name) for module in MODULES for name in importlib.import_module(module).__all__]
OUTSIDE = [path for path in sorted(ROOT.rglob("*.py")) if "torch_internals" not in path.parts]
# torch's documentation tells users to call it.
PUBLIC = {"torch._check"}


@pytest.mark.parametrize(("module", "name"), NAMES, ids=lambda part: part.rpartition(".")[2])
def test_name_exists(module: str, name: str) -> None:
    assert hasattr(importlib.import_module(module), name)


def _defined() -> object:
    @torch.library.custom_op("onnxport_test_internals::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    return twice


SCRIPT = torch.jit.script(torch.nn.ReLU())
EXAMPLES = {
    "OpOverload": torch.ops.aten.add.Tensor,
    "CustomOpDef": _defined(),
    "Library": torch.library.Library,
    "DimConstraints": DimConstraints,
    "ShapeEnv": ShapeEnv,
    "Module": torch.nn.ReLU(),
    "Tensor": torch.ones(1),
    "UntypedStorage": torch.ones(1).untyped_storage(),
    "Node": torch.fx.Node,
    "RecursiveScriptModule": SCRIPT,
    "ScriptModule": SCRIPT._c,
    "ExportedProgram": torch.export.draft_export(torch.nn.ReLU(), (torch.ones(2),)),
    "fake_impls": fake_impls,
    "FUNCTION_TRANSFORMS": FUNCTION_TRANSFORMS,
    "jit_state": jit_state,
    "jit_trace": jit_trace,
    "onnx_flags": onnx_flags,
    "stateless": stateless,
    "packing": torch.nn.utils.rnn,
    "variable_functions": variable_functions,
}


@pytest.mark.parametrize("kind", torch_internals.ATTRIBUTES)
def test_attributes_exist(kind: str) -> None:
    assert [name for name in torch_internals.ATTRIBUTES[kind] if not hasattr(EXAMPLES[kind], name)] == []


def is_private(name: str) -> bool:
    """Whether a dotted name is one of torch's that it doesn't promise to keep; operators are named by graphs."""
    first, *rest = name.split(".")
    return first == "torch" and rest[:1] != ["ops"] and any(map(_is_hidden, rest)) and name not in PUBLIC


def _is_hidden(part: str) -> bool:
    return part.startswith("_") and not part.startswith("__")


def private_names(tree: ast.AST) -> Iterator[str]:
    """The private names of torch that a module imports, or spells in full."""
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if is_private(alias.name))
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            full = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from filter(is_private, full)
        elif isinstance(node, ast.Attribute) and id(node) not in inner and is_private(ast.unparse(node)):
            yield ast.unparse(node)


def private_attributes(tree: ast.AST) -> Iterator[str]:
    """The private attributes that a module reads on objects other than its own."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_hidden(node.attr):
            text = ast.unparse(node.value)
            if text not in ("self", "cls", "torch", "sys") and "ops" not in text.split(".") and "aten" not in text:
                yield node.attr


def _own_names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr if ast.unparse(node.value) in ("self", "parsed") else ""
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


# Read by the processes that run these tests, not by each that collects them.
@functools.cache
def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def _own() -> frozenset[str]:
    return frozenset(name for path in OUTSIDE for name in _own_names(_tree(path)))


LISTED = {name for names in torch_internals.ATTRIBUTES.values() for name in names}


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: str(path.relative_to(ROOT)))
def test_private_names_are_elsewhere(path: Path) -> None:
    assert sorted(set(private_names(_tree(path)))) == [], "import it in onnxport.torch_internals"
    unknown = set(private_attributes(_tree(path))) - _own() - LISTED
    assert not unknown, "list it in ATTRIBUTES of onnxport.torch_internals"


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("from torch._ops import OpOverload", ["torch._ops.OpOverload"]),
        ("from torch.utils import _pytree as pytree", ["torch.utils._pytree"]),
        ("import torch.export._trace", ["torch.export._trace"]),
        ("def f(x: torch._C.Node): ...", ["torch._C.Node"]),
        ("torch.ops.aten._to_copy.default(torch.__version__)", []),
        ("torch._check(n > 0)", []),
    ],
)
def test_private_names_are_found(code: str, found: list[str]) -> None:
    assert list(private_names(ast.parse(code))) == found
