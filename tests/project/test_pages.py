"""Pages whose code is run: it works as it stands, and prints what the page says."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ["branches.md"]
_BLOCKS = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.filterwarnings("ignore::onnxport.errors.OnnxExporterWarning")
@pytest.mark.parametrize("page", PAGES)
def test_code_prints_what_the_page_says(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {}
    printed = io.StringIO()
    for kind, text in _BLOCKS.findall((ROOT / "docs" / page).read_text(encoding="utf-8")):
        if kind == "python":
            # As a file of its own: errors and decisions name the line.
            file = tmp_path / "page.py"
            file.write_text(text, encoding="utf-8")
            with contextlib.redirect_stdout(printed):
                exec(compile(text, str(file), "exec"), namespace)
        else:
            assert printed.getvalue() == text
            printed = io.StringIO()
