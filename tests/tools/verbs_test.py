# SPDX-License-Identifier: Apache-2.0
"""Tests the verbs that measure nothing."""

import csv
import fcntl
import io
import json
import os
import pathlib
import pty
import re
import shutil
import struct
import subprocess
import termios

import program

CLI_PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "cli.md"


class Verbs(program.ProgramTest):
    def test_help_of_every_verb(self):
        text = self.succeed("--help").out
        for verb in re.findall(r"^  ([a-z]+)  +\S", text[text.index("Subcommands:"):], re.MULTILINE):
            if verb != "bench":
                self.assertIn("Usage:", self.succeed(verb, "--help").out)

    def test_every_verb_and_flag_is_documented(self):
        page = CLI_PAGE.read_text()
        script = self.succeed("completion", "fish").out
        for flag in set(re.findall(r" -l ([a-z-]+)", script)):
            self.assertIn(f"--{flag}", page)
        for verb in set(re.findall(r" -a ([a-z]+) -d", script)):
            self.assertRegex(page, rf"`(db )?{verb}\b")

    def test_bench_takes_its_arguments_as_they_stand(self):
        done = self.run_program("bench", "--suite", "nonsense")
        self.assertIn(done.returncode, (2, 7))  # from the benchmark program, or 7 if it is not built
        self.assertNotIn("is no flag of", done.err)

    def test_version(self):
        self.assertRegex(self.succeed("--version").out, r"\Atilewright \d+\.\d+\.\d+ \(.*tw1.*\)\n\Z")
        self.assertEqual(self.json("version", "--format", "json")["schedule_language"], "tw1")

    def test_list(self):
        document = self.json("list", "--format", "json")
        names = {operator["name"] for operator in document["operators"]}
        self.assertLessEqual({"conv2d", "dense", "softmax"}, names)
        conv = next(o for o in document["operators"] if o["name"] == "conv2d")
        self.assertIn("stride", {a["name"] for a in conv["attributes"]})
        self.assertIn("resnet50_conv", {s["name"] for s in document["suites"]})
        self.assertIn("evolution", {s["name"] for s in document["searches"]})
        self.assertIn("input channels", self.succeed("list", "operators").out)

    def test_every_suite_has_workloads(self):
        counts = {}
        for suite in self.json("list", "suites", "--format", "json")["suites"]:
            document = self.json("tune", "--suite", suite["name"], "--dry-run", "--format", "json")
            counts[suite["name"]] = len(document["results"])
        self.assertEqual(counts, {"attention": 5, "few_bits": 6, "gemm": 14, "gemm_large": 2, "inception_conv": 16,
                                  "odd_conv": 29, "other": 10, "resnet50_conv": 23, "resnet50_qlinear": 23, "vgg16_conv": 9})

    def test_dry_run_shows_the_space_and_makes_nothing(self):
        document = self.json("tune", "--op", "conv2d", "--dry-run", "--format", "json")
        result = document["results"][0]
        self.assertIn("k=64 r=3 s=3", result["workload"])
        self.assertGreater(result["space_size"], 1000)
        self.assertTrue(result["default_schedule"].startswith("tw1\n"))
        self.assertEqual(result["known_trials"], 0)
        self.assertEqual(os.listdir(self.home), [])

    def test_dry_run_of_an_expression(self):
        (self.home / "scale.tw").write_text("input a: f32[64]\nb: f32[i=64] = a[i] * 2.0\n")
        document = self.json("tune", "--expr", "scale.tw", "--dry-run", "--format", "json")
        self.assertTrue(document["results"][0]["workload"].startswith("expr fast "))

    def test_attributes_add_to_a_shape(self):
        document = self.json("tune", "--op", "conv2d", "--attr", "stride=2", "--attr", "relu=1",
                             "--dry-run", "--format", "json")
        self.assertIn("stride=2", document["results"][0]["workload"])
        self.assertIn("relu=1", document["results"][0]["workload"])

    def test_show_the_default_schedule(self):
        self.assertIn("tw1\n", self.succeed("show", *program.SMALL).out)
        self.assertTrue(self.succeed("show", *program.SMALL, "--steps").out.startswith("tw1\n"))
        self.assertTrue(self.succeed("show", *program.SMALL, "--program").out.startswith("kernel("))
        document = self.json("show", *program.SMALL, "--format", "json")
        self.assertFalse(document["known"])
        self.assertEqual(document["schedule_from"], "cost model")
        self.assertIn("phase 0", document["program"])
        self.assertNotIn("c", document)
        document = self.json("show", *program.SMALL, "--c", "--format", "json")
        self.assertEqual(document["c"], self.succeed("show", *program.SMALL, "--c").out)

    def test_what_is_shown_is_what_compile_only_compiles(self):
        shape = ["--op", "dense", "--shape", "m=512,n=512,k=512"]
        for target in ("host", "cuda:sm_90a"):
            done = self.run_program("tune", *shape, "--target", target, "--compile-only", "--db", self.db,
                                    "--format", "json")
            if done.returncode == 7 and "nvrtc" in done.err.lower():
                self.skipTest("[SKIP] no NVRTC")
            self.assertEqual(done.returncode, 0, done.err)
            compiled = json.loads(done.out)["results"][0]
            dry = self.json("tune", *shape, "--target", target, "--dry-run", "--format", "json")["results"][0]
            self.assertNotEqual(compiled["schedule"], dry["default_schedule"])
            shown = self.json("show", *shape, "--target", target, "--db", self.db, "--format", "json")
            self.assertEqual(shown["schedule"], compiled["schedule"])
            self.assertEqual(shown["schedule_from"], compiled["schedule_from"])
            explained = self.json("explain", *shape, "--target", target, "--db", self.db, "--format", "json")
            self.assertEqual(explained["schedule_from"], "cost model")
            view = "--c" if target == "host" else "--cuda"
            done = self.succeed("show", *shape, "--target", target, view, "--db", self.db)
            self.assertIn("the cost model's choice", done.err)
            self.assertIn("the cost model's choice", self.succeed("explain", *shape, "--target", target).out)

    def test_c_of_a_schedule_compiles(self):
        source = self.home / "kernel.c"
        source.write_text(self.succeed("show", *program.SMALL, "--c").out)
        compiler = shutil.which("gcc") or shutil.which("cc")
        subprocess.run([compiler, "-std=c11", "-Wall", "-Werror", "-fsyntax-only", source], check=True)

    def test_kernels_of_a_schedule_for_a_gpu(self):
        self.assertIn('extern "C" __global__ void', self.succeed("show", *program.SMALL, "--cuda").out)
        self.assertIn("__kernel", self.succeed("show", *program.SMALL, "--opencl").out)

    def test_completion_scripts(self):
        bash = self.succeed("completion", "bash").out
        subprocess.run(["bash", "-n"], input=bash, text=True, check=True)
        ask = "COMP_WORDS=({}); COMP_CWORD={}; _tilewright; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        for words, expected in ((["tilewright", "tu"], "tune"),
                                (["tilewright", "tune", "--tri"], "--trials"),
                                (["tilewright", "tune", "--op", "conv"], "conv2d"),
                                (["tilewright", "db", "mer"], "merge"),
                                (["tilewright", "db", "query", "--stat"], "--status"),
                                (["/bin/tune", "--eff"], "--effort"),
                                (["tilewright", "tune", "--search", "ran"], "random")):
            script = bash + "compopt() { :; }\n" + ask.format(" ".join(words), len(words) - 1)
            done = subprocess.run(["bash"], input=script, text=True, capture_output=True, check=True)
            self.assertEqual(done.stdout.split(), [expected], done.stderr)
        for shell in ("zsh", "fish"):
            script = self.succeed("completion", shell).out
            self.assertIn("tilewright", script)
            if shutil.which(shell):
                subprocess.run([shell, "-n"], input=script, text=True, check=True)

    def test_doctor(self):
        done = self.run_program("doctor", "--format", "json", "--db", self.db)
        document = json.loads(done.out)
        self.assertEqual(done.returncode == 0, document["ok"])
        names = {finding["name"] for finding in document["findings"]}
        self.assertLessEqual({"machine", "target", "microarchitecture", "core", "dot products", "caches", "memory", "calibration", "peak", "sqlite", "database", "sandbox", "a kernel"}, names)

    def test_doctor_as_a_table(self):
        done = self.run_program("doctor", "--db", self.db)
        self.assertRegex(done.out, r"\Astate +check +result\n")
        self.assertRegex(done.out, r"(?m)^(ok|!!) +code generator ")

    def test_doctor_makes_no_database(self):
        done = self.run_program("doctor", "--db", self.db)
        self.assertRegex(done.out, r"(?m)^ok +database .*not there yet: `tune` makes it")
        self.assertFalse(os.path.exists(self.db))
        done = self.run_program("doctor", "--db", str(self.home / "absent" / "a.db"))
        self.assertRegex(done.out, r"(?m)^!! +database .*no directory")

    def test_Fault42_doctor_opens_the_code_generator(self):
        (self.home / "libtw_halide.so").write_bytes(b"no library")
        done = self.run_program("doctor", "--db", self.db, "--code-generator", str(self.home))
        self.assertEqual(done.returncode, 7)
        self.assertRegex(done.out, r"(?m)^!! +code generator .*cannot be opened")

    def calibration(self, *arguments):
        """Runs doctor. Returns the finished process and the finding about the calibration."""
        done = self.run_program("doctor", "--format", "json", "--db", self.db, *arguments)
        findings = json.loads(done.out)["findings"]
        return done, next(finding for finding in findings if finding["name"] == "calibration")

    def test_doctor_calibrates_or_says_why_not(self):
        before, none = self.calibration()
        self.assertTrue(none["text"].startswith("none"))
        done, made = self.calibration("--calibrate")
        self.assertEqual(done.returncode, before.returncode if made["present"] else 75)
        self.assertRegex(done.err, r"\A\Z" if made["present"] else program.ONE_ERROR)
        stored = json.loads(self.succeed("db", "info", "--format", "json", self.db).out)["calibrations"]
        self.assertEqual(stored, 1 if made["present"] else 0)
        self.assertIn("by version" if made["present"] else "used is", made["text"])
        for verb in ("show", "explain"):
            described = json.loads(self.succeed(verb, *program.SMALL, "--db", self.db, "--format", "json").out)
            self.assertEqual(described["tuned_for"].endswith("(calibrated)"), stored == 1, verb)

    def test_a_calibration_that_nothing_keeps_fails(self):
        pathlib.Path(self.db).write_bytes(b"no database, of whatever kind that may be" * 100)
        done, finding = self.calibration("--calibrate")
        self.assertEqual(done.returncode, 4)
        self.assertRegex(done.err, program.ONE_ERROR)
        self.assertIn("[calibration]", done.err)
        self.assertFalse(finding["present"])
        self.assertFalse(json.loads(done.out)["ok"])

    def test_worker_is_of_no_use_by_itself(self):
        done = self.run_program("worker")
        self.assertEqual(done.returncode, 2)

    def on_a_terminal(self, columns, *arguments):
        """Runs the program on a terminal of `columns` columns, and returns its standard output."""
        outer, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        process = subprocess.Popen([program.PROGRAM, *arguments], stdin=subprocess.DEVNULL, stdout=inner,
                                   stderr=subprocess.DEVNULL, cwd=self.home,
                                   env={**self.environment, "NO_COLOR": "1"})
        os.close(inner)
        written = b""
        while True:
            try:
                piece = os.read(outer, 4096)
            except OSError:  # the program has closed its end
                break
            if not piece:
                break
            written += piece
        os.close(outer)
        self.assertEqual(process.wait(), 0)
        return written.decode().replace("\r\n", "\n")

    def test_tables_fit_the_terminal(self):
        dry_run = ["tune", "--suite", "resnet50_conv", "--dry-run"]
        for columns in (80, 60):
            text = self.on_a_terminal(columns, *dry_run)
            self.assertLessEqual(max(map(len, text.splitlines())), columns)
        whole = self.succeed(*dry_run).out
        self.assertEqual(text.split(), whole.split())
        self.assertEqual(len(whole.splitlines()), 24)  # for other programs, each row is one line

    def test_csv_holds_numbers(self):
        (self.home / "scale.tw").write_text("input a: f32[64]\nb: f32[i=64] = a[i] * 2.0\n")
        for arguments, numbers in (
                (["explain", "--expr", "scale.tw"], ["analytic_ns", "share"]),
                (["tune", "--suite", "gemm", "--dry-run"], ["space_size", "known_trials"])):
            rows = list(csv.DictReader(io.StringIO(self.succeed(*arguments, "--format", "csv").out)))
            self.assertGreater(len(rows), 0)
            for row in rows:
                for name in numbers:
                    float(row[name])

    def test_colours_only_on_terminals(self):
        self.assertNotIn("\x1b", self.succeed("tune", "--suite", "gemm", "--dry-run").out)


if __name__ == "__main__":
    program.main()
