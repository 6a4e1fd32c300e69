"""The site is built strictly, where MkDocs is installed; the page of comparisons says what was measured."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MKDOCS = ROOT / ".venv-docs" / "bin" / "mkdocs"


@pytest.mark.skipif(not MKDOCS.exists(), reason="make docs installs MkDocs")
def test_the_site_is_built(tmp_path: Path) -> None:
    done = subprocess.run(
        [MKDOCS, "build", "--strict", "--site-dir", tmp_path / "site"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    api = (tmp_path / "site" / "reference" / "api.html").read_text(encoding="utf-8")
    for name in ("onnxport.export", "onnxport.ONNXProgram.apply_weights", "onnxport.verification.find_mismatch"):
        assert f'id="{name}"' in api
    assert "<blockquote>" not in api, "an example in a docstring is code, not a quotation"
    # Nothing is loaded from elsewhere.
    loaded = re.compile(r'<(?:script|img|link rel="stylesheet")[^>]*https?://')
    assert [page.name for page in (tmp_path / "site").rglob("*.html") if loaded.search(page.read_text("utf-8"))] == []


def test_comparisons_are_those_that_were_measured(tmp_path: Path) -> None:
    subprocess.run([sys.executable, ROOT / "tools" / "comparisons.py", tmp_path], check=True)
    for path in tmp_path.rglob("*.*"):
        shown = ROOT / "docs" / path.relative_to(tmp_path)
        assert shown.read_text(encoding="utf-8") == path.read_text(encoding="utf-8"), "run make comparisons"
