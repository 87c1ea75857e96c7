# SPDX-License-Identifier: Apache-2.0
"""Tests short runs that measure: they tune, use the results, are interrupted and continue."""

import csv
import ctypes
import io
import json
import os
import pathlib
import re
import subprocess

import program


class Tuning(program.ProgramTest):
    def records(self):
        return [json.loads(line) for line in
                self.succeed("db", "export", "-", "--db", self.db).out.splitlines()]

    def test_a_run_and_what_can_be_done_with_it(self):
        document = self.tune()
        result = document["results"][0]
        for field in ("workload", "target", "threads", "latency_ns", "latency_low_ns", "latency_high_ns",
                      "gflops", "peak_gflops", "efficiency", "untuned_ns", "speed_up", "trials", "ended",
                      "record", "session", "schedule", "artifact", "replay"):
            self.assertIn(field, result)
        trials = sum(result["trials"].values())
        self.assertEqual(trials, 4)
        self.assertEqual(result["ended"], "trials done")
        self.assertLessEqual(result["latency_low_ns"], result["latency_ns"])
        self.assertTrue(pathlib.Path(result["artifact"]).is_file())
        measured = self.records()
        self.assertEqual(len(measured), trials)
        self.assertEqual(len({record["schedule"] for record in measured}), 4)

        # --effort none answers from the database and measures nothing.
        again = self.tune("--effort", "none")["results"][0]
        self.assertEqual((again["record"], again["ended"]), (result["record"], "from the database"))
        self.assertEqual(again["known_trials"], 4)
        dry = self.json("tune", *program.SMALL, "--db", self.db, "--dry-run", "--format", "json")
        self.assertEqual(dry["results"][0]["known_trials"], 4)
        self.assertEqual(self.records(), measured)

        # Fault33: a second run continues from the first, and no schedule is tried twice.
        more = self.tune("--resume", "--seed", "2")["results"][0]
        self.assertEqual(more["known_trials"], 4)
        records = self.records()
        self.assertEqual(len({record["schedule"] for record in records}), 8)

        short = result["record"][:12]
        self.assertEqual(self.succeed("show", short, "--steps", "--db", self.db).out.strip(),
                         result["schedule"])
        self.assertIn("phase 0", self.succeed("show", short, "--program", "--db", self.db).out)
        self.assertIn("_p0(", self.succeed("show", short, "--c", "--db", self.db).out)
        assembly = self.succeed("show", short, "--asm", "--db", self.db).out
        self.assertIn("vfmadd" if "fma" in result["target"] else "ret", assembly)
        self.assertTrue(assembly.startswith("Disassembly of section"))
        explained = self.json("explain", short, "--db", self.db, "--format", "json")
        times = [resource["ns"] for resource in explained["resources"]]
        self.assertEqual(times, sorted(times, reverse=True))
        self.assertGreater(explained["predicted_ns"], 0)
        self.assertEqual(explained["record"]["record"], result["record"])
        best_other = explained["best_other"]
        self.assertNotEqual(best_other["record"]["schedule"], result["schedule"])
        self.assertNotEqual(best_other["only_in_this"] + best_other["only_in_other"], [])
        self.assertIn("best other:", self.succeed("explain", short, "--db", self.db).out)
        replayed = self.json("replay", short, "--db", self.db, "--format", "json")
        self.assertGreater(replayed["ratio"], 0)
        sheet = list(csv.DictReader(io.StringIO(
            self.succeed("replay", short, "--db", self.db, "--format", "csv").out)))
        self.assertEqual(float(sheet[0]["latency_ns"]), result["latency_ns"])
        self.assertGreater(float(sheet[1]["latency_ns"]), 0)
        self.assertEqual(self.json("db", "info", "--db", self.db, "--format", "json")["records"],
                         len(records))

        path = str(self.home / "kernel one.twart")
        self.assertEqual(self.succeed("compile", short, "--db", self.db, "--output", path).out, path + "\n")
        self.assertEqual(pathlib.Path(path).read_bytes()[:8], b"TWARTF01")
        compiled = self.json("compile", "--workload", result["workload"], "--db", self.db,
                             "--format", "json")
        self.assertTrue(compiled["verified"])
        self.assertEqual((compiled["shared"], compiled["header"]), ("", ""))
        self.expect_shared_object(short)
        ran = self.json("run", *program.SMALL, "--db", self.db, "--format", "json")
        self.assertGreater(ran["checked_elements"], 0)
        self.assertLess(ran["largest_error"], 2e-5)

        self.assertIn("all is well", self.succeed("db", "verify", self.db).out)
        rows = list(csv.DictReader(io.StringIO(
            self.succeed("db", "query", "--db", self.db, "--format", "csv").out)))
        self.assertEqual(len(rows), len(records))

    def expect_shared_object(self, record):
        """Compiles the kernel of SMALL as a function of a shared object, and calls it."""
        library, header = self.home / "libproduct.so", self.home / "libproduct.h"
        printed = self.succeed("compile", record, "--db", self.db, "--shared", str(library), "--name", "times").out
        self.assertEqual(printed, f"{library}\n{header}\n")
        self.assertIn("int32_t times(const float* a, const float* b, float* out);", header.read_text())
        if program.SANITIZED:
            return
        floats = ctypes.c_float * (64 * 64)
        identity, values, out = floats(*[float(i % 65 == 0) for i in range(64 * 64)]), floats(*range(64 * 64)), floats()
        self.assertEqual(ctypes.CDLL(str(library)).times(identity, values, out), 0)
        self.assertEqual(list(out), list(values))

    def test_layouts_that_are_asked_for(self):
        free = self.tune()["results"][0]
        layouts = ["--layout", "a=MK16k", "--layout", "out=NM"]
        asked = self.tune(*layouts)["results"][0]
        self.assertEqual((free["layouts"], asked["layouts"]), ("", "a=MK16k out=NM"))
        self.assertEqual(asked["workload"], free["workload"])
        self.assertEqual(asked["known_trials"], 0)
        self.assertIn("set_layout a MK16k\nset_layout out NM\n", asked["schedule"])

        # Each record answers for its own layouts, also in a database that has imported both.
        lines = self.home / "all.jsonl"
        self.succeed("db", "export", str(lines), "--db", self.db)
        other = str(self.home / "other.db")
        self.succeed("db", "import", str(lines), "--db", other)
        text = f"{asked['workload']} {{a=MK16k out=NM}}"
        for database in (self.db, other):
            for what, record in ((program.SMALL, free), ([*program.SMALL, *layouts], asked),
                                 (["--workload", text], asked)):
                shown = self.json("show", *what, "--db", database, "--format", "json")
                self.assertEqual(shown["record"], record["record"])
            self.assertIn("all is well", self.succeed("db", "verify", database).out)
        more = self.tune("--effort", "none", "--layout", "out=NM a=MK16k")["results"][0]
        self.assertEqual(more["record"], asked["record"])
        self.fail_with(6, "tune", *program.SMALL, "--layout", "a=KM", "--effort", "none", "--db", self.db,
                       saying=["{a=KM}"])
        self.fail_with(2, "tune", *program.SMALL, "--layout", "a=KM", "--resume", "--db", self.db,
                       saying=["--resume", "{a=KM}"])
        self.assertEqual(self.tune("--resume", "--seed", "2", *layouts)["results"][0]["known_trials"], 4)

        # Results are right for a kernel that is named by its layouts and for one that is named by
        # its record.
        for what in ([*program.SMALL, *layouts], [asked["record"][:16]]):
            ran = self.json("run", *what, "--db", self.db, "--format", "json")
            self.assertEqual(ran["layouts"], "a=MK16k out=NM")
            self.assertLess(ran["largest_error"], 2e-5)
        short = asked["record"][:16]
        replayed = self.json("replay", short, "--db", self.db, "--format", "json")
        self.assertEqual(replayed["now"]["layouts"], "a=MK16k out=NM")
        explained = self.json("explain", short, "--db", self.db, "--format", "json")
        self.assertEqual(explained["best_other"]["record"]["layouts"], "a=MK16k out=NM")
        self.assertIn(text, self.succeed("show", short, "--db", self.db).out)
        self.assertIn("{a=MK16k out=NM}", self.succeed("db", "query", "--db", self.db).out)
        for workload, under in ((text, {"a=MK16k out=NM"}), (asked["workload"], {"", "a=MK16k out=NM"})):
            found = self.json("db", "query", "--workload", workload, "--limit", "0", "--db", self.db,
                              "--format", "json")["records"]
            self.assertEqual({record["layouts"] for record in found}, under)
        compiled = self.json("compile", *program.SMALL, *layouts, "--db", self.db, "--format", "json")
        self.assertTrue(compiled["verified"])

        # For layouts without a record, `show` prints the schedule that the cost model chooses for them.
        unknown = self.json("show", *program.SMALL, "--layout", "a=KM", "--db", self.db, "--format", "json")
        self.assertEqual((unknown["known"], unknown["layouts"]), (False, "a=KM"))
        self.assertIn("set_layout a KM\n", unknown["schedule"])
        dry = self.json("tune", *program.SMALL, *layouts, "--dry-run", "--db", self.db, "--format", "json")
        self.assertGreater(dry["results"][0]["known_trials"], 4)
        self.assertIn("set_layout a MK16k\n", dry["results"][0]["default_schedule"])

    def test_infinite_results_are_right_where_the_definition_gives_them(self):
        path = self.home / "infinite.tw"
        path.write_text("input a: f32[5, 0]\nout: f32[i=5] = max(k=0) a[i, k]\n")
        ran = self.json("run", "--expr", str(path), "--db", self.db, "--format", "json")
        self.assertEqual(ran["checked_elements"], 5)  # the output has no more elements
        self.assertEqual(ran["largest_error"], 0)

    def test_what_memory_bounds_is_told_in_bytes(self):
        path = self.home / "scale_rows.tw"
        path.write_text("input a: f32[256, 512]\ninput s: f32[256]\n"
                        "out: f32[i=256, j=512] = a[i, j] * s[i]\n")
        what = ("--expr", str(path), "--db", self.db)
        tuned = self.succeed("tune", *what, "--trials", "4", *program.AMPLE)
        speeds = r"(?m)^bandwidth +[0-9.]+ GB/s, [0-9.]+ % of [0-9.]+ GB/s from \w+: 513.0 KiB read and 512.0 KiB written once\nspeed +[0-9.]+ GFLOP/s$"
        self.assertRegex(tuned.out, speeds)
        self.assertRegex(tuned.err, r"best [^|]*, [0-9.]+ GB/s")
        self.assertRegex(self.succeed("run", *what).out, speeds)
        self.assertRegex(self.succeed("explain", *what).out, speeds)
        self.assertRegex(self.succeed("show", *what).out, r"(?m)^speed +[0-9.]+ GB/s$")
        results = self.json("tune", *what, "--effort", "none", "--format", "json")["results"]
        for memory in (results[0]["memory"],
                       self.json("run", *what, "--format", "json")["memory"],
                       self.json("explain", *what, "--format", "json")["memory"]):
            self.assertEqual(memory["read_bytes"], 4 * (256 * 512 + 256))
            self.assertEqual(memory["written_bytes"], 4 * 256 * 512)
            self.assertTrue(memory["bounds"])
            self.assertGreater(memory["gb_per_s"], 0)
            self.assertAlmostEqual(memory["level_share"],
                                   memory["gb_per_s"] / memory["level_gb_per_s"])
        sheet = self.succeed("tune", *what, "--effort", "none", "--format", "csv").out.splitlines()
        self.assertTrue(sheet[0].endswith(",read_bytes,written_bytes,gb_per_s,level,level_gb_per_s,status,layouts"))
        self.assertIn(f",{4 * (256 * 512 + 256)},{4 * 256 * 512},", sheet[1])

    def test_what_arithmetic_bounds_is_told_in_operations(self):
        shape = ("--op", "dense", "--shape", "m=128 n=128 k=512", "--db", self.db)
        self.assertRegex(self.succeed("tune", *shape, "--trials", "4", *program.AMPLE).out,
                         r"(?m)^speed +.* GFLOP/s\nof the peak +.*\nbandwidth +.* GB/s")

    def test_double_precision(self):
        f64 = [*program.SMALL, "--dtype", "f64", "--db", self.db]
        result = self.tune("--dtype", "f64")["results"][0]
        self.assertEqual(result["workload"], "dense m=64 n=64 k=64 f64 fast")
        self.assertEqual(result["efficiency"], result["gflops"] / result["peak_gflops"])
        run = self.json("run", *f64, "--format", "json")
        self.assertEqual(run["record"], result["record"])
        self.assertLess(run["largest_error"], 1e-12)  # computed in f32, it would be at least 1e-8
        self.assertIn("double", self.succeed("show", *f64, "--c").out)
        self.succeed("compile", *f64, "--output", str(self.home / "f64.twart"))
        self.succeed("explain", *f64)
        (self.home / "scaled.tw").write_text("input a: f64[40, 24]\nout: f64[i=40, j=24] = a[i, j] * 0.1f64 + 1.0f64\n")
        scaled = ["--expr", str(self.home / "scaled.tw"), "--db", self.db]
        self.succeed("tune", *scaled, "--trials", "2", *program.AMPLE)
        self.assertLess(self.json("run", *scaled, "--format", "json")["largest_error"], 1e-12)

    def test_the_printed_line_replays(self):
        done = self.succeed("tune", *program.SMALL, "--db", self.db, "--trials", "2", *program.AMPLE)
        line = next(l for l in done.out.splitlines() if l.startswith("replay"))
        words = subprocess.run(["bash", "-c", "set -- " + line.removeprefix("replay") +
                                "; printf '%s\\0' \"$@\""], capture_output=True, text=True).stdout
        program_path, *arguments = words.rstrip("\0").split("\0")
        self.assertTrue(os.path.samefile(program_path, program.PROGRAM))
        self.succeed(*arguments)

    def test_progress_is_on_stderr_and_tells_the_best(self):
        done = self.succeed("tune", *program.SMALL, "--db", self.db, "--trials", "2", *program.AMPLE)
        self.assertTrue(done.err.startswith("tuning dense m=64 n=64 k=64 f32 fast for host on 1 thread"))
        self.assertNotIn("\r", done.err)
        self.assertIn("tw1\n", done.out)

    def test_the_model_says_what_corrects_it(self):
        done = self.succeed("tune", *program.SMALL, "--db", self.db, "--trials", "40", *program.AMPLE)
        self.assertRegex(done.out, r"\nmodel +(analytic|pretrained \w+), corrected by \d+ trials: rank correlation -?\d\.\d\d")

    def test_compile_only_measures_nothing(self):
        path = str(self.home / "arm.twart")
        document = self.json("tune", *program.SMALL, "--db", self.db, "--compile-only", "--target",
                             "arm-64-linux", "--output", path, "--format", "json")
        self.assertFalse(document["results"][0]["verified"])
        self.assertTrue(pathlib.Path(path).is_file())
        self.assertFalse(pathlib.Path(self.db).exists())
        here = self.json("tune", *program.SMALL, "--db", self.db, "--compile-only", "--format", "json")
        self.assertTrue(here["results"][0]["verified"])

    def test_a_result_that_cannot_be_written_is_printed(self):
        folder = self.home / "out"
        folder.mkdir()
        process = self.start("tune", *program.SMALL, "--db", self.db, "--trials", "2", *program.AMPLE,
                             "--output", str(folder / "kernel.twart"), "--format", "json")
        self.assertIn("tuning ", process.stderr.readline())  # the path was checked before this line
        folder.rmdir()
        out, err = process.communicate(timeout=program.PATIENCE_S)
        self.assertEqual(process.returncode, 7, err)
        result = json.loads(out)["results"][0]
        self.assertIsNone(result["artifact"])
        self.assertIn("kernel.twart", result["artifact_error"])
        self.assertGreater(result["latency_ns"], 0)

    def test_a_suite_with_little_time(self):
        for seconds in (2 ** i for i in range(8)):  # a busy machine may find no kernel in 1 s
            arguments = ["tune", "--suite", "gemm", "--db", self.db, "--budget", f"{seconds}s"]
            done = self.run_program(*arguments, "--format", "json")
            if done.returncode == 0:
                break
        self.assertEqual(done.returncode, 0, done.err)
        document = json.loads(done.out)
        self.assertGreater(len(document["results"]), 0)
        self.assertGreater(len(document["failed"]), 0)
        self.assertEqual({failed["exit_code"] for failed in document["failed"]}, {6})
        # One line names the workloads that had no turn. Another names the last workload with a
        # turn, which was too short.
        lines = [line for line in done.err.splitlines() if line.endswith("give more time (--budget)")]
        self.assertLessEqual(len(lines), 2, done.err)
        self.assertIn("ended before its turn", lines[-1])
        for failed in document["failed"]:
            self.assertIn(failed["name"], " ".join(lines))
        self.assertIn("to go on with those without a kernel: ", done.err)
        # With --effort none, the results are the known kernels alone. A kernel that was timed only while
        # other processes disturbed it is not known.
        known = self.run_program(*arguments, "--effort", "none", "--format", "json")
        self.assertEqual(known.returncode, 0, known.err)
        self.assertEqual([r["name"] for r in json.loads(known.out)["results"]],
                         [r["name"] for r in document["results"] if r["status"] == "ok"])
        self.assertEqual(known.err.count("has no kernel of the workload"), 1)

    def test_a_suite_has_the_type_that_is_asked_for(self):
        for dtype, more in (("f32", []), ("bf16", ["--dtype", "bf16"])):
            results = self.json("tune", "--suite", "gemm", "--db", self.db, "--target", "cuda:sm_90a", "--dry-run",
                                "--format", "json", *more)["results"]
            self.assertEqual({result["workload"].split()[-2] for result in results}, {dtype})

    def test_a_suite_of_which_nothing_is_known(self):
        self.tuned()
        self.assertEqual(self.run_program("tune", "--suite", "gemm", "--db", self.db, "--effort", "none").returncode, 6)

    def test_imports_that_are_none(self):
        self.tuned()
        before = pathlib.Path(self.db).read_bytes()
        fresh = str(self.home / "fresh.db")
        self.fail_with(5, "db", "import", self.db, "--db", fresh, saying=["is a database", "db merge"])
        self.assertFalse(pathlib.Path(fresh).exists())
        (self.home / "notes.txt").write_text("not\na\nrecord\n")
        self.fail_with(5, "db", "import", "notes.txt", "--db", self.db, saying=["holds no records"])
        self.assertEqual(pathlib.Path(self.db).read_bytes(), before)
        lines = self.home / "all.jsonl"
        self.succeed("db", "export", str(lines), "--db", self.db)
        self.fail_with(2, "db", "merge", str(lines), "--db", self.db, saying=["db import"])
        lines.write_text(lines.read_text() + "nonsense\n")
        done = self.succeed("db", "import", str(lines), "--db", fresh)
        self.assertIn("db quarantine", done.err)
        self.assertIn("1 quarantined", done.out)
        verified = self.succeed("db", "verify", fresh).out
        self.assertIn("all is well", verified)
        self.assertIn("1 line in quarantine", verified)
        self.assertIn("db quarantine", self.succeed("db", "info", fresh).out)
        listed = self.json("db", "quarantine", fresh, "--format", "json")
        self.assertEqual([line["line"] for line in listed["lines"]], ["nonsense"])
        self.assertIn("nonsense", self.succeed("db", "quarantine", fresh).out)
        self.assertEqual(self.json("db", "quarantine", fresh, "--drop", "--format", "json")["dropped"], 1)
        self.assertEqual(self.json("db", "quarantine", fresh, "--format", "json")["quarantined"], 0)

    def test_Fault20_an_import_of_which_nothing_is_believed(self):
        self.tuned()
        lines = self.home / "all.jsonl"
        self.succeed("db", "export", str(lines), "--db", self.db)
        lines.write_text(lines.read_text().replace('"op":"dense"', '"op":"dance"'))
        fresh = str(self.home / "fresh.db")
        done = self.run_program("db", "import", str(lines), "--db", fresh)
        self.assertEqual(done.returncode, 4, done.err)
        self.assertIn("0 new", done.out)
        self.assertRegex(done.err, r"\[import\] none of \d lines was believed")
        reasons = self.json("db", "quarantine", fresh, "--format", "json")["lines"]
        self.assertIn("its hash is not that of its content", reasons[0]["reason"])

    def test_a_record_of_another_device_is_told_from_one_of_this(self):
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2:
            self.skipTest("[SKIP] with one core there is no other device")
        elsewhere = {"preexec_fn": lambda: os.sched_setaffinity(0, cores[:1])}
        device = self.tune(**elsewhere)["results"][0]["device"]
        what = [*program.SMALL, "--db", self.db]
        line = rf"(?m)^measured on +{re.escape(device)}, not on this one \(same class\)$"
        dry = self.succeed("tune", *what, "--dry-run").out
        self.assertRegex(dry, r"(?m)^known trials +0$")
        self.assertRegex(dry, line)
        self.assertRegex(self.succeed("tune", *what, "--effort", "none").out, line)
        self.assertRegex(self.succeed("run", *what).out, line)
        self.assertRegex(self.succeed("explain", *what).out, line)
        best = self.json("tune", *what, "--dry-run", "--format", "json")["results"][0]["best"]
        self.assertEqual((best["device"], best["measured_here"]), (device, False))
        known = self.json("tune", *what, "--effort", "none", "--format", "json")["results"][0]
        self.assertEqual((known["device"], known["measured_here"]), (device, False))
        ran = self.json("run", *what, "--format", "json")
        self.assertEqual((ran["measured_on"], ran["measured_here"]), (device, False))
        self.assertIn(f"stored was measured on: {device}, not on this one (same class)",
                      self.succeed("replay", best["record"][:12], "--db", self.db).out)
        self.fail_with(2, "tune", *what, "--resume", saying=["has no trials"])
        table = self.succeed("db", "query", "--db", self.db).out
        self.assertIn(device, table)
        self.assertIn(known["target"], table)
        self.assertNotIn("host", table)
        table = self.succeed("db", "query", "--db", self.db, **elsewhere).out
        self.assertIn("host", table)
        self.assertIn("this one", table)
        self.assertTrue(self.json("tune", *what, "--effort", "none", "--format", "json",
                                  **elsewhere)["results"][0]["measured_here"])
        self.assertNotIn("measured on", self.succeed("run", *what, **elsewhere).out)

    def test_databases_of_two_tuners_become_one(self):
        first = len(self.tuned() and self.records())
        other = str(self.home / "other.db")
        self.json("tune", *program.SMALL, "--db", other, "--trials", "2", *program.AMPLE,
                  "--seed", "9", "--format", "json")
        summary = self.json("db", "merge", other, "--db", self.db, "--format", "json")
        self.assertIn(summary["inserted"], (2, 3))
        both = first + summary["inserted"]
        lines = str(self.home / "all.jsonl")
        self.succeed("db", "export", lines, "--db", self.db)
        fresh = str(self.home / "fresh.db")
        self.assertEqual(self.json("db", "import", lines, "--db", fresh, "--format", "json")["inserted"],
                         both)
        saved = str(self.home / "saved.db")
        self.assertEqual(self.json("db", "recover", fresh, saved, "--format", "json")["inserted"], both)
        self.assertIn("all is well", self.succeed("db", "verify", "--db", saved).out)



if __name__ == "__main__":
    program.main()
