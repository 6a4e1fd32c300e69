"""``make consumers``: export the models, give the files to every reader, write docs/consumers.md.

``--models``, ``--readers`` and ``--exporters`` take less; then only what was measured is printed.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.consumers.files import (
    EXPORTERS,
    ONE_ROW,
    PAIR,
    TARGETS,
    Case,
    cases,
    target_folder,
    write_file,
    write_values,
)
from benchmarks.consumers.probes import write_probes
from benchmarks.consumers.readers import READERS
from benchmarks.consumers.table import ROOT, Probed, Result, Results, failures, probe_table, table

MODULES = {
    "opencv": "cv2",
    "tract": "tract",
    "mnn": "MNN",
    "ncnn": "ncnn",
    "openvino": "openvino",
    "onnxsim": "onnxsim",
    "onnxslim": "onnxslim",
}
WEB = "onnxruntime-web"


def installed(reader: str, web: Path) -> bool:
    """Whether a reader is at hand."""
    if reader == WEB:
        return web.exists() and shutil.which("node") is not None
    return reader not in MODULES or importlib.util.find_spec(MODULES[reader]) is not None


def read_all(reader: str, files: list[tuple[str, str]], web: Path) -> dict[str, dict[str, Any]]:
    """Give files to a reader, in a process that is started again behind a file which ended it.

    The process works in a temporary folder, since some tools leave there what they could not make sense of.
    """
    found: dict[str, dict[str, Any]] = {}
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    with tempfile.TemporaryDirectory() as folder:
        pairs, lines = Path(folder, "pairs.json"), Path(folder, "results.jsonl")
        while rest := [pair for pair in files if pair[0] not in found]:
            pairs.write_text(json.dumps(rest))
            lines.write_text("")
            command = [sys.executable, "-m", "benchmarks.consumers.worker", reader, pairs, lines]
            if reader == WEB:
                command = ["node", Path(__file__).with_name("web.mjs"), web, pairs, lines]
            ended = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)
            told = [json.loads(line) for line in lines.read_text().splitlines()]
            found.update((line["file"], line) for line in told if "file" in line)
            if ended.returncode == 0:
                continue
            begun = [line["begun"] for line in told if "begun" in line]
            if not begun:
                raise RuntimeError(f"{reader} does not start: {ended.stderr[-500:]}")
            if begun[-1] not in found:
                found[begun[-1]] = {"error": f"ended the process ({ended.returncode})"}
    return found


def measure(chosen: argparse.Namespace, opset: int) -> Results:
    """Export at one opset and ask all readers."""
    results: Results = {}
    wanted = cases(opset, chosen.models, chosen.readers)
    readable: dict[str, list[Case]] = {exporter: [] for exporter in chosen.exporters}
    for case in wanted:
        write_values(case, chosen.folder)
        for exporter in chosen.exporters:
            keep = exporter != "onnxport" or chosen.keep
            refused = write_file(case, exporter, chosen.folder, keep=keep)
            if refused:
                for reader in filter(case.is_for, chosen.readers):
                    for column, _, by in folders(reader, chosen.exporters):
                        if by == exporter:
                            results[reader, column, case.name] = Result(f"not exported: {refused}")
            else:
                readable[exporter].append(case)
    for reader in chosen.readers:
        files = {
            str(chosen.folder / folder / f"{case.name}.onnx"): (column, case)
            for column, folder, exporter in folders(reader, chosen.exporters)
            for case in readable[exporter]
            if case.is_for(reader)
        }
        for path in [path for path in files if not Path(path).exists()]:
            column, case = files.pop(path)
            results[reader, column, case.name] = Result(f"not exported: {Path(path).with_suffix('.txt').read_text()}")
        told = read_all(
            reader, [(path, str(chosen.folder / f"{case.name}.json")) for path, (_, case) in files.items()], chosen.web
        )
        for path, (column, case) in files.items():
            results[reader, column, case.name] = Result(told[path]["error"], told[path].get("elements", 0))
    return results


def probe(chosen: argparse.Namespace) -> Probed:
    """Which of the probes each reader takes that files are written for by name."""
    probes = list(write_probes(chosen.folder / "probes"))
    found: Probed = {}
    for reader in chosen.readers:
        if reader in TARGETS:
            told = read_all(reader, [(str(path), str(values)) for _, path, values in probes], chosen.web)
            found[reader] = {name: told[str(path)]["error"] for name, path, _ in probes}
    return found


def folders(reader: str, exporters: list[str]) -> list[tuple[str, str, str]]:
    """Which files a reader is given: the column of the table, the folder, and who wrote them."""
    if reader == "pair":
        return [("onnxport", PAIR, "onnxport")]
    found = [(exporter, exporter, exporter) for exporter in exporters]
    if reader in (*TARGETS, ONE_ROW) and "onnxport" in exporters:
        found.append(("target", target_folder(reader), "onnxport"))
    return found


def main() -> None:
    """Measure what was asked for; write the page when that was everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", nargs="*", default=[])
    parser.add_argument("--readers", nargs="*", default=[*READERS, WEB])
    parser.add_argument("--exporters", nargs="*", default=list(EXPORTERS))
    parser.add_argument("--opset", type=int, default=17)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "consumers")
    parser.add_argument("--web", type=Path, default=ROOT / "build" / "web" / "node_modules" / WEB)
    parser.add_argument("--keep", action="store_true", help="our files too are taken as they are if they are there")
    parser.add_argument("--write", type=Path, help="the page to write")
    chosen = parser.parse_args()
    chosen.folder, chosen.web = chosen.folder.resolve(), chosen.web.resolve()
    chosen.folder.mkdir(parents=True, exist_ok=True)
    if absent := [reader for reader in chosen.readers if not installed(reader, chosen.web)]:
        print(f"not installed, left out: {', '.join(absent)}")
        chosen.readers = [reader for reader in chosen.readers if reader not in absent]
    results = measure(chosen, chosen.opset)
    if chosen.opset != 20 and "shapes" in chosen.readers:
        at_20 = argparse.Namespace(**{**vars(chosen), "readers": ["shapes"]})
        results.update({("shapes at 20", *key[1:]): cell for key, cell in measure(at_20, 20).items()})
    probed = probe(chosen)
    print(table(results))
    print(probe_table(probed))
    print(failures(results, "onnxport"))
    print(failures(results, "target"))
    if chosen.write is not None:
        from benchmarks.consumers.table import page

        chosen.write.write_text(page(results, probed, chosen.opset))


if __name__ == "__main__":
    main()
