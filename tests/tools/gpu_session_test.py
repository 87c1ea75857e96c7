# SPDX-License-Identifier: Apache-2.0
"""tools/gpu_session: what it packs is small and starts by itself; without a GPU its stages say so."""

import json
import os
import pathlib
import subprocess

import program

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools" / "gpu_session"
BUILD = os.environ.get("TW_TEST_BUILD", "")


class GpuSession(program.ProgramTest):
    def setUp(self):
        super().setUp()
        if not BUILD:
            self.skipTest("[SKIP] TW_TEST_BUILD has to name the build")
        self.folder = self.home / "session"
        subprocess.run([SCRIPT, "pack", self.folder, "--build", BUILD], check=True, capture_output=True)

    def stage(self, *arguments):
        return subprocess.run([self.folder / "gpu_session", *arguments], capture_output=True, text=True,
                              env=self.environment)

    def test_what_travels_is_small_and_starts(self):
        size = sum(file.stat().st_size for file in self.folder.rglob("*") if file.is_file())
        self.assertLess(size, 64 << 20)
        libraries = {**self.environment, "LD_LIBRARY_PATH": str(self.folder / "lib")}
        for arguments in (["tilewright", "--version"], ["tilewright-gpu-bench", "--help"],
                          ["codegen_test", "--gtest_list_tests"]):
            done = subprocess.run([self.folder / arguments[0], *arguments[1:]], env=libraries,
                                  capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            needed = subprocess.run(["ldd", self.folder / arguments[0]], env=libraries,
                                    capture_output=True, text=True).stdout
            for heavy in ("libHalide", "libdnnl", "libcublas", "not found"):
                self.assertNotIn(heavy, needed)

    def test_fault50_without_a_gpu_stages_say_so(self):
        out = self.home / "out"
        done = self.stage("test", out)
        self.assertEqual(done.returncode, 7, done.stderr)
        codes = json.loads((out / "gpu_session.json").read_text())["exit_codes"]
        self.assertEqual(set(codes[:-3]), {0})  # of tests that skip
        self.assertEqual(codes[-3:], [7, 7, 7])
        self.assertIn("[  SKIPPED ]", (out / "tests.txt").read_text())
        done = self.stage("bench", "conv", out, "--", "--batch", "32")
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertIn("--batch 32", done.stderr)
        self.assertIn("[cuda]", (out / "bench_conv.json.log").read_text())

    def test_a_suite_that_is_not_there_is_the_programs_error(self):
        self.assertEqual(self.stage("tune", "nonsense", self.home / "out").returncode, 2)


if __name__ == "__main__":
    program.main()
