# SPDX-License-Identifier: Apache-2.0
"""Tests tools/gpu_session: its pack is small and complete, and without a GPU each command says so
in its results."""

import ctypes
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import tarfile
import tempfile
import types
import unittest
from unittest import mock

import program

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools" / "gpu_session"
BUILD = os.environ.get("TW_TEST_BUILD", "")
PACK_MIB = 20


def module_of(script):
    loader = importlib.machinery.SourceFileLoader("gpu_session", str(script))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_session", loader))
    loader.exec_module(module)
    return module


def files_of(archive, target):
    with tarfile.open(archive) as packed:
        packed.extractall(target)
    return target


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
        if packed.returncode != 0:
            raise RuntimeError(packed.stderr)
        cls.unpacked = files_of(cls.folder / "programs.tar.xz", pathlib.Path(cls.place.name) / "unpacked")

    def command(self, *arguments, **options):
        return subprocess.run([self.folder / "gpu_session", *arguments], capture_output=True, text=True,
                              env={**self.environment, **options.pop("environment", {})}, **options)

    def libraries(self, file):
        """Returns the shared libraries of the file as ldd finds them, in the pack and the system
        only."""
        folders = ":".join(str(self.unpacked / name) for name in ("lib", "lib-if-none"))
        return subprocess.run(["ldd", file], env={**self.environment, "LD_LIBRARY_PATH": folders},
                              capture_output=True, text=True).stdout

    def listed(self, *arguments):
        """Returns the programs of a command, each with its limit in seconds."""
        done = self.command("--list", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = [line.split("\t") for line in done.stdout.splitlines()]
        return [(int(limit.split()[0]), shlex.split(command)) for limit, command in lines]

    # ---- the pack ----

    def test_the_pack_is_small_and_starts(self):
        size = sum(file.stat().st_size for file in self.folder.iterdir())
        self.assertLess(size, PACK_MIB << 20)
        self.assertFalse((self.folder / "nvrtc.tar.xz").exists())
        libraries = {**self.environment, "LD_LIBRARY_PATH": str(self.unpacked / "lib")}
        for arguments in (["tilewright", "--version"], ["tilewright-gpu-bench", "--help"],
                          ["codegen_test", "--gtest_list_tests"]):
            file = self.unpacked / arguments[0]
            done = subprocess.run([file, *arguments[1:]], env=libraries, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            for heavy in ("libHalide", "libdnnl", "libcublas", "not found"):
                self.assertNotIn(heavy, self.libraries(file))

    def test_libraries_that_are_opened_at_run_time_are_packed(self):
        listed = self.libraries(self.unpacked / "lib" / "libxgboost.so.0")
        self.assertNotIn("not found", listed)
        for needed in ("libdmlc.so.0", "libgomp.so.1"):
            self.assertIn(str(self.unpacked / "lib" / needed), listed)

    def test_nvrtc_is_packed_on_request(self):
        session = module_of(SCRIPT)
        place = session.nvrtc_of_a_toolkit()
        if place is None:
            self.skipTest("[SKIP] NVRTC is in no toolkit here")
        session.pack_nvrtc(self.home, pathlib.Path(BUILD), place)
        nvrtc = files_of(self.home / "nvrtc.tar.xz", self.home / "nvrtc")
        compiler = ctypes.CDLL(str(next(nvrtc.glob("libnvrtc.so.1?"))))
        self.assertEqual(compiler.nvrtcVersion(ctypes.byref(ctypes.c_int()), ctypes.byref(ctypes.c_int())), 0)
        self.assertTrue(list(nvrtc.glob("libnvrtc-builtins.so.*")))

    def test_figures_have_several_schedules(self):
        place = self.unpacked / "figures"
        for name in ("gemm_4096_bf16", "gemm_8192_bf16"):
            texts = {file.name.split(".")[1]: file.read_text() for file in place.glob(f"{name}.*.tw1")}
            self.assertEqual(set(texts), {"shown", "256x128_3", "256x128_4", "128x256_3", "128x256_4", "cp_async",
                                          "plain"})
            for text in texts.values():
                self.assertIn(" wgmma_", text)
            self.assertIn("split product m 256\n", texts["256x128_3"])
            self.assertIn("pipeline a@product 4\n", texts["128x256_4"])
            self.assertIn("bulk a@product\n", texts["128x256_4"])
            self.assertNotIn("bulk", texts["cp_async"])
            self.assertNotIn("pipeline", texts["plain"])
        self.assertIn("pipeline", (place / "conv_3x3_f32.stages_4.tw1").read_text())

    def test_a_schedule_with_a_step_that_does_not_apply_is_not_packed(self):
        session = module_of(SCRIPT)
        file = self.home / "edited.tw1"
        shown = (self.unpacked / "figures" / "gemm_4096_bf16.shown.tw1").read_text()
        file.write_text(shown + "unroll product z\n")
        with self.assertRaisesRegex(SystemExit, "edited.tw1"):
            session.check_schedule(pathlib.Path(BUILD) / session.PROGRAMS["tilewright"],
                                   session.FIGURES["gemm_4096_bf16"], file)

    # ---- lists ----

    def test_lists_name_packed_programs_and_unpack_nothing(self):
        before = sorted(file.name for file in self.folder.iterdir())
        out = self.home / "out"
        check, figures, tune = (self.listed(name, out) for name in ("check", "figures", "tune"))
        filters = [word.split("=")[1] for _, command in check for word in command if "gtest_filter=" in word]
        self.assertEqual(filters[0], "Producers.LargeBlocksAgreeOnCuda")
        for wanted in ("MnMajor.ProductsAgreeOnCuda", "Cuda.SpecialisedPhasesCompute", "Cuda.ComparesArrays",
                       "LongSums.OfSplitTf32AgreeOnCuda", "GpuRandom.SchedulesAgreeOnCuda"):
            self.assertIn(wanted, filters)
        self.assertGreaterEqual(len(figures), 30)
        for limit, command in check + figures + tune:
            self.assertLessEqual(limit, 520)
            for file in (word[5:] for word in command if word.startswith("WORK/") and "results" not in word
                         and not word.endswith(".db")):
                self.assertTrue((self.unpacked / file).exists(), file)
        for limit, _ in check + figures:
            self.assertLessEqual(limit, 60)
        self.assertEqual([command[command.index("--suite") + 1] for _, command in tune],
                         ["gemm", "gemm_large", "resnet50_conv", "gemm", "resnet50_conv"])
        self.assertFalse(out.exists())
        self.assertEqual(sorted(file.name for file in self.folder.iterdir()), before)

    def test_sanitizers_and_ncu_run_where_they_exist(self):
        bin_folder = self.home / "cuda" / "bin"
        bin_folder.mkdir(parents=True)
        for name in ("compute-sanitizer", "ncu"):
            (bin_folder / name).write_text("#!/bin/sh\n")
            (bin_folder / name).chmod(0o755)
        done = self.command("--list", "check", "out", environment={"CUDA_HOME": str(self.home / "cuda")})
        self.assertIn("--tool memcheck --error-exitcode 9 --report-api-errors no", done.stdout)
        self.assertEqual(done.stdout.count("--tool"), 3)
        self.assertEqual(done.stdout.count("--clock-control none --set full -c 1 --launch-skip 2"), 4)

    def test_suites_share_the_time(self):
        (_, some), = self.listed("tune", "out", "gemm_bf16", "--", "--only", "sq256")
        self.assertEqual(some[-2:], ["--only", "sq256"])
        all_four = self.listed("tune", "out")[0][1]
        budgets = [float(command[command.index("--budget") + 1].rstrip("s")) for command in (some, all_four)]
        self.assertGreater(budgets[0], 2 * budgets[1])
        self.assertEqual(self.command("tune", self.home / "out", "nonsense").returncode, 2)
        self.assertEqual(self.command("check", self.home / "out", "--", "--seed", "2").returncode, 2)

    # ---- runs ----

    def results(self, out):
        """Returns the folder of results from the archive that a command wrote."""
        self.assertEqual({file.name for file in out.iterdir()}, {"results.tar.xz", "summary.txt"})
        return files_of(out / "results.tar.xz", self.home / f"results_of_{out.name}") / "results"

    def test_fault50_without_a_gpu_commands_say_so(self):
        for name, first in (("check", "tune_small_bf16.json"), ("figures", "figure_gemm_4096_bf16.shown.json"),
                            ("tune", "gemm_bf16.json")):
            out = self.home / name
            done = self.command(name, out)
            self.assertEqual(done.returncode, 7, done.stderr)  # no GPU (2 would mean wrong flags)
            results = self.results(out)
            codes = json.loads((results / "exit_codes.json").read_text())
            self.assertEqual(codes[first], 7)
            self.assertEqual(set(codes.values()) - {0}, {7})
            self.assertIn("[cuda]", (results / f"{first}.log").read_text())
            summary = (out / "summary.txt").read_text()
            self.assertEqual(summary, done.stdout)
            self.assertRegex(summary, rf"7  {first} \| .*\[cuda\]")
        results = self.home / "results_of_check" / "results"
        self.assertEqual(codes_of_tests(results), {7})  # all are skipped
        self.assertIn("python3", (results / "machine.txt").read_text())
        self.assertIn("ok     program", (results / "doctor.txt").read_text())

    def test_a_kept_database_is_gone_on_from(self):
        folder = self.home / "session"
        shutil.copytree(self.folder, folder)
        (folder / "kept").mkdir()
        (folder / "kept" / "tuning.db").write_text("of an earlier command")
        subprocess.run([folder / "gpu_session", "tune", self.home / "out", "gemm_f32"], capture_output=True,
                       env=self.environment)
        self.assertEqual((self.results(self.home / "out") / "tuning.db").read_text(), "of an earlier command")

    def test_without_nvrtc_nothing_runs(self):
        session = module_of(self.folder / "gpu_session")
        out = self.home / "out"
        with mock.patch.object(session, "has_nvrtc", lambda: False):
            self.assertEqual(session.run_session(session.check, out), 7)
        self.assertIn("7  nvrtc", (out / "summary.txt").read_text())
        self.results(out)

    def session_of(self, programs):
        """Returns the module, and a function that runs these programs in a session."""
        module = module_of(self.folder / "gpu_session")
        return module, lambda session: [session.run(*step[:2], **step[2]) for step in programs]

    def test_a_program_that_hangs_leaves_the_rest(self):
        module, steps = self.session_of([("hangs", ["sleep", 600], {"limit_s": 1}), ("says", ["echo", "on"], {})])
        self.assertEqual(module.run_session(steps, self.home / "out"), 75)
        results = self.results(self.home / "out")
        self.assertEqual((results / "says").read_text(), "on\n")
        self.assertEqual(json.loads((results / "exit_codes.json").read_text()), {"hangs": 75, "says": 0})

    def test_results_are_written_when_the_time_is_over(self):
        module, steps = self.session_of([("hangs", ["sleep", 600], {}), ("late", ["echo", "on"], {})])
        module.COMMAND_S = 2
        self.assertEqual(module.run_session(steps, self.home / "out"), 75)
        self.assertEqual(json.loads((self.results(self.home / "out") / "exit_codes.json").read_text()),
                         {"hangs": 75, "late": 75})

    def test_results_are_written_when_the_session_is_terminated(self):
        out = self.home / "out"
        hanging = self.home / "bin" / "nvidia-smi"  # runs for machine.txt and for the log of clocks
        hanging.parent.mkdir()
        os.mkfifo(self.home / "started")
        hanging.write_text(f"#!/bin/sh\necho clocks\necho up > {self.home}/started\nexec sleep 600\n")
        hanging.chmod(0o755)
        running = subprocess.Popen([self.folder / "gpu_session", "check", out], stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True,
                                   env={**self.environment, "PATH": f"{hanging.parent}:{os.environ['PATH']}"})
        with open(os.open(self.home / "started", os.O_RDWR), "rb", buffering=0) as started:
            self.assertEqual([started.readline() for _ in range(2)], [b"up\n"] * 2)
        running.send_signal(signal.SIGTERM)
        running.communicate(timeout=program.PATIENCE_S)
        self.assertEqual(running.returncode, 130)
        self.assertEqual((self.results(out) / "clocks.csv").read_text(), "clocks\n")

    # ---- results ----

    def test_the_summary_has_both_times_and_their_ratio(self):
        module = module_of(SCRIPT)
        bench = {"rows": [{"name": "sq4096", "ours_us": 200.0, "peer_us": 150.0}]}
        suite = {"rows": [{"name": "r01", "ours_us": 2.0, "peer_us": 3.0}, {"name": "r02", "error": "[cuda] why"}]}
        tuned = {"results": [{"latency_ns": 80000.0}]}
        for name, document in (("figure_gemm.shown.json", bench), ("conv.json", suite),
                               ("figure_softmax_f32.shown.json", tuned), ("tuned_softmax_f32.json", tuned),
                               ("torch.json", {"softmax_f32": 100.0})):
            (self.home / name).write_text(json.dumps(document))
        (self.home / "failed.json.log").write_text("why\n")
        codes = {"figure_gemm.shown.json": 0, "conv.json": 6, "figure_softmax_f32.shown.json": 0,
                 "tuned_softmax_f32.json": 0, "torch.json": 0, "failed.json": 7}
        summary = module.summary_of(types.SimpleNamespace(results=self.home, codes=codes))
        rows = [line.split() for line in summary.splitlines()]
        for row in (["gemm.shown", "200.0", "150.0", "0.750"], ["conv", "r01", "2.0", "3.0", "1.500"],
                    ["conv", "r02", "-", "-", "-"], ["softmax_f32.shown", "80.0", "100.0", "1.250"],
                    ["tuned_softmax_f32", "80.0", "100.0", "1.250"], ["7", "failed.json", "|", "why"]):
            self.assertIn(row, rows)

    def test_an_archive_that_is_too_large_leaves_out_the_largest_file(self):
        module = module_of(SCRIPT)
        module.ARCHIVE_BYTES = 100_000
        (self.home / "in").mkdir()
        (self.home / "in" / "large").write_bytes(os.urandom(200_000))
        (self.home / "in" / "small").write_text("text")
        module.archive(self.home / "in", self.home / "results.tar.xz")
        results = files_of(self.home / "results.tar.xz", self.home / "got") / "results"
        self.assertEqual([file.name for file in results.iterdir()], ["small"])

    def test_without_pytorch_its_peers_are_left_out(self):
        without = {"PYTHONPATH": str(self.home)}
        (self.home / "torch.py").write_text("raise ImportError\n")
        done = subprocess.run(["python3", self.unpacked / "torch_peers.py", "softmax_f32", "softmax", "rows=8,cols=8",
                               "f32"], capture_output=True, text=True, env={**self.environment, **without})
        self.assertEqual((done.returncode, done.stdout), (0, "{}\n"))
        self.assertEqual(len(done.stderr.splitlines()), 1)


def codes_of_tests(results):
    codes = json.loads((results / "exit_codes.json").read_text())
    return {code for name, code in codes.items() if name.startswith("test_")}


if __name__ == "__main__":
    program.main()
