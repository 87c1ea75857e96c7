# SPDX-License-Identifier: Apache-2.0
"""Plots that answer questions about tuning runs and networks.

    store = tw.Store("team.db")
    tw.plots.best_so_far(store.query(op="dense"))      # displays itself in a notebook
    tw.plots.best_so_far(records).spec                 # a plain Vega-Lite specification, a dict
    tw.plots.best_so_far(records).save("history.svg")  # with the package vl-convert-python

Each function returns a Plot, with a specification of Vega-Lite 5. JupyterLab draws these specifications without other
packages, and the report (tilewright.report) uses them too. The functions read records, plans and profiles as values and
measure nothing. Times are in microseconds unless an axis has another unit.
"""
from __future__ import annotations

import collections
import json
import math
import pathlib
import re
import statistics
import textwrap
from collections.abc import Sequence
from typing import Any

from tilewright import _tilewright, display, errors
from tilewright._tilewright import Plan, Record, Roofs
from tilewright.display import BLUE, DARK, GREEN, GREY, ORANGE, RED, one_line, time_text

__all__ = ["Plot", "best_so_far", "costs", "failures", "knobs", "layouts",
           "predicted_against_measured", "rank_correlation", "roofline", "timeline"]

_SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
VEGA_LITE_MIME = "application/vnd.vegalite.v5+json"
_WIDTH, _HEIGHT = 460, 260
_TIMED = ("ok", "hopeless", "duplicate", "unstable")
# Colours of layouts, which differ from those of steps. Similar colours are far from each other in the list, as most
# networks have few layouts.
_LAYOUT_COLORS = ["#e8883a", "#1f9e89", "#8e5bbf", "#3b7dd8", "#d6569b", "#7a9a2e", "#8c5a3c", "#5ab4d6", "#b04a4a",
                  "#c9a415"]
# Each series of points has a colour and a shape. The numbers of colours and shapes have no common divisor, so that
# all pairs are used.
_SERIES_COLORS = [BLUE, "#f58518", GREEN, "#e45756", "#72b7b2", "#d1a800", "#b279a2", "#9d755d"]
_SERIES_SHAPES = ["circle", "square", "triangle-up", "diamond", "triangle-down"]
_MOST_SERIES = 24
_OTHER = "other"
_PLAIN = {"view": {"stroke": None}, "legend": {"labelLimit": 260}}  # no frame around a drawing without axes
# Fonts of viewers may be up to a fifth wider or narrower than the font with which places are computed. So labels have a
# distance to their neighbours, and enough room for the widest font.
_CONFIG = {"axis": {"labelSeparation": 10, "labelFlush": False, "labelOverlap": "greedy", "labelLimit": 320,
                    "titlePadding": 8},
           "axisX": {"titlePadding": 6}, "legend": {"labelLimit": 260}, "title": {"anchor": "start"}}
_LOG_PADDING = 12  # pixels at both ends of an axis
_PADDING = {"left": 8, "right": 30, "top": 8, "bottom": 8}
_CHARACTER = 6.4  # the width in pixels of a character of a label, at most
_NUMBER_EXTENT = 34
_LINE = 12  # the height of a line of a label
_VERTICAL = ("latency_us", "measured_us", "gflops", "rank_correlation")  # fields on vertical axes
_EARLY_TO_LATE = ["#9ecae1", "#08306b"]
_REASON_CHARACTERS = 60  # the longest line of a reason beside a bar; a reason has at most four
_NO_TIME = "no time"
# No colour is like orange, the colour of the lines for bounds.
_STATUS_COLORS = {"ok": BLUE, "pruned": GREY, "duplicate": GREEN, "unstable": "#8e5bbf", _NO_TIME: RED}


class Plot:
    """A Vega-Lite specification that displays itself.

    Attributes:
      spec: the specification, which consists of plain values.
      text: a line that says what the plot shows.
    """

    def __init__(self, spec: dict[str, Any], text: str) -> None:
        self.spec = {"$schema": _SCHEMA, "config": _CONFIG, "padding": _PADDING, **spec}
        self.text = one_line(text)

    def __repr__(self):
        return f"<Plot: {self.text}>"

    def _repr_mimebundle_(self, include=None, exclude=None):
        bundle = {VEGA_LITE_MIME: self.spec, "text/plain": repr(self)}
        svg = _drawn(self.spec)
        if svg is not None:  # for viewers without Vega-Lite; others prefer the specification
            bundle["image/svg+xml"] = svg
        return bundle

    def save(self, path: str | pathlib.Path) -> None:
        """Writes the specification (.json) or a drawing (.svg, with vl-convert-python)."""
        path = pathlib.Path(path)
        if path.suffix == ".json":
            path.write_text(json.dumps(self.spec, indent=1), encoding="utf-8")
            return
        if path.suffix != ".svg":
            raise errors.UsageError(f"[plot] '{path}': expected a name that ends in .json or .svg")
        svg = _drawn(self.spec)
        if svg is None:
            raise errors.MachineError("[plot] drawing takes the package vl-convert-python: "
                                      "pip install vl-convert-python")
        path.write_text(svg, encoding="utf-8")


def _drawn(spec):
    """Returns the specification as SVG; None if the package that draws it is not installed."""
    try:
        import vl_convert
    except ImportError:
        return None
    return vl_convert.vegalite_to_svg(spec)


# ---- pieces of specifications -----------------------------------------------------------------


