"""The pages on the architecture name files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "architecture").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_named_on_a_page_exist(page: Path) -> None:
    named = re.findall(r"`([\w/]+(?:\.py|\.json|/))`", page.read_text(encoding="utf-8"))
    assert named
    assert [name for name in named if not any((place / name).exists() for place in (ROOT, ROOT / "src/onnxport"))] == []
