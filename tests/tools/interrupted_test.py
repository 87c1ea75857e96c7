# SPDX-License-Identifier: Apache-2.0
"""Tests runs that are interrupted or killed."""

import contextlib
import fcntl
import json
import os
import pathlib
import signal
import subprocess

import program


class Interrupted(program.ProgramTest):
    """Fault31, 32, 33: a signal ends the run, its measurements stay, and the next run continues
    from them."""

    def begin(self, *arguments):
        process = self.start("tune", *program.SMALL, "--db", self.db, *program.AMPLE, *arguments)
        self.addCleanup(process.kill)
        return process

    def count(self):
        if not os.path.exists(self.db):
            return 0
        done = self.run_program("db", "info", "--db", self.db, "--format", "json")
        return json.loads(done.out)["records"] if done.returncode == 0 else 0

    def wait_for_trials(self, process, before=0):
        """Waits until the database has more than `before` trials. Another process counts them, like
        somebody who watches the run."""
        while process.poll() is None:
            if self.count() > before:
                return
        self.fail("the run ended by itself: " + process.stderr.read())

    def interrupt(self, *signals):
        before = self.count()
        process = self.begin()
        self.wait_for_trials(process, before)
        for number in signals:
            process.send_signal(number)
        out, err = process.communicate(timeout=program.PATIENCE_S)
        self.assertEqual(process.returncode, 130, err)
        self.assertIn("all is well", self.succeed("db", "verify", "--db", self.db).out)
        return out, err

    def workers(self, process):
        """Returns the builders and runners of a run, and the processes that these started."""
        found, parents = [], [process.pid]
        while parents:
            listed = pathlib.Path(f"/proc/{parents[0]}/task/{parents[0]}/children")
            children = [int(child) for child in listed.read_text().split()] if listed.exists() else []
            parents = parents[1:] + children
            found += children
        return found

    def signal_workers(self, process, number):
        for worker in self.workers(process):
            with contextlib.suppress(ProcessLookupError):
                os.kill(worker, number)

    def assert_nobody_is_blamed(self):
        """Asserts that no trial says that its schedule is wrong, or counts as tried without having been measured."""
        lines = self.succeed("db", "export", "-", "--db", self.db).out.splitlines()
        statuses = {json.loads(line)["status"] for line in lines if '"record"' in line}
        self.assertEqual(statuses - {"ok", "hopeless", "duplicate", "unstable", "too_fast", "lost"}, set())

    def test_Fault84_signals_to_all_processes_of_a_run(self):
        # The other tests of signals show that the two signals are handled alike.
        for number in (signal.SIGTERM, signal.SIGHUP) if program.NIGHTLY else (signal.SIGTERM,):
            process = self.begin()
            self.wait_for_trials(process, self.count())
            self.signal_workers(process, number)
            process.send_signal(number)
            _, err = process.communicate(timeout=program.PATIENCE_S)
            self.assertEqual(process.returncode, 130, err)
            self.assert_nobody_is_blamed()

    def test_Fault31_nohup_keeps_a_run_going(self):
        process = self.start("tune", *program.SMALL, "--db", self.db, *program.AMPLE,
                             preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.addCleanup(process.kill)
        self.wait_for_trials(process)
        process.send_signal(signal.SIGHUP)
        self.wait_for_trials(process, self.count())
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=program.PATIENCE_S)
        self.assertEqual(process.returncode, 130, err)

    def test_Fault84_86_88_workers_that_are_ended_or_killed(self):
        process = self.begin()
        self.signal_workers(process, signal.SIGKILL)  # most likely while the machine is measured
        for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGINT):
            self.wait_for_trials(process, self.count())
            self.signal_workers(process, number)
        self.wait_for_trials(process, self.count())
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=program.PATIENCE_S)
        self.assertEqual(process.returncode, 130, err)
        self.assert_nobody_is_blamed()

    def test_Fault31_once(self):
        out, err = self.interrupt(signal.SIGINT)
        self.assertIn("replay", out)  # the best kernel so far
        self.assertIn("interrupted; to go on:", err)
        self.assertIn("--budget 10m", err)
        more = self.tune("--resume")
        self.assertGreater(more["results"][0]["known_trials"], 0)

    def test_Fault31_at_once_with_kernels_known(self):
        known = self.tune()["results"][0]
        process = self.begin()
        self.assertIn("tuning ", process.stderr.readline())
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=program.PATIENCE_S)
        self.assertEqual(process.returncode, 130, err)
        self.assertRegex(out, r"(?m)^result +interrupted")
        self.assertNotIn("turn", err)
        self.assertRegex(out, r"(?m)^latency +[0-9.]+ ")
        self.assertIn("tw1\n", out)
        if self.count() > sum(known["trials"].values()):
            self.skipTest("a candidate was measured before the signal came")
        self.assertRegex(out, rf"(?m)^record +{known['record']}$")
        self.assertIn("interrupted before anything new was measured; the result is the best stored kernel", err)
        self.assertNotIn("before any candidate", err)

    def test_Fault31_at_once_with_kernels_known_as_json(self):
        known = self.tune()["results"][0]
        process = self.begin("--format", "json")
        self.assertIn("tuning ", process.stderr.readline())
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=program.PATIENCE_S)
        self.assertEqual(process.returncode, 130, err)
        result = json.loads(out)["results"][0]
        self.assertEqual((result["ended"], result["artifact"]), ("interrupted", None))
        if not result["trials"]:
            self.assertEqual(result["record"], known["record"])
            self.assertIn("before anything new was measured", result["artifact_error"])

    def test_Fault31_33_a_suite_goes_on_where_it_was(self):
        suite = ["tune", "--suite", "other", "--db", self.db, "--format", "json"]
        process = self.start(*suite, *program.AMPLE)
        self.addCleanup(process.kill)
        self.wait_for_trials(process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=program.PATIENCE_S)
        self.assertEqual(process.returncode, 130, err)
        self.assertIn("tuning 10 workloads of other for host on 1 thread, 600 s, seed 1", err)
        self.assertRegex(err, r"\n  \w+ \([01]/10 done\): ")
        document = json.loads(out)
        self.assertEqual(len(document["results"]) + len(document["failed"]), 10)
        self.assertEqual({failed["exit_code"] for failed in document["failed"]}, {130})
        stored = self.count()
        more = self.json(*suite, *program.AMPLE, "--trials", "1", "--resume")
        self.assertEqual(more["failed"], [])
        everything = self.json("tune", "--suite", "other", "--dry-run", "--format", "json")
        self.assertEqual([result["name"] for result in more["results"]],
                         [result["name"] for result in everything["results"]])
        self.assertGreater(sum(result["known_trials"] for result in more["results"]), 0)
        self.assertGreater(self.count(), stored)

    def test_Fault31_twice(self):
        self.interrupt(signal.SIGINT, signal.SIGINT)

    def test_Fault31_once_when_all_trials_are_done(self):
        """The signal also cuts short the final comparison, the confirmation and the build of the
        winner."""
        process = self.start("tune", *program.SMALL, "--db", self.db, "--trials", "8")
        self.addCleanup(process.kill)
        while process.poll() is None and self.count() < 8:
            pass
        process.send_signal(signal.SIGINT)  # no process gets it if the run has ended already
        out, err = process.communicate(timeout=program.PATIENCE_S)
        self.assertIn(process.returncode, (0, 130), err)
        self.assertEqual("interrupted; to go on:" in err, process.returncode == 130, err)
        self.assertEqual(self.folders_of_runs(), [])
        self.assertIn("all is well", self.succeed("db", "verify", "--db", self.db).out)

    def test_Fault17_31_while_the_database_is_locked(self):
        process = self.begin()
        self.wait_for_trials(process)
        with open(self.db + ".lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            while "waiting for" not in process.stderr.readline():
                self.assertIsNone(process.poll())
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=program.PATIENCE_S)
        self.assertEqual(process.returncode, 130, err)
        self.assertTrue(os.path.exists(self.db + ".spool.jsonl"))
        known = self.count()
        more = self.tune("--resume")["results"][0]
        self.assertGreater(more["known_trials"], 0)
        self.assertGreater(self.count(), known + sum(more["trials"].values()))  # includes the spooled trials
        self.assertIn("all is well", self.succeed("db", "verify", "--db", self.db).out)

    def test_Fault31_the_folder_of_a_killed_run_is_removed_by_the_next(self):
        process = self.begin()
        self.wait_for_trials(process)
        process.kill()
        process.communicate()
        self.assertEqual(len(self.folders_of_runs()), 1)
        self.tune()
        self.assertEqual(self.folders_of_runs(), [])

    def folders_of_runs(self):
        return [name for name in os.listdir(self.environment["TMPDIR"]) if name.startswith("tilewright-run-")]

    def test_Fault32_sigterm_and_sighup(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            self.interrupt(number)

    def test_Fault32_workers_die_with_a_killed_parent(self):
        process = self.begin()
        self.wait_for_trials(process)
        workers = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True)
        workers = [int(pid) for pid in workers.stdout.split()]
        self.assertTrue(workers)
        process.kill()
        process.communicate()
        for pid in workers:
            while os.path.exists(f"/proc/{pid}") and "State:\tZ" not in self.status_of(pid):
                pass
        self.tune("--resume")

    @staticmethod
    def status_of(pid):
        try:
            return pathlib.Path(f"/proc/{pid}/status").read_text()
        except OSError:
            return "State:\tZ"


if __name__ == "__main__":
    program.main()
