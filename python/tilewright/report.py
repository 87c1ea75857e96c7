# SPDX-License-Identifier: Apache-2.0
"""Makes a self-contained HTML page about a tuning database, one of its sessions, or networks.

    python -m tilewright.report --db team.db --output team.html
    python -m tilewright.report --db team.db --session 4f1c --model resnet50.twart --output out.html
    tilewright.report.write("out.html", tw.Store("team.db", "r"), models=["resnet50.twart"])

The page loads nothing: it contains the scripts that draw the charts, which are from the package vl-convert-python.
Its content security policy forbids all other scripts and all requests.
"""
from __future__ import annotations

import argparse
import base64
import collections
import hashlib
import json
import os
import pathlib
import sys
import tempfile
from collections.abc import Iterable
from typing import Any

from tilewright import _tilewright, comparison, display, errors, options as _options, plots
from tilewright._tilewright import Store
from tilewright.display import Html, escaped, facts, one_line, table, time_text

__all__ = ["check", "main", "page", "write"]

# The version of Vega-Lite that draws the page. It accepts specifications of version 5 but warns
# about their $schema, so _json() leaves out $schema.
_VEGA_LITE = "6.4"
_MOST_ROWS = 2000

_STYLE = """
:root { color-scheme: light; }
body { font: 14px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 90em; padding: 0 1em;
       color: #222; background: #fff; }
table { border-collapse: collapse; margin: 0.6em 0; font-size: 13px; }
th, td { padding: 2px 10px 2px 0; vertical-align: top; }
th { white-space: nowrap; }
thead th { border-bottom: 1px solid #999; }
pre { font-size: 12px; overflow-x: auto; }
figure { display: inline-block; vertical-align: top; margin: 1em 1.5em 1em 0; max-width: 100%;
         overflow-x: auto; }
figcaption { color: #555; max-width: 36em; }
section { border-top: 1px solid #ddd; margin-top: 2em; }
summary { cursor: pointer; color: #335; margin: 0.4em 0; }
.wide { overflow-x: auto; }
"""

# A script that draws the charts one after the other, and then stores their number in the root element. The option
# `ast` makes Vega interpret expressions, so that the content security policy need not allow eval.
_DRAW = """
(async () => {
  const options = {mode: "vega-lite", actions: false, ast: true, renderer: "svg"};
  let drawn = 0;
  const figures = document.querySelectorAll("figure[data-spec]");
  for (const figure of figures) {
    const spec = JSON.parse(document.getElementById(figure.dataset.spec).textContent);
    try {
      await vegaEmbed(figure.querySelector("div"), spec, options);
      drawn += 1;
    } catch (error) {
      console.error(figure.dataset.spec + ": " + error);
    }
  }
  document.documentElement.dataset.charts = drawn + " of " + figures.length;
})();
"""


# ---- the page -------------------------------------------------------------------------------


class _Page:
    """A page that is being made, with its sections of HTML and charts in order."""

    def __init__(self):
        self._parts = []
        self._charts = 0

    def add(self, *parts):
        self._parts += parts

    def chart(self, plot):
        """Returns the HTML of a chart with its text below. The chart is drawn when the page is
        opened."""
        name = f"chart-{self._charts}"
        self._charts += 1
        return Html(f'<figure data-spec="{name}"><div></div>'
                    f"<figcaption>{escaped(plot.text)}</figcaption></figure>"
                    f'<script type="application/json" id="{name}">{_json(plot.spec)}</script>')

    def text(self, title):
        script = _charts_script() + _DRAW if self._charts else ""
        return (f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
                f'<meta http-equiv="Content-Security-Policy" content="{_policy(script)}">'
                f"<title>{escaped(title)}</title><style>{_STYLE}</style></head><body>"
                f"<h1>{escaped(title)}</h1>{''.join(self._parts)}"
                f"<noscript><p>The charts are drawn by a script of this page.</p></noscript>"
                f"<script>{script}</script></body></html>\n")


def _json(spec):
    """Returns the specification as JSON that is safe inside of a script element of HTML."""
    spec = {name: value for name, value in spec.items() if name != "$schema"}
    return json.dumps(spec).replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _policy(script):
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
            "img-src data:")


def _drawing_package():
    try:
        import vl_convert
    except ImportError:
        raise errors.MachineError(
            "[report] the charts of a page take the package vl-convert-python: "
            "pip install vl-convert-python") from None
    return vl_convert


def _charts_script():
    """Returns Vega, Vega-Lite and Vega-Embed as one script, which defines vegaEmbed()."""
    script = _drawing_package().javascript_bundle(vl_version=_VEGA_LITE)
    # Within a script element, "</script" ends the script and "<!--" changes its parsing. Both occur only in
    # strings of JavaScript, where the escapes below mean the same text.
    return (script.replace("\r\n", "\n").replace("</script", "<\\/script")
            .replace("<!--", "<\\u0021--") + "\n")


