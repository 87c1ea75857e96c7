#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests how a run's progress is shown from Python: on a terminal, in a log, in a notebook."""
import contextlib
import io
import pathlib
import sys
import tempfile
import types
import unittest
from unittest import mock

import records

import tilewright as tw
from tilewright import progress as module


def state(**changes):
    values = dict(name="dense", elapsed_s=8, budget_s=10, trials={"ok": 45, "hopeless": 3},
                  known_trials=0, best_ns=235_100, untuned_ns=8_933_800, flops=2e8, bytes=1e6,
                  peak_gflops=1000, finishing="")
    return types.SimpleNamespace(**{**values, **changes})


class Terminal(io.StringIO):
    def isatty(self):
        return True


class Clock:
    def __init__(self):
        self.now = 0

    def __call__(self):
        return self.now


class Notebook:
    """Stands for IPython's display() and for the handle that it returns."""

    def __init__(self):
        self.bundles = []

    def __call__(self, bundle, raw, display_id):
        assert raw and display_id
        self.bundles.append(bundle)
        return self

    def update(self, bundle, raw):
        assert raw
        self.bundles.append(bundle)


class Text(unittest.TestCase):
    def test_says_what_is_known(self):
        self.assertEqual(module.text_of(state()),
                         "best 235.1 µs, 85.1 % of peak, 38.0x untuned | 2 s left | "
                         "48 trials (45 ok, 3 pruned)")
        self.assertEqual(module.text_of(state(best_ns=0, trials={})),
                         "getting ready | 2 s left | 0 trials")
        self.assertEqual(module.text_of(state(elapsed_s=11, finishing="building", untuned_ns=0,
                                              peak_gflops=0)),
                         "best 235.1 µs | finishing building | 48 trials (45 ok, 3 pruned)")


class Displays(unittest.TestCase):
    def test_a_terminal_has_one_line_that_is_redrawn(self):
        stream, clock = Terminal(), Clock()
        live = module._Live("dense", None, stream, clock)
        live.update(state())
        live.update(state(best_ns=1))  # too soon to be drawn
        self.assertEqual(stream.getvalue().count("\r"), 1)
        clock.now = 1
        live.update(state())
        live.finish()
        self.assertEqual(stream.getvalue().count("\r"), 3)
        self.assertEqual(stream.getvalue().count("\n"), 1)

    def test_a_log_has_a_line_every_five_seconds(self):
        stream, clock = io.StringIO(), Clock()
        live = module._Live("dense\n\u202e", None, stream, clock)
        for clock.now in range(11):
            live.update(state())
        self.assertEqual(len(stream.getvalue().splitlines()), 3)
        self.assertIn("dense\\n\\u202e: best", stream.getvalue())

    def test_a_stream_that_nobody_reads_ends_nothing(self):
        stream = mock.Mock(isatty=lambda: False, write=mock.Mock(side_effect=BrokenPipeError))
        live = module._Live("dense", None, stream, Clock())
        live.update(state())
        live.update(state())
        live.finish()

    def test_a_notebook_has_an_output_that_is_updated(self):
        notebook, clock = Notebook(), Clock()
        live = module._Live(records.HOSTILE, notebook, None, clock)
        for clock.now, best_ns in ((1, 0), (2, 900), (3, 500)):
            live.update(state(best_ns=best_ns, elapsed_s=clock.now))
        live.finish()
        self.assertEqual(len(notebook.bundles), 4)
        page = records.Markup(notebook.bundles[-1]["text/html"])
        self.assertNotIn("script", page.tags)
        self.assertIn("polyline", page.tags)
        self.assertTrue(notebook.bundles[-1]["text/plain"].startswith("best 500.0 ns"))


class Listener(unittest.TestCase):
    def test_by_default_a_run_is_quiet_where_nobody_watches(self):
        with mock.patch.object(sys, "stderr", io.StringIO()):
            hear, finish = module.listener(None, None, "dense")
        self.assertIsNone(hear)
        finish()

    def test_a_callback_of_the_caller_stands_instead_of_the_display(self):
        heard = []
        with mock.patch.object(sys, "stderr", Terminal()) as stream:
            hear, finish = module.listener(None, heard.append, "dense")
            hear(1)
            finish()
        self.assertEqual((heard, stream.getvalue()), ([1], ""))

    def test_a_notebook_is_found_by_its_kernel(self):
        notebook = Notebook()
        shell = types.SimpleNamespace(kernel=object())
        ipython = types.SimpleNamespace(get_ipython=lambda: shell)
        modules = {"IPython": ipython, "IPython.display": types.SimpleNamespace(display=notebook)}
        with mock.patch.dict(sys.modules, modules):
            hear, _ = module.listener(None, None, "dense")
            hear(state())
            self.assertEqual(len(notebook.bundles), 1)
            shell.kernel = None
            self.assertIsNone(module._notebook_display())

    def test_tune_shows_its_run(self):
        stream, heard = io.StringIO(), []
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(stream):
            tw.tune(tw.make_workload("dense", m=8, n=8, k=8), db=pathlib.Path(folder) / "t.db",
                    trials=2, progress=True, on_progress=heard.append)
        self.assertIn("dense: ", stream.getvalue())
        self.assertTrue(heard)


if __name__ == "__main__":
    unittest.main()
