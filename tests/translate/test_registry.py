"""What the registry reads off a translation: which parameters are fixed numbers, and what holds for complex tensors."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import pytest

import onnxport  # noqa: F401  (fills the registry)
from onnxport.translate import Builder, Int, Number, Tensor
from onnxport.translate.registry import REGISTRY, Registry, Translation, annotations_of, wants_static_int
from onnxport.translate.tensor import Operand

Axes = int | Sequence[int] | None

ANNOTATIONS: list[tuple[object, bool]] = [
    (int, True),
    (int | None, True),
    (Sequence[int], True),
    (Axes, True),
    (Sequence[int | None], True),
    (bool, False),
    (Int, False),
    (Sequence[Int] | None, False),
    (Number, False),
    (Operand, False),
    (Tensor | int, False),
    (Any, False),
    (None, False),
]


@pytest.mark.parametrize(("annotation", "expected"), ANNOTATIONS, ids=[str(row[0]) for row in ANNOTATIONS])
def test_static_integers(annotation: object, expected: bool) -> None:
    assert wants_static_int(annotation) is expected


def aliased(op: Builder, dim: Axes, size: Int, of_nobody: Nobody) -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize("function", [aliased, functools.partial(aliased, size=2)])
def test_annotations_are_resolved(function: Callable[..., Any]) -> None:
    annotations = annotations_of(function)
    assert annotations["dim"] == Axes and "of_nobody" not in annotations
    assert Translation(function, parameters=frozenset({"dim", "size", "of_nobody"})).static == {"dim"}


def test_all_annotations_of_translations_are_types() -> None:
    for table in (REGISTRY.translations, REGISTRY.complex_translations):
        for name, translation in table.items():
            function = getattr(translation.function, "func", translation.function)
            assert set(inspect.get_annotations(function)) == set(annotations_of(function)), name


def formula(op: Builder, self: Tensor) -> Tensor:
    return self


@pytest.mark.parametrize(
    ("complex", "for_real", "for_complex"),
    [("no", True, None), ("same", True, True), ("only", False, True), ("by_parts", True, False)],
)
def test_complex_support_is_said_with_the_formula(complex: Any, for_real: bool, for_complex: bool | None) -> None:
    registry = Registry()
    registry.add(["aten::relu"], Translation(formula, parameters=frozenset({"self"})), complex)
    assert ("aten::relu" in registry.translations) is for_real
    found = registry.complex_translations.get("aten::relu")
    assert (None if found is None else found.function is formula) is for_complex
