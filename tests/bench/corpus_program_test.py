#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests tilewright-bench --corpus: it gathers recordings and resumes after a stop, and the
recordings can be replayed."""

import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import unittest

PROGRAM = os.environ["TW_TEST_PROGRAM"]


class Corpus(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name, "corpus.jsonl")

    def bench(self, *arguments):
        return subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True, timeout=300)

    def gather(self, budget):
        done = self.bench("--corpus", "--record", self.file, "--kinds", "dense,reductions", "--trials", 2,
                          "--budget", budget, "--seed", 3)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [line for line in map(json.loads, self.file.read_text().splitlines()) if "workload" in line]

    def test_a_run_goes_on_where_the_one_before_was_stopped(self):
        first = self.gather("3s")
        self.assertGreater(len(first), 0)
        whole = self.file.read_text()
        self.file.write_text(whole + json.dumps(first[0] | {"workload": "cut"}) + '\n{"ns": 12')
        both = self.gather("5s")
        self.assertTrue(self.file.read_text().startswith(whole))
        self.assertGreater(len(both), len(first))
        texts = [line["workload"] for line in both]
        self.assertNotIn("cut", texts)
        self.assertEqual(len(set(texts)), len(texts))
        for line in both:
            kind, number = line["name"].split("_")
            states = [[], ["network:L3"], ["network:memory" if kind == "dense" else "network:L3"]]
            self.assertEqual(re.findall("network:[^ }]+", line["workload"]), states[int(number) % 3])
            self.assertTrue(line["threads"] == 1 and line["machine"])
        trials = self.file.read_text().count('"tw1"')
        self.assertGreaterEqual(trials, len(both) - 1)  # the budget may have ended in the last one
        self.assertLessEqual(trials, 2 * len(both))
        replayed = self.bench("--search", "--replay", self.file, "--format", "json")
        self.assertEqual(replayed.returncode, 0, replayed.stderr)

    def test_an_interrupt_leaves_the_workload_under_way_out(self):
        with subprocess.Popen([PROGRAM, "--corpus", "--record", self.file, "--kinds", "conv", "--trials", "400",
                               "--budget", "200s"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as run:
            self.assertIn(b"recording conv_0", run.stderr.readline())
            run.send_signal(signal.SIGINT)
            run.communicate(timeout=60)
        self.assertEqual(run.returncode, 130)
        self.assertEqual(self.file.read_text(), "")

    def test_what_is_wrong_is_one_line(self):
        text = '{"of": "another program"}'  # without a line break at the end
        self.file.write_text(text)
        for arguments, words in (([], "--record"), (["--record", self.file], "is no file of recordings"),
                                 (["--record", self.file, "--kinds", "convs"], "expected some of conv")):
            done = self.bench("--corpus", "--budget", "1s", *arguments)
            self.assertEqual(done.returncode, 5 if "no file" in words else 2, done.stderr)
            self.assertEqual(len(done.stderr.splitlines()), 1)
            self.assertIn(words, done.stderr)
        self.assertEqual(self.file.read_text(), text)


if __name__ == "__main__":
    unittest.main()
