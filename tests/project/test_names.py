"""A name means one thing: no public class or function is defined in two modules with different meanings."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import onnxport

SOURCE = Path(onnxport.__file__).parent

#: Folders whose functions carry the names of torch.onnx's or of ONNX's operators, which one looks for.
NAMED_BY_OTHERS = ("ops", "symbolic/helper", "torch_onnx")


def registers(function: ast.ClassDef | ast.FunctionDef) -> bool:
    """Whether a decorator registers it under the name of an operator, after which it is called."""
    calls = [decorator for decorator in function.decorator_list if isinstance(decorator, ast.Call)]
    return any(call.args and isinstance(call.args[0], ast.Constant | ast.Starred) for call in calls)


def public_names() -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SOURCE.rglob("*.py")):
        module = path.relative_to(SOURCE).as_posix()
        if module.startswith(tuple(f"{folder}/" for folder in NAMED_BY_OTHERS)):
            continue
        for defined in ast.parse(path.read_text(encoding="utf-8")).body:
            if not isinstance(defined, ast.ClassDef | ast.FunctionDef) or defined.name.startswith("_"):
                continue
            if not registers(defined) and module not in found[defined.name]:
                found[defined.name].append(module)
    return found


def test_a_name_is_defined_once() -> None:
    twice = {name: modules for name, modules in public_names().items() if len(modules) > 1}
    assert not twice, f"tell them apart by name: {twice}"
