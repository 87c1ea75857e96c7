# SPDX-License-Identifier: Apache-2.0
"""tools/gpu_session: what it packs is small and starts by itself; without a GPU its stages say so."""

import ctypes
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import shlex
import subprocess
import tarfile
import tempfile
import unittest

import program

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools" / "gpu_session"
BUILD = os.environ.get("TW_TEST_BUILD", "")


class GpuSession(program.ProgramTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        if not BUILD:
            raise unittest.SkipTest("[SKIP] TW_TEST_BUILD has to name the build")
        cls.place = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.place.cleanup)
        cls.folder = pathlib.Path(cls.place.name) / "session"
        packed = subprocess.run([SCRIPT, "pack", cls.folder, "--build", BUILD], capture_output=True, text=True)
        if "NVRTC is in no toolkit" in packed.stderr:
            raise unittest.SkipTest("[SKIP] " + packed.stderr)
        if packed.returncode != 0:
            raise RuntimeError(packed.stderr)
        cls.bytes = sum(file.stat().st_size for file in cls.folder.rglob("*") if file.is_file())
        subprocess.run([cls.folder / "gpu_session", "--list", "figures", "out"], check=True,  # unpacks the programs
                       stdout=subprocess.DEVNULL)


    def stage(self, *arguments):
        return subprocess.run([self.folder / "gpu_session", *arguments], capture_output=True, text=True,
                              env=self.environment)

    def test_what_travels_is_small_and_starts(self):
        self.assertLess(self.bytes, 64 << 20)
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

    def libraries(self, file):
        """What the file needs, where only the pack and the system are."""
        environment = {**self.environment, "LD_LIBRARY_PATH": f"{self.folder / 'lib'}:{self.folder / 'lib-if-none'}"}
        return subprocess.run(["ldd", file], env=environment, capture_output=True, text=True).stdout

    def test_what_is_opened_at_run_time_travels_too(self):
        listed = self.libraries(self.folder / "lib" / "libxgboost.so.0")
        self.assertNotIn("not found", listed)
        for needed in ("libdmlc.so.0", "libgomp.so.1"):
            self.assertIn(str(self.folder / "lib" / needed), listed)
        out = self.home / "nvrtc"
        with tarfile.open(self.folder / "nvrtc.tar.xz") as archive:
            archive.extractall(out)
        compiler = ctypes.CDLL(str(next(out.glob("libnvrtc.so.1?"))))
        self.assertEqual(compiler.nvrtcVersion(ctypes.byref(ctypes.c_int()), ctypes.byref(ctypes.c_int())), 0)
        self.assertTrue(list(out.glob("libnvrtc-builtins.so.*")))

    def listed(self, *arguments):
        """The commands of a stage with their limits in seconds."""
        done = self.stage("--list", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [line.split("\t") for line in done.stdout.splitlines()]
        return [(int(limit.split()[0]), shlex.split(command)) for limit, command in lines]

    def test_stages_list_commands_of_a_minute_each(self):
        out = self.home / "out"
        tests = self.listed("test", out)
        filters = [word.split("=")[1] for _, command in tests for word in command if "gtest_filter=" in word]
        self.assertEqual(filters[0], "Producers.LargeBlocksAgreeOnCuda")
        for wanted in ("MnMajor.ProductsAgreeOnCuda", "Cuda.SpecialisedPhasesCompute", "Cuda.ComparesArrays",
                       "LongSums.OfSplitTf32AgreeOnCuda", "GpuRandom.SchedulesAgreeOnCuda"):
            self.assertIn(wanted, filters)
        figures = self.listed("figures", out)
        self.assertGreaterEqual(len(figures), 9)
        for limit, command in tests + figures:
            self.assertLessEqual(limit, 60)
            self.assertTrue(os.access(command[0], os.X_OK), command)
        self.assertLessEqual(sum(limit for limit, _ in figures), 9 * 60)
        self.assertFalse(out.exists())

    def test_figures_have_schedules_of_their_own(self):
        for name in ("gemm_4096_bf16", "gemm_8192_bf16"):
            schedule = (self.folder / "figures" / f"{name}.tw1").read_text()
            self.assertIn(" wgmma_", schedule)
        out = self.home / "out"
        done = self.stage("figures", out)
        self.assertEqual(done.returncode, 7, done.stderr)  # no GPU; not 2, which is of wrong flags
        self.assertEqual(set(json.loads((out / "gpu_session.json").read_text())["exit_codes"]), {7})

    def test_a_command_that_hangs_leaves_the_rest_of_the_stage(self):
        loader = importlib.machinery.SourceFileLoader("gpu_session", str(self.folder / "gpu_session"))
        session = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_session", loader))
        loader.exec_module(session)
        stage = session.Stage(self.home / "out")
        session.HERE = pathlib.Path("/bin")
        self.assertEqual(stage.run("hangs", "sleep", 600, limit_s=1), 75)
        self.assertEqual(stage.run("says", "echo", "on"), 0)
        self.assertEqual((self.home / "out" / "says").read_text(), "on\n")

    def test_fault50_without_a_gpu_stages_say_so(self):
        out = self.home / "out"
        done = self.stage("test", out)
        self.assertEqual(done.returncode, 7, done.stderr)
        codes = json.loads((out / "gpu_session.json").read_text())["exit_codes"]
        self.assertEqual(codes[:2] + codes[-2:], [7, 7, 7, 7])  # of searches, of the tests, of explain
        self.assertEqual(set(codes[2:-2]), {0})  # of tests that skip
        self.assertIn("[  SKIPPED ]", (out / "tests.txt").read_text())
        done = self.stage("bench", "conv", out, "--", "--batch", "32")
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertIn("--batch 32", done.stderr)
        self.assertIn("[cuda]", (out / "bench_conv.json.log").read_text())

    def test_a_suite_that_is_not_there_is_the_programs_error(self):
        self.assertEqual(self.stage("tune", "nonsense", self.home / "out").returncode, 2)


if __name__ == "__main__":
    program.main()
