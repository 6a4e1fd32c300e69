"""The report of an export as one page of HTML that needs nothing beside itself."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Iterator
from html import escape
from importlib.metadata import PackageNotFoundError, version

from onnxport.program.summary import Summary, bytes_text, summarize
from onnxport.provenance import source_line
from onnxport.rendering import graph_data, graph_view, page, table
from onnxport.report.account import Account
from onnxport.report.analysis import analysis, missing_translations, printed_program
from onnxport.report.branches import decision_tree
from onnxport.report.plots import bars, columns
from onnxport.report.sources import excerpts
from onnxport.report.tree import module_tree, render
from onnxport.verification import Run

_SIGNS = {True: ("good", "✓", "done"), False: ("bad", "✗", "failed"), None: ("quiet", "–", "not tried")}
_TITLES = {"cast": "Casts inserted", "note": "Notes"}
_PACKAGES = ("onnxport", "torch", "onnx", "onnxruntime")
# Beyond these the view takes longer to be loaded than to be read.
_LARGEST_GRAPH = 30_000
_MOST_OPERATORS = 24
_SHORT = 14


def html_page(account: Account) -> str:
    """Return the page."""
    outcome = "exported" if account.error is None else "not exported"
    return page(f"{account.model_name}: {outcome}", _sections(account, outcome))


def _sections(account: Account, outcome: str) -> Iterator[str]:
    kind = "good" if account.error is None else "bad"
    yield f'<h1>{escape(account.model_name)} <span class="pill {kind}">{outcome}</span>{_agreement(account)}</h1>'
    yield f'<p class="quiet">{escape(_versions())}</p>'
    summary = None
    if account.onnx_model is not None:
        summary = summarize(account.onnx_model, account.events, account.verification, account.model_name)
        yield from _facts(account, summary)
    yield from _failures(account)
    if summary is not None:
        yield from _signature(summary)
    yield from _decisions(account)
    yield from _verification(account)
    if account.onnx_model is not None and summary is not None and summary.nodes <= _LARGEST_GRAPH:
        yield "<h2>Graph</h2>"
        yield graph_view(graph_data(account.onnx_model, account.model_name))
    yield '<div class="columns">'
    yield from _stages(account)
    if summary is not None:
        yield from _operators(summary)
    yield "</div>"
    if account.captured is not None:
        what = "ONNX operators" if account.onnx_model is not None else "Operators of the captured graph"
        yield f"<h2>{what} by module</h2>\n{render(module_tree(account))}"
    yield from _events(account)
    yield from _details(account)


def _agreement(account: Account) -> str:
    if account.verification is None or not account.verification.was_run:
        return ""
    kind, words = ("good", "verified") if account.verification.matches else ("bad", "does not agree")
    return f'<span class="pill {kind}">{words}</span>'


def _versions() -> str:
    found = [f"Python {platform.python_version()}", f"{platform.system()} {platform.machine()}"]
    for package in reversed(_PACKAGES):
        try:
            found.insert(0, f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return " · ".join(found)


def _facts(account: Account, summary: Summary) -> Iterator[str]:
    facts = dict(summary.facts())
    if account.files:
        sizes = [path.stat().st_size for path in account.files if path.exists()]
        facts = {"file": f"{account.files[0].name}, {bytes_text(sum(sizes))}", **facts}
    facts.pop("verified", None)
    cells = "".join(
        f"<div><dt>{escape(label)}</dt><dd{' class=long' if len(text) > _SHORT else ''}>{escape(text)}</dd></div>"
        for label, text in facts.items()
    )
    yield f'<dl class="facts">{cells}</dl>'


def _signature(summary: Summary) -> Iterator[str]:
    rows = [
        f"<tr><td>{label}</td><td><code>{escape(name)}</code></td><td><code>{escape(kind)}</code></td></tr>"
        for label, values in (("input", summary.inputs), ("output", summary.outputs))
        for name, kind in values.items()
    ]
    yield table("Inputs and outputs", ["", "Name", "Element type and axes"], rows)


def _decisions(account: Account) -> Iterator[str]:
    """What the file rests on: the ways through the model, what was taken for granted, what was warned of."""
    if account.captured is not None and account.captured.forks is not None:
        yield f"<h2>Branches</h2>\n<pre>{escape(decision_tree(account.captured.forks))}</pre>"
    for kind, title in (("assumption", "Assumptions"), ("warning", "Warnings")):
        # A loop asks the same question in each iteration.
        found = dict.fromkeys((event.message, event.where) for event in account.events.events if event.kind == kind)
        if found:
            yield f"<h2>{title}</h2>"
        for message, where in found:
            place = f"<code>{escape(where)}</code>" if where else ""
            yield f'<div class="note {kind}">{escape(message)}{place}</div>'


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
        yield from excerpts(account.error)
    if account.captured is not None and account.error is not None:
        graph = account.captured.program.graph if account.functional is None else account.functional.graph
        rows = [
            f"<tr><td><code>{escape(target)}</code></td><td class='number'>{len(nodes)}</td>"
            f"<td><code>{escape(source_line(nodes[0]))}</code></td></tr>"
            for target, nodes in missing_translations(graph, account.find).items()
        ]
        if rows:
            yield table("Operators without a translation", ["Operator", "Calls", "First at"], rows, heading="h3")
    texts = account.errors()
    if texts:
        blocks = "".join(f"<pre>{escape(text)}</pre>" for text in texts)
        yield f"<details><summary>Tracebacks</summary>{blocks}</details>"


def _stages(account: Account) -> Iterator[str]:
    yield f'<section><h2>Steps</h2><ul class="steps">{"".join(_steps(account))}</ul>'
    failures = frozenset(event.stage for event in account.events.of("failure"))
    # Each way through a model that branches passes the stages by itself.
    seconds: dict[str, float] = {}
    grown: Counter[str] = Counter()
    for event in account.events.events:
        if event.kind in ("stage", "failure"):
            seconds[event.stage] = seconds.get(event.stage, 0.0) + event.seconds
            grown[event.stage] += event.peak_grown
    rows = []
    for stage, taken in seconds.items():
        memory = f", +{bytes_text(grown[stage])}" if grown[stage] else ""
        rows.append((stage, taken, f"{taken:.3f} s{memory}{' (failed)' if stage in failures else ''}"))
    if rows:
        peak = max(event.peak for event in account.events.events)
        held = f"; the process held {bytes_text(peak)} at most, + is what a stage added to that" if peak else ""
        yield "<h2>Time and memory</h2>"
        yield f'<p class="quiet">{sum(seconds.values()):.2f} s{held}.</p>'
        yield f'<div class="scroll">{bars(rows, "Seconds of each stage", failures)}</div>'
    yield "</section>"


def _operators(summary: Summary) -> Iterator[str]:
    shown = list(summary.operators.items())[:_MOST_OPERATORS]
    rest = len(summary.operators) - len(shown)
    rows = [(name, float(count), str(count)) for name, count in shown]
    more = f'<p class="quiet">and {rest} operators more</p>' if rest > 0 else ""
    yield (
        f'<section><h2>Operators <span class="quiet">{summary.nodes:,} nodes</span></h2>\n'
        f'<div class="scroll">{bars(rows, "Nodes of each operator")}</div>{more}</section>'
    )


def _verification(account: Account) -> Iterator[str]:
    if account.verification is None or not account.verification.was_run:
        return
    matches = account.verification.matches
    verdict, kind = ("agrees", "good") if matches else ("does not agree", "bad")
    yield f'<h2>Verification: the ONNX model <span class="{kind}">{verdict}</span></h2>'
    rows = [row for run in account.verification.runs for row in _comparisons(run)]
    titles = ["Output", "Against", "At", "Largest difference", "Relative", "Mean", "Mean relative", ""]
    yield table("", titles, rows)
    plots = [
        f"<h3><code>{escape(info.name)}</code></h3><div class='plots'>"
        f"<figure>{columns(info.abs_diff_hist, 'absolute differences')}"
        "<figcaption>elements by absolute difference</figcaption></figure>"
        f"<figure>{columns(info.rel_diff_hist, 'relative differences')}"
        "<figcaption>elements by relative difference</figcaption></figure></div>"
        for info in account.verification.infos
        if not info.is_random
    ]
    if plots:
        opened = "" if matches else " open"
        yield f"<details{opened}><summary>How the differences are spread</summary>{''.join(plots)}</details>"


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
            yield table(title, ["Stage", "What", "Where"], rows)


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