# ---- databases ------------------------------------------------------------------------------


def _summary(store, records):
    statuses = collections.Counter(record.status for record in records)
    devices = collections.Counter(record.device for record in records)
    pairs = [("database", pathlib.Path(store.path).name), ("records", len(records)),
             ("workloads", len({record.workload for record in records})),
             ("sessions", len({record.session for record in records})),
             ("by status", display.counts_text(statuses))]
    pairs += [("device", f"{device}: {display.count_text(count, 'record')}")
              for device, count in devices.most_common(10)]
    return facts(pairs)


def _groups(records):
    """Returns the records grouped by workload, target, device and number of threads, so that the
    records of a group can be compared. The group with the most records comes first."""
    groups = collections.defaultdict(list)
    for record in records:
        groups[(record.workload_text, record.target, record.device, record.threads)].append(record)
    return sorted(groups.values(), key=lambda group: (-len(group), group[0].workload_text))


def _overview(groups, linked):
    shown = groups[:_MOST_ROWS]
    groups_best = [plots.ranked(group)[0] for group in shown]
    # A column is shown only if its values tell rows of one workload apart.
    apart = [name for name in ("device", "target") if len({getattr(group[0], name) for group in shown}) > 1]
    times = display.times_text(best.latency_ns if best else 0 for best in groups_best)

    def row(number, group):
        best = groups_best[number]
        name = one_line(group[0].workload_text, 100)
        link = Html(f'<a href="#workload-{number}">{escaped(name)}</a>') if number < linked else name
        place = [one_line(getattr(group[0], name), 60) for name in apart]
        statuses = display.counts_text(collections.Counter(record.status for record in group))
        speeds = ("-", "-", "-") if best is None else (
            times[number], f"{display.gflops_of(best):.1f}", f"{100 * display.efficiency_of(best):.1f}")
        return (link, *place, group[0].threads, *speeds, len(group), statuses)

    header = ("workload", *apart, "threads", "best", "GFLOP/s", "% of peak", "records", "by status")
    rows = (row(number, group) for number, group in enumerate(shown))
    return Html(f'<div class="wide">{table(header, rows, len(groups) - _MOST_ROWS)}</div>'
                f"{_note_beyond_peak(groups_best)}")


def _note_beyond_peak(records):
    """Returns a paragraph that explains speeds above the peak, or empty HTML if no record is faster
    than its peak."""
    if not any(record is not None and display.efficiency_of(record) > 1 for record in records):
        return Html("")
    return Html("<p>Speeds count the products of the direct algorithm. A convolution by Winograd's algorithm does "
                "fewer, so its share of the peak may exceed 100 %.</p>")


def _workload_section(page, number, group):
    first = group[0]
    best, _ = plots.ranked(group)
    parts = [Html(f'<section id="workload-{number}"><h2>{escaped(one_line(first.workload_text))}</h2>'
                  f"<p>{escaped(one_line(first.device))}; "
                  f"{display.count_text(first.threads, 'thread')}</p>"),
             page.chart(plots.best_so_far(group)), page.chart(plots.best_so_far(group, over="time"))]
    parts.append(_predictions(page, group))
    if any(record.configuration for record in group):
        parts.append(page.chart(plots.knobs(group)))
    if any(record.latency_ns <= 0 for record in group):
        parts.append(page.chart(plots.failures(group)))
    if best is not None:
        parts.append(display.details(f"best: {time_text(best.latency_ns)}, record "
                                     f"{best.hash[:12]}", _schedule_of(best)))
    page.add(*parts, "</section>")


def _predictions(page, group):
    """Returns the chart of predicted and measured times, or the reason why there is none. For
    example, the workload or the target may be of a newer version."""
    try:
        return page.chart(plots.predicted_against_measured(group))
    except errors.Error as error:
        return Html(f"<p>Nothing is predicted: {escaped(one_line(error))}</p>")


def _schedule_of(record):
    """Returns the record's schedule beside the default schedule of the search space. If this
    version cannot read the workload or the schedule, returns the reason and the schedule's text."""
    try:
        workload = _tilewright.parse_workload(record.workload_text)
        best = _tilewright.parse_schedule(workload, record.schedule)
        default = _tilewright.default_schedule(workload, record.target)
        return Html(comparison.compare(default, best, names=("the default", "the best"),
                                       target=record.target, threads=record.threads).html())
    except errors.Error as error:
        return Html(f"<p>{escaped(one_line(error))}</p>{display.code(record.schedule)}")


def _chosen(store, session, workloads):
    """Returns the records of the session and the workloads. The session None selects all sessions,
    and an empty list of workloads selects all workloads."""
    keys = list(dict.fromkeys(workloads)) or [None]
    return display.Records(record for key in keys for record in store.query(session=session, workload=key))


