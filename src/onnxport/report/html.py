"""The report of an export as one page of HTML that needs nothing beside itself."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

import torch

from onnxport.provenance import source_line
from onnxport.report.account import Account
from onnxport.report.analysis import analysis, missing_translations, printed_program
from onnxport.report.branches import decision_tree
from onnxport.report.plots import bars, columns
from onnxport.report.tree import module_tree, render
from onnxport.verification import Run

_STYLE = """
:root { --ink: #1b1f24; --quiet: #5c6670; --paper: #ffffff; --panel: #f5f6f8; --line: #d9dde2; --bar: #2f6fb2;
  --bad: #c0392b; --good: #1f8a4c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ed; --quiet: #9aa4af; --paper: #15181c; --panel: #1e2228;
  --line: #343a42; --bar: #6aa5e3; --bad: #ff7b6b; --good: #5fd08b; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 68rem; padding: 2rem 1.25rem 4rem; color: var(--ink); background: var(--paper);
  font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0 0 .25rem; } h2 { font-size: 1.15rem; margin: 2.25rem 0 .75rem; }
h3 { font-size: 1rem; margin: 1.25rem 0 .5rem; }
code, pre { font: 13px/1.45 ui-monospace, monospace; } code { overflow-wrap: anywhere; }
pre { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: .75rem 1rem;
  margin: .5rem 0; overflow-x: auto; max-height: 32rem; } pre.told { white-space: pre-wrap; }
