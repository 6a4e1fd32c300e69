"""Pages whose code is run: it works as it stands, and prints what the page says.

UPDATE_PAGES=1 writes what it prints.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from page_runner import agree, differences

from onnxport.capture.diagnosis.explanations import EXPLANATIONS

ROOT = Path(__file__).parents[2]
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), ROOT / "README.md"])
_LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)")
RUN = [page for page in PAGES if re.search(r"^```(python|console)", page.read_text(encoding="utf-8"), re.M)]
TROUBLESHOOTING = ROOT / "docs" / "troubleshooting.md"
# What was to be possible from the docs alone, and where it is shown.
TASKS = 12


@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_prints_what_the_page_says(page: Path, tmp_path: Path) -> None:
    assert differences(page, tmp_path, update="UPDATE_PAGES" in os.environ) == []


def test_a_page_that_shows_something_else_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text('```python\nprint("one", 2)\n```\n\n```text\none 3...\n```\n')
    assert len(differences(page, tmp_path)) == 1
    assert differences(page, tmp_path, update=True) == []
    assert page.read_text().endswith("```text\none 2\n```\n")
    assert agree("one ...", "one 2.5\n") and not agree("one", "two\n")
    assert agree("y  model  3e-08   0  agrees", "y  model  0    0     agrees")
    assert not agree("y  model  3e-08   0  agrees", "y  model  3   3    differs")


def test_every_link_between_pages_leads_somewhere() -> None:
    lost = []
    for page in PAGES:
        for target, anchor in re.findall(
            r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)", page.read_text(encoding="utf-8")
        ):
            other = (page.parent / target).resolve() if target else page
            if not other.exists():
                lost.append(f"{page.relative_to(ROOT)}: {target}")
            elif anchor and other.suffix == ".md" and anchor not in anchors(other):
                lost.append(f"{page.relative_to(ROOT)}: {target}#{anchor}")
    assert lost == []


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and MkDocs make them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def test_every_page_is_in_the_navigation() -> None:
    listed = set(re.findall(r"[\w/]+\.md", (ROOT / "mkdocs.yml").read_text(encoding="utf-8")))
    assert listed == {str(page.relative_to(ROOT / "docs")) for page in PAGES if page.name != "README.md"}


def test_troubleshooting_is_by_messages_that_there_are() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "src").rglob("*.py")))
    # A long message is several literals, one below the other.
    code = re.sub(r'"\s*\n\s*f?"', "", code)
    headings = re.findall(r'^## "(.+)"', TROUBLESHOOTING.read_text(encoding="utf-8"), re.M)
    assert len(headings) > 15
    unknown = [
        part for heading in headings for part in heading.split("…") if part.strip(" ,") and part.strip() not in code
    ]
    assert unknown == []


def test_troubleshooting_has_every_explanation() -> None:
    rows = [f"| {entry.what} | {entry.remedy} |" for entry in EXPLANATIONS]
    shown = "\n".join(["| message | what to do |", "|---|---|", *rows]).replace("{0}", "…").replace("{message}", "…")
    page = TROUBLESHOOTING.read_text(encoding="utf-8")
    before, found, after = re.split(
        r"(?<=<!-- explanations -->\n)(.*)(?=<!-- end of explanations -->)", page, flags=re.S
    )
    if "UPDATE_PAGES" in os.environ:
        TROUBLESHOOTING.write_text(f"{before}\n{shown}\n\n{after}", encoding="utf-8")
    else:
        assert found == f"\n{shown}\n\n", "run make pages"


def test_the_tasks_of_the_start_page_are_run() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| .*?\]\(([\w.]+)(?:#[\w-]+)?\)", index, re.M)
    assert [int(number) for number, _ in rows] == list(range(1, TASKS + 1))
    assert {page for _, page in rows} <= {page.name for page in RUN}
