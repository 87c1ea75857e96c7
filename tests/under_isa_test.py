# SPDX-License-Identifier: Apache-2.0
"""Tests under which instruction sets a command runs. By day it runs only under the next one below
the processor's own."""

import os
import subprocess
import sys
import unittest

sys.dont_write_bytecode = True
AVX2, SSE41 = ["avx2"], ["sse41", "avx2"]  # the instruction set, then wider ones
SKIPPED = 77


def under(isas, limit, nightly=False, command=("sh", "-c", "echo $TILEWRIGHT_MAX_ISA; exit 3")):
    """Returns the exit code and the output of the command. It runs with
    TILEWRIGHT_MAX_ISA=`limit`."""
    environment = {name: value for name, value in os.environ.items() if name != "TW_NIGHTLY"}
    environment["TILEWRIGHT_MAX_ISA"] = limit
    if nightly:
        environment["TW_NIGHTLY"] = "1"
    done = subprocess.run([PROGRAM, *isas, "--", *command], env=environment, capture_output=True, text=True)
    return done.returncode, done.stdout


class UnderIsa(unittest.TestCase):
    def needs(self, feature):
        with open("/proc/cpuinfo") as cpuinfo:
            if f" {feature} " not in cpuinfo.read():
                self.skipTest(f"[SKIP] the processor has no {feature}")

    def test_by_day_the_next_one_below_runs(self):
        self.needs("avx2")
        self.assertEqual(under(SSE41, "avx2"), (3, "sse41\n"))

    def test_what_repeats_the_plain_test_is_skipped(self):
        for isas, limit in ((AVX2, "avx2"), (AVX2, "sse41"), (SSE41, "sse41")):
            code, out = under(isas, limit)
            self.assertEqual(code, SKIPPED)
            self.assertRegex(out, r"^\[SKIP\] .*: the plain test is the same\n$")

    def test_narrower_ones_wait_for_the_night(self):
        self.needs("avx512vl")
        self.assertEqual(under(AVX2, "avx512"), (3, "avx2\n"))
        self.assertEqual(under(SSE41, "avx512"),
                         (SKIPPED, "[SKIP] avx2 is tested here; sse41 in ./tw test --nightly\n"))

    def test_all_run_at_night(self):
        for isas in (AVX2, SSE41):
            for limit in ("", "avx2", "sse41"):
                self.assertEqual(under(isas, limit, nightly=True), (3, isas[0] + "\n"))

    def test_wrong_usage_fails(self):
        self.assertEqual(under(["avx3"], "")[0], 2)
        self.assertEqual(under([], "")[0], 2)
        self.assertEqual(under(SSE41, "", nightly=True, command=())[0], 2)
        self.assertEqual(under(SSE41, "", nightly=True, command=("/no/such/program",))[0], 127)


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main()
