#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of the package's types: mypy --strict accepts the examples of docs/python.md, and finds planted
mistakes."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

CHECKED = r"(script|__init__|commands|errors|functions|onnx|onnx_writer|options|paths|signatures)\.py"

# Definitions that the examples of docs/python.md use.
PRELUDE = """
import numpy as np

x = np.zeros((64, 128), np.float32)
weights = np.zeros((128, 32), np.float32)
y = np.zeros((64, 32), np.float32)
image = np.zeros((1, 3, 224, 224), np.float32)
"""


class Types(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)

    def check(self, text):
        """Returns the lines of errors that mypy --strict finds in the script `text` and in the
        fully annotated modules."""
        script = self.folder / "script.py"
        script.write_text(text)
        environment = {**os.environ, "MYPYPATH": os.environ["PYTHONPATH"].split(os.pathsep)[0]}
        done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", self.folder / "cache", script],
                              capture_output=True, text=True, env=environment, cwd=self.folder)
        self.assertLess(done.returncode, 2, done.stdout + done.stderr)
        return [line for line in done.stdout.splitlines() if re.search(CHECKED + r":\d+: error:", line)]

    def test_the_examples_of_the_documentation(self):
        blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / "python.md").read_text(), re.M | re.S)
        self.assertGreater(len(blocks), 3)
        self.assertEqual(self.check(PRELUDE + "".join(blocks)), [])

    def test_mistakes_are_found(self):
        preamble = "import tilewright as tw\nschedule = tw.Schedule(tw.make_workload('dense', m=8, n=8, k=8))\n"
        for line, message in (("schedule.split('out', 'm', 'four')", 'Argument 3 to "split"'),
                              ("schedule.split('out', 'm')", 'Missing positional argument "factor"'),
                              ("schedule.splitt('out', 'm', 4)", 'has no attribute "splitt"'),
                              ("tw.tune(schedule)", 'Argument 1 to "tune"'),
                              ("tw.tune(tw.make_workload('dense'), budgett=3)", '"budgett"'),
                              ("tw.Axis(3)", 'Argument 1 to "Axis"'),
                              ("record: int = tw.Store('x').query()[0].latency_ns", '"float"')):
            errors = self.check(preamble + line + "\n")
            self.assertEqual(len(errors), 1, (line, errors))
            self.assertIn(message, errors[0])

    def test_each_step_has_its_parameters(self):
        stub = (pathlib.Path(os.environ["PYTHONPATH"].split(os.pathsep)[0]) / "tilewright" / "_tilewright.pyi").read_text()
        schedule = stub[stub.index("class Schedule:"):]
        schedule = schedule[:schedule.index("\nclass ")]
        self.assertIn("def split(self, stage: str, loop: str, factor: int, tail: str = 'guard', "
                      "names: collections.abc.Sequence[str] = ...) -> Schedule:", schedule)
        self.assertIn("def reorder(self, stage: str, loops: collections.abc.Sequence[str]) -> Schedule:", schedule)
        self.assertNotIn("*args", schedule)


if __name__ == "__main__":
    unittest.main()
