# SPDX-License-Identifier: Apache-2.0
"""Two schedules side by side: their steps, their loops, and where the time goes.

    print(tw.compare(schedule, schedule.unroll("out", "m.1")))
"""
import difflib
import itertools

from tilewright import _tilewright


def _schedule_of(given):
    """The Schedule that a Schedule, a Record or a Tuned stands for."""
    if isinstance(given, _tilewright.Schedule):
        return given
    record = given.best if isinstance(given, _tilewright.Tuned) else given
    if not isinstance(record, _tilewright.Record):
        raise TypeError(f"compare() takes Schedules, Records or Tuneds, not {type(given).__name__}")
    return _tilewright.parse_schedule(_tilewright.parse_workload(record.workload), record.schedule)


def _latencies(given, schedule, workload, db):
    """Latencies in ns by target, device and threads, of a record that was given or of the database."""
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


def _microseconds(ns):
    return "-" if ns is None else f"{ns / 1e3:.2f} us"


def _in_columns(left, right):
    """Rows of lines side by side; equal ones beside each other, with '|' between those that differ."""
    width = max(map(len, left), default=0)
    matcher = difflib.SequenceMatcher(a=left, b=right, autojunk=False)
    for kind, a0, a1, b0, b1 in matcher.get_opcodes():
        for a, b in itertools.zip_longest(left[a0:a1], right[b0:b1], fillvalue=""):
            yield f"{a:{width}} {' ' if kind == 'equal' else '|'} {b}".rstrip()


class Comparison:
    """What compare() returns; str() shows it.

    Attributes:
      a, b: the Schedules.
      predicted_a, predicted_b: PredictedTime of each.
      measured_a, measured_b: ns on one machine, or None where the two were not both measured on one.
      only_in_a, only_in_b: steps that the other does not have.
    """

    def __init__(self, a, b, predicted, measured):
        self.a, self.b = a, b
        self.predicted_a, self.predicted_b = predicted
        self.measured_a, self.measured_b = measured
        self.only_in_a = [step for step in a.steps if step not in b.steps]
        self.only_in_b = [step for step in b.steps if step not in a.steps]

    @property
    def resources(self):
        """(resource, ns of a, ns of b), the largest difference first."""
        of_a, of_b = dict(self.predicted_a.resources), dict(self.predicted_b.resources)
        rows = [(name, of_a.get(name, 0.0), of_b.get(name, 0.0)) for name in {**of_a, **of_b}]
        return sorted(rows, key=lambda row: abs(row[1] - row[2]), reverse=True)

    @property
    def programs(self):
        """The loops of both, side by side."""
        left, right = (str(s.program()).splitlines() for s in (self.a, self.b))
        return "\n".join(_in_columns(left, right))

    def __str__(self):
        rows = [("", "a", "b"),
                ("predicted", _microseconds(self.predicted_a.total_ns), _microseconds(self.predicted_b.total_ns)),
                ("measured", _microseconds(self.measured_a), _microseconds(self.measured_b))]
        rows += [(f"  {name}", _microseconds(a), _microseconds(b)) for name, a, b in self.resources if a != b]
        width = max(len(row[0]) for row in rows)
        lines = [f"{name:{width}}  {a:>12}  {b:>12}" for name, a, b in rows]
        lines += [f"- {step}" for step in self.only_in_a] + [f"+ {step}" for step in self.only_in_b]
        return "\n".join(lines) + "\n\n" + self.programs


def compare(a, b, *, workload=None, db=None, target="host", threads=1):
    """Compares two schedules: steps, loops, the time that the cost model expects by resource, and measured times.

    Args:
      a, b: Schedules, Records or Tuneds.
      workload, db: a Workload and a Store in which measured times of Schedules are looked up.
      target, threads: for which times are predicted.

    Measured times are given where both were measured on the same device with the same number of threads.
    """
    schedules = _schedule_of(a), _schedule_of(b)
    predicted = [_tilewright.predicted_time(s, target=target, threads=threads) for s in schedules]
    in_a, in_b = (_latencies(given, s, workload, db) for given, s in zip((a, b), schedules))
    common = sorted(set(in_a) & set(in_b), key=lambda place: (place[2] != threads, place))
    measured = (in_a[common[0]], in_b[common[0]]) if common else (None, None)
    return Comparison(*schedules, predicted, measured)