def _number(field, title, log=False, **options):
    encoding = {"field": field, "type": "quantitative", "title": title, **options}
    if encoding.get("axis", {}) is not None:
        encoding["axis"] = {"minExtent": _NUMBER_EXTENT if field in _VERTICAL else 0, **encoding.get("axis", {})}
    if log:
        encoding["scale"] = {"type": "log", "nice": False, "padding": _LOG_PADDING}
    elif encoding.get("axis", {}) is not None and encoding.get("scale", {}).get("type") != "log":
        # If labels have no room, every second one is left out, so that the distances stay equal.
        encoding["axis"] = {"labelOverlap": "parity", **encoding.get("axis", {})}
    return encoding


def _count(field, title=None, **options):
    """Returns the encoding of a count. Its axis has ticks at whole numbers only."""
    return _number(field, title or field, axis={"tickMinStep": 1, "format": "d"}, **options)


def _name(field, title=None, **options):
    return {"field": field, "type": "nominal", "title": title, **options}


def _names_of_rows(field, rows, **options):
    """Returns the encoding of names beside bars, with room for the longest name."""
    texts = [row[field].split("\n") for row in rows]
    longest = max((len(line) for lines in texts for line in lines), default=0)
    # Vega puts the first line of a label where it puts a label of one line. So labels are moved up by half of the
    # height of their other lines.
    up = _LINE * (max(map(len, texts), default=1) - 1) / 2
    return _name(field, axis={"labelOffset": -up, "minExtent": math.ceil(_CHARACTER * longest), "labelLimit": 0, "labelOverlap": False,
                              "labelExpr": "split(datum.label, '\\n')"}, **options)


def _tooltip(*fields):
    return [{"field": field, "title": field.replace("_", " ")} for field in fields]


def _layer(rows, mark, **encoding):
    return {"data": {"values": rows}, "mark": mark, "encoding": encoding}


def _view(title, *layers, width=_WIDTH, height=_HEIGHT, **others):
    """Returns a view with its layers on top of each other. Layers without rows are left out, because their scales would
    be infinite."""
    layers = [layer for layer in layers if layer["data"]["values"]]
    return {"title": title, "width": width, "height": height, "layer": layers, **others}


def _bars(title, rows, mark="bar", **encoding):
    """Returns horizontal bars, one for each row; a line of text if there are no rows."""
    if not rows:
        return {"title": title, "width": _WIDTH, "height": 18,
                **_layer([{"text": "none"}], {"type": "text", "align": "left"}, x={"value": 0}, text={"field": "text"})}
    lines = max((row["lines"].count("\n") + 1 for row in rows if "lines" in row), default=1)
    return {"title": title, "width": _WIDTH, "height": {"step": 6 + _LINE * lines}, **_layer(rows, mark, **encoding)}


# The least distance in pixels of names that stand below each other.
_NAME_DISTANCE = 12


def _rules(rules, y, others):
    """Returns horizontal lines for rows {"name", "latency_us"}. Their names are to the right of the frame, where there
    are no dots. `others` are all other latencies of the plot, whose axis is logarithmic."""
    if not rules:
        return []
    latencies = [*others, *(rule["latency_us"] for rule in rules)]
    low, high = min(latencies), max(latencies)
    pixels = (_HEIGHT - 2 * _LOG_PADDING) / math.log(high / low) if high > low else 0
    layers, free_from = [_layer(rules, {"type": "rule", "strokeDash": [5, 4], "color": ORANGE}, y=y)], -math.inf
    for rule in sorted(rules, key=lambda rule: -rule["latency_us"]):
        at = _LOG_PADDING + pixels * math.log(high / rule["latency_us"])
        place = max(at, free_from)
        free_from = place + _NAME_DISTANCE
        layers.append(_layer([rule], {"type": "text", "align": "left", "baseline": "middle", "color": ORANGE,
                                      "dy": round(place - at, 1)},
                             y=y, x={"value": _WIDTH + 6}, text={"field": "name"}))
    return layers


# ---- records ----------------------------------------------------------------------------------


def _group_of(record):
    return (record.workload_text, record.target, record.device, record.threads)


def _one_group(records, plot):
    """Returns the records, oldest first. Raises UsageError unless all have one workload, target, device and threads."""
    groups = {_group_of(record) for record in records}
    if len(groups) != 1:
        raise errors.UsageError(
            f"[{plot}] records of {len(groups)} workloads, devices or numbers of threads given, "
            "expected those of one; choose some: store.query(workload=..., device=...)")
    return sorted(records, key=lambda record: (record.created_ms, record.session, record.trial))


def _is_timed(record):
    return record.status in _TIMED and record.latency_ns > 0


def _elapsed_s(records):
    """Returns for each record the seconds of tuning until it was created, as if sessions ran one after another."""
    begun, ended, before = {}, {}, {}
    for record in records:
        begun.setdefault(record.session, record.created_ms)
        ended[record.session] = record.created_ms
    total = 0
    for session in begun:
        before[session] = total
        total += ended[session] - begun[session]
    return [(before[r.session] + r.created_ms - begun[r.session]) / 1e3 for r in records]


def _roofs_of(record, threads):
    """Returns the roofs of this machine for the record's target; None if the target's text is no target."""
    try:
        return _tilewright.roofs(record.target, threads=threads)
    except errors.Error:
        return None


def _floor_of(records):
    """Returns lower bounds of a workload's latency, as (name, ns). The first is the time of its arithmetic at the peak
    that was measured with the records. For records of this machine, the second is the time to move the arrays once at
    the bandwidth of the smallest level of the memory hierarchy that holds them."""
    record = records[0]
    bounds = []
    peaks = [r.peak_gflops for r in records if r.peak_gflops > 0]
    if peaks and record.flops > 0:
        bounds.append(("arithmetic at the peak", record.flops / statistics.median(peaks)))
    traffic = _traffic(record)
    roofs = _roofs_of(record, record.threads) if traffic > 0 and record.device == _tilewright.device() else None
    if roofs is not None:
        level = next(level for level in roofs.levels if traffic <= level.bytes)
        bounds.append((f"arrays once from {level.name}", traffic / level.gb_per_s))
    return bounds


