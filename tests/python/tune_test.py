#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests tuning, its interruption, and the database."""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock

import numpy as np

import tilewright as tw
from tilewright import paths


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

    def test_names_of_files_may_have_any_bytes(self):
        path = os.fsencode(self.folder) + b"/\xff.db"
        store = tw.Store(path)
        self.assertEqual(os.fsencode(store.path), path)
        self.assertEqual(len(tw.Store(store.path)), 0)
        self.assertIn(r"\xff.db: 0 records", repr(store))
        repr(store).encode()
        with self.assertRaisesRegex(tw.Error, r"absent-\\xff.twart"):
            tw.Kernel.load(os.fsencode(self.folder) + b"/absent-\xff.twart")

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
        with self.assertRaisesRegex(tw.UsageError, "is a database, whose records would be lost"):
            tuned.save(self.database)

    def test_prepared_stages_are_computed_from_the_weights_of_each_call(self):
        workload = tw.parse_workload(
            "expr fast input a: f32[6, 8]; weight w: f32[10, 8]; "
            "u: f32[c=8, k=10] = w[k, c] * w[k, c] + 1.0; out: f32[m=6, k=10] = sum(c=8) a[m, c] * u[c, k]")
        schedule = tw.Schedule(workload).prepare("u").vectorize("u", "k").parallel("u", "c")
        self.assertIn("prepared u: f32[8, 10]", str(schedule.program()))
        with self.assertRaisesRegex(tw.InvalidError, "'out' cannot be computed ahead of the calls"):
            schedule.prepare("out")
        tuned = tw.tune(workload, db=self.database, trials=1, schedule=schedule)
        self.assertEqual(tuned.schedule, str(schedule))
        kernel = tuned.kernel()
        self.assertEqual([argument.name for argument in kernel.arguments], ["a", "w", "out"])
        for seed in (1, 2):
            a, w = (np.random.default_rng(seed).normal(size=shape).astype(np.float32)
                    for shape in ((6, 8), (10, 8)))
            np.testing.assert_allclose(kernel(a, w), a @ (w * w + 1).T, rtol=1e-4, atol=1e-4)

    def test_options_that_make_no_sense_are_refused(self):
        for options, expected in (({"budget": float("nan")}, "budget is nan: expected a positive number of seconds"),
                                  ({"budget": -5}, "budget is -5"), ({"budget": 0}, "budget is 0"),
                                  ({"budget": "5 m"}, "budget is '5 m': expected .* such as '500ms'"),
                                  ({"timeout": "0s"}, "timeout is '0s'"), ({"trials": -1}, "trials is -1"),
                                  ({"threads": 0}, "threads is 0; a whole number from 1 to 1024"),
                                  ({"threads": 1025}, "threads is 1025"), ({"seed": -1}, "seed is -1"),
                                  ({"threads": 1024}, "threads is 1024: the machine has .* would be measured")):
            with self.subTest(options), self.assertRaisesRegex(tw.errors.UsageError, expected):
                tw.tune(small(), db=self.database, **options)
        for options, expected in (({"trials": 2.5}, "trials is 2.5: expected a whole number"),
                                  ({"threads": "two"}, "threads is 'two'"), ({"budget": None}, "budget is None"),
                                  ({"effort": 3}, "effort is 3: expected text"),
                                  ({"db": 3}, "db is 3: expected a Store, or the path of one"),
                                  ({"progress": "x"}, "progress is 'x': expected True, False or None"),
                                  ({"on_progress": 3}, "on_progress is 3: expected a function of a Progress"),
                                  ({"bugdet": 3}, "tune.. has no argument 'bugdet': did you mean budget.$")):
            with self.subTest(options), self.assertRaisesRegex(TypeError, expected):
                tw.tune(small(), **{"db": self.database, **options})

    def test_a_budget_may_be_text(self):
        self.assertEqual(self.tune(budget="2m", timeout="10s", effort="quick").progress.budget_s, 120)

    def test_messages_name_arguments(self):
        with self.assertRaises(tw.DatabaseError) as absent:
            tw.Store(self.folder / "absent.db", "r")
        self.assertIn("`tilewright tune` creates one, or name another database", str(absent.exception))
        with self.assertRaises(tw.NoCandidateError) as unknown:
            self.tune(effort="none")
        self.assertIn('tune without effort="none"', str(unknown.exception))
        self.assertEqual(tw.errors.in_arguments("[tune] --threads 64: the machine has 2"),
                         "[tune] threads is 64: the machine has 2")
        cache = self.folder / "cache"
        cache.mkdir()
        with self.assertRaisesRegex(tw.NoCandidateError, "\n  tilewright tune --db '"):  # a line to paste into a shell
            tw.Session(self.database, cache).kernel(small().key)

    def test_databases_are_paths_in_folders_that_are_there(self):
        with self.assertRaises(TypeError):
            tw.tune(small(), db=5, trials=1)
        with self.assertRaises(tw.errors.DatabaseError):
            tw.tune(small(), db=self.folder / "absent" / "tuning.db", trials=1)
        self.assertFalse((self.folder / "absent").exists())

    def test_a_published_layer_answers(self):
        self.tune()
        program = paths.program()
        made = subprocess.run([program, "db", "key", "--output", str(self.folder / "key"), "--format", "json"],
                              check=True, capture_output=True, text=True)
        key = json.loads(made.stdout)["public_key"]
        lines = str(self.folder / "team.jsonl")
        subprocess.run([program, "db", "ship", "--output", lines, "--sign", str(self.folder / "key"), str(self.database)],
                       check=True, capture_output=True)
        team = str(self.folder / "team.layer.json")
        home = {"XDG_DATA_HOME": str(self.folder / "home")}
        with unittest.mock.patch.dict(os.environ, home):
            store = tw.Store(self.folder / "own.db", team=team, team_key=key, shipped="none")
            self.assertEqual(tw.tune(small(), db=store, effort="none").ended, "from the database")
            os.remove(lines)
            os.remove(team)
            with self.assertWarnsRegex(RuntimeWarning, "stays as it was copied"):
                tw.Store(self.folder / "own.db", team=team, team_key=key)
            with self.assertRaisesRegex(tw.UsageError, "--team-key"):
                tw.Store(self.folder / "own.db", team=team)

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
        third = tw.Store(pathlib.Path(self.database).with_name("third.db"))
        self.assertEqual(third.merge(other), len(records))
        with self.assertRaisesRegex(TypeError, "^Store.merge..: other is 3: expected a Store, or the path of one$"):
            other.merge(3)
        with self.assertRaisesRegex(tw.UsageError, "limit is -1; a whole number from 0 on was expected"):
            other.query(limit=-1)
        with self.assertRaisesRegex(TypeError, "^Store.query..: op is 3: expected text or None$"):
            other.query(op=3)
        with self.assertRaisesRegex(TypeError, "^Store.query.. takes its arguments by name: workload, op, device"):
            other.query("dense")

    def test_a_session_gives_out_the_kernel_that_was_saved_in_its_folder(self):
        tuned = self.tune()
        cache = self.folder / "cache"
        cache.mkdir()
        session = tw.Session(self.database, cache)
        with self.assertRaisesRegex(tw.NotCompiledError, "tilewright compile"):
            session.kernel(small().key)
        self.assertEqual(pathlib.Path(tuned.save_in(cache)).parent, cache)
        self.assertTrue(pathlib.Path(tuned.save_in(self.folder / "new" / "kernels")).is_file())
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
        def interrupt_after_a_record():
            while not self.database.exists() or not tw.Store(self.database).query(status="ok"):
                time.sleep(0.1)
            signal.raise_signal(signal.SIGINT)

        threading.Thread(target=interrupt_after_a_record).start()
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


