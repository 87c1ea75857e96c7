#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the report: the contents of its page, that the page requests nothing, and that a browser
draws all of it."""
import contextlib
import html
import importlib.util
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.request

import records

import tilewright as tw
from tilewright import paths, plots, report

ROOT = pathlib.Path(__file__).resolve().parents[2]
HAS_CHARTS = importlib.util.find_spec("vl_convert") is not None
CHROMIUM = shutil.which("chromium")


class Report(unittest.TestCase):
    def setUp(self):
        if not HAS_CHARTS:
            self.skipTest("[SKIP] vl-convert-python is not installed")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.database = self.folder / "team.db"
        self.page = self.folder / "page.html"

    def write(self, trials, *arguments):
        """Makes the report about a database with these trials, and returns its HTML."""
        records.write_database(self.database, trials)
        code = report.main(["--db", str(self.database), "--output", str(self.page), *arguments])
        self.assertEqual(code, 0)
        return self.page.read_text(encoding="utf-8")

    def opened(self):
        """Opens the page in a browser. Returns the HTML after its scripts have run, and the lines
        of the browser's console."""
        done = subprocess.run(
            [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             f"--user-data-dir={self.folder / 'browser'}", "--virtual-time-budget=120000",
             "--enable-logging=stderr", "--dump-dom", self.page.as_uri()],
            capture_output=True, text=True, timeout=300, check=True)
        return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]

    def check_opened(self):
        if CHROMIUM is None:
            self.skipTest("[SKIP] chromium is not installed")
        charts = self.page.read_text(encoding="utf-8").count("<figure data-spec")
        elements, console = self.opened()
        self.assertEqual(console, [])
        self.assertIn(f'data-charts="{charts} of {charts}"', elements)
        self.assertEqual(len(re.findall(r'<svg[^>]*class="marks"', elements)), charts)
        return elements

    def test_has_charts_and_tables_of_each_workload(self):
        other = tw.make_workload("dense", m=8, n=8, k=8).key
        text = self.write(records.search() + records.search(8, workload=other, session="s2"))
        page = records.Markup(text)
        self.assertIn("records32", page.text)
        self.assertEqual(page.tags.count("section"), 2)
        self.assertIn("default", page.text)
        self.check_opened()

    def test_rows_of_several_machines_tell_them_apart(self):
        elsewhere = dict(device="another processor", target="x86-64-linux-avx512f")
        asked = records.search(4, layouts="a=MK8k", session="s3")
        alone = self.write(records.search(8))
        self.assertNotIn(">device</th>", alone[alone.index(">workload</th>"):][:400])
        text = self.write(records.search(8) + records.search(8, session="s2", **elsewhere) + asked)
        page = records.Markup(text)
        self.assertRegex(page.text[page.text.index("database"):][:200], "workloads1sessions3")  # as `db info` counts
        table = text[text.index(">workload</th>"):]
        for name in ("device", "target"):
            self.assertIn(f">{name}</th>", table[:400])
        for name in ("a processor", "another processor", "x86-64-linux-avx512f"):
            self.assertIn(f">{name}<", table)

    def test_a_share_beyond_the_peak_is_explained(self):
        sentence = "A convolution by Winograd's algorithm does fewer"
        self.assertNotIn(sentence, html.unescape(self.write(records.search(8))))
        beyond = [records.record(latency_ns=100.5, samples_ns=[100.5])]
        self.assertEqual(sentence in report._note_beyond_peak(beyond), True)

    def test_every_page_has_the_same_best(self):
        """The report, the plots, the web view and the program name the same record with the same
        time. A schedule with two trials counts with the slower one, even if the clock rates of
        their sessions differ."""
        schedules = ["tw1\nsplit out m 2\n", "tw1\nsplit out n 4\n"]
        trials = [records.record(schedule=schedules[0], trial=1, created_ms=1000, latency_ns=58_500.5),
                  records.record(schedule=schedules[1], trial=2, created_ms=2000, latency_ns=61_600.5),
                  records.record(schedule=schedules[0], trial=3, created_ms=3000, latency_ns=61_400.5, peak_gflops=97.5),
                  records.record(schedule=schedules[1], trial=4, created_ms=4000, latency_ns=62_000.5)]
        page = records.Markup(self.write(trials)).text
        store = tw.Store(str(self.database), "r")
        best, _ = plots.ranked(store.query())
        self.assertEqual(best.latency_ns, 61_400.5)
        self.assertIn(f"best: 61.4 µs, record {best.hash[:12]}", page)
        self.assertIn("61.4 µs after 4 trials", page)  # the end of the chart's line
        self.assertEqual([r.hash for r in plots.best_of_each(store.query())], [best.hash])

        def program(*arguments):
            done = subprocess.run([paths.program(), *arguments, "--db", str(self.database), "--format", "json"],
                                  capture_output=True, text=True, check=True)
            return json.loads(done.stdout)

        known = program("db", "explain", best.hash)
        self.assertEqual(known["answer"]["record"], best.hash)
        self.assertEqual(known["answer"]["latency_ns"], best.latency_ns)
        self.assertEqual(known["agreement"]["latency_ns"], best.latency_ns)
        self.assertNotIn("e+", "".join(other["why"] for other in known["not_used"]))
        with subprocess.Popen([paths.program(), "db", "serve", "--db", str(self.database)], stdout=subprocess.PIPE,
                              text=True) as server:
            try:
                address = server.stdout.readline().strip()
                with urllib.request.urlopen(address + "api/workloads") as answer:
                    row, = json.load(answer)["workloads"]
                with urllib.request.urlopen(f"{address}api/workloads/{row['hash']}") as answer:
                    workload = json.load(answer)
                with urllib.request.urlopen(f"{address}workloads/{row['hash']}") as answer:
                    web = answer.read().decode()
            finally:
                server.terminate()
        self.assertEqual(row["latency_ns"], best.latency_ns)
        self.assertEqual([group["answer"]["record"] for group in workload["best"]], [best.hash])
        self.assertEqual(min(point["counted_ns"] for point in workload["history"]), best.latency_ns)
        self.assertIn(f'<a href="/records/{best.hash}">61.4 µs</a>', web)

    def test_asks_for_nothing(self):
        text = self.write(records.search(4))
        self.assertIn("default-src 'none'", text)
        page = text.replace(text[text.index("<script>"):], "")  # leaves out the charts' script
        for part in ("src=", "href=\"http", "url(", "@import"):
            self.assertNotIn(part, page)

    def test_hostile_names_are_text(self):
        hostile = records.HOSTILE
        device = hostile.replace("\x07\n", " ")  # control characters would exclude the record
        trials = records.search(8, workload=hostile, op=hostile, device=device, session="s\u202e<b>")
        trials.append(records.failed(workload=hostile, device=device, op=hostile, trial=99,
                                     reason=hostile, schedule="tw1\n" + hostile))
        text = self.write(trials)
        page = records.Markup(text)
        self.assertNotIn("b", page.tags)
        for character in "\u202e\u2066\x07":
            self.assertNotIn(character, text)
        for spec in re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', text, re.S):
            json.loads(spec)
        self.assertNotIn("<title>owned", self.check_opened())

    def test_Fault90_nonsense_is_left_out_and_named(self):
        here = tw.device()
        good = [records.record(device=here, session=f"good{i}", trial=i + 1) for i in range(3)]
        bad = [records.record(device=here, session="bad", target="\x1b[31mno target", latency_ns=900.5, samples_ns=[900.5]),
               records.record(device=here, session="bad", layouts="a=\x1bno", latency_ns=901.5, samples_ns=[901.5]),
               records.record(device="\x1b[31mno device", session="bad", latency_ns=902.5, samples_ns=[902.5])]
        text = self.write(good + bad)
        store = tw.Store(str(self.database), "r")
        for record in store.query():
            self.assertEqual(record.hash[:12] in text.split("Left out")[1].split("</section>")[0], record.session == "bad")
            tw.plots.best_so_far([record])
        tw.plots.roofline(store.query())
        self.assertIn("3 records left out", text)
        self.assertNotIn("\x1b", text)
        self.assertIn(records.DENSE, text)
        self.assertEqual(text.count('<section id="workload-'), 1)

    def test_of_one_session(self):
        text = self.write(records.search(8) + records.search(4, session="s2"), "--session", "s2")
        self.assertIn("records4", records.Markup(text).text)

    def test_at_most_so_many_workloads_have_charts(self):
        trials = [trial for m in (4, 8, 12)
                  for trial in records.search(4, workload=tw.make_workload("dense", m=m, n=8, k=8).key,
                                              session=f"s{m}")]
        self.assertEqual(records.Markup(self.write(trials, "--most", "2")).tags.count("section"), 2)

    def test_of_a_network(self):
        if importlib.util.find_spec("onnx") is None:
            self.skipTest("[SKIP] onnx is not installed")
        onnx, network = self.folder / "net.onnx", self.folder / "net.twart"
        subprocess.run([sys.executable, ROOT / "bench" / "models" / "make_models.py",
                        "planted_mixed_blocks", "-o", onnx], check=True, capture_output=True)
        subprocess.run([paths.program(), "tune", "--model", onnx, "--effort", "none", "--db",
                        self.database, "--output", network], check=True, capture_output=True)
        self.assertEqual(report.main(["--model", str(network), "--output", str(self.page)]), 0)
        text = records.Markup(self.page.read_text(encoding="utf-8")).text
        plan = tw.read_plan(str(network))
        for step in plan.steps:
            self.assertIn(step.name, text)
        self.assertIn(str(plan).splitlines()[-1].strip(), text)
        with self.assertRaisesRegex(IndexError, "the network has 1"):
            tw.read_plan(str(network), 1)
        self.check_opened()

    def tune(self, *arguments, **environment):
        return subprocess.run([paths.program(), "tune", "--db", self.database, "--report", self.page, *arguments],
                              env={**os.environ, "TILEWRIGHT_PYTHON": sys.executable, "TILEWRIGHT_CACHE": self.folder,
                                   **environment}, capture_output=True, text=True, cwd=self.folder)

    def test_at_the_end_of_tuning(self):
        small = ("--op", "dense", "--shape", "m=16,n=32,k=24", "--trials", "3", "--budget", "10m")
        (self.folder / "tilewright").mkdir()  # a package in the working directory must not be run
        (self.folder / "tilewright" / "__init__.py").write_text("raise ImportError('not this one')")
        done = self.tune(*small)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("the report is", done.stderr)
        page = records.Markup(self.page.read_text(encoding="utf-8"))
        self.assertEqual(page.tags.count("section"), 1)
        self.assertIn("dense m=16 n=32 k=24", page.text)
        # A run that measures nothing makes a page about the records that are known.
        self.page.unlink()
        self.assertEqual(self.tune(*small[:4], "--effort", "none").returncode, 0)
        self.assertIn("dense m=16 n=32 k=24", self.page.read_text(encoding="utf-8"))

    def test_at_the_end_of_tuning_a_network(self):
        if importlib.util.find_spec("onnx") is None:
            self.skipTest("[SKIP] onnx is not installed")
        done = self.tune("--model", "planted_mixed_blocks", "--trials", "1", "--output", "net.twart")
        self.assertEqual(done.returncode, 0, done.stderr)
        text = records.Markup(self.page.read_text(encoding="utf-8")).text
        for part in ("planted_mixed_blocks", "relu_1", "conv2d", "sessions"):
            self.assertIn(part, text)
        # For a session without trials, the page shows the network alone. This happens if all
        # kernels were known before.
        self.assertEqual(report.main(["--db", str(self.database), "--session", "none", "--model",
                                      str(self.folder / "net.twart"), "--output", str(self.page)]), 0)
        self.assertIn("has no trials of session none", self.page.read_text(encoding="utf-8"))

    def test_what_is_missing_is_said_before_tuning(self):
        bare = self.folder / "bare"
        bare.write_text(f"#!/bin/sh\nexec {sys.executable} -I -S \"$@\"\n")
        bare.chmod(0o755)
        for python, words in ((str(bare), "No module named"), ("no-such-python", "no-such-python"),):
            done = self.tune("--op", "dense", TILEWRIGHT_PYTHON=python)
            self.assertEqual(done.returncode, 7, done.stderr)
            self.assertIn(words, done.stderr)
            self.assertIn("tilewright[report]", done.stderr)
            self.assertFalse(self.database.exists())
        self.page = self.folder / "none" / "page.html"
        done = self.tune("--op", "dense")
        self.assertEqual(done.returncode, 7)
        self.assertFalse(self.database.exists())

    def test_of_several_workloads(self):
        keys = [tw.make_workload("dense", m=m, n=8, k=8).key for m in (4, 8, 12)]
        trials = [trial for key in keys for trial in records.search(4, workload=key, session=key)]
        text = self.write(trials, "--workload", keys[0], "--workload", keys[2], "--workload", keys[0])
        self.assertEqual(records.Markup(text).tags.count("section"), 2)
        self.assertIn("records8", records.Markup(text).text)

    def test_a_file_that_cannot_be_written_is_an_error(self):
        records.write_database(self.database, records.search(4))
        pipe = self.folder / "pipe"
        os.mkfifo(pipe)
        for arguments, code, said in (
                (["--output", str(self.folder / "none" / "page.html")], 7, "cannot be written"),
                (["--output", str(self.database.parent)], 7, "cannot be written"),
                (["--output", str(pipe)], 2, "is a device or a pipe, which would be replaced"),
                (["--output", str(self.page), "--session", "other"], 6, "no such records")):
            stderr = io.StringIO()
            with contextlib.redirect_stderr(stderr):
                self.assertEqual(report.main(["--db", str(self.database), *arguments]), code)
            self.assertIn(said, stderr.getvalue())
        self.assertFalse(self.page.exists())
        self.assertTrue(pipe.is_fifo())
        self.assertEqual([p for p in self.folder.parent.iterdir()
                          if p.name.startswith(self.folder.name) and p != self.folder], [])

    def test_a_missing_database_is_none_to_report_on(self):
        with contextlib.redirect_stderr(io.StringIO()):
            self.assertEqual(report.main(["--db", str(self.folder / "no.db"), "--output",
                                          str(self.page)]), 4)
        self.assertFalse((self.folder / "no.db").exists())

    def test_is_a_module_of_the_package(self):
        self.assertIs(tw.report, report)
        self.assertIn("report.write", report.__doc__)


if __name__ == "__main__":
    unittest.main()
