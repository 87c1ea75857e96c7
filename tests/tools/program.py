# SPDX-License-Identifier: Apache-2.0
"""Runs the built program as a person would, in a home of its own. TILEWRIGHT_PROGRAM is the
program's path."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
PROGRAM = os.environ.get("TW_TEST_PROGRAM", "")
SANITIZED = os.environ.get("TW_TEST_SANITIZE", "") != ""
NIGHTLY = "TW_NIGHTLY" in os.environ  # as tests/nightly.h says
SMALL = ["--op", "dense", "--shape", "m=64,n=64,k=64"]
AMPLE = ["--budget", "10m"]  # a budget for runs that end by their number of trials
PATIENCE_S = 300  # longer than any process takes that is not stuck
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # even if the tests run under nohup
ONE_ERROR = re.compile(r"\Atilewright: \[[^\]]+\] [^\n]+\n\Z")


class ProgramTest(unittest.TestCase):
    run_of_all = None  # folder with copied files, home and document of the run of tuned()

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = pathlib.Path(folder.name)
        self.db = str(self.home / "test.db")
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("TILEWRIGHT_", "XDG_")) or name == "TILEWRIGHT_MAX_ISA"}
        self.environment["HOME"] = folder.name
        self.environment["TILEWRIGHT_SHIPPED"] = "none"  # these records have their own tests
        self.environment["CUDA_VISIBLE_DEVICES"] = ""  # with and without a GPU, output is the same
        temporary = tempfile.TemporaryDirectory()  # killed runs leave files there
        self.addCleanup(temporary.cleanup)
        os.chmod(temporary.name, 0o777)
        self.environment["TMPDIR"] = temporary.name

    def start(self, *arguments, environment=None, **options):
        options.setdefault("cwd", self.home)
        options.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.Popen([PROGRAM, *arguments], env={**self.environment, **(environment or {})},
                                stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, errors="surrogateescape", **options)

    def run_program(self, *arguments, **options):
        """Runs the program and returns the finished process. Each run must end by itself and not by
        a signal."""
        process = self.start(*arguments, **options)
        process.out, process.err = process.communicate(timeout=PATIENCE_S)
        self.assertGreaterEqual(process.returncode, 0, process.err)
        return process

    def succeed(self, *arguments, **options):
        process = self.run_program(*arguments, **options)
        self.assertEqual(process.returncode, 0, process.err)
        return process

    def fail_with(self, code, *arguments, saying=(), **options):
        """Expects this exit code, nothing on stdout, and as the last line of stderr one error that
        contains the words."""
        process = self.run_program(*arguments, **options)
        self.assertEqual(process.returncode, code, process.err)
        self.assertEqual(process.out, "")
        last = process.err[process.err.rfind("tilewright: ["):]
        self.assertRegex(last, ONE_ERROR)
        for words in saying:
            self.assertIn(words, last)
        return process

    def json(self, *arguments, **options):
        document = json.loads(self.succeed(*arguments, **options).out)
        self.assertEqual(document["schema_version"], 1)
        return document

    def tune(self, *arguments, **options):
        """Makes a short run that measures, and returns the document of its results."""
        return self.json("tune", *SMALL, "--db", self.db, "--trials", "4", *AMPLE, "--format", "json",
                         *arguments, **options)

    def tuned(self):
        """Returns the document of a run of tune() without arguments, for tests that only need some
        records. The home has the run's database and kernels. In a process, the first test that
        calls this makes the run; the others get copies of its files."""
        if ProgramTest.run_of_all is None:
            document = self.tune()
            folder = tempfile.TemporaryDirectory()
            shutil.copytree(self.home, folder.name, dirs_exist_ok=True, ignore=lambda place, names: [
                name for name in names if place == str(self.home) and not name.startswith((".cache", "test.db"))])
            ProgramTest.run_of_all = folder, str(self.home), document
            return document
        folder, home, document = ProgramTest.run_of_all
        shutil.copytree(folder.name, self.home, dirs_exist_ok=True)
        return json.loads(json.dumps(document).replace(home, str(self.home)))

    def short(self, **options):
        """Makes a run of one trial."""
        return self.succeed("tune", *SMALL, "--trials", "1", *AMPLE, **options)

    def with_linker(self, body):
        """Returns an environment in which `ld` is the shell script `body`. In the script, `link`
        runs the real ld."""
        folder = self.home / "bin"
        folder.mkdir(exist_ok=True)
        (folder / "ld").write_text(f"#!/bin/sh\nlink() {{ exec {shutil.which('ld')} \"$@\"; }}\n{body}\n")
        (folder / "ld").chmod(0o755)
        return {"PATH": f"{folder}:{self.environment['PATH']}"}

    def mounted(self, options, *arguments, environment=None):
        """Runs the program while `home/mount` is a mounted tmpfs with these options."""
        place = self.home / "mount"
        place.mkdir(exist_ok=True)
        mount = ["unshare", "--mount", "sh", "-c",
                 f'mount -t tmpfs -o {options} none "$0" && exec "$@"', place]
        if subprocess.run([*mount, "true"], capture_output=True).returncode != 0:
            self.skipTest("[SKIP] file systems cannot be mounted here")
        return subprocess.run([*mount, PROGRAM, *arguments], capture_output=True, text=True,
                              cwd=self.home, env={**self.environment, **(environment or {})})


def main():
    if not PROGRAM:
        sys.exit("TW_TEST_PROGRAM has to name the program")
    unittest.main(module="__main__")
