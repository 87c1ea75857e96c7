#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tuning, interrupting it, and the database."""
import os
import pathlib
import signal
import tempfile
import threading
import time
import unittest

import numpy as np

import tilewright as tw


def small():
    return tw.make_workload("dense", m=16, n=32, k=24)


class Tuning(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.database = self.folder / "tuning.db"

    def tune(self, **options):
        return tw.tune(small(), db=self.database, trials=8, **options)

    def test_finds_a_kernel_that_computes_it(self):
        heard = []
        tuned = self.tune(on_progress=lambda progress: heard.append(progress.elapsed_s))
        self.assertEqual(tuned.best.status, "ok")
        self.assertTrue(tuned.schedule.startswith("tw1"))
        self.assertTrue(heard)
        a, w = (np.random.default_rng(1).normal(size=shape).astype(np.float32)
                for shape in ((16, 24), (24, 32)))
        kernel = tuned.kernel()
        self.assertEqual([argument.name for argument in kernel.arguments], ["a", "b", "out"])
        np.testing.assert_allclose(kernel(a, w), a @ w, rtol=1e-4, atol=1e-4)

        path = self.folder / "dense.twart"
        tuned.save(path)
        for given in (path, str(path)):
            np.testing.assert_array_equal(tw.Kernel.load(given)(a, w), kernel(a, w))

        pipe, link = self.folder / "pipe", self.folder / "link"
        os.mkfifo(pipe)
        link.symlink_to(pipe)
        for kept in (pipe, link):
            with self.assertRaisesRegex(tw.UsageError, "is a device or a pipe, which would be replaced"):
                tuned.save(kept)
        self.assertTrue(pipe.is_fifo() and link.is_symlink())

    def test_options_that_make_no_sense_are_refused(self):
        for options, expected in (({"budget": float("nan")}, "budget is nan; a number of seconds from 0 on"),
                                  ({"budget": -5}, "budget is -5"), ({"trials": -1}, "trials is -1"),
                                  ({"threads": 0}, "threads is 0; a whole number from 1 to 1024"),
                                  ({"threads": 1025}, "threads is 1025")):
            with self.subTest(options), self.assertRaisesRegex(tw.errors.UsageError, expected):
                tw.tune(small(), db=self.database, **options)

    def test_databases_are_paths_in_folders_that_are_there(self):
        with self.assertRaises(TypeError):
            tw.tune(small(), db=5, trials=1)
        with self.assertRaises(tw.errors.DatabaseError):
            tw.tune(small(), db=self.folder / "absent" / "tuning.db", trials=1)
        self.assertFalse((self.folder / "absent").exists())

    def test_records_are_kept_and_answer_alone(self):
        self.tune()
        store = tw.Store(str(self.database))
        records = store.query(op="dense")
        self.assertEqual(len(store), len(records))
        self.assertTrue({"ok"} & {record.status for record in records})
        again = tw.tune(small(), db=store, effort="none")
        self.assertEqual((again.ended, len(store)), ("from the database", len(records)))

        other = tw.Store(str(self.folder / "other.db"))
        self.assertEqual(other.merge(str(self.database)), len(records))
        self.assertEqual(other.merge(str(self.database)), 0)

    def test_a_session_gives_out_the_kernel_that_was_saved_in_its_folder(self):
        tuned = self.tune()
        cache = self.folder / "cache"
        cache.mkdir()
        session = tw.Session(self.database, cache)
        with self.assertRaisesRegex(tw.NotCompiledError, "tilewright compile"):
            session.kernel(small().key)
        self.assertEqual(pathlib.Path(tuned.save_in(cache)).parent, cache)
        a, w = np.ones((16, 24), np.float32), np.ones((24, 32), np.float32)
        kernel = session.kernel(small().key)
        self.assertEqual(kernel.schedule, tuned.schedule)
        np.testing.assert_array_equal(kernel(a, w), np.full((16, 32), 24, np.float32))
        with self.assertRaises(tw.NoCandidateError):
            session.kernel(tw.make_workload("dense", m=3, n=3, k=3).key)
        with self.assertRaises(tw.DatabaseError):
            tw.Session(self.folder / "none.db", cache)

    def test_nothing_known_is_an_error_with_a_line_to_run(self):
        with self.assertRaises(tw.NoCandidateError):
            tw.tune(small(), db=self.database, effort="none")

    def test_words_that_are_none_are_errors_of_the_package(self):
        with self.assertRaisesRegex(tw.UsageError, "effort 'max': expected none, quick"):
            self.tune(effort="max")
        with self.assertRaisesRegex(tw.UsageError, "status 'zz'"):
            tw.Store(self.database).query(status="zz")

    def test_an_interrupt_returns_the_best_so_far(self):
        threading.Timer(3, lambda: signal.raise_signal(signal.SIGINT)).start()
        begun = time.monotonic()
        tuned = tw.tune(tw.make_workload("dense", m=512, n=512, k=512), db=self.database, budget=500,
                        effort="full")
        self.assertEqual(tuned.ended, "interrupted")
        self.assertEqual(tuned.best.status, "ok")
        self.assertLess(time.monotonic() - begun, 250)  # the budget was 500

    def test_an_interrupt_before_there_is_a_kernel_is_raised(self):
        def interrupt(progress):
            raise KeyboardInterrupt

        with self.assertRaisesRegex(KeyboardInterrupt, "interrupted"):
            tw.tune(small(), db=self.database, on_progress=interrupt)

    def test_a_callback_that_raises_ends_the_run_with_its_exception(self):
        def fail(progress):
            raise ZeroDivisionError("from the callback")

        with self.assertRaisesRegex(ZeroDivisionError, "from the callback"):
            tw.tune(small(), db=self.database, budget=500, effort="full", on_progress=fail)

    def test_other_threads_run_meanwhile(self):
        done = threading.Event()
        counted = []

        def count():
            while not done.is_set():
                counted.append(None)
                time.sleep(0.001)

        thread = threading.Thread(target=count)
        thread.start()
        try:
            self.tune()
        finally:
            done.set()
            thread.join()
        self.assertGreater(len(counted), 20)

    def test_options_are_checked(self):
        for options, error in (({"effort": "hard"}, ValueError), ({"target": "pdp11"}, tw.UsageError),
                               ({"search": "guess"}, tw.UsageError)):
            with self.assertRaises(error):
                self.tune(**options)


if __name__ == "__main__":
    unittest.main()
