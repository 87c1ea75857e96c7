# SPDX-License-Identifier: Apache-2.0
"""Times several contenders in turn, in one process on the same cores.

A round is A B C C B A, so that a change of the machine's speed affects all of them. A turn is a batch
of calls after a pause, in which the threads of the one before fall asleep, and a call that is not
timed.
"""
import gc
import math
import statistics
import time
from dataclasses import dataclass

# ONNX Runtime's threads spin for some milliseconds after a call before they sleep.
PAUSE_S = 0.05
MIN_BATCH_S = 0.1


@dataclass(frozen=True)
class Median:
    """With a 95 % interval from order statistics."""
    value: float
    low: float
    high: float


def median_of(values):
    values, count = sorted(values), len(values)
    # The number of values below the true median is binomial(n, 1/2).
    low = int(max(0, count / 2 - 1.96 * math.sqrt(count) / 2))
    return Median(statistics.median(values), values[low], values[count - 1 - low])


def seconds_of(contender, calls, clock):
    begun = clock()
    for _ in range(calls):
        contender.run()
    return clock() - begun


def batch_size(contender, min_batch_s, clock):
    """Number of calls that take so long together; finding it warms up."""
    calls = 1
    while seconds_of(contender, calls, clock) < min_batch_s:
        calls *= 2
    return calls


def interleave(contenders, rounds, min_batch_s=MIN_BATCH_S, pause_s=PAUSE_S,
               clock=time.perf_counter, sleep=time.sleep):
    """For each contender the seconds of a call in its two turns of each round: [(first, second)]."""
    batches = [batch_size(contender, min_batch_s, clock) for contender in contenders]

    def turn(index):
        sleep(pause_s)
        contenders[index].run()
        return seconds_of(contenders[index], batches[index], clock) / batches[index]

    times = [[] for _ in contenders]
    collecting = gc.isenabled()
    gc.disable()
    try:
        for _ in range(rounds):
            order = range(len(contenders))
            first = [turn(i) for i in order]
            second = [turn(i) for i in reversed(order)][::-1]
            for i in order:
                times[i].append((first[i], second[i]))
    finally:
        if collecting:
            gc.enable()
    return times


def ratios(ours, peer):
    """The peer's time over ours in each round: above 1, ours is faster."""
    return [sum(theirs) / sum(own) for own, theirs in zip(ours, peer)]


def fastest(times):
    return min(map(min, times))


def median_call(times):
    return median_of([turn for pair in times for turn in pair])