def _traffic(record):
    """Returns the compulsory traffic of a record's workload in bytes; 0 if its text is no workload."""
    try:
        workload = _tilewright.parse_workload(record.workload_text)
        return sum(_tilewright.compulsory_traffic(workload.compute))
    except errors.Error:
        return 0


def _default_ns(records):
    """Returns the latency of the default schedule of the search space, if a record has this schedule; else 0."""
    try:
        workload = _tilewright.parse_workload(records[0].workload_text)
        schedule = str(_tilewright.default_schedule(workload, records[0].target))
    except errors.Error:
        return 0
    return next((r.latency_ns for r in records if r.schedule == schedule and _is_timed(r)), 0)


def _references(records, untuned_ns, trials_us):
    """Returns the latencies with which a search is compared, which are lower bounds and untuned kernels: rows for lines
    of the plot, and lines of text for latencies far from all trials. Lines for these would hide differences between
    trials."""
    references = _floor_of(records)
    default_ns = _default_ns(records) if untuned_ns is None else 0
    references += [("untuned", untuned_ns or 0), ("default schedule", default_ns)]
    low, high = min(trials_us, default=0) / 4, max(trials_us, default=0) * 4
    near, far = [], []
    for name, ns in references:
        if low <= ns / 1e3 <= high and ns > 0:
            near.append({"name": name, "latency_us": ns / 1e3})
        elif ns > 0:
            far.append(f"{name}: {time_text(ns)}")
    return near, far


def ranked(records):
    """Ranks records by the rule of `tilewright show` (docs/database_format.md, "Best"). Returns the best record, or
    None, and for each record the latency in ns that counts for its schedule, or 0. All records must be of one workload,
    target, device and number of threads. Versions of the code generator are ranked separately, and the best record is
    that of the newest version that has one."""
    versions = collections.defaultdict(list)
    for index, record in enumerate(records):
        versions[record.codegen_abi].append(index)
    best, counted = None, [0.0] * len(records)
    for _, indices in sorted(versions.items()):
        winner, latencies, _ = _tilewright._rank([records[index] for index in indices])
        for index, ns in zip(indices, latencies, strict=True):
            counted[index] = ns
        best = best if winner is None else records[indices[winner]]
    return best, counted


def _history(records, places):
    """Returns rows for trials with a time, for trials without a time, and for the best so far. `places` are the
    records' places on the x axis. The best so far is by the latencies of ranked(), because a single trial may look too
    fast."""
    timed, failed, best, fastest = [], [], [], math.inf
    for x, record, counted_ns in zip(places, records, ranked(records)[1], strict=True):
        row = {"x": x, "status": display.status_text(record.status), "record": record.hash[:12],
               "session": one_line(record.session, 40), "reason": one_line(record.reason, 120)}
        row["kind"] = row["status"] if _is_timed(record) else _NO_TIME
        if not _is_timed(record):
            failed.append(row)
            continue
        timed.append({**row, "latency_us": record.latency_ns / 1e3})
        if 0 < counted_ns < fastest:
            fastest = counted_ns
            best.append({"x": x, "latency_us": fastest / 1e3})
    if best:
        best.append({"x": places[-1], "latency_us": fastest / 1e3})
    return timed, failed, best


def best_so_far(records: Sequence[Record], over: str = "trial", untuned_ns: float | None = None) -> Plot:
    """Plots the best latency so far over trials or over time.

    Args:
      records: records of one workload on one device.
      over: "trial", or "time" for seconds of tuning, in which sessions follow one another.
      untuned_ns: latency in ns of an untuned kernel, such as Tuned.progress.untuned_ns, which records
        do not keep. By default it is the latency of the first schedule of the search space, if a record
        has it.

    Dots are trials with a time, coloured by status. Ticks at the bottom are trials without a time. Lines
    mark the untuned latency and lower bounds. If these are far from all trials, their values are in the
    subtitle instead.
    """
    if over not in ("trial", "time"):
        raise errors.UsageError(f"[best_so_far] over '{over}': expected trial or time")
    records = _one_group(records, "best_so_far")
    places = range(1, len(records) + 1)
    if over == "time":  # sessions that ran at the same time stand one after the other, too
        pairs = sorted(zip(_elapsed_s(records), records), key=lambda pair: pair[0])
        places, records = [place for place, _ in pairs], [record for _, record in pairs]
    timed, failed, best = _history(records, places)
    near, far = _references(records, untuned_ns, [row["latency_us"] for row in timed])
    x = _count("x", "trial", scale={"zero": False}) if over == "trial" else _number("x", "seconds of tuning")
    y = _number("latency_us", "latency, µs", log=True)
    shown = sorted({row["status"] for row in timed}) + [_NO_TIME] * bool(failed)
    # The legend is below the plot, because the names of lines are to the right of the plot.
    color = _name("kind", legend={"orient": "bottom"},
                  scale={"domain": shown, "range": [_STATUS_COLORS[kind] for kind in shown]})
    layers = [_layer(timed, {"type": "point", "filled": True, "size": 30, "opacity": 0.6}, x=x, y=y,
                     color=color, tooltip=_tooltip("latency_us", "status", "session", "record")),
              _layer(best, {"type": "line", "interpolate": "step-after", "color": BLUE}, x=x, y=y),
              _layer(failed, {"type": "tick", "orient": "vertical", "size": 12}, x=x, color=color,
                     y={"value": _HEIGHT - 6}, tooltip=_tooltip("status", "reason", "record")),
              *_rules(near, y, [row["latency_us"] for row in timed + best])]
    title = {"text": f"Best latency over {over if over == 'time' else 'trials'}", "subtitle": far}
    reached = time_text(1e3 * best[-1]["latency_us"]) if best else "no valid trial"
    return Plot(_view(title, *layers),
                f"best so far of {records[0].workload_text}: {reached} after "
                f"{display.count_text(len(records), 'trial')}")