class Fault83(unittest.TestCase):
    """During a run, its callback and other threads read the run's database."""

    PRELUDE = """
import signal, sys, threading
import tilewright as tw
store = tw.Store(sys.argv[1])
workload = tw.make_workload("dense", m=16, n=32, k=24)
heard = []
"""

    def run_script(self, body):
        """Runs the script and returns the words of its output. It has its own process, which is
        ended if it waits for a lock."""
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([sys.executable, "-c", self.PRELUDE + body, folder + "/tuning.db"], text=True,
                                  capture_output=True, timeout=200)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split()

    def test_a_callback_reads_the_store(self):
        counts = self.run_script("""
tw.tune(workload, db=store, trials=8, on_progress=lambda p: heard.append((len(store), len(store.query(op="dense")))))
print(min(heard)[0], max(heard)[0] > 0, all(all_of_them == dense for all_of_them, dense in heard))
""")
        self.assertEqual(counts, ["0", "True", "True"])

    def test_another_thread_reads_it_before_the_run_ends(self):
        said = self.run_script("""
begun, read = threading.Event(), threading.Event()
def look():
    begun.wait()
    heard.append((len(store), repr(store), store.query()))
    read.set()
def on_progress(progress):
    begun.set()
    assert read.wait(120), "the other thread waits for the run"
thread = threading.Thread(target=look)
thread.start()
tw.tune(workload, db=store, trials=4, on_progress=on_progress)
thread.join()
print(len(heard), len(store) > 0)
""")
        self.assertEqual(said, ["1", "True"])

    def test_an_interrupt_is_heard_by_a_run_whose_callback_reads_the_store(self):
        said = self.run_script("""
def on_progress(progress):
    if len(store) > 0 and progress.best_ns > 0 and not heard:
        heard.append(True)
        signal.raise_signal(signal.SIGINT)
tuned = tw.tune(workload, db=store, budget=500, effort="full", on_progress=on_progress)
print(tuned.ended, len(heard))
""")
        self.assertEqual(said, ["interrupted", "1"])


if __name__ == "__main__":
    unittest.main()
