# SPDX-License-Identifier: Apache-2.0
"""Shows two schedules side by side: their steps, their loops, and their times by resource.

    print(tw.compare(schedule, schedule.unroll("out", "m.1")))
"""
from __future__ import annotations

import difflib
import itertools
from typing import TYPE_CHECKING

from tilewright import _tilewright, display
from tilewright.display import ORANGE, PREFORMATTED, Html, escaped, one_line

if TYPE_CHECKING:
    from tilewright._tilewright import PredictedTime, Record, Schedule, Store, Tuned, Workload


def _schedule_of(given):
    """Returns the given Schedule, or the schedule of a given Record or Tuned."""
    if isinstance(given, _tilewright.Schedule):
        return given
    record = given.best if isinstance(given, _tilewright.Tuned) else given
    if not isinstance(record, _tilewright.Record):
        raise TypeError(f"compare() takes Schedules, Records or Tuneds, not {type(given).__name__}")
    return _tilewright.parse_schedule(_tilewright.parse_workload(record.workload), record.schedule)


def _latencies(given, schedule, workload, db):
    """Returns latencies of a schedule in ns by (target, device, threads). They are those of the
    given Record or Tuned, or for a Schedule those in the database."""
    if isinstance(given, _tilewright.Tuned):
        records = [given.best]
    elif isinstance(given, _tilewright.Record):
        records = [given]
    elif workload is None or db is None:
        records = []
    else:
        records = [r for r in db.query(workload=workload.key) if r.schedule == str(schedule) and not r.layouts]
    latencies = {}
    for record in records:
        if record.status == "ok":
            place = record.target, record.device, record.threads
            latencies[place] = min(record.latency_ns, latencies.get(place, record.latency_ns))
    return latencies


def _rows_of(left, right):
    """Aligns two lists of lines. Yields (left, right, are_equal), with None in place of a line that a side
    lacks."""
    matcher = difflib.SequenceMatcher(a=left, b=right, autojunk=False)
    for kind, a0, a1, b0, b1 in matcher.get_opcodes():
        for a, b in itertools.zip_longest(left[a0:a1], right[b0:b1]):
            yield a, b, kind == "equal"


def _in_columns(left, right):
    """Returns the lines of both sides in two columns, with '|' between lines that differ."""
    width = max(map(len, left), default=0)
    return "\n".join(f"{a or '':{width}} {' ' if equal else '|'} {b or ''}".rstrip()
                     for a, b, equal in _rows_of(left, right))