# ---- the cost model ---------------------------------------------------------------------------


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Spearman's rank correlation: 1 for equal orders, 0 by chance. None if `a` or `b` is constant."""
    if len(set(a)) < 2 or len(set(b)) < 2:
        return None
    return statistics.correlation(_ranks(a), _ranks(b))


def _ranks(values):
    """Returns the ranks of values; equal values get the mean of their ranks."""
    places = collections.defaultdict(list)
    for place, value in enumerate(sorted(values)):
        places[value].append(place)
    return [statistics.fmean(places[value]) for value in values]


def predicted_against_measured(records: Sequence[Record], predicted_ns: Sequence[float | None] | None = None,
                               trials_per_round: int = 16) -> Plot:
    """Plots predicted against measured latencies, and their rank correlation in each round of trials.

    Both charts show whether the cost model orders candidates as the machine does.

    Args:
      records: records of one workload on one device.
      predicted_ns: predicted latency in ns of each record, None for a record without one. By default the analytic model
        predicts them, because records do not keep the predictions of their run.
      trials_per_round: number of consecutive timed trials for each rank correlation.
    """
    records = _one_group(records, "predicted_against_measured")
    if predicted_ns is None:
        record = records[0]
        predicted_ns = _tilewright.predict(_tilewright.parse_workload(record.workload_text),
                                           [r.schedule for r in records], target=record.target,
                                           threads=record.threads)
    pairs = [(predicted, record) for predicted, record in zip(predicted_ns, records, strict=True)
             if predicted is not None and _is_timed(record)]
    rows = [{"predicted_us": predicted / 1e3, "measured_us": record.latency_ns / 1e3,
             "round": 1 + i // trials_per_round, "status": display.status_text(record.status),
             "record": record.hash[:12]} for i, (predicted, record) in enumerate(pairs)]
    if not rows:
        return Plot(_bars("Predicted against measured", []),
                    f"nothing is predicted of {records[0].workload_text}")
    times = [row[side] for row in rows for side in ("predicted_us", "measured_us")]
    diagonal = [{"predicted_us": end, "measured_us": end} for end in (min(times), max(times))]
    x = _number("predicted_us", "predicted, µs", log=True)
    y = _number("measured_us", "measured, µs", log=True)
    scatter = _view("Predicted against measured",
                    _layer(diagonal, {"type": "line", "color": GREY, "strokeDash": [5, 4]}, x=x, y=y),
                    _layer(rows, {"type": "point", "filled": True, "size": 30, "opacity": 0.7}, x=x,
                           y=y, color={"field": "round", "type": "quantitative", "scale": {"range": _EARLY_TO_LATE},
                                       "legend": {"tickMinStep": 1, "format": "d"}},
                           tooltip=_tooltip("predicted_us", "measured_us", "round", "record")))
    rounds = _round_qualities(rows)
    quality = _view("Rank correlation by round",
                    _layer(rounds, {"type": "bar", "color": BLUE},
                           x={"field": "round", "type": "ordinal",
                              "axis": {"labelAngle": 0, "labelOverlap": "parity", "labelSeparation": 2}},
                           y=_number("rank_correlation", "Spearman", scale={"domain": [-1, 1]}),
                           tooltip=_tooltip("round", "trials", "rank_correlation")),
                    width=200)
    overall = rank_correlation([row["predicted_us"] for row in rows],
                               [row["measured_us"] for row in rows])
    text = "unknown" if overall is None else f"{overall:.2f}"
    return Plot({"hconcat": [scatter, quality] if rounds else [scatter],
                 "resolve": {"legend": {"color": "independent"}}},
                f"predicted against measured, {records[0].workload_text}: rank correlation {text} "
                f"over {display.count_text(len(rows), 'trial')}")


def _round_qualities(rows):
    rounds = collections.defaultdict(list)
    for row in rows:
        rounds[row["round"]].append(row)
    qualities = []
    for number, members in rounds.items():
        quality = rank_correlation([row["predicted_us"] for row in members],
                                   [row["measured_us"] for row in members])
        if quality is not None and len(members) > 2:
            qualities.append({"round": number, "trials": len(members),
                              "rank_correlation": round(quality, 4)})
    return qualities


# ---- bounds -----------------------------------------------------------------------------------


def best_of_each(records):
    """Returns the best record of each workload, target, device and threads, which `tilewright show` would show."""
    groups = collections.defaultdict(list)
    for record in records:
        groups[_group_of(record)].append(record)
    return [best for best, _ in map(ranked, groups.values()) if best is not None]


