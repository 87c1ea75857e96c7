# SPDX-License-Identifier: Apache-2.0
"""Runs tilewright-bench the whole way, from the search to the figures. `smoke_program_test.py
CLASS` runs one of the classes."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

PROGRAM = os.environ["TW_TEST_PROGRAM"]
TINY = ("--suite", "odd_conv", "--only", "ssd_256_24_3", "--rounds", "2")


class Program(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = pathlib.Path(folder.name)

    def bench(self, *arguments):
        return subprocess.run([PROGRAM, "--db", self.home / "test.db", *arguments], cwd=self.home,
                              env={**os.environ, "HOME": str(self.home)}, capture_output=True, text=True)

    def document(self, *arguments):
        done = self.bench(*arguments, "--format", "json")
        self.assertEqual(done.returncode, 0, done.stderr + done.stdout)
        return json.loads(done.stdout)

    def fails(self, code, words, *arguments):
        done = self.bench(*arguments)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertIn(words, done.stderr)


class Smoke(Program):
    """Tunes, checks, times and prints a tiny convolution."""

    def test_a_kernel_is_tuned_once(self):
        for budget_s in (8, 0):
            document = self.document(*TINY, "--budget", "8s", "--output", "out.json")
            self.assertEqual(document["options"]["budget_s"], budget_s)
            row, = document["rows"]
            self.assertGreater(row["ratio"], 0)
            self.assertEqual(document["summary"]["1"]["failed"], 0)
            self.assertEqual(json.loads((self.home / "out.json").read_text())["rows"][0]["name"], row["name"])

    def test_a_place_that_cannot_be_written_is_told_before_the_work(self):
        self.fails(7, "there is no directory", *TINY, "--budget", "8s", "--output", "none/out.json")
        self.assertFalse((self.home / "test.db").exists())
        self.fails(7, "--record 'none/trials.jsonl' cannot be written", "--search", *TINY, "--record",
                   "none/trials.jsonl")


class Search(Program):
    """Compares our search with random search."""

    def test_every_strategy_has_a_trace(self):
        document = self.document("--search", *TINY, "--trials", "8", "--strategies", "evolution,random")
        self.assertNotIn('"error"', json.dumps(document))
        search = document["search"]
        self.assertIn("summary", search)
        self.assertIn('"points"', json.dumps(search))


class Replay(Program):
    def test_recorded_trials_are_replayed(self):
        self.assertIn('"taught"', json.dumps(self.document("--search", "--replay")["replay"]))


if __name__ == "__main__":
    unittest.main()
