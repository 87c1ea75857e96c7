# SPDX-License-Identifier: Apache-2.0
"""Tests tilewright-gpu-bench without a GPU, and with a fake driver, compiler and libraries."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.environ.get("TW_TEST_PROGRAM", "")


class GpuBench(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.home = pathlib.Path(folder.name)
        self.environment = {**os.environ, "HOME": folder.name, "CUDA_VISIBLE_DEVICES": ""}

    def run_program(self, *arguments, target="cuda"):
        return subprocess.run([PROGRAM, "--target", target, "--db", self.home / "test.db", *arguments],
                              env=self.environment, capture_output=True, text=True, timeout=120)

    def with_a_gpu(self, libraries):
        """Installs a fake toolkit with these libraries, and a fake driver."""
        lib64 = self.home / "cuda" / "lib64"
        lib64.mkdir(parents=True)
        for name in ("libnvrtc.so.13", *libraries):
            (lib64 / name).symlink_to(os.environ[f"TW_FAKE_{name[3:name.index('.')].upper()}"])
        drivers = self.home / "drivers"
        drivers.mkdir()
        (drivers / "libcuda.so.1").symlink_to(os.environ["TW_FAKE_CUDA"])
        self.environment.update(CUDA_HOME=str(self.home / "cuda"), LD_LIBRARY_PATH=str(drivers))

    def fails_in_one_line(self, done, code, words):
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, r"\Atilewright-bench: \[[^\]]+\] [^\n]+\n\Z")
        self.assertIn(words, done.stderr)

    def test_fault50_no_gpu(self):
        for peer in ("cublas", "cudnn"):
            self.fails_in_one_line(self.run_program("--suite", "gemm", "--peer", peer), 7, "[cuda]")

    def test_choices_need_no_gpu_if_the_architecture_is_named(self):
        choices = ["--optimum", "--suite", "gemm", "--only", "fc_1_1000_2048", "--dtype", "bf16", "--samples", "20",
                   "--format", "json"]
        done = self.run_program(*choices, target="cuda:sm_90a")
        self.assertEqual(done.returncode, 0, done.stderr)
        document = json.loads(done.stdout)
        self.assertEqual(document["machine"]["target"], "cuda:sm_90a")
        self.assertEqual(document["options"], {"samples": 20, "seed": 1})
        (row,) = document["optimum"]
        self.assertEqual(row["samples"], 20)
        self.assertLess(row["ratio"], 1.03)
        self.fails_in_one_line(self.run_program(*choices), 7, "cuda:sm_90a")

    def test_fault51_no_library(self):
        self.with_a_gpu([])
        for name in ("libcublas.so.13", "libcublas.so.12"):  # hides those of the machine
            (self.home / "drivers" / name).write_text("no library")
        self.fails_in_one_line(self.run_program("--suite", "gemm"), 7, "libcublas.so.13")

    def test_peers_are_found_and_rows_say_what_fails(self):
        self.with_a_gpu(["libcublas.so.13", "libcudnn.so.9"])
        for suite, only, peer in (("gemm", "sq256", ["cublas", "13.0.2"]),
                                  ("resnet50_conv", "r04", ["cudnn", "9.5.1"])):
            done = self.run_program("--suite", suite, "--only", only, "--tune", "no", "--graphs", "--state",
                                    "cold", "--format", "json")
            self.assertEqual(done.returncode, 6, done.stderr)
            document = json.loads(done.stdout)
            self.assertEqual([document["peer"]["name"], document["peer"]["version"]], peer)
            self.assertEqual(document["machine"]["cpu"], "Fake GPU")
            self.assertTrue(document["options"]["graphs"])
            self.assertIn("no kernel", document["rows"][0]["error"])

    def test_batches_and_types_are_part_of_the_rows(self):
        self.with_a_gpu(["libcudnn.so.9"])
        done = self.run_program("--suite", "resnet50_conv", "--only", "r04", "--tune", "no", "--batch", "1,32",
                                "--dtype", "bf16", "--format", "json")
        rows = json.loads(done.stdout)["rows"]
        self.assertEqual([row["name"] for row in rows], ["r04", "r04_n32"])
        self.assertIn("n=32", rows[1]["workload"])
        self.assertIn("bf16", rows[1]["workload"])

    def test_layouts_are_asked_of_our_kernels(self):
        self.with_a_gpu(["libcudnn.so.9"])
        conv = ["--suite", "resnet50_conv", "--only", "r04", "--tune", "no", "--format", "json"]
        done = self.run_program(*conv, "--layout", "in=NHWC", "--layout", "out=NHWC")
        self.assertIn("{in=NHWC out=NHWC}", json.loads(done.stdout)["rows"][0]["error"])
        self.fails_in_one_line(self.run_program(*conv, "--layout", "image=NHWC"), 2, "image")

    def test_what_has_no_meaning_on_a_gpu_is_refused(self):
        self.with_a_gpu(["libcublas.so.13"])
        for arguments, words in ((["--state", "network"], "hot or cold"), (["--threads", "2"], "from 1 to 1"),
                                 (["--peer", "onednn"], "cublas or cudnn"), (["--batch", "2"], "no convolution")):
            self.fails_in_one_line(self.run_program("--suite", "gemm", *arguments), 2, words)


if __name__ == "__main__":
    if not PROGRAM:
        sys.exit("TW_TEST_PROGRAM has to name the program")
    unittest.main()
