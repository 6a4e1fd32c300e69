"""The tables of fitted coefficients are what their generator gives."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from onnxport.aten.special import coefficients as tables

GENERATOR = Path(__file__).parents[2] / "tools" / "coefficients.py"
_spec = importlib.util.spec_from_file_location("coefficients_generator", GENERATOR)
assert _spec is not None and _spec.loader is not None
generator = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(generator)


def test_every_table_has_its_function() -> None:
    assert {name for name in vars(tables) if name.isupper()} == set(generator.TABLES)


@pytest.mark.parametrize("name", generator.TABLES)
def test_a_table_is_what_is_fitted(name: str) -> None:
    # Twelve digits were kept; the last may differ.
    assert list(getattr(tables, name)) == pytest.approx(generator.coefficients(name), rel=1e-11, abs=2e-14)