def roofline(records: Sequence[Record], roofs: Roofs | None = None) -> Plot:
    """Plots a roofline with the best kernel of each workload.

    The plot shows if arithmetic or a level of the memory hierarchy limits the speed of a kernel.

    Args:
      records: records of any number of workloads.
      roofs: peak and bandwidths as a tw.Roofs. If None, and all best records are of this machine and of
        one target, tw.roofs() gives them for the largest number of threads of these records. Otherwise the
        plot has only the peak that was measured beside the records.

    The intensity of a point is the arithmetic of the workload (FLOP) divided by the bytes that every kernel
    moves at least.
    """
    best = best_of_each(records)
    points = [(record, traffic) for record in best if record.flops > 0 and (traffic := _traffic(record)) > 0]
    series = _series_of(record.op for record, _ in points)
    rows = [{"intensity": record.flops / traffic, "gflops": display.gflops_of(record),
             "operator": series[record.op], "workload": one_line(record.workload_text, 100),
             "latency": time_text(record.latency_ns), "threads": record.threads}
            for record, traffic in points]
    peak, levels = _bounds_of(best, roofs)
    ridges = [peak / gb_per_s for _, gb_per_s in levels if gb_per_s > 0]
    lowest = min([row["intensity"] for row in rows] + ridges, default=1) / _NAME_ROOM
    highest = max([row["intensity"] for row in rows] + ridges, default=1) * 4
    lines = _roof_lines(peak, levels, lowest, highest)
    speeds = [row["gflops"] for row in rows + lines if row["gflops"] > 0]
    least, most = min(speeds, default=1) / 1.5, max(speeds, default=1) * 2
    x = _number("intensity", "arithmetic intensity, FLOP per byte", **_log_between(lowest, highest))
    y = _number("gflops", "GFLOP/s", **_log_between(least, most))
    color, shape = _series_scales(series.values())
    layers = [_layer(lines, {"type": "line", "color": GREY}, x=x, y=y, detail=_name("roof")),
              _layer(rows, {"type": "point", "filled": True, "size": 60, "opacity": 0.8}, x=x, y=y,
                     color=_name("operator", "operator", scale=color),
                     shape=_name("operator", "operator", scale=shape),
                     tooltip=_tooltip("workload", "latency", "gflops", "intensity", "threads")),
              *_roof_names(peak, levels, (lowest, highest), (least, most), x, y)]
    return Plot(_view("Roofline of the best kernels", *layers),
                f"roofline of {display.count_text(len(rows), 'kernel')}; peak {peak:.1f} GFLOP/s")


def _series_of(operators):
    """Returns the name of each operator's series. The most frequent operators have series of their own; the series of
    all other operators is "other"."""
    counts = collections.Counter(operators)
    named = [operator for operator, _ in counts.most_common()]
    own = named if len(named) <= _MOST_SERIES else named[:_MOST_SERIES - 1]
    return {operator: one_line(operator, 40) if operator in own else _OTHER for operator in named}


def _series_scales(series):
    """Returns scales of colours and of shapes in which no two series are alike; "other" is grey and the last series."""
    names = sorted(set(series) - {_OTHER})
    colors = [_SERIES_COLORS[i % len(_SERIES_COLORS)] for i in range(len(names))]
    shapes = [_SERIES_SHAPES[i % len(_SERIES_SHAPES)] for i in range(len(names))]
    if _OTHER in series:
        names, colors, shapes = [*names, _OTHER], [*colors, GREY], [*shapes, "circle"]
    return {"domain": names, "range": colors}, {"domain": names, "range": shapes}


def _bounds_of(records, roofs):
    """Returns the peak in GFLOP/s, and the levels of the memory hierarchy as (name, GB/s)."""
    here = {record.device for record in records} == {_tilewright.device()} and \
        len({record.target for record in records}) == 1
    if roofs is None and here:
        roofs = _roofs_of(records[0], max(r.threads for r in records))
    measured = [record.peak_gflops for record in records if record.peak_gflops > 0]
    if roofs is None:
        return max(measured, default=0), []
    return max(measured, default=roofs.peak_gflops), [(level.name, level.gb_per_s)
                                                      for level in roofs.levels]


def _log_between(least, most):
    """Returns the scale and the axis of a logarithmic encoding. Labels are at powers of ten and, if there is room, also
    at 2 and 5 times these powers."""
    powers = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
    steps = (1,) if math.log10(most / least) > 2.5 else (1, 2, 5)
    values = [float(f"{step}e{power}") for power in powers for step in steps]
    return {"scale": {"type": "log", "domain": [least, most], "nice": False},
            "axis": {"values": [value for value in values if least <= value <= most]}}


def _level_text(name, gb_per_s):
    return f"{name}, {gb_per_s:.0f} GB/s"


def _peak_text(peak):
    return f"peak, {peak:.0f} GFLOP/s"


def _roof_lines(peak, levels, lowest, highest):
    """Returns the vertices of the lines of all roofs between the intensities `lowest` and `highest`."""
    lines = []
    for name, gb_per_s in levels:
        for at in [lowest] + ([peak / gb_per_s] if gb_per_s > 0 else []) + [highest]:
            lines.append({"roof": _level_text(name, gb_per_s), "intensity": at, "gflops": min(peak, at * gb_per_s)})
    if peak > 0:
        lines += [{"roof": _peak_text(peak), "intensity": at, "gflops": peak} for at in (lowest, highest)]
    return lines


# Sizes in pixels for the names of roofs: the height of a line of text with its distance from the
# roof, and the distance by which a name moves along its roof if three roofs are closer together
# than this height.
_NAME_HEIGHT, _NAME_STEP = 18, 120
# Names are left of all points. For this the plot begins at the smallest intensity divided by this number.
_NAME_ROOM = 25


