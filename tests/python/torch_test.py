#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""torch.compile(backend="tilewright") where PyTorch is installed, which the project does not do: the checks of
bench/torch_compile.py without its networks."""
import importlib.util
import pathlib
import subprocess
import sys
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "bench" / "torch_compile.py"


class TorchCompile(unittest.TestCase):
    def test_its_checks_hold(self):
        if importlib.util.find_spec("torch") is None:
            self.skipTest("[SKIP] PyTorch is not installed")
        done = subprocess.run([sys.executable, SCRIPT, "--checks"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
