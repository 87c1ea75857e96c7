# SPDX-License-Identifier: Apache-2.0
"""Runs the ablation of a tiny network with the benchmark program."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "tools"))

import onnx_files as onnx  # noqa: E402

PROGRAM = os.environ.get("TW_TEST_PROGRAM", "")
CHANNELS, SIZE = 16, 6
ROWS = ["row_major", "blocked", "uniform", "local_best", "global"]


def network():
    """Returns the network conv 3x3, relu, conv 3x3, sum with the image."""
    image, filters = [1, CHANNELS, SIZE, SIZE], [CHANNELS, CHANNELS, 3, 3]
    weights = [((i * 37) % 101 - 50) / 250 for i in range(CHANNELS**2 * 9)]
    window = {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}
    return onnx.model(
        [onnx.node("Conv", ["x", "w1"], ["c1"], **window), onnx.node("Relu", ["c1"], ["r1"]),
         onnx.node("Conv", ["r1", "w2"], ["c2"], **window), onnx.node("Add", ["c2", "x"], ["y"])],
        [onnx.tensor("w1", filters, weights), onnx.tensor("w2", filters, weights[::-1])],
        [onnx.port("x", image)], [onnx.port("y", image)])


class Ablation(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = pathlib.Path(folder.name)
        (self.home / "net.onnx").write_bytes(network())

    def run_program(self, *arguments):
        return subprocess.run([PROGRAM, "--db", self.home / "test.db", *arguments], cwd=self.home,
                              env={**os.environ, "HOME": str(self.home)}, capture_output=True, text=True,
                              timeout=300)

    def test_every_row_is_timed_or_says_why_not(self):
        done = self.run_program("--ablation", "--model", "net.onnx", "--budget", "12s", "--rounds", "2",
                                "--format", "json", "--output", "out.json")
        # On a machine that is too busy for the budget, some rows are left out.
        self.assertIn(done.returncode, (0, 6), done.stderr)
        document = json.loads(done.stdout)
        self.assertEqual(document["suite"], "ablation")
        net, = document["networks"]
        self.assertEqual(net["network"], "net")
        self.assertEqual([row["name"] for row in net["rows"]], ROWS)
        timed = [row for row in net["rows"] if "error" not in row]
        self.assertEqual(done.returncode == 0, len(timed) == len(ROWS))
        for row in timed:
            self.assertGreater(row["measured_us"], 0)
            self.assertLess(row["difference"], 1e-4)
            self.assertEqual(row["transforms"] > 0, row["transforms_us"] > 0)
        if timed:
            self.assertEqual(timed[0]["speed"], 1)
        self.assertEqual(json.loads((self.home / "out.json").read_text())["networks"][0]["network"], "net")

    def test_flags_that_do_not_go_together(self):
        for arguments in (["--ablation"], ["--model", "net.onnx"],
                          ["--ablation", "--model", "net.onnx", "--suite", "gemm"]):
            done = self.run_program(*arguments)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertRegex(done.stderr, r"\Atilewright-bench: \[[^\]]+\] [^\n]+\n\Z")

    def test_a_network_that_is_not_there(self):
        done = self.run_program("--ablation", "--model", "none.onnx")
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertIn("none.onnx", done.stderr)


if __name__ == "__main__":
    unittest.main()
