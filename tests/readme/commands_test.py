# SPDX-License-Identifier: Apache-2.0
"""Runs the commands and the Python code of README.md, on small shapes and with small budgets."""

import os
import pathlib
import re
import shlex
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "README.md").read_text()
PROGRAM, PYTHON = os.environ.get("TW_TEST_PROGRAM", ""), os.environ.get("TW_TEST_PYTHON", "")
# Verbs that are not run: those of the script `tw` itself, and `doctor`, whose exit code depends on
# the machine.
NOT_RUN = {"test", "wheel", "doctor", "bench", "python"}
# Replacements that put small shapes and networks in place of those of the page, and end searches
# after a few trials.
SMALL = [(r"--shape \S+", "--shape n1c8h6w6k8r3s3p1"), (r"--budget \S+", "--budget 5m --trials 2"),
         (r"--model resnet\d+", "--model planted_shared_transforms"),
         (r"--op conv2d --target host", "--op conv2d --shape n1c8h6w6k8r3s3p1 --budget 5m --trials 2")]


def commands():
    """Returns the words of each line such as `$ ./tw tune --op conv2d   # why`, without `./tw` and
    the comment."""
    return [shlex.split(line, comments=True) for line in re.findall(r"^\$ \./tw (.*)$", PAGE, re.MULTILINE)]


def small(command):
    text = " ".join(command)
    for pattern, replacement in SMALL:
        text = re.sub(pattern, replacement, text)
    return text.split()


class Readme(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.environment = {**os.environ, "HOME": folder.name, "TILEWRIGHT_DB": f"{folder.name}/test.db"}
        self.folder = folder.name

    def run_here(self, command):
        done = subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, text=True,
                              timeout=300)
        self.assertEqual(done.returncode, 0, f"{command}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        return done.stdout

    def test_commands_run(self):
        run = [command for command in commands() if command[0] not in NOT_RUN]
        self.assertGreaterEqual(len(run), 8)
        for command in run:
            with self.subTest(command=" ".join(command)):
                self.run_here([PROGRAM, *small(command)])

    def test_python_runs(self):
        if not PYTHON:
            self.skipTest("[SKIP] the Python package was not built")
        block, = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
        self.assertIn("budget=10", block)
        block = block.replace("budget=10", "budget=300, trials=2") + "assert y.shape == (64, 32) and (y == 128).all()\n"
        script = pathlib.Path(self.folder) / "readme.py"
        script.write_text(block)
        self.run_here([PYTHON, str(script)])

    def test_links_lead_somewhere(self):
        targets = re.findall(r"\]\(([^)#]+)(?:#([^)]+))?\)", PAGE)
        self.assertGreater(len(targets), 20)
        for target, anchor in targets:
            with self.subTest(target=target, anchor=anchor):
                self.assertTrue((ROOT / target).exists())
                if anchor:
                    titles = re.findall(r"^#+ (.*)$", (ROOT / target).read_text(), re.MULTILINE)
                    anchors = {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}
                    self.assertIn(anchor, anchors)


if __name__ == "__main__":
    unittest.main()
