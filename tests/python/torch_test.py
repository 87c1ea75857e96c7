#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the checks of bench/models/torch_compile.py without its networks: they test
torch.compile(backend="tilewright"). Needs PyTorch, which the project does not install."""
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "bench" / "models" / "torch_compile.py"


class TorchCompile(unittest.TestCase):
    def test_its_checks_hold(self):
        if importlib.util.find_spec("torch") is None:
            self.skipTest("[SKIP] PyTorch is not installed")
        with tempfile.TemporaryDirectory() as folder:  # for the program's database and predictions
            environment = {**os.environ, "XDG_DATA_HOME": folder, "XDG_CACHE_HOME": folder}
            done = subprocess.run([sys.executable, SCRIPT, "--checks"], env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
