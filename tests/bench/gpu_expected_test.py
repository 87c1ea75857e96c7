# SPDX-License-Identifier: Apache-2.0
"""Tests the script that collects predicted times of kernels for a GPU, and the tables that are made from them."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import gpu_expected  # noqa: E402
import gpu_tables  # noqa: E402
from quoting import Document, Failure  # noqa: E402

ENVIRONMENT = 7  # exit code of the script if NVRTC is missing


def row(name, group="`gemm`, bf16", **others):
    return {"name": name, "group": group, "expected_us": 2.5, "limited_by": "launches", "launches": 2,
            "occupancy": [0.125, 1.0], "occupancy_limited_by": ["registers", "threads"], "choice_cpu_s": 1.25,
            "compile_cpu_ms": [120.0, 100.0], "spilled_bytes": 0, "registers_estimated": False, **others}


def document(rows, date="2026-11-30"):
    summary = {"median_ms": 110.0, "cpu_median_ms": 90.0, "kernel_median_ms": 55.0, "others_busy": 0.1}
    return Document("zen4_2_cores", "gpu_expected", {
        "suite": "gpu_expected", "date": date, "nvrtc": {"version": "13.0", "passes": [summary, summary]},
        "rows": rows})


def text_of(table):
    return table.text(lambda cell: cell).replace("\n  ", " ")


class Workloads(unittest.TestCase):
    def test_every_row_of_every_suite_is_there(self):
        items = gpu_expected.standing()
        self.assertEqual(len({(item.group, item.name) for item in items}), len(items))
        for path in (ROOT / "bench" / "workloads").glob("*.tsv"):
            names = [line.split("\t")[0] for line in path.read_text().splitlines() if not line.startswith("#")]
            found = [item.name for item in items if item.group.startswith(f"`{path.stem}`")]
            self.assertEqual(found, names * (len(found) // len(names)), path.stem)
            self.assertGreater(len(found), 0, path.stem)

    def test_columns_become_flags(self):
        items = {(item.group, item.name): item.flags for item in gpu_expected.standing()}
        self.assertEqual(items["`gemm`, f32", "sq256"],
                         ("--op", "dense", "--shape", "m=256 n=256 k=256", "--dtype", "f32"))
        self.assertEqual(items["`gemm`, bf16", "attn_av_12_128"],
                         ("--op", "batch_matmul", "--shape", "b=12 m=128 n=64 k=128", "--dtype", "bf16"))
        self.assertEqual(items["`resnet50_conv`, bf16, 32 images, in=NHWC out=NHWC", "r04"],
                         ("--op", "conv2d", "--shape",
                          "n=32 c=64 h=56 w=56 k=64 r=3 s=3 stride=1 pad=1 dilation=1 groups=1", "--dtype", "bf16",
                          "--layout", "in=NHWC", "--layout", "out=NHWC"))


class Tables(unittest.TestCase):
    def test_a_suite_has_a_row_and_a_table(self):
        documents = [document([row("a"), row("b", launches=1, expected_us=3.5)]), document([row("old")], "2026-11-29")]
        summary = text_of(gpu_tables.gpu_expectations(documents))
        self.assertIn("| `gemm`, bf16 | 2 | 2.5, 3.0, 3.5 | 2 (1), 1 (1) | launches (2) | 1.2, 1.2, 1.2 | "
                      "100, 100, 100 |", summary)
        self.assertIn("NVRTC 13.0 compiled the CUDA text of a choice on Zen 4 in a median of 110 ms", summary)
        rows = text_of(gpu_tables.gpu_expected_rows(documents))
        self.assertIn("## `gemm`, bf16\n", rows)
        self.assertIn("| a | 2.5 | launches | 2 | 12 %, registers; 100 %, threads | 1.2 |", rows)
        self.assertNotIn("old", rows)

    def test_spills_are_refused(self):
        with self.assertRaisesRegex(Failure, r"a \(`gemm`, bf16\) spills 8 bytes of registers: expected 0"):
            gpu_tables.gpu_expectations([document([row("a", spilled_bytes=8)])])
        with self.assertRaisesRegex(Failure, "a .* has no registers from the compiler"):
            gpu_tables.gpu_expected_rows([document([row("a", registers_estimated=True)])])


class Script(unittest.TestCase):
    def test_it_writes_what_the_tables_need(self):
        build = pathlib.Path(os.environ["TW_TEST_PROGRAM"]).parents[1]
        with tempfile.TemporaryDirectory() as folder:
            output = pathlib.Path(folder) / "figures.json"
            done = subprocess.run(
                [sys.executable, ROOT / "bench" / "gpu_expected.py", "--build", build, "--output", output, "--only",
                 "^large arrays, bf16 (gelu|rmsnorm)"], capture_output=True, text=True)
            if done.returncode == ENVIRONMENT and "NVRTC is missing" in done.stderr:
                self.skipTest(done.stderr)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            written = json.loads(output.read_text())
        rows = written["rows"]
        self.assertEqual([row["name"] for row in rows], ["gelu_8192_3072", "rmsnorm_8192_4096"])
        for figures in rows:
            self.assertEqual(len(figures["compile_cpu_ms"]), len(written["nvrtc"]["passes"]))
            self.assertEqual(len(figures["occupancy"]), figures["launches"])
            self.assertGreater(figures["expected_us"], 0)
        table = text_of(gpu_tables.gpu_expectations([Document("zen4_2_cores", "gpu_expected", written)]))
        self.assertIn("| large arrays, bf16 | 2 |", table)


if __name__ == "__main__":
    unittest.main()
