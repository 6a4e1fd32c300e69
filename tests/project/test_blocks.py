"""Tables of measurements are put between their marks, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.pages import write_block


def test_a_block_is_replaced_and_nothing_around_it(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- cases -->\nold \\1\n<!-- end of cases -->\nafter\n")
    write_block(page, "cases", r"new \d")
    assert page.read_text() == "before\n<!-- cases -->\nnew \\d\n<!-- end of cases -->\nafter\n"


def test_a_page_without_the_marks_is_said(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing\n")
    with pytest.raises(ValueError, match="has no <!-- cases -->"):
        write_block(page, "cases", "new")
