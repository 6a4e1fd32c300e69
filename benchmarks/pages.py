"""Tables of measurements in pages of the documentation, each between two marks."""

from __future__ import annotations

import re
from pathlib import Path


def write_block(page: Path, name: str, text: str) -> None:
    """Put a text between ``<!-- name -->`` and ``<!-- end of name -->`` of a page, for what stands there."""
    start, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    block = re.compile(f"{re.escape(start)}.*{re.escape(end)}", re.DOTALL)
    before = page.read_text(encoding="utf-8")
    if block.search(before) is None:
        raise ValueError(f"{page} has no {start} with {end} behind it; write them where the table is to stand.")
    page.write_text(block.sub(lambda _: f"{start}\n{text}\n{end}", before), encoding="utf-8")