def _roof_names(peak, levels, intensities, speeds, x, y):
    """Returns layers with the names of the roofs, each parallel to its line. A name is above its line, or below its
    line if the next faster roof is too near."""
    px_x = _WIDTH / math.log10(intensities[1] / intensities[0])
    px_y = _HEIGHT / math.log10(speeds[1] / speeds[0])
    slope = math.atan2(px_y, px_x)
    along, is_below, before, layers = 0, False, None, []
    for name, gb_per_s in sorted(levels, key=lambda level: -level[1]):
        if gb_per_s <= 0:
            continue
        gap = math.inf if before is None else px_y * math.log10(before / gb_per_s) * math.cos(slope)
        along = along + _NAME_STEP if is_below and gap < _NAME_HEIGHT else 0
        is_below, before = gap < (2 if is_below else 1) * _NAME_HEIGHT, gb_per_s  # the name before may take its height
        at = [{"roof": _level_text(name, gb_per_s), "intensity": intensities[0], "gflops": intensities[0] * gb_per_s}]
        side = {"baseline": "top", "dy": 4} if is_below else {}
        layers.append(_roof_name(at, x, y, angle=-math.degrees(slope), dx=12 + along, **side))
    if peak > 0:
        at = [{"roof": _peak_text(peak), "intensity": intensities[0], "gflops": peak}]
        layers.append(_roof_name(at, x, y, dx=6))
    return layers


def _roof_name(rows, x, y, align="left", **mark):
    return _layer(rows, {"type": "text", "align": align, "baseline": "bottom", "color": DARK, "dy": -4, **mark},
                  x=x, y=y, text={"field": "roof"})


# ---- the search space -------------------------------------------------------------------------


def parse_configuration(text):
    """Returns the decisions of a configuration, such as {"out.strategy": "cpu_tile", "out.x_tile": "14"}.

    The decision "algorithm" is the algorithm with which the text begins, or "direct" if the text begins with none."""
    decisions = {"algorithm": "direct"}
    for stage_text in filter(None, text.split("; ")):
        stage, colon, rest = stage_text.partition(": ")
        if not colon:
            decisions["algorithm"] = stage
            continue
        strategy, *words = rest.split(" ")
        decisions[f"{stage}.strategy"] = strategy
        for word in words:
            name, equals, value = word.partition("=")
            if equals:
                decisions[f"{stage}.{name}"] = value
    return decisions


def _explained(values):
    """Returns the share of the variance of the numbers in {value: numbers} that the value explains. The share is
    corrected for the number of values (epsilon squared), so its mean is near 0 for a decision without effect."""
    numbers = [number for group in values.values() for number in group]
    mean = statistics.fmean(numbers)
    total = sum((number - mean) ** 2 for number in numbers)
    if total <= 0 or len(numbers) <= len(values):
        return 0.0
    within = sum((number - statistics.fmean(group)) ** 2
                 for group in values.values() for number in group)
    error = within / (len(numbers) - len(values))
    return max(0.0, (total - within - (len(values) - 1) * error) / total)


def knobs(records: Sequence[Record], most: int = 6) -> Plot:
    """Plots the importance of each decision of the search space, and the latencies of trials by its values.

    A bar shows the share of the variance of log(latency) that a decision alone explains. The strips below show the
    trials by value of the decision, for the `most` most important decisions. Searches try good values more often than
    others, so a decision on which all good trials agree looks unimportant.
    """
    records = [record for record in _one_group(records, "knobs")
               if _is_timed(record) and record.configuration]
    groups = collections.defaultdict(lambda: collections.defaultdict(list))
    for record in records:
        for name, value in parse_configuration(record.configuration).items():
            groups[name][value].append(math.log(record.latency_ns))
    importance = [{"decision": one_line(name, 60), "explained": round(_explained(values), 4),
                   "values": len(values)}
                  for name, values in groups.items() if len(values) > 1]
    importance.sort(key=lambda row: (-row["explained"], row["decision"]))
    order = [row["decision"] for row in importance]
    strips = [{"decision": one_line(name, 60), "value": one_line(value, 30),
               "latency_us": math.exp(number) / 1e3}
              for name, values in groups.items() if one_line(name, 60) in order[:most]
              for value, numbers in values.items() for number in numbers]
    bars = _bars("Share of the variance of log(latency) explained", importance,
                 {"type": "bar", "color": BLUE}, y=_names_of_rows("decision", importance, sort=order),
                 x=_number("explained", None, axis={"format": "%"}, scale={"domain": [0, 1]}), tooltip=_tooltip("decision", "explained", "values"))
    strip = {"title": "Trials by value", "data": {"values": strips}, "columns": 3,
             "facet": _name("decision", sort=order[:most]), "resolve": {"scale": {"x": "independent"}},
             "spec": {"width": 140, "height": 120,
                      "mark": {"type": "point", "size": 16, "opacity": 0.6, "color": BLUE},
                      "encoding": {"x": _name("value", sort=sorted({row["value"] for row in strips},
                                                                   key=_natural)),
                                   "y": _number("latency_us", "latency, µs", log=True),
                                   "tooltip": _tooltip("value", "latency_us")}}}
    first = f"{order[0]} explains most" if order else "no decision varies"
    return Plot({"vconcat": [bars, strip] if strips else [bars]},
                f"decisions over {display.count_text(len(records), 'trial')}: {first}")


def _natural(text):
    """Returns a sort key that puts numbers, by value, before other texts."""
    return (0, int(text), "") if re.fullmatch(r"-?\d+", text) else (1, 0, text)


# ---- failures ---------------------------------------------------------------------------------


