# SPDX-License-Identifier: Apache-2.0
"""Tests hostile surroundings: no home, odd paths, tight limits, missing tools, read-only
folders."""

import contextlib
import fcntl
import json
import os
import pathlib
import re
import resource
import sqlite3
import subprocess
import unittest

import program

NOBODY = 65534


class Surroundings(program.ProgramTest):
    def test_Fault17_a_locked_database_is_waited_for(self):
        self.tuned()
        lines = str(self.home / "all.jsonl")
        self.succeed("db", "export", lines, "--db", self.db)
        with open(self.db + ".lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            process = self.start("db", "import", lines, "--db", self.db)
            self.addCleanup(process.kill)
            self.assertIn("waiting for", process.stderr.readline())
        out, err = process.communicate(timeout=program.PATIENCE_S)
        self.assertEqual(process.returncode, 0, err)

    def test_Fault19_read_only_folder_is_named_at_the_start(self):
        options = self.as_nobody()
        folder = self.home / "ro"
        folder.mkdir(mode=0o555)
        done = self.fail_with(4, "tune", *program.SMALL, "--db", str(folder / "x.db"),
                              saying=["cannot be written", "--db"], **options)
        self.assertNotIn("tuning", done.err)

    def as_nobody(self):
        """Returns options that start the program as a user who is subject to permissions. Skips the
        test if there is no such user."""
        if os.geteuid() != 0:
            return {"cwd": "/"}
        self.home.chmod(0o755)
        try:
            subprocess.run([program.PROGRAM, "version"], user=NOBODY, capture_output=True, check=True)
        except (PermissionError, subprocess.CalledProcessError):
            self.skipTest("[SKIP] another user cannot run the program here")
        return {"cwd": "/", "user": NOBODY}

    def test_Fault56_a_home_that_cannot_be_entered(self):
        options = self.as_nobody()
        home = self.home / "closed"
        home.mkdir(mode=0)
        self.addCleanup(home.chmod, 0o700)
        self.fail_with(4, "tune", *program.SMALL, saying=["cannot be reached (Permission denied)", "--db"],
                       environment={"HOME": str(home)}, **options)

    def test_Fault56_a_home_that_cannot_be_written(self):
        options = self.as_nobody()
        home = self.home / "ro"
        home.mkdir(mode=0o555)
        self.addCleanup(home.chmod, 0o755)
        done = self.run_program("doctor", environment={"HOME": str(home)}, **options)
        self.assertRegex(done.out, r"cache .*cannot be made \(Permission denied\)")

    def test_Fault13_a_workload_of_a_tebibyte(self):
        huge = ["--op", "dense", "--shape", "m=262144,n=1048576,k=1"]
        for verb in ("tune", "run"):
            self.fail_with(7, verb, *huge, "--db", self.db, saying=["too much for this machine", "memory"])

    def test_Fault73_a_lesser_machine(self):
        for isa, beyond, loop in (("sse41", "avx", "baseline"), ("avx2", "avx512", "avx2")):
            with self.subTest(isa):
                limit = {"TILEWRIGHT_MAX_ISA": isa}
                db = str(self.home / f"{isa}.db")
                tuned = self.json("tune", *program.SMALL, "--db", db, "--trials", "4", *program.AMPLE,
                                  "--format", "json", environment=limit)["results"][0]
                self.assertNotIn(beyond, tuned["target"])
                self.assertLess(tuned["efficiency"], 1.2)
                for record in self.json("db", "query", "--db", db, "--format", "json")["records"]:
                    self.assertEqual(record["target"], tuned["target"])
                self.assertNotIn(beyond, self.succeed("list", "targets", environment=limit).out)
                findings = {finding["name"]: finding["text"] for finding in json.loads(self.run_program(
                    "doctor", "--format", "json", "--db", db, environment=limit).out)["findings"]}
                self.assertEqual(findings["target"], tuned["target"])
                self.assertIn(f"up to {isa}, as TILEWRIGHT_MAX_ISA", findings["instruction sets"])
                self.assertIn(f"({loop})", findings["peak"])

    def test_Fault73_a_kernel_that_a_lesser_machine_cannot_run(self):
        own = self.tuned()["results"][0]
        if own["target"].endswith("-sse4_1"):
            self.skipTest("[SKIP] this machine has no instruction set above sse41")
        self.fail_with(6, "show", *program.SMALL, "--db", self.db, environment={"TILEWRIGHT_MAX_ISA": "sse41"})

    def test_Fault73_the_limit_is_named_where_it_is_the_cause(self):
        own = self.tuned()["results"][0]
        if "avx" not in own["target"]:
            self.skipTest("[SKIP] this machine has no instruction set above sse41")
        limit = {"TILEWRIGHT_MAX_ISA": "SSE41"}
        cause = "TILEWRIGHT_MAX_ISA=SSE41 allows no more"
        self.fail_with(3, "replay", own["record"][:12], "--db", self.db, saying=[cause], environment=limit)
        self.fail_with(3, "run", own["record"][:12], "--db", self.db, saying=[cause], environment=limit)
        self.fail_with(3, "tune", *program.SMALL, "--target", "x86-64-v3", "--db", self.db, saying=[cause],
                       environment=limit)

    def test_Fault73_an_unknown_instruction_set(self):
        for value, words in (("avx3", ["did you mean 'avx'?"]), ("neon", ["sse41, avx, avx2, avx512"])):
            self.fail_with(2, "list", saying=["TILEWRIGHT_MAX_ISA", f"'{value}'", *words],
                           environment={"TILEWRIGHT_MAX_ISA": value})
        self.succeed("list", environment={"TILEWRIGHT_MAX_ISA": "AVX512_CORE"})
        self.succeed("list", environment={"TILEWRIGHT_MAX_ISA": "amx"})  # above the features of most machines
        self.succeed("list", environment={"TILEWRIGHT_MAX_ISA": ""})

    def test_Fault19_a_read_only_database_still_answers(self):
        self.tuned()
        os.chmod(self.db, 0o444)
        self.succeed("tune", *program.SMALL, "--db", self.db, "--effort", "none")
        self.succeed("db", "info", "--db", self.db)

    def test_Fault23_a_newer_schema_is_refused(self):
        self.tuned()
        with contextlib.closing(sqlite3.connect(self.db)) as connection:
            connection.execute("PRAGMA user_version = 99")
            connection.commit()
        before = pathlib.Path(self.db).read_bytes()
        for verb in (["tune", *program.SMALL, "--trials", "1"], ["run", *program.SMALL], ["db", "info"]):
            self.fail_with(4, *verb, "--db", self.db, saying=["newer program"])
        self.assertEqual(pathlib.Path(self.db).read_bytes(), before)

    def test_Fault42_linker_that_fails(self):
        environment = self.with_linker("echo planted >&2; exit 1")
        self.fail_with(7, "tune", *program.SMALL, "--db", self.db, *program.AMPLE, saying=["planted"],
                       environment=environment)

    def test_builders_have_the_usual_priority_where_nothing_is_timed(self):
        environment = self.with_linker("echo niceness $(nice) >&2; exit 1")
        own = os.nice(0)
        for verb, niceness in ((["run", *program.SMALL], own), (["tune", *program.SMALL, "--compile-only"], own),
                               (["tune", *program.SMALL, *program.AMPLE], min(own + 10, 19))):
            self.fail_with(7, *verb, "--db", self.db, saying=[f"niceness {niceness}"], environment=environment)

    def test_Fault42_code_generator_that_is_missing(self):
        self.fail_with(7, "tune", *program.SMALL, "--db", self.db, *program.AMPLE, "--code-generator",
                       str(self.home), saying=["libtw_halide.so", "halide"])

    def ends_soon(self, *arguments, **options):
        """Returns a run that has ended within 40 s. Its budget is a few seconds, and a candidate
        would take a minute."""
        process = self.start("tune", *arguments, "--db", self.db, **options)
        self.addCleanup(process.kill)
        process.out, process.err = process.communicate(timeout=40)
        return process

    def test_Fault93_a_compiler_that_outlasts_the_budget(self):
        # The linker works for the reference and hangs in the first batch of candidates.
        done = self.fail_with(7, "tune", *program.SMALL, "--db", self.db, *program.AMPLE,
                              environment=self.with_linker('echo "$@" >&2; exit 1'))
        reference = re.search(r"--require-defined=(\w+)", done.err).group(1)
        environment = self.with_linker(f'case "$*" in *{reference}*) link "$@" ;; esac; sleep 1000')
        process = self.ends_soon(*program.SMALL, "--budget", "4s", environment=environment)
        self.assertEqual(process.returncode, 6, process.err)
        self.assertIn("tilewright: [tune] no candidate was built within the budget of 4 s; give more time "
                      "(--budget)\n", process.err)
        stored = self.json("db", "info", "--db", self.db, "--format", "json")
        self.assertEqual(stored["records"], 0, "what was given up has no fault")

    def test_Fault93_candidates_that_are_slow_to_compile(self):
        # Compilers unroll the select around pow(), so a batch of candidates takes up to a minute.
        for terms in (200, 400, 600) if program.NIGHTLY else (600,):
            path = self.home / f"decay{terms}.tw"
            path.write_text(f"input x: f32[5, {terms}]\nout: f32[i=5, t={terms}] = sum(k={terms}) "
                            "select(k <= t, x[i, k] * 0.1 * pow(0.9, f32(t - k)), 0.0)\n")
            process = self.ends_soon("--expr", str(path), "--budget", "2s")
            if process.returncode != 0:
                self.assertIn("[tune] no candidate was built within the budget of 2 s; give more time (--budget)",
                              process.err)

    def test_Fault56_without_home(self):
        folder = pathlib.Path(f"/tmp/tilewright-{os.geteuid()}")
        if folder.exists():
            self.skipTest("[SKIP] the fallback folder is in use")
        del self.environment["HOME"]
        try:
            done = self.short()
            self.assertIn("HOME is not set", done.err)
            self.assertEqual(folder.stat().st_mode & 0o777, 0o700)
            self.assertIn("all is well", self.succeed("db", "verify").out)
        finally:
            subprocess.run(["rm", "-rf", folder], check=True)

    def test_Fault56_home_of_somebody_else(self):
        folder = pathlib.Path(f"/tmp/tilewright-{os.geteuid()}")
        if folder.exists():
            self.skipTest("[SKIP] the fallback folder is in use")
        del self.environment["HOME"]
        folder.mkdir()
        folder.chmod(0o777)
        try:
            self.fail_with(5, "tune", *program.SMALL, saying=["writable by others"])
        finally:
            folder.rmdir()

    def test_Fault70_leading_dash(self):
        self.short(environment={"TILEWRIGHT_DB": "-x.db"})
        self.succeed("db", "info", "--db=-x.db")
        self.succeed("db", "info", "--db", "-x.db")
        self.assertIn("all is well", self.succeed("db", "verify", "--", "-x.db").out)

    def limited(self, what, amount, **options):
        """Runs the program under a limit. It must succeed or fail with one error, without a signal
        or a stack trace."""
        done = self.run_program(
            "tune", *program.SMALL, "--db", self.db, "--trials", "1", *program.AMPLE,
            preexec_fn=lambda: resource.setrlimit(what, (amount, amount)), **options)
        self.assertIn(done.returncode, (0, 7), done.err)
        if done.returncode != 0:
            self.assertRegex(done.err[done.err.rfind("tilewright: ["):], program.ONE_ERROR)
        return done

    def test_Fault71_open_files(self):
        self.limited(resource.RLIMIT_NOFILE, 32)
        self.limited(resource.RLIMIT_NOFILE, 12)

    def test_Fault71_core_files(self):
        self.assertEqual(self.limited(resource.RLIMIT_CORE, 0).returncode, 0)

    @unittest.skipIf(program.SANITIZED, "[SKIP] sanitizers need a stack")
    def test_Fault71_small_stack(self):
        done = self.limited(resource.RLIMIT_STACK, 64 << 10)
        if done.returncode:
            self.assertIn("ulimit -s", done.err)

    @unittest.skipIf(program.SANITIZED, "[SKIP] sanitizers need address space")
    def test_Fault71_address_space(self):
        self.limited(resource.RLIMIT_AS, 300 << 20)

    @unittest.skipIf(os.geteuid() != 0, "[SKIP] needs a user without processes of its own")
    def test_Fault71_processes(self):
        self.home.chmod(0o777)
        try:
            subprocess.run([program.PROGRAM, "version"], user=NOBODY, capture_output=True, check=True)
        except (PermissionError, subprocess.CalledProcessError):
            self.skipTest("[SKIP] another user cannot run the program here")
        self.limited(resource.RLIMIT_NPROC, 1, user=NOBODY)

    def test_Fault72_no_temporary_folder(self):
        self.fail_with(7, "tune", *program.SMALL, "--db", self.db, saying=["TMPDIR"],
                       environment={"TMPDIR": str(self.home / "absent")})

    def test_Fault72_a_full_temporary_folder(self):
        done = self.mounted("size=64k", "tune", *program.SMALL, "--db", self.db, "--trials", "1",
                            environment={"TMPDIR": str(self.home / "mount")})
        self.assertEqual(done.returncode, 0, done.stderr)  # /var/tmp is used instead

    def test_Fault56_a_cache_without_execution(self):
        done = self.mounted("noexec", "run", *program.SMALL, environment={"HOME": str(self.home / "mount")})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("largest error", done.stdout)

    def test_Fault56_a_read_only_cache_is_named_at_the_start(self):
        for cache in ("mount", "mount/below"):
            done = self.mounted("ro,mode=700", "tune", *program.SMALL, "--db", self.db, "--trials", "1",
                                "--cache", str(self.home / cache))
            self.assertEqual(done.returncode, 7, done.stderr)
            self.assertRegex(done.stderr, program.ONE_ERROR)
            self.assertIn(f"{cache} ", done.stderr)
        # A command succeeds if it needs no file of the cache.
        done = self.mounted("ro,mode=700", "run", *program.SMALL, "--cache", str(self.home / "mount"))
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_full_standard_output_is_an_error(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([program.PROGRAM, "list"], env=self.environment, stdout=full,
                                  stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 7)
        self.assertIn("standard output", done.stderr)


if __name__ == "__main__":
    program.main()
