# SPDX-License-Identifier: Apache-2.0
"""Displays the progress of a tuning run. In a notebook it is an output that is updated, on a
terminal a line that is redrawn, and elsewhere a line every five seconds."""
from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable

from tilewright import display
from tilewright._tilewright import Progress
from tilewright.display import Html, escaped, time_text

OnProgress = Callable[[Progress], object] | None

_NOTEBOOK_PERIOD_S = 0.25
_TERMINAL_PERIOD_S = 0.25
_LOG_PERIOD_S = 5.0
_WIDTH, _HEIGHT = 240, 40


def listener(shown: bool | None, on_progress: OnProgress, title: str) -> tuple[OnProgress, Callable[[], None]]:
    """Makes two callbacks, (hear, finish), that display a run.

    `hear` is called with each Progress. It updates the display, if there is one, and calls
    `on_progress`, if given. `hear` is None if there is neither. `finish` is called once, at the
    end.

    Args:
      shown: True if the run is displayed. None displays it in a notebook or on a terminal, but only
        without an `on_progress`.
    """
    if shown is None:
        shown = on_progress is None and (_notebook_display() is not None or _is_terminal(sys.stderr))
    if not shown:
        return on_progress, lambda: None
    live = _Live(title, _notebook_display(), sys.stderr, time.monotonic)

    def hear(progress):
        live.update(progress)
        if on_progress is not None:
            on_progress(progress)

    return hear, live.finish


def _is_terminal(stream):
    return stream is not None and stream.isatty()


def _notebook_display():
    """Returns IPython's display() in a notebook; None elsewhere."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if getattr(shell, "kernel", None) is None:
        return None
    from IPython.display import display as display_in_notebook
    return display_in_notebook


def text_of(progress):
    """Returns the progress as one line, such as "best 235.1 µs, 81.0 % of peak, 38.0x untuned | 72
    s left | 48 trials (45 ok, 3 pruned)"."""
    if progress.best_ns > 0:
        best = f"best {time_text(progress.best_ns)}"
        if progress.peak_gflops > 0 and progress.flops > progress.bytes:
            share = progress.flops / progress.best_ns / progress.peak_gflops
            best += f", {display.share_text(share)} of peak"
        if progress.untuned_ns > 0:
            best += f", {progress.untuned_ns / progress.best_ns:.1f}x untuned"
    else:
        best = "getting ready"
    left_s = progress.budget_s - progress.elapsed_s
    left = f"{left_s:.0f} s left" if left_s > 0 else f"finishing {progress.finishing}".rstrip()
    trials = sum(progress.trials.values())
    counts = f" ({display.counts_text(progress.trials)})" if trials else ""
    return f"{best} | {left} | {display.count_text(trials, 'trial')}{counts}"


class _Live:
    """The display of one run while it is updated."""

    def __init__(self, title, show, stream, clock):
        self._title, self._show, self._stream, self._clock = title, show, stream, clock
        self._handle = None
        self._drawn_s = None   # when it was last drawn
        self._columns = 0  # number of characters of the line that is redrawn
        self._history = []     # (elapsed seconds, best ns) where the best changed
        self._progress = None

    def update(self, progress):
        self._progress = progress
        if progress.best_ns > 0 and (not self._history or progress.best_ns < self._history[-1][1]):
            self._history.append((progress.elapsed_s, progress.best_ns))
        if self._drawn_s is None or self._clock() - self._drawn_s >= self._period_s():
            self._draw()

    def finish(self):
        if self._progress is None:
            return
        self._draw()
        if self._show is None and _is_terminal(self._stream):
            self._write("\n")

    def _period_s(self):
        if self._show is not None:
            return _NOTEBOOK_PERIOD_S
        return _TERMINAL_PERIOD_S if _is_terminal(self._stream) else _LOG_PERIOD_S

    def _draw(self):
        self._drawn_s = self._clock()
        if self._show is not None:
            self._draw_in_notebook()
            return
        if self._stream is None:
            return
        line = f"{display.one_line(self._title, 40)}: {text_of(self._progress)}"
        if _is_terminal(self._stream):
            # A line that wraps could not be redrawn.
            line = line[:shutil.get_terminal_size().columns - 1]
            self._write("\r" + line.ljust(self._columns))
            self._columns = len(line)
        else:
            self._write(line + "\n")

    def _write(self, text):
        try:
            print(text, end="", file=self._stream, flush=True)
        except OSError:  # nobody reads the stream; the run continues
            self._stream = None

    def _draw_in_notebook(self):
        bundle = {"text/plain": text_of(self._progress), "text/html": str(self._html())}
        if self._handle is None:
            self._handle = self._show(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)

    def _html(self):
        p = self._progress
        share = min(p.elapsed_s / p.budget_s, 1) if p.budget_s > 0 else 0
        return Html(f"<div><b>{escaped(display.one_line(self._title, 80))}</b></div>"
                    f"<div>{display.bar(share)} {escaped(text_of(p))}</div>{self._curve()}")

    def _curve(self):
        """Returns a drawing of the best latency over the time since the run began."""
        if len(self._history) < 2:
            return ""
        end = max(self._progress.elapsed_s, self._history[-1][0], 1e-9)
        slowest, fastest = self._history[0][1], self._history[-1][1]
        points, before = [], None
        for elapsed_s, ns in [*self._history, (end, fastest)]:
            x = _WIDTH * elapsed_s / end
            y = 2 + (_HEIGHT - 4) * (slowest - ns) / (slowest - fastest)
            points += [f"{x:.1f},{before:.1f}"] if before is not None else []
            points.append(f"{x:.1f},{y:.1f}")
            before = y
        return (f'<svg width="{_WIDTH}" height="{_HEIGHT}" role="img"><title>best latency over time'
                f'</title><polyline points="{" ".join(points)}" fill="none" '
                f'stroke="{display.BLUE}"/></svg>')