def failures(records: Sequence[Record], most: int = 15) -> Plot:
    """Plots the number of trials without a time by status and reason, for the `most` most frequent pairs of these."""
    counts = collections.Counter((record.status, _without_numbers(record.reason))
                                 for record in records if not _is_timed(record))
    rows = [{"why": one_line(f"{display.status_text(status)}: {reason}" if reason else
                             display.status_text(status), 4 * _REASON_CHARACTERS),
             "status": display.status_text(status), "reason": one_line(reason, 300),
             "trials": count} for (status, reason), count in counts.most_common(most)]
    wrapped = [textwrap.wrap(row["why"], _REASON_CHARACTERS) for row in rows]
    most_lines = max(map(len, wrapped), default=1)
    for row, lines in zip(rows, wrapped, strict=True):  # shorter ones are in the middle of the longest's height
        row["lines"] = "\n" * ((most_lines - len(lines)) // 2) + "\n".join(lines)
    failed = sum(counts.values())
    spec = _bars("Candidates without a time", rows,
                 y=_names_of_rows("lines", rows, sort=[row["lines"] for row in rows]),
                 x=_count("trials"), color=_name("status", "status"),
                 tooltip=_tooltip("status", "reason", "trials"))
    return Plot(spec, f"{failed} of {display.count_text(len(records), 'trial')} gave no time"
                + (f"; most often: {rows[0]['why']}" if rows else ""))


def _without_numbers(reason):
    """Returns the first line of the reason with each number replaced by "#", so that reasons that differ only in
    numbers are counted together."""
    return re.sub(r"0x[0-9a-f]+|\d+(\.\d+)?", "#", reason.partition("\n")[0])


# ---- networks ---------------------------------------------------------------------------------


def costs(plan: Plan) -> Plot:
    """Plots the predicted time of a network by operator. "transform" means a copy between layouts."""
    sums = collections.defaultdict(lambda: [0, 0])
    for step in plan.steps:
        total = sums[display.computes(step)]
        total[0] += 1
        total[1] += step.predicted_ns
    rows = [{"computes": one_line(kind, 40), "steps": count, "time_us": ns / 1e3}
            for kind, (count, ns) in sums.items()]
    whole = sum(row["time_us"] for row in rows)
    spec = _bars("Time by what is computed", rows, y=_names_of_rows("computes", rows, sort="-x"),
                 x=_number("time_us", "µs in the plan"),
                 color={"condition": {"test": "datum.computes === 'transform'", "value": RED},
                        "value": BLUE},
                 tooltip=_tooltip("computes", "steps", "time_us"))
    return Plot(spec, f"{plan.name}: {time_text(whole * 1e3)} in "
                f"{display.count_text(len(plan.steps), 'step')}")


def timeline(profile: Sequence[tuple[str, int, int]]) -> Plot:
    """Plots when each step of a call ran. `profile` is the result of Model.profile()."""
    begun = min((begin for _, begin, _ in profile), default=0)
    rows = [{"step": one_line(name, 80), "number": i, "begin_us": (begin - begun) / 1e3,
             "end_us": (end - begun) / 1e3, "time": time_text(end - begin)}
            for i, (name, begin, end) in enumerate(profile)]
    spec = _bars("Steps of one call", rows, {"type": "bar", "color": BLUE},
                 y={"field": "number", "type": "ordinal", "title": "step",
                    "axis": {"labelOverlap": True}},
                 x=_number("begin_us", "µs"), x2={"field": "end_us"},
                 tooltip=_tooltip("step", "number", "begin_us", "time"))
    whole = max((row["end_us"] for row in rows), default=0)
    return Plot(spec, f"{display.count_text(len(rows), 'step')} in {time_text(whole * 1e3)}")


def _memory_of(argument):
    """Returns the memory of an argument as (kind, begin, end): a range of bytes of the arena, or the index of an input
    or output of the network."""
    kind, _, at = argument.place.partition(" ")
    bits = re.search(r"\d*$", argument.dtype)[0]
    size = math.prod(argument.shape) * max(1, int(bits or 8) // 8) if kind == "arena" else 1
    return kind, int(at), int(at) + max(1, size)


def _overlap(a, b):
    return a[0] == b[0] and a[1] < b[2] and b[1] < a[2]


class _Drawing:
    """Places the steps of a plan as `git log --graph` places commits. Each step has a row. The tensor that it writes
    has a lane to itself until its last reader, so that lines never pass through other steps."""

    def __init__(self, plan):
        self.nodes, self.edges, self._links = [], [], []
        self._written = []  # (kind, begin, end) of memory, and the node that wrote it last
        for step, time in zip(plan.steps, display.times_text(step.predicted_ns for step in plan.steps), strict=True):
            self._add_step(step, time)
        self._place()
        for source, node, argument in self._links:
            self._add_edge(source, node, argument)

    @property
    def lanes(self):
        return 1 + max((node["lane"] for node in self.nodes), default=0)

    def _add_step(self, step, time):
        read = [argument for argument in step.arguments
                if not argument.is_output and not argument.is_constant]
        links = [(source, argument) for argument in read for source in self._sources(argument)]
        written = [argument for argument in step.arguments if argument.is_output]
        kind = display.computes(step)
        node = self._add_node(kind="transform" if kind == "transform" else "kernel", name=step.name, computes=kind,
                              layouts=_layouts_text(read, written), ns=step.predicted_ns, time=time)
        self._links += [(source, node, argument) for source, argument in links]
        for argument in written:
            self._write(_memory_of(argument), node)

    def _write(self, memory, node):
        self._written = [(other, writer) for other, writer in self._written if not _overlap(other, memory)]
        self._written.append((memory, node))

    def _sources(self, argument):
        """Returns the nodes that wrote the argument. These are several if a concatenation was written in place. For an
        input of the network, it is the node of this input."""
        memory = _memory_of(argument)
        writers = [writer for other, writer in self._written if _overlap(other, memory)]
        if not writers:
            writers = [self._add_node(kind="input", name=argument.tensor, computes="input",
                                      layouts=one_line(display.layout_text(argument), 30), ns=0, time="")]
            self._write(memory, writers[0])
        return writers

    def _add_node(self, kind, name, computes, layouts, ns, time):
        node = {"row": len(self.nodes), "lane": 0, "kind": kind, "label": one_line(name, 34),
                "name": one_line(name, 120), "computes": one_line(computes, 22), "layouts": layouts,
                "time": time, "time_us": max(ns, 0) / 1e3}
        self.nodes.append(node)
        return node

    def _place(self):
        """Assigns each node the leftmost free lane. A tensor occupies its lane until the row of its last reader."""
        last_read = collections.defaultdict(int)
        for source, node, _ in self._links:
            last_read[source["row"]] = max(last_read[source["row"]], node["row"])
        busy_until = []  # by lane: the row of the last reader of its tensor
        for node in self.nodes:
            row = node["row"]
            free = (lane for lane, until in enumerate(busy_until) if until <= row)
            node["lane"] = next(free, len(busy_until))
            busy_until[node["lane"]:node["lane"] + 1] = [last_read[row] or row + 1]

    def _add_edge(self, source, node, argument):
        """Adds a line down the lane of the source, which turns to the reader in the last row."""
        points = [(source["lane"], source["row"]), (source["lane"], node["row"] - 1), (node["lane"], node["row"])]
        number = len(self.edges)
        tensor = f"{one_line(argument.tensor, 60)}: {argument.dtype}{list(argument.shape)}"
        common = {"edge": number, "tensor": tensor,
                  "layout": one_line(display.layout_text(argument), 30)}
        self.edges.append([{**common, "order": i, "lane": lane, "row": row}
                           for i, (lane, row) in enumerate(dict.fromkeys(points))])


def _layouts_text(read, written):
    """Returns the layouts that a step reads and writes, each once, such as "NCHW, NCHW16c → NCHW16c". If both sides are
    equal, returns only one side."""
    def text(arguments):
        return ", ".join(dict.fromkeys(one_line(display.layout_text(a), 30) for a in arguments))

    return one_line(f"{text(read)} → {text(written)}" if text(read) != text(written) else text(written), 44)


# Sizes of the drawing of a plan, in pixels: the width of a lane, the height of a row, the length of the longest bar,
# the distance between columns.
_LANE, _ROW, _BAR, _GAP = 16, 18, 200, 14


def _columns(nodes, y, begin, **options):
    """Returns layers with the texts of the steps in columns that are as wide as their longest text, and the x
    coordinate at which the columns end."""
    layers = []
    for field in ("label", "computes", "layouts", "time"):
        width = 1.1 * _CHARACTER * max((len(node[field]) for node in nodes), default=0)
        is_number = field == "time"
        layers.append(_layer(nodes, {"type": "text", "align": "right" if is_number else "left", "fontSize": 11}, y=y,
                             x={"value": begin + (width if is_number else 0)}, text={"field": field}, **options))
        begin += width + _GAP
    return layers, begin


def layouts(plan: Plan) -> Plot:
    """Plots the layouts that a plan gives to the tensors of a network, and the times of transforms.

    A row is a step: its operator, the layouts that it reads and writes, and its time. Lines are tensors, from the step
    that writes them to the steps that read them, coloured by their layout in memory. Red steps are transforms, which
    only copy a tensor to another layout. """
    drawing = _Drawing(plan)
    rows = len(drawing.nodes)
    tooltip = _tooltip("name", "computes", "layouts", "time")
    text_color = {"condition": {"test": "datum.kind === 'transform'", "value": RED}, "value": DARK}
    y = _number("row", None, axis=None, scale={"domain": [-0.5, rows - 0.5], "reverse": True, "nice": False})
    texts, end = _columns(drawing.nodes, y, _LANE * drawing.lanes + _GAP, color=text_color, tooltip=tooltip)
    width = math.ceil(end + _BAR)
    x = _number("lane", None, axis=None, scale={"domain": [-0.5, width / _LANE - 0.5], "nice": False})
    edges = [point for edge in drawing.edges for point in edge]
    shown = sorted({point["layout"] for point in edges})
    colors = {"domain": shown, "range": [_LAYOUT_COLORS[i % len(_LAYOUT_COLORS)] for i in range(len(shown))]}
    kinds = _name("kind", "step", scale={"domain": ["kernel", "transform", "input"], "range": [DARK, RED, GREY]})
    longest = max((node["time_us"] for node in drawing.nodes), default=0)
    begin = end / _LANE - 0.5
    bars = [{**node, "begin": begin, "end": begin + _BAR / _LANE * node["time_us"] / longest}
            for node in drawing.nodes if longest > 0]
    bar = _layer(bars, {"type": "bar", "height": 7, "opacity": 0.8}, y=y, tooltip=tooltip,
                 x=_number("begin", None, axis=None), x2={"field": "end"},
                 color={"condition": {"test": "datum.kind === 'transform'", "value": RED}, "value": BLUE})
    title = {"text": f"{one_line(plan.name, 60)}: layouts and transforms",
             "subtitle": one_line(display.plan_times_text(plan)), "anchor": "start"}
    view = _view(title,
                 _layer(edges, {"type": "line", "strokeWidth": 2.5, "strokeJoin": "round"}, x=x, y=y,
                        order={"field": "order"}, detail=_name("edge"),
                        color=_name("layout", "layout", scale=colors), tooltip=_tooltip("tensor", "layout")),
                 _layer(drawing.nodes, {"type": "point", "filled": True, "shape": "square", "size": 55,
                                        "opacity": 1}, x=x, y=y, color=kinds, tooltip=tooltip),
                 *texts, bar, width=width, height=max(60, _ROW * rows),
                 resolve={"scale": {"color": "independent"}}, config=_PLAIN)
    return Plot(view, f"{plan.name}: {display.plan_times_text(plan)}")