def _table_of(what, names, left, right):
    """Returns the lines of both sides in two columns as HTML, with marks on lines that differ."""
    def cell(line, equal):
        style = "" if equal or line is None else f"background:{ORANGE}33"
        return (f'<td style="text-align:left;{style}"><pre style="margin:0;background:none;{PREFORMATTED}">'
                f'{escaped(line or "")}</pre></td>')

    rows = "".join(f"<tr>{cell(a, equal)}{cell(b, equal)}</tr>" for a, b, equal in _rows_of(left, right))
    head = "".join(f'<th style="text-align:left">{escaped(f"{what} of {name}")}</th>' for name in names)
    return Html(f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>")


class Comparison:
    """The result of compare(). It displays itself in a notebook; str() has the same content as
    text.

    Attributes:
      names: the names of the two schedules.
      a, b: the Schedules.
      target: the target for which loops are lowered and times are predicted.
      predicted_a, predicted_b: PredictedTime of each.
      measured_a, measured_b: latencies in ns on the same machine; None if no machine measured both.
      only_in_a, only_in_b: steps that the other schedule lacks.
    """

    def __init__(self, names: tuple[str, str], a: Schedule, b: Schedule, target: str,
                 predicted: tuple[PredictedTime, PredictedTime],
                 measured: tuple[float | None, float | None]) -> None:
        self.names = one_line(names[0]), one_line(names[1])
        self.a, self.b, self.target = a, b, target
        self.predicted_a, self.predicted_b = predicted
        self.measured_a, self.measured_b = measured
        self.only_in_a = [step for step in a.steps if step not in b.steps]
        self.only_in_b = [step for step in b.steps if step not in a.steps]

    @property
    def resources(self) -> list[tuple[str, float, float]]:
        """(resource, ns of a, ns of b), the largest difference first."""
        of_a, of_b = dict(self.predicted_a.resources), dict(self.predicted_b.resources)
        rows = [(name, of_a.get(name, 0.0), of_b.get(name, 0.0)) for name in {**of_a, **of_b}]
        return sorted(rows, key=lambda row: abs(row[1] - row[2]), reverse=True)

    @property
    def programs(self) -> str:
        """The loops of both, side by side."""
        return _in_columns(*self._loops())

    def html(self) -> str:
        """Times, steps and loops side by side."""
        return str(display.table(("time", *self.names), self._times_text())
                   + _table_of("steps", self.names, list(self.a.steps), list(self.b.steps))
                   + _table_of("loops", self.names, *self._loops()))

    def __str__(self):
        rows = [("", *self.names), *self._times_text()]
        width, columns = max(len(row[0]) for row in rows), max(12, *map(len, self.names))
        lines = [f"{name:{width}}  {a:>{columns}}  {b:>{columns}}" for name, a, b in rows]
        lines += [f"- {step}" for step in self.only_in_a] + [f"+ {step}" for step in self.only_in_b]
        return "\n".join(lines) + "\n\n" + self.programs

    def __repr__(self):
        return (f"<Comparison: {display.count_text(len(self.only_in_a), 'step')} only in {self.names[0]}, "
                f"{len(self.only_in_b)} only in {self.names[1]}>")

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/plain": display.visible(str(self)), "text/html": self.html()}

    def _times(self):
        """Returns rows (name, ns of a, ns of b) for the predicted and the measured time, and for
        the resources whose times differ."""
        rows = [("predicted", self.predicted_a.total_ns, self.predicted_b.total_ns),
                ("measured", self.measured_a, self.measured_b)]
        return rows + [(f"  {name}", a, b) for name, a, b in self.resources if a != b]

    def _times_text(self):
        """Returns the rows of _times() with the times as texts in one unit; "-" if a time is
        missing."""
        times = self._times()
        texts = display.times_text(ns or 0 for _, a, b in times for ns in (a, b))
        return [(name, a, b) for (name, _, _), a, b in zip(times, texts[::2], texts[1::2], strict=True)]

    def _loops(self):
        return [str(schedule.program(self.target)).splitlines() for schedule in (self.a, self.b)]


def compare(a: Schedule | Record | Tuned, b: Schedule | Record | Tuned, *, names: tuple[str, str] = ("a", "b"),
            workload: Workload | None = None, db: Store | None = None, target: str = "host",
            threads: int = 1) -> Comparison:
    """Compares two schedules: steps, loops, the time that the cost model expects by resource, and measured times.

    Args:
      a, b: Schedules, Records or Tuneds.
      names: the names by which the two are shown.
      workload, db: a Workload and a Store in which measured times of Schedules are looked up.
      target: the target for which loops are lowered and times are predicted.
      threads: the number of threads for which times are predicted.

    Measured times are shown if both were measured for the same target, on the same device, with the
    same number of threads. Raises InvalidError if a schedule is illegal. """
    schedules = _schedule_of(a), _schedule_of(b)
    predicted = [_tilewright.predicted_time(s, target=target, threads=threads) for s in schedules]
    in_a, in_b = (_latencies(given, s, workload, db) for given, s in zip((a, b), schedules))
    common = sorted(set(in_a) & set(in_b), key=lambda place: (place[2] != threads, place))
    measured = (in_a[common[0]], in_b[common[0]]) if common else (None, None)
    return Comparison(names, *schedules, target, (predicted[0], predicted[1]), measured)
