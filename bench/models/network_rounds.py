# SPDX-License-Identifier: Apache-2.0
"""Times several contenders in turn, in one process on the same cores.

A round is A B C C B A, so that a change of the machine's speed affects all contenders. A turn begins
with a pause, in which the threads of the previous contender fall asleep, and a call that is not timed;
then a batch of calls is timed. With a watch, rounds that other processes disturbed do not count.
"""
import gc
import itertools
import math
import os
import resource
import statistics
import time
from dataclasses import dataclass

# ONNX Runtime's threads spin for some milliseconds after a call before they sleep.
PAUSE_S = 0.05
MIN_BATCH_S = 0.1


@dataclass(frozen=True)
class Median:
    """A median with a 95 % interval from order statistics."""
    value: float
    low: float
    high: float


def low_of(count):
    """Returns the index of the interval's low end among `count` sorted values. The index of the high end is
    count - 1 - this index. It is the largest index for which the median lies outside of the interval with a
    probability of at most 5 %, or 0 if there is none."""
    # The number of values below the true median is binomial(count, 1/2). The median lies below the interval if
    # this number is at most the index.
    below = 1
    for index in itertools.count():
        below += math.comb(count, index + 1)
        if 40 * below > 2 ** count:
            return index


def median_of(values):
    values, count = sorted(values), len(values)
    low = low_of(count)
    return Median(statistics.median(values), values[low], values[count - 1 - low])


def seconds_of(contender, calls, clock):
    begun = clock()
    for _ in range(calls):
        contender.run()
    return clock() - begun


def batch_size(contender, min_batch_s, clock):
    """Number of calls that together take at least `min_batch_s`. Finding the number also warms up."""
    calls = 1
    while seconds_of(contender, calls, clock) < min_batch_s:
        calls *= 2
    return calls


# ---- the watch --------------------------------------------------------------------------------

# The limits of Tolerance in tuner/measure/contention.h.
SWITCHES_PER_SECOND = 50
LEAST_SWITCHES = 5
STEAL_SHARE = 0.02
PRESSURE_SHARE = 0.10


def words_of(path, label):
    """Returns the words of the first line of a file that begins with the label; empty if there is no such
    line."""
    try:
        with open(path) as file:
            return next((line.split() for line in file if line.startswith(label + " ")), [])
    except OSError:
        return []


def read_counters(stat="/proc/stat", pressure="/proc/pressure/cpu"):
    """Returns the involuntary context switches of this process, and the seconds that the hypervisor took or
    in which a task waited for a processor. A counter that the system lacks stays 0, so it never counts as a
    disturbance."""
    cpu, some = words_of(stat, "cpu"), words_of(pressure, "some")
    waited = [word.removeprefix("total=") for word in some if word.startswith("total=")]
    return {"switches": resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw,
            "steal": int(cpu[8]) / os.sysconf("SC_CLK_TCK") if len(cpu) > 8 else 0,
            "pressure": int(waited[0]) / 1e6 if waited else 0}


def contention(before, after, elapsed_s):
    """Returns the reason, in words, why the time between two readings was disturbed; "" if it was not."""
    switches, steal, pressure = (after[key] - before[key] for key in ("switches", "steal", "pressure"))
    if switches >= LEAST_SWITCHES and switches > SWITCHES_PER_SECOND * elapsed_s:
        return f"{switches} involuntary context switches in {1e3 * elapsed_s:.0f} ms"
    if steal > STEAL_SHARE * elapsed_s:
        return f"{100 * steal / elapsed_s:.0f} % of a processor taken by the hypervisor"
    if pressure > PRESSURE_SHARE * elapsed_s:
        return f"tasks waited for a processor {100 * pressure / elapsed_s:.0f} % of the time"
    return ""


class Watch:
    """Decides which rounds count. `disturbed` is the reason why the latest rejected round does not count,
    and `count` is the number of rounds that count."""

    def __init__(self, read=read_counters):
        self._read, self.disturbed, self.count = read, "", 0

    def begin(self, now):
        self._begun, self._before = now, self._read()

    def accepts(self, now):
        """True if nothing disturbed the time since begin()."""
        reason = contention(self._before, self._read(), now - self._begun)
        self.disturbed = reason or self.disturbed
        self.count += not reason
        return not reason


def interleave(contenders, rounds, min_batch_s=MIN_BATCH_S, pause_s=PAUSE_S,
               clock=time.perf_counter, sleep=time.sleep, watch=None):
    """Times contenders by turns. Returns, for each contender and round, the seconds of a call in its two
    turns: [(first, second)]. With a watch, rounds are made until `rounds` of them count, but at most twice
    as many. If none counts, the times are those of all rounds."""
    batches = [batch_size(contender, min_batch_s, clock) for contender in contenders]

    def turn(index):
        sleep(pause_s)
        contenders[index].run()
        return seconds_of(contenders[index], batches[index], clock) / batches[index]

    taken, counted = [], []
    collecting = gc.isenabled()
    gc.disable()
    try:
        while len(counted) < rounds and len(taken) < (2 * rounds if watch else rounds):
            if watch:
                watch.begin(clock())
            order = range(len(contenders))
            first = [turn(i) for i in order]
            second = [turn(i) for i in reversed(order)][::-1]
            taken.append(list(zip(first, second)))
            if not watch or watch.accepts(clock()):
                counted.append(taken[-1])
    finally:
        if collecting:
            gc.enable()
    return [list(times) for times in zip(*(counted or taken))] or [[] for _ in contenders]


def ratios(ours, peer):
    """Returns the peer's time divided by ours in each round; above 1, ours is faster."""
    return [sum(theirs) / sum(own) for own, theirs in zip(ours, peer)]


def fastest(times):
    return min(map(min, times))


def median_call(times):
    """Returns the median of the rounds. The two turns of a round are not independent, so their mean is one
    value."""
    return median_of([sum(pair) / 2 for pair in times])