def _left_out(records):
    """Returns a section with the records that the page cannot show, and the reasons."""
    rows = [(record.hash[:12], one_line(record.workload_text, 60), one_line(record.unreadable))
            for record in records[:_MOST_ROWS]]
    count = display.count_text(len(records), "record")
    return Html(f"<section><h2>Left out</h2><p>{count} left out, as this version cannot read them.</p>"
                f'{table(("record", "workload", "why"), rows, len(records) - _MOST_ROWS)}</section>')


def _add_database(page, store, records, most):
    unreadable = [record for record in records if record.unreadable]
    records = display.Records(record for record in records if not record.unreadable)
    if unreadable:
        page.add(_left_out(unreadable))
    if not records:
        return
    groups = _groups(records)
    page.add(_summary(store, records), page.chart(plots.roofline(records)))
    if any(record.latency_ns <= 0 for record in records):
        page.add(page.chart(plots.failures(records)))
    page.add(_overview(groups, most))
    for number, group in enumerate(groups[:most]):
        _workload_section(page, number, group)


# ---- networks -------------------------------------------------------------------------------


def _add_model(page, path):
    variants = _tilewright.read_plan(str(path)).variants
    for number in range(variants):
        plan = _tilewright.read_plan(str(path), number)
        page.add(Html(f"<section><h2>{escaped(one_line(plan.name))}</h2>"),
                 page.chart(plots.costs(plan)),
                 Html(f'<div class="wide">{display.plan_html(plan)}</div>'),
                 page.chart(plots.layouts(plan)), "</section>")


# ---- entry points ---------------------------------------------------------------------------


def check() -> None:
    """Raises MachineError if pages cannot be made here. The message names the missing package."""
    _drawing_package()


def page(store: Store | None = None, *, session: str | None = None, workloads: Iterable[str] = (),
         models: Iterable[str | os.PathLike[str]] = (), most: int = 12) -> str:
    """Returns the text of the page.

    Args:
      store: a Store, or None for a page about the models alone.
      session, workloads: a session and keys of workloads, which select the records.
      models: paths of networks' files, which `tilewright tune --model` writes.
      most: number of groups that have a section; the groups with the most records have one. The
        others are only in the tables.
    """
    made, models = _Page(), list(models)
    records = None if store is None else _chosen(store, session, workloads)
    if records:
        _add_database(made, store, records, most)
    elif records is not None and not models:
        raise errors.NoCandidateError(f"[report] '{store.path}' has no such records; "
                                      "`tilewright db query` lists what there is")
    elif records is not None:
        which = f"of session {session}" if session else "of these workloads"
        made.add(Html(f"<p>{escaped(f'{store.path} has no trials {which}.')}</p>"))
    for path in models:
        _add_model(made, path)
    named = [pathlib.Path(store.path).stem] if store is not None else []
    return made.text("Tilewright: " + ", ".join(named + [pathlib.Path(p).stem for p in models]))


def write(path: str | os.PathLike[str], store: Store | None = None, **options: Any) -> None:
    """Writes page(store, **options) to the file, which is replaced atomically."""
    _options.check_names("report.write", options, ["session", "workloads", "models", "most"])
    path = pathlib.Path(path)
    _tilewright._check_replaceable(path)
    text = page(store, **options)
    temporary = None
    try:
        with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=path.name, delete=False,
                                         encoding="utf-8") as file:
            temporary = file.name
            file.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None:
            os.unlink(temporary)
        raise errors.MachineError(f"[report] '{path}' cannot be written: {error.strerror}") from None


def main(arguments: list[str] | None = None) -> int:
    """Runs the command and returns its exit code, which is an exit code of the program
    (docs/cli.md)."""
    parser = argparse.ArgumentParser(
        prog="tilewright report", description="Writes a page about a database or networks: charts of "
        "every search, rooflines, failures, schedules and layouts. It needs no network.")
    parser.add_argument("--db", help="the database; by default that of the program, unless there is "
                        "a --model")
    parser.add_argument("--session", help="only the records of this session")
    parser.add_argument("--workload", action="append", default=[], metavar="KEY",
                        help="only the records of this workload's key; may be repeated")
    parser.add_argument("--model", action="append", default=[], metavar="FILE",
                        help="a network that `tune --model` wrote; may be repeated")
    parser.add_argument("--most", type=int, default=12,
                        help="workloads that get charts of their own (12)")
    parser.add_argument("--output", required=True, help="the page, an HTML file")
    flags = parser.parse_args(arguments)
    try:
        database = flags.db or (None if flags.model else _tilewright.default_database())
        store = _tilewright.Store(database, "r") if database else None
        write(flags.output, store, session=flags.session, workloads=flags.workload,
              models=flags.model, most=flags.most)
    except errors.Error as error:
        print(f"tilewright: {one_line(error)}", file=sys.stderr)
        return error.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