.quiet { color: var(--quiet); fill: var(--quiet); } .good { color: var(--good); } .bad { color: var(--bad); }
ul { padding-left: 1.25rem; margin: .25rem 0; } ul.steps { list-style: none; padding: 0; }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .35rem .75rem .35rem 0; border-bottom: 1px solid var(--line); }
td:first-child code { white-space: nowrap; } td.number { font-variant-numeric: tabular-nums; white-space: nowrap; }
svg { font: 12px system-ui, sans-serif; fill: var(--ink); max-width: 100%; height: auto; }
svg .quiet { fill: var(--quiet); } svg .bar { fill: var(--bar); } svg .bar.bad { fill: var(--bad); }
svg .axis { stroke: var(--line); } svg .tick { font-size: 10px; text-anchor: middle; fill: var(--quiet); }
.plots { display: flex; flex-wrap: wrap; gap: 1.5rem; } figure { margin: 0; }
figcaption { color: var(--quiet); font-size: 13px; } summary { cursor: pointer; }
"""
_SIGNS = {True: ("good", "✓", "done"), False: ("bad", "✗", "failed"), None: ("quiet", "–", "not tried")}
_TITLES = {"assumption": "Assumptions", "warning": "Warnings", "cast": "Casts inserted", "note": "Notes"}


def html_page(account: Account) -> str:
    """Return the page."""
    outcome = "exported" if account.error is None else "not exported"
    title = f"{account.model_name}: {outcome}"
    body = "\n".join(_sections(account, outcome))
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{escape(title)}</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _sections(account: Account, outcome: str) -> Iterator[str]:
    kind = "good" if account.error is None else "bad"
    yield f'<h1>{escape(account.model_name)} <span class="{kind}">{outcome}</span></h1>'
    yield f'<p class="quiet">PyTorch to ONNX, torch {escape(torch.__version__)}</p>'
    yield f'<ul class="steps">{"".join(_steps(account))}</ul>'
    yield from _failures(account)
    yield from _times(account)
    yield from _verification(account)
    if account.captured is not None and account.captured.forks is not None:
        yield f"<h2>Branches</h2>\n<pre>{escape(decision_tree(account.captured.forks))}</pre>"
    if account.captured is not None:
        what = "ONNX operators" if account.onnx_model is not None else "Operators of the captured graph"
        yield f"<h2>{what} by module</h2>\n{render(module_tree(account))}"
    yield from _events(account)
    yield from _details(account)


def _steps(account: Account) -> Iterator[str]:
    for step, ok in account.status().items():
        kind, sign, words = _SIGNS[ok]
        parts = escape(step).split("`")
        marked = "".join(f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts))
        yield f'<li><span class="{kind}" title="{words}">{sign}</span> {marked}</li>'


def _failures(account: Account) -> Iterator[str]:
    if account.error is not None:
        stage = f" in stage <code>{escape(account.failed_stage)}</code>" if account.failed_stage else ""
        yield f"<h2>What went wrong{stage}</h2>\n<pre class='told'>{escape(str(account.error))}</pre>"
    if account.captured is not None and account.error is not None:
        graph = account.captured.program.graph if account.functional is None else account.functional.graph
        rows = [
            f"<tr><td><code>{escape(target)}</code></td><td class='number'>{len(nodes)}</td>"
            f"<td><code>{escape(source_line(nodes[0]))}</code></td></tr>"
            for target, nodes in missing_translations(graph, account.find).items()
        ]
        if rows:
            yield _table("Operators without a translation", ["Operator", "Calls", "First at"], rows, heading="h3")
    texts = account.errors()
    if texts:
        blocks = "".join(f"<pre>{escape(text)}</pre>" for text in texts)
        yield f"<details><summary>Tracebacks</summary>{blocks}</details>"


def _times(account: Account) -> Iterator[str]:
    rows = [
        (event.stage, event.seconds, f"{event.seconds:.3f} s" + (" (failed)" if event.kind == "failure" else ""))
        for event in account.events.events
        if event.kind in ("stage", "failure")
    ]
    if rows:
        failed = frozenset(event.stage for event in account.events.of("failure"))
        total = sum(seconds for _, seconds, _ in rows)
        yield f'<h2>Time <span class="quiet">{total:.2f} s</span></h2>\n<div class="scroll">{bars(rows, failed)}</div>'


def _verification(account: Account) -> Iterator[str]:
    if account.verification is None or not account.verification.was_run:
        return
    verdict = "agrees" if account.verification.matches else "does not agree"
    kind = "good" if account.verification.matches else "bad"
    yield f'<h2>Verification: the ONNX model <span class="{kind}">{verdict}</span></h2>'
    rows = [row for run in account.verification.runs for row in _comparisons(run)]
    titles = ["Output", "Against", "At", "Largest difference", "Relative", "Mean", "Mean relative", ""]
    yield _table("", titles, rows)
    for info in account.verification.infos:
        if not info.is_random:
            yield (
                f"<h3><code>{escape(info.name)}</code></h3><div class='plots'>"
                f"<figure>{columns(info.abs_diff_hist, 'absolute differences')}"
                "<figcaption>elements by absolute difference</figcaption></figure>"
                f"<figure>{columns(info.rel_diff_hist, 'relative differences')}"
                "<figcaption>elements by relative difference</figcaption></figure></div>"
            )


def _comparisons(run: Run) -> Iterator[str]:
    where = f"<td>{escape(run.reference)}</td><td>{escape(run.label) or 'the example'}</td>"
    if run.error:
        message = escape(run.error.strip().splitlines()[-1])
        yield f"<tr><td></td>{where}<td colspan='4'><code>{message}</code></td><td class='bad'>✗</td></tr>"
    for info in run.infos:
        figures = (info.max_abs_diff, info.max_rel_diff, info.mean_abs_diff, info.mean_rel_diff)
        cells = "".join(f"<td class='number'>{'random' if info.is_random else f'{n:.3g}'}</td>" for n in figures)
        kind, sign, words = _SIGNS[info.matches]
        yield (
            f"<tr><td><code>{escape(info.name)}</code></td>{where}{cells}"
            f"<td class='{kind}' title='{words}'>{sign}</td></tr>"
        )


def _events(account: Account) -> Iterator[str]:
    for kind, title in _TITLES.items():
        rows = [
            f"<tr><td>{escape(event.stage)}</td><td>{escape(event.message)}</td>"
            f"<td><code>{escape(event.where)}</code></td></tr>"
            for event in account.events.events
            if event.kind == kind
        ]
        if rows:
            yield _table(title, ["Stage", "What", "Where"], rows)


def _details(account: Account) -> Iterator[str]:
    if account.captured is None:
        return
    texts = {
        "Exported program": printed_program(account.captured, account.functional),
        "ONNX model": str(account.onnx_model) if account.onnx_model is not None else "",
        "Analysis": analysis(account.captured, account.functional, account.find),
        "Profile": account.profile,
    }
    yield "<h2>In full</h2>"
    for title, text in texts.items():
        if text:
            yield f"<details><summary>{title}</summary><pre>{escape(text)}</pre></details>"


def _table(title: str, columns: list[str], rows: list[str], heading: str = "h2") -> str:
    head = "".join(f"<th>{column}</th>" for column in columns)
    shown = f"<{heading}>{title}</{heading}>" if title else ""
    return f"{shown}<div class='scroll'><table><tr>{head}</tr>{''.join(rows)}</table></div>"
