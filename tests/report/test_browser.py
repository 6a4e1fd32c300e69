"""The pages in a real browser: no script fails, whatever is clicked. Skipped where there is no Chromium."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch
from torch import nn

import onnxport
from onnxport.errors import OnnxExporterError

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium: make screenshots installs it")
SCREENSHOTS = Path(os.environ.get("SCREENSHOTS", Path(__file__).parents[2] / "build" / "screenshots"))

# Clicks on everything that can be, points at everything that tells something, and counts what is there.
_USE = """
<script>
window.failed = [];
addEventListener("error", (event) => failed.push(event.message));
</script>
"""
_CLICK = """
<script>
const seen = {};
const count = (name) => { seen[name] = document.querySelectorAll(".item, .call").length; };
count("first");
for (const button of document.querySelectorAll("button")) { button.click(); count(button.textContent); }
document.querySelector("button")?.click();
for (const kind of [".item", ".frame", ".edge", ".call"]) {
  for (const shown of [...document.querySelectorAll(kind)].slice(0, 30)) {
    shown.dispatchEvent(new MouseEvent("mousemove", { clientX: 9, clientY: 9, bubbles: true }));
    seen.tip = document.querySelector(".tip")?.innerText ?? "";
    shown.dispatchEvent(new MouseEvent("click", { bubbles: true }));
  }
}
const search = document.querySelector("input");
if (search) { search.value = "sin"; search.dispatchEvent(new Event("input")); }
seen.found = document.querySelectorAll(".found").length;
document.title = JSON.stringify({ failed, seen });
</script>
"""


class Inner(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(10, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).sin() + x


class Branching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(Inner(), Inner())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.inner(x)
        return y * 2 if y.sum() > 0 else y - 1


class Failing(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ torch.ones(7, 2)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    x = torch.ones(4, 10)
    shapes = ({0: "n"},)
    onnxport.export(Branching(), (x,), dynamic_shapes=shapes, report=True, profile=True, artifacts_dir=folder)
    with pytest.raises(OnnxExporterError):
        onnxport.export(Failing(), (x,), report=True, artifacts_dir=folder)
    return {path.stem.rpartition("_")[2]: path for path in folder.glob("*.html")}


def browse(page: Path, *options: str) -> str:
    assert CHROMIUM is not None
    command = [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--window-size=1200,1600", *options]
    done = subprocess.run(
        [*command, "--enable-logging=stderr", f"--user-data-dir={page.parent / 'browser'}", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert not [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return done.stdout


@pytest.mark.parametrize("kind", ["success", "flame", "export"])
def test_no_script_fails(kind: str, pages: dict[str, Path]) -> None:
    page = pages[kind]
    text = page.read_text(encoding="utf-8")
    used = page.with_name(f"used_{kind}.html")
    used.write_text(text.replace("<body>", f"<body>{_USE}").replace("</body>", f"{_CLICK}</body>"), encoding="utf-8")
    told = re.search(r"<title>(.*?)</title>", browse(used, "--dump-dom"))
    assert told is not None
    assert told[1].startswith('{"failed":[]')
    if kind == "success":
        # Modules are one box each until they are opened.
        opened, closed = (int(number) for number in re.findall(r'"(?:open|close) all":(\d+)', told[1]))
        assert opened > closed
        assert not told[1].endswith('"found":0}}')


def test_screenshots(pages: dict[str, Path]) -> None:
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    for kind, page in pages.items():
        picture = SCREENSHOTS.resolve() / f"{kind}.png"
        picture.unlink(missing_ok=True)
        browse(page, f"--screenshot={picture}", "--hide-scrollbars")
        assert picture.stat().st_size > 10_000
