#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests importing the package, forking, starting processes, and ending them at bad moments."""
import concurrent.futures
import multiprocessing
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np

import tilewright as tw

PATIENCE_S = 300  # longer than any process takes that is not stuck


def numbers(*shape):
    return np.random.default_rng(1).integers(-4, 5, shape).astype(np.float32)


A, W = numbers(8, 10), numbers(10, 12)


def call_of(path):
    """Runs the kernel of an artifact. A process of a pool calls this function."""
    return tw.Kernel.load(path)(A, W, threads=2)


class Importing(unittest.TestCase):
    def test_loads_neither_the_compiler_nor_the_cost_model(self):
        script = """
import sys, tilewright
maps = open("/proc/self/maps").read()
print([name for name in ("libHalide", "libtw_halide", "libxgboost") if name in maps],
      [name for name in ("halide", "onnx", "xgboost") if name in sys.modules])
"""
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, "[] []\n")


class Processes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        cls.workload = tw.make_workload("dense", m=8, n=12, k=10)
        tuned = tw.tune(cls.workload, db=cls.folder / "tuning.db", trials=2)
        cls.kernel, cls.path = tuned.kernel(), str(cls.folder / "dense.twart")
        tuned.save(cls.path)
        np.testing.assert_array_equal(cls.kernel(A, W, threads=2), A @ W)  # starts the pool of threads

    def in_child(self, action):
        """Runs the action in a child of fork. Expects that the action returns True."""
        child = os.fork()
        if child == 0:
            signal.alarm(PATIENCE_S)
            os._exit(0 if action() else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)

    def test_fault63_a_call_in_a_child_of_fork(self):
        self.in_child(lambda: np.array_equal(self.kernel(A, W, threads=2), A @ W))
        np.testing.assert_array_equal(self.kernel(A, W, threads=2), A @ W)

    def test_fault63_tuning_in_a_child_of_fork(self):
        def tune():
            tuned = tw.tune(self.workload, db=self.folder / "child.db", trials=2)
            return np.array_equal(tuned.kernel()(A, W), A @ W)

        self.in_child(tune)

    def test_fault63_a_child_of_fork_during_a_run_may_tune(self):
        def is_refused_for_its_target_only():
            try:
                tw.tune(self.workload, db=self.folder / "turn.db", target="arm-64-linux")
            except tw.Error as error:
                return type(error) is tw.UnsupportedError
            return False

        children = []

        def fork_once(progress):
            if not children:
                children.append(progress)
                self.in_child(is_refused_for_its_target_only)

        tw.tune(self.workload, db=self.folder / "forks.db", trials=1, on_progress=fork_once)
        self.assertEqual(len(children), 1)

    def test_fault63_pools_of_processes(self):
        for method in ("fork", "spawn"):
            with multiprocessing.get_context(method).Pool(2) as pool:
                for result in pool.map_async(call_of, [self.path] * 4).get(PATIENCE_S):
                    np.testing.assert_array_equal(result, A @ W)

    def test_threads_run_while_one_waits_to_open_a_database(self):
        database = self.folder / "locked.db"
        tw.Store(database)
        script = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
print("locked", flush=True)
sys.stdin.readline()
"""
        holder = subprocess.Popen([sys.executable, "-c", script, database], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  text=True)
        self.assertEqual(holder.stdout.readline(), "locked\n")
        with concurrent.futures.ThreadPoolExecutor() as pool:
            opened = pool.submit(tw.Store, database)
            time.sleep(0.1)  # by then the thread waits; with the GIL it would wait a minute in vain
            holder.communicate("\n")  # releases the lock
            self.assertEqual(len(opened.result(PATIENCE_S)), 0)

    def test_fault65_the_interpreter_ends_while_the_pool_of_threads_lives(self):
        script = f"""
import threading
import numpy as np, tilewright as tw
kernel = tw.Kernel.load({self.path!r})
a, w = np.ones((8, 10), np.float32), np.ones((10, 12), np.float32)
kernel(a, w, threads=2)
def call_for_ever():
    while True: kernel(a, w, threads=2)
threading.Thread(target=call_for_ever, daemon=True).start()
"""
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE_S)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_fault66_a_process_that_is_killed_during_tuning_leaves_no_lock(self):
        database = self.folder / "killed.db"
        script = f"""
import tilewright as tw
tw.tune(tw.make_workload("dense", m=64, n=64, k=64), db={str(database)!r}, budget=500, effort="full",
        on_progress=lambda progress: print(sum(progress.trials.values()), flush=True))
"""
        child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        for line in child.stdout:
            if int(line) > 0:
                break
        child.kill()
        child.communicate(timeout=PATIENCE_S)
        for _ in range(2):  # as when a notebook's cell runs twice
            tuned = tw.tune(tw.make_workload("dense", m=64, n=64, k=64), db=database, trials=1)
            self.assertEqual(tuned.best.status, "ok")


if __name__ == "__main__":
    unittest.main()
